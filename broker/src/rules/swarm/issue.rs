//! One issue: its tasks, what workers earned in it, what its lead has to look at, its deliveries.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{FencingToken, RoleId, Timestamp},
    swarm::{DeliveryId, IssueId, SubmissionId, TaskMessageId, TaskNumber},
};

use super::{
    Lease,
    command::{Difficulty, Override, Verdict},
    docs::Docs,
    order_statistic_set::OrderStatisticSet,
    task::Task,
    words::named,
};
use crate::hash::Hash;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Issue {
    #[n(0)]
    pub id: IssueId,
    #[n(1)]
    pub subject: String,
    #[n(2)]
    pub state: IssueState,
    /// Who opened it; `None` where a person did.
    #[n(3)]
    pub lead: Option<RoleId>,
    /// Of what it was opened with.
    #[n(4)]
    pub content: Hash,
    /// Of its paths of documents.
    #[n(5)]
    pub paths_version: u32,
    #[n(6)]
    pub paths_content: Hash,
    #[n(7)]
    pub created: Timestamp,
    #[n(8)]
    pub updated: Timestamp,
    /// `None` where issues are for ever, and once it is over.
    #[n(9)]
    pub lease: Option<Lease>,
    /// Entries of its audit so far (I7).
    #[n(10)]
    pub audit: u64,
    /// By number, from 1.
    #[cbor(skip)]
    #[serde(skip)]
    pub tasks: Vec<Task>,
    #[n(11)]
    pub docs: Docs,
    #[n(12)]
    pub totals: BTreeMap<RoleId, Total>,
    /// For the lead, by the number of what happened in the audit.
    #[cbor(skip)]
    #[serde(skip)]
    pub items: BTreeMap<u64, Item>,
    /// The newest.
    #[n(13)]
    pub delivery: Option<DeliveryId>,
    /// A delivery was approved since it was opened or reopened.
    #[n(14)]
    pub is_accepted: bool,
    /// Derived: by [`super::TaskState`].
    #[cbor(skip)]
    #[serde(skip)]
    pub(super) by_state: [BTreeSet<TaskNumber>; 5],
    /// Derived: tasks that may be claimed and are not reserved.
    #[cbor(skip)]
    #[serde(skip)]
    pub(super) ready: BTreeSet<TaskNumber>,
    /// Derived: the same as what a next step is chosen from, by [`Difficulty`].
    #[cbor(skip)]
    #[serde(skip)]
    pub(super) choice: [OrderStatisticSet<Choice>; 3],
    /// Derived: tasks that are claimed by a worker, or were when they were done.
    #[cbor(skip)]
    #[serde(skip)]
    pub(super) by_worker: BTreeMap<RoleId, BTreeSet<TaskNumber>>,
    /// Derived: the newest task that was made by each role; by a person under `None`.
    #[cbor(skip)]
    #[serde(skip)]
    pub(super) newest: BTreeMap<Option<RoleId>, TaskNumber>,
    /// Derived: reserved tasks.
    #[cbor(skip)]
    #[serde(skip)]
    pub(super) reserved: BTreeMap<TaskNumber, RoleId>,
    /// Derived: items that were never handed.
    #[cbor(skip)]
    #[serde(skip)]
    pub(super) unhanded: BTreeSet<u64>,
    /// Derived: the others, by when they were handed.
    #[cbor(skip)]
    #[serde(skip)]
    pub(super) handed: BTreeSet<(Timestamp, u64)>,
}

named!(
    /// As it is stored.
    IssueState {
        Open 1 "open",
        Done 2 "done",
        Canceled 3 "canceled",
    }
);

/// What a worker earned in an issue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Total {
    #[n(0)]
    pub points: u32,
    /// Approvals with a low score since the last with a better one.
    #[n(1)]
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
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Item {
    #[n(0)]
    pub kind: ItemKind,
    #[n(1)]
    pub state: ItemState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    #[n(0)]
    Submission(#[n(0)] TaskNumber, #[n(1)] SubmissionId),
    /// A question, a blocker or a note.
    #[n(1)]
    Message(#[n(0)] TaskNumber, #[n(1)] TaskMessageId),
    #[n(2)]
    DeliveryReviewed(#[n(0)] DeliveryId),
    /// A worker's claim lapsed.
    #[n(3)]
    ClaimLapsed(#[n(0)] TaskNumber),
}

impl ItemKind {
    /// The task that it is about.
    pub const fn task(self) -> Option<TaskNumber> {
        match self {
            Self::Submission(task, _) | Self::Message(task, _) | Self::ClaimLapsed(task) => {
                Some(task)
            }
            Self::DeliveryReviewed(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    #[n(0)]
    New,
    /// And still to be dealt with.
    #[n(1)]
    Handed(#[n(0)] Timestamp),
}

/// An issue's finished work before the acceptors.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Delivery {
    #[n(0)]
    pub id: DeliveryId,
    #[n(1)]
    pub issue: IssueId,
    /// Who delivered; `None` where a person did.
    #[n(2)]
    pub role: Option<RoleId>,
    #[n(3)]
    pub content: Hash,
    /// That evidence is of; empty where none is named.
    #[n(4)]
    pub commit: String,
    #[n(5)]
    pub is_passed: bool,
    /// Of the commands that results are aligned with, all together; `None` where there are none.
    #[n(6)]
    pub commands: Option<Hash>,
    #[n(7)]
    pub state: DeliveryState,
    #[n(8)]
    pub at: Timestamp,
    #[n(9)]
    pub updated: Timestamp,
    /// It stays with a delivery that was reviewed.
    #[n(10)]
    pub claim: Option<DeliveryClaim>,
    /// The acceptor whose claim lapsed last.
    #[n(11)]
    pub former: Option<RoleId>,
    /// In order.
    #[n(12)]
    pub evidence: Vec<Attached>,
    #[n(13)]
    pub verdict: Option<DeliveryVerdict>,
}

named!(
    /// As it is stored.
    DeliveryState {
        Open 1 "open",
        InReview 2 "in_review",
        Approved 3 "approved",
        /// Or its issue was closed without it.
        Rejected 4 "rejected",
    }
);

impl DeliveryState {
    /// Whether there is still a verdict to come.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::InReview)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct DeliveryClaim {
    #[n(0)]
    pub role: RoleId,
    #[n(1)]
    pub token: FencingToken,
    #[n(2)]
    pub lease: Lease,
    #[n(3)]
    pub claimed: Timestamp,
}

/// Evidence that was run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Attached {
    #[n(0)]
    pub is_passed: bool,
    #[n(1)]
    pub content: Hash,
    #[n(2)]
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct DeliveryVerdict {
    #[n(0)]
    pub verdict: Verdict,
    #[n(1)]
    pub content: Hash,
    #[n(2)]
    pub by: Option<RoleId>,
    #[n(3)]
    pub at: Timestamp,
    #[n(4)]
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
        let [_, in_progress, waiting_for_answer, ..] = &self.by_state;
        !in_progress.is_empty() || !waiting_for_answer.is_empty() || !self.reserved.is_empty()
    }

    pub(super) fn choice(&self, difficulty: Difficulty) -> &OrderStatisticSet<Choice> {
        &self.choice[difficulty as usize]
    }
}
