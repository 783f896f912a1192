//! `tasuki prompt`: what to tell an agent that plays a role.
//!
//! The same text as the MCP prompt of the role; no node has to run for it.

use serde_json::json;
use tasuki_proto::id::RoleId;

use super::{Failure, Output};
use crate::mcp;

/// Print how to play a role, for an agent's first message or its file of rules.
#[derive(Debug, clap::Args)]
#[command(after_help = "For example: tasuki prompt A --goal 'Make the tests pass' >> AGENTS.md")]
pub struct Args {
    /// The role, such as A
    role: RoleId,
    /// What the work is for
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
}

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<(), Failure> {
    let prompt = mcp::prompt(&args.role, args.goal.as_deref());
    output.answer(|| json!({ "role": args.role.as_str(), "prompt": prompt }), || prompt.clone())
}
