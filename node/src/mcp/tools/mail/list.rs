//! The tools for mail as clients are told of them.

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::super::{In, ToolDef, schema};
use crate::config::Shown;

/// The toolset.
pub(in crate::mcp) const SET: &str = "mail";

pub(super) const SEND: &str = "filebox_send_message";
pub(super) const LIST: &str = "filebox_list_messages";
pub(super) const READ: &str = "filebox_read_message";
pub(super) const RESOLVE: &str = "filebox_resolve_message";
pub(super) const REJECT: &str = "filebox_reject_message";
pub(super) const WAIT: &str = "filebox_wait_for_message";
pub(super) const SEARCH: &str = "filebox_search_messages";
pub(super) const THREAD: &str = "filebox_thread";
pub(super) const REGISTER: &str = "filebox_register_agent";
pub(super) const AGENTS: &str = "filebox_list_agents";
pub(super) const UNREGISTER: &str = "filebox_unregister_agent";
pub(super) const CLEAN_UP: &str = "filebox_cleanup_agents";
pub(super) const DEAD_LETTERS: &str = "filebox_list_dead_letters";
pub(super) const HAND_AGAIN: &str = "filebox_hand_again";
pub(super) const SAVE: &str = "filebox_save_attachment";

/// In the order of the alphabet.
pub(in crate::mcp::tools) const ROWS: [ToolDef; 15] = [
    ToolDef { name: CLEAN_UP, sets: &FULL },
    ToolDef { name: HAND_AGAIN, sets: &FULL },
    ToolDef { name: AGENTS, sets: &FULL },
    ToolDef { name: DEAD_LETTERS, sets: &FULL },
    ToolDef { name: LIST, sets: &CORE },
    ToolDef { name: READ, sets: &CORE },
    ToolDef { name: REGISTER, sets: &FULL },
    ToolDef { name: REJECT, sets: &CORE },
    ToolDef { name: RESOLVE, sets: &CORE },
    ToolDef { name: SAVE, sets: &FULL },
    ToolDef { name: SEARCH, sets: &CORE },
    ToolDef { name: SEND, sets: &QUIET },
    ToolDef { name: THREAD, sets: &CORE },
    ToolDef { name: UNREGISTER, sets: &FULL },
    ToolDef { name: WAIT, sets: &QUIET },
];

const CORE: [In; 1] = [In { set: SET, from: Shown::Core }];
/// What a role needs that writes a letter now and then.
const QUIET: [In; 1] = [In { set: SET, from: Shown::Quiet }];
const FULL: [In; 1] = [In { set: SET, from: Shown::Full }];

/// What a tool does to the world, for clients that ask their user before they call one.
#[derive(Clone, Copy)]
enum Does {
    Look,
    Act,
    /// What it takes away does not come back by calling another tool.
    TakeAway,
}

fn tool(
    name: &'static str,
    told: &'static str,
    does: Does,
    fields: Value,
    required: &[&str],
) -> Tool {
    let annotations = ToolAnnotations::new()
        .read_only(matches!(does, Does::Look))
        .destructive(matches!(does, Does::TakeAway))
        .idempotent(true)
        .open_world(false);
    Tool::new(name, told, schema(fields, required)).with_annotations(annotations)
}

/// Every tool of the set.
pub(in crate::mcp::tools) fn tools() -> Vec<Tool> {
    let text = |what: &str| json!({ "type": "string", "description": what });
    let run_as = text("Your agent ID. Required if this server hosts several agents.");
    let one_or_more = |what: &str| {
        let list = json!({ "type": "array", "items": { "type": "string" } });
        json!({ "anyOf": [{ "type": "string" }, list], "description": what })
    };
    let types = ["BR", "ACK", "ER", "INFO", "URGENT", "DIS"];
    let boxes = ["inbox", "outbox", "done", "cancel"];
    let only_type = json!({ "type": "string", "enum": types, "description": "Filter by type." });
    let only_from = text("Filter by sender.");
    let filename = one_or_more("File name, message ID or ID prefix, or a list of these.");
    let list = json!({ "type": "array", "items": { "type": "string" } });
    let mut files = list;
    files["description"] = "Paths of files in your project, up to 16.".into();
    let count = |what: &str| json!({ "type": "integer", "minimum": 1, "description": what });
    vec![
        tool(
            SEND,
            "Sends a message to other agents, or replies to one. An identical call right after is \
             sent once; with `client_ref`, a repeat at any time is.",
            Does::Act,
            json!({
                "receiver_id": one_or_more("An agent, a list of up to 32 agents, or a group."),
                "msg_type": {
                    "type": "string",
                    "enum": types,
                    "description": "BR bug report, ACK receipt, ER request, INFO, URGENT, DIS \
                                    discussion."
                },
                "title": text("Subject. A reply keeps the subject of its thread."),
                "content": text("Body in Markdown."),
                "original_message_id": text("Message to reply to: message ID, ID prefix or file \
                                             name."),
                "attachments": files,
                "expires_sec": count("Expires if unread after this many seconds. Up to 365 days."),
                "client_ref": text("Idempotency key: a repeat is not sent twice."),
                "runAs": run_as,
            }),
            &["receiver_id", "msg_type", "title", "content"],
        ),
        tool(
            LIST,
            "Lists the file names in one of your boxes, urgent messages first.",
            Does::Look,
            json!({
                "box_type": { "type": "string", "enum": boxes },
                "limit": count("1–1000. Default 1000."),
                "after": text("Cursor: `next` of the previous page."),
                "runAs": run_as,
            }),
            &["box_type"],
        ),
        tool(
            READ,
            "Returns a message with its whole thread, newest entry first.",
            Does::Look,
            json!({
                "box_type": { "type": "string", "enum": boxes },
                "filename": text("File name, message ID or ID prefix."),
                "runAs": run_as,
            }),
            &["box_type", "filename"],
        ),
        tool(
            RESOLVE,
            "Moves messages from your inbox to done.",
            Does::Act,
            json!({ "filename": filename, "runAs": run_as }),
            &["filename"],
        ),
        tool(
            REJECT,
            "Moves messages from your inbox to cancel.",
            Does::Act,
            json!({ "filename": filename, "runAs": run_as }),
            &["filename"],
        ),
        tool(
            WAIT,
            "Waits for mail. Returns the oldest unseen message, urgent first, and returns it again \
             until you read, reply to, resolve or reject it, or pass it as `after`. If the result \
             is still_waiting, call it again immediately.",
            Does::Look,
            json!({
                "msg_type": only_type,
                "sender": only_from,
                "timeout_sec": {
                    "type": "number",
                    "minimum": 0,
                    "description": "Seconds. 0 returns immediately. Omit it to wait as long as \
                                    your client allows."
                },
                "after": text("A message that you have dealt with."),
                "runAs": run_as,
            }),
            &[],
        ),
        tool(
            SEARCH,
            "Searches your messages in all boxes.",
            Does::Look,
            json!({
                "query": text("Words, \"phrases\", -without, subject: body: type: from: to:"),
                "box_type": { "type": "string", "enum": boxes },
                "msg_type": only_type,
                "sender": only_from,
                "since": text("Date, time or age: 2026-11-21, 2026-11-21T09:00:00Z, 2h, 7d."),
                "limit": count("1–100. Default 20."),
                "runAs": run_as,
            }),
            &["query"],
        ),
        tool(
            THREAD,
            "Returns the entries of a thread, oldest first.",
            Does::Look,
            json!({
                "message_id": text("Message ID, ID prefix or file name."),
                "last": count("Return only this many of the newest entries."),
                "from": count("Number of the first entry to return."),
                "runAs": run_as,
            }),
            &["message_id"],
        ),
        tool(
            REGISTER,
            "Creates a mailbox for an agent and stores its project directory.",
            Does::Act,
            json!({
                "agent_name": text("Name of the agent."),
                "directory": text("Absolute path of its project."),
                "runAs": run_as,
            }),
            &["agent_name"],
        ),
        tool(
            AGENTS,
            "Lists the agents that have a mailbox.",
            Does::Look,
            json!({ "runAs": run_as }),
            &[],
        ),
        tool(
            UNREGISTER,
            "Closes an agent's mailbox. It receives no more mail; its messages are kept.",
            Does::TakeAway,
            json!({ "agent_name": text("Name of the agent."), "runAs": run_as }),
            &["agent_name"],
        ),
        tool(
            CLEAN_UP,
            "Removes duplicate registrations: if several agents share a directory, only the first \
             keeps it.",
            Does::TakeAway,
            json!({ "runAs": run_as }),
            &[],
        ),
        tool(
            DEAD_LETTERS,
            "Lists dead letters: messages returned 10 times and never seen. Waits skip them.",
            Does::Look,
            json!({ "runAs": run_as }),
            &[],
        ),
        tool(
            SAVE,
            "Saves an attached file to your project. Returns its path.",
            Does::Act,
            json!({
                "message_id": text("Message ID, ID prefix or file name."),
                "hash": text("BLAKE3 hash of the file, or a prefix."),
                "runAs": run_as,
            }),
            &["message_id", "hash"],
        ),
        tool(
            HAND_AGAIN,
            "Makes waits return a dead letter again.",
            Does::Act,
            json!({
                "message_id": text("Message ID, ID prefix or file name."),
                "runAs": run_as,
            }),
            &["message_id"],
        ),
    ]
}
