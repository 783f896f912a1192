//! JSON lines: everything there is about each entry.
//!
//! Characters that a terminal would act on are written as `\u…`, which means the same.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tasuki_proto::{id::WorkspaceId, wire};

use super::Found;
use crate::cli::json::harmless;

/// A line for each entry.
pub(super) fn thread(found: &Found, workspace: &WorkspaceId) -> String {
    let mut lines = String::new();
    for entry in &found.entries {
        lines += &harmless(&line(found, workspace, entry));
        lines.push('\n');
    }
    lines
}

fn line(found: &Found, workspace: &WorkspaceId, entry: &wire::MailEntry) -> Value {
    let Found { role, place, thread, .. } = found;
    json!({
        "workspace": workspace.as_str(),
        "role": role.as_str(),
        "box": place.as_str(),
        "message_id": thread.message_id,
        "file_name": thread.file_name,
        "subject": thread.subject,
        "thread_type": thread.r#type,
        "original_sender": thread.original_sender,
        "participants": thread.participants,
        "is_dead": thread.is_dead,
        "entry": entry.number,
        "entries": found.entries.len(),
        "sender": entry.sender,
        "receivers": entry.receivers,
        "type": entry.r#type,
        "at_ms": entry.at_ms,
        "written_ms": entry.written_ms,
        "is_imported": entry.is_imported,
        "expires_ms": entry.expires_ms,
        "node": entry.node,
        "token": entry.token,
        "text": entry.text,
        "sealed": entry.sealed.as_ref().map(|it| STANDARD.encode(&it.envelope)),
        "attachments": entry.attachments,
        "receipts": entry.receipts,
    })
}
