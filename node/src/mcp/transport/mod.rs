//! What carries MCP: connections and their checks, Streamable HTTP, HTTP+SSE, and lines after an
//! HTTP upgrade.
//!
//! [`service`] is the seam: whoever answers at an address is made there, and nothing here knows
//! roles or tools. [`server`] puts it all behind one listener.

pub(super) mod accept;
pub(super) mod alive;
pub(super) mod bearer;
pub(super) mod body;
pub(super) mod guarded;
pub(super) mod lines;
pub(super) mod server;
pub(super) mod service;
pub(super) mod session_files;
pub(super) mod sessions;
pub(super) mod stdio;
pub(super) mod step_access;
pub(super) mod write_ack;

mod early_headers;
mod errors;
mod events;
mod security;
mod server_addresses;
mod session_streams;
mod sse;
mod streamable;
