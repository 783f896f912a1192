//! How far a thread got at a role: handed, seen, and too often handed.

use std::collections::BTreeMap;

use tasuki_proto::{id::RoleId, limits::HANDED_MAX};

use super::{Event, Mailboxes, MarkThread, ThreadHanded, ThreadSeen, thread::ThreadNumber};
use crate::rules::{Decision, ReceiptKind, Rejection, Reply};

impl Mailboxes {
    pub(super) fn decide_mark(&self, it: &MarkThread) -> Result<Decision, Rejection> {
        let (number, copy) = self.find(&it.role, it.thread)?;
        let thread = self.threads.get(number);
        let own = &thread.copies[copy];
        if thread.len() < it.through {
            let text =
                format!("through is {}; the thread has {} entries", it.through, thread.len());
            return Err(Rejection::Invalid(text));
        }
        let (id, role, through) = (it.thread, it.role.clone(), it.through);
        let happened = match it.mark {
            ReceiptKind::Seen if own.seen < through => {
                Some(Event::Seen(ThreadSeen { thread: id, role, through }))
            }
            ReceiptKind::Handed if own.seen < through => {
                let is_unseen = thread.unseen(copy).next().is_some_and(|first| first <= through);
                let is_too_often = HANDED_MAX <= u32::from(own.tries) + 1;
                let is_dead = is_unseen && is_too_often && !own.state.is_dead;
                // Beyond what makes it a dead letter nothing more is counted.
                let counts = is_unseen && !own.state.is_dead;
                let unseen = if is_dead { self.unseen_of(number, copy, through) } else { vec![] };
                let handed = ThreadHanded { thread: id, role, through, is_dead, unseen };
                (counts || own.handed < through).then_some(Event::Handed(handed))
            }
            ReceiptKind::Seen | ReceiptKind::Handed => None,
        };
        Ok(Decision::new(happened, Reply::Done))
    }

    /// Who sent what a copy has not seen, each with its newest entry.
    fn unseen_of(&self, number: ThreadNumber, copy: usize, through: u32) -> Vec<(RoleId, u32)> {
        let thread = self.threads.get(number);
        let mut newest = BTreeMap::new();
        for entry in thread.unseen(copy).take_while(|entry| *entry <= through) {
            let head = thread.head(entry).expect("unseen entries are there");
            let sender = self.role(thread.copies[usize::from(head.sender)].role);
            newest.insert(sender.clone(), entry);
        }
        newest.into_iter().collect()
    }
}
