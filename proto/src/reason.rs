//! Why the answer is no, in a form a program can match on.
//!
//! A gRPC code tells a client what to *do*; a [`Reason`] tells it what *happened*. Broker, node
//! and MCP tools use this one table, so no two of them can drift apart.

use std::fmt;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::echo::bounded;

/// `ErrorInfo.domain` of every refusal Tasuki sends.
pub const DOMAIN: &str = "tasuki";

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident $text:literal $code:ident $retryable:literal $maybe:literal;)*) => {
        /// Why a call was refused or failed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $($(#[$doc])* $variant,)* }

        impl Reason {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable name that callers match on.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            pub const fn code(self) -> Code {
                match self { $(Self::$variant => Code::$code,)* }
            }

            /// Whether the same request, sent again under the same key, may succeed.
            pub const fn is_retryable(self) -> bool {
                match self { $(Self::$variant => $retryable,)* }
            }

            /// Whether the request may have taken effect although this was the answer.
            pub const fn is_maybe_applied(self) -> bool {
                match self { $(Self::$variant => $maybe,)* }
            }
        }
    };
}

reasons! {
    // reason            name                code              retryable  maybe applied
    /// A field is missing, malformed or contradicts another.
    InvalidArgument     "invalid_argument"   InvalidArgument    false false;
    /// A text is over its limit; nothing of it was taken.
    TooLarge            "too_large"          InvalidArgument    false false;
    /// No such role here.
    UnknownRole         "unknown_role"       NotFound           false false;
    /// No role exports such a tool, or none that the caller may call.
    UnknownTool         "unknown_tool"       NotFound           false false;
    /// No such loop in this workspace.
    UnknownLoop         "unknown_loop"       NotFound           false false;
    /// A parameter names another role than the connection's.
    RoleForbidden       "role_forbidden"     PermissionDenied   false false;
    /// Nothing says which role is meant.
    RoleRequired        "role_required"      InvalidArgument    false false;
    /// A live node hosts the role already.
    RoleInUse           "role_in_use"        FailedPrecondition true  false;
    /// Another role holds the turn.
    NotYourTurn         "not_your_turn"      FailedPrecondition true  false;
    /// The role is paused: it used up its budget, or went too far without a person.
    Paused              "paused"             FailedPrecondition false false;
    /// The loop has no turn any more.
    LoopCompleted       "loop_completed"     FailedPrecondition false false;
    /// A turn is held, so no new round can begin.
    LoopActive          "loop_active"        FailedPrecondition false false;
    /// The loop is there with other participants.
    LoopExists          "loop_exists"        AlreadyExists      false false;
    /// The turn's lease runs, so only a person may take it.
    TurnHeld            "turn_held"          FailedPrecondition true  false;
    /// The fencing token is older than the latest grant.
    StaleToken          "stale_token"        Aborted            false false;
    /// The node's registration is not the latest.
    StaleEpoch          "stale_epoch"        Aborted            false false;
    /// The idempotency key stands for another request.
    KeyReused           "key_reused"         AlreadyExists      false false;
    /// The idempotency key is below the window that is remembered.
    KeyExpired          "key_expired"        OutOfRange         false true;
    /// A named bound is reached.
    Overloaded          "overloaded"         ResourceExhausted  true  false;
    /// No token came with the call, or none that is good.
    Unauthenticated     "unauthenticated"    Unauthenticated    false false;
    /// The token lacks the right that the call takes.
    RightForbidden      "right_forbidden"    PermissionDenied   false false;
    /// There is no such workspace, or none that the token may see.
    UnknownWorkspace    "unknown_workspace"  NotFound           false false;
    /// The node was registered with another token.
    NodeForbidden       "node_forbidden"     PermissionDenied   false false;
    /// No invitation has this code, or none that is still open.
    UnknownInvitation   "unknown_invitation" NotFound           false false;
    /// Another has joined with this code already.
    InvitationSpent     "invitation_spent"   FailedPrecondition false false;
    /// No token has this id.
    UnknownToken        "unknown_token"      NotFound           false false;
    /// The role has no thread of this name, or the task or run no message of this id.
    UnknownMessage      "unknown_message"    NotFound           false false;
    /// Several threads of the role have this name, or several questions are open.
    AmbiguousMessage    "ambiguous_message"  InvalidArgument    false false;
    /// The thread's id is taken by another thread.
    MessageExists       "message_exists"     AlreadyExists      false false;
    /// The mailbox takes in no more mail.
    MailboxClosed       "mailbox_closed"     FailedPrecondition false false;
    /// Entries came in that the role was not handed yet.
    UnseenEntries       "unseen_entries"     FailedPrecondition false false;
    /// The thread is not in the inbox.
    NotInInbox          "not_in_inbox"       FailedPrecondition false false;
    /// No file with this content is stored, or none that the role may read.
    UnknownAttachment   "unknown_attachment" NotFound           false false;
    /// The workspace takes in sealed mail only, or the node has no say in it yet.
    PrivateWorkspace    "private_workspace"  FailedPrecondition false false;
    /// No such issue in this workspace.
    UnknownIssue        "unknown_issue"      NotFound           false false;
    /// There is another issue of this id, or it was taken over otherwise.
    IssueExists         "issue_exists"       AlreadyExists      false false;
    /// No such task in this issue.
    UnknownTask         "unknown_task"       NotFound           false false;
    /// The role is not registered as a worker.
    UnknownWorker       "unknown_worker"     NotFound           false false;
    /// No such submission.
    UnknownSubmission   "unknown_submission" NotFound           false false;
    /// No such delivery in this workspace.
    UnknownDelivery     "unknown_delivery"   NotFound           false false;
    /// No document of this name, or not that version of it.
    UnknownDoc          "unknown_doc"        NotFound           false false;
    /// The issue is done or canceled.
    IssueClosed         "issue_closed"       FailedPrecondition false false;
    /// Tasks of the issue are neither done nor canceled.
    TasksNotDone        "tasks_not_done"     FailedPrecondition false false;
    /// No delivery of the issue was approved.
    NotAccepted         "not_accepted"       FailedPrecondition false false;
    /// Tasks would block each other for ever.
    BlockedInACircle    "blocked_in_a_circle" InvalidArgument   false false;
    /// A document that has to be there is not.
    MissingDoc          "missing_doc"        FailedPrecondition false false;
    /// Another worker has the task, or it is over.
    TaskAlreadyClaimed  "task_already_claimed" FailedPrecondition false false;
    /// The task is kept for another worker.
    TaskReserved        "task_reserved"      FailedPrecondition true  false;
    /// Tasks that this one is blocked by are not done.
    TaskBlocked         "task_blocked"       FailedPrecondition true  false;
    /// The next step is not the one that was given, or no longer.
    InvalidNextStepToken "invalid_next_step_token" FailedPrecondition false false;
    /// The role has not claimed this.
    NotClaimant         "not_claimant"       PermissionDenied   false false;
    /// The lock is another role's.
    NotHolder           "not_holder"         PermissionDenied   false false;
    /// The lease lapsed or was taken.
    LeaseLost           "lease_lost"         Aborted            false false;
    /// There is no lock of this id.
    LeaseNotFound       "lease_not_found"    NotFound           false false;
    /// Another role has locked a file.
    FileIsLocked        "file_is_locked"     FailedPrecondition true  false;
    /// Nothing was submitted that waits for a verdict.
    NoOpenSubmission    "no_open_submission" FailedPrecondition false false;
    /// There is another verdict already.
    AlreadyReviewed     "already_reviewed"   FailedPrecondition false false;
    /// The message was answered, or its question is over.
    AlreadyReplied      "already_replied"    FailedPrecondition false false;
    /// Nobody judges their own work.
    OwnWork             "own_work"           PermissionDenied   false false;
    /// The issue has no task, so there is nothing to deliver.
    NothingToDeliver    "nothing_to_deliver" FailedPrecondition false false;
    /// A delivery of the issue waits for a verdict.
    AlreadyDelivered    "already_delivered"  FailedPrecondition false false;
    /// Files of approved submissions are missing in the delivery.
    FilesMissing        "files_missing"      InvalidArgument    false false;
    /// Another acceptor has the delivery.
    DeliveryAlreadyClaimed "delivery_already_claimed" FailedPrecondition true false;
    /// Evidence failed, so the delivery cannot be approved.
    EvidenceFailed      "evidence_failed"    FailedPrecondition false false;
    /// Tasks were done anew since the delivery was made, so it cannot be approved.
    DeliveryOutdated    "delivery_outdated"  FailedPrecondition false false;
    /// No such run in this workspace, or it was forgotten.
    UnknownRun          "unknown_run"        NotFound           false false;
    /// The run has no step of this number.
    UnknownStep         "unknown_step"       NotFound           false false;
    /// Another node has the step, or it is not ready, or over.
    StepTaken           "step_taken"         FailedPrecondition false false;
    /// The secret is none of a step that runs.
    InvalidStepToken    "invalid_step_token" PermissionDenied   false false;
    /// The run was asked for by somebody else.
    NotAsker            "not_asker"          PermissionDenied   false false;
    /// The tree of runs, or a step of it, has used up what it may use.
    BudgetSpent         "budget_spent"       FailedPrecondition false false;
    /// The sub-agent's last question has no reply yet.
    QuestionOpen        "question_open"      FailedPrecondition true  false;
    /// No such board in this workspace.
    UnknownBoard        "unknown_board"      NotFound           false false;
    /// The board has no such checkpoint, or no longer.
    UnknownCheckpoint   "unknown_checkpoint" NotFound           false false;
    /// The update is based on a checkpoint that is not the board's newest.
    StaleCheckpoint     "stale_checkpoint"   Aborted            false false;
    /// The board is there, with another schema or another origin.
    BoardExists         "board_exists"       AlreadyExists      false false;
    /// No board has such a pipeline, or no longer.
    UnknownPipeline     "unknown_pipeline"   NotFound           false false;
    /// The board has a pipeline that has not ended.
    PipelineOpen        "pipeline_open"      AlreadyExists      false false;
    /// The pipeline has ended.
    PipelineEnded       "pipeline_ended"     FailedPrecondition false false;
    /// The attempt is not there to be taken: another node has it, or it ended.
    PhaseTaken          "phase_taken"        Aborted            false false;
    /// Nobody has to approve anything now, or another attempt.
    NoApprovalPending   "no_approval_pending" FailedPrecondition false false;
    /// The approval came too late.
    ApprovalLapsed      "approval_lapsed"    FailedPrecondition false false;
    /// No such file below the root.
    UnknownFile         "unknown_file"       NotFound           false false;
    /// The file may not be read, or not written, by agents.
    FileProtected       "file_protected"     PermissionDenied   false false;
    /// The file is there, or is not what it is expected to be.
    FileChanged         "file_changed"       Aborted            false false;
    /// The operator does not let this command run, or it cannot be kept in.
    CommandForbidden    "command_forbidden"  PermissionDenied   false false;
    /// Records asked for are no longer kept.
    Compacted           "compacted"          OutOfRange         false false;
    /// The reader fell behind and resumes after the last sequence it saw.
    Lagged              "lagged"             Aborted            true  false;
    /// The broker cannot be reached, or is stopping; nothing happened.
    Unavailable         "unavailable"        Unavailable        true  false;
    /// No answer came; ask again under the same key.
    OutcomeUnknown      "outcome_unknown"    Unknown            true  true;
    /// What is on disk is not what was written.
    Damaged             "damaged"            DataLoss           false false;
    /// The answer does not fit into one message; a command took effect.
    AnswerTooLarge      "answer_too_large"   OutOfRange         false true;
}

impl Reason {
    /// Whether it is about who calls: what was called was not looked at.
    pub const fn is_about_caller(self) -> bool {
        matches!(
            self,
            Self::Unauthenticated
                | Self::RightForbidden
                | Self::RoleForbidden
                | Self::UnknownWorkspace
                | Self::NodeForbidden
        )
    }

    /// The gRPC form of a refusal.
    pub fn status(self, message: impl Into<String>) -> Status {
        self.status_with(message, [])
    }

    /// The same with metadata for programs.
    pub fn status_with<const N: usize>(
        self,
        message: impl Into<String>,
        metadata: [(&str, String); N],
    ) -> Status {
        let metadata = metadata.into_iter().map(|(k, v)| (k.to_owned(), v));
        let details = ErrorDetails::with_error_info(
            self.as_str(),
            DOMAIN,
            metadata.collect::<std::collections::HashMap<_, _>>(),
        );
        Status::with_error_details(self.code(), bounded(&message.into()), details)
    }

    /// `None`: not one of ours; a proxy, a deadline or a newer broker spoke.
    pub fn of(status: &Status) -> Option<Self> {
        let info = status.get_details_error_info()?;
        if info.domain != DOMAIN {
            return None;
        }
        Self::parse(&info.reason)
    }

    /// The reason with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == name)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_survives_the_wire() {
        for reason in Reason::ALL.iter().copied() {
            let status = reason.status("because");
            assert_eq!(Reason::of(&status), Some(reason));
            assert_eq!(status.code(), reason.code());
        }
    }

    #[test]
    fn strangers_have_no_reason() {
        assert_eq!(Reason::of(&Status::aborted("a proxy")), None);
    }

    /// The contract with every client there is. Adding a line is fine; changing one is not.
    #[test]
    fn the_refusal_table() {
        let table: String = Reason::ALL
            .iter()
            .map(|r| {
                let retry = if r.is_retryable() { " retry" } else { "" };
                let maybe = if r.is_maybe_applied() { " maybe-applied" } else { "" };
                format!("{:?} {r}{retry}{maybe}\n", r.code())
            })
            .collect();
        assert_eq!(table, include_str!("reason.golden.txt"));
    }
}
