//! Keeps the mailboxes of this node's roles as files of Markdown, for people.
//!
//! ```text
//! broker's feed ──▶ feed ──▶ dirty set ──▶ keeper of one role ──▶ thread: plan, disk ──▶ docs/mailbox/
//! files that somebody touched ──▶ watch ──┘   └── letters: what was dropped into the outbox ──▶ link
//! ```
//!
//! The files are a projection: the broker has the mail, and whatever happens to a file, the mailbox
//! is as it was. One file per thread and role, in the box where the role's copy is, as people's
//! mailboxes have had them so far.
//!
//! - What a person wrote is never overwritten or removed (Z1): an edited file is put aside as
//!   `NAME.edited`, and told of.
//! - A file that is put into an outbox is sent as that role's, once (Z4); one that lay there before
//!   the node kept it, or that Git tracks, is not (Z9).
//! - What the node wrote is never taken for such a file: it knows its own by name, and a thread's
//!   own entries are nothing new (Z5).
//!
//! Parts: [`source`] is the seam to the broker. `home`: folders. `name`, `plan`, `dropped`: pure.
//! `disk`: single changes. `index`: what was written where. `scan`: what is there. `shared`: what
//! all work of one role has in common.

mod broker;
mod dirty_set;
mod disk;
mod dropped;
mod feed;
mod home;
mod index;
mod keeper;
mod letters;
mod name;
mod plan;
mod report;
mod roots;
mod scan;
mod shared;
pub mod source;
mod thread;
mod watch;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use tasuki_proto::id::{RoleId, WorkspaceId};
use tokio::{sync::watch::Receiver, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use self::{
    disk::Disk,
    feed::DirtySets,
    home::{Home, homes},
    keeper::Keeper,
    shared::Shared,
    source::Source,
};
pub use self::{
    report::Report,
    roots::{is_within, roots},
};

/// The root of the project that each role's mailbox belongs to.
pub type Roots = BTreeMap<RoleId, PathBuf>;

/// Names that stand for several receivers.
pub type Groups = BTreeMap<String, Vec<RoleId>>;

/// What a mirror is started with.
#[derive(Debug)]
pub struct Settings {
    /// The node's data directory.
    pub data: PathBuf,
    pub workspace: WorkspaceId,
    /// Without links: one that is found in them is refused, and looked at again.
    pub roots: Receiver<Roots>,
    /// Where the operator has them: what agents chose is reached from here, through no link.
    pub within: Option<PathBuf>,
    pub source: Arc<dyn Source>,
    /// For whom a file in an outbox is meant that names one.
    pub groups: Groups,
}

/// The mailboxes on disk of a running node. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Mirror(Arc<Inner>);

struct Inner {
    keepers: Mutex<BTreeMap<RoleId, Running>>,
    stop: CancellationToken,
    running: Mutex<Option<JoinHandle<()>>>,
    groups: Arc<Groups>,
}

/// A role's keeper at work.
struct Running {
    shared: Arc<Shared>,
    work: JoinHandle<()>,
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles: Vec<RoleId> = self.0.keepers.lock().keys().cloned().collect();
        f.debug_struct("Mirror").field("roles", &roles).finish_non_exhaustive()
    }
}

impl Mirror {
    /// Begins in the background, and for as long as it takes.
    pub fn start(settings: Settings) -> Self {
        let stop = CancellationToken::new();
        let (keepers, running) = Default::default();
        let groups = Arc::new(settings.groups.clone());
        let inner = Arc::new(Inner { keepers, stop, running, groups });
        let work = tokio::spawn(run(inner.clone(), settings));
        *inner.running.lock() = Some(work);
        Self(inner)
    }

    /// How each mailbox does.
    pub fn report(&self) -> Vec<Report> {
        let keepers = self.0.keepers.lock();
        let report = |(role, running): (&RoleId, &Running)| {
            let shared = &running.shared;
            let (files, folder) = (shared.index().len(), shared.home.folder());
            Report::new(role.to_string(), folder, files, &shared.status())
        };
        keepers.iter().map(report).collect()
    }

    /// As after a feed that could not go on where it was, and as every now and then.
    #[cfg(test)]
    fn list_all(&self) {
        for keeper in self.0.keepers.lock().values() {
            keeper.shared.dirty.all_mail();
            keeper.shared.dirty.all_files();
        }
    }

    /// Begins nothing new; what was begun with a file is ended.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        let work = self.0.running.lock().take();
        if let Some(work) = work
            && let Err(error) = work.await
        {
            tracing::warn!(%error, "the mirror had failed");
        }
    }
}

/// Has a keeper for each role, and another one when its home changes.
async fn run(inner: Arc<Inner>, settings: Settings) {
    let Settings { data, workspace, mut roots, within, source, groups: _ } = settings;
    let told = DirtySets::default();
    let following = tokio::spawn({
        let follow = feed::run(source.clone(), told.clone());
        inner.stop.clone().run_until_cancelled_owned(follow)
    });
    loop {
        let wanted = roots.borrow_and_update().clone();
        let within = within.clone();
        let wanted = move || homes(&wanted, within.as_deref());
        let wanted = tokio::task::spawn_blocking(wanted).await.unwrap_or_default();
        let leaving: Vec<RoleId> = {
            let keepers = inner.keepers.lock();
            let is_other =
                |(role, it): &(&RoleId, &Running)| wanted.get(*role) != Some(&it.shared.home);
            keepers.iter().filter(is_other).map(|(role, _)| role.clone()).collect()
        };
        end(&inner, &told, leaving).await;
        for (role, home) in wanted {
            if !inner.keepers.lock().contains_key(&role) {
                begin(&inner, &told, role, home, &data, &workspace, &source);
            }
        }
        let is_over = tokio::select! {
            () = inner.stop.cancelled() => true,
            changed = roots.changed() => changed.is_err(),
        };
        if is_over {
            break;
        }
    }
    inner.stop.cancelled().await;
    let all = inner.keepers.lock().keys().cloned().collect();
    end(&inner, &told, all).await;
    drop(following.await);
}

fn begin(
    inner: &Inner,
    told: &DirtySets,
    role: RoleId,
    home: Home,
    data: &std::path::Path,
    workspace: &WorkspaceId,
    source: &Arc<dyn Source>,
) {
    let index = index::path(data, workspace, &role);
    let stop = inner.stop.child_token();
    let disk = Disk::default();
    let mut shared = Shared::new(role.clone(), home, index, source.clone(), stop, disk);
    shared.groups = inner.groups.clone();
    let shared = Arc::new(shared);
    told.get().insert(role.clone(), shared.dirty.clone());
    let work = tokio::spawn(Keeper::new(shared.clone()).run());
    inner.keepers.lock().insert(role, Running { shared, work });
}

async fn end(inner: &Inner, told: &DirtySets, roles: Vec<RoleId>) {
    for role in roles {
        told.get().remove(&role);
        let ended = inner.keepers.lock().remove(&role);
        let Some(Running { shared, work }) = ended else { continue };
        shared.stop.cancel();
        if let Err(error) = work.await {
            tracing::warn!(%error, %role, "the keeper of a mailbox had failed");
        }
    }
}
