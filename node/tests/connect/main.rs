//! The real `tasuki connect` and `tasuki disconnect` in homes of their own.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

mod files;
mod goldens;
mod guarded;
mod home;
mod others;
#[path = "../edges/process.rs"]
#[allow(dead_code, reason = "shared with the tests at the edges, which use more of it")]
mod process;
mod refusals;
mod tools;
