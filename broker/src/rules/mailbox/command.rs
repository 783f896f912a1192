//! What can be asked of a workspace's mail.

use bytes::Bytes;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{PersonId, RoleId, Timestamp},
    mail::{BoxKind, MessageId, MessageType, file_name},
    wire,
};

use super::ContentHash;
use crate::{
    canonical::{canonical, write_item},
    hash::Hash,
    rules::{Acting, Needs, ReceiptKind, Rejection, privacy::Privacy},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Send(Send),
    Move(Move),
    Mark(MarkThread),
    /// Give a role a mailbox, or open it again.
    Open(RoleId),
    /// Take in no more mail for it.
    Close(RoleId),
    /// Show a dead letter to waits again.
    HandAgain {
        role: RoleId,
        thread: MessageId,
    },
    Import(Import),
    StoreAttachment(StoreAttachment),
}

/// Begin a thread, or answer in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Send {
    pub role: RoleId,
    /// At least one, each once.
    pub to: Vec<RoleId>,
    pub kind: MessageType,
    pub target: ThreadTarget,
    pub text: String,
    /// Instead of subject and text.
    pub sealed: Bytes,
    /// Its sender's mark of what is sealed, the same for the same words; empty without one.
    pub same: Bytes,
    pub client_ref: Option<String>,
    /// The same words, said [lately](super::Recent) and seen by nobody, are the same entry.
    pub fold: bool,
    pub earlier: Earlier,
    /// Until it lapses, in milliseconds; `None` never.
    pub expires_in_ms: Option<u64>,
    pub attachments: Vec<Attachment>,
}

/// What a sender knows of the answers to what the role wrote before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Earlier {
    #[default]
    #[n(0)]
    Unknown,
    #[n(1)]
    Arrived,
    #[n(2)]
    UnderWay,
}

/// The thread that an entry begins or answers in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadTarget {
    Begin(Subject),
    Answer(MessageId),
}

/// What a new thread is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub thread: MessageId,
    pub subject: String,
    /// Of the sender's clock, east of UTC.
    pub utc_offset_s: i32,
}

/// A file that is attached, as it is called there.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Attachment {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub media_type: String,
    #[n(2)]
    pub size: u64,
    #[cbor(n(3), with = "minicbor::bytes")]
    #[serde(with = "tasuki_proto::json::digits")]
    pub hash: ContentHash,
}

/// Put copies into another box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub role: RoleId,
    /// One for each name that was given: `None` where it means no thread of the role, or several.
    pub threads: Vec<Option<MessageId>>,
    pub to: BoxKind,
}

/// Tell how far a thread got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkThread {
    pub role: RoleId,
    pub thread: MessageId,
    /// Entries up to this one.
    pub through: u32,
    pub mark: ReceiptKind,
}

/// Take over entries that were written elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    pub thread: MessageId,
    pub subject: String,
    /// `None` has one made of the first entry.
    pub file_name: Option<String>,
    /// At least one.
    pub entries: Vec<ImportedEntry>,
    pub copies: Vec<(RoleId, BoxKind)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedEntry {
    pub sender: RoleId,
    pub to: Vec<RoleId>,
    /// As it was written.
    pub kind: String,
    pub written: Timestamp,
    pub text: String,
}

/// StoreAttachment a file, so that it can be attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreAttachment {
    pub role: RoleId,
    pub hash: ContentHash,
    pub content: Bytes,
}

/// Which mail a wait is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filter {
    pub kind: Option<MessageType>,
    pub sender: Option<RoleId>,
}

impl Acting for Command {
    fn role(&self) -> Option<&RoleId> {
        match self {
            Self::Send(it) => Some(&it.role),
            Self::Move(it) => Some(&it.role),
            Self::Mark(it) => Some(&it.role),
            Self::HandAgain { role, .. } => Some(role),
            Self::StoreAttachment(it) => Some(&it.role),
            Self::Open(_) | Self::Close(_) | Self::Import(_) => None,
        }
    }

    fn person(&self) -> Option<&PersonId> {
        None
    }

    fn needs(&self) -> Needs<'_> {
        match self {
            Self::Open(role) | Self::Close(role) => Needs::roles([role]),
            Self::Import(it) => Needs::roles(it.roles()),
            Self::Send(_)
            | Self::Move(_)
            | Self::Mark(_)
            | Self::HandAgain { .. }
            | Self::StoreAttachment(_) => Needs::default(),
        }
    }

    fn check_words(&self, privacy: &Privacy) -> Result<(), Rejection> {
        match self {
            Self::Send(it) => {
                privacy.check_words(!it.sealed.is_empty())?;
                if it.attachments.is_empty() { Ok(()) } else { privacy.check_files() }
            }
            Self::Import(_) => privacy.check_words(false),
            Self::StoreAttachment(_) => privacy.check_files(),
            Self::Move(_)
            | Self::Mark(_)
            | Self::Open(_)
            | Self::Close(_)
            | Self::HandAgain { .. } => Ok(()),
        }
    }

    fn is_for_paused(&self) -> bool {
        match self {
            Self::Send(it) => matches!(it.target, ThreadTarget::Answer(_)),
            Self::Move(_)
            | Self::Mark(_)
            | Self::Open(_)
            | Self::Close(_)
            | Self::HandAgain { .. }
            | Self::Import(_)
            | Self::StoreAttachment(_) => true,
        }
    }
}

canonical! { Attachment { 1 name, 2 media_type, 3 size, 4 hash, } }

impl Send {
    /// What is said to whom, to recognise it when it is said again.
    pub(super) fn content(&self) -> Hash {
        let subject = match &self.target {
            ThreadTarget::Begin(it) => it.subject.as_str(),
            ThreadTarget::Answer(_) => "",
        };
        let thread = match &self.target {
            ThreadTarget::Begin(_) => String::new(),
            ThreadTarget::Answer(thread) => thread.to_string(),
        };
        let mut to: Vec<&str> = self.to.iter().map(RoleId::as_str).collect();
        to.sort_unstable();
        // The same words are sealed to other bytes each time.
        let sealed = if self.same.is_empty() { &self.sealed } else { &self.same };
        let sealed = blake3::hash(sealed).to_hex();
        let fixed = [self.kind.as_str(), subject, &thread, &self.text, sealed.as_str()];
        let mut bytes = Vec::new();
        fixed.into_iter().chain(to).for_each(|field| write_item(&mut bytes, field));
        // A file does not begin as an id does, so it is not taken for one more receiver.
        self.attachments.iter().for_each(|file| write_item(&mut bytes, file));
        Hash::of(&bytes)
    }
}

impl Subject {
    /// What the thread is called when it begins at `at` with an entry of this type.
    pub fn file_name(&self, at: Timestamp, kind: MessageType) -> String {
        file_name(at, self.utc_offset_s, kind.as_str(), &self.subject, self.thread)
    }
}

impl Import {
    /// Every role it is about.
    pub fn roles(&self) -> impl Iterator<Item = &RoleId> {
        let written = self.entries.iter().flat_map(|it| [&it.sender].into_iter().chain(&it.to));
        written.chain(self.copies.iter().map(|(role, _)| role))
    }
}

impl Attachment {
    /// As it is on the wire.
    pub fn to_wire(&self) -> wire::Attachment {
        wire::Attachment {
            name: self.name.clone(),
            media_type: self.media_type.clone(),
            size: self.size,
            hash: blake3::Hash::from_bytes(self.hash).to_hex().to_string(),
        }
    }
}
