//! Mail as JSON, for programs. Field names are those of the protocol, texts as they were written.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tasuki_proto::{mail::BoxKind, wire};

pub(super) fn place(of: wire::Box) -> Option<&'static str> {
    BoxKind::of_wire(of).map(BoxKind::as_str)
}

pub(super) fn thread(of: &wire::MailThread) -> Value {
    json!({
        "message_id": of.message_id,
        "file_name": of.file_name,
        "subject": of.subject,
        "type": of.r#type,
        "original_sender": of.original_sender,
        "box": place(of.r#box()),
        "entries": of.entries,
        "unseen": of.unseen,
        "latest_type": of.latest_type,
        "latest_sender": of.latest_sender,
        "latest_receivers": of.latest_receivers,
        "latest_ms": of.latest_ms,
        "is_urgent": of.is_urgent,
        "is_dead": of.is_dead,
        "participants": of.participants,
        "handed": of.handed,
        "handed_through": of.handed_through,
        "seen_through": of.seen_through,
        "first_unseen": of.first_unseen,
    })
}

pub(super) fn entry(of: &wire::MailEntry) -> Value {
    json!({
        "entry": of.number,
        "sender": of.sender,
        "receivers": of.receivers,
        "type": of.r#type,
        "at_ms": of.at_ms,
        "text": of.text,
        "attachments": of.attachments.iter().map(attachment).collect::<Vec<_>>(),
        "receipts": receipts(&of.receipts),
        "node": of.node,
        "token": of.token,
        "expires_ms": of.expires_ms,
        "is_imported": of.is_imported,
        "written_ms": of.written_ms,
        "sealed": of.sealed.as_ref().map(|it| STANDARD.encode(&it.envelope)),
    })
}

/// An entry that stands alone, and so says of which thread it is.
pub(super) fn entry_of(thread: &wire::MailThread, of: &wire::MailEntry) -> Value {
    let mut value = entry(of);
    value["message_id"] = json!(thread.message_id);
    value["file_name"] = json!(thread.file_name);
    value["subject"] = json!(thread.subject);
    value["box"] = json!(place(thread.r#box()));
    value["entries"] = json!(thread.entries);
    value
}

pub(super) fn attachment(of: &wire::Attachment) -> Value {
    json!({"name": of.name, "media_type": of.media_type, "size": of.size, "hash": of.hash})
}

pub(super) fn receipts(of: &[wire::MailReceipt]) -> Vec<Value> {
    of.iter().map(receipt).collect()
}

fn receipt(of: &wire::MailReceipt) -> Value {
    json!({
        "role": of.role,
        "stored_ms": of.stored_ms,
        "handed_ms": of.handed_ms,
        "seen_ms": of.seen_ms,
        "acted_ms": of.acted_ms,
        "lapsed_ms": of.lapsed_ms,
        "dead_ms": of.dead_ms,
    })
}

pub(super) fn mailbox(of: &wire::MailboxState) -> Value {
    json!({
        "role": of.role,
        "inbox": of.inbox,
        "outbox": of.outbox,
        "done": of.done,
        "cancel": of.cancel,
        "unseen": of.unseen,
        "dead": of.dead,
        "is_closed": of.is_closed,
        "node": of.node,
        "quiet_ms": of.quiet_ms,
    })
}

pub(super) fn moved(of: &wire::Moved) -> Value {
    json!({
        "asked": of.asked,
        "message_id": of.message_id,
        "file_name": of.file_name,
        "box": place(of.r#box()),
        "refusal": of.refusal.as_ref().map(|it| json!({"code": it.reason, "message": it.message})),
    })
}

pub(super) fn hit(of: &wire::MailHit) -> Value {
    json!({
        "thread": of.thread.as_ref().map(thread),
        "entry": of.entry,
        "sender": of.sender,
        "type": of.r#type,
        "at_ms": of.at_ms,
        "score": of.score,
        "excerpt": of.excerpt,
        "highlights": of.highlights,
    })
}
