//! The MCP server over real sockets, as clients of every kind meet it.

#![allow(clippy::unwrap_used, reason = "in a test, that is how it fails")]

mod bridge;
#[path = "../conformance/main.rs"]
mod conformance;
mod flood;
#[cfg(unix)]
mod gateway;
mod golden;
mod guard;
mod guarded;
mod holds;
mod http;
mod instances;
mod lifetimes;
mod mail;
mod mail_refusals;
mod mail_waits;
mod notices;
mod post;
mod prompts;
mod refusals;
mod resources;
mod revoked;
#[path = "../sdk.rs"]
mod sdk;
mod security;
mod sessions;
mod sse;
mod steps;
mod swarm;
mod tasks;
mod world;
