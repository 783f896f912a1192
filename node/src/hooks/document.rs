//! What a command reads and a webhook is posted: one JSON document. Pure.
//!
//! Fields are added, never given another meaning; `version` counts what would break a reader.
//! Texts are as they were sent: they are other agents' words, for a program to read as data.
//!
//! Absent: what is not known, `null` nowhere. Times are milliseconds since 1970 by the broker's
//! clock.

use serde::Serialize;
use serde_json::{Map, Value};
use tasuki_proto::{
    id::{HookName, NodeId, RoleId, WorkspaceId},
    wire,
};

use super::{
    details::Details,
    event::{Happening, Place},
    work_event::WorkEvent,
};
use crate::refusal::Refusal;

/// Of the document.
const VERSION: u32 = 1;

/// What is read of the thread, or why it is not.
pub type Read = Result<wire::ReadThreadResponse, Refusal>;

/// Whom the document is written for.
#[derive(Debug, Clone)]
pub struct Writer {
    pub workspace: WorkspaceId,
    pub node: NodeId,
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    event: &'static str,
    id: &'a str,
    hook: &'a str,
    workspace: &'a str,
    node: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    role: &'a str,
    sequence: u64,
    at_ms: u64,
    /// Of what is not mail.
    #[serde(flatten)]
    objects: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    message_id: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unseen_by: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<Thread<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Entry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unread: Option<Unread<'a>>,
}

#[derive(Serialize)]
struct Thread<'a> {
    file_name: &'a str,
    subject: &'a str,
    r#type: &'a str,
    original_sender: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    r#box: &'static str,
    entries: u32,
    unseen: u32,
    is_urgent: bool,
    is_dead: bool,
    participants: &'a [String],
}

#[derive(Serialize)]
struct Entry<'a> {
    number: u32,
    sender: &'a str,
    receivers: &'a [String],
    r#type: &'a str,
    at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    is_sealed: bool,
    is_imported: bool,
    #[serde(skip_serializing_if = "is_zero")]
    expires_ms: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    node: &'a str,
    attachments: Vec<Attachment<'a>>,
    receipts: Vec<Receipt<'a>>,
}

#[derive(Serialize)]
struct Attachment<'a> {
    name: &'a str,
    media_type: &'a str,
    size: u64,
    hash: &'a str,
}

#[derive(Serialize)]
struct Receipt<'a> {
    role: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    stored_ms: u64,
    #[serde(skip_serializing_if = "is_zero")]
    handed_ms: u64,
    #[serde(skip_serializing_if = "is_zero")]
    seen_ms: u64,
    #[serde(skip_serializing_if = "is_zero")]
    acted_ms: u64,
    #[serde(skip_serializing_if = "is_zero")]
    lapsed_ms: u64,
    #[serde(skip_serializing_if = "is_zero")]
    dead_ms: u64,
}

#[derive(Serialize)]
struct Unread<'a> {
    code: &'static str,
    message: &'a str,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Writer {
    /// The id of one hook's call about one happening: the same however often it is made.
    pub fn id(&self, hook: &HookName, place: Place, at_ms: u64) -> String {
        let Place { sequence, event, part } = place;
        let names = format!("{}\n{hook}\n{sequence} {event} {part} {at_ms}", self.workspace);
        let hash = blake3::hash(names.as_bytes()).to_hex();
        hash[..32].to_owned()
    }

    /// The document as bytes go out.
    pub fn write(
        &self,
        id: &str,
        hook: &HookName,
        happening: &Happening,
        at_ms: u64,
        read: &Read,
    ) -> String {
        let response = read.as_ref().ok();
        let thread = response.and_then(|read| read.thread.as_ref());
        let entry = response.and_then(|read| happening.entry_of(&read.entries));
        let unread = read.as_ref().err();
        let document = Document {
            version: VERSION,
            event: happening.kind.as_str(),
            id,
            hook: hook.as_str(),
            workspace: self.workspace.as_str(),
            node: self.node.as_str(),
            role: happening.role.as_str(),
            sequence: happening.place.sequence,
            at_ms,
            objects: None,
            message_id: &happening.message,
            unseen_by: &happening.unseen_by,
            thread: thread.map(Thread::of),
            entry: entry.map(Entry::of),
            unread: unread.map(Unread::of),
        };
        document.text()
    }

    /// The same of something that is not mail, at a role or at the node.
    pub fn write_work(
        &self,
        id: &str,
        hook: &HookName,
        event: &WorkEvent,
        role: Option<&RoleId>,
        at_ms: u64,
        read: &Result<Details, Refusal>,
    ) -> String {
        let document = Document {
            version: VERSION,
            event: event.kind.as_str(),
            id,
            hook: hook.as_str(),
            workspace: self.workspace.as_str(),
            node: self.node.as_str(),
            role: role.map_or("", RoleId::as_str),
            sequence: event.sequence,
            at_ms,
            objects: read.as_ref().ok().map(|details| &details.objects),
            message_id: "",
            unseen_by: &[],
            thread: None,
            entry: None,
            unread: read.as_ref().err().map(Unread::of),
        };
        document.text()
    }
}

impl Document<'_> {
    fn text(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }
}

impl<'a> Unread<'a> {
    const fn of(refusal: &'a Refusal) -> Self {
        Self { code: refusal.reason.as_str(), message: refusal.message.as_str() }
    }
}

impl<'a> Thread<'a> {
    fn of(thread: &'a wire::MailThread) -> Self {
        Self {
            file_name: &thread.file_name,
            subject: &thread.subject,
            r#type: &thread.r#type,
            original_sender: &thread.original_sender,
            r#box: match thread.r#box() {
                wire::Box::Unspecified => "",
                wire::Box::Inbox => "inbox",
                wire::Box::Outbox => "outbox",
                wire::Box::Done => "done",
                wire::Box::Cancel => "cancel",
            },
            entries: thread.entries,
            unseen: thread.unseen,
            is_urgent: thread.is_urgent,
            is_dead: thread.is_dead,
            participants: &thread.participants,
        }
    }
}

impl<'a> Entry<'a> {
    fn of(entry: &'a wire::MailEntry) -> Self {
        let is_sealed = entry.sealed.is_some();
        let attachments = entry.attachments.iter().map(|it| Attachment {
            name: &it.name,
            media_type: &it.media_type,
            size: it.size,
            hash: &it.hash,
        });
        let receipts = entry.receipts.iter().map(|it| Receipt {
            role: &it.role,
            stored_ms: it.stored_ms,
            handed_ms: it.handed_ms,
            seen_ms: it.seen_ms,
            acted_ms: it.acted_ms,
            lapsed_ms: it.lapsed_ms,
            dead_ms: it.dead_ms,
        });
        Self {
            number: entry.number,
            sender: &entry.sender,
            receivers: &entry.receivers,
            r#type: &entry.r#type,
            at_ms: entry.at_ms,
            text: (!is_sealed).then_some(entry.text.as_str()),
            is_sealed,
            is_imported: entry.is_imported,
            expires_ms: entry.expires_ms,
            node: &entry.node,
            attachments: attachments.collect(),
            receipts: receipts.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tasuki_proto::reason::Reason;

    use super::{super::spec::Kind, *};

    fn writer() -> Writer {
        Writer { workspace: "w".parse().unwrap(), node: "n".parse().unwrap() }
    }

    fn happening() -> Happening {
        Happening {
            kind: Kind::Received,
            role: "B".parse().unwrap(),
            message: "ded66c6a-58c1-47f4-916e-13787156f665".into(),
            entry: 2,
            unseen_by: Vec::new(),
            facts: None,
            place: Place { sequence: 41, event: 0, part: 1 },
        }
    }

    fn read() -> wire::ReadThreadResponse {
        let attachment = wire::Attachment {
            name: "log.txt".into(),
            media_type: "text/plain".into(),
            size: 5,
            hash: "00ff".into(),
        };
        let stored = wire::MailReceipt { role: "B".into(), stored_ms: 9, ..Default::default() };
        wire::ReadThreadResponse {
            thread: Some(wire::MailThread {
                file_name: "2026-11-21_2042-BR-x-ded66c6a.md".into(),
                subject: "x \"y\"\n\u{1b}[31m".into(),
                r#type: "BR".into(),
                original_sender: "B".into(),
                r#box: wire::Box::Inbox.into(),
                entries: 2,
                unseen: 1,
                participants: vec!["A".into(), "B".into()],
                ..Default::default()
            }),
            entries: vec![wire::MailEntry {
                number: 2,
                sender: "A".into(),
                receivers: vec!["B".into()],
                r#type: "ACK".into(),
                at_ms: 9,
                text: "$(rm -rf ~) 修复".into(),
                attachments: vec![attachment],
                receipts: vec![stored],
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    fn written(read: Read) -> Value {
        let name = "notify".parse().unwrap();
        let text = writer().write("0123", &name, &happening(), 10, &read);
        serde_json::from_str(&text).unwrap()
    }

    /// The contract with whoever reads it. Adding a field is fine; changing one is not.
    #[test]
    fn the_document() {
        assert_eq!(
            written(Ok(read())),
            json!({
                "version": 1, "event": "received", "id": "0123", "hook": "notify",
                "workspace": "w", "node": "n", "role": "B", "sequence": 41, "at_ms": 10,
                "message_id": "ded66c6a-58c1-47f4-916e-13787156f665",
                "thread": {
                    "file_name": "2026-11-21_2042-BR-x-ded66c6a.md",
                    "subject": "x \"y\"\n\u{1b}[31m", "type": "BR", "original_sender": "B",
                    "box": "inbox", "entries": 2, "unseen": 1, "is_urgent": false,
                    "is_dead": false, "participants": ["A", "B"],
                },
                "entry": {
                    "number": 2, "sender": "A", "receivers": ["B"], "type": "ACK", "at_ms": 9,
                    "text": "$(rm -rf ~) 修复", "is_sealed": false, "is_imported": false,
                    "attachments": [{
                        "name": "log.txt", "media_type": "text/plain", "size": 5, "hash": "00ff",
                    }],
                    "receipts": [{ "role": "B", "stored_ms": 9 }],
                },
            })
        );
    }

    #[test]
    fn sealed_words_are_not_there_and_said_to_be_sealed() {
        let mut sealed = read();
        sealed.entries[0].sealed =
            Some(wire::Sealed { envelope: b"opaque".to_vec(), ..Default::default() });
        let told = written(Ok(sealed));
        assert_eq!((told["entry"].get("text"), &told["entry"]["is_sealed"]), (None, &json!(true)));
    }

    #[test]
    fn a_thread_that_could_not_be_read_says_why() {
        let no = Refusal { reason: Reason::UnknownMessage, message: "There is none.".into() };
        let told = written(Err(no));
        let expected = json!({ "code": "unknown_message", "message": "There is none." });
        assert_eq!((&told["unread"], told.get("thread")), (&expected, None));
        assert_eq!(told["message_id"], "ded66c6a-58c1-47f4-916e-13787156f665");
    }

    #[test]
    fn an_id_is_one_calls_and_stays_so() {
        let (writer, name) = (writer(), "notify".parse().unwrap());
        let place = happening().place;
        let id = writer.id(&name, place, 10);
        assert_eq!((id.len(), &id), (32, &writer.id(&name, place, 10)));
        let other_hook = writer.id(&"other".parse().unwrap(), place, 10);
        let other_part = writer.id(&name, Place { part: 2, ..place }, 10);
        let other_journal = writer.id(&name, place, 11);
        for other in [other_hook, other_part, other_journal] {
            assert_ne!(id, other);
        }
    }
}
