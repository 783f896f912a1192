//! What the broker has of a thread already.

use std::collections::BTreeSet;

use tasuki_proto::{mail::MessageId, reason::Reason, wire};

use super::{
    super::{broker::Broker, export::whole_thread},
    Failure,
};
use crate::filebox::{Entry, EntryKey, Thread, entry_key, written};

/// A thread at the broker.
#[derive(Debug, Default)]
pub(super) struct StoredThread {
    subject: String,
    original_sender: String,
    keys: BTreeSet<EntryKey>,
    /// Entries whose words the broker does not know, with an empty text.
    sealed: BTreeSet<EntryKey>,
}

impl StoredThread {
    pub(super) fn has(&self, entry: &Entry) -> bool {
        // A mirrored file has the words as they are shown.
        let mut key = entry_key(&entry.shown());
        self.keys.contains(&key) || {
            key.3.clear();
            self.sealed.contains(&key)
        }
    }

    /// Whether it is another thread, which the same id came to.
    pub(super) fn is_other(&self, thread: &Thread, subject: &str) -> bool {
        let sender = thread.entries.first().map(|it| it.from.as_str());
        (self.subject != subject || sender != Some(self.original_sender.as_str()))
            && !thread.entries.iter().any(|it| self.has(it))
    }

    fn add(&mut self, entry: wire::MailEntry) {
        let is_sealed = entry.sealed.is_some();
        let entry = Entry {
            at: written(&entry),
            from: entry.sender,
            to: entry.receivers,
            kind: String::new(),
            text: entry.text,
        };
        let keys = if is_sealed { &mut self.sealed } else { &mut self.keys };
        keys.insert(entry_key(&entry.shown()));
    }
}

/// Reads a thread as each of `roles`, until one of them has it. `None`: none has.
pub(super) async fn known(
    broker: &Broker,
    id: MessageId,
    roles: &BTreeSet<String>,
) -> Result<Option<StoredThread>, Failure> {
    for role in roles {
        match read(broker, id, role).await {
            Ok(found) => return Ok(Some(found)),
            Err(why) => match why.as_reason() {
                Some(Reason::UnknownMessage | Reason::UnknownRole) => {}
                Some(_) | None => return Err(why),
            },
        }
    }
    Ok(None)
}

async fn read(broker: &Broker, id: MessageId, role: &str) -> Result<StoredThread, Failure> {
    let (thread, entries) = whole_thread(broker, role, &id.to_string()).await?;
    let (subject, original_sender) = (thread.subject, thread.original_sender);
    let mut known = StoredThread { subject, original_sender, ..StoredThread::default() };
    entries.into_iter().for_each(|entry| known.add(entry));
    Ok(known)
}
