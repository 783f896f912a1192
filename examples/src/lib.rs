//! What the examples share: real processes, an agent's side of MCP, and measuring.
//!
//! An example starts what it needs on free ports and on data of its own, and leaves nothing
//! behind.

pub mod browser;
pub mod clients;
pub mod load;
pub mod mcp;
pub mod pipeline;
pub mod process;
pub mod relay;
pub mod scripted;

/// Whatever went wrong, in words.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

pub type Result<T, E = Error> = std::result::Result<T, E>;
