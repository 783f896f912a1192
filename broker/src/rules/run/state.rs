//! One run, its steps, and what its sub-agents asked and told.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{Epoch, FencingToken, NodeId, NodeLabel, PersonId, RoleId, Timestamp, TokenId},
    run::{RunId, StepId},
    token::SecretHash,
};

use super::{
    Budget, Usage,
    event::{StepResult, StepSpec},
};
use crate::{
    hash::Hash,
    rules::{directory::Directory, lease::Lease},
};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Run {
    #[n(0)]
    pub id: RunId,
    #[n(1)]
    pub mode: Mode,
    #[n(2)]
    pub asker: Asker,
    #[n(3)]
    pub origin: Origin,
    #[n(4)]
    pub steps: Vec<Step>,
    /// Steps at the same time.
    #[n(5)]
    pub concurrency: u32,
    #[n(6)]
    pub budget: Budget,
    #[n(7)]
    pub started: Timestamp,
    #[n(8)]
    pub stopped: Option<StopReason>,
    #[n(9)]
    pub ended: Option<(Timestamp, RunOutcome)>,
    /// By steps that ended, of the run and all below it.
    #[n(10)]
    pub used: Usage,
    /// Of the run and all below it.
    #[n(11)]
    pub tree_steps: u32,
    /// In order; the first has the number 1.
    #[n(12)]
    pub messages: Vec<Message>,
    /// Derived: the runs right below it.
    #[cbor(skip)]
    #[serde(skip)]
    pub children: Vec<RunId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    #[n(1)]
    Single,
    #[n(2)]
    Parallel,
    /// The output of each is the next one's `{previous}`.
    #[n(3)]
    Chain,
}

/// Who asked for a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum Asker {
    #[n(0)]
    Role(#[n(0)] RoleId),
    #[n(1)]
    Person(#[n(0)] PersonId),
    /// A sub-agent.
    #[n(2)]
    Step(#[n(0)] StepId),
}

/// Where a run was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Origin {
    #[n(0)]
    pub node: Option<NodeId>,
    #[n(1)]
    pub token: Option<TokenId>,
}

impl Origin {
    /// Whether a node is on the same machine: a token belongs to one.
    pub(super) fn is_own(&self, node: &NodeId, directory: &Directory) -> bool {
        let is_of_token = |token| {
            directory.nodes.get(node).is_some_and(|node| node.token.as_ref() == Some(token))
        };
        self.node.as_ref() == Some(node) || self.token.as_ref().is_some_and(is_of_token)
    }
}

/// Whom an open run is counted for: its token, else its node, else whoever asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Token(TokenId),
    Node(NodeId),
    Asker(Asker),
}

impl Source {
    pub(super) fn new(origin: &Origin, asker: &Asker) -> Self {
        match (&origin.token, &origin.node) {
            (Some(token), _) => Self::Token(token.clone()),
            (None, Some(node)) => Self::Node(node.clone()),
            (None, None) => Self::Asker(asker.clone()),
        }
    }
}

/// Why nothing of a run begins any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// What runs is to be stopped, too.
    #[n(1)]
    Canceled,
    #[n(2)]
    Budget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    #[n(1)]
    Succeeded,
    #[n(2)]
    Failed,
    #[n(3)]
    Canceled,
    #[n(4)]
    Lost,
    #[n(5)]
    OutOfBudget,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Step {
    #[n(0)]
    pub spec: StepSpec,
    #[n(1)]
    pub state: StepState,
    /// Once it has ended.
    #[n(2)]
    pub usage: Usage,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    #[n(0)]
    Waiting,
    #[n(1)]
    Running(#[n(0)] Claim),
    #[n(2)]
    Ended(#[n(0)] Box<Ended>),
}

/// A node's charge of a step.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Claim {
    #[n(0)]
    pub node: NodeId,
    #[n(1)]
    pub epoch: Epoch,
    #[n(2)]
    pub token: FencingToken,
    /// Of what the sub-agent shows.
    #[n(3)]
    pub secret: SecretHash,
    #[n(4)]
    pub lease: Lease,
    #[n(5)]
    pub claimed: Timestamp,
}

/// How a step ended. Nothing of it changes any more (RU4).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Ended {
    #[n(0)]
    pub outcome: Outcome,
    #[n(1)]
    pub at: Timestamp,
    /// Where it ran, and since when; `None` where it never did.
    #[n(2)]
    pub ran: Option<(NodeId, Timestamp)>,
    #[n(3)]
    pub result: StepResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    #[n(0)]
    Succeeded,
    #[n(1)]
    Failed(#[n(0)] Failure),
    /// Also: never begun.
    #[n(2)]
    Canceled,
    /// Its node was not heard of any more.
    #[n(3)]
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    #[n(1)]
    ModelError,
    #[n(2)]
    RateLimited,
    /// The answer reached its maximal length.
    #[n(3)]
    CutOff,
    #[n(4)]
    Killed,
    #[n(5)]
    TimedOut,
    /// The program refused its arguments.
    #[n(6)]
    BadFlag,
    #[n(7)]
    NotInstalled,
    /// It ended with a code other than 0, for no reason that is known.
    #[n(8)]
    ExitCode,
    #[n(9)]
    NoOutput,
    #[n(10)]
    MalformedStream,
    #[n(11)]
    Budget,
    #[n(12)]
    OutputInvalid,
    /// The node does not run it.
    #[n(13)]
    Refused,
}

/// What a sub-agent asked or told.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Message {
    #[n(0)]
    pub step: u32,
    #[n(1)]
    pub kind: MessageKind,
    #[n(2)]
    pub content: Hash,
    #[n(3)]
    pub at: Timestamp,
    #[n(4)]
    pub state: MessageState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    #[n(1)]
    Question,
    #[n(2)]
    Report,
    /// A report that came with one.
    #[n(3)]
    File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// A question without a reply; a report.
    #[n(0)]
    Open,
    /// With the hash of the reply.
    #[n(1)]
    Replied(#[n(0)] Hash),
    /// The step ended first.
    #[n(2)]
    Over,
}

impl Message {
    pub fn is_open_question(&self) -> bool {
        self.kind == MessageKind::Question && self.state == MessageState::Open
    }
}

impl Step {
    pub fn claim(&self) -> Option<&Claim> {
        match &self.state {
            StepState::Running(claim) => Some(claim),
            StepState::Waiting | StepState::Ended(_) => None,
        }
    }

    pub fn ended(&self) -> Option<&Ended> {
        match &self.state {
            StepState::Ended(ended) => Some(ended),
            StepState::Waiting | StepState::Running(_) => None,
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        self.ended().map(|it| it.outcome)
    }

    pub(super) fn end(&mut self, now: Timestamp, outcome: Outcome, result: StepResult) {
        let ran = self.claim().map(|it| (it.node.clone(), it.claimed));
        assert!(self.ended().is_none(), "RU1: it ended as {:?} before", self.outcome());
        self.state = StepState::Ended(Box::new(Ended { outcome, at: now, ran, result }));
    }
}

impl Run {
    /// The step that asked for it.
    pub fn parent(&self) -> Option<StepId> {
        match self.asker {
            Asker::Step(step) => Some(step),
            Asker::Role(_) | Asker::Person(_) => None,
        }
    }

    pub fn is_open(&self) -> bool {
        self.ended.is_none()
    }

    pub(super) fn source(&self) -> Source {
        Source::new(&self.origin, &self.asker)
    }

    pub fn step(&self, number: u32) -> Option<&Step> {
        self.steps.get((number as usize).checked_sub(1)?)
    }

    pub(super) fn step_mut(&mut self, number: u32) -> &mut Step {
        &mut self.steps[number as usize - 1]
    }

    /// Its steps with their names.
    pub fn numbered(&self) -> impl Iterator<Item = (StepId, &Step)> {
        let named = (1..).zip(&self.steps);
        named.map(|(number, step)| (StepId { run: self.id, number }, step))
    }

    /// Whether a step is to run at this node. What names no node is a label.
    pub(super) fn is_for(
        &self,
        step: &Step,
        node: &NodeId,
        directory: &Directory,
        has_label: impl FnOnce(&NodeLabel) -> bool,
    ) -> bool {
        let Some(on) = &step.spec.on else { return self.origin.node.as_ref() == Some(node) };
        match on.as_str().parse::<NodeId>() {
            Ok(named) if directory.nodes.contains_key(&named) => named == *node,
            Ok(_) | Err(_) => has_label(on),
        }
    }

    /// The question of this number. A report has a number, too, and never a reply.
    pub(super) fn question(&self, number: u32) -> Option<&Message> {
        let message = self.messages.get((number as usize).checked_sub(1)?)?;
        (message.kind == MessageKind::Question).then_some(message)
    }

    /// What one of its steps asked and told, with the numbers.
    pub(super) fn messages_of(&self, step: u32) -> impl Iterator<Item = (u32, &Message)> {
        (1..).zip(&self.messages).filter(move |(_, it)| it.step == step)
    }

    pub(super) fn files_of(&self, step: u32) -> usize {
        self.messages_of(step).filter(|(_, it)| it.kind == MessageKind::File).count()
    }

    /// Steps that a node may claim.
    pub fn ready(&self) -> impl Iterator<Item = StepId> {
        let running = self.steps.iter().filter(|it| it.claim().is_some()).count();
        let is_done = |it: &&Step| it.outcome() == Some(Outcome::Succeeded);
        let done = self.steps.iter().take_while(is_done).count();
        // Which of those that wait, and how many at the same time.
        let (which, most) = match self.mode {
            Mode::Chain => (done..done + 1, 1),
            Mode::Single | Mode::Parallel => (0..self.steps.len(), self.concurrency as usize),
        };
        let may = self.is_open() && self.stopped.is_none() && running < most;
        let steps = self.numbered().skip(which.start).take(which.len());
        steps.filter(move |(_, it)| may && it.state == StepState::Waiting).map(|(id, _)| id)
    }

    /// How it is to end, once it is (RU3).
    pub(super) fn outcome_due(&self) -> Option<RunOutcome> {
        if !self.is_open() || self.steps.iter().any(|it| it.claim().is_some()) {
            return None;
        }
        let has =
            |is_it: fn(Outcome) -> bool| self.steps.iter().filter_map(Step::outcome).any(is_it);
        if self.steps.iter().all(|it| it.outcome() == Some(Outcome::Succeeded)) {
            return Some(RunOutcome::Succeeded);
        }
        let is_over = match self.mode {
            Mode::Chain => has(|it| it != Outcome::Succeeded),
            Mode::Single | Mode::Parallel => self.steps.iter().all(|it| it.ended().is_some()),
        };
        if !is_over && self.stopped.is_none() {
            return None;
        }
        Some(match self.stopped {
            _ if has(|it| it == Outcome::Failed(Failure::Budget)) => RunOutcome::OutOfBudget,
            Some(StopReason::Canceled) => RunOutcome::Canceled,
            Some(StopReason::Budget) => RunOutcome::OutOfBudget,
            None if has(|it| matches!(it, Outcome::Failed(_))) => RunOutcome::Failed,
            None if has(|it| it == Outcome::Lost) => RunOutcome::Lost,
            None => RunOutcome::Canceled,
        })
    }

    /// Ends what waits and will not begin.
    pub(super) fn cancel_waiting(&mut self, now: Timestamp) {
        for step in &mut self.steps {
            if step.state == StepState::Waiting {
                step.end(now, Outcome::Canceled, StepResult::default());
            }
        }
    }
}
