//! The real `tasuki` takes over FileBox's mailboxes and gives them back.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

mod import;
mod mailbox;
mod round;
