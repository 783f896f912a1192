//! The real `tasuki` keeps mailboxes as files.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

mod lives;
mod place;
#[path = "../edges/process.rs"]
#[allow(dead_code, reason = "shared with the tests of the edges, which use more of it")]
mod process;
mod story;
