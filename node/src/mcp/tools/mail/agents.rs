//! Agents with a mailbox: `filebox_register_agent`, `filebox_list_agents`,
//! `filebox_unregister_agent`, `filebox_cleanup_agents`.
//!
//! A mailbox is opened and closed at the broker, for the whole workspace; which directory is its
//! project's concerns this node alone.

use std::path::{Path, PathBuf};

use rmcp::model::CallToolResult;
use serde::Serialize;
use serde_json::json;
use tasuki_proto::{id::RoleId, reason::Reason, wire::MailboxState};

use super::{
    super::{
        Call,
        arguments::{Arguments, invalid, missing},
        result::said,
    },
    caller::Caller,
    facts::{caution, is_false, millis},
};
use crate::{
    mail_directories::{Directories, RegisterError},
    mirror::is_within,
    role::Refusal,
};

const AGENT: &str = "agent_name";

/// A directory's path, in bytes: longer ones cannot be opened.
const PATH_BYTES_MAX: usize = 4096;

#[derive(Debug, Serialize)]
struct Agent {
    agent_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<PathBuf>,
    inbox: u64,
    outbox: u64,
    done: u64,
    cancel: u64,
    unseen: u64,
    dead_letters: u64,
    #[serde(skip_serializing_if = "is_false")]
    is_closed: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    quiet_ms: Option<u64>,
}

impl Agent {
    fn new(it: MailboxState, directories: &Directories) -> Self {
        Self {
            directory: it.role.parse().ok().and_then(|role: RoleId| directories.of(&role)),
            agent_name: it.role,
            inbox: it.inbox,
            outbox: it.outbox,
            done: it.done,
            cancel: it.cancel,
            unseen: it.unseen,
            dead_letters: it.dead,
            is_closed: it.is_closed,
            node: it.node,
            quiet_ms: it.quiet_ms,
        }
    }
}

fn agent(arguments: Arguments<'_>) -> Result<RoleId, Refusal> {
    arguments.id(AGENT)?.ok_or_else(|| missing(AGENT, "name the agent"))
}

pub(super) async fn register_agent(
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let (caller, _playing) = Caller::player(call, arguments)?;
    let agent = agent(arguments)?;
    let directory = directory(arguments, call.host.project.as_deref())?;
    let opened = caller.mail().open_mailbox(&agent).await?;
    let mut told = format!("Agent '{agent}' registered successfully");
    if let Some(directory) = &directory {
        keep(call, &agent, directory.clone()).await?;
        told += &format!(" with directory: {}", directory.display());
    }
    let facts = json!({
        "message": told, "agent_name": agent.as_str(), "directory": directory,
        "repeated": opened.repeated,
    });
    Ok(said(told, facts))
}

/// An absolute one: this server's own directory is not the caller's. Within the project `root`,
/// where the operator named one: mailboxes are written there, and what lies there is sent.
fn directory(arguments: Arguments<'_>, root: Option<&Path>) -> Result<Option<PathBuf>, Refusal> {
    const FIELD: &str = "directory";
    let Some(text) = arguments.name(FIELD)? else { return Ok(None) };
    if PATH_BYTES_MAX < text.len() {
        return Err(invalid(FIELD, &format_args!("is over {PATH_BYTES_MAX} bytes long")));
    }
    let path = PathBuf::from(&text);
    if !path.is_absolute() {
        return Err(invalid(FIELD, &format_args!("is {text:?}, which is not absolute")));
    }
    if !path.is_dir() {
        return Err(invalid(FIELD, &format_args!("is {text:?}, which is not a directory")));
    }
    if let Some(root) = root
        && !is_within(Some(root), &path)
    {
        let root = root.display();
        let why = format_args!("is {text:?}, which is outside the project {root} (`mirror_root`)");
        return Err(invalid(FIELD, &why));
    }
    Ok(Some(path.canonicalize().unwrap_or(path)))
}

async fn keep(call: &Call<'_>, agent: &RoleId, directory: PathBuf) -> Result<(), Refusal> {
    let (directories, role) = (call.host.directories.clone(), agent.clone());
    let kept = tokio::task::spawn_blocking(move || directories.register(&role, &directory)).await;
    let opened = "The mailbox is open";
    match kept {
        Ok(Ok(())) => Ok(()),
        Ok(Err(why @ RegisterError::Taken { .. })) => Err(invalid(
            "directory",
            &format_args!("cannot be assigned to {agent}: {why}. {opened}"),
        )),
        Ok(Err(why)) => Err(unkept(opened, &why)),
        Err(why) => Err(unkept(opened, &why)),
    }
}

fn unkept(holds: &str, why: &dyn std::error::Error) -> Refusal {
    Refusal {
        reason: Reason::Unavailable,
        message: format!("{holds}, but its directory cannot be stored: {why}. Call again."),
    }
}

pub(super) async fn list_agents(
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let (caller, _counts) = Caller::reader(call, arguments)?;
    let seen = caller.mail().mailboxes().await?;
    let directories = &call.host.directories;
    let agents: Vec<Agent> =
        seen.what.mailboxes.into_iter().map(|it| Agent::new(it, directories)).collect();
    let open = agents.iter().filter(|it| !it.is_closed);
    let names: Vec<&str> = open.map(|it| it.agent_name.as_str()).collect();
    let mut facts = json!({ "agents": agents });
    if let Some(caution) = caution(seen.ago) {
        facts["caution"] = caution.into();
        facts["seen_ms_ago"] = seen.ago.map(millis).into();
    }
    Ok(said(json!(names).to_string(), facts))
}

pub(super) async fn unregister_agent(
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let (caller, _playing) = Caller::player(call, arguments)?;
    let agent = agent(arguments)?;
    let closed = caller.mail().close_mailbox(&agent).await.map_err(|why| {
        if why.reason != Reason::UnknownRole {
            return why;
        }
        let message = format!("Agent '{agent}' not found in configuration.");
        Refusal { message, ..why }
    })?;
    let (directories, role) = (call.host.directories.clone(), agent.clone());
    let forgotten = tokio::task::spawn_blocking(move || directories.unregister(&role)).await;
    match forgotten {
        Ok(Ok(_)) => {}
        Ok(Err(why)) => return Err(unkept("The mailbox is closed", &why)),
        Err(why) => return Err(unkept("The mailbox is closed", &why)),
    }
    let told = format!("Agent '{agent}' unregistered successfully");
    let facts = json!({
        "message": told, "agent_name": agent.as_str(), "repeated": closed.repeated,
    });
    Ok(said(told, facts))
}

pub(super) async fn cleanup_agents(
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let (_caller, _playing) = Caller::player(call, arguments)?;
    let directories = call.host.directories.clone();
    let cleaned = tokio::task::spawn_blocking(move || directories.clean_up()).await;
    let removed = match cleaned {
        Ok(Ok(lost)) => lost.into_iter().map(|it| it.role.to_string()).collect::<Vec<_>>(),
        Ok(Err(why)) => return Err(unkept("Nothing was changed", &why)),
        Err(why) => return Err(unkept("Nothing was changed", &why)),
    };
    let kept = call.host.directories.all();
    let kept: Vec<String> = kept.into_iter().map(|it| it.role.to_string()).collect();
    let told =
        format!("Cleanup completed. Removed: {}. Kept: {}.", removed.join(", "), kept.join(", "));
    let facts = json!({ "message": told, "removed": removed, "kept": kept });
    Ok(said(told, facts))
}
