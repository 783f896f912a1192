//! What a role's keeper has been told to look at. Told from anywhere, at any speed; it never waits.
//!
//! **Invariant:** it is bounded: what is too much to name becomes "everything".

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use tasuki_proto::mail::{BoxKind, MessageId};
use tokio::sync::Notify;

/// Threads named at once: some 2 MB; beyond it the boxes are listed.
const THREADS_MAX: usize = 50_000;

/// Files named at once; beyond it all are looked at.
const NAMES_MAX: usize = 2_048;

/// What is to be looked at.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Threads may have changed that nobody named.
    pub(super) is_all_mail: bool,
    /// With whether the role has a copy for sure; else only if there is a file of it.
    pub(super) threads: BTreeMap<MessageId, bool>,
    pub(super) is_all_files: bool,
    pub(super) names: BTreeSet<(BoxKind, String)>,
}

/// One role's.
#[derive(Debug, Default)]
pub(super) struct DirtySet {
    pending: Mutex<Pending>,
    wake: Notify,
}

impl DirtySet {
    fn tell(&self, what: impl FnOnce(&mut Pending)) {
        what(&mut self.pending.lock());
        self.wake.notify_one();
    }

    pub(super) fn all_mail(&self) {
        self.tell(|it| it.is_all_mail = true);
    }

    pub(super) fn all_files(&self) {
        self.tell(|it| {
            it.is_all_files = true;
            it.names.clear();
        });
    }

    pub(super) fn thread(&self, id: MessageId, is_certain: bool) {
        self.tell(|it| it.add(id, is_certain));
    }

    pub(super) fn file(&self, kind: BoxKind, name: String) {
        self.tell(|it| {
            if NAMES_MAX <= it.names.len() {
                it.is_all_files = true;
                it.names.clear();
            }
            if !it.is_all_files {
                it.names.insert((kind, name));
            }
        });
    }

    /// Resolves when something was told since it last did.
    pub(super) async fn told(&self) {
        self.wake.notified().await;
    }

    pub(super) fn take(&self) -> Pending {
        std::mem::take(&mut self.pending.lock())
    }

    /// Puts back what could not be looked at, without waking anybody.
    pub(super) fn put_back(&self, rest: Pending) {
        let mut it = self.pending.lock();
        it.is_all_mail |= rest.is_all_mail;
        it.is_all_files |= rest.is_all_files;
        rest.threads.into_iter().for_each(|(id, is_certain)| it.add(id, is_certain));
        it.names.extend(rest.names);
    }

    #[cfg(test)]
    fn threads(&self) -> usize {
        self.pending.lock().threads.len()
    }
}

impl Pending {
    fn add(&mut self, id: MessageId, is_certain: bool) {
        if THREADS_MAX <= self.threads.len() && !self.threads.contains_key(&id) {
            self.threads.clear();
            self.is_all_mail = true;
        }
        *self.threads.entry(id).or_default() |= is_certain;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds Z6.
    #[test]
    fn what_is_too_much_to_name_becomes_everything() {
        let dirty = DirtySet::default();
        for n in 0..=NAMES_MAX {
            dirty.file(BoxKind::Inbox, n.to_string());
        }
        for n in 0..=THREADS_MAX {
            dirty.thread(MessageId::from_bits(n as u128), false);
        }
        let told = dirty.take();
        assert!(told.is_all_files && told.names.is_empty());
        assert!(told.is_all_mail && told.threads.len() == 1);
        let id = MessageId::from_bits(7);
        dirty.thread(id, true);
        dirty.thread(id, false);
        let told = dirty.take();
        assert_eq!(told.threads, BTreeMap::from([(id, true)]));
        dirty.put_back(told);
        assert_eq!(dirty.threads(), 1);
    }
}
