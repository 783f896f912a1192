//! The node's MCP server: what an agent beside the node connects to.
//!
//! One listener speaks Streamable HTTP (`/mcp`, `/mcp/{role}`), the older HTTP+SSE (`/sse`,
//! `/sse/{role}`, `/message`) and, after an HTTP upgrade, newline-delimited JSON-RPC (`/stdio`,
//! `/stdio/{role}`), which `tasuki mcp` bridges to the stdio of an agent ([`bridge`]).
//!
//! A sub-agent that runs here has addresses of its own ([`STEP_PATH`]), where it shows its key.
//!
//! - **C1** Every request passes the Host and Origin checks, and under guard or as a sub-agent's
//!   that of its token, before anything looks at it.
//! - **C2** Connections, sessions, events kept for resuming, calls in flight and bodies are
//!   bounded; each bound has a name.
//! - **C3** A turn counts as handed only when the answer that gives it was written to a live
//!   connection.
//! - **C4** Words of another agent appear only inside the fields of a tool's result or of a
//!   resource.
//!
//! A wait of a client that can be woken is answered with a task that it polls.
//!
//! - `transport`: what carries MCP, whoever answers. `agent` answers: with `tools`, `tasks`,
//!   `resources`, `notices` and `prompts`, by the rules of `hold` and `instances`.
//!
//! Nothing here knows whose turn it is: [`crate::role::Actions`] is asked.

pub mod ask;
pub mod bridge;
pub mod dial;

mod address;
mod agent;
mod agents;
mod caught;
mod gateway;
mod gateway_admin;
mod hold;
mod host;
mod in_flight_acks;
mod instances;
mod intent;
pub(crate) mod letter;
mod liveness;
mod malformed;
mod notices;
mod outbox_admin;
mod prompts;
mod question;
mod request_context;
mod resources;
mod run_resource;
mod status;
pub(crate) mod steps;
mod take_over;
mod tasks;
mod tools;
mod transport;
mod wake;

use crate::toolset::ToolsetChoice;

pub use prompts::{prompt, turn_order, turn_takers};
pub use tasks::TaskKey;
pub use tools::tools_bytes;
pub use transport::{
    accept::CONNECTIONS_MAX,
    guarded::Guard,
    server::{Settings, serve, serve_with},
    service::{McpService, ServerStats},
    stdio::UPGRADE,
    step_access::STEP_PATH,
};

/// The names of the tools that a role with these toolsets is shown, for clients that allow each by
/// its name.
pub fn tool_names(choices: &[ToolsetChoice]) -> Vec<String> {
    tools::names(choices).into_iter().map(str::to_owned).collect()
}
