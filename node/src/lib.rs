//! A node: agent roles as actors, MCP on the inside, the broker on the outside.
pub mod agent_tokens;
pub mod cli;
pub mod clock;
pub mod config;
pub mod credentials;
pub mod filebox;
pub mod hooks;
pub mod identity;
pub mod link;
pub mod mail_directories;
pub mod mcp;
pub mod mirror;
pub mod node;
pub mod outbox;
pub mod paths;
pub mod private;
pub mod role;
