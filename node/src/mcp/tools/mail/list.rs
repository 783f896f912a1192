//! The tools for mail as clients are told of them.

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::super::{In, Row, schema};
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
pub(in crate::mcp::tools) const ROWS: [Row; 15] = [
    Row { name: CLEAN_UP, sets: &FULL },
    Row { name: HAND_AGAIN, sets: &FULL },
    Row { name: AGENTS, sets: &FULL },
    Row { name: DEAD_LETTERS, sets: &FULL },
    Row { name: LIST, sets: &CORE },
    Row { name: READ, sets: &CORE },
    Row { name: REGISTER, sets: &FULL },
    Row { name: REJECT, sets: &CORE },
    Row { name: RESOLVE, sets: &CORE },
    Row { name: SAVE, sets: &FULL },
    Row { name: SEARCH, sets: &CORE },
    Row { name: SEND, sets: &QUIET },
    Row { name: THREAD, sets: &CORE },
    Row { name: UNREGISTER, sets: &FULL },
    Row { name: WAIT, sets: &QUIET },
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
    let run_as = text("Your agent ID, where this server serves several.");
    let one_or_more = |what: &str| {
        let list = json!({ "type": "array", "items": { "type": "string" } });
        json!({ "anyOf": [{ "type": "string" }, list], "description": what })
    };
    let types = ["BR", "ACK", "ER", "INFO", "URGENT", "DIS"];
    let boxes = ["inbox", "outbox", "done", "cancel"];
    let only_type = json!({ "type": "string", "enum": types, "description": "Only this type." });
    let only_from = text("Only from this agent.");
    let filename = one_or_more("File name, message ID or a prefix of it; or several.");
    let list = json!({ "type": "array", "items": { "type": "string" } });
    let mut files = list;
    files["description"] = "Files of your project.".into();
    let count = |what: &str| json!({ "type": "integer", "minimum": 1, "description": what });
    vec![
        tool(
            SEND,
            "Sends a message to other agents, or answers one. A call repeated right away is sent \
             once, and with `client_ref` however late.",
            Does::Act,
            json!({
                "receiver_id": one_or_more("An agent, several, or a group."),
                "msg_type": {
                    "type": "string",
                    "enum": types,
                    "description": "BR bug report, ACK receipt, ER request, INFO, URGENT, DIS \
                                    discussion."
                },
                "title": text("What it is about; an answer keeps its thread's."),
                "content": text("The message, in Markdown."),
                "original_message_id": text("To answer: message ID, a prefix of it, or file name."),
                "attachments": files,
                "expires_sec": count("Of no use to anybody if not seen in so long."),
                "client_ref": text("Your own name for it: the same again is sent once."),
                "runAs": run_as,
            }),
            &["receiver_id", "msg_type", "title", "content"],
        ),
        tool(
            LIST,
            "Lists the file names in one of your boxes, urgent ones first.",
            Does::Look,
            json!({
                "box_type": { "type": "string", "enum": boxes },
                "limit": count("At most so many; default 1000."),
                "after": text("To go on: what the page before gave."),
                "runAs": run_as,
            }),
            &["box_type"],
        ),
        tool(
            READ,
            "Shows a message with its whole thread, the newest entry first.",
            Does::Look,
            json!({
                "box_type": { "type": "string", "enum": boxes },
                "filename": text("File name, message ID or a prefix of it."),
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
            "Waits for mail and shows the oldest unseen, urgent first. It shows the same again \
             until you read, answer, resolve or reject it, or name it in `after`. If the answer \
             says still_waiting, call again at once.",
            Does::Look,
            json!({
                "msg_type": only_type,
                "sender": only_from,
                "timeout_sec": {
                    "type": "number",
                    "minimum": 0,
                    "description": "Wait at most this long; 0 only looks. Best left out."
                },
                "after": text("A message you are done with."),
                "runAs": run_as,
            }),
            &[],
        ),
        tool(
            SEARCH,
            "Searches your messages, those in done and cancel too.",
            Does::Look,
            json!({
                "query": text("Words, \"phrases\", -without, subject: body: type: from: to:"),
                "box_type": { "type": "string", "enum": boxes },
                "msg_type": only_type,
                "sender": only_from,
                "since": text("A date, a time, or how long ago: 2026-11-21, 2h, 7d."),
                "limit": count("At most so many; default 20."),
                "runAs": run_as,
            }),
            &["query"],
        ),
        tool(
            THREAD,
            "Shows the entries of a thread, the oldest first.",
            Does::Look,
            json!({
                "message_id": text("Message ID, a prefix of it, or file name."),
                "last": count("Only the newest so many."),
                "from": count("Only from this entry on."),
                "runAs": run_as,
            }),
            &["message_id"],
        ),
        tool(
            REGISTER,
            "Opens a mailbox for an agent, and keeps which directory is its project's.",
            Does::Act,
            json!({
                "agent_name": text("Name of the agent."),
                "directory": text("Its project's directory, absolute."),
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
            "Closes an agent's mailbox: it takes in no more mail. What is there stays.",
            Does::TakeAway,
            json!({ "agent_name": text("Name of the agent."), "runAs": run_as }),
            &["agent_name"],
        ),
        tool(
            CLEAN_UP,
            "Where several agents were registered for one directory, only the first keeps it.",
            Does::TakeAway,
            json!({ "runAs": run_as }),
            &[],
        ),
        tool(
            DEAD_LETTERS,
            "Lists messages that were shown 10 times and never seen: waits pass them over.",
            Does::Look,
            json!({ "runAs": run_as }),
            &[],
        ),
        tool(
            SAVE,
            "Saves an attached file into your project.",
            Does::Act,
            json!({
                "message_id": text("Message ID, a prefix of it, or file name."),
                "hash": text("Its hash, or a prefix of it."),
                "runAs": run_as,
            }),
            &["message_id", "hash"],
        ),
        tool(
            HAND_AGAIN,
            "Has waits show a dead letter again.",
            Does::Act,
            json!({
                "message_id": text("Message ID, a prefix of it, or file name."),
                "runAs": run_as,
            }),
            &["message_id"],
        ),
    ]
}
