//! What the broker's feed says of mail, as what happened at the roles of this node; and who wants
//! to hear of it. Pure.
//!
//! - **Q1** What happens at a role concerns the node that hosts it, and no other: each happening
//!   names one role, and its place in the journal is the same whatever else a node hosts.
//!
//! What came to nothing happens twice: at the role that had not seen it, and at the one that sent it.
//!
//! Mail that was taken over from elsewhere, and dead letters to be handed again, are no
//! happenings.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::RoleId,
    wire::{self, event::Noun, mail_event::Kind as Said},
};

use super::spec::{Hook, Kind};

/// Something that happened to a thread at a role of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    pub kind: Kind,
    pub role: RoleId,
    /// The thread.
    pub message: String,
    /// The entry concerned, or the newest that can be; 0: the newest of all.
    pub entry: u32,
    /// Of what the role sent: who had not seen it.
    pub unseen_by: Vec<String>,
    /// What is known of the entry before it was read.
    pub facts: Option<Facts>,
    pub place: Place,
}

/// Where in the journal: names a happening for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub sequence: u64,
    /// Of the record's events, from 0.
    pub event: usize,
    /// Of those concerned by the event, from 0.
    pub part: usize,
}

/// What filters look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub kind: String,
    pub sender: String,
    pub receivers: Vec<String>,
}

impl From<&wire::MailEntry> for Facts {
    fn from(entry: &wire::MailEntry) -> Self {
        Self {
            kind: entry.r#type.clone(),
            sender: entry.sender.clone(),
            receivers: entry.receivers.clone(),
        }
    }
}

/// What is known of a happening besides where and to whom.
#[derive(Default)]
struct About {
    facts: Option<Facts>,
    unseen_by: Vec<String>,
}

impl About {
    fn unseen_by<'a>(roles: impl IntoIterator<Item = &'a String>) -> Self {
        Self { facts: None, unseen_by: roles.into_iter().cloned().collect() }
    }
}

/// What one record says of the roles in `hosted`.
pub fn of_item(item: &wire::FeedItem, hosted: &BTreeSet<RoleId>) -> Vec<Happening> {
    let mut found = Vec::new();
    for (event, said) in item.events.iter().enumerate() {
        let Some(Noun::Mail(wire::MailEvent { kind: Some(said) })) = &said.noun else { continue };
        let mut push = |part, kind, role: &str, message: &str, entry, about: About| {
            let Some(role) = hosted.iter().find(|own| own.as_str() == role).cloned() else {
                return;
            };
            let About { facts, unseen_by } = about;
            let place = Place { sequence: item.sequence, event, part };
            let message = message.to_owned();
            found.push(Happening { kind, role, message, entry, unseen_by, facts, place });
        };
        let nothing = About::default;
        match said {
            Said::MailSent(it) => {
                let facts = || {
                    let (sender, receivers) = (it.sender.clone(), it.receivers.clone());
                    let facts = Some(Facts { kind: it.r#type.clone(), sender, receivers });
                    About { facts, ..About::default() }
                };
                push(0, Kind::Sent, &it.sender, &it.message_id, it.entry, facts());
                for (i, receiver) in it.receivers.iter().enumerate() {
                    push(i + 1, Kind::Received, receiver, &it.message_id, it.entry, facts());
                }
            }
            Said::MailMoved(it) => {
                let kind = match it.r#box() {
                    wire::Box::Done => Kind::Resolved,
                    wire::Box::Cancel => Kind::Rejected,
                    wire::Box::Unspecified | wire::Box::Inbox | wire::Box::Outbox => continue,
                };
                push(0, kind, &it.role, &it.message_id, 0, nothing());
            }
            Said::MailMarked(it) => {
                if it.receipt == "seen" {
                    push(0, Kind::Seen, &it.role, &it.message_id, it.through, nothing());
                }
            }
            Said::MailLapsed(it) => {
                for (i, role) in it.roles.iter().enumerate() {
                    push(i, Kind::Lapsed, role, &it.message_id, it.entry, nothing());
                }
                let others = it.roles.iter().filter(|role| **role != it.sender);
                let about = About::unseen_by(others);
                if !about.unseen_by.is_empty() {
                    let part = it.roles.len();
                    push(part, Kind::Lapsed, &it.sender, &it.message_id, it.entry, about);
                }
            }
            Said::MailDied(it) => {
                if it.is_revived {
                    continue;
                }
                push(0, Kind::Dead, &it.role, &it.message_id, 0, nothing());
                for (i, of) in it.unseen.iter().enumerate().filter(|(_, of)| of.sender != it.role) {
                    let about = About::unseen_by([&it.role]);
                    push(i + 1, Kind::Dead, &of.sender, &it.message_id, of.entry, about);
                }
            }
            Said::MailImported(_) | Said::MailboxOpened(_) | Said::MailboxClosed(_) => {}
        }
    }
    found
}

impl Happening {
    /// The entry it is about, among those that were read: the one it names if that is the role's
    /// own doing or for the role, else the newest before it that is for the role.
    pub fn entry_of<'a>(&self, read: &'a [wire::MailEntry]) -> Option<&'a wire::MailEntry> {
        let is_named = |entry: &&wire::MailEntry| entry.number == self.entry;
        let is_before = |entry: &&wire::MailEntry| self.entry == 0 || entry.number <= self.entry;
        let is_for_role = |entry: &&wire::MailEntry| {
            entry.receivers.iter().any(|receiver| receiver == self.role.as_str())
        };
        if self.is_of_one_entry() || (self.kind == Kind::Dead && !self.unseen_by.is_empty()) {
            return read.iter().find(is_named);
        }
        let newest = read.iter().rev().find(is_before);
        read.iter().rev().filter(is_before).find(is_for_role).or(newest)
    }

    /// Whether it is about the entry that it names and no other, which is most often the newest.
    pub const fn is_of_one_entry(&self) -> bool {
        matches!(self.kind, Kind::Received | Kind::Sent | Kind::Lapsed)
    }
}

impl Hook {
    /// Whether it wants to hear of `happening`, as far as can be told before the thread is read.
    pub fn may_want(&self, happening: &Happening) -> bool {
        self.on.contains(&happening.kind)
            && self.is_for(Some(&happening.role))
            && happening.facts.as_ref().is_none_or(|facts| self.lets_through(facts))
    }

    /// Whether it wants to hear of something about an entry. Where the entry could not be read,
    /// only what no filter asks about is wanted.
    pub fn wants(&self, facts: Option<&Facts>) -> bool {
        match facts {
            Some(facts) => self.lets_through(facts),
            None => self.types.is_empty() && self.senders.is_empty() && self.receivers.is_empty(),
        }
    }

    fn lets_through(&self, facts: &Facts) -> bool {
        let is_role =
            |set: &BTreeSet<RoleId>, name: &str| set.iter().any(|role| role.as_str() == name);
        let is_type = self.types.iter().any(|kind| kind.as_str() == facts.kind);
        let to_one = facts.receivers.iter().any(|name| is_role(&self.receivers, name));
        (self.types.is_empty() || is_type)
            && (self.senders.is_empty() || is_role(&self.senders, &facts.sender))
            && (self.receivers.is_empty() || to_one)
    }
}

#[cfg(test)]
mod tests;
