//! Runs of sub-agents by the tools of a real node: what a model is told, its user is asked, and a
//! sub-agent can say.
//!
//! What an agent does is the first line of its task, a shell command: see `fake_agent/play.sh`.

mod client;
mod consent;
mod far;
mod files;
mod parent;
mod subagent;
mod waits;

use serde_json::Value;

use crate::fake_agent::Machine;

/// A node with a role that starts sub-agents, and one that does not.
async fn machine() -> Machine {
    Machine::up("--role boss=runs --role A", "").await
}

/// What a result's first text is: all that some clients show.
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

/// The run that a result is about.
fn run_id(result: &Value) -> String {
    let id = result["structuredContent"]["run_id"].as_str();
    id.unwrap_or_else(|| panic!("{result}")).to_owned()
}
