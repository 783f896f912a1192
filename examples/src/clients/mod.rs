//! Real agent CLIs against a scripted model: each is connected to a real node, plays B of the turn
//! loop or a worker of an issue, waits longer than it would by itself, and finishes. Those that have
//! a runner are also started by `tasuki run`, those that can be woken while they are idle are, three are
//! launched, the hooks of two are tried, and two call tools of other MCP servers.
//!
//! What is real: broker, node, the CLIs, their configuration, the wire. What is not: the model.
//! Each run has a home, data and ports of its own; nothing here knows how to reach a network.

pub mod agent_a;
pub mod agent_runs;
pub mod client;
pub mod connect;
pub mod gateway;
pub mod home;
pub mod hooking;
pub mod launching;
pub mod lead;
pub mod model;
pub mod play;
pub mod running;
pub mod script;
pub mod stage;
pub mod table;
pub mod terminal;
pub mod waking;
