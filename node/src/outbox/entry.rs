//! One entry of the outbox, and its bytes.
//!
//! A line that names the format, a line of JSON for people and programs, the request in the API's
//! own encoding, which any later release reads, and BLAKE3 of all that.

use prost::Message as _;
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{IdempotencyKey, RoleId, WorkspaceId},
    reason::Reason,
    wire,
};

/// The first line. A change of what follows is another number.
const FORMAT: &[u8] = b"tasuki-outbox 1\n";

const HASH_BYTES: usize = 32;

/// One entry with its frame, in bytes: the longest text and subject, all receivers and attached
/// files, with room to spare.
pub const ENTRY_BYTES_MAX: usize = 768 * 1024;

/// What an agent wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    Send(Box<wire::SendRequest>),
    Move(wire::MoveRequest),
}

/// Something that an agent was told will be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// From 1; the order in which things go out.
    pub number: u64,
    pub workspace: WorkspaceId,
    pub role: RoleId,
    /// O2: one key for as long as the broker may have seen it under that key.
    pub key: IdempotencyKey,
    /// Whether the broker may have seen it.
    pub may_have_reached: bool,
    /// By this machine's clock.
    pub queued_ms: u64,
    /// When it was tried first, by this machine's clock: each try says the same, so what was left
    /// then of the time it has stays.
    pub tried_ms: Option<u64>,
    pub what: What,
    pub failed: Option<Failed>,
}

/// Why something will not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    pub at_ms: u64,
    /// The broker's reason, in its own words when this release does not know it.
    pub reason: String,
    pub message: String,
    /// Whether the agent was told.
    pub is_told: bool,
}

impl Failed {
    pub fn reason(&self) -> Option<Reason> {
        Reason::parse(&self.reason)
    }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Send,
    Move,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    number: u64,
    workspace: String,
    role: String,
    client: String,
    counter: u64,
    may_have_reached: bool,
    queued_ms: u64,
    kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tried_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<Failed>,
}

/// Why bytes are no entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("it is not in a format that this release knows")]
    Format,
    #[error("its checksum does not match")]
    Checksum,
    #[error("{0}")]
    Content(String),
}

impl Entry {
    pub fn encode(&self) -> Vec<u8> {
        let (kind, body) = match &self.what {
            What::Send(request) => (Kind::Send, request.encode_to_vec()),
            What::Move(request) => (Kind::Move, request.encode_to_vec()),
        };
        let head = Head {
            number: self.number,
            workspace: self.workspace.to_string(),
            role: self.role.to_string(),
            client: self.key.client.to_string(),
            counter: self.key.counter,
            may_have_reached: self.may_have_reached,
            queued_ms: self.queued_ms,
            kind,
            tried_ms: self.tried_ms,
            failed: self.failed.clone(),
        };
        let head = serde_json::to_vec(&head).expect("names and numbers are JSON");
        let mut bytes = [FORMAT, &head, b"\n", &body].concat();
        let hash = blake3::hash(&bytes);
        bytes.extend_from_slice(hash.as_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let said = bytes.strip_prefix(FORMAT).ok_or(Damage::Format)?;
        let end = bytes.len().checked_sub(HASH_BYTES).ok_or(Damage::Checksum)?;
        let (hashed, hash) = bytes.split_at(end);
        if blake3::hash(hashed).as_bytes() != hash {
            return Err(Damage::Checksum);
        }
        let content = |what: &dyn std::fmt::Display| Damage::Content(what.to_string());
        let said = said.get(..said.len().saturating_sub(HASH_BYTES)).unwrap_or_default();
        let line = said.iter().position(|byte| *byte == b'\n').ok_or(Damage::Format)?;
        let (head, body) = (&said[..line], &said[line + 1..]);
        let head: Head = serde_json::from_slice(head).map_err(|e| content(&e))?;
        let what = match head.kind {
            Kind::Send => {
                What::Send(Box::new(wire::SendRequest::decode(body).map_err(|e| content(&e))?))
            }
            Kind::Move => What::Move(wire::MoveRequest::decode(body).map_err(|e| content(&e))?),
        };
        let client = head.client.parse().map_err(|e| content(&e))?;
        Ok(Self {
            number: head.number,
            workspace: head.workspace.parse().map_err(|e| content(&e))?,
            role: head.role.parse().map_err(|e| content(&e))?,
            key: IdempotencyKey { client, counter: head.counter },
            may_have_reached: head.may_have_reached,
            queued_ms: head.queued_ms,
            tried_ms: head.tried_ms,
            what,
            failed: head.failed,
        })
    }

    /// What to say to the broker, which counts from when it hears of it: a letter has the time
    /// that was left when it was tried first. `None`: that was over by then.
    pub fn in_time(&self) -> Option<What> {
        let What::Send(request) = &self.what else { return Some(self.what.clone()) };
        if request.expires_in_ms == 0 {
            return Some(self.what.clone());
        }
        let waited = self.tried_ms.unwrap_or(self.queued_ms).saturating_sub(self.queued_ms);
        let expires_in_ms = request.expires_in_ms.checked_sub(waited).filter(|left| *left != 0)?;
        let request = wire::SendRequest { expires_in_ms, ..(**request).clone() };
        Some(What::Send(Box::new(request)))
    }

    pub fn summary(&self) -> Summary {
        let what = match &self.what {
            What::Send(request) => Summarised::Send {
                to: request.to.clone(),
                kind: request.r#type.clone(),
                subject: request.subject.clone(),
                message: thread_of(request),
            },
            What::Move(request) => {
                Summarised::Move { messages: request.messages.clone(), to: request.to() }
            }
        };
        Summary {
            number: self.number,
            workspace: self.workspace.clone(),
            role: self.role.clone(),
            queued_ms: self.queued_ms,
            what,
            failed: self.failed.clone(),
        }
    }
}

/// What a letter says to whom, by which it is known when it is said once more. `None`: it is
/// sealed, which is to other bytes each time.
pub fn content_of(request: &wire::SendRequest) -> Option<blake3::Hash> {
    if request.sealed.is_some() {
        return None;
    }
    let mut to = request.to.clone();
    to.sort_unstable();
    let said = wire::SendRequest {
        to,
        r#type: request.r#type.clone(),
        subject: request.subject.clone(),
        text: request.text.clone(),
        in_reply_to: request.in_reply_to.clone(),
        attachments: request.attachments.clone(),
        ..wire::SendRequest::default()
    };
    Some(blake3::hash(&said.encode_to_vec()))
}

/// The thread that a letter begins, or as its sender named the one it answers.
fn thread_of(request: &wire::SendRequest) -> String {
    let answers = !request.in_reply_to.is_empty();
    if answers { &request.in_reply_to } else { &request.message_id }.clone()
}

/// An entry without its words, to be shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub number: u64,
    pub workspace: WorkspaceId,
    pub role: RoleId,
    /// By this machine's clock.
    pub queued_ms: u64,
    pub what: Summarised,
    pub failed: Option<Failed>,
}

/// What an entry would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Summarised {
    Send {
        to: Vec<String>,
        kind: String,
        /// Of a new thread.
        subject: String,
        /// The thread, as far as its sender can name it.
        message: String,
    },
    Move {
        messages: Vec<String>,
        to: wire::Box,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter() -> Entry {
        let request = wire::SendRequest {
            role: "A".to_owned(),
            to: vec!["B".to_owned()],
            r#type: "BR".to_owned(),
            subject: "s".to_owned(),
            text: "line\nline\0\u{1f980}".to_owned(),
            message_id: "ded66c6a-58c1-47f4-916e-13787156f665".to_owned(),
            ..wire::SendRequest::default()
        };
        Entry {
            number: 7,
            workspace: "default".parse().expect("an id"),
            role: "A".parse().expect("an id"),
            key: IdempotencyKey { client: "mail-0".parse().expect("an id"), counter: 3 },
            may_have_reached: false,
            queued_ms: 1_795_293_772_094,
            tried_ms: None,
            what: What::Send(Box::new(request)),
            failed: None,
        }
    }

    fn moving() -> Entry {
        let request = wire::MoveRequest {
            role: "A".to_owned(),
            messages: vec!["ded6".to_owned()],
            to: wire::Box::Done.into(),
            ..wire::MoveRequest::default()
        };
        let failed = Failed {
            at_ms: 5,
            reason: Reason::UnknownMessage.to_string(),
            message: "there is no such thread".to_owned(),
            is_told: true,
        };
        let what = What::Move(request);
        Entry { number: 8, may_have_reached: true, what, failed: Some(failed), ..letter() }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for entry in [letter(), moving()] {
            assert_eq!(Entry::decode(&entry.encode()), Ok(entry));
        }
    }

    /// Bytes that outlive a release: a change here loses what nodes in the field were given.
    #[test]
    fn the_bytes_stay_as_they_are() {
        let bytes = letter().encode();
        let (said, _hash) = bytes.split_at(bytes.len() - HASH_BYTES);
        let golden = concat!(
            "tasuki-outbox 1\n",
            r#"{"number":7,"workspace":"default","role":"A","client":"mail-0","counter":3,"#,
            r#""may_have_reached":false,"queued_ms":1795293772094,"kind":"send"}"#,
            "\n\u{1a}\u{1}A\"\u{1}B*\u{2}BR2\u{1}s:\u{e}line\nline\0\u{1f980}",
            "J$ded66c6a-58c1-47f4-916e-13787156f665",
        );
        assert_eq!(String::from_utf8_lossy(said), golden);
    }

    #[test]
    fn no_changed_or_missing_byte_goes_unnoticed() {
        let bytes = moving().encode();
        for at in 0..bytes.len() {
            assert!(Entry::decode(&bytes[..at]).is_err(), "cut at {at}");
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            assert!(Entry::decode(&changed).is_err(), "changed at {at}");
        }
        let longer = [&bytes[..], b"x"].concat();
        assert_eq!(Entry::decode(&longer), Err(Damage::Checksum));
        let newer = [b"tasuki-outbox 2\n", &bytes[FORMAT.len()..]].concat();
        assert_eq!(Entry::decode(&newer), Err(Damage::Format));
    }

    #[test]
    fn the_longest_letter_fits() {
        use tasuki_proto::limits::{
            ATTACHMENT_NAME_BYTES_MAX, ATTACHMENTS_MAX, SEALED_BYTES_MAX, SUBJECT_BYTES_MAX,
            TEXT_BYTES_MAX,
        };
        let mut entry = letter();
        let What::Send(request) = &mut entry.what else { panic!("a letter") };
        request.text = "x".repeat(TEXT_BYTES_MAX);
        request.subject = "x".repeat(SUBJECT_BYTES_MAX);
        request.to = vec!["x".repeat(64); 32];
        request.sealed =
            Some(wire::Sealed { envelope: vec![0; SEALED_BYTES_MAX], ..Default::default() });
        let name = "x".repeat(ATTACHMENT_NAME_BYTES_MAX);
        let file = wire::Attachment {
            name: name.clone(),
            media_type: name,
            size: u64::MAX,
            hash: "0".repeat(64),
        };
        request.attachments = vec![file; ATTACHMENTS_MAX];
        assert!(entry.encode().len() <= ENTRY_BYTES_MAX);
    }
}
