//! Why a command about issues, tasks, locks or deliveries is refused.
//!
//! A refusal says what happened, what holds, and what can be done about it. Tools and commands are
//! not named here: what the same is called differs by who is told, so nodes add that.

use tasuki_proto::{
    id::{FencingToken, RoleId},
    limits::{
        DELIVERIES_MAX, DOC_VERSIONS_MAX, DOCS_MAX, EVIDENCE_MAX, ISSUES_MAX, LOCK_PATTERNS_MAX,
        LOCK_STEPS_MAX, LOCKS_MAX, SUBMISSIONS_MAX, TASK_MESSAGES_MAX, TASKS_MAX, WORKERS_MAX,
    },
    reason::Reason,
    swarm::{DeliveryId, DocName, IssueId, LockId, SubmissionId, TaskMessageId, TaskNumber},
};

use super::FileHash;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("{0}")]
    Invalid(String),
    #[error("there is no issue {issue} in this workspace")]
    UnknownIssue { issue: IssueId },
    #[error(
        "issue {issue} is here already; nothing was taken. What is worked on here is not mixed \
         with what was elsewhere"
    )]
    IssueExists { issue: IssueId },
    #[error("task '{task}' not found in issue '{issue}'")]
    UnknownTask { issue: IssueId, task: TaskNumber },
    #[error("unknown worker_id {worker}: it is not registered")]
    UnknownWorker { worker: RoleId },
    #[error("there is no submission {submission} here")]
    UnknownSubmission { submission: SubmissionId },
    #[error("there is no message {message} here, or it belongs to another task")]
    UnknownMessage { message: TaskMessageId },
    #[error("no open message found for task '{task}': no question waits for a reply")]
    NoOpenMessage { task: TaskNumber },
    #[error("several questions of task '{task}' wait for a reply: {open}; say which message_id")]
    AmbiguousMessage { task: TaskNumber, open: String },
    #[error("there is no delivery {delivery} in this workspace")]
    UnknownDelivery { delivery: DeliveryId },
    #[error("there is no document {name}; known: {known}")]
    UnknownDoc { name: String, known: String },
    #[error("issue {issue} is {state}; nothing changed")]
    IssueClosed { issue: IssueId, state: &'static str },
    #[error("cannot {what} issue: tasks not done: {tasks}; {next}")]
    TasksNotDone { what: &'static str, tasks: String, next: &'static str },
    #[error(
        "no delivery of issue {issue} was approved since it was opened; deliver it, or close it \
         with a summary that says why it ends without one"
    )]
    NotAccepted { issue: IssueId },
    #[error("the documents that issue {issue} names were set anew meanwhile; call again")]
    PathsSetMeanwhile { issue: IssueId },
    #[error("tasks would block each other in a circle: {circle}; nothing was made")]
    BlockedInACircle { circle: String },
    #[error("missing required {place} doc: {name}; write it first, then call again")]
    MissingDoc { place: &'static str, name: DocName },
    #[error(
        "missing the document of test steps: issue {issue} has no document {name}, nor have its \
         tasks, and artifacts.changed_files does not list {path}. Write it as a document of the \
         issue, or list the file if the delivered commit has it. Nothing was delivered"
    )]
    MissingSteps { issue: IssueId, name: DocName, path: String },
    #[error("task '{task}' is not open (status: {state}){holder}; take another one")]
    TaskAlreadyClaimed { task: TaskNumber, state: &'static str, holder: String },
    #[error(
        "task '{task}' is done; reset it first, and what is open then can be canceled. Nothing \
         changed"
    )]
    TaskDone { task: TaskNumber },
    #[error("task '{task}' is canceled, and stays so; plan another in its place. Nothing changed")]
    TaskCanceled { task: TaskNumber },
    #[error(
        "task '{task}' is reserved for another worker, for {left} more; take another one",
        left = seconds(*left_ms)
    )]
    TaskReserved { task: TaskNumber, left_ms: u64 },
    #[error("task '{task}' is blocked by {blockers}; take another one")]
    TaskBlocked { task: TaskNumber, blockers: String },
    #[error("invalid next_step_token: {why}")]
    InvalidNextStepToken { why: String },
    #[error("next_step_token is required to approve; nothing changed")]
    NextStepRequired,
    #[error("task '{task}' is not claimed by {role}{holder}; nothing changed")]
    NotClaimant { task: TaskNumber, role: RoleId, holder: String },
    #[error("delivery '{delivery}' is not claimed by {role}{holder}; nothing changed")]
    NotAcceptor { delivery: DeliveryId, role: RoleId, holder: String },
    #[error("{lost}; nothing was written")]
    LockLost { lost: String },
    #[error("{lost}; there is nothing to unlock")]
    LockEnded { lost: String },
    #[error("{lost}; nothing was written. {next}")]
    LeaseLost { lost: String, next: &'static str },
    #[error(
        "token {presented} of {what} is not the latest, which is {current}; nothing was written"
    )]
    StaleToken { what: String, presented: FencingToken, current: FencingToken },
    #[error("lease '{lock}' is not owned by {role}: it is {holder}'s; nothing changed")]
    NotHolder { lock: LockId, role: RoleId, holder: RoleId },
    #[error("lease '{lock}' not found")]
    LeaseNotFound { lock: LockId },
    #[error(
        "file '{file}' locked by '{holder}' (task: {task}, for {left} more); nothing was {not_done}",
        left = seconds(*left_ms)
    )]
    FileIsLocked {
        file: String,
        holder: RoleId,
        task: String,
        left_ms: u64,
        /// What was asked for, in one word.
        not_done: &'static str,
    },
    #[error("no open submission for task '{task}': nothing waits for a verdict")]
    NoOpenSubmission { task: TaskNumber },
    #[error(
        "the submission of task '{task}' that waits for a verdict is by {worker}, not by {named}; \
         nothing changed"
    )]
    SubmissionOfAnother { task: TaskNumber, worker: RoleId, named: RoleId },
    #[error("submission '{submission}' is already {state}; the verdict stands")]
    AlreadyReviewed { submission: SubmissionId, state: &'static str },
    #[error("delivery '{delivery}' is already {state}; the verdict stands")]
    DeliveryReviewed { delivery: DeliveryId, state: &'static str },
    #[error(
        "delivery '{delivery}' has no verdict and gets none: its issue was closed before; nothing \
         changed"
    )]
    DeliveryEnded { delivery: DeliveryId },
    #[error("message '{message}' already has a reply (status: {state})")]
    AlreadyReplied { message: TaskMessageId, state: &'static str },
    #[error("{role} did this work and cannot judge it; another role has to")]
    OwnWork { role: RoleId },
    #[error(
        "issue {issue} has no task that is done, so there is nothing to deliver: plan what is to be \
         done, or close it with a summary that says why it ends without a delivery"
    )]
    NothingToDeliver { issue: IssueId },
    #[error("delivery {delivery} of this issue waits for its verdict; nothing was delivered")]
    AlreadyDelivered { delivery: DeliveryId },
    #[error(
        "artifacts.changed_files is insufficient; please review and include all changed files: \
         {names}"
    )]
    FilesMissing {
        issue: IssueId,
        /// Submissions of which files are not named.
        missing: Vec<(SubmissionId, Vec<FileHash>)>,
        /// Whose files those are; how they are called, once that was looked up beside the records.
        names: String,
    },
    #[error("delivery '{delivery}' is not open (status: in_review): {holder} reviews it")]
    DeliveryAlreadyClaimed { delivery: DeliveryId, holder: RoleId },
    #[error(
        "{what}, so delivery '{delivery}' cannot be approved; reject it, or have a person override \
         that by name and reason"
    )]
    EvidenceFailed { delivery: DeliveryId, what: String },
    #[error(
        "what was done for {tasks} changed since delivery '{delivery}' was made, so it cannot be \
         approved, whoever overrides; reject it, and the issue can be delivered anew. Nothing changed"
    )]
    DeliveryOutdated { delivery: DeliveryId, tasks: String },
    #[error("max_task_count exceeded: {max}; nothing was made. Whoever may steer can allow more")]
    MaxTaskCount { max: u32 },
    #[error("this workspace has {ISSUES_MAX} issues, which is the limit")]
    TooManyIssues,
    #[error("this workspace has {TASKS_MAX} tasks, which is the limit; nothing was made")]
    TooManyTasks,
    #[error("this task has {SUBMISSIONS_MAX} submissions, which is the limit")]
    TooManySubmissions,
    #[error("this task has {TASK_MESSAGES_MAX} messages, which is the limit")]
    TooManyMessages,
    #[error("this workspace has {DELIVERIES_MAX} deliveries, which is the limit")]
    TooManyDeliveries,
    #[error("this delivery has {EVIDENCE_MAX} pieces of evidence, which is the limit")]
    TooMuchEvidence,
    #[error("this workspace has {WORKERS_MAX} workers, which is the limit")]
    TooManyWorkers,
    #[error(
        "there are {DOCS_MAX} documents in one place, or {DOC_VERSIONS_MAX} versions of one, which \
         is the limit"
    )]
    TooManyDocs,
    #[error(
        "{LOCKS_MAX} files are locked in this workspace, which is the limit; nothing was locked"
    )]
    TooManyLocks,
    #[error(
        "{LOCK_PATTERNS_MAX} patterns are locked in this workspace, which is the limit; lock files \
         by name. Nothing was locked"
    )]
    TooManyPatterns,
    #[error(
        "comparing these files with those that are locked takes more than {LOCK_STEPS_MAX} steps, \
         which is the limit; nothing changed. Name fewer files in one call, and those by name"
    )]
    TooManySteps,
}

impl Rejection {
    /// What a caller's program sees.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Invalid(_) | Self::NextStepRequired => Reason::InvalidArgument,
            Self::UnknownIssue { .. } => Reason::UnknownIssue,
            Self::UnknownTask { .. } => Reason::UnknownTask,
            Self::IssueExists { .. } => Reason::IssueExists,
            Self::UnknownWorker { .. } => Reason::UnknownWorker,
            Self::UnknownSubmission { .. } => Reason::UnknownSubmission,
            Self::UnknownMessage { .. } | Self::NoOpenMessage { .. } => Reason::UnknownMessage,
            Self::AmbiguousMessage { .. } => Reason::AmbiguousMessage,
            Self::UnknownDelivery { .. } => Reason::UnknownDelivery,
            Self::UnknownDoc { .. } => Reason::UnknownDoc,
            Self::IssueClosed { .. } => Reason::IssueClosed,
            Self::TasksNotDone { .. } => Reason::TasksNotDone,
            Self::NotAccepted { .. } => Reason::NotAccepted,
            Self::PathsSetMeanwhile { .. } => Reason::StaleToken,
            Self::BlockedInACircle { .. } => Reason::BlockedInACircle,
            Self::MissingDoc { .. } | Self::MissingSteps { .. } => Reason::MissingDoc,
            Self::TaskAlreadyClaimed { .. } | Self::TaskDone { .. } | Self::TaskCanceled { .. } => {
                Reason::TaskAlreadyClaimed
            }
            Self::TaskReserved { .. } => Reason::TaskReserved,
            Self::TaskBlocked { .. } => Reason::TaskBlocked,
            Self::InvalidNextStepToken { .. } => Reason::InvalidNextStepToken,
            Self::NotClaimant { .. } | Self::NotAcceptor { .. } => Reason::NotClaimant,
            Self::LeaseLost { .. } | Self::LockLost { .. } | Self::LockEnded { .. } => {
                Reason::LeaseLost
            }
            Self::StaleToken { .. } => Reason::StaleToken,
            Self::NotHolder { .. } => Reason::NotHolder,
            Self::LeaseNotFound { .. } => Reason::LeaseNotFound,
            Self::FileIsLocked { .. } => Reason::FileIsLocked,
            Self::NoOpenSubmission { .. } | Self::SubmissionOfAnother { .. } => {
                Reason::NoOpenSubmission
            }
            Self::AlreadyReviewed { .. }
            | Self::DeliveryReviewed { .. }
            | Self::DeliveryEnded { .. } => Reason::AlreadyReviewed,
            Self::AlreadyReplied { .. } => Reason::AlreadyReplied,
            Self::OwnWork { .. } => Reason::OwnWork,
            Self::NothingToDeliver { .. } => Reason::NothingToDeliver,
            Self::AlreadyDelivered { .. } => Reason::AlreadyDelivered,
            Self::FilesMissing { .. } => Reason::FilesMissing,
            Self::DeliveryAlreadyClaimed { .. } => Reason::DeliveryAlreadyClaimed,
            Self::EvidenceFailed { .. } => Reason::EvidenceFailed,
            Self::DeliveryOutdated { .. } => Reason::DeliveryOutdated,
            Self::MaxTaskCount { .. }
            | Self::TooManyIssues
            | Self::TooManyTasks
            | Self::TooManySubmissions
            | Self::TooManyMessages
            | Self::TooManyDeliveries
            | Self::TooMuchEvidence
            | Self::TooManyWorkers
            | Self::TooManyDocs
            | Self::TooManyLocks
            | Self::TooManyPatterns
            | Self::TooManySteps => Reason::Overloaded,
        }
    }
}

/// As people say it, and never nothing.
fn seconds(ms: u64) -> String {
    format!("{} s", ms.div_ceil(1000))
}
