//! Issues, their tasks, reviews, deliveries and documents, and locks on files.
//!
//! A lead breaks an issue down into tasks, workers claim and submit them, the lead reviews, an
//! acceptor accepts the issue's delivery. What a command does is in one file per noun (`issues`,
//! `plan`, `claims`, `submissions`, `next_step`, `reviews`, `messages`, `deliveries`, `docs`,
//! `import`, [`lock`]), what time does in `lapse`, what that changes in `apply`. The words are in
//! bodies of their own ([`words`]); here is what decisions and lists need.
//!
//! Everything that time can end hangs on a [`Lease`]. A grant has a fencing token, and what is
//! written under it names that token.
//!
//! - **I1** A task has at most one live claim, and only while it is in progress or
//!   waiting for an answer.
//! - **I2** No two locks of different holders are on the same file.
//! - **I3** Fencing tokens strictly increase: each grant has a higher one than all before.
//! - **I4** A submission adds points once: when it is approved.
//! - **I5** A task is reserved only if it is ready, or is once the submission is approved that it
//!   was chosen for. It is claimed by the bearer of that next step, or it goes back.
//! - **I6** A question, a submission or a delivery that ended says so to whoever waits for it.
//! - **I7** The audit of an issue is numbered from 1 without gaps, and nothing of it is changed.
//! - **I8** No task is blocked by itself, however far around.

mod apply;
mod audit;
mod check;
mod claims;
mod command;
mod compact;
mod content;
mod decide;
mod deliveries;
mod docs;
mod event;
mod facts;
mod import;
mod index;
mod issue;
mod issues;
mod kept;
mod lapse;
pub mod lock;
mod messages;
mod next_step;
mod order_statistic_set;
mod plan;
mod rejection;
mod reviews;
mod submissions;
mod task;
mod waiting;
pub mod words;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{FencingToken, RoleId, Timestamp},
    limits::HEARTBEAT_MS,
    swarm::{
        DeliveryId, IssueId, LockId, NextStepId, Stamp, SubmissionId, TaskMessageId, TaskNumber,
    },
};

use self::lock::Locks;
pub use self::{
    command::{
        Blocker, Command, CommandKind, CreateIssue, CreateTasks, Difficulty, LockFiles,
        MessageKind, MintNextStep, NewTask, Override, PostMessage, ReplyMessage, ReviewDelivery,
        ReviewTask, Score, SubmitTask, Verdict,
    },
    docs::{Doc, Docs},
    event::{
        Claimed, Closed, Delivered, DeliveryReviewed, DocWritten, Event, IssueEvent,
        IssueEventKind, LeaseRenewed, Locked, MessagePosted, NextStep, NextStepMinted, Reply,
        Reserved, Reviewed, Submitted, TaskCreated, Unlocked, WhyUnlocked,
    },
    facts::{IssueCounts, ListFilter, TaskOrder, TaskStage},
    import::{ImportIssue, ImportedIssue},
    issue::{
        Attached, Delivery, DeliveryClaim, DeliveryState, DeliveryVerdict, Issue, IssueState, Item,
        ItemKind, ItemState, Total,
    },
    kept::SnapshotItem,
    rejection::Rejection,
    task::{
        Claim, FileHash, Judged, Message, MessageState, NextStepOffer, PreviousClaim, Reservation,
        Submission, SubmissionState, Task, TaskState,
    },
    waiting::{Answer, EventsAnswer, LocksAnswer, Question, Reach, TasksAnswer},
    words::{DocPlace, Words},
};
pub use crate::rules::lease::Lease;
use crate::{hash::Hash, rules::lease::SIGNS_IN_A_LEASE};

/// How long things last in a workspace, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Settings {
    /// An issue that nobody works on; 0 is for ever.
    #[n(0)]
    pub issue_ttl_ms: u64,
    #[n(1)]
    pub task_claim_ms: u64,
    #[n(2)]
    pub delivery_claim_ms: u64,
    #[n(3)]
    pub reservation_ms: u64,
    #[n(4)]
    pub lock_ms: u64,
    /// Between two signs of life by a node, at most.
    #[n(5)]
    pub heartbeat_ms: u64,
    /// Until an item that was handed to the lead and not dealt with is shown again.
    #[n(6)]
    pub item_again_ms: u64,
    /// Tasks of one issue; 0 is as many as a workspace holds.
    #[n(7)]
    pub max_task_count: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            issue_ttl_ms: 7_200_000,
            task_claim_ms: 3_600_000,
            delivery_claim_ms: 3_600_000,
            reservation_ms: 120_000,
            lock_ms: 120_000,
            heartbeat_ms: 30_000,
            item_again_ms: 300_000,
            max_task_count: 0,
        }
    }
}

impl Settings {
    /// How often a node has to say who is there, so that nothing lapses that is held by presence: a
    /// third of the shortest lease leaves room for one sign that is lost.
    pub fn sign_every_ms(&self) -> u64 {
        let shortest = self.task_claim_ms.min(self.delivery_claim_ms).min(self.lock_ms);
        HEARTBEAT_MS.min(self.heartbeat_ms).min(shortest / SIGNS_IN_A_LEASE)
    }
}

/// What hangs on a lease.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum LeaseTarget {
    #[n(0)]
    Issue(#[n(0)] IssueId),
    #[n(1)]
    Claim(#[n(0)] IssueId, #[n(1)] TaskNumber),
    #[n(2)]
    Reservation(#[n(0)] IssueId, #[n(1)] TaskNumber),
    #[n(3)]
    Delivery(#[n(0)] DeliveryId),
    #[n(4)]
    Lock(#[n(0)] LockId),
}

impl LeaseTarget {
    pub const fn issue(self) -> Option<IssueId> {
        match self {
            Self::Issue(issue) | Self::Claim(issue, _) | Self::Reservation(issue, _) => Some(issue),
            Self::Delivery(_) | Self::Lock(_) => None,
        }
    }
}

/// A role that claims tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Worker {
    #[n(0)]
    pub joined: Timestamp,
}

/// All of this in one workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swarm {
    pub settings: Settings,
    pub workers: BTreeMap<RoleId, Worker>,
    pub shared_docs: Docs,
    issues: BTreeMap<IssueId, Issue>,
    deliveries: BTreeMap<DeliveryId, Delivery>,
    pub locks: Locks,
    /// Of the latest grant.
    token: FencingToken,
    /// Of the id made next.
    next_tail: u32,
    /// Derived: leases that run, by when they lapse.
    deadlines: BTreeSet<(Timestamp, LeaseTarget)>,
    /// Derived: those of them that are graces and end by a sign of their holder.
    graced: BTreeSet<LeaseTarget>,
    /// Derived.
    submissions: BTreeMap<SubmissionId, (IssueId, TaskNumber)>,
    /// Derived.
    messages: BTreeMap<TaskMessageId, (IssueId, TaskNumber)>,
    /// Derived: tasks of all issues.
    tasks: usize,
    /// Derived: by [`IssueState`].
    by_state: [BTreeSet<IssueId>; 3],
    /// Derived: by [`DeliveryState`].
    deliveries_by_state: [BTreeSet<DeliveryId>; 4],
    /// Derived: the newest issue that was opened here by each role in the same words; by a person
    /// under `None`.
    newest: BTreeMap<(Option<RoleId>, Hash), IssueId>,
}

impl Swarm {
    pub fn issues(&self) -> &BTreeMap<IssueId, Issue> {
        &self.issues
    }

    pub fn deliveries(&self) -> &BTreeMap<DeliveryId, Delivery> {
        &self.deliveries
    }

    /// The issue of this id.
    ///
    /// # Errors
    /// [`Rejection::UnknownIssue`].
    pub fn issue(&self, id: IssueId) -> Result<&Issue, Rejection> {
        self.issues.get(&id).ok_or(Rejection::UnknownIssue { issue: id })
    }

    /// The task of this number.
    ///
    /// # Errors
    /// [`Rejection::UnknownIssue`], [`Rejection::UnknownTask`].
    pub fn task(&self, id: IssueId, number: TaskNumber) -> Result<(&Issue, &Task), Rejection> {
        let issue = self.issue(id)?;
        let task = issue.tasks.get(number.index());
        Ok((issue, task.ok_or(Rejection::UnknownTask { issue: id, task: number })?))
    }

    /// The delivery of this id.
    ///
    /// # Errors
    /// [`Rejection::UnknownDelivery`].
    pub fn delivery(&self, id: DeliveryId) -> Result<&Delivery, Rejection> {
        self.deliveries.get(&id).ok_or(Rejection::UnknownDelivery { delivery: id })
    }

    /// The submission of this id, and what it was submitted for.
    ///
    /// # Errors
    /// [`Rejection::UnknownSubmission`].
    pub fn submission(&self, id: SubmissionId) -> Result<(&Issue, &Task, &Submission), Rejection> {
        let unknown = Rejection::UnknownSubmission { submission: id };
        let (issue, number) = self.submissions.get(&id).ok_or(unknown)?;
        let (issue, task) = self.task(*issue, *number)?;
        let found = task.submissions.iter().find(|it| it.id == id);
        Ok((issue, task, found.expect("the index names submissions that are there")))
    }

    /// The message of this id, and what it is about.
    ///
    /// # Errors
    /// [`Rejection::UnknownMessage`].
    pub fn message(&self, id: TaskMessageId) -> Result<(&Issue, &Task, &Message), Rejection> {
        let unknown = Rejection::UnknownMessage { message: id };
        let (issue, number) = self.messages.get(&id).ok_or(unknown)?;
        let (issue, task) = self.task(*issue, *number)?;
        let found = task.messages.iter().find(|it| it.id == id);
        Ok((issue, task, found.expect("the index names messages that are there")))
    }

    /// Whether somebody holds something by being there.
    pub fn is_held(&self) -> bool {
        let open = &self.by_state[IssueState::Open as usize];
        self.locks.iter().next().is_some()
            || !self.deliveries_by_state[DeliveryState::InReview as usize].is_empty()
            || open.iter().any(|id| self.issues[id].is_worked_on())
    }

    /// What hangs on a lease that runs.
    pub fn leases(&self) -> impl Iterator<Item = LeaseTarget> {
        self.deadlines.iter().map(|(_, target)| *target)
    }

    /// When the next lease runs out.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}

/// Makes ids and tokens that no record has named yet, for one decision.
#[derive(Debug)]
struct IdAllocator {
    now: Timestamp,
    tail: u32,
    token: FencingToken,
}

impl IdAllocator {
    fn new(now: Timestamp, swarm: &Swarm) -> Self {
        Self { now, tail: swarm.next_tail, token: swarm.token }
    }

    fn stamp(&mut self) -> Stamp {
        let stamp = Stamp { ms: self.now.as_millis(), tail: self.tail };
        self.tail = self.tail.wrapping_add(1);
        stamp
    }

    fn next_step(&mut self) -> NextStepId {
        NextStepId(self.stamp())
    }

    fn token(&mut self) -> FencingToken {
        self.token = self.token.next();
        self.token
    }
}
