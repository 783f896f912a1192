//! The real `tasuki` keeps mailboxes as files.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

mod lives;
mod place;
mod story;
