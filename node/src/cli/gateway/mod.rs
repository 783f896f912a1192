//! `tasuki gateway`: the MCP servers whose tools this node offers to its agents.
//!
//! The running node is asked: it has the servers.

mod import;

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    Exit, Failure, Output, hosting,
    loops::text_args::TextArgs,
    node_address,
    text::{block, column, line},
};
use crate::{
    agent_tokens::Bearing,
    config::Config,
    gateway::{HeldTool, ServerReport, settings::CALL_TIMEOUT_MAX},
    hex::hex,
    mcp::{
        ask::{self, Error},
        dial::NodeAt,
    },
};

/// Digits of the digest of a change. A server knows what it is made of, and must not find two
/// changes that have the same.
const DIGEST_DIGITS: usize = 40;

/// What the node may take for a status: servers that start are waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Manage the MCP servers whose tools this node offers
///
/// Servers are configured as [[gateway.server]] in tasuki.toml. Their tools appear to agents as
/// server__tool: roles with the toolset `gateway` find and call them, roles with `gateway:full` see
/// all of them listed.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Show each server, its state and its tools
    Status,
    /// List the tools of all servers, or of one
    Tools {
        /// A server's name
        #[arg(value_name = "SERVER")]
        server: Option<String>,
    },
    /// Call a tool
    Call {
        /// Its name, as `tasuki gateway tools` shows it
        #[arg(value_name = "SERVER__TOOL")]
        tool: String,
        /// Its arguments, as a JSON object; `@file` reads a file, `-` standard input
        #[arg(value_name = "JSON", default_value = "{}")]
        arguments: String,
    },
    /// Show what changed in a server's tools, and approve it
    ///
    /// A tool whose name, description or schema changes after it was first seen is held back: agents
    /// neither see it nor can call it until you approve the change.
    Approve {
        #[arg(value_name = "SERVER")]
        server: String,
        /// Tools by the server's own names [default: all that changed]
        #[arg(value_name = "TOOL")]
        tools: Vec<String>,
        /// Approve the change that was shown with this digest
        #[arg(long, value_name = "DIGEST")]
        digest: Option<String>,
    },
    Import(import::Args),
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let node = || node(config);
    match command {
        Command::Status => status(&node()?, config, output).await,
        Command::Tools { server } => tools(&node()?, server.as_deref(), output).await,
        Command::Call { tool, arguments } => call(&node()?, tool, &arguments, output).await,
        Command::Approve { server, tools, digest } => {
            approve(&node()?, &server, &tools, digest.as_deref(), output).await
        }
        Command::Import(args) => import::run(&args, config, output),
    }
}

fn node(config: &Config) -> Result<NodeAt, Failure> {
    let running = config.running_node().ok_or_else(|| {
        Failure::local("No node runs here. Start one with `tasuki up`; it starts the servers.")
    })?;
    Ok(node_address::local(running, &config.data.value, &Bearing::Node))
}

fn failed(why: Error) -> Failure {
    if let Error::Refused { reason: Some(reason), message } = why {
        return Failure::reason(reason, message);
    }
    Failure::local(hosting::sentence(&why))
}

async fn servers(node: &NodeAt) -> Result<Vec<ServerReport>, Failure> {
    let mut told = ask::get_within(node, "/gateway", ANSWER_WITHIN).await.map_err(failed)?;
    serde_json::from_value(told["servers"].take())
        .map_err(|why| Failure::local(format!("The node's answer cannot be read: {why}.")))
}

async fn status(node: &NodeAt, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let servers = servers(node).await?;
    let why = config.gateway_distrust.as_ref().map(|it| it.message.as_str());
    output.answer(|| json!({ "servers": servers }), || status_lines(&servers, why))
}

fn status_lines(servers: &[ServerReport], distrust: Option<&str>) -> String {
    if let (true, Some(why)) = (servers.is_empty(), distrust) {
        return format!("No MCP servers were started: {why}.\n");
    }
    if servers.is_empty() {
        return "No MCP servers are configured. Add [[gateway.server]] to tasuki.toml, or take over \
                a client's with `tasuki gateway import`.\n"
            .to_owned();
    }
    let mut lines = String::new();
    for it in servers {
        let state = match it.state.as_str() {
            "ready" if it.is_failing => "failing".yellow().to_string(),
            "ready" => "ready".green().to_string(),
            "offline" => "offline".red().to_string(),
            other => other.to_owned(),
        };
        let tools = tasuki_proto::counted::counted(it.tools, "tool");
        writeln!(lines, "{} {state}  {tools}  {}", column(&it.name, 24), line(&it.endpoint)).ok();
        if !it.why.is_empty() {
            let restarts = it.restarts;
            writeln!(
                lines,
                "  offline for {} s, restarts: {restarts}. {}",
                it.offline_sec,
                line(&it.why)
            )
            .ok();
        }
        for held in &it.held {
            let (tool, name) = (line(&held.tool), &it.name);
            writeln!(
                lines,
                "  {tool} changed and is held back; see `tasuki gateway approve {name}`"
            )
            .ok();
        }
        for refused in &it.refused {
            writeln!(lines, "  {} is not offered: {}", line(&refused.tool), line(&refused.why))
                .ok();
        }
    }
    lines
}

fn no_server(name: &str) -> Failure {
    Failure::usage(format!("There is no server {name:?}; see `tasuki gateway status`."))
}

async fn tools(node: &NodeAt, server: Option<&str>, output: &mut Output) -> Result<(), Failure> {
    let mut told = ask::get_within(node, "/gateway/tools", ANSWER_WITHIN).await.map_err(failed)?;
    let mut tools: Vec<Value> = serde_json::from_value(told["tools"].take()).unwrap_or_default();
    if let Some(server) = server {
        let known = servers(node).await?;
        if !known.iter().any(|it| it.name == server) {
            return Err(no_server(server));
        }
        let begin = format!("{server}{}", crate::gateway::names::SEPARATOR);
        tools.retain(|it| it["name"].as_str().is_some_and(|name| name.starts_with(&begin)));
    }
    let text = |tools: &[Value]| {
        let mut lines = String::new();
        for tool in tools {
            let name = tool["name"].as_str().unwrap_or_default();
            let description = tool["description"].as_str().unwrap_or_default();
            let first = description.lines().next().unwrap_or_default();
            writeln!(lines, "{}  {}", name.bold(), line(first)).ok();
        }
        if lines.is_empty() { "No tools.\n".to_owned() } else { lines }
    };
    output.answer(|| json!({ "tools": tools }), || text(&tools))
}

async fn call(
    node: &NodeAt,
    tool: String,
    arguments: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    let arguments = TextArgs::default().read("ARGUMENTS", arguments)?;
    let arguments: Value = serde_json::from_str(&arguments)
        .map_err(|why| Failure::usage(format!("The arguments are not valid JSON: {why}.")))?;
    if !arguments.is_object() {
        return Err(Failure::usage(
            "The arguments are not a JSON object such as '{\"path\": \".\"}'.",
        ));
    }
    let body = json!({ "tool": tool, "arguments": arguments }).to_string();
    let told = ask::post_within(node, "/gateway/call", body.into(), CALL_TIMEOUT_MAX).await;
    let told = told.map_err(failed)?;
    if let Some(error) = told.get("error") {
        let message = error["message"].as_str().unwrap_or_default();
        output.beside("mcp", error.clone());
        return Err(Failure::local(format!("The call failed: {message} ({})", error["code"])));
    }
    let result = &told["result"];
    output.answer(|| result.clone(), || result_lines(result))?;
    match result["isError"].as_bool() {
        Some(true) => Err(Failure::told(Exit::Refused)),
        Some(false) | None => Ok(()),
    }
}

/// Texts as they are; of what is no text, what it is.
fn result_lines(result: &Value) -> String {
    let mut lines = String::new();
    for part in result["content"].as_array().into_iter().flatten() {
        match part["text"].as_str() {
            Some(text) => writeln!(lines, "{}", block(text)).ok(),
            None => {
                writeln!(lines, "({}; --json shows it)", line(part["type"].as_str().unwrap_or("?")))
                    .ok()
            }
        };
    }
    lines
}

async fn approve(
    node: &NodeAt,
    name: &str,
    tools: &[String],
    approved: Option<&str>,
    output: &mut Output,
) -> Result<(), Failure> {
    let servers = servers(node).await?;
    let server = servers.iter().find(|it| it.name == name);
    let server = server.ok_or_else(|| no_server(name))?;
    let held: Vec<&HeldTool> =
        server.held.iter().filter(|it| tools.is_empty() || tools.contains(&it.tool)).collect();
    if let Some(unknown) = tools.iter().find(|tool| !server.held.iter().any(|it| it.tool == **tool))
    {
        return Err(Failure::usage(format!("The tool {unknown:?} has no change to approve.")));
    }
    if held.is_empty() {
        return output.answer(
            || json!({ "server": name, "changed": [] }),
            || "Nothing has changed.\n".to_owned(),
        );
    }
    let digest = digest(&held);
    if let Some(approved) = approved {
        if approved != digest {
            let text = "The digest does not match: the tools have changed again. Run the command \
                        without --digest to see the difference.";
            return Err(Failure::usage(text));
        }
        let digests: BTreeMap<&str, &str> =
            held.iter().map(|it| (it.tool.as_str(), it.digest.as_str())).collect();
        let body = json!({ "tools": digests }).to_string();
        let told = ask::post_body(node, &format!("/gateway/approve/{name}"), body.into()).await;
        let told = told.map_err(failed)?;
        let names: Vec<&str> = digests.into_keys().collect();
        return output.answer(|| told.clone(), || format!("Approved: {}.\n", names.join(", ")));
    }
    output.answer(
        || json!({ "server": name, "changed": held, "digest": digest }),
        || {
            let mut lines = String::new();
            for it in &held {
                writeln!(lines, "{}", it.tool.bold()).ok();
                lines += &difference(&it.approved, &it.current);
                if 0 < it.hidden {
                    let hidden = tasuki_proto::counted::counted(it.hidden, "character");
                    writeln!(lines, "  {}", format!("hidden: {hidden}").red()).ok();
                }
            }
            let tools: String = tools.iter().map(|it| format!(" {it}")).collect();
            writeln!(lines, "\nTo approve: tasuki gateway approve {name}{tools} --digest {digest}")
                .ok();
            lines
        },
    )
}

/// Names all changes that are shown.
fn digest(held: &[&HeldTool]) -> String {
    let mut hash = Sha256::new();
    held.iter().for_each(|it| hash.update(it.digest.as_bytes()));
    let hash = hex(&hash.finalize());
    hash[..DIGEST_DIGITS].to_owned()
}

/// The lines in which two values differ, in their order.
fn difference(before: &Value, now: &Value) -> String {
    let text = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    let (before, now) = (text(before), text(now));
    let (before, now): (Vec<&str>, Vec<&str>) = (before.lines().collect(), now.lines().collect());
    // How many lines of the rest of both are alike, from the end on.
    let mut alike = vec![vec![0_u32; now.len() + 1]; before.len() + 1];
    for (i, old) in before.iter().enumerate().rev() {
        for (k, new) in now.iter().enumerate().rev() {
            alike[i][k] = match old == new {
                true => alike[i + 1][k + 1] + 1,
                false => alike[i + 1][k].max(alike[i][k + 1]),
            };
        }
    }
    let (mut i, mut k, mut lines) = (0, 0, String::new());
    while i < before.len() || k < now.len() {
        if i < before.len() && k < now.len() && before[i] == now[k] {
            (i, k) = (i + 1, k + 1);
        } else if k == now.len() || (i < before.len() && alike[i][k + 1] <= alike[i + 1][k]) {
            writeln!(lines, "{}", format!("- {}", line(before[i])).red()).ok();
            i += 1;
        } else {
            writeln!(lines, "{}", format!("+ {}", line(now[k])).green()).ok();
            k += 1;
        }
    }
    if lines.is_empty() {
        lines += "  (the change is not visible: hidden characters, or text beyond the limit)\n";
    }
    lines
}
