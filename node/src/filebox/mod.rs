//! FileBox's mailboxes: Markdown files that people read, and `.filebox`, which says whose they are.
//!
//! Here is what those files mean, and nothing of how they come or go: the mirror writes them, the
//! command `import` reads them.

mod document;
mod from_wire;
mod layout;
mod line;
mod names;
mod read;
mod settings;
mod thread;
mod write;

pub use document::{Document, Entry, FORMAT_VERSION};
pub use from_wire::written;
pub use layout::{FileCopy, MAILBOX, Mailbox, Skipped, find};
pub use names::role_of;
pub use read::{Draft, FILE_BYTES_MAX, Unreadable};
pub use settings::{BadSettings, FILE, Settings, current_agent};
pub use thread::{EntryKey, Thread, entry_key, gather, id_of_content};

#[cfg(test)]
mod tests;
