//! What happened, put where decisions find it.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::{RoleId, Timestamp},
    limits::CLIENT_REFS_MAX,
    mail::{BoxKind, MessageId},
};

use super::{
    ClientRef, Copy, CopyState, Earlier, EntryHead, EntrySent, Event, Head, Letter, Mailboxes,
    Order, Receipt, ReceiptStatus, ThreadHanded, ThreadImported,
    thread::{Thread, ThreadNumber},
};
use crate::rules::Principal;

/// Says in an [`Order`] that the thread is not urgent.
const NOT_URGENT: u32 = 1 << 31;

impl Order {
    pub(super) fn new(thread: ThreadNumber, state: CopyState, arrival: u32) -> Self {
        let key = if state.is_urgent { arrival } else { arrival | NOT_URGENT };
        Self { key, thread }
    }

    /// As one number, for whoever asks for the next page.
    pub(super) fn place(self) -> u64 {
        u64::from(self.key) << 32 | u64::from(self.thread.0)
    }

    pub(super) fn of_place(place: u64) -> Self {
        let low = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).expect("32 bits");
        Self { key: low(place >> 32), thread: ThreadNumber(low(place)) }
    }
}

impl Mailboxes {
    /// Records that this happened at `now`.
    pub fn apply(&mut self, now: Timestamp, _: &Principal, event: &Event) {
        match event {
            Event::Sent(it) => self.sent(now, it),
            Event::Moved(it) => self.change(it.thread, &it.role, |thread, copy, _| {
                acted(thread, copy, it.acted, now);
                thread.copies[copy].kind = it.to;
            }),
            Event::Handed(it) => self.handed(now, it),
            Event::Seen(it) => self.change(it.thread, &it.role, |thread, copy, _| {
                seen(thread, copy, it.through, now);
            }),
            Event::Lapsed(it) => {
                if let Some(number) = self.threads.find(it.thread) {
                    self.expiries.remove(&(it.at, number, it.entry));
                }
                for role in &it.roles {
                    self.change(it.thread, role, |thread, copy, _| {
                        mark(thread, copy, ReceiptStatus::Lapsed, it.entry, now);
                        if it.cancelled.contains(role) {
                            thread.copies[copy].kind = BoxKind::Cancel;
                        }
                    });
                }
            }
            Event::Revived(it) => self.change(it.thread, &it.role, |thread, copy, _| {
                thread.copies[copy].tries = 0;
                thread.copies[copy].state.is_dead = false;
            }),
            Event::Imported(it) => self.imported(now, it),
            Event::Opened(role) => {
                let number = self.number_or_new(role);
                self.mailboxes[usize::from(number.0)].is_closed = false;
            }
            Event::Closed(role) => {
                let number = self.number_or_new(role);
                self.mailboxes[usize::from(number.0)].is_closed = true;
            }
            Event::Kept(it) => self.kept(it),
            Event::Compacted(threads) => self.compacted(threads),
        }
    }

    fn handed(&mut self, now: Timestamp, it: &ThreadHanded) {
        self.change(it.thread, &it.role, |thread, copy, _| {
            let own = &mut thread.copies[copy];
            own.tries = own.tries.saturating_add(1);
            own.state.is_dead |= it.is_dead;
            if own.handed < it.through {
                own.handed = it.through;
                mark(thread, copy, ReceiptStatus::Handed, it.through, now);
            }
            if it.is_dead {
                mark(thread, copy, ReceiptStatus::Dead, it.through, now);
            }
        });
        let role = self.number_or_new(&it.role);
        self.mailboxes[usize::from(role.0)].handed = Some((it.thread, it.through));
    }

    fn sent(&mut self, now: Timestamp, it: &EntrySent) {
        let head = EntryHead { sender: it.sender.clone(), to: it.to.clone(), kind: it.kind };
        let number = self.add(it.thread, it.entry, &head, it.hops.unwrap_or_default());
        self.attached(number, &it.files);
        self.change(it.thread, &it.sender, |thread, copy, _| {
            acted(thread, copy, it.acted, now);
            thread.copies[copy].kind = it.sender_box;
        });
        for role in &it.to {
            self.change(it.thread, role, arrive);
        }
        if let Some(lapses) = it.lapses {
            self.expiries.insert((lapses, number, it.entry));
        }
        let sender = self.number_or_new(&it.sender);
        let mailbox = &mut self.mailboxes[usize::from(sender.0)];
        let letter = Letter {
            content: it.content,
            thread: it.thread,
            entry: it.entry,
            is_among_others: it.earlier == Earlier::UnderWay,
        };
        mailbox.recent.push(letter, it.earlier);
        if let Some(name) = &it.client_ref {
            let (thread, entry) = (it.thread, it.entry);
            let named = ClientRef { name: name.clone(), content: it.content, thread, entry };
            mailbox.refs.push_back(named);
            if CLIENT_REFS_MAX < mailbox.refs.len() {
                mailbox.refs.pop_front();
            }
        }
    }

    fn imported(&mut self, now: Timestamp, it: &ThreadImported) {
        for (number, head) in (it.first..).zip(&it.entries) {
            self.add(it.thread, number, head, 0);
        }
        let last = it.first + u32::try_from(it.entries.len()).expect("a thread's entries") - 1;
        for (role, _) in &it.copies {
            self.number_or_new(role);
            self.join(it.thread, role);
        }
        for (role, kind) in &it.copies {
            self.change(it.thread, role, |thread, copy, arrival| {
                arrive(thread, copy, arrival);
                thread.copies[copy].kind = *kind;
                if *kind != BoxKind::Inbox {
                    seen(thread, copy, last, now);
                }
            });
        }
        // Each role once, however many entries are for it: a change looks through the thread.
        let mut told: BTreeSet<&RoleId> = it.copies.iter().map(|(role, _)| role).collect();
        for role in it.entries.iter().flat_map(|it| &it.to) {
            if told.insert(role) {
                self.change(it.thread, role, arrive);
            }
        }
    }

    /// Adds an entry (X1) and the copies it brings.
    fn add(&mut self, id: MessageId, entry: u32, head: &EntryHead, hops: u32) -> ThreadNumber {
        let number = match self.threads.find(id) {
            Some(number) => number,
            None => self.threads.push(Thread::empty(id)),
        };
        let sender = self.join(id, &head.sender);
        let mut to = 0;
        for role in &head.to {
            to |= 1_u64 << self.join(id, role);
        }
        let sender = u8::try_from(sender).expect("at most THREAD_PARTICIPANTS_MAX");
        let thread = self.threads.get_mut(number);
        assert!(entry == thread.len() + 1, "X1: entry {entry} of {id} after {}", thread.len());
        let hops = u16::try_from(hops).unwrap_or(u16::MAX);
        thread.heads.push(Head { to, sender, kind: head.kind, hops });
        number
    }

    /// The role's copy of a thread, made when there is none (X2).
    fn join(&mut self, id: MessageId, role: &RoleId) -> usize {
        let number = self.threads.find(id).expect("it was begun");
        let role = self.number_or_new(role);
        if let Some(copy) = self.threads.get(number).copy_of(role) {
            return copy;
        }
        let arrival = self.next_arrival();
        let thread = self.threads.get_mut(number);
        thread.copies.push(Copy {
            role,
            kind: BoxKind::Outbox,
            tries: 0,
            state: CopyState::default(),
            arrival,
            handed: 0,
            seen: 0,
        });
        let copy = thread.copies.len() - 1;
        self.index(number, copy);
        copy
    }

    fn next_arrival(&mut self) -> u32 {
        self.arrivals += 1;
        assert!(self.arrivals < NOT_URGENT, "more arrivals than can be counted");
        self.arrivals
    }

    /// Changes a copy, and sees to it that it stands where it belongs.
    fn change(
        &mut self,
        id: MessageId,
        role: &RoleId,
        change: impl FnOnce(&mut Thread, usize, u32),
    ) {
        let found = self.find(role, id);
        let Ok((number, copy)) = found else { panic!("X2: {role} has no copy of {id}") };
        self.unindex(number, copy);
        let before = self.threads.get(number).copies[copy];
        let arrival = self.next_arrival();
        change(self.threads.get_mut(number), copy, arrival);
        let own = &mut self.threads.get_mut(number).copies[copy];
        assert!(
            before.handed <= own.handed && before.seen <= own.seen,
            "X3: {before:?} became {own:?}"
        );
        if own.kind != before.kind {
            own.arrival = arrival;
        }
        self.index(number, copy);
    }

    pub(super) fn unindex(&mut self, number: ThreadNumber, copy: usize) {
        let it = self.threads.get(number).copies[copy];
        let order = Order::new(number, it.state, it.arrival);
        let mailbox = &mut self.mailboxes[usize::from(it.role.0)];
        let was_there = mailbox.boxes[it.kind as usize].remove(&order);
        assert!(was_there, "X2: a copy is not in its box");
        mailbox.unseen.remove(&order);
        mailbox.dead.remove(&order);
    }

    /// Puts a copy where its box and its entries say.
    pub(super) fn index(&mut self, number: ThreadNumber, copy: usize) {
        let state = self.threads.get(number).state_of(copy);
        let own = &mut self.threads.get_mut(number).copies[copy];
        own.state = state;
        let it = *own;
        let order = Order::new(number, state, it.arrival);
        let mailbox = &mut self.mailboxes[usize::from(it.role.0)];
        mailbox.boxes[it.kind as usize].insert(order);
        if state.is_dead {
            mailbox.dead.insert(order);
        } else if state.has_unseen {
            mailbox.unseen.insert(order);
        }
    }
}

/// An entry came in for the copy.
fn arrive(thread: &mut Thread, copy: usize, arrival: u32) {
    let own = &mut thread.copies[copy];
    // What waits already keeps its place: the oldest unseen comes first.
    if !own.state.has_unseen {
        own.arrival = arrival;
    }
    own.kind = BoxKind::Inbox;
    // Something new is worth showing again.
    own.tries = 0;
    own.state.is_dead = false;
}

/// The role answered, or moved the thread.
fn acted(thread: &mut Thread, copy: usize, through: u32, now: Timestamp) {
    seen(thread, copy, through, now);
    let is_news = !thread.receipts().iter().any(|it| {
        it.status == ReceiptStatus::Acted && usize::from(it.copy) == copy && through <= it.entry
    });
    let is_addressed = |number: u32| thread.head(number).is_some_and(|head| head.is_to(copy));
    if is_news && (1..=through).any(is_addressed) {
        mark(thread, copy, ReceiptStatus::Acted, through, now);
    }
}

fn seen(thread: &mut Thread, copy: usize, through: u32, now: Timestamp) {
    let own = &mut thread.copies[copy];
    if through <= own.seen {
        return;
    }
    own.seen = through;
    own.tries = 0;
    own.state.is_dead = false;
    if own.handed < through {
        own.handed = through;
        mark(thread, copy, ReceiptStatus::Handed, through, now);
    }
    mark(thread, copy, ReceiptStatus::Seen, through, now);
}

fn mark(thread: &mut Thread, copy: usize, status: ReceiptStatus, entry: u32, at: Timestamp) {
    let copy = u8::try_from(copy).expect("at most THREAD_PARTICIPANTS_MAX");
    thread.add_receipt(Receipt { at, status, copy, entry });
}
