//! One issue: its tasks, what workers earned in it, what its lead has to look at, its deliveries.

use std::collections::{BTreeMap, BTreeSet};

use tasuki_proto::{
    id::{FencingToken, RoleId, Timestamp},
    swarm::{DeliveryId, IssueId, SubmissionId, TaskMessageId, TaskNumber},
};

use super::{
    Import, Lease,
    command::{Difficulty, Override, Verdict},
    docs::Docs,
    order_statistic_set::OrderStatisticSet,
    task::Task,
    words::named,
};
use crate::hash::Hash;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    pub id: IssueId,
    pub subject: String,
    pub state: IssueState,
    /// Who opened it; `None` where a person did.
    pub lead: Option<RoleId>,
    /// Of what it was opened with.
    pub content: Hash,
    /// Of its paths of documents.
    pub paths_version: u32,
    pub paths_content: Hash,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// `None` where issues are for ever, and once it is over.
    pub lease: Option<Lease>,
    /// Entries of its audit so far (I7).
    pub audit: u64,
    /// By number, from 1.
    pub tasks: Vec<Task>,
    pub docs: Docs,
    pub totals: BTreeMap<RoleId, Total>,
    /// For the lead, by the number of what happened in the audit.
    pub items: BTreeMap<u64, Item>,
    /// The newest.
    pub delivery: Option<DeliveryId>,
    /// A delivery was approved since it was opened or reopened.
    pub is_accepted: bool,
    /// It came from elsewhere.
    pub import: Option<Import>,
    /// Derived: by [`super::TaskState`].
    pub(super) by_state: [BTreeSet<TaskNumber>; 5],
    /// Derived: tasks that may be claimed and are not reserved.
    pub(super) ready: BTreeSet<TaskNumber>,
    /// Derived: the same as what a next step is chosen from, by [`Difficulty`].
    pub(super) choice: [OrderStatisticSet<Choice>; 3],
    /// Derived: tasks that are claimed by a worker, or were when they were done.
    pub(super) by_worker: BTreeMap<RoleId, BTreeSet<TaskNumber>>,
    /// Derived: the newest task that was made by each role; by a person under `None`.
    pub(super) newest: BTreeMap<Option<RoleId>, TaskNumber>,
    /// Derived: reserved tasks.
    pub(super) reserved: BTreeMap<TaskNumber, RoleId>,
    /// Derived: items that were never handed.
    pub(super) unhanded: BTreeSet<u64>,
    /// Derived: the others, by when they were handed.
    pub(super) handed: BTreeSet<(Timestamp, u64)>,
}

named!(
    /// As it is stored.
    IssueState {
        Open "open",
        Done "done",
        Canceled "canceled",
    }
);

/// What a worker earned in an issue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    pub points: u32,
    /// Approvals with a low score since the last with a better one.
    pub low_scores: u32,
}

/// A task's place among those that a next step is chosen from: more points first, then by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Choice {
    pub points: std::cmp::Reverse<u32>,
    pub name: u64,
    pub task: TaskNumber,
}

/// Something for the lead to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub kind: ItemKind,
    pub state: ItemState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    Submission(TaskNumber, SubmissionId),
    /// A question, a blocker or a note.
    Message(TaskNumber, TaskMessageId),
    DeliveryReviewed(DeliveryId),
    /// A worker's claim lapsed.
    ClaimLapsed(TaskNumber),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemState {
    New,
    /// And still to be dealt with.
    Handed(Timestamp),
}

/// An issue's finished work before the acceptors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub issue: IssueId,
    /// Who delivered; `None` where a person did.
    pub role: Option<RoleId>,
    pub content: Hash,
    /// That evidence is of; empty where none is named.
    pub commit: String,
    pub is_passed: bool,
    /// Of the commands that results are aligned with, all together; `None` where there are none.
    pub commands: Option<Hash>,
    pub state: DeliveryState,
    pub at: Timestamp,
    pub updated: Timestamp,
    /// It stays with a delivery that was reviewed.
    pub claim: Option<DeliveryClaim>,
    /// The acceptor whose claim lapsed last.
    pub former: Option<RoleId>,
    /// In order.
    pub evidence: Vec<Attached>,
    pub verdict: Option<DeliveryVerdict>,
}

named!(
    /// As it is stored.
    DeliveryState {
        Open "open",
        InReview "in_review",
        Approved "approved",
        /// Or its issue was closed without it.
        Rejected "rejected",
    }
);

impl DeliveryState {
    /// Whether there is still a verdict to come.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::InReview)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryClaim {
    pub role: RoleId,
    pub token: FencingToken,
    pub lease: Lease,
    pub claimed: Timestamp,
}

/// Evidence that was run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attached {
    pub is_passed: bool,
    pub content: Hash,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryVerdict {
    pub verdict: Verdict,
    pub content: Hash,
    pub by: Option<RoleId>,
    pub at: Timestamp,
    pub overridden: Option<Override>,
}

impl Issue {
    /// As it was opened, with no task.
    pub fn opened(id: IssueId, subject: String, lead: Option<RoleId>, now: Timestamp) -> Self {
        Self {
            id,
            subject,
            state: IssueState::Open,
            lead,
            content: Hash::default(),
            paths_version: 1,
            paths_content: Hash::default(),
            created: now,
            updated: now,
            lease: None,
            audit: 0,
            tasks: Vec::new(),
            docs: Docs::default(),
            totals: BTreeMap::new(),
            items: BTreeMap::new(),
            delivery: None,
            is_accepted: false,
            import: None,
            by_state: Default::default(),
            ready: BTreeSet::new(),
            choice: Default::default(),
            by_worker: BTreeMap::new(),
            newest: BTreeMap::new(),
            reserved: BTreeMap::new(),
            unhanded: BTreeSet::new(),
            handed: BTreeSet::new(),
        }
    }

    /// Tasks that may be claimed by whoever no next step keeps them from, in order.
    pub fn ready(&self) -> impl Iterator<Item = TaskNumber> {
        self.ready.iter().copied()
    }

    pub fn total(&self, worker: &RoleId) -> Total {
        self.totals.get(worker).copied().unwrap_or_default()
    }

    /// Whether somebody has something of it in hand, so that time does not end it. Its delivery
    /// may too.
    pub(super) fn is_worked_on(&self) -> bool {
        let [_, in_progress, blocked, ..] = &self.by_state;
        !in_progress.is_empty() || !blocked.is_empty() || !self.reserved.is_empty()
    }

    pub(super) fn choice(&self, difficulty: Difficulty) -> &OrderStatisticSet<Choice> {
        &self.choice[difficulty as usize]
    }
}
