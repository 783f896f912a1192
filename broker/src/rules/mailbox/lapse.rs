//! What the passing of time brings to mail: entries that nobody saw in time.

use tasuki_proto::{
    id::{RoleId, Timestamp},
    mail::BoxKind,
};

use super::{EntryLapsed, Event, Mailboxes, thread::ThreadNumber};

/// Entries that lapse in one record. More follow in the next.
const LAPSES_MAX: usize = 1000;

impl Mailboxes {
    /// What lapsed by `now`.
    pub(in crate::rules) fn decide_lapses(&self, now: Timestamp) -> impl Iterator<Item = Event> {
        let due = self.expiries.iter().take_while(move |(at, ..)| *at <= now).take(LAPSES_MAX);
        due.map(|(at, thread, entry)| self.lapsed(*at, *thread, *entry))
    }

    fn lapsed(&self, at: Timestamp, number: ThreadNumber, entry: u32) -> Event {
        let thread = self.threads.get(number);
        let head = thread.head(entry).expect("an expiry names an entry");
        let (mut roles, mut cancelled): (Vec<RoleId>, Vec<RoleId>) = (Vec::new(), Vec::new());
        for (copy, it) in thread.copies.iter().enumerate() {
            if !head.is_to(copy) || entry <= it.seen {
                continue;
            }
            let role = self.role(it.role);
            roles.push(role.clone());
            let is_all = thread.unseen(copy).all(|unseen| unseen == entry);
            let is_newest = (entry + 1..=thread.len())
                .all(|later| thread.head(later).is_none_or(|head| !head.is_to(copy)));
            if it.kind == BoxKind::Inbox && is_all && is_newest {
                cancelled.push(role.clone());
            }
        }
        let sender = self.role(thread.copies[usize::from(head.sender)].role).clone();
        Event::Lapsed(EntryLapsed { thread: thread.id, entry, at, roles, cancelled, sender })
    }
}
