//! A thread as the broker has it, as a file.

use tasuki_proto::{id::Timestamp, wire};

use super::document::{Document, Entry};

/// When an entry was written: elsewhere, if it was taken over from there.
pub fn written(entry: &wire::MailEntry) -> Timestamp {
    let ms = if entry.is_imported { entry.written_ms } else { entry.at_ms };
    Timestamp::from_millis(ms)
}

impl Document {
    /// `entries` are all there are, the oldest first, with the words that sealed ones have.
    ///
    /// # Panics
    ///
    /// As [`Document::new`].
    pub fn of_stored(thread: &wire::MailThread, entries: &[wire::MailEntry]) -> Self {
        let entry = |it: &wire::MailEntry| {
            Entry::new(written(it), &it.sender, &it.receivers, &it.r#type, &it.text)
        };
        let entries = entries.iter().rev().map(entry).collect();
        Self::new(thread.message_id.parse().ok(), &thread.r#type, &thread.subject, entries)
    }
}
