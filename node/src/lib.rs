//! A node: agent roles as actors, MCP on the inside, the broker on the outside.

pub mod mcp;
pub mod role;
