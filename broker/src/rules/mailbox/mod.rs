//! Mail: threads, the copies that roles have of them, and the boxes those are in.
//!
//! What a command does (`send`, `moves`, `marks`, `import`, `lapse`), what that changes
//! (`apply`), what is told of it (`facts`, `receipts`), and how a million threads fit into memory
//! (`thread`, `thread_table`). The words are in bodies of their own; here is what decisions need.
//!
//! - **X1** A thread's entries are numbered from 1 without gaps, and none is ever changed.
//! - **X2** A role has at most one copy of a thread, and it is in exactly one box.
//! - **X3** What is handed, seen and acted on only grows: receipts never go back.
//! - **X4** An entry that was not handed to a role never leaves its inbox unread, unless the role
//!   moves a thread of which it was handed nothing.
//! - **X5** A wait passes over mail only when it is a dead letter or lapsed.
//! - **X6** A file is kept once, with one size, and is known only to roles that sent all its bytes, or
//!   have a thread that it is attached to: to every other it is as if it were not there.

mod apply;
mod command;
mod compact;
mod event;
mod facts;
mod import;
mod keep;
mod lapse;
mod marks;
mod moves;
mod receipts;
mod recent;
mod send;
mod thread;
mod thread_table;

#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, VecDeque},
};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{RoleId, Timestamp},
    mail::{BoxKind, MessageId, MessageType},
};

pub use self::{
    command::{
        Attachment, Command, Earlier, Filter, Import, ImportedEntry, MarkThread, Move, Send,
        StoreAttachment, Subject, ThreadTarget,
    },
    event::{
        AttachmentKept, CopyMoved, EntryBody, EntryHead, EntryLapsed, EntrySent, Event, FileBody,
        Reply, ThreadHanded, ThreadImported, ThreadRevived, ThreadSeen, Title,
    },
    facts::{Answer, MailboxCounts, ThreadSummary},
    moves::{MoveOutcome, Moved},
    receipts::{EntryReceipts, Receipts},
    recent::{Letter, Recent},
    thread::{Copy, CopyState, Head, Receipt, ReceiptStatus, Thread, ThreadNumber},
    thread_table::{Slot, ThreadTable},
};
use super::{
    Asked, Decision, Kept, Rejection,
    directory::Directory,
    guard::{Guard, is_human},
    rejection::listed_for,
    turn::Loops,
};
use crate::hash::Hash;

/// Mailboxes of one workspace. A copy names its role by a 16-bit number.
pub const MAILBOXES_MAX: usize = 4096;

/// What can come into boxes of one workspace: they are ordered by 31 bits.
const ARRIVALS_MAX: u32 = u32::MAX / 4;

/// A file by its content: BLAKE3, 32 bytes.
pub type ContentHash = [u8; 32];

/// All mail of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mailboxes {
    mailboxes: Vec<Mailbox>,
    /// Derived.
    by_role: BTreeMap<RoleId, RoleNumber>,
    threads: ThreadTable,
    /// Entries that lapse, by when.
    expiries: BTreeSet<(Timestamp, ThreadNumber, u32)>,
    /// Counts what came into boxes.
    arrivals: u32,
    files: BTreeMap<ContentHash, File>,
    /// Derived: of all of them.
    attachment_bytes: u64,
}

/// A role among those that have a mailbox.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(transparent)]
pub struct RoleNumber(#[n(0)] pub u16);

/// What one role has.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Mailbox {
    #[n(0)]
    pub role: RoleId,
    #[n(1)]
    pub is_closed: bool,
    /// The sender's own names of what it sent, oldest first.
    #[n(2)]
    pub refs: VecDeque<ClientRef>,
    #[n(3)]
    pub recent: Recent,
    /// The newest entry that was handed to it: what it writes next may be because of it.
    #[n(4)]
    pub handed: Option<(MessageId, u32)>,
    /// Derived, by [`BoxKind`].
    #[cbor(skip)]
    #[serde(skip)]
    boxes: [BTreeSet<Order>; 4],
    /// Derived: threads with unseen entries that are no dead letters.
    #[cbor(skip)]
    #[serde(skip)]
    unseen: BTreeSet<Order>,
    /// Derived: dead letters.
    #[cbor(skip)]
    #[serde(skip)]
    dead: BTreeSet<Order>,
}

/// A file that is kept, to be attached.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct File {
    /// In bytes.
    #[n(0)]
    pub size: u64,
    /// Who sent all its bytes, and so may attach it.
    #[n(1)]
    pub roles: BTreeSet<RoleNumber>,
    /// Threads it is attached to: whoever has a copy of one can read it, and so may attach it, too.
    #[n(2)]
    pub threads: BTreeSet<ThreadNumber>,
}

/// A name that a sender gave to what it sent.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ClientRef {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub content: Hash,
    #[n(2)]
    pub thread: MessageId,
    #[n(3)]
    pub entry: u32,
}

/// Where a thread stands in its box: urgent ones first, then by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    /// The highest bit says that it is not urgent.
    key: u32,
    thread: ThreadNumber,
}

impl Mailbox {
    pub fn new(role: RoleId) -> Self {
        Self {
            role,
            is_closed: false,
            refs: VecDeque::new(),
            recent: Recent::default(),
            handed: None,
            boxes: Default::default(),
            unseen: BTreeSet::new(),
            dead: BTreeSet::new(),
        }
    }

    const fn of(&self, kind: BoxKind) -> &BTreeSet<Order> {
        &self.boxes[kind as usize]
    }
}

/// What decisions about mail need to know of the rest of the workspace.
#[derive(Debug, Clone, Copy)]
pub struct RoleContext<'a> {
    pub directory: &'a Directory,
    pub loops: &'a Loops,
    pub guard: &'a Guard,
}

impl<'a> RoleContext<'a> {
    /// Whether there is such a role, mailbox or not.
    fn knows(&self, role: &RoleId) -> bool {
        let takes_part = || self.loops.by_id.values().any(|it| it.participants.contains(role));
        is_human(role) || takes_part() || self.directory.host(role).is_some()
    }

    fn roles(&self) -> BTreeSet<&'a RoleId> {
        let hosted =
            self.directory.nodes.values().flat_map(|it| it.roles.iter().map(|it| &it.role));
        let seated = self.loops.by_id.values().flat_map(|it| &it.participants);
        hosted.chain(seated).collect()
    }
}

/// What a snapshot holds. Mailboxes come before threads, and threads before what names them.
#[derive(Debug, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotItem<'a> {
    #[n(0)]
    Arrivals(#[n(0)] u32),
    #[n(1)]
    Mailbox(#[n(0)] Cow<'a, Mailbox>),
    #[n(2)]
    Thread(#[n(0)] Cow<'a, Thread>),
    #[n(3)]
    Expiry(#[n(0)] Timestamp, #[n(1)] ThreadNumber, #[n(2)] u32),
    #[n(4)]
    File(
        #[cbor(n(0), with = "minicbor::bytes")]
        #[serde(with = "tasuki_proto::json::digits")]
        ContentHash,
        #[n(1)] Cow<'a, File>,
    ),
    /// So many threads were removed between the one before and the one after.
    #[n(5)]
    Removed(#[n(0)] u32),
}

impl Kept for Mailboxes {
    type Item<'a> = SnapshotItem<'a>;

    fn items(&self) -> impl Iterator<Item = SnapshotItem<'_>> {
        let mailboxes = self.mailboxes.iter().map(|it| SnapshotItem::Mailbox(Cow::Borrowed(it)));
        let threads = self.threads.slots().map(|it| match it {
            Slot::Thread(it) => SnapshotItem::Thread(Cow::Borrowed(it)),
            Slot::Removed(count) => SnapshotItem::Removed(count),
        });
        let expiries = self.expiries.iter();
        let expiries =
            expiries.map(|(at, thread, entry)| SnapshotItem::Expiry(*at, *thread, *entry));
        let files =
            self.files.iter().map(|(hash, it)| SnapshotItem::File(*hash, Cow::Borrowed(it)));
        let arrivals = std::iter::once(SnapshotItem::Arrivals(self.arrivals));
        arrivals.chain(mailboxes).chain(threads).chain(expiries).chain(files)
    }

    fn restore(&mut self, item: SnapshotItem<'_>) -> Result<(), &'static str> {
        match item {
            SnapshotItem::Arrivals(count) => self.arrivals = count,
            SnapshotItem::Mailbox(_) if MAILBOXES_MAX <= self.mailboxes.len() => {
                return Err("the number of mailboxes");
            }
            SnapshotItem::Mailbox(it) if self.number(&it.role).is_some() => {
                return Err("a mailbox's role");
            }
            SnapshotItem::Mailbox(it) => {
                let number = self.number_or_new(&it.role);
                self.mailboxes[usize::from(number.0)] = it.into_owned();
            }
            SnapshotItem::Thread(it) if it.is_sound(self.mailboxes.len()) => {
                let number = self.threads.push(it.into_owned());
                for copy in 0..self.threads.get(number).copies.len() {
                    self.index(number, copy);
                }
            }
            SnapshotItem::Thread(_) => return Err("a thread's parts"),
            SnapshotItem::Removed(count) => {
                let next = self.threads.next().0.checked_add(count);
                next.filter(|next| *next <= ARRIVALS_MAX).ok_or("the number of threads")?;
                self.threads.push_removed(count);
            }
            SnapshotItem::Expiry(at, thread, entry) if self.threads.has(thread) => {
                self.expiries.insert((at, thread, entry));
            }
            SnapshotItem::Expiry(..) => return Err("an expiry's thread"),
            SnapshotItem::File(hash, it) => {
                if it.roles.last().is_some_and(|it| self.mailboxes.len() <= usize::from(it.0)) {
                    return Err("a file's roles");
                }
                if it.threads.last().is_some_and(|it| !self.threads.has(*it)) {
                    return Err("a file's threads");
                }
                self.attachment_bytes = self.attachment_bytes.saturating_add(it.size);
                self.files.insert(hash, it.into_owned());
            }
        }
        Ok(())
    }
}

impl Mailboxes {
    pub(super) fn decide(
        &self,
        Asked { now, caller, workspace, .. }: Asked<'_>,
        command: &Command,
    ) -> Result<Decision, Rejection> {
        let around = RoleContext {
            directory: &workspace.directory,
            loops: &workspace.loops,
            guard: &workspace.guard,
        };
        match command {
            Command::Send(it) => self.decide_send(now, caller, around, it),
            Command::Move(it) => Ok(self.decide_move(it)),
            Command::Mark(it) => self.decide_mark(it),
            Command::Open(role) => self.decide_open(role),
            Command::Close(role) => self.decide_close(around, role),
            Command::HandAgain { role, thread } => self.decide_hand_again(role, *thread),
            Command::Import(it) => self.decide_import(now, caller, it),
            Command::StoreAttachment(it) => self.decide_keep(it),
        }
    }

    /// Every mailbox, in the order in which they came to be.
    pub fn mailboxes(&self) -> &[Mailbox] {
        &self.mailboxes
    }

    /// Every thread, in the order in which they began.
    pub fn threads(&self) -> &ThreadTable {
        &self.threads
    }

    /// When the next entry lapses.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.expiries.first().map(|(at, ..)| *at)
    }

    fn number(&self, role: &RoleId) -> Option<RoleNumber> {
        self.by_role.get(role).copied()
    }

    fn mailbox(&self, role: &RoleId) -> Option<&Mailbox> {
        self.number(role).map(|number| &self.mailboxes[usize::from(number.0)])
    }

    fn role(&self, number: RoleNumber) -> &RoleId {
        &self.mailboxes[usize::from(number.0)].role
    }

    fn number_or_new(&mut self, role: &RoleId) -> RoleNumber {
        if let Some(number) = self.number(role) {
            return number;
        }
        let number = u16::try_from(self.mailboxes.len()).expect("fewer than MAILBOXES_MAX");
        self.mailboxes.push(Mailbox::new(role.clone()));
        self.by_role.insert(role.clone(), RoleNumber(number));
        RoleNumber(number)
    }

    /// The thread of this id and the role's copy of it.
    ///
    /// # Errors
    /// [`Rejection::UnknownMessage`], also where there is such a thread and the role has no copy.
    pub fn find(&self, role: &RoleId, id: MessageId) -> Result<(ThreadNumber, usize), Rejection> {
        let found = self.threads.find(id).and_then(|thread| {
            let copy = self.threads.get(thread).copy_of(self.number(role)?)?;
            Some((thread, copy))
        });
        found.ok_or_else(|| Rejection::UnknownMessage { role: role.clone(), name: id.to_string() })
    }

    /// Threads of the role whose ids begin with these hexadecimal digits, at most `max`.
    pub fn find_prefix(&self, role: &RoleId, digits: &str, max: usize) -> Vec<MessageId> {
        let Some(number) = self.number(role) else { return Vec::new() };
        let found = self.threads.with_prefix(digits);
        let own = found.filter(|it| self.threads.get(*it).copy_of(number).is_some());
        own.take(max).map(|it| self.threads.get(it).id).collect()
    }

    /// Threads of the role whose file names end with these eight digits.
    pub fn find_short(&self, role: &RoleId, short: u32) -> Vec<MessageId> {
        self.find_prefix(role, &format!("{short:08x}"), usize::MAX)
    }

    /// Every role that mail can be sent to and that is not closed.
    fn open_roles<'a>(&'a self, around: RoleContext<'a>) -> Vec<&'a str> {
        let mut roles = around.roles();
        roles.extend(self.mailboxes.iter().map(|it| &it.role));
        let open =
            roles.into_iter().filter(|role| self.mailbox(role).is_none_or(|it| !it.is_closed));
        open.map(RoleId::as_str).collect()
    }

    /// The refusal of a role that there is not.
    fn unknown_receiver(&self, around: RoleContext<'_>, role: &RoleId) -> Rejection {
        let known = listed_for(role.as_str(), self.open_roles(around).into_iter());
        Rejection::UnknownReceiver { role: role.clone(), known }
    }
}

/// The number a type has on disk and in memory; 0 is a type that came with an import.
pub fn kind_code(kind: &str) -> u8 {
    let at = MessageType::ALL.iter().position(|it| it.as_str() == kind);
    at.map_or(0, |at| u8::try_from(at + 1).expect("there are six"))
}

/// The type of this number; empty for one that came with an import.
pub fn kind_name(code: u8) -> &'static str {
    let at = usize::from(code).checked_sub(1);
    at.and_then(|at| MessageType::ALL.get(at)).map_or("", |it| it.as_str())
}

const URGENT: u8 = MessageType::Urgent as u8 + 1;
