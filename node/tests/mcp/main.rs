//! The MCP server over real sockets, as clients of every kind meet it.

mod bridge;
mod flood;
mod golden;
mod http;
mod lifetimes;
mod refusals;
mod security;
mod sessions;
mod sse;
mod world;
