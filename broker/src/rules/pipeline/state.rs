//! The pipelines of a workspace: what there is, and what an event changes.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{BoardName, CheckpointNumber, FencingToken, NodeId, PersonId, RoleId, Timestamp},
    limits::{PIPELINE_DECISIONS_MAX, PIPELINE_KEPT_MS},
    pipeline::{Definition, Phase, PhaseIndex},
};

use super::{AttemptNumber, Change, Claimed, Event, Rejection, Started, Transition};
use crate::rules::{Fence, Kept, Principal, board::Schema, lease::Lease, rejection::listed_for};

/// What is kept of why an attempt failed once another has begun, in bytes.
const PAST_ERROR_BYTES_MAX: usize = 256;

/// All pipelines of a workspace, by their boards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pipelines {
    by_board: BTreeMap<BoardName, Pipeline>,
    /// Of the latest claim.
    pub(super) token: FencingToken,
    /// Derived: when each is to be looked at next.
    pub(super) deadlines: BTreeSet<(Timestamp, BoardName)>,
    /// Derived: those whose attempt runs.
    pub(super) claimed: BTreeSet<BoardName>,
    /// Derived: those of them whose lease is a grace.
    pub(super) graced: BTreeSet<BoardName>,
    /// Derived: those whose attempt waits or runs.
    in_phase: BTreeSet<BoardName>,
    /// Derived: how many have not ended.
    pub(super) open: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Pipeline {
    #[n(0)]
    pub definition: Definition,
    /// Of its board.
    #[n(1)]
    pub schema: Schema,
    /// Who started it: a role or a person.
    #[n(2)]
    pub role: Option<RoleId>,
    #[n(3)]
    pub person: Option<PersonId>,
    #[n(4)]
    pub started: Timestamp,
    #[n(5)]
    pub status: Status,
    /// How often it went back since it was started or resumed.
    #[n(6)]
    pub retries: u32,
    /// Their numbers follow those of earlier pipelines of the board.
    #[n(7)]
    pub attempts: Vec<Attempt>,
    /// The newest.
    #[n(8)]
    pub decisions: Vec<ApprovalDecision>,
    /// The newest attempt of earlier pipelines of the board, so that no number means two attempts;
    /// 0: there is none.
    #[n(9)]
    pub earlier: AttemptNumber,
}

/// Where a pipeline stands.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A phase waits for its role's node, or is being done; it begins with a checkpoint.
    #[n(0)]
    InPhase(#[n(0)] PhaseIndex, #[n(1)] CheckpointNumber),
    /// What a phase did waits for a person's approval, until this.
    #[n(1)]
    AwaitingApproval(#[n(0)] PhaseIndex, #[n(1)] Timestamp),
    /// At a phase, how, and when.
    #[n(2)]
    Ended(#[n(0)] PhaseIndex, #[n(1)] Outcome, #[n(2)] Timestamp),
}

/// How a pipeline ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    #[n(0)]
    Completed,
    #[n(1)]
    Failed(#[n(0)] String),
    #[n(2)]
    Canceled(#[n(0)] String),
    /// An approval lapsed.
    #[n(3)]
    Lapsed,
}

/// One attempt at a phase.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Attempt {
    #[n(0)]
    pub phase: PhaseIndex,
    /// The checkpoint that it begins with.
    #[n(1)]
    pub checkpoint: CheckpointNumber,
    /// Of the node that has it, or had it.
    #[n(2)]
    pub claim: Option<Claim>,
    #[n(3)]
    pub end: Option<AttemptEnd>,
}

/// A node's charge of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Claim {
    #[n(0)]
    pub node: NodeId,
    #[n(1)]
    pub token: FencingToken,
    #[n(2)]
    pub lease: Lease,
    /// When the attempt has taken too long.
    #[n(3)]
    pub deadline: Timestamp,
    #[n(4)]
    pub began: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// One that [ends an attempt](Change::is_end_of_attempt).
    #[n(0)]
    pub how: Change,
    #[n(1)]
    pub error: String,
    /// What it wrote to the board; [`CheckpointNumber::NONE`]: nothing.
    #[n(2)]
    pub written: CheckpointNumber,
    #[n(3)]
    pub at: Timestamp,
}

impl AttemptEnd {
    /// Keeps the beginning of why an attempt failed: others follow it.
    fn forget_details(&mut self) {
        let cut = self.error.floor_char_boundary(PAST_ERROR_BYTES_MAX);
        if cut < self.error.len() {
            self.error.truncate(cut);
            self.error.push('…');
        }
        self.error.shrink_to_fit();
    }
}

/// What a person decided about a phase.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ApprovalDecision {
    #[n(0)]
    pub phase: PhaseIndex,
    #[n(1)]
    pub is_approved: bool,
    #[n(2)]
    pub person: Option<PersonId>,
    #[n(3)]
    pub reason: String,
    #[n(4)]
    pub at: Timestamp,
}

impl Status {
    /// The phase that it is about.
    pub const fn phase(&self) -> PhaseIndex {
        match self {
            Self::InPhase(phase, _) | Self::AwaitingApproval(phase, _) | Self::Ended(phase, ..) => {
                *phase
            }
        }
    }
}

impl Pipeline {
    pub const fn is_open(&self) -> bool {
        !matches!(self.status, Status::Ended(..))
    }

    /// The phase where it stands.
    pub fn phase(&self) -> &Phase {
        self.definition.phase(self.status.phase())
    }

    /// The attempt that waits or runs, with its number.
    pub fn current(&self) -> Option<(AttemptNumber, &Attempt)> {
        let newest = self.attempts.last().filter(|it| it.end.is_none())?;
        Some((self.last(), newest))
    }

    /// The number of the newest attempt.
    pub fn last(&self) -> AttemptNumber {
        let count = u32::try_from(self.attempts.len());
        self.earlier + count.expect("at most PIPELINE_ATTEMPTS_MAX and a few")
    }

    /// An attempt by its number.
    pub fn attempt(&self, number: AttemptNumber) -> Option<&Attempt> {
        let index = number.checked_sub(self.earlier)?.checked_sub(1)?;
        self.attempts.get(usize::try_from(index).ok()?)
    }

    /// All attempts with their numbers, the oldest first.
    pub fn numbered(&self) -> impl Iterator<Item = (AttemptNumber, &Attempt)> {
        (self.earlier + 1..).zip(&self.attempts)
    }

    /// The charge of the attempt that runs.
    pub fn claim(&self) -> Option<&Claim> {
        self.current()?.1.claim.as_ref()
    }

    /// When it is to be looked at next.
    fn deadline(&self) -> Option<Timestamp> {
        match &self.status {
            Status::InPhase(..) => self.claim().map(|it| it.lease.lapses.min(it.deadline)),
            Status::AwaitingApproval(_, lapses) => Some(*lapses),
            Status::Ended(_, _, at) => Some(at.plus_millis(PIPELINE_KEPT_MS)),
        }
    }
}

impl Pipelines {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.by_board.len()
    }

    /// The one that ended first. Those that have not ended are due before it, if at all.
    pub(super) fn oldest_ended(&self) -> Option<BoardName> {
        let mut due = self.deadlines.iter().map(|(_, board)| board);
        due.find(|board| self.find(board).is_some_and(|it| !it.is_open())).cloned()
    }

    pub fn find(&self, board: &BoardName) -> Option<&Pipeline> {
        self.by_board.get(board)
    }

    /// The pipeline of a board.
    ///
    /// # Errors
    /// [`Rejection::Unknown`].
    pub fn get(&self, board: &BoardName) -> Result<&Pipeline, Rejection> {
        self.find(board).ok_or_else(|| {
            let known = self.by_board.keys().map(BoardName::as_str);
            Rejection::Unknown { board: board.clone(), known: listed_for(board.as_str(), known) }
        })
    }

    /// Those after this board, or all.
    pub fn after<'a>(
        &'a self,
        board: &'a str,
    ) -> impl Iterator<Item = (&'a BoardName, &'a Pipeline)> {
        self.by_board.range::<str, _>((Bound::Excluded(board), Bound::Unbounded))
    }

    /// Those whose attempt waits or runs.
    pub fn at_phase(&self) -> impl Iterator<Item = (&BoardName, &Pipeline)> {
        self.in_phase.iter().filter_map(|board| Some((board, self.find(board)?)))
    }

    /// Whether a node holds an attempt.
    pub fn is_held(&self) -> bool {
        !self.claimed.is_empty()
    }

    /// The next claim has a token above all that any had before a restore.
    pub(in crate::rules) fn fence(&mut self, fence: Fence) {
        self.token = fence.above(self.token.get()).into();
    }

    pub(in crate::rules) fn apply(&mut self, now: Timestamp, by: &Principal, event: &Event) {
        match event {
            Event::Started(it) => {
                self.unindex(&it.board);
                let earlier = self.find(&it.board).map_or(0, Pipeline::last);
                self.by_board.insert(it.board.clone(), started(now, by, it, earlier));
                self.index(&it.board);
            }
            Event::Claimed(it) => {
                assert!(self.token < it.token, "PL2: token {} after {}", it.token, self.token);
                self.token = it.token;
                self.change(&it.board, |pipeline| pipeline.claimed(now, it));
            }
            Event::Renewed(it) => self.change(&it.board, |pipeline| {
                let claim = pipeline.attempts.last_mut().and_then(|it| it.claim.as_mut());
                let lease = &mut claim.expect("PL1: what runs is claimed").lease;
                (lease.lapses, lease.had_grace) = (it.lapses, it.is_grace);
            }),
            Event::Transitioned(it) => {
                self.change(&it.board, |pipeline| pipeline.transition(now, by, it))
            }
            Event::Forgotten(board) => {
                self.unindex(board);
                self.by_board.remove(board);
            }
        }
    }

    fn change(&mut self, board: &BoardName, change: impl FnOnce(&mut Pipeline)) {
        self.unindex(board);
        change(self.by_board.get_mut(board).expect("what changes is there"));
        self.index(board);
    }

    /// Adds what is derived of a pipeline.
    fn index(&mut self, board: &BoardName) {
        let Some(pipeline) = self.by_board.get(board) else { return };
        self.open += usize::from(pipeline.is_open());
        if let Status::InPhase(..) = pipeline.status {
            self.in_phase.insert(board.clone());
        }
        self.deadlines.extend(pipeline.deadline().map(|at| (at, board.clone())));
        if let Some(claim) = pipeline.claim() {
            self.claimed.insert(board.clone());
            if claim.lease.had_grace {
                self.graced.insert(board.clone());
            }
        }
    }

    /// Takes it away again.
    fn unindex(&mut self, board: &BoardName) {
        let Some(pipeline) = self.by_board.get(board) else { return };
        self.open -= usize::from(pipeline.is_open());
        if let Some(at) = pipeline.deadline() {
            self.deadlines.remove(&(at, board.clone()));
        }
        self.in_phase.remove(board);
        self.claimed.remove(board);
        self.graced.remove(board);
    }
}

fn started(now: Timestamp, by: &Principal, it: &Started, earlier: AttemptNumber) -> Pipeline {
    let first = Attempt { phase: 0, checkpoint: it.checkpoint, claim: None, end: None };
    Pipeline {
        definition: it.definition.clone(),
        schema: it.schema.clone(),
        role: by.role.clone(),
        person: by.person.clone(),
        started: now,
        status: Status::InPhase(0, it.checkpoint),
        retries: 0,
        attempts: vec![first],
        decisions: Vec::new(),
        earlier,
    }
}

impl Pipeline {
    fn claimed(&mut self, now: Timestamp, it: &Claimed) {
        let attempt = self.attempts.last_mut().filter(|it| it.end.is_none());
        let attempt = attempt.expect("PL1: what is claimed waits");
        let held = attempt.claim.as_ref();
        assert!(held.is_none(), "PL1: {} claims what {held:?} has", it.node);
        attempt.claim = Some(Claim {
            node: it.node.clone(),
            token: it.token,
            lease: Lease::until(it.lapses),
            deadline: it.deadline,
            began: now,
        });
    }

    fn transition(&mut self, now: Timestamp, by: &Principal, it: &Transition) {
        let phase = self.status.phase();
        if matches!(self.status, Status::AwaitingApproval(..)) {
            let goes_on = matches!(it.status, Status::InPhase(..))
                || matches!(it.status, Status::Ended(_, Outcome::Completed, _));
            let is_decided = matches!(it.change, Change::Approved | Change::Denied);
            assert!(!goes_on || is_decided, "PL4: {:?} from an approval", it.change);
        }
        if it.change.is_end_of_attempt()
            && let Some(attempt) = self.attempts.last_mut().filter(|it| it.end.is_none())
        {
            let (error, written) = (it.error.clone(), it.written);
            attempt.end = Some(AttemptEnd { how: it.change, error, written, at: now });
        }
        if let Change::Approved | Change::Denied = it.change {
            let is_approved = it.change == Change::Approved;
            let (person, reason) = (by.person.clone(), it.error.clone());
            self.decisions.push(ApprovalDecision { phase, is_approved, person, reason, at: now });
            if PIPELINE_DECISIONS_MAX < self.decisions.len() {
                self.decisions.remove(0);
            }
        }
        if let Status::InPhase(phase, checkpoint) = it.status {
            let is_over = self.attempts.last().is_none_or(|it| it.end.is_some());
            assert!(is_over, "PL1: a phase begins while another is done");
            if let Some(end) = self.attempts.last_mut().and_then(|it| it.end.as_mut()) {
                end.forget_details();
            }
            self.attempts.push(Attempt { phase, checkpoint, claim: None, end: None });
        }
        (self.status, self.retries) = (it.status.clone(), it.retries);
    }
}

/// What a snapshot holds.
#[derive(Debug, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotItem<'a> {
    /// The latest claim's.
    #[n(0)]
    Token(#[n(0)] FencingToken),
    #[n(1)]
    Pipeline(#[n(0)] Cow<'a, BoardName>, #[n(1)] Box<Cow<'a, Pipeline>>),
}

impl Kept for Pipelines {
    type Item<'a> = SnapshotItem<'a>;

    fn items(&self) -> impl Iterator<Item = SnapshotItem<'_>> {
        let token = (self.token != FencingToken::NONE).then_some(SnapshotItem::Token(self.token));
        let pipelines = self.by_board.iter().map(|(board, it)| {
            SnapshotItem::Pipeline(Cow::Borrowed(board), Box::new(Cow::Borrowed(it)))
        });
        token.into_iter().chain(pipelines)
    }

    fn restore(&mut self, item: SnapshotItem<'_>) -> Result<(), &'static str> {
        match item {
            SnapshotItem::Token(token) => self.token = token,
            SnapshotItem::Pipeline(board, it) => {
                let it = (*it).into_owned();
                let phases = it.definition.phases.len();
                let is_known = |phase: PhaseIndex| usize::from(phase) < phases;
                if !is_known(it.status.phase()) || !it.attempts.iter().all(|it| is_known(it.phase))
                {
                    return Err("a pipeline stands at a phase that it does not have");
                }
                let board = board.into_owned();
                self.by_board.insert(board.clone(), it);
                self.index(&board);
            }
        }
        Ok(())
    }
}
