//! A node: agent roles as actors, MCP on the inside, the broker on the outside.
pub mod cli;
pub mod config;
pub mod paths;
pub mod role;
