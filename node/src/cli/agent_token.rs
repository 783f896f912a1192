//! `tasuki agent-token`: what an agent shows to this node when it is guarded.

use serde_json::json;
use tasuki_proto::{counted::listed_names, id::RoleId, nearest::did_you_mean};

use super::{Failure, Output, hosting::sentence};
use crate::{
    agent_tokens::{AgentTokens, Bearing},
    config::Config,
    paths::NodeFile,
};

/// Print or rotate the token that agents present to this node.
///
/// A node that listens beyond loopback, or with --secure, refuses requests without one: the header is
/// `Authorization: Bearer TOKEN`. A role's token is valid for that role only; without --role it is the
/// token of the whole node, which also allows what only you may do, such as `tasuki take-over`. `tasuki
/// mcp` on this machine finds its token by itself.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Role that the token is for [default: all roles of the node]
    #[arg(long, value_name = "ROLE")]
    role: Option<RoleId>,
    /// Replace the token; connections with the old one are closed within a second
    #[arg(long)]
    rotate: bool,
}

pub(crate) fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let Args { role, rotate } = args;
    let data = &config.data.value;
    if let Some(role) = &role {
        check(role, config)?;
    }
    let bearing = role.clone().map_or(Bearing::Node, Bearing::Role);
    let tokens = if rotate {
        AgentTokens::rotate(data, bearing.clone())
    } else {
        AgentTokens::with(data, [bearing.clone()])
    };
    let tokens = tokens.map_err(|why| Failure::local(sentence(&why)))?;
    let token = tokens.get(&bearing).ok_or_else(|| Failure::local("There is no token."))?;
    let role = role.map(|role| role.to_string());
    output.answer(
        || json!({ "role": role, "token": token.expose(), "rotated": rotate }),
        || format!("{}\n", token.expose()),
    )
}

/// A token for a role that there is not would look good and be worth nothing.
fn check(role: &RoleId, config: &Config) -> Result<(), Failure> {
    let running = NodeFile::read(&config.data.value).map(|file| file.roles);
    let configured = || config.roles.value.iter().map(|role| role.name.to_string()).collect();
    let roles: Vec<String> = running.unwrap_or_else(configured);
    if roles.iter().any(|name| name == role.as_str()) {
        return Ok(());
    }
    let near = did_you_mean(role.as_str(), roles.iter().map(String::as_str));
    let roles = listed_names(&roles);
    Err(Failure::usage(format!("This node does not host {role}. It hosts: {roles}{near}.")))
}
