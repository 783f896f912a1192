//! `tasuki prompt`: what to tell an agent that plays a role.
//!
//! The same text as the MCP prompt of the role; no node has to run for it.

use serde_json::json;

use super::{Failure, Output};
use crate::{
    config::{Role, usual_toolsets},
    mcp,
};

/// Print how to play a role, for an agent's first message or its file of rules.
#[derive(Debug, clap::Args)]
#[command(after_help = "For example: tasuki prompt A --goal 'Make the tests pass' >> AGENTS.md")]
pub struct Args {
    /// The role, such as A or lead; with toolsets of its own as `tasuki node --role` takes them
    #[arg(value_name = "NAME[=SET,…]")]
    role: Role,
    /// What the work is for
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
}

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<(), Failure> {
    let Role { name, toolsets } = &args.role;
    let usual = usual_toolsets(name);
    let toolsets = if toolsets.is_empty() { &usual } else { toolsets };
    let prompt = mcp::prompt(name, toolsets, args.goal.as_deref()).ok_or_else(|| {
        Failure::usage(format!(
            "{name} has no toolset that there is a prompt for. Give it one, such as {name}=loop or \
             {name}=mail."
        ))
    })?;
    output.answer(|| json!({ "role": name.as_str(), "prompt": prompt }), || prompt.clone())
}
