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
        "is_sealed": is_sealed(of),
        "participants": of.participants,
        "handed": of.handed,
        "handed_through": of.handed_through,
        "seen_through": of.seen_through,
        "first_unseen": of.first_unseen,
    })
}

/// Whether its subject is in words that were not opened.
pub(super) fn is_sealed(of: &wire::MailThread) -> bool {
    of.first.is_some() && of.subject.is_empty()
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
    value["unseen"] = json!(thread.unseen);
    value["participants"] = json!(thread.participants);
    value["is_urgent"] = json!(thread.is_urgent);
    value["is_dead"] = json!(thread.is_dead);
    value["is_sealed"] = json!(is_sealed(thread));
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

#[cfg(test)]
mod tests {
    use crate::cli::json::unshown;

    use super::*;

    fn check(message: &str, value: &Value, elsewhere: &[&str]) {
        assert_eq!(unshown(message, value), elsewhere, "{message}: {value}");
    }

    #[test]
    fn every_field_of_what_is_shown_is_there_for_programs() {
        // Sealed words are opened, or said to be sealed.
        check("MailThread", &thread(&wire::MailThread::default()), &["first"]);
        // Its number is called `entry`.
        check("MailEntry", &entry(&wire::MailEntry::default()), &["number"]);
        check("Attachment", &attachment(&wire::Attachment::default()), &[]);
        check("MailReceipt", &receipt(&wire::MailReceipt::default()), &[]);
        check("MailboxState", &mailbox(&wire::MailboxState::default()), &[]);
        check("Moved", &moved(&wire::Moved::default()), &[]);
        check("MailHit", &hit(&wire::MailHit::default()), &[]);
    }

    /// Above the entries of a thread people are told what it is.
    #[test]
    fn an_entry_that_stands_alone_says_what_is_said_above_its_thread() {
        let value = entry_of(&wire::MailThread::default(), &wire::MailEntry::default());
        for field in [
            "message_id",
            "file_name",
            "subject",
            "box",
            "entries",
            "unseen",
            "participants",
            "is_urgent",
            "is_dead",
            "is_sealed",
        ] {
            assert!(value.get(field).is_some(), "{field}");
        }
    }
}
