//! How far entries of a thread got at whom they are addressed to.
//!
//! A page of a long thread asks for many entries at once, so what is taken from the workspace is
//! a table made in one pass over the thread's own; what it says of each entry is looked up
//! elsewhere.

use std::collections::BTreeMap;

use tasuki_proto::{
    id::{RoleId, Timestamp},
    mail::MessageId,
};

use super::{Mailboxes, ReceiptStatus};

/// How far an entry got at one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryReceipts {
    pub role: RoleId,
    pub handed: Option<Timestamp>,
    pub seen: Option<Timestamp>,
    pub acted: Option<Timestamp>,
    pub lapsed: Option<Timestamp>,
    pub dead: Option<Timestamp>,
}

impl EntryReceipts {
    /// Stored, and no more.
    pub const fn none(role: RoleId) -> Self {
        Self { role, handed: None, seen: None, acted: None, lapsed: None, dead: None }
    }
}

/// How far some entries of a thread got.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receipts {
    first: u32,
    /// Of each entry from `first` on, a bit for each of those below that it is addressed to.
    to: Vec<u64>,
    /// In the order in which they came to take part.
    copies: Vec<Reached>,
}

/// How far a thread got at one role.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reached {
    role: RoleId,
    handed: Steps,
    seen: Steps,
    acted: Steps,
    dead: Steps,
    lapsed: BTreeMap<u32, Timestamp>,
}

/// Receipts that cover every entry up to theirs, each one further than those before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Steps(Vec<(u32, Timestamp)>);

impl Steps {
    /// One that covers less than an earlier one tells nothing new.
    fn add(&mut self, through: u32, at: Timestamp) {
        if self.0.last().is_none_or(|(reached, _)| *reached < through) {
            self.0.push((through, at));
        }
    }

    /// When entry `number` was first covered.
    fn at(&self, number: u32) -> Option<Timestamp> {
        let behind = self.0.partition_point(|(through, _)| *through < number);
        self.0.get(behind).map(|(_, at)| *at)
    }
}

impl Receipts {
    /// Of entry `number`, at each it is addressed to; none of an entry that is not among them.
    pub fn of(&self, number: u32) -> Vec<EntryReceipts> {
        let at = number.checked_sub(self.first).map(|at| at as usize);
        let to = at.and_then(|at| self.to.get(at)).copied().unwrap_or(0);
        let addressed = self.copies.iter().enumerate().filter(|(copy, _)| to >> copy & 1 == 1);
        let receipts = addressed.map(|(_, it)| EntryReceipts {
            role: it.role.clone(),
            handed: it.handed.at(number),
            seen: it.seen.at(number),
            acted: it.acted.at(number),
            lapsed: it.lapsed.get(&number).copied(),
            dead: it.dead.at(number),
        });
        receipts.collect()
    }
}

impl Mailboxes {
    /// How far entries `first` to `last` got, those of them that there are.
    pub fn receipts(&self, id: MessageId, first: u32, last: u32) -> Receipts {
        let Some(number) = self.threads().find(id) else { return Receipts::default() };
        let it = self.threads().get(number);
        let (first, last) = (first.max(1), last.min(it.len()));
        let copies = it.copies.iter().map(|copy| Reached {
            role: self.role(copy.role).clone(),
            handed: Steps::default(),
            seen: Steps::default(),
            acted: Steps::default(),
            dead: Steps::default(),
            lapsed: BTreeMap::new(),
        });
        let heads = it.heads.get(first as usize - 1..last as usize).unwrap_or_default();
        let to = heads.iter().map(|head| head.to).collect();
        let mut receipts = Receipts { first, to, copies: copies.collect() };
        for receipt in it.receipts().iter().filter(|receipt| first <= receipt.entry) {
            let reached = &mut receipts.copies[usize::from(receipt.copy)];
            let steps = match receipt.status {
                ReceiptStatus::Handed => &mut reached.handed,
                ReceiptStatus::Seen => &mut reached.seen,
                ReceiptStatus::Acted => &mut reached.acted,
                ReceiptStatus::Dead => &mut reached.dead,
                ReceiptStatus::Lapsed => {
                    reached.lapsed.entry(receipt.entry).or_insert(receipt.at);
                    continue;
                }
            };
            steps.add(receipt.entry, receipt.at);
        }
        receipts
    }
}
