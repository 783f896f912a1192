//! Wire messages as JSON, for programs that read these commands' output.
//!
//! Field names are those of the protocol; texts are as they were written.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tasuki_proto::{
    mail::BoxKind,
    visible::is_visible,
    wire::{self, EntryKind, LoopStatus, event::Kind},
};

/// The value in one line. Characters that a terminal would act on are written as `\u…`, which
/// means the same: outside of its strings JSON has none.
pub(crate) fn harmless(value: &Value) -> String {
    let text = value.to_string();
    if text.bytes().all(|it| it == b' ' || it.is_ascii_graphic()) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_visible(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            write!(out, "\\u{unit:04x}").expect("a String takes everything");
        }
    }
    out
}

pub(crate) fn status_name(status: LoopStatus) -> &'static str {
    match status {
        LoopStatus::Unspecified => "unspecified",
        LoopStatus::Idle => "idle",
        LoopStatus::Working => "working",
        LoopStatus::Stalled => "stalled",
        LoopStatus::Completed => "completed",
    }
}

pub(crate) fn kind_name(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Unspecified => "unspecified",
        EntryKind::Handover => "handover",
        EntryKind::Reclaim => "reclaim",
        EntryKind::RoundStart => "round_start",
    }
}

pub(crate) fn receipts(receipts: Option<wire::Receipts>) -> Value {
    let wire::Receipts { stored_ms, handed_ms, seen_ms, acted_ms, failed_ms, lapsed_ms } =
        receipts.unwrap_or_default();
    json!({
        "stored_ms": stored_ms,
        "handed_ms": handed_ms,
        "seen_ms": seen_ms,
        "acted_ms": acted_ms,
        "failed_ms": failed_ms,
        "lapsed_ms": lapsed_ms,
    })
}

pub(crate) fn of_loop(of: &wire::Loop) -> Value {
    json!({
        "loop": of.r#loop,
        "participants": of.participants,
        "round": of.round,
        "turn": of.turn,
        "status": status_name(of.status()),
        "holder": of.holder,
        "turn_began_ms": of.turn_began_ms,
        "lease_lapses_ms": of.lease_lapses_ms,
        "quiet_since_ms": of.quiet_since_ms,
        "receipts": receipts(of.receipts),
        "entries": of.entries,
        "waiting": of.waiting,
    })
}

pub(crate) fn entry(of: &wire::Entry) -> Value {
    json!({
        "number": of.number,
        "kind": kind_name(of.kind()),
        "round": of.round,
        "ended_turn": of.ended_turn,
        "turn": of.turn,
        "from": of.from,
        "to": of.to,
        "summary": of.summary,
        "instruction": of.instruction,
        "is_task_complete": of.is_task_complete,
        "reason": of.reason,
        "person": of.person,
        "node": of.node,
        "token": of.token,
        "at_ms": of.at_ms,
        "receipts": receipts(of.receipts),
    })
}

pub(crate) fn role(of: &wire::Role) -> Value {
    json!({
        "role": of.role,
        "node": of.node,
        "toolsets": of.toolsets,
        "is_present": of.is_present,
        "last_seen_ms": of.last_seen_ms,
        "client": of.client,
        "waits": of.waits,
    })
}

pub(crate) fn node(of: &wire::Node) -> Value {
    json!({
        "node": of.node,
        "epoch": of.epoch,
        "roles": of.roles,
        "is_present": of.is_present,
        "last_seen_ms": of.last_seen_ms,
        "software": of.software,
        "registered_ms": of.registered_ms,
        "token": of.token,
    })
}

pub(crate) fn item(of: &wire::FeedItem) -> Value {
    json!({
        "sequence": of.sequence,
        "at_ms": of.at_ms,
        "node": of.node,
        "role": of.role,
        "person": of.person,
        "token": of.token,
        "events": of.events.iter().map(event).collect::<Vec<_>>(),
    })
}

/// `{"kind": "handed_over", …}`; an event that this release does not know is `unknown`.
fn event(of: &wire::Event) -> Value {
    let Some(kind) = &of.kind else { return json!({"kind": "unknown"}) };
    match kind {
        Kind::NodeRegistered(e) => json!({
            "kind": "node_registered",
            "node": e.node,
            "epoch": e.epoch,
            "roles": e.roles.iter().map(role_spec).collect::<Vec<_>>(),
            "software": e.software,
        }),
        Kind::LoopOpened(e) => {
            json!({"kind": "loop_opened", "loop": e.r#loop, "participants": e.participants})
        }
        Kind::ParticipantsSet(e) => {
            json!({"kind": "participants_set", "loop": e.r#loop, "participants": e.participants})
        }
        Kind::HandedOver(e) => json!({
            "kind": "handed_over",
            "loop": e.r#loop,
            "round": e.round,
            "entry": e.entry,
            "ended_turn": e.ended_turn,
            "turn": e.turn,
            "from": e.from,
            "to": e.to,
            "is_task_complete": e.is_task_complete,
        }),
        Kind::TurnReclaimed(e) => json!({
            "kind": "turn_reclaimed",
            "loop": e.r#loop,
            "entry": e.entry,
            "ended_turn": e.ended_turn,
            "turn": e.turn,
            "from": e.from,
            "to": e.to,
            "reason": e.reason,
        }),
        Kind::RoundStarted(e) => json!({
            "kind": "round_started",
            "loop": e.r#loop,
            "round": e.round,
            "entry": e.entry,
            "turn": e.turn,
            "to": e.to,
        }),
        Kind::TurnMarked(e) => json!({
            "kind": "turn_marked",
            "loop": e.r#loop,
            "turn": e.turn,
            "receipt": e.receipt,
        }),
        Kind::TurnLapsed(e) => json!({"kind": "turn_lapsed", "loop": e.r#loop, "turn": e.turn}),
        Kind::LeaseRenewed(e) => json!({
            "kind": "lease_renewed",
            "loop": e.r#loop,
            "turn": e.turn,
            "lapses_ms": e.lapses_ms,
            "is_grace": e.is_grace,
        }),
        Kind::MailSent(e) => json!({
            "kind": "mail_sent",
            "message_id": e.message_id,
            "entry": e.entry,
            "sender": e.sender,
            "receivers": e.receivers,
            "type": e.r#type,
        }),
        Kind::MailMoved(e) => json!({
            "kind": "mail_moved",
            "message_id": e.message_id,
            "role": e.role,
            "box": BoxKind::of_wire(e.r#box()).map(BoxKind::as_str),
        }),
        Kind::MailMarked(e) => json!({
            "kind": "mail_marked",
            "message_id": e.message_id,
            "role": e.role,
            "through": e.through,
            "receipt": e.receipt,
        }),
        Kind::MailLapsed(e) => json!({
            "kind": "mail_lapsed",
            "message_id": e.message_id,
            "roles": e.roles,
            "entry": e.entry,
            "sender": e.sender,
        }),
        Kind::MailDied(e) => json!({
            "kind": if e.is_revived { "mail_revived" } else { "mail_died" },
            "message_id": e.message_id,
            "role": e.role,
            "unseen": e.unseen.iter().map(|it| json!({ "sender": it.sender, "entry": it.entry }))
                .collect::<Vec<_>>(),
        }),
        Kind::MailImported(e) => json!({
            "kind": "mail_imported",
            "message_id": e.message_id,
            "entries": e.entries,
            "participants": e.participants,
        }),
        Kind::MailboxOpened(e) => json!({"kind": "mailbox_opened", "role": e.role}),
        Kind::RosterSet(e) => {
            json!({"kind": "roster_set", "number": e.number, "is_on": e.is_on})
        }
        Kind::KeyPublished(e) => json!({"kind": "key_published", "node": e.node}),
        Kind::MailboxClosed(e) => json!({"kind": "mailbox_closed", "role": e.role}),
        Kind::IssueChanged(e) => json!({
            "kind": "issue_changed",
            "issue_id": e.issue_id,
            "number": e.number,
            "type": e.r#type,
            "task_id": e.task_id,
            "worker": e.worker,
            "submission_id": e.submission_id,
            "message_id": e.message_id,
            "delivery_id": e.delivery_id,
        }),
        Kind::ItemsHanded(e) => {
            json!({"kind": "items_handed", "issue_id": e.issue_id, "numbers": e.numbers})
        }
        Kind::WorkerRegistered(e) => json!({"kind": "worker_registered", "worker": e.worker}),
        Kind::SharedDocWritten(e) => {
            json!({"kind": "shared_doc_written", "name": e.name, "version": e.version})
        }
        Kind::FilesLocked(e) => json!({
            "kind": "files_locked",
            "lease_id": e.lease_id,
            "holder": e.holder,
            "files": e.files,
            "issue_id": e.issue_id,
            "task_id": e.task_id,
            "expires_ms": e.expires_ms,
        }),
        Kind::FilesUnlocked(e) => {
            json!({"kind": "files_unlocked", "lease_id": e.lease_id, "why": e.why})
        }
        Kind::SwarmSettingsSet(_) => json!({"kind": "swarm_settings_set"}),
    }
}

fn role_spec(of: &wire::RoleSpec) -> Value {
    json!({"role": of.role, "toolsets": of.toolsets})
}

/// The fields of a message that are not in its JSON.
#[cfg(test)]
pub(in crate::cli) fn unshown(message: &str, value: &Value) -> Vec<String> {
    use prost::Message as _;

    let set = prost_types::FileDescriptorSet::decode(tasuki_proto::DESCRIPTORS).unwrap();
    let mut all = set.file.into_iter().flat_map(|file| file.message_type);
    let of = all.find(|it| it.name() == message).unwrap_or_else(|| panic!("no {message}"));
    let names = of.field.iter().map(|field| field.name().to_owned());
    names.filter(|name| value.get(name).is_none()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_what_is_shown_is_there_for_programs() {
        for (message, value) in [
            ("Loop", of_loop(&wire::Loop::default())),
            ("Entry", entry(&wire::Entry::default())),
            ("Receipts", receipts(None)),
            ("Role", role(&wire::Role::default())),
            ("Node", node(&wire::Node::default())),
            ("FeedItem", item(&wire::FeedItem::default())),
        ] {
            assert_eq!(unshown(message, &value), [""; 0], "{message}: {value}");
        }
    }
}
