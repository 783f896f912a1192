//! Who was last heard of in each workspace, kept over a restart of the broker.
//!
//! For people alone: no rule asks for it, so it is in a file of its own and not in the journal. It is
//! written now and then and when the broker stops; one that was killed lost what was told in the
//! last [`WRITE_MS`], and one that cannot be read is begun anew.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    host::{checked, files},
    id::{RoleId, Timestamp, WorkspaceId},
};
use tokio::{sync::Notify, task::JoinHandle, time};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::rules::presence::{Player, Sign};

/// The file's name in the data directory.
const FILE: &str = "last-seen.json";

/// Between two writes, in milliseconds: a crash may lose as much, and a disk is not woken for less.
const WRITE_MS: u64 = 5_000;

/// Roles that are remembered, of all workspaces together: some 200 bytes each. Past it whoever was
/// quiet longest is forgotten.
const ROLES_MAX: usize = 10_000;

/// Roles that are forgotten at once: to look for the one that was quiet longest goes through all.
const FORGOTTEN: usize = ROLES_MAX / 10;

/// Shared by all workspaces of a broker.
#[derive(Debug, Clone, Default)]
pub(super) struct LastSeen(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    known: Mutex<Known>,
    changed: Notify,
}

type Known = BTreeMap<(String, String), Entry>;

/// The newest sign of a role, in the file with the role's name and its workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    workspace: String,
    role: String,
    at_ms: u64,
    #[serde(default)]
    client: String,
    #[serde(default)]
    instance: String,
    #[serde(default)]
    since_ms: u64,
    #[serde(default)]
    has_left: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Contents {
    roles: Vec<Entry>,
}

impl Entry {
    fn new(workspace: &WorkspaceId, role: &RoleId, sign: &Sign) -> Self {
        let Player { client, instance, since, has_left } = sign.player.clone();
        Self {
            workspace: workspace.to_string(),
            role: role.to_string(),
            at_ms: sign.at.as_millis(),
            client,
            instance,
            since_ms: since.as_millis(),
            has_left,
        }
    }

    fn sign(&self) -> Sign {
        let (client, instance) = (self.client.clone(), self.instance.clone());
        let since = Timestamp::from_millis(self.since_ms);
        let player = Player { client, instance, since, has_left: self.has_left };
        Sign { at: Timestamp::from_millis(self.at_ms), player }
    }
}

impl LastSeen {
    pub(super) fn note(&self, workspace: &WorkspaceId, role: &RoleId, sign: &Sign) {
        let entry = Entry::new(workspace, role, sign);
        let mut known = self.0.known.lock();
        known.insert((entry.workspace.clone(), entry.role.clone()), entry);
        if ROLES_MAX < known.len() {
            forget_oldest(&mut known);
        }
        drop(known);
        self.0.changed.notify_one();
    }

    /// The newest sign of each role of a workspace.
    pub(super) fn of(&self, workspace: &WorkspaceId) -> BTreeMap<RoleId, Sign> {
        let known = self.0.known.lock();
        let first = (workspace.to_string(), String::new());
        let own = known.range(first..).take_while(|((name, _), _)| name == workspace.as_str());
        own.filter_map(|((_, role), it)| Some((role.parse().ok()?, it.sign()))).collect()
    }

    /// Reads what was kept in a data directory, and keeps it there until `stopping`; the task ends
    /// when the last of it is written.
    ///
    /// # Panics
    /// When called outside an async runtime.
    pub(super) fn keep(&self, data: &Path, stopping: CancellationToken) -> JoinHandle<()> {
        let path = data.join(FILE);
        match read(&path) {
            Ok(kept) => self.0.known.lock().extend(kept),
            Err(why) => {
                warn!(path = %path.display(), %why, "who was here before cannot be read");
            }
        }
        tokio::spawn(self.clone().write_changes(path, stopping))
    }

    async fn write_changes(self, path: PathBuf, stopping: CancellationToken) {
        let mut is_failing = false;
        let changed = async || {
            self.0.changed.notified().await;
            time::sleep(Duration::from_millis(WRITE_MS)).await;
        };
        while stopping.run_until_cancelled(changed()).await.is_some() {
            self.write_to(&path, &mut is_failing).await;
        }
        self.write_to(&path, &mut is_failing).await;
    }

    async fn write_to(&self, path: &Path, is_failing: &mut bool) {
        let roles: Vec<Entry> = self.0.known.lock().values().cloned().collect();
        if roles.is_empty() {
            return;
        }
        let file = path.to_owned();
        let write = move || files::replace(&file, &checked::to_vec(&Contents { roles })?);
        let written = tokio::task::spawn_blocking(write)
            .await
            .unwrap_or_else(|panic| Err(io::Error::other(panic)));
        // A disk that stays full is said once.
        if let Err(why) = &written
            && !*is_failing
        {
            warn!(path = %path.display(), %why, "who was last heard of is not written");
        }
        *is_failing = written.is_err();
    }
}

fn forget_oldest(known: &mut Known) {
    let mut ages: Vec<u64> = known.values().map(|it| it.at_ms).collect();
    let (_, latest, _) = ages.select_nth_unstable(FORGOTTEN - 1);
    let mut left = FORGOTTEN;
    known.retain(|_, it| {
        let is_forgotten = 0 < left && it.at_ms <= *latest;
        left -= usize::from(is_forgotten);
        !is_forgotten
    });
}

/// What a file says; nothing where there is none.
fn read(path: &Path) -> io::Result<Known> {
    let read = files::read_own(path).map_err(io::Error::other)?;
    let Some(bytes) = read else { return Ok(Known::new()) };
    let Contents { mut roles } = checked::from_slice(&bytes).map_err(io::Error::other)?;
    roles.truncate(ROLES_MAX);
    Ok(roles.into_iter().map(|it| ((it.workspace.clone(), it.role.clone()), it)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(ms: u64) -> Sign {
        let player = Player { client: format!("c {ms}"), has_left: true, ..Player::default() };
        Sign { at: Timestamp::from_millis(ms), player }
    }

    #[tokio::test]
    async fn who_was_here_is_known_to_the_next_broker() {
        let place = tempfile::tempdir().unwrap();
        let (one, two) = ("one".parse().unwrap(), "two".parse().unwrap());
        let (a, b): (RoleId, RoleId) = ("A".parse().unwrap(), "B".parse().unwrap());
        let path = place.path().join(FILE);
        let mut is_failing = false;
        let before = LastSeen::default();
        before.write_to(&path, &mut is_failing).await;
        assert!(!path.exists(), "nobody was here");
        before.note(&one, &a, &sign(1));
        before.note(&one, &a, &sign(2));
        before.note(&one, &b, &sign(3));
        before.note(&two, &a, &sign(4));
        before.write_to(&path, &mut is_failing).await;
        let next = LastSeen::default();
        let stopping = CancellationToken::new();
        let writing = next.keep(place.path(), stopping.clone());
        assert_eq!(next.of(&one), BTreeMap::from([(a.clone(), sign(2)), (b, sign(3))]));
        assert_eq!(next.of(&two), BTreeMap::from([(a, sign(4))]));
        assert!(next.of(&"on".parse().unwrap()).is_empty());
        std::fs::remove_file(&path).unwrap();
        stopping.cancel();
        writing.await.unwrap();
        assert_eq!(read(&path).unwrap().len(), 3, "written when the broker stops");
        std::fs::write(&path, b"{").unwrap();
        assert!(read(&path).is_err());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let kept = LastSeen::default();
        let workspace = "w".parse().unwrap();
        for ms in 0..=ROLES_MAX as u64 {
            kept.note(&workspace, &format!("r{ms}").parse().unwrap(), &sign(ms));
        }
        let known = kept.of(&workspace);
        assert_eq!(known.len(), ROLES_MAX + 1 - FORGOTTEN);
        let quietest = |ms: usize| known.contains_key(&format!("r{ms}").parse().unwrap());
        assert!(!quietest(FORGOTTEN - 1) && quietest(FORGOTTEN), "the quietest are forgotten");
        // Of many that were heard of at the same moment, not all are forgotten.
        for role in 0..=ROLES_MAX {
            kept.note(&workspace, &format!("s{role}").parse().unwrap(), &sign(20_000));
        }
        let count = kept.of(&workspace).len();
        assert!((ROLES_MAX - FORGOTTEN..=ROLES_MAX).contains(&count), "{count}");
    }
}
