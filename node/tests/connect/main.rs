//! The real `tasuki connect` and `tasuki disconnect` in homes of their own.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

mod files;
mod goldens;
mod guarded;
mod home;
mod others;
mod refusals;
mod tools;
