//! The real programs on machines of their own, and networks that break between them.
//!
//! Machines are network namespaces: that needs Linux, `nft`, `ip` and `setpriv`, and root or
//! `unshare --map-root-user`. Where the kernel forbids them, a test says so on standard error.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

#[path = "../edges/agents.rs"]
#[allow(dead_code, reason = "shared with the tests of one machine, which use more of it")]
mod agents;
#[path = "../edges/chance.rs"]
mod chance;
mod chaos;
mod clocks;
mod copies;
mod delay;
#[path = "../mcp/http.rs"]
#[allow(dead_code, reason = "shared with the tests of the MCP server, which use more of it")]
mod http;
#[path = "../join/main.rs"]
mod join;
mod latency;
mod links;
mod machine;
mod net;
mod process;
mod readme;
mod seat;
mod turns;
mod world;
