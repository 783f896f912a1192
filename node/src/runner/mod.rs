//! Agent runs on this machine: which agents there are, how their CLI is called, what it says while it
//! works, and what came of it.
//!
//! - **RN1** A run succeeded only if its process ended with 0, it sent at least one message, and the
//!   last one ended by a normal stop. Everything else is a failure that says which.
//! - **RN2** Whatever a child prints, memory is bounded, nothing panics, and how its bytes were split
//!   changes nothing.
//! - **RN3** What is passed to a CLI never becomes a flag of it, and no limit that an agent's file
//!   sets is dropped silently.
//!
//! `agent_file` and `discovery` read agents, `runners` makes command lines, `stream` reads what comes
//! back, `outcome` judges it, `modes` says it: all of that is pure, but for reading files. `child` is
//! the process.
//!
//! Not here: approval, the network, what the broker keeps of a run.

pub mod agent_file;
#[cfg(unix)]
pub mod child;
pub mod discovery;
mod front_matter;
pub mod modes;
pub mod outcome;
pub mod runners;
pub mod stream;

/// Captured streams of all agent CLIs, and what is to be told of them.
#[cfg(test)]
const CAPTURED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent-streams");
