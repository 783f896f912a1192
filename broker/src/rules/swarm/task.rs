//! One task: its claim, its reservation, what was submitted for it and said about it.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{FencingToken, RoleId, Timestamp},
    swarm::{DocName, NextStepId, SubmissionId, TaskMessageId, TaskNumber},
};

use super::{
    Lease, Total,
    command::{Difficulty, MessageKind, Score, Verdict},
    docs::Docs,
    words::named,
};
use crate::hash::Hash;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Task {
    #[n(0)]
    pub number: TaskNumber,
    #[n(1)]
    pub subject: String,
    #[n(2)]
    pub difficulty: Difficulty,
    #[n(3)]
    pub points: u32,
    #[n(4)]
    pub state: TaskState,
    /// What has to be done before it.
    #[n(5)]
    pub blocked_by: Vec<TaskNumber>,
    /// Have to be there when it is submitted.
    #[n(6)]
    pub required_docs: Vec<DocName>,
    /// Of the command that made it.
    #[n(7)]
    pub plan: Hash,
    /// Who made it; `None` where a person did.
    #[n(8)]
    pub by: Option<RoleId>,
    #[n(9)]
    pub created: Timestamp,
    #[n(10)]
    pub updated: Timestamp,
    #[n(11)]
    pub claim: Option<Claim>,
    /// The claim that ended last otherwise than by a review.
    #[n(12)]
    pub former: Option<PreviousClaim>,
    #[n(13)]
    pub reservation: Option<Reservation>,
    /// In order.
    #[n(14)]
    pub submissions: Vec<Submission>,
    /// In order.
    #[n(15)]
    pub messages: Vec<Message>,
    #[n(16)]
    pub docs: Docs,
    /// Derived: what it blocks.
    #[cbor(skip)]
    #[serde(skip)]
    pub(super) blocks: Vec<TaskNumber>,
    /// Derived: how many of those that it is blocked by are neither done nor canceled.
    #[cbor(skip)]
    #[serde(skip)]
    pub(super) undone_blockers: usize,
}

named!(
    /// As it is stored; [`super::TaskStage`] says more.
    TaskState {
        Open 1 "open",
        InProgress 2 "in_progress",
        /// Its worker asked a question, or said what keeps it from going on.
        WaitingForAnswer 3 "waiting_for_answer",
        Done 4 "done",
        Canceled 5 "canceled",
    }
);

impl TaskState {
    /// Neither done nor canceled.
    pub const fn is_undone(self) -> bool {
        matches!(self, Self::Open | Self::InProgress | Self::WaitingForAnswer)
    }
}

/// A worker's charge of a task. It stays with a task that is done: then it says who did it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Claim {
    #[n(0)]
    pub worker: RoleId,
    #[n(1)]
    pub token: FencingToken,
    #[n(2)]
    pub lease: Lease,
    #[n(3)]
    pub claimed: Timestamp,
}

/// Who had charge of a task, and lost it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct PreviousClaim {
    #[n(0)]
    pub worker: RoleId,
    #[n(1)]
    pub token: FencingToken,
    /// By a reset or because it was canceled, not by time.
    #[n(2)]
    pub is_reset: bool,
}

/// The task is kept for the bearer of a next step (I5).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Reservation {
    #[n(0)]
    pub next_step: NextStepId,
    #[n(1)]
    pub worker: RoleId,
    #[n(2)]
    pub token: FencingToken,
    #[n(3)]
    pub lease: Lease,
    /// A review gave the next step to the worker.
    #[n(4)]
    pub is_attached: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Submission {
    #[n(0)]
    pub id: SubmissionId,
    #[n(1)]
    pub worker: RoleId,
    #[n(2)]
    pub content: Hash,
    #[n(3)]
    pub at: Timestamp,
    #[n(4)]
    pub state: SubmissionState,
    /// Of the review.
    #[n(5)]
    pub reviewed: Option<Judged>,
    /// What its worker is to do next.
    #[n(6)]
    pub minted: Option<NextStepOffer>,
    /// Which files it changed; empty once it was not accepted. Their names are with its words.
    #[n(7)]
    pub files: Vec<FileHash>,
    /// Of its item for the lead: its number in the audit.
    #[n(8)]
    pub item: u64,
}

/// A file's name as far as the rules need it: to tell whether it is named again. Whoever makes two
/// names of one hash deceives nobody but an acceptor who would have let the file out as well.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(transparent)]
pub struct FileHash(#[n(0)] pub u64);

impl FileHash {
    pub fn of(name: &str) -> Self {
        let Hash(hash) = Hash::of(name.as_bytes());
        let (first, _) = hash.split_first_chunk().expect("a hash has 16 bytes");
        Self(u64::from_le_bytes(*first))
    }
}

/// What a review said.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Judged {
    #[n(0)]
    pub verdict: Verdict,
    #[n(1)]
    pub score: Score,
    #[n(2)]
    pub content: Hash,
    #[n(3)]
    pub at: Timestamp,
    /// `None` where a person reviewed.
    #[n(4)]
    pub by: Option<RoleId>,
    /// Given to the worker.
    #[n(5)]
    pub next_step: Option<NextStepId>,
    /// What the worker had earned by then, with this. `None` where it earned nothing, and in
    /// verdicts from elsewhere.
    #[n(6)]
    pub total: Option<Total>,
}

named!(
    /// What became of a submission.
    SubmissionState {
        Open 1 "open",
        Approved 2 "approved",
        Rejected 3 "rejected",
        /// A later one of the same claim took its place.
        Superseded 4 "superseded",
        /// Its task was reset or canceled.
        Reset 5 "reset",
    }
);

/// A next step that was chosen for a submission.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct NextStepOffer {
    #[n(0)]
    pub next_step: NextStepId,
    #[n(1)]
    pub score: Score,
    /// `None`: there was nothing left to do.
    #[n(2)]
    pub task: Option<TaskNumber>,
    /// What the worker will have with its approval, by which it was chosen.
    #[n(3)]
    pub total: Total,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Message {
    #[n(0)]
    pub id: TaskMessageId,
    #[n(1)]
    pub sender: RoleId,
    #[n(2)]
    pub kind: MessageKind,
    #[n(3)]
    pub content: Hash,
    #[n(4)]
    pub at: Timestamp,
    #[n(5)]
    pub state: MessageState,
    /// When that was.
    #[n(6)]
    pub replied: Option<Timestamp>,
    /// Who replied; `None` where a person did.
    #[n(7)]
    pub replied_by: Option<RoleId>,
    /// Of the reply.
    #[n(8)]
    pub reply: Option<Hash>,
    /// Of its item for the lead: its number in the audit.
    #[n(9)]
    pub item: u64,
}

named!(
    /// What became of a message.
    MessageState {
        Open 1 "open",
        Replied 2 "replied",
        /// Its claim ended before there was a reply.
        Resolved 3 "resolved",
    }
);

impl Task {
    /// Open, with nothing said of it.
    pub fn blank(number: TaskNumber, subject: String, created: Timestamp) -> Self {
        Self {
            number,
            subject,
            difficulty: Difficulty::Easy,
            points: 0,
            state: TaskState::Open,
            blocked_by: Vec::new(),
            required_docs: Vec::new(),
            plan: Hash::default(),
            by: None,
            created,
            updated: created,
            claim: None,
            former: None,
            reservation: None,
            submissions: Vec::new(),
            messages: Vec::new(),
            docs: Docs::default(),
            blocks: Vec::new(),
            undone_blockers: 0,
        }
    }

    /// The submission that waits for a verdict.
    pub fn open_submission(&self) -> Option<&Submission> {
        self.submissions.last().filter(|it| it.state == SubmissionState::Open)
    }

    /// The submission it was done by.
    pub fn accepted(&self) -> Option<&Submission> {
        let is_done = self.state == TaskState::Done;
        let approved = self.submissions.iter().rev();
        approved.into_iter().find(|it| is_done && it.state == SubmissionState::Approved)
    }

    /// The live claim (I1).
    pub fn live_claim(&self) -> Option<&Claim> {
        let is_live = matches!(self.state, TaskState::InProgress | TaskState::WaitingForAnswer);
        self.claim.as_ref().filter(|_| is_live)
    }

    /// Questions and blockers without a reply.
    pub fn open_questions(&self) -> impl Iterator<Item = &Message> {
        let open = self.messages.iter().filter(|it| it.state == MessageState::Open);
        open.filter(|it| it.kind.is_blocking())
    }

    /// Whether a worker that no next step is for may claim it.
    pub fn is_ready(&self) -> bool {
        self.state == TaskState::Open && self.undone_blockers == 0 && self.reservation.is_none()
    }

    /// Whether it is free to be claimed, but for a reservation, as soon as that other one is done,
    /// which is not.
    pub fn is_free_after(&self, other: TaskNumber) -> bool {
        let waits = usize::from(self.blocked_by.contains(&other));
        self.state == TaskState::Open && self.undone_blockers == waits
    }

    /// Whether a worker was told that it is kept for it, and may claim it.
    pub fn is_given(&self) -> bool {
        self.undone_blockers == 0 && self.reservation.as_ref().is_some_and(|it| it.is_attached)
    }

    pub fn blocks(&self) -> &[TaskNumber] {
        &self.blocks
    }

    pub const fn undone_blockers(&self) -> usize {
        self.undone_blockers
    }
}
