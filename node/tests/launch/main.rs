//! The real `tasuki launch`, with scripts in the place of agent CLIs.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

mod plans;
mod sessions;
mod tmux;
mod world;
