//! What happened to issues, tasks, locks and deliveries.

use tasuki_proto::{
    id::{FencingToken, RoleId, Timestamp},
    swarm::{
        DeliveryId, DocName, IssueId, LockId, NextStepId, SubmissionId, TaskMessageId, TaskNumber,
    },
};

use super::{
    Delivery, FileHash, Imported, ImportedAuditEntry, LeaseTarget, Message, Settings, Submission,
    Task, Total,
    command::{Difficulty, MessageKind, Override, Score, Verdict},
    lock::LockKey,
};
use crate::hash::Hash;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Issue(IssueEvent),
    WorkerRegistered(RoleId),
    SettingsSet(Settings),
    SharedDocWritten(DocWritten),
    Locked(Locked),
    Unlocked(Unlocked),
    LeaseRenewed(LeaseRenewed),
    /// These of an issue's items were given to the lead.
    ItemsHanded {
        issue: IssueId,
        items: Vec<u64>,
    },
}

/// What happened to one issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueEvent {
    pub issue: IssueId,
    /// Of its entry in the issue's audit, from 1, no gaps (I7).
    pub audit: u64,
    pub what: IssueEventKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssueEventKind {
    Created {
        subject: String,
        content: Hash,
        paths: Hash,
    },
    PathsSet {
        version: u32,
        content: Hash,
    },
    Closed(Closed),
    Reopened {
        reason: String,
    },
    /// Nobody worked on it for too long.
    Lapsed,
    TaskCreated(TaskCreated),
    Claimed(Claimed),
    /// The claim lapsed.
    ClaimLapsed {
        task: TaskNumber,
        worker: RoleId,
    },
    Submitted(Submitted),
    NextStepMinted(NextStepMinted),
    /// A reservation lapsed.
    ReservationLapsed {
        task: TaskNumber,
        next_step: NextStepId,
    },
    Reviewed(Reviewed),
    Reset {
        task: TaskNumber,
        reason: String,
    },
    /// The task is not to be done any more.
    Canceled {
        task: TaskNumber,
        reason: String,
        /// What waits for it no longer.
        unblocked: Vec<TaskNumber>,
    },
    MessagePosted(MessagePosted),
    Replied {
        task: TaskNumber,
        message: TaskMessageId,
        content: Hash,
    },
    DocWritten {
        task: Option<TaskNumber>,
        doc: DocWritten,
    },
    Delivered(Delivered),
    DeliveryClaimed {
        delivery: DeliveryId,
        role: RoleId,
        token: FencingToken,
        lapses: Timestamp,
    },
    /// The acceptor's claim lapsed.
    DeliveryLapsed {
        delivery: DeliveryId,
        role: RoleId,
    },
    EvidenceAttached {
        delivery: DeliveryId,
        number: u32,
        is_passed: bool,
        content: Hash,
    },
    DeliveryReviewed(DeliveryReviewed),
    /// A part of an issue from elsewhere; what is in it follows.
    Imported(Box<Imported>),
    TaskImported(Box<Task>),
    SubmissionImported {
        task: TaskNumber,
        submission: Box<Submission>,
    },
    MessageImported {
        task: TaskNumber,
        message: Box<Message>,
    },
    DeliveryImported(Box<Delivery>),
    PointsImported {
        worker: RoleId,
        total: Total,
    },
    /// What happened elsewhere.
    ImportedAuditEntry(Box<ImportedAuditEntry>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    pub reason: String,
    /// Whether a delivery was approved.
    pub is_accepted: bool,
    /// The delivery that had no verdict yet, and gets none.
    pub unjudged: Option<DeliveryId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCreated {
    pub task: TaskNumber,
    pub subject: String,
    pub difficulty: Difficulty,
    pub points: u32,
    pub blocked_by: Vec<TaskNumber>,
    pub required_docs: Vec<DocName>,
    /// Of the command that made it.
    pub plan: Hash,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub task: TaskNumber,
    pub worker: RoleId,
    pub token: FencingToken,
    pub lapses: Timestamp,
    /// The reservation that it used.
    pub next_step: Option<NextStepId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    pub task: TaskNumber,
    pub submission: SubmissionId,
    pub worker: RoleId,
    pub content: Hash,
    pub files: Vec<FileHash>,
    /// The open one that this takes the place of.
    pub supersedes: Option<SubmissionId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextStepMinted {
    /// The task that was submitted.
    pub task: TaskNumber,
    pub submission: SubmissionId,
    pub worker: RoleId,
    pub score: Score,
    pub next_step: NextStepId,
    /// `None`: there is nothing left to do.
    pub reserved: Option<Reserved>,
}

/// A task that is kept for a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    pub task: TaskNumber,
    pub token: FencingToken,
    pub lapses: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reviewed {
    pub task: TaskNumber,
    pub submission: SubmissionId,
    pub verdict: Verdict,
    pub score: Score,
    pub content: Hash,
    /// What the worker is to do next; of an approval.
    pub next_step: Option<NextStepId>,
    /// Until when the reserved task is kept, or the worker's claim, if it was rejected.
    pub lapses: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessagePosted {
    pub task: TaskNumber,
    pub message: TaskMessageId,
    pub sender: RoleId,
    pub kind: MessageKind,
    pub content: Hash,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocWritten {
    pub name: DocName,
    pub version: u32,
    pub content: Hash,
    pub bytes: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    pub delivery: DeliveryId,
    pub content: Hash,
    /// The lead's own evidence says so of everything.
    pub is_passed: bool,
    /// Of the commands that results are aligned with, one each.
    pub commands: Vec<Hash>,
    /// Who delivered; `None` where a person did.
    pub role: Option<RoleId>,
    /// That evidence is of; empty where none is named.
    pub commit: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryReviewed {
    pub delivery: DeliveryId,
    pub verdict: Verdict,
    pub content: Hash,
    pub overridden: Option<Override>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    pub lock: LockId,
    pub role: RoleId,
    pub keys: Vec<LockKey>,
    pub task: Option<(IssueId, TaskNumber)>,
    pub token: FencingToken,
    pub lapses: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlocked {
    pub lock: LockId,
    pub why: WhyUnlocked,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyUnlocked {
    /// By its holder.
    Unlocked,
    Forced {
        reason: String,
    },
    Lapsed,
    /// The task it was for came to an end.
    TaskEnded,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRenewed {
    pub held: LeaseTarget,
    pub lapses: Timestamp,
    /// A grace, after the broker was down: no sign of the holder is known since its last.
    pub is_grace: bool,
}

/// What a command about all this answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Issue(IssueId),
    /// So many from this one on.
    Tasks {
        first: TaskNumber,
        count: u32,
    },
    Granted {
        token: FencingToken,
        lapses: Timestamp,
    },
    Submitted(SubmissionId),
    NextStep(NextStep),
    Reviewed {
        submission: SubmissionId,
        next_step: Option<NextStepId>,
    },
    Message(TaskMessageId),
    Delivered(DeliveryId),
    Evidence {
        number: u32,
    },
    Locked {
        lock: LockId,
        token: FencingToken,
        lapses: Timestamp,
    },
    Doc {
        version: u32,
    },
    /// Until when the issue is kept; `None` for ever.
    Kept {
        lapses: Option<Timestamp>,
    },
}

/// What a worker is to do after a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextStep {
    pub next_step: NextStepId,
    /// `None`: there is nothing left to do.
    pub task: Option<TaskNumber>,
    /// That the worker's score asks for.
    pub difficulty: Difficulty,
    /// As they will be once the submission is approved.
    pub points: u32,
    pub low_scores: u32,
    /// Of the reservation.
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
            | Self::Unlocked(_) => None,
        }
    }
}
