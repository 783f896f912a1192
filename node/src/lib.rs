//! A node: agent roles as actors, MCP on the inside, the broker on the outside.
pub mod accept;
pub mod agent_tokens;
mod attached;
mod beside;
pub mod cli;
pub mod clock;
pub mod config;
pub mod credentials;
pub mod edit_guard;
pub mod filebox;
mod files;
#[cfg(test)]
mod flips;
mod hex;
pub mod hooks;
pub mod identity;
pub mod link;
pub mod mail_directories;
mod mail_terms;
pub mod mcp;
pub mod mirror;
pub mod node;
pub mod outbox;
pub mod paths;
pub mod private;
pub mod repository;
pub mod role;
