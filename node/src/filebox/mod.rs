//! FileBox's mailboxes: Markdown files that people read, and `.filebox`, which says whose they are.
//!
//! Here is what those files mean, and nothing of how they come or go: the mirror writes them, the
//! command `import` reads them.

mod document;
mod line;
mod read;
mod write;

pub use document::{Document, Entry, FORMAT_VERSION};
pub use read::{Draft, FILE_BYTES_MAX, Unreadable};

#[cfg(test)]
mod tests;
