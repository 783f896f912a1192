//! A node: agent roles as actors, MCP on the inside, the broker on the outside.
pub mod clock;
pub mod identity;
pub mod link;
pub mod node;
pub mod role;
