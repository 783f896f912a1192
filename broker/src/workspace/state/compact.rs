//! Bodies that nothing names any more, and records that a snapshot covers.

use tokio::sync::oneshot;

use super::State;
use crate::journal::{BodyKey, codec};

/// Bodies that are being removed.
#[derive(Debug)]
pub(in crate::workspace) struct Removal {
    pub(in crate::workspace) count: u64,
    pub(in crate::workspace) bytes: u64,
    /// Told once that is durable; closed where it is not done.
    pub(in crate::workspace) done: oneshot::Receiver<()>,
}

impl State {
    /// Removes those of these bodies, each with its length, that nothing in the state names. What
    /// is written under such a name again is queued behind.
    pub(in crate::workspace) fn remove_unnamed(&mut self, bodies: Vec<(BodyKey, u64)>) -> Removal {
        let is_unnamed =
            |key: &BodyKey| codec::text_owner(key).is_some_and(|owner| !self.workspace.has(&owner));
        let unnamed: Vec<_> = bodies.into_iter().filter(|(key, _)| is_unnamed(key)).collect();
        let bytes = unnamed.iter().map(|(_, bytes)| bytes).sum();
        let (tell, done) = oneshot::channel();
        let count = unnamed.len() as u64;
        if count == 0 {
            // Nobody waits for it yet.
            let _ = tell.send(());
        } else {
            self.writer.remove(unnamed.into_iter().map(|(key, _)| key).collect(), tell);
        }
        Removal { count, bytes, done }
    }

    /// Has a snapshot made that lets all records before it be dropped; whoever follows the feed from
    /// before it begins anew. What is returned closes once it is made, or none is.
    pub(in crate::workspace) fn drop_records(&mut self) -> oneshot::Receiver<()> {
        let (until_made, made) = oneshot::channel();
        self.begin_snapshot(self.workspace.sequence.next());
        if self.snapshot.under_way.is_some() {
            self.snapshot_waits.push(until_made);
        }
        made
    }
}
