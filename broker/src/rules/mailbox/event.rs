//! What happened to mail.

use bytes::Bytes;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{NodeId, RoleId, Timestamp, TokenId},
    mail::{BoxKind, MessageId},
};

use super::{
    ContentHash, Moved, ThreadNumber,
    command::{Attachment, Earlier},
};
use crate::{hash::Hash, rules::guard::Cause};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Event {
    #[n(0)]
    Sent(#[n(0)] EntrySent),
    #[n(1)]
    Moved(#[n(0)] CopyMoved),
    #[n(2)]
    Handed(#[n(0)] ThreadHanded),
    #[n(3)]
    Seen(#[n(0)] ThreadSeen),
    #[n(4)]
    Lapsed(#[n(0)] EntryLapsed),
    #[n(5)]
    Revived(#[n(0)] ThreadRevived),
    #[n(6)]
    Imported(#[n(0)] ThreadImported),
    #[n(7)]
    Opened(#[n(0)] RoleId),
    #[n(8)]
    Closed(#[n(0)] RoleId),
    #[n(9)]
    Kept(#[n(0)] AttachmentKept),
    /// Threads that were over were removed, with what is attached to them alone.
    #[n(10)]
    Compacted(#[n(0)] Vec<ThreadNumber>),
}

/// What a command about mail answers.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Reply {
    /// `kind` is where the sender's copy is.
    #[n(0)]
    Sent {
        #[n(0)]
        thread: MessageId,
        #[n(1)]
        entry: u32,
        #[n(2)]
        kind: BoxKind,
    },
    /// In the order asked for.
    #[n(1)]
    Moved {
        #[n(0)]
        to: BoxKind,
        #[n(1)]
        moved: Vec<Moved>,
    },
    /// `entries` is the number of the newest.
    #[n(2)]
    Imported {
        #[n(0)]
        thread: MessageId,
        #[n(1)]
        entries: u32,
    },
    /// A dead letter is shown again, or was not dead.
    #[n(3)]
    Revived {
        #[n(0)]
        thread: MessageId,
    },
}

/// An entry was added to a thread, or began it (entry 1).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EntrySent {
    #[n(0)]
    pub thread: MessageId,
    #[n(1)]
    pub entry: u32,
    #[n(2)]
    pub sender: RoleId,
    #[n(3)]
    pub to: Vec<RoleId>,
    /// As [`super::kind_code`] has it.
    #[n(4)]
    pub kind: u8,
    #[n(5)]
    pub content: Hash,
    #[n(6)]
    pub client_ref: Option<String>,
    /// Where the sender's copy is.
    #[n(7)]
    pub sender_box: BoxKind,
    /// Entries up to this one are answered by it, and seen.
    #[n(8)]
    pub acted: u32,
    #[n(9)]
    pub lapses: Option<Timestamp>,
    /// What is attached.
    #[cbor(n(10), with = "crate::cbor::hashes")]
    pub files: Vec<ContentHash>,
    #[n(11)]
    pub earlier: Earlier,
    /// How far from what a person last did; `None` is 0.
    #[n(12)]
    pub hops: Option<u32>,
    #[n(13)]
    pub cause: Option<Cause>,
}

/// A copy came into another box by its role's act.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CopyMoved {
    #[n(0)]
    pub thread: MessageId,
    #[n(1)]
    pub role: RoleId,
    #[n(2)]
    pub to: BoxKind,
    /// Entries up to this one are acted on, and seen.
    #[n(3)]
    pub acted: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ThreadHanded {
    #[n(0)]
    pub thread: MessageId,
    #[n(1)]
    pub role: RoleId,
    #[n(2)]
    pub through: u32,
    /// It was handed too often.
    #[n(3)]
    pub is_dead: bool,
    /// If so: whose entries the role has not seen, each with the newest of them.
    #[n(4)]
    pub unseen: Vec<(RoleId, u32)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ThreadSeen {
    #[n(0)]
    pub thread: MessageId,
    #[n(1)]
    pub role: RoleId,
    #[n(2)]
    pub through: u32,
}

/// The time of an entry is over. Nobody may be left who had not seen it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EntryLapsed {
    #[n(0)]
    pub thread: MessageId,
    #[n(1)]
    pub entry: u32,
    #[n(2)]
    pub at: Timestamp,
    /// Who had not seen it.
    #[n(3)]
    pub roles: Vec<RoleId>,
    /// Those of them whose inboxes the thread left with it.
    #[n(4)]
    pub cancelled: Vec<RoleId>,
    #[n(5)]
    pub sender: RoleId,
}

/// A dead letter is shown to waits again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ThreadRevived {
    #[n(0)]
    pub thread: MessageId,
    #[n(1)]
    pub role: RoleId,
}

/// Entries that were written elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ThreadImported {
    #[n(0)]
    pub thread: MessageId,
    /// The number of the first of them.
    #[n(1)]
    pub first: u32,
    #[n(2)]
    pub entries: Vec<EntryHead>,
    /// Copies that the thread did not have.
    #[n(3)]
    pub copies: Vec<(RoleId, BoxKind)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EntryHead {
    #[n(0)]
    pub sender: RoleId,
    #[n(1)]
    pub to: Vec<RoleId>,
    #[n(2)]
    pub kind: u8,
}

/// A role sent all bytes of a file; they are kept once, however many roles did.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AttachmentKept {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub hash: ContentHash,
    #[n(1)]
    pub size: u64,
    /// Who sent its bytes.
    #[n(2)]
    pub role: RoleId,
}

/// A file that is kept, whoever sent it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileBody {
    #[serde(with = "tasuki_proto::json::digits")]
    pub hash: ContentHash,
    #[serde(with = "tasuki_proto::json::octets")]
    pub content: Bytes,
}

/// All there is to read of one entry, kept beside the record that names it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct EntryBody {
    #[n(0)]
    pub thread: MessageId,
    #[n(1)]
    pub number: u32,
    #[n(2)]
    pub sender: RoleId,
    #[n(3)]
    pub to: Vec<RoleId>,
    #[n(4)]
    pub kind: String,
    /// When the broker stored it.
    #[n(5)]
    pub at: Timestamp,
    #[n(6)]
    pub text: String,
    #[cbor(n(7), with = "crate::cbor::octets")]
    #[serde(with = "tasuki_proto::json::octets")]
    pub sealed: Bytes,
    #[n(8)]
    pub attachments: Vec<Attachment>,
    #[n(9)]
    pub node: Option<NodeId>,
    #[n(10)]
    pub token: Option<TokenId>,
    #[n(11)]
    pub lapses: Option<Timestamp>,
    /// When it was written elsewhere, before it was taken over.
    #[n(12)]
    pub written: Option<Timestamp>,
    /// Of the first entry.
    #[n(13)]
    pub title: Option<Title>,
    /// How far from what a person last did; `None` is 0.
    #[n(14)]
    pub hops: Option<u32>,
    #[n(15)]
    pub cause: Option<Cause>,
}

/// What a thread is called.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Title {
    #[n(0)]
    pub subject: String,
    #[n(1)]
    pub file_name: String,
}

impl Event {
    /// Whose mail it is about; nobody's where it is about no thread.
    pub fn roles(&self) -> Vec<&RoleId> {
        match self {
            Self::Sent(it) => [&it.sender].into_iter().chain(&it.to).collect(),
            Self::Moved(it) => vec![&it.role],
            Self::Handed(it) => {
                let senders = it.unseen.iter().map(|(sender, _)| sender);
                [&it.role].into_iter().chain(senders).collect()
            }
            Self::Seen(it) => vec![&it.role],
            Self::Lapsed(it) => it.roles.iter().chain([&it.sender]).collect(),
            Self::Revived(it) => vec![&it.role],
            Self::Imported(it) => {
                let written =
                    it.entries.iter().flat_map(|it| [&it.sender].into_iter().chain(&it.to));
                written.chain(it.copies.iter().map(|(role, _)| role)).collect()
            }
            Self::Opened(_) | Self::Closed(_) | Self::Kept(_) | Self::Compacted(_) => Vec::new(),
        }
    }

    /// The roles whose mailboxes it changed, and whether their waits may have an answer now.
    pub fn reaches(&self) -> Vec<&RoleId> {
        match self {
            Self::Sent(it) => it.to.iter().collect(),
            Self::Revived(it) => vec![&it.role],
            Self::Imported(it) => {
                let addressed = it.entries.iter().flat_map(|it| &it.to);
                addressed.chain(it.copies.iter().map(|(role, _)| role)).collect()
            }
            Self::Moved(_) | Self::Handed(_) | Self::Seen(_) | Self::Lapsed(_) => Vec::new(),
            Self::Opened(_) | Self::Closed(_) | Self::Kept(_) | Self::Compacted(_) => Vec::new(),
        }
    }
}
