//! What answers about mail are made of, field by field, in the order an agent reads them.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;
use tasuki_proto::{
    id::RoleId,
    mail::BoxKind,
    wire::{self, MailEntry, MailReceipt, MailThread},
};

use super::super::{
    result::{Time, time},
    sanitizer::Sanitizer,
    view::{is_nothing, view},
};

view! {
    /// A thread as one role has it, without its entries.
    Thread(it: MailThread, others) {
        message_id: String = it.message_id.clone(),
        file_name: String = others.line(&it.file_name),
        subject: String = others.line(&it.subject),
        msg_type: String = others.line(&it.r#type),
        #[serde(rename = "box")]
        place: &'static str = place(it.r#box()),
        entries_total: u32 = it.entries,
        unseen: u32 = it.unseen,
        is_urgent: bool = it.is_urgent => if_any,
        is_dead_letter: bool = it.is_dead => if_any,
        original_sender: String = others.line(&it.original_sender),
        participants: Vec<String> = others.lines(&it.participants),
    }
}

view! {
    /// One line of a box.
    ListedThread(it: MailThread, others) {
        file_name: String = others.line(&it.file_name),
        message_id: String = it.message_id.clone(),
        subject: String = others.line(&it.subject),
        msg_type: String = others.line(&it.latest_type),
        from: String = others.line(&it.latest_sender),
        at: String = time(it.latest_ms),
        entries: u32 = it.entries,
        unseen: u32 = it.unseen => if_any,
        is_urgent: bool = it.is_urgent => if_any,
        is_dead_letter: bool = it.is_dead => if_any,
    }
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
    #[serde(skip_serializing_if = "is_nothing")]
    pub is_sealed: bool,
    pub text: String,
}

view! {
    Attachment(it: wire::Attachment, others) {
        name: String = others.line(&it.name),
        media_type: String = others.line(&it.media_type),
        size: u64 = it.size,
        hash: String = it.hash.clone(),
    }
}

/// How far a message got at one receiver.
#[derive(Debug, Serialize)]
pub(super) struct Receipt {
    pub role: String,
    pub receipt: &'static str,
    #[serde(skip_serializing_if = "is_nothing")]
    pub at: Time,
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

impl Receipt {
    pub(super) fn new(it: &MailReceipt) -> Self {
        let (receipt, at_ms) = word(it);
        Self { role: it.role.clone(), receipt, at: Time(at_ms) }
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
