//! What can be asked about issues, tasks, locks and deliveries.

use minicbor::{Decode, Decoder, Encode, decode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{FencingToken, PersonId, RoleId},
    swarm::{
        DeliveryId, DocName, IssueId, LockId, NextStepId, SubmissionId, TaskMessageId, TaskNumber,
    },
    token::Right,
};

use super::{
    DocPlace, ImportIssue, Settings,
    lock::LockKey,
    words::{
        Artifacts, DeliveryWords, DocPaths, EvidenceWords, MessageWords, ReviewWords, TaskWords,
        VerdictWords, named,
    },
};
use crate::rules::{Acting, Needs, Rejection, privacy::Privacy, turn::Actor};

/// Who asks what. Workers and acceptors are roles; what a lead does, a person may do too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub by: Actor,
    pub ask: CommandKind,
}

impl Acting for Command {
    fn role(&self) -> Option<&RoleId> {
        self.by.role()
    }

    fn person(&self) -> Option<&PersonId> {
        self.by.person()
    }

    fn needs(&self) -> Needs<'_> {
        let ask = &self.ask;
        // A person answers for it beside the role that asks.
        let overrides = matches!(ask, CommandKind::ReviewDelivery(it) if it.overridden.is_some());
        // It is of no single task.
        let is_for_all = matches!(
            ask,
            CommandKind::WriteDoc { place: DocPlace::Shared | DocPlace::Issue(_), .. }
        );
        let right = overrides.then_some(Right::Steer).or_else(|| is_for_all.then_some(Right::Send));
        Needs { right, ..Needs::default() }
    }

    fn check_words(&self, _: &Privacy) -> Result<(), Rejection> {
        Ok(())
    }

    fn is_for_paused(&self) -> bool {
        match &self.ask {
            CommandKind::CreateIssue(_)
            | CommandKind::SetDocPaths { .. }
            | CommandKind::ReopenIssue { .. }
            | CommandKind::ExtendIssue { .. }
            | CommandKind::CreateTasks(_)
            | CommandKind::ClaimTask { .. }
            | CommandKind::RenewClaim { .. }
            | CommandKind::MintNextStep(_)
            | CommandKind::PostMessage(_)
            | CommandKind::ClaimDelivery { .. }
            | CommandKind::RenewDelivery { .. }
            | CommandKind::RegisterWorker
            | CommandKind::WriteDoc { .. }
            | CommandKind::LockFiles(_)
            | CommandKind::RenewLock { .. }
            | CommandKind::SetSettings(_)
            | CommandKind::ImportIssue(_)
            | CommandKind::ImportShared { .. } => false,
            CommandKind::CloseIssue { .. }
            | CommandKind::SubmitTask(_)
            | CommandKind::ReviewTask(_)
            | CommandKind::ResetTask { .. }
            | CommandKind::CancelTask { .. }
            | CommandKind::ReplyMessage(_)
            | CommandKind::MarkItems { .. }
            | CommandKind::SubmitDelivery { .. }
            | CommandKind::AttachEvidence { .. }
            | CommandKind::ReviewDelivery(_)
            | CommandKind::Unlock { .. }
            | CommandKind::ForceUnlock { .. } => true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandKind {
    CreateIssue(CreateIssue),
    SetDocPaths {
        issue: IssueId,
        paths: DocPaths,
        /// Refused where they were set anew since this version.
        replaces: Option<u32>,
    },
    /// `reason` stands for an approved delivery; empty where there is one.
    CloseIssue {
        issue: IssueId,
        reason: String,
    },
    ReopenIssue {
        issue: IssueId,
        reason: String,
    },
    ExtendIssue {
        issue: IssueId,
        extend_ms: Option<u64>,
    },
    CreateTasks(CreateTasks),
    ClaimTask {
        issue: IssueId,
        task: TaskNumber,
        next_step: Option<NextStepId>,
    },
    /// A token of 0 is the one the role has at present, here and below.
    RenewClaim {
        issue: IssueId,
        task: TaskNumber,
        token: FencingToken,
        extend_ms: Option<u64>,
    },
    SubmitTask(SubmitTask),
    MintNextStep(MintNextStep),
    ReviewTask(ReviewTask),
    ResetTask {
        issue: IssueId,
        task: TaskNumber,
        reason: String,
    },
    /// It is not to be done any more.
    CancelTask {
        issue: IssueId,
        task: TaskNumber,
        reason: String,
    },
    PostMessage(PostMessage),
    ReplyMessage(ReplyMessage),
    /// These of an issue's items were handed to the lead.
    MarkItems {
        issue: IssueId,
        items: Vec<u64>,
    },
    SubmitDelivery {
        issue: IssueId,
        words: Box<DeliveryWords>,
    },
    ClaimDelivery {
        delivery: DeliveryId,
        extend_ms: Option<u64>,
    },
    RenewDelivery {
        delivery: DeliveryId,
        token: FencingToken,
        extend_ms: Option<u64>,
    },
    AttachEvidence {
        delivery: DeliveryId,
        token: FencingToken,
        words: EvidenceWords,
    },
    ReviewDelivery(ReviewDelivery),
    /// Makes the role a worker.
    RegisterWorker,
    WriteDoc {
        place: DocPlace,
        name: DocName,
        content: String,
        /// Only as the claimant of the task whose document it is.
        as_claimant: bool,
    },
    LockFiles(LockFiles),
    RenewLock {
        lock: LockId,
        token: FencingToken,
        extend_ms: Option<u64>,
    },
    Unlock {
        lock: LockId,
        token: FencingToken,
    },
    ForceUnlock {
        lock: LockId,
        reason: String,
    },
    SetSettings(Settings),
    /// Of a person; here and below.
    ImportIssue(Box<ImportIssue>),
    ImportShared {
        docs: Vec<(DocPlace, DocName, String)>,
        workers: Vec<RoleId>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateIssue {
    pub subject: String,
    pub description: String,
    pub paths: DocPaths,
    /// Each name once.
    pub docs: Vec<(DocName, String)>,
}

/// Several tasks, all or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTasks {
    pub issue: IssueId,
    /// At least one.
    pub tasks: Vec<NewTask>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    pub subject: String,
    pub difficulty: Difficulty,
    pub points: u32,
    pub blocked_by: Vec<Blocker>,
    pub words: TaskWords,
}

/// What has to be done first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocker {
    Task(TaskNumber),
    /// Another of the same call, by its place, from 0.
    New(usize),
}

named!(
    /// How hard a task is.
    Difficulty {
        Easy 1 "easy",
        Medium 2 "medium",
        Focus 3 "focus",
    }
);

named!(
    /// What a reviewer says.
    Verdict {
        Approved 1 "approved",
        Rejected 2 "rejected",
    }
);

/// How well a task was done: 1, 2 or 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Serialize, Deserialize)]
#[cbor(transparent)]
#[serde(try_from = "u32")]
pub struct Score(#[n(0)] u8);

impl<'b, C> Decode<'b, C> for Score {
    fn decode(from: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        Self::new(from.u32()?).ok_or_else(|| decode::Error::message("no such score"))
    }
}

impl TryFrom<u32> for Score {
    type Error = &'static str;

    fn try_from(score: u32) -> Result<Self, &'static str> {
        Self::new(score).ok_or("no such score")
    }
}

impl Score {
    /// `None`: there is no such score.
    pub const fn new(score: u32) -> Option<Self> {
        match score {
            1 => Some(Self(1)),
            2 => Some(Self(2)),
            5 => Some(Self(5)),
            _ => None,
        }
    }

    pub const fn get(self) -> u8 {
        self.0
    }

    pub const fn is_low(self) -> bool {
        self.0 < 2
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitTask {
    pub issue: IssueId,
    pub task: TaskNumber,
    pub token: FencingToken,
    pub words: Artifacts,
    /// The changed files that have a name for locks.
    pub files: Vec<LockKey>,
}

/// Choose what the worker of the open submission does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MintNextStep {
    pub issue: IssueId,
    /// Of the open submission.
    pub task: TaskNumber,
    pub worker: RoleId,
    pub score: Score,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewTask {
    pub issue: IssueId,
    pub task: TaskNumber,
    /// `None` is the only open one.
    pub submission: Option<SubmissionId>,
    pub verdict: Verdict,
    pub score: Score,
    /// An approval takes one.
    pub next_step: Option<NextStepId>,
    pub words: ReviewWords,
}

named!(
    /// What a worker tells the lead.
    MessageKind {
        Question 1 "question",
        Blocker 2 "blocker",
        Progress 3 "progress",
        Feedback 4 "feedback",
        Message 5 "message",
    }
);

impl MessageKind {
    /// Whether the task stands still until there is a reply.
    pub const fn is_blocking(self) -> bool {
        matches!(self, Self::Question | Self::Blocker)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostMessage {
    pub issue: IssueId,
    pub task: TaskNumber,
    pub token: FencingToken,
    pub kind: MessageKind,
    pub words: MessageWords,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyMessage {
    pub issue: IssueId,
    pub task: TaskNumber,
    /// `None` is the only open question or blocker.
    pub message: Option<TaskMessageId>,
    pub words: MessageWords,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewDelivery {
    pub delivery: DeliveryId,
    pub token: FencingToken,
    pub verdict: Verdict,
    pub words: VerdictWords,
    pub overridden: Option<Override>,
}

/// A person answers for an approval although evidence failed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Override {
    #[n(0)]
    pub person: PersonId,
    #[n(1)]
    pub reason: String,
}

/// Lock files, all or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockFiles {
    /// At least one.
    pub keys: Vec<LockKey>,
    /// What they are for, which the role has claimed, and the token of that claim; its end unlocks
    /// them.
    pub task: Option<(IssueId, TaskNumber)>,
    pub claim: FencingToken,
    pub ttl_ms: Option<u64>,
}
