//! The real `tasuki`, at its edges: killed, abused, started and stopped.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

mod abuse;
mod agents;
mod board;
mod book;
mod chance;
mod copies;
mod crash;
mod crowd;
mod echoes;
#[cfg(target_os = "linux")]
mod escapes;
#[path = "../fake_agent/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of the commands, which use more of it")]
mod fake_agent;
mod flips;
mod full;
#[cfg(target_os = "linux")]
mod gateway;
mod guard;
mod guarded;
mod hooks;
#[path = "../mcp/http.rs"]
#[allow(dead_code, reason = "shared with the tests of the MCP server, which use more of it")]
mod http;
mod instances;
mod issues;
mod lifecycle;
mod logs;
mod mail;
mod mailstorm;
mod many_roles;
mod notices;
mod outbox;
mod patience;
mod pipeline;
mod private;
mod process;
mod projects;
#[cfg(target_os = "linux")]
mod relay;
mod repeats;
mod runs;
mod runstorm;
#[cfg(target_os = "linux")]
mod services;
mod starts;
mod stdio;
mod stored;
mod storm;
mod strikes;
mod swarm;
mod swarmstorm;
mod tasks;
mod trust;

/// What the shared module expects of a test binary.
mod world {
    pub(crate) use crate::process::soon;
}
