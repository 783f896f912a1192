//! The node's MCP server: what an agent beside the node connects to.
//!
//! One listener speaks Streamable HTTP (`/mcp`, `/mcp/{role}`), the older HTTP+SSE (`/sse`,
//! `/sse/{role}`, `/message`) and, after an HTTP upgrade, newline-delimited JSON-RPC (`/stdio`,
//! `/stdio/{role}`), which `tasuki mcp` bridges to the stdio of an agent ([`bridge`]).
//!
//! - **C1** Every request passes the Host and Origin checks before anything looks at it.
//! - **C2** Connections, sessions, events kept for resuming, calls in flight and bodies are
//!   bounded; each bound has a name.
//! - **C3** A turn counts as handed only when the answer that gives it was written to a live
//!   connection.
//! - **C4** Words of another agent appear only inside the fields of a tool's result or of a
//!   resource.
//!
//! A wait of a client that can be woken is answered with a task that it polls.
//!
//! Nothing here knows whose turn it is: [`crate::role::Actions`] is asked.

pub mod ask;
pub mod bridge;

mod accept;
mod address;
mod agent;
mod early;
mod events;
mod handed;
mod hold;
mod host;
mod instances;
mod intent;
mod lines;
mod notices;
mod prompts;
mod resources;
mod security;
mod served;
mod server;
mod sessions;
mod sse;
mod status;
mod stdio;
mod streamable;
mod take_over;
mod tasks;
mod tools;

pub use accept::CONNECTIONS_MAX;
pub use prompts::prompt;
pub use served::{Served, UnderWay};
pub use server::{Settings, serve, serve_with};
pub use stdio::UPGRADE;
pub use tasks::TaskKey;
pub use tools::{read_vocabulary, tokens};

/// The names of all tools, for clients that allow each by its name.
pub fn tool_names() -> Vec<String> {
    tools::names().map(str::to_owned).collect()
}
