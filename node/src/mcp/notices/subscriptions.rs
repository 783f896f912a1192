//! Sessions that are told of changes: whether their client listens (a notification for which no
//! stream is open reaches nobody), and what they subscribed to, in a small file each, since a
//! session outlives the node's process and its client does not learn of that.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::mcp::{resources::Subject, transport::session_files::put};

/// What the names of files with subscriptions end in.
pub(in crate::mcp) const SUBSCRIBED: &str = "loops";

/// One session's stream for notifications.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::mcp) struct Door {
    open: usize,
    /// How often it was opened.
    pub(super) openings: u64,
}

impl Door {
    pub(super) const fn is_open(self) -> bool {
        0 < self.open
    }
}

/// The sessions of one address. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub(in crate::mcp) struct SubscriptionRegistry {
    known: Arc<Mutex<BTreeMap<String, watch::Sender<Door>>>>,
    /// Where subscriptions are remembered; `None`: nowhere.
    dir: Option<Arc<Path>>,
    /// One writes at a time, so that the latest is written last.
    writing: Arc<Mutex<()>>,
}

impl SubscriptionRegistry {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, watch::Sender<Door>>> {
        self.known.lock()
    }

    /// Remembers subscriptions in `dir`, beside the sessions.
    pub(in crate::mcp) fn in_dir(dir: Option<&Path>) -> Self {
        Self { dir: dir.map(Into::into), ..Self::default() }
    }

    fn file(&self, session: &str) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.join(session).with_extension(SUBSCRIBED))
    }

    /// What `session` subscribed to by the time it is written, for when the node starts anew.
    pub(super) async fn remember(
        &self,
        session: &str,
        subjects: impl FnOnce() -> Vec<Subject> + Send + 'static,
    ) {
        // Only a session that is known has a name that is one of ours.
        let Some(file) = self.file(session).filter(|_| self.known().contains_key(session)) else {
            return;
        };
        let writing = Arc::clone(&self.writing);
        let written = tokio::task::spawn_blocking(move || {
            let _alone = writing.lock();
            let lines: String = subjects().iter().map(|it| it.to_line() + "\n").collect();
            match lines.is_empty() {
                true => std::fs::remove_file(file),
                false => put(&file, lines.as_bytes()),
            }
        });
        if let Ok(Err(error)) = written.await {
            tracing::debug!(%error, "subscriptions are not remembered");
        }
    }

    /// What `session` had subscribed to before the node started; `None`: nothing.
    pub(super) async fn recall(&self, session: &str) -> Option<Vec<Subject>> {
        let file = self.file(session).filter(|_| self.known().contains_key(session))?;
        let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(file));
        let lines = read.await.ok()?.ok()?;
        Some(lines.lines().filter_map(Subject::of_line).collect())
    }

    /// A session began.
    pub(in crate::mcp) fn build(&self, session: &str) {
        self.known().insert(session.to_owned(), watch::Sender::default());
    }

    /// A session is not in memory any more.
    pub(in crate::mcp) fn remove(&self, session: &str) {
        self.known().remove(session);
    }

    /// `None`: no such session.
    pub(in crate::mcp) fn watch(&self, session: &str) -> Option<watch::Receiver<Door>> {
        self.known().get(session).map(watch::Sender::subscribe)
    }

    /// A stream of `session` is open for as long as the guard lives.
    pub(in crate::mcp) fn open(&self, session: &str) -> Option<Open> {
        let door = self.known().get(session).cloned()?;
        door.send_modify(|door| {
            door.open += 1;
            door.openings += 1;
        });
        Some(Open(door))
    }
}

#[derive(Debug)]
pub(in crate::mcp) struct Open(watch::Sender<Door>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|door| door.open -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_is_open_while_any_stream_is() {
        let doors = SubscriptionRegistry::default();
        assert!(doors.watch("s").is_none() && doors.open("s").is_none());
        doors.build("s");
        let door = doors.watch("s").expect("built");
        let seen = || (door.borrow().is_open(), door.borrow().openings);
        assert_eq!(seen(), (false, 0));
        let (first, second) = (doors.open("s"), doors.open("s"));
        drop(first);
        assert_eq!(seen(), (true, 2));
        drop(second);
        assert_eq!(seen(), (false, 2));
        doors.remove("s");
        assert!(doors.watch("s").is_none());
    }
}
