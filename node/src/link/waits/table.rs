//! The waits that are open, by number and by deadline, and what is still to be sent about them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tasuki_proto::{id::RoleId, reason::Reason, wire};
use tokio::{
    sync::oneshot,
    time::{Duration, Instant},
};

use super::GRACE_MS;
use crate::{
    limiter::Permit,
    refusal::Refusal,
    wait::{Answer, Question},
};

/// One wait until it is answered.
#[derive(Debug)]
pub(super) struct Open {
    /// `None`: the node itself asks, or a sub-agent.
    pub(super) role: Option<RoleId>,
    pub(super) question: Question,
    /// Nobody may be left to hear the answer; a wait consumes nothing, so nothing is lost.
    pub(super) reply: oneshot::Sender<Result<Answer, Refusal>>,
    /// When the broker is to answer.
    pub(super) hold_ends: Instant,
    /// When this node answers in its place.
    pub(super) deadline: Instant,
    /// It asks how it stands, and has no hold.
    pub(super) is_look: bool,
    /// The broker was asked, or may have been.
    pub(super) is_parked: bool,
    pub(super) _permit: Permit,
}

impl Open {
    /// From then on the hold decides when it ends, also while the broker is away.
    pub(super) fn park(&mut self) {
        if !self.is_parked {
            self.is_parked = true;
            self.deadline = self.deadline.max(self.hold_ends + Duration::from_millis(GRACE_MS));
        }
    }

    pub(super) fn answer(self, answer: Answer) {
        if self.question.is_answered_by(&answer) {
            drop(self.reply.send(Ok(answer)));
        } else {
            self.refuse(Refusal {
                reason: Reason::Unavailable,
                message: "The broker answered another question. Ask again.".to_owned(),
            });
        }
    }

    pub(super) fn still_waiting(self) {
        drop(self.reply.send(Ok(self.question.still_waiting())));
    }

    pub(super) fn refuse(self, refusal: Refusal) {
        drop(self.reply.send(Err(refusal)));
    }
}

#[derive(Debug, Default)]
pub(super) struct Table {
    open: BTreeMap<u64, Open>,
    deadlines: BTreeSet<(Instant, u64)>,
    pub(super) unsent: VecDeque<wire::ParkRequest>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Open)> {
        self.open.iter().map(|(wait, open)| (*wait, open))
    }

    pub(super) fn insert(&mut self, wait: u64, open: Open) {
        self.deadlines.insert((open.deadline, wait));
        self.open.insert(wait, open);
    }

    pub(super) fn remove(&mut self, wait: u64) -> Option<Open> {
        let open = self.open.remove(&wait)?;
        self.deadlines.remove(&(open.deadline, wait));
        Some(open)
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Open> {
        self.deadlines.clear();
        self.unsent.clear();
        std::mem::take(&mut self.open).into_values()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Open> {
        let (deadline, wait) = *self.deadlines.first()?;
        if now < deadline { None } else { self.remove(wait) }
    }

    /// Whether a wait has more than `ms` of its hold left.
    pub(super) fn has_left(&self, wait: u64, ms: u64) -> bool {
        let soon = Instant::now() + Duration::from_millis(ms);
        self.open.get(&wait).is_some_and(|open| soon < open.hold_ends)
    }

    pub(super) fn mark_parked(&mut self) {
        for (wait, open) in &mut self.open {
            self.deadlines.remove(&(open.deadline, *wait));
            open.park();
            self.deadlines.insert((open.deadline, *wait));
        }
    }
}
