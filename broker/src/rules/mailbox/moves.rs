//! How copies leave the inbox by their role's act, and how mailboxes are opened and closed.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::RoleId,
    mail::{BoxKind, MessageId},
};

use super::{CopyMoved, Event, MAILBOXES_MAX, Mailboxes, Move, RoleContext, ThreadRevived};
use crate::rules::{Decision, Rejection, Reply};

/// What became of one thread that was to be moved.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Moved {
    #[n(0)]
    pub thread: MessageId,
    #[n(1)]
    pub outcome: MoveOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum MoveOutcome {
    #[n(0)]
    Moved,
    /// It was there already.
    #[n(1)]
    Already,
    /// It is in this box: neither in the inbox, nor taken out of it by an answer.
    #[n(2)]
    NotInInbox(#[n(0)] BoxKind),
    /// So many entries came in after the last that was handed.
    #[n(3)]
    Unseen(#[n(0)] u32),
    /// What it was called by meant no thread of the role, or several: then the thread is the nil id.
    #[n(4)]
    Unknown,
}

impl Mailboxes {
    pub(super) fn decide_move(&self, it: &Move) -> Decision {
        let (mut events, mut moved) = (Vec::new(), Vec::new());
        for id in &it.threads {
            moved.push(match id {
                Some(id) => {
                    let outcome = self.decide_one(&it.role, *id, it.to, &mut events);
                    Moved { thread: *id, outcome }
                }
                None => Moved { thread: MessageId::from_bits(0), outcome: MoveOutcome::Unknown },
            });
        }
        Decision::new(events, super::Reply::Moved { to: it.to, moved })
    }

    fn decide_one(
        &self,
        role: &RoleId,
        id: MessageId,
        to: BoxKind,
        events: &mut Vec<Event>,
    ) -> MoveOutcome {
        let Ok((number, copy)) = self.find(role, id) else { return MoveOutcome::Unknown };
        let thread = self.threads.get(number);
        let own = &thread.copies[copy];
        if own.kind == to {
            return MoveOutcome::Already;
        }
        let is_answered = own.kind == BoxKind::Outbox && thread.is_addressed_to(copy);
        if own.kind != BoxKind::Inbox && !is_answered {
            return MoveOutcome::NotInInbox(own.kind);
        }
        let newer = thread.unhanded(copy);
        // Who was handed nothing of it moves it for its name, and knows what it is doing.
        if own.handed != 0 && newer != 0 {
            return MoveOutcome::Unseen(u32::try_from(newer).expect("a thread's entries"));
        }
        let is_first = |event: &Event| !matches!(event, Event::Moved(it) if it.thread == id);
        if events.iter().all(is_first) {
            let moved = CopyMoved { thread: id, role: role.clone(), to, acted: thread.len() };
            events.push(Event::Moved(moved));
        }
        MoveOutcome::Moved
    }

    pub(super) fn decide_open(&self, role: &RoleId) -> Result<Decision, Rejection> {
        match self.mailbox(role) {
            Some(mailbox) if !mailbox.is_closed => return Ok(Decision::repeat(Reply::Done)),
            Some(_) => {}
            None if MAILBOXES_MAX <= self.mailboxes.len() => {
                return Err(Rejection::TooManyMailboxes);
            }
            None => {}
        }
        Ok(Decision::new([Event::Opened(role.clone())], Reply::Done))
    }

    pub(super) fn decide_close(
        &self,
        around: RoleContext<'_>,
        role: &RoleId,
    ) -> Result<Decision, Rejection> {
        match self.mailbox(role) {
            Some(mailbox) if mailbox.is_closed => return Ok(Decision::repeat(Reply::Done)),
            Some(_) => {}
            None if around.knows(role) && self.mailboxes.len() < MAILBOXES_MAX => {}
            None => {
                return Err(self.unknown_receiver(around, role));
            }
        }
        Ok(Decision::new([Event::Closed(role.clone())], Reply::Done))
    }

    pub(super) fn decide_hand_again(
        &self,
        role: &RoleId,
        id: MessageId,
    ) -> Result<Decision, Rejection> {
        let (number, copy) = self.find(role, id)?;
        if !self.threads.get(number).copies[copy].state.is_dead {
            return Ok(Decision::repeat(super::Reply::Revived { thread: id }));
        }
        let revived = ThreadRevived { thread: id, role: role.clone() };
        Ok(Decision::new([Event::Revived(revived)], super::Reply::Revived { thread: id }))
    }
}
