//! What answers about mail are made of, field by field, in the order an agent reads them.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;
use tasuki_proto::{
    id::RoleId,
    mail::BoxKind,
    wire::{self, MailEntry, MailReceipt, MailThread},
};

use super::super::{result::time, sanitizer::Sanitizer};

/// A thread as one role has it, without its entries.
#[derive(Debug, Serialize)]
pub(super) struct Thread {
    pub message_id: String,
    pub file_name: String,
    pub subject: String,
    pub msg_type: String,
    #[serde(rename = "box")]
    pub place: &'static str,
    pub entries_total: u32,
    pub unseen: u32,
    #[serde(skip_serializing_if = "is_false")]
    pub is_urgent: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub is_dead_letter: bool,
    pub original_sender: String,
    pub participants: Vec<String>,
}

/// One line of a box.
#[derive(Debug, Serialize)]
pub(super) struct ListedThread {
    pub file_name: String,
    pub message_id: String,
    pub subject: String,
    pub msg_type: String,
    pub from: String,
    pub at: String,
    pub entries: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub unseen: u32,
    #[serde(skip_serializing_if = "is_false")]
    pub is_urgent: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub is_dead_letter: bool,
}

/// A letter.
#[derive(Debug, Serialize)]
pub(super) struct Entry {
    pub number: u32,
    pub from: String,
    pub to: Vec<String>,
    /// The node it came from; empty: none of this broker's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// `self`, `peer`, or `imported`: sender and time are what a file said.
    pub trust: &'static str,
    pub msg_type: String,
    pub at: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expires: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub receipts: BTreeMap<String, &'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The words cannot be read here; the text says why.
    #[serde(skip_serializing_if = "is_false")]
    pub is_sealed: bool,
    pub text: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Attachment {
    pub name: String,
    pub media_type: String,
    pub size: u64,
    pub hash: String,
}

/// How far a message got at one receiver.
#[derive(Debug, Serialize)]
pub(super) struct Receipt {
    pub role: String,
    pub receipt: &'static str,
    #[serde(skip_serializing_if = "is_none")]
    pub at_ms: u64,
}

impl Thread {
    pub(super) fn new(it: &MailThread, others: &mut Sanitizer) -> Self {
        Self {
            message_id: it.message_id.clone(),
            file_name: others.line(&it.file_name),
            subject: others.line(&it.subject),
            msg_type: others.line(&it.r#type),
            place: place(it.r#box()),
            entries_total: it.entries,
            unseen: it.unseen,
            is_urgent: it.is_urgent,
            is_dead_letter: it.is_dead,
            original_sender: others.line(&it.original_sender),
            participants: others.lines(&it.participants),
        }
    }
}

impl ListedThread {
    pub(super) fn new(it: &MailThread, others: &mut Sanitizer) -> Self {
        Self {
            file_name: others.line(&it.file_name),
            message_id: it.message_id.clone(),
            subject: others.line(&it.subject),
            msg_type: others.line(&it.latest_type),
            from: others.line(&it.latest_sender),
            at: time(it.latest_ms),
            entries: it.entries,
            unseen: it.unseen,
            is_urgent: it.is_urgent,
            is_dead_letter: it.is_dead,
        }
    }
}

impl Entry {
    pub(super) fn new(role: &RoleId, it: &MailEntry, others: &mut Sanitizer) -> Self {
        let receipts = it.receipts.iter();
        Self {
            number: it.number,
            from: others.line(&it.sender),
            to: others.lines(&it.receivers),
            node: others.line(&it.node),
            trust: match it {
                it if it.is_imported => "imported",
                it if it.sender == role.as_str() => "self",
                _ => "peer",
            },
            msg_type: others.line(&it.r#type),
            at: time(if it.is_imported { it.written_ms } else { it.at_ms }),
            expires: if it.expires_ms == 0 { String::new() } else { time(it.expires_ms) },
            receipts: receipts.map(|it| (others.line(&it.role), word(it).0)).collect(),
            attachments: it.attachments.iter().map(|it| Attachment::new(it, others)).collect(),
            is_sealed: it.sealed.is_some(),
            text: others.text(&it.text),
        }
    }
}

impl Entry {
    /// Of a letter of one's own: at whom it came to nothing.
    pub(super) fn unheard(&self) -> String {
        let at = |word| {
            let roles = self.receipts.iter().filter(move |(_, receipt)| **receipt == word);
            roles.map(|(role, _)| role.as_str()).collect::<Vec<_>>().join(", ")
        };
        let mut said = String::new();
        for (word, what) in
            [("lapsed", "expired unseen by"), ("dead", "was returned 10 times and not seen by")]
        {
            let roles = at(word);
            if self.trust == "self" && !roles.is_empty() {
                said += &format!(" Your entry {} {what} {roles}.", self.number);
            }
        }
        said
    }
}

impl Attachment {
    fn new(it: &wire::Attachment, others: &mut Sanitizer) -> Self {
        Self {
            name: others.line(&it.name),
            media_type: others.line(&it.media_type),
            size: it.size,
            hash: it.hash.clone(),
        }
    }
}

impl Receipt {
    pub(super) fn new(it: &MailReceipt) -> Self {
        let (receipt, at_ms) = word(it);
        Self { role: it.role.clone(), receipt, at_ms }
    }
}

/// The furthest it got, and when.
fn word(it: &MailReceipt) -> (&'static str, u64) {
    let stages = [
        ("acted", it.acted_ms),
        ("lapsed", it.lapsed_ms),
        ("dead", it.dead_ms),
        ("seen", it.seen_ms),
        ("handed", it.handed_ms),
    ];
    let furthest = stages.into_iter().find(|(_, at_ms)| *at_ms != 0);
    furthest.unwrap_or(("stored", it.stored_ms))
}

pub(super) fn place(it: wire::Box) -> &'static str {
    BoxKind::of_wire(it).map_or("", BoxKind::as_str)
}

pub(super) fn millis(of: Duration) -> u64 {
    u64::try_from(of.as_millis()).unwrap_or(u64::MAX)
}

/// Said beside what may be over; `None`: the broker says so now.
pub(super) fn caution(ago: Option<Duration>) -> Option<String> {
    ago.map(|ago| {
        let secs = ago.as_secs();
        format!("State as of {secs} s ago: the broker is unreachable. It may have changed since.")
    })
}

pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}

pub(super) fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

pub(super) fn is_nothing(number: &usize) -> bool {
    *number == 0
}
