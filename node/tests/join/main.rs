//! Two machines set up with the real programs: invited, joined, rotated, revoked, refused.
//!
//! All of it on this machine, each side with a home of its own; `--secure` makes the broker on
//! loopback ask for what it asks for elsewhere.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

mod authorities;
mod crashes;
mod disks;
mod doctor;
mod refusals;
mod relay;
mod secrets;
mod story;
mod swarm;
mod tokens;
mod world;
