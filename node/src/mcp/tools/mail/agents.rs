//! Agents with a mailbox: `filebox_register_agent`, `filebox_list_agents`,
//! `filebox_unregister_agent`, `filebox_cleanup_agents`.
//!
//! A mailbox is opened and closed at the broker, for the whole workspace; which directory is its
//! project's concerns this node alone.

use std::path::{Path, PathBuf};

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tasuki_proto::{
    id::RoleId,
    reason::Reason,
    wire::{self, MailboxState},
};

use super::{
    super::{
        Call,
        arguments::invalid,
        field_types::{Id, Name},
        result::text_result,
        tool::{Tool, ToolInfo},
        view::is_nothing,
    },
    FULL,
    caller::{Player, Reader},
    views::{caution, millis},
};
use crate::{
    mail_directories::{Directories, RegisterError},
    mirror::is_within,
    role::Refusal,
};

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
    #[serde(skip_serializing_if = "is_nothing")]
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

/// Creates a mailbox for an agent and stores its project directory.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RegisterAgent {
    /// Name of the agent.
    agent_name: Id<RoleId>,
    /// Absolute path of its project.
    directory: Option<Name>,
}

impl Tool for RegisterAgent {
    const INFO: ToolInfo = ToolInfo::write("filebox_register_agent", FULL);

    type Caller<'a> = Player<'a>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let Id(agent) = self.agent_name;
        let call = player.caller.call;
        let directory = self.directory.map(|it| directory(&it.0, call.host.project.as_deref()));
        let directory = directory.transpose()?;
        let request = wire::OpenMailboxRequest { role: agent.to_string(), ..Default::default() };
        let opened = player.caller.actions.command(request, None).await?;
        let mut text = format!("Agent '{agent}' registered successfully");
        if let Some(directory) = &directory {
            store_directory(call, &agent, directory.clone()).await?;
            text += &format!(" with directory: {}", directory.display());
        }
        let facts = json!({
            "message": text, "agent_name": agent.as_str(), "directory": directory,
            "repeated": opened.repeated,
        });
        Ok(text_result(text, facts).into())
    }
}

/// An absolute one: this server's own directory is not the caller's. Within the project `root`,
/// where the operator named one: mailboxes are written there, and what lies there is sent.
fn directory(text: &str, root: Option<&Path>) -> Result<PathBuf, Refusal> {
    const FIELD: &str = "directory";
    if PATH_BYTES_MAX < text.len() {
        return Err(invalid(FIELD, &format_args!("is over {PATH_BYTES_MAX} bytes long")));
    }
    let path = PathBuf::from(text);
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
    Ok(path.canonicalize().unwrap_or(path))
}

async fn store_directory(
    call: &Call<'_>,
    agent: &RoleId,
    directory: PathBuf,
) -> Result<(), Refusal> {
    let (directories, role) = (call.host.directories.clone(), agent.clone());
    let kept = tokio::task::spawn_blocking(move || directories.register(&role, &directory)).await;
    let opened = "The mailbox is open";
    match kept {
        Ok(Ok(())) => Ok(()),
        Ok(Err(why @ RegisterError::Taken { .. })) => Err(invalid(
            "directory",
            &format_args!("cannot be assigned to {agent}: {why}. {opened}"),
        )),
        Ok(Err(why)) => Err(not_stored(opened, &why)),
        Err(why) => Err(not_stored(opened, &why)),
    }
}

fn not_stored(holds: &str, why: &dyn std::error::Error) -> Refusal {
    Refusal {
        reason: Reason::Unavailable,
        message: format!("{holds}, but its directory cannot be stored: {why}. Call again."),
    }
}

/// Lists the agents that have a mailbox.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListAgents {}

impl Tool for ListAgents {
    const INFO: ToolInfo = ToolInfo::read("filebox_list_agents", FULL);

    type Caller<'a> = Reader<'a>;

    async fn call(self, reader: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let mailbox = reader.caller;
        let seen = mailbox.mailboxes().await?;
        let directories = &mailbox.call.host.directories;
        let agents: Vec<Agent> =
            seen.what.mailboxes.into_iter().map(|it| Agent::new(it, directories)).collect();
        let open = agents.iter().filter(|it| !it.is_closed);
        let names: Vec<&str> = open.map(|it| it.agent_name.as_str()).collect();
        let mut facts = json!({ "agents": agents });
        if let Some(caution) = caution(seen.ago) {
            facts["caution"] = caution.into();
            facts["seen_ms_ago"] = seen.ago.map(millis).into();
        }
        Ok(text_result(json!(names).to_string(), facts).into())
    }
}

/// Closes an agent's mailbox. It receives no more mail; its messages are kept.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct UnregisterAgent {
    /// Name of the agent.
    agent_name: Id<RoleId>,
}

impl Tool for UnregisterAgent {
    const INFO: ToolInfo = ToolInfo::destroy("filebox_unregister_agent", FULL);

    type Caller<'a> = Player<'a>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let Id(agent) = self.agent_name;
        let mailbox = &player.caller;
        let request = wire::CloseMailboxRequest { role: agent.to_string(), ..Default::default() };
        let closed = mailbox.actions.command(request, None).await.map_err(|why| {
            if why.reason != Reason::UnknownRole {
                return why;
            }
            let message = format!("Agent '{agent}' not found in configuration.");
            Refusal { message, ..why }
        })?;
        let (directories, role) = (mailbox.call.host.directories.clone(), agent.clone());
        let forgotten = tokio::task::spawn_blocking(move || directories.unregister(&role)).await;
        match forgotten {
            Ok(Ok(_)) => {}
            Ok(Err(why)) => return Err(not_stored("The mailbox is closed", &why)),
            Err(why) => return Err(not_stored("The mailbox is closed", &why)),
        }
        let text = format!("Agent '{agent}' unregistered successfully");
        let facts = json!({
            "message": text, "agent_name": agent.as_str(), "repeated": closed.repeated,
        });
        Ok(text_result(text, facts).into())
    }
}

/// Removes duplicate registrations: if several agents share a directory, only the first keeps it.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct CleanUpAgents {}

impl Tool for CleanUpAgents {
    const INFO: ToolInfo = ToolInfo::destroy("filebox_cleanup_agents", FULL);

    type Caller<'a> = Player<'a>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let directories = player.caller.call.host.directories.clone();
        let cleaned = tokio::task::spawn_blocking(move || directories.clean_up()).await;
        let removed = match cleaned {
            Ok(Ok(lost)) => lost.into_iter().map(|it| it.role.to_string()).collect::<Vec<_>>(),
            Ok(Err(why)) => return Err(not_stored("Nothing was changed", &why)),
            Err(why) => return Err(not_stored("Nothing was changed", &why)),
        };
        let kept = player.caller.call.host.directories.all();
        let kept: Vec<String> = kept.into_iter().map(|it| it.role.to_string()).collect();
        let text = format!(
            "Cleanup completed. Removed: {}. Kept: {}.",
            removed.join(", "),
            kept.join(", ")
        );
        let facts = json!({ "message": text, "removed": removed, "kept": kept });
        Ok(text_result(text, facts).into())
    }
}
