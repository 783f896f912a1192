//! What happened to issues, tasks, locks and deliveries.

use minicbor::{Decode, Encode};
use tasuki_proto::{
    id::{FencingToken, RoleId, Timestamp},
    swarm::{
        DeliveryId, DocName, IssueId, LockId, NextStepId, SubmissionId, TaskMessageId, TaskNumber,
    },
};

use super::{
    FileHash, ImportedIssue, LeaseTarget, Settings,
    command::{Difficulty, MessageKind, Override, Score, Verdict},
    lock::LockKey,
};
use crate::hash::Hash;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Event {
    #[n(0)]
    Issue(#[n(0)] IssueEvent),
    #[n(1)]
    WorkerRegistered(#[n(0)] RoleId),
    #[n(2)]
    SettingsSet(#[n(0)] Settings),
    #[n(3)]
    SharedDocWritten(#[n(0)] DocWritten),
    #[n(4)]
    Locked(#[n(0)] Locked),
    #[n(5)]
    Unlocked(#[n(0)] Unlocked),
    #[n(6)]
    LeaseRenewed(#[n(0)] LeaseRenewed),
    /// These of an issue's items were given to the lead.
    #[n(7)]
    ItemsHanded {
        #[n(0)]
        issue: IssueId,
        #[n(1)]
        items: Vec<u64>,
    },
    /// Issues that were over were removed, with their tasks and deliveries.
    #[n(8)]
    Compacted(#[n(0)] Vec<IssueId>),
    /// Versions of a shared document before this one were removed.
    #[n(9)]
    DocCompacted {
        #[n(0)]
        name: DocName,
        #[n(1)]
        oldest: u32,
    },
}

/// What happened to one issue.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct IssueEvent {
    #[n(0)]
    pub issue: IssueId,
    /// Of its entry in the issue's audit, from 1, no gaps (I7).
    #[n(1)]
    pub audit: u64,
    #[n(2)]
    pub what: IssueEventKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum IssueEventKind {
    #[n(0)]
    Created {
        #[n(0)]
        subject: String,
        #[n(1)]
        content: Hash,
        #[n(2)]
        paths: Hash,
    },
    #[n(1)]
    PathsSet {
        #[n(0)]
        version: u32,
        #[n(1)]
        content: Hash,
    },
    #[n(2)]
    Closed(#[n(0)] Closed),
    #[n(3)]
    Reopened {
        #[n(0)]
        reason: String,
    },
    /// Nobody worked on it for too long.
    #[n(4)]
    Lapsed,
    #[n(5)]
    TaskCreated(#[n(0)] TaskCreated),
    #[n(6)]
    Claimed(#[n(0)] Claimed),
    /// The claim lapsed.
    #[n(7)]
    ClaimLapsed {
        #[n(0)]
        task: TaskNumber,
        #[n(1)]
        worker: RoleId,
    },
    #[n(8)]
    Submitted(#[n(0)] Submitted),
    #[n(9)]
    NextStepMinted(#[n(0)] NextStepMinted),
    /// A reservation lapsed.
    #[n(10)]
    ReservationLapsed {
        #[n(0)]
        task: TaskNumber,
        #[n(1)]
        next_step: NextStepId,
    },
    #[n(11)]
    Reviewed(#[n(0)] Reviewed),
    #[n(12)]
    Reset {
        #[n(0)]
        task: TaskNumber,
        #[n(1)]
        reason: String,
    },
    /// The task is not to be done any more.
    #[n(13)]
    Canceled {
        #[n(0)]
        task: TaskNumber,
        #[n(1)]
        reason: String,
        /// What waits for it no longer.
        #[n(2)]
        unblocked: Vec<TaskNumber>,
    },
    #[n(14)]
    MessagePosted(#[n(0)] MessagePosted),
    #[n(15)]
    Replied {
        #[n(0)]
        task: TaskNumber,
        #[n(1)]
        message: TaskMessageId,
        #[n(2)]
        content: Hash,
    },
    #[n(16)]
    DocWritten {
        #[n(0)]
        task: Option<TaskNumber>,
        #[n(1)]
        doc: DocWritten,
    },
    #[n(17)]
    Delivered(#[n(0)] Delivered),
    #[n(18)]
    DeliveryClaimed {
        #[n(0)]
        delivery: DeliveryId,
        #[n(1)]
        role: RoleId,
        #[n(2)]
        token: FencingToken,
        #[n(3)]
        lapses: Timestamp,
    },
    /// The acceptor's claim lapsed.
    #[n(19)]
    DeliveryLapsed {
        #[n(0)]
        delivery: DeliveryId,
        #[n(1)]
        role: RoleId,
    },
    #[n(20)]
    EvidenceAttached {
        #[n(0)]
        delivery: DeliveryId,
        #[n(1)]
        number: u32,
        #[n(2)]
        is_passed: bool,
        #[n(3)]
        content: Hash,
    },
    #[n(21)]
    DeliveryReviewed(#[n(0)] DeliveryReviewed),
    /// An issue from elsewhere, as it stood there.
    #[n(22)]
    Imported(#[n(0)] Box<ImportedIssue>),
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Closed {
    #[n(0)]
    pub reason: String,
    /// Whether a delivery was approved.
    #[n(1)]
    pub is_accepted: bool,
    /// The delivery that had no verdict yet, and gets none.
    #[n(2)]
    pub unjudged: Option<DeliveryId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TaskCreated {
    #[n(0)]
    pub task: TaskNumber,
    #[n(1)]
    pub subject: String,
    #[n(2)]
    pub difficulty: Difficulty,
    #[n(3)]
    pub points: u32,
    #[n(4)]
    pub blocked_by: Vec<TaskNumber>,
    #[n(5)]
    pub required_docs: Vec<DocName>,
    /// Of the command that made it.
    #[n(6)]
    pub plan: Hash,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Claimed {
    #[n(0)]
    pub task: TaskNumber,
    #[n(1)]
    pub worker: RoleId,
    #[n(2)]
    pub token: FencingToken,
    #[n(3)]
    pub lapses: Timestamp,
    /// The reservation that it used.
    #[n(4)]
    pub next_step: Option<NextStepId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Submitted {
    #[n(0)]
    pub task: TaskNumber,
    #[n(1)]
    pub submission: SubmissionId,
    #[n(2)]
    pub worker: RoleId,
    #[n(3)]
    pub content: Hash,
    #[n(4)]
    pub files: Vec<FileHash>,
    /// The open one that this takes the place of.
    #[n(5)]
    pub supersedes: Option<SubmissionId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NextStepMinted {
    /// The task that was submitted.
    #[n(0)]
    pub task: TaskNumber,
    #[n(1)]
    pub submission: SubmissionId,
    #[n(2)]
    pub worker: RoleId,
    #[n(3)]
    pub score: Score,
    #[n(4)]
    pub next_step: NextStepId,
    /// `None`: there is nothing left to do.
    #[n(5)]
    pub reserved: Option<Reserved>,
}

/// A task that is kept for a worker.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Reserved {
    #[n(0)]
    pub task: TaskNumber,
    #[n(1)]
    pub token: FencingToken,
    #[n(2)]
    pub lapses: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Reviewed {
    #[n(0)]
    pub task: TaskNumber,
    #[n(1)]
    pub submission: SubmissionId,
    #[n(2)]
    pub verdict: Verdict,
    #[n(3)]
    pub score: Score,
    #[n(4)]
    pub content: Hash,
    /// What the worker is to do next; of an approval.
    #[n(5)]
    pub next_step: Option<NextStepId>,
    /// Until when the reserved task is kept, or the worker's claim, if it was rejected.
    #[n(6)]
    pub lapses: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct MessagePosted {
    #[n(0)]
    pub task: TaskNumber,
    #[n(1)]
    pub message: TaskMessageId,
    #[n(2)]
    pub sender: RoleId,
    #[n(3)]
    pub kind: MessageKind,
    #[n(4)]
    pub content: Hash,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DocWritten {
    #[n(0)]
    pub name: DocName,
    #[n(1)]
    pub version: u32,
    #[n(2)]
    pub content: Hash,
    #[n(3)]
    pub bytes: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Delivered {
    #[n(0)]
    pub delivery: DeliveryId,
    #[n(1)]
    pub content: Hash,
    /// The lead's own evidence says so of everything.
    #[n(2)]
    pub is_passed: bool,
    /// Of the commands that results are aligned with, one each.
    #[n(3)]
    pub commands: Vec<Hash>,
    /// Who delivered; `None` where a person did.
    #[n(4)]
    pub role: Option<RoleId>,
    /// That evidence is of; empty where none is named.
    #[n(5)]
    pub commit: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DeliveryReviewed {
    #[n(0)]
    pub delivery: DeliveryId,
    #[n(1)]
    pub verdict: Verdict,
    #[n(2)]
    pub content: Hash,
    #[n(3)]
    pub overridden: Option<Override>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Locked {
    #[n(0)]
    pub lock: LockId,
    #[n(1)]
    pub role: RoleId,
    #[n(2)]
    pub keys: Vec<LockKey>,
    #[n(3)]
    pub task: Option<(IssueId, TaskNumber)>,
    #[n(4)]
    pub token: FencingToken,
    #[n(5)]
    pub lapses: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Unlocked {
    #[n(0)]
    pub lock: LockId,
    #[n(1)]
    pub why: WhyUnlocked,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum WhyUnlocked {
    /// By its holder.
    #[n(0)]
    Unlocked,
    #[n(1)]
    Forced {
        #[n(0)]
        reason: String,
    },
    #[n(2)]
    Lapsed,
    /// The task it was for came to an end.
    #[n(3)]
    TaskEnded,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LeaseRenewed {
    #[n(0)]
    pub held: LeaseTarget,
    #[n(1)]
    pub lapses: Timestamp,
    /// A grace, after the broker was down: no sign of the holder is known since its last.
    #[n(2)]
    pub is_grace: bool,
}

/// What a command about all this answers.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Reply {
    #[n(0)]
    Issue(#[n(0)] IssueId),
    /// So many from this one on.
    #[n(1)]
    Tasks {
        #[n(0)]
        first: TaskNumber,
        #[n(1)]
        count: u32,
    },
    #[n(2)]
    Granted {
        #[n(0)]
        token: FencingToken,
        #[n(1)]
        lapses: Timestamp,
    },
    #[n(3)]
    Submitted(#[n(0)] SubmissionId),
    #[n(4)]
    NextStep(#[n(0)] NextStep),
    #[n(5)]
    Reviewed {
        #[n(0)]
        submission: SubmissionId,
        #[n(1)]
        next_step: Option<NextStepId>,
    },
    #[n(6)]
    Message(#[n(0)] TaskMessageId),
    #[n(7)]
    Delivered(#[n(0)] DeliveryId),
    #[n(8)]
    Evidence {
        #[n(0)]
        number: u32,
    },
    #[n(9)]
    Locked {
        #[n(0)]
        lock: LockId,
        #[n(1)]
        token: FencingToken,
        #[n(2)]
        lapses: Timestamp,
    },
    #[n(10)]
    Doc {
        #[n(0)]
        version: u32,
    },
    /// Until when the issue is kept; `None` for ever.
    #[n(11)]
    Kept {
        #[n(0)]
        lapses: Option<Timestamp>,
    },
}

/// What a worker is to do after a submission.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NextStep {
    #[n(0)]
    pub next_step: NextStepId,
    /// `None`: there is nothing left to do.
    #[n(1)]
    pub task: Option<TaskNumber>,
    /// That the worker's score asks for.
    #[n(2)]
    pub difficulty: Difficulty,
    /// As they will be once the submission is approved.
    #[n(3)]
    pub points: u32,
    #[n(4)]
    pub low_scores: u32,
    /// Of the reservation.
    #[n(5)]
    pub lapses: Option<Timestamp>,
}

impl Event {
    /// The issue it is about.
    pub fn issue(&self) -> Option<IssueId> {
        match self {
            Self::Issue(it) => Some(it.issue),
            Self::ItemsHanded { issue, .. } => Some(*issue),
            Self::LeaseRenewed(it) => it.held.issue(),
            Self::Locked(it) => it.task.map(|(issue, _)| issue),
            Self::WorkerRegistered(_)
            | Self::SettingsSet(_)
            | Self::SharedDocWritten(_)
            | Self::Unlocked(_)
            | Self::Compacted(_)
            | Self::DocCompacted { .. } => None,
        }
    }
}
