//! The real `tasuki` takes over FileBox's mailboxes and gives them back.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

mod import;
mod mailbox;
#[path = "../edges/process.rs"]
#[allow(dead_code, reason = "shared with the tests of the edges, which use more of it")]
mod process;
mod round;
