//! Waits parked until the state says what a caller asked for.
//!
//! One wait per role and question: a newer one supersedes the older, which is told so.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use tasuki_proto::{
    id::{BoardName, CheckpointNumber, LoopId, NodeId, RoleId, Sequence, Timestamp},
    swarm::IssueId,
};

use super::actor::{OnDurable, View};
use crate::rules::{Caller, Rejection, board, mailbox, run, swarm, turn};

/// Waits parked in one workspace. At about half a KiB each this is some 10 MiB.
pub const WAITS_MAX: usize = 20_000;

/// Names one wait within the broker process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaitId(pub u64);

/// What somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// "Is it this role's turn in this loop?"
    Turn { loop_id: LoopId, role: RoleId },
    /// "Is there mail like this for this role?"
    Mail { role: RoleId, filter: mailbox::Filter },
    /// About issues, tasks, locks and deliveries.
    Swarm { what: swarm::Question, role: RoleId },
    /// "Has this board changed?"
    Board(board::Question),
    /// About runs and their steps.
    Run(run::Question),
}

impl Question {
    /// The role that asks, where one does.
    pub fn role(&self) -> Option<&RoleId> {
        match self {
            Self::Turn { role, .. } | Self::Mail { role, .. } | Self::Swarm { role, .. } => {
                Some(role)
            }
            Self::Board(it) => Some(&it.role),
            Self::Run(it) => it.role(),
        }
    }
}

/// What a wait ends with.
#[derive(Debug, Clone)]
pub struct WaitOutcome {
    pub answer: Answer,
    pub is_superseded: bool,
    /// The record the answer rests on.
    pub sequence: Sequence,
}

impl WaitOutcome {
    pub(super) fn superseded(self) -> Self {
        Self { is_superseded: true, ..self }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Turn(turn::Answer),
    Mail(mailbox::Answer),
    Swarm(swarm::Answer),
    Board(board::Answer),
    Run(run::Answer),
}

impl Answer {
    /// Whether the state says what was waited for.
    pub fn is_there(&self) -> bool {
        match self {
            Self::Turn(it) => it.standing != turn::TurnStatus::NotYet,
            Self::Mail(it) => it.mail.is_some(),
            Self::Swarm(it) => it.is_there(),
            Self::Board(it) => it.is_there,
            Self::Run(it) => it.is_there(),
        }
    }
}

/// Makes an answer of a wait's one outcome and the state it rests on, to be let out once that is
/// durable.
pub(crate) type WaitReply =
    Box<dyn FnOnce(&View<'_>, Result<WaitOutcome, Rejection>) -> OnDurable + Send>;

pub(super) struct Parked {
    pub id: WaitId,
    pub reply: WaitReply,
    /// Over which registration it was asked.
    pub caller: Caller,
    /// Also for the ones whose place it took.
    since: Timestamp,
    deadline: Timestamp,
}

/// The waits of one workspace.
#[derive(Default)]
pub struct Waits {
    parked: BTreeMap<Question, Parked>,
    deadlines: BTreeSet<(Timestamp, Question)>,
    /// Derived: how many waits each role has.
    by_role: BTreeMap<RoleId, usize>,
}

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waits").field("parked", &self.parked.len()).finish_non_exhaustive()
    }
}

impl Waits {
    /// Parks a wait at `now` and returns the one it supersedes.
    pub(super) fn park(
        &mut self,
        question: Question,
        id: WaitId,
        now: Timestamp,
        deadline: Timestamp,
        caller: Caller,
        reply: WaitReply,
    ) -> Option<Parked> {
        let older = self.take(&question);
        self.deadlines.insert((deadline, question.clone()));
        if let Some(role) = question.role() {
            *self.by_role.entry(role.clone()).or_default() += 1;
        }
        let since = older.as_ref().map_or(now, |older| older.since);
        self.parked.insert(question, Parked { id, reply, caller, since, deadline });
        older
    }

    /// Removes the wait of this question.
    pub(super) fn take(&mut self, question: &Question) -> Option<Parked> {
        let parked = self.parked.remove(question)?;
        self.deadlines.remove(&(parked.deadline, question.clone()));
        let Some(role) = question.role() else { return Some(parked) };
        let left = self.by_role.get_mut(role).expect("it has this one");
        *left -= 1;
        if *left == 0 {
            self.by_role.remove(role);
        }
        Some(parked)
    }

    /// Removes a wait whose caller is gone, unless a newer one took its place.
    pub(super) fn cancel(&mut self, question: &Question, id: WaitId) {
        if self.parked.get(question).is_some_and(|parked| parked.id == id) {
            self.take(question);
        }
    }

    /// Removes the waits whose hold is over.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<(Question, Parked)> {
        let mut due = Vec::new();
        while let Some((deadline, question)) = self.deadlines.first()
            && *deadline <= now
        {
            let question = question.clone();
            let parked = self.take(&question).expect("every deadline has its wait");
            due.push((question, parked));
        }
        due
    }

    /// Roles that wait for their turn in this loop.
    pub fn roles<'a>(&'a self, loop_id: &'a LoopId) -> impl Iterator<Item = &'a RoleId> {
        let first = Question::Turn { loop_id: loop_id.clone(), role: smallest_role() };
        self.parked.range(first..).map_while(move |(it, _)| match it {
            Question::Turn { loop_id: other, role } => (other == loop_id).then_some(role),
            Question::Mail { .. }
            | Question::Swarm { .. }
            | Question::Board(_)
            | Question::Run(_) => None,
        })
    }

    /// What a role waits for in its mail.
    pub(super) fn mail_of<'a>(&'a self, role: &'a RoleId) -> impl Iterator<Item = &'a Question> {
        let filter = mailbox::Filter::default();
        let first = Question::Mail { role: role.clone(), filter };
        let of_role = self.parked.range(first..).map(|(it, _)| it);
        of_role.take_while(move |it| matches!(it, Question::Mail { role: own, .. } if own == role))
    }

    /// Waits that ask just this, by role.
    pub(super) fn asking<'a>(
        &'a self,
        what: &'a swarm::Question,
    ) -> impl Iterator<Item = (&'a Question, WaitId)> {
        let first = Question::Swarm { what: what.clone(), role: smallest_role() };
        let same = self.parked.range(first..).map(|(it, parked)| (it, parked.id));
        same.take_while(
            move |(it, _)| matches!(it, Question::Swarm { what: own, .. } if own == what),
        )
    }

    /// Waits for something for a lead to look at, and of which issue.
    pub(super) fn for_events(&self) -> impl Iterator<Item = (IssueId, &Question)> {
        let what = swarm::Question::Events(IssueId::default());
        let first = Question::Swarm { what, role: smallest_role() };
        self.parked.range(first..).map_while(|(it, _)| match it {
            Question::Swarm { what: swarm::Question::Events(issue), .. } => Some((*issue, it)),
            Question::Swarm { .. }
            | Question::Turn { .. }
            | Question::Mail { .. }
            | Question::Board(_)
            | Question::Run(_) => None,
        })
    }

    /// Waits for files that can be locked.
    pub(super) fn for_locks(&self) -> impl Iterator<Item = &Question> {
        let what = swarm::Question::Locks(Vec::new());
        let first = Question::Swarm { what, role: smallest_role() };
        let rest = self.parked.range(first..).map(|(it, _)| it);
        rest.take_while(|it| matches!(it, Question::Swarm { what: swarm::Question::Locks(_), .. }))
    }

    /// Waits about runs.
    pub(super) fn about_runs(&self) -> impl Iterator<Item = (&run::Question, WaitId)> {
        // They are the last.
        self.parked.iter().rev().map_while(|(it, parked)| match it {
            Question::Run(it) => Some((it, parked.id)),
            Question::Turn { .. }
            | Question::Mail { .. }
            | Question::Swarm { .. }
            | Question::Board(_) => None,
        })
    }

    /// Waits about a board, whoever asks.
    pub(super) fn about_board<'a>(
        &'a self,
        board: &'a BoardName,
    ) -> impl Iterator<Item = &'a board::Question> {
        let first = board::Question {
            board: board.clone(),
            role: smallest_role(),
            channels: BTreeSet::new(),
            after: CheckpointNumber::NONE,
        };
        self.parked.range(Question::Board(first)..).map_while(move |(it, _)| match it {
            Question::Board(it) => (it.board == *board).then_some(it),
            Question::Turn { .. }
            | Question::Mail { .. }
            | Question::Swarm { .. }
            | Question::Run(_) => None,
        })
    }

    /// What nodes run that wait for steps, by node.
    pub fn offers(&self) -> impl Iterator<Item = &run::Offer> {
        let offers = self.about_runs().filter_map(|(it, _)| match it {
            run::Question::Steps(offer) => Some(&**offer),
            run::Question::Run { .. } | run::Question::Reply { .. } => None,
        });
        offers.collect::<Vec<_>>().into_iter().rev()
    }

    /// What a node waits for.
    pub(super) fn offer_of(&self, node: &NodeId) -> Option<Question> {
        let offer = self.offers().find(|offer| offer.node == *node)?;
        Some(Question::Run(run::Question::Steps(Box::new(offer.clone()))))
    }

    /// Roles that wait for anything.
    pub fn waiting(&self) -> impl Iterator<Item = &RoleId> {
        self.by_role.keys()
    }

    pub fn is_waiting(&self, role: &RoleId) -> bool {
        self.by_role.contains_key(role)
    }

    /// Who asked what.
    pub(super) fn callers(&self) -> impl Iterator<Item = (&Question, &Caller)> {
        self.parked.iter().map(|(question, parked)| (question, &parked.caller))
    }

    pub fn questions(&self) -> impl Iterator<Item = &Question> {
        self.parked.keys()
    }

    /// What is asked, and since when.
    pub fn asked(&self) -> impl Iterator<Item = (&Question, Timestamp)> {
        self.parked.iter().map(|(question, parked)| (question, parked.since))
    }

    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub fn len(&self) -> usize {
        self.parked.len()
    }

    pub fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }
}

fn smallest_role() -> RoleId {
    "0".parse().expect("a valid id")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(loop_id: &str, role: &str) -> Question {
        Question::Turn { loop_id: loop_id.parse().unwrap(), role: role.parse().unwrap() }
    }

    fn park(waits: &mut Waits, question: &Question, id: u64, deadline: u64) -> Option<WaitId> {
        let (now, deadline) = (Timestamp::from_millis(id), Timestamp::from_millis(deadline));
        let reply: WaitReply = Box::new(|_, _| Box::new(|| ()));
        let id = WaitId(id);
        let older = waits.park(question.clone(), id, now, deadline, Caller::default(), reply);
        older.map(|it| it.id)
    }

    #[test]
    fn a_newer_wait_supersedes_and_only_its_own_caller_cancels_it() {
        let mut waits = Waits::default();
        let (a, b) = (question("main", "A"), question("main", "B"));
        assert_eq!(park(&mut waits, &a, 1, 50), None);
        assert_eq!(park(&mut waits, &b, 2, 40), None);
        assert_eq!(park(&mut waits, &a, 3, 60), Some(WaitId(1)));
        let since: Vec<_> = waits.asked().map(|(_, since)| since.as_millis()).collect();
        assert_eq!(since, [1, 2], "whoever takes the place of another waits on for it");
        waits.cancel(&a, WaitId(1));
        assert_eq!(waits.len(), 2, "a cancel of the superseded wait leaves the newer one");
        assert_eq!(
            waits.roles(&"main".parse().unwrap()).map(RoleId::as_str).collect::<Vec<_>>(),
            ["A", "B"]
        );
        let due = waits.take_due(Timestamp::from_millis(50));
        assert_eq!(due.iter().map(|(it, _)| it).collect::<Vec<_>>(), [&b]);
        assert_eq!(waits.next_deadline(), Some(Timestamp::from_millis(60)));
        waits.cancel(&a, WaitId(3));
        assert!(waits.is_empty() && waits.next_deadline().is_none());
    }
}
