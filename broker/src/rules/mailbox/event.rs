//! What happened to mail.

use bytes::Bytes;
use tasuki_proto::{
    id::{NodeId, RoleId, Timestamp, TokenId},
    mail::{BoxKind, MessageId},
};

use super::{
    ContentHash, Moved,
    command::{Attachment, Earlier},
};
use crate::hash::Hash;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Sent(EntrySent),
    Moved(CopyMoved),
    Handed(ThreadHanded),
    Seen(ThreadSeen),
    Lapsed(EntryLapsed),
    Revived(ThreadRevived),
    Imported(ThreadImported),
    Opened(RoleId),
    Closed(RoleId),
    Kept(AttachmentKept),
}

/// What a command about mail answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// `kind` is where the sender's copy is.
    Sent { thread: MessageId, entry: u32, kind: BoxKind },
    /// In the order asked for.
    Moved { to: BoxKind, moved: Vec<Moved> },
    /// `entries` is the number of the newest.
    Imported { thread: MessageId, entries: u32 },
}

/// An entry was added to a thread, or began it (entry 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntrySent {
    pub thread: MessageId,
    pub entry: u32,
    pub sender: RoleId,
    pub to: Vec<RoleId>,
    /// As [`super::kind_code`] has it.
    pub kind: u8,
    pub content: Hash,
    pub client_ref: Option<String>,
    /// Where the sender's copy is.
    pub sender_box: BoxKind,
    /// Entries up to this one are answered by it, and seen.
    pub acted: u32,
    pub lapses: Option<Timestamp>,
    /// What is attached. None in records of before it was kept.
    pub files: Vec<ContentHash>,
    pub earlier: Earlier,
}

/// A copy came into another box by its role's act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyMoved {
    pub thread: MessageId,
    pub role: RoleId,
    pub to: BoxKind,
    /// Entries up to this one are acted on, and seen.
    pub acted: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadHanded {
    pub thread: MessageId,
    pub role: RoleId,
    pub through: u32,
    /// It was handed too often.
    pub is_dead: bool,
    /// If so: whose entries the role has not seen, each with the newest of them.
    pub unseen: Vec<(RoleId, u32)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSeen {
    pub thread: MessageId,
    pub role: RoleId,
    pub through: u32,
}

/// The time of an entry is over. Nobody may be left who had not seen it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryLapsed {
    pub thread: MessageId,
    pub entry: u32,
    pub at: Timestamp,
    /// Who had not seen it.
    pub roles: Vec<RoleId>,
    /// Those of them whose inboxes the thread left with it.
    pub cancelled: Vec<RoleId>,
    /// `None` in records of before it was kept.
    pub sender: Option<RoleId>,
}

/// A dead letter is shown to waits again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadRevived {
    pub thread: MessageId,
    pub role: RoleId,
}

/// Entries that were written elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadImported {
    pub thread: MessageId,
    /// The number of the first of them.
    pub first: u32,
    pub entries: Vec<EntryHead>,
    /// Copies that the thread did not have.
    pub copies: Vec<(RoleId, BoxKind)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryHead {
    pub sender: RoleId,
    pub to: Vec<RoleId>,
    pub kind: u8,
}

/// A role sent all bytes of a file; they are kept once, however many roles did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentKept {
    pub hash: ContentHash,
    pub size: u64,
    /// Who sent its bytes. `None` in records of before it was kept.
    pub role: Option<RoleId>,
}

/// All there is to read of one entry, kept beside the record that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryBody {
    pub thread: MessageId,
    pub number: u32,
    pub sender: RoleId,
    pub to: Vec<RoleId>,
    pub kind: String,
    /// When the broker stored it.
    pub at: Timestamp,
    pub text: String,
    pub sealed: Bytes,
    pub attachments: Vec<Attachment>,
    pub node: Option<NodeId>,
    pub token: Option<TokenId>,
    pub lapses: Option<Timestamp>,
    /// When it was written elsewhere, before it was taken over.
    pub written: Option<Timestamp>,
    /// Of the first entry.
    pub title: Option<Title>,
}

/// What a thread is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    pub subject: String,
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
            Self::Lapsed(it) => it.roles.iter().chain(&it.sender).collect(),
            Self::Revived(it) => vec![&it.role],
            Self::Imported(it) => {
                let written =
                    it.entries.iter().flat_map(|it| [&it.sender].into_iter().chain(&it.to));
                written.chain(it.copies.iter().map(|(role, _)| role)).collect()
            }
            Self::Opened(_) | Self::Closed(_) | Self::Kept(_) => Vec::new(),
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
            Self::Opened(_) | Self::Closed(_) | Self::Kept(_) => Vec::new(),
        }
    }
}
