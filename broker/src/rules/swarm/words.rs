//! What is said about issues, tasks and deliveries: kept beside the records that name it, and not
//! in memory.

use tasuki_proto::{
    id::{NodeId, PersonId, RoleId, Timestamp, TokenId},
    swarm::{DeliveryId, DocName, IssueId, NextStepId, SubmissionId, TaskMessageId, TaskNumber},
};

/// Words, and what they belong to. Each is written once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Words {
    Issue {
        issue: IssueId,
        description: String,
    },
    /// Versions from 1.
    Paths {
        issue: IssueId,
        version: u32,
        paths: DocPaths,
    },
    Task {
        issue: IssueId,
        task: TaskNumber,
        words: TaskWords,
    },
    Submission {
        issue: IssueId,
        submission: SubmissionId,
        words: Artifacts,
    },
    Review {
        issue: IssueId,
        submission: SubmissionId,
        words: ReviewWords,
    },
    Message {
        issue: IssueId,
        message: TaskMessageId,
        words: MessageWords,
    },
    Reply {
        issue: IssueId,
        message: TaskMessageId,
        words: MessageWords,
    },
    Delivery {
        issue: IssueId,
        delivery: DeliveryId,
        words: Box<DeliveryWords>,
    },
    /// Numbers from 1.
    Evidence {
        issue: IssueId,
        delivery: DeliveryId,
        number: u32,
        words: EvidenceWords,
    },
    Verdict {
        issue: IssueId,
        delivery: DeliveryId,
        words: VerdictWords,
    },
    /// Versions from 1.
    Doc {
        place: DocPlace,
        name: DocName,
        version: u32,
        content: String,
        /// When it was written and by whom: a document itself has only the newest version's.
        /// Nothing in words from before that was kept; no role where a person wrote.
        at: Timestamp,
        by: Option<RoleId>,
    },
    Audit(Box<AuditEntry>),
}

/// Where a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DocPlace {
    Shared,
    Issue(IssueId),
    Task(IssueId, TaskNumber),
}

/// Documents in the project that belong to an issue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocPaths {
    pub shared: Vec<String>,
    pub project: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskWords {
    pub description: String,
    pub labels: Vec<String>,
    pub suggested_files: Vec<String>,
    pub doc_paths: Vec<String>,
    /// Tasks to know of.
    pub context: Vec<TaskNumber>,
    /// Have to be there when the task is made.
    pub required_issue_docs: Vec<DocName>,
    /// Have to be there when it is submitted.
    pub required_task_docs: Vec<DocName>,
    pub spec: TaskSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskSpec {
    pub name: String,
    pub split_from: String,
    pub split_reason: String,
    pub impact_scope: String,
    pub goal: String,
    pub rules: String,
    pub constraints: String,
    pub conventions: String,
    pub acceptance: String,
}

/// What a worker submits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Artifacts {
    pub summary: String,
    pub changed_files: Vec<String>,
    pub diff: String,
    pub links: Vec<String>,
    pub test_cases: Vec<String>,
    pub test_result: String,
    pub test_output: String,
    /// What may be run again, and on which commit.
    pub commit: String,
    pub commands: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReviewWords {
    pub summary: String,
    /// At least one.
    pub reviewed_refs: Vec<String>,
    pub feedback: String,
    /// At least one.
    pub details: Vec<FeedbackDetail>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedbackDetail {
    pub dimension: Dimension,
    pub severity: Severity,
    pub file_path: String,
    pub line_range: String,
    pub content: String,
    pub suggestion: String,
}

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$about])* $variant,)* }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The one of this name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.as_str() == name)
            }

            /// The number it has on disk; 0 is none of them.
            pub const fn code(self) -> u32 {
                self as u32 + 1
            }

            pub fn of_code(code: u32) -> Option<Self> {
                Self::ALL.get((code as usize).checked_sub(1)?).copied()
            }
        }

        impl $crate::canonical::Canonical for $name {
            fn write(&self, to: &mut Vec<u8>) {
                to.extend(self.code().to_be_bytes());
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(super) use named;

named!(
    /// What feedback is about.
    Dimension {
        Correctness "correctness",
        Security "security",
        Performance "performance",
        Maintainability "maintainability",
        Style "style",
        Test "test",
        Docs "docs",
    }
);
named!(
    /// How much it matters.
    Severity {
        Info "info",
        Minor "minor",
        Major "major",
        Critical "critical",
    }
);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageWords {
    pub content: String,
    pub refs: String,
}

/// What a lead puts before the acceptors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryWords {
    pub summary: String,
    pub refs: String,
    pub is_test_passed: bool,
    pub test_cases: Vec<String>,
    pub changed_files: Vec<String>,
    pub reviewed_refs: Vec<String>,
    pub test_output: String,
    pub known_risks: String,
    pub evidence: TestEvidence,
    /// What may be run again, and on which commit.
    pub commit: String,
    pub commands: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestEvidence {
    pub script_path: String,
    pub script_cmd: String,
    pub is_script_passed: bool,
    pub script_result: String,
    pub doc_path: String,
    pub doc_commands: Vec<String>,
    /// One for each command, in their order.
    pub doc_results: Vec<CommandResult>,
    pub is_doc_passed: bool,
}

/// What came of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandResult {
    pub command: String,
    pub is_passed: bool,
    pub exit_code: i32,
    pub output: String,
}

/// What an acceptor found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    pub is_script_passed: bool,
    pub script_result: String,
    pub is_doc_passed: bool,
    /// One for each of the delivery's commands, in their order.
    pub doc_results: Vec<CommandResult>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerdictWords {
    pub feedback: String,
    pub refs: String,
    pub verification: Verification,
}

/// What came of running a delivery's commands again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EvidenceWords {
    /// What was checked out.
    pub commit: String,
    /// At least one.
    pub runs: Vec<Run>,
    /// Who ran them, and where.
    pub role: Option<RoleId>,
    pub node: Option<NodeId>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    pub result: CommandResult,
    /// Of all it wrote, also where `output` has only the end.
    pub output_hash: String,
    pub output_bytes: u64,
    pub duration_ms: u64,
    pub is_timed_out: bool,
    /// What kept it from the rest of the machine.
    pub sandbox: String,
}

named!(
    /// What an entry of the audit says.
    AuditKind {
        IssueCreated "issue_created",
        IssueUpdated "issue_updated",
        IssueClosed "issue_closed",
        IssueReopened "issue_reopened",
        IssueExpired "issue_expired",
        TaskCreated "issue_task_created",
        TaskClaimed "issue_task_claimed",
        TaskExpired "issue_task_expired",
        TaskReviewed "issue_task_reviewed",
        TaskResolved "issue_task_resolved",
        TaskMessage "issue_task_message",
        TaskReplied "issue_task_replied",
        TaskReset "issue_task_reset",
        TaskReserved "issue_task_reserved",
        ReservationExpired "issue_task_reservation_expired",
        SubmissionCreated "submission_created",
        DocWritten "doc_written",
        DeliveryCreated "delivery_created",
        DeliveryClaimed "delivery_claimed",
        DeliveryExpired "delivery_expired",
        EvidenceAttached "evidence_attached",
        DeliveryReviewed "delivery_reviewed",
        TaskCanceled "issue_task_canceled",
        Imported "imported",
    }
);

/// One thing that happened to an issue. Never changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub issue: IssueId,
    /// From 1, no gaps (I7).
    pub number: u64,
    pub kind: AuditKind,
    pub at: Timestamp,
    /// On whose word; nobody's where time alone brought it.
    pub role: Option<RoleId>,
    pub person: Option<PersonId>,
    pub node: Option<NodeId>,
    pub token: Option<TokenId>,
    pub task: Option<TaskNumber>,
    pub submission: Option<SubmissionId>,
    pub message: Option<TaskMessageId>,
    pub delivery: Option<DeliveryId>,
    pub next_step: Option<NextStepId>,
    /// Whom it concerns beside who did it.
    pub worker: Option<RoleId>,
    /// A reason, a verdict, a kind, a name.
    pub detail: String,
    /// It happened elsewhere, and was taken over.
    pub recalled: Option<Box<Origin>>,
}

/// When something happened elsewhere, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub at: Timestamp,
    pub actor: String,
    pub refs: String,
}
