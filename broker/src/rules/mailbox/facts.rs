//! What is told of mail to whoever may read it.

use tasuki_proto::{
    id::RoleId,
    mail::{BoxKind, MessageId},
};

use super::{Filter, Mailboxes, Order, Rejection, kind_code, kind_name, thread::ThreadNumber};
use crate::rules::ReceiptKind;

/// A thread as one role has it, without its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSummary {
    pub id: MessageId,
    pub kind: BoxKind,
    pub entries: u32,
    /// Of these, addressed to the role and not seen.
    pub unseen: u32,
    /// The first of them; behind the last entry when there is none.
    pub first_unseen: u32,
    pub handed_through: u32,
    pub seen_through: u32,
    /// How often it was handed since it was last seen.
    pub handed: u32,
    pub is_urgent: bool,
    pub is_dead: bool,
    /// Of the newest entry; empty for a type that came with an import.
    pub latest_kind: &'static str,
    pub latest_sender: RoleId,
    /// Everyone with a copy.
    pub participants: Vec<RoleId>,
    /// Where the page behind it begins.
    pub place: u64,
}

impl ThreadSummary {
    /// Whether nothing that was neither seen nor handed before lies in front of entry `first`: what
    /// is shown from there on may be marked through its last one.
    pub const fn is_known_before(&self, first: u32, mark: ReceiptKind) -> bool {
        let known = match mark {
            ReceiptKind::Seen => self.first_unseen,
            ReceiptKind::Handed if self.first_unseen <= self.handed_through => {
                self.handed_through + 1
            }
            ReceiptKind::Handed => self.first_unseen,
        };
        first <= known
    }
}

/// What a role that waits for mail is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub mail: Option<ThreadSummary>,
    /// Threads with unseen entries, of any kind.
    pub unseen_threads: usize,
}

/// How much is in a mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxCounts {
    pub role: RoleId,
    /// By [`BoxKind`].
    pub boxes: [usize; 4],
    pub unseen: usize,
    pub dead: usize,
    pub is_closed: bool,
}

impl Mailboxes {
    /// What a role that asks for unseen mail is told. Shows state, changes nothing.
    pub fn answer(&self, role: &RoleId, filter: &Filter) -> Answer {
        let Some(mailbox) = self.mailbox(role) else {
            return Answer { mail: None, unseen_threads: 0 };
        };
        let fitting = mailbox.unseen.iter().find_map(|order| {
            let copy = self.copy(order.thread, role)?;
            self.fits(order.thread, copy, filter).then(|| self.facts(order.thread, copy))
        });
        Answer { mail: fitting, unseen_threads: mailbox.unseen.len() }
    }

    /// Whether an unseen entry of the copy is of the kind that is asked for.
    fn fits(&self, thread: ThreadNumber, copy: usize, filter: &Filter) -> bool {
        let it = self.threads.get(thread);
        it.unseen(copy).any(|number| {
            let head = it.head(number).expect("unseen entries are there");
            let sender = self.role(it.copies[usize::from(head.sender)].role);
            filter.kind.is_none_or(|kind| head.kind == kind_code(kind.as_str()))
                && filter.sender.as_ref().is_none_or(|wanted| wanted == sender)
        })
    }

    /// The thread as the role has it.
    ///
    /// # Errors
    /// [`Rejection::UnknownMessage`].
    pub fn thread_facts(&self, role: &RoleId, id: MessageId) -> Result<ThreadSummary, Rejection> {
        let (thread, copy) = self.find(role, id)?;
        Ok(self.facts(thread, copy))
    }

    /// Threads of a box from behind `after` on, in order.
    pub fn page(
        &self,
        role: &RoleId,
        kind: BoxKind,
        after: Option<u64>,
    ) -> impl Iterator<Item = ThreadSummary> {
        let orders = self.mailbox(role).map(|mailbox| mailbox.of(kind));
        self.told(role, orders, after)
    }

    /// The threads of a box, in its order.
    pub fn threads_in(&self, role: &RoleId, kind: BoxKind) -> impl Iterator<Item = ThreadNumber> {
        let orders = self.mailbox(role).map(|mailbox| mailbox.of(kind));
        orders.into_iter().flatten().map(|order| order.thread)
    }

    /// Where the role's copy of a thread is; `None`: it has none.
    pub fn box_of(&self, role: &RoleId, thread: ThreadNumber) -> Option<BoxKind> {
        if !self.threads.has(thread) {
            return None;
        }
        let copy = self.copy(thread, role)?;
        Some(self.threads.get(thread).copies[copy].kind)
    }

    /// Dead letters of a role from behind `after` on, in order.
    pub fn dead_letters(
        &self,
        role: &RoleId,
        after: Option<u64>,
    ) -> impl Iterator<Item = ThreadSummary> {
        self.told(role, self.mailbox(role).map(|mailbox| &mailbox.dead), after)
    }

    /// How many there are.
    pub fn dead_count(&self, role: &RoleId) -> usize {
        self.mailbox(role).map_or(0, |mailbox| mailbox.dead.len())
    }

    fn told(
        &self,
        role: &RoleId,
        orders: Option<&std::collections::BTreeSet<Order>>,
        after: Option<u64>,
    ) -> impl Iterator<Item = ThreadSummary> {
        let first = after.map_or(std::ops::Bound::Unbounded, |after| {
            std::ops::Bound::Excluded(Order::of_place(after))
        });
        let found = orders.into_iter().flat_map(move |orders| {
            orders.range((first, std::ops::Bound::Unbounded)).map(|order| order.thread)
        });
        found.filter_map(move |thread| Some(self.facts(thread, self.copy(thread, role)?)))
    }

    /// What is in each mailbox.
    pub fn counts(&self) -> impl Iterator<Item = MailboxCounts> {
        self.mailboxes.iter().map(|it| MailboxCounts {
            role: it.role.clone(),
            boxes: BoxKind::ALL.map(|kind| it.of(kind).len()),
            unseen: it.unseen.len(),
            dead: it.dead.len(),
            is_closed: it.is_closed,
        })
    }

    /// How many threads are in a box.
    pub fn count(&self, role: &RoleId, kind: BoxKind) -> usize {
        self.mailbox(role).map_or(0, |mailbox| mailbox.of(kind).len())
    }

    /// Everyone with a copy of the thread.
    pub fn participants(&self, id: MessageId) -> Vec<RoleId> {
        let thread = self.threads.find(id).map(|number| self.threads.get(number));
        let copies = thread.into_iter().flat_map(|it| &it.copies);
        copies.map(|copy| self.role(copy.role).clone()).collect()
    }

    /// Whether the role has a copy of the thread.
    pub fn has_copy(&self, role: &RoleId, id: MessageId) -> bool {
        self.find(role, id).is_ok()
    }

    fn copy(&self, thread: ThreadNumber, role: &RoleId) -> Option<usize> {
        self.threads.get(thread).copy_of(self.number(role)?)
    }

    fn facts(&self, thread: ThreadNumber, copy: usize) -> ThreadSummary {
        let it = self.threads.get(thread);
        let own = &it.copies[copy];
        let unseen = it.unseen(copy).count();
        let latest = it.heads.last().expect("X1: a thread has entries");
        ThreadSummary {
            id: it.id,
            kind: own.kind,
            entries: it.len(),
            unseen: u32::try_from(unseen).expect("at most THREAD_ENTRIES_MAX"),
            first_unseen: it.unseen(copy).next().unwrap_or(it.len() + 1),
            handed_through: own.handed,
            seen_through: own.seen,
            handed: own.tries.into(),
            is_urgent: own.state.is_urgent,
            is_dead: own.state.is_dead,
            latest_kind: kind_name(latest.kind),
            latest_sender: self.role(it.copies[usize::from(latest.sender)].role).clone(),
            participants: it.copies.iter().map(|it| self.role(it.role).clone()).collect(),
            place: Order::new(thread, own.state, own.arrival).place(),
        }
    }
}
