//! Threads that are over and are no longer kept, and files that are attached to nothing else.

use std::collections::BTreeSet;

use tasuki_proto::{id::Timestamp, mail::BoxKind};

use super::{ContentHash, Event, Mailboxes, ThreadNumber};

impl Mailboxes {
    /// Threads that were over by then.
    pub(in crate::rules) fn over(&self, before: Timestamp) -> impl Iterator<Item = ThreadNumber> {
        let all = (0..self.threads.next().0).map(ThreadNumber);
        all.filter(move |number| self.is_over(*number, before))
    }

    /// The removal of those of these threads that were over by then.
    pub(in crate::rules) fn decide_compact(
        &self,
        before: Timestamp,
        threads: &[ThreadNumber],
    ) -> Option<Event> {
        let over: BTreeSet<ThreadNumber> =
            threads.iter().copied().filter(|it| self.is_over(*it, before)).collect();
        (!over.is_empty()).then(|| Event::Compacted(over.into_iter().collect()))
    }

    /// Whether this file is kept.
    pub(in crate::rules) fn has_file(&self, hash: &ContentHash) -> bool {
        self.files.contains_key(hash)
    }

    /// A thread is over when nobody has it in the inbox, everybody has seen what was written to
    /// them, or it lapsed, and nothing happened to it since.
    fn is_over(&self, number: ThreadNumber, before: Timestamp) -> bool {
        if !self.threads.has(number) {
            return false;
        }
        let thread = self.threads.get(number);
        let is_waiting = (thread.copies.iter().enumerate())
            .any(|(at, it)| it.kind == BoxKind::Inbox || thread.unseen(at).next().is_some());
        let latest = thread.receipts().iter().map(|it| it.at).max();
        !is_waiting && latest.is_some_and(|latest| latest <= before)
    }

    pub(super) fn compacted(&mut self, threads: &[ThreadNumber]) {
        let removed: BTreeSet<ThreadNumber> = threads.iter().copied().collect();
        for number in &removed {
            let thread = self.threads.get(*number);
            let is_waiting = thread.copies.iter().any(|it| it.kind == BoxKind::Inbox);
            assert!(!is_waiting, "X4: {} is removed from an inbox", thread.id);
            for copy in 0..thread.copies.len() {
                self.unindex(*number, copy);
            }
            self.threads.remove(*number);
        }
        self.expiries.retain(|(_, thread, _)| !removed.contains(thread));
        let mut bytes = 0;
        self.files.retain(|_, file| {
            let was_attached = !file.threads.is_empty();
            file.threads.retain(|thread| !removed.contains(thread));
            let is_kept = !was_attached || !file.threads.is_empty();
            bytes += if is_kept { file.size } else { 0 };
            is_kept
        });
        self.attachment_bytes = bytes;
    }
}
