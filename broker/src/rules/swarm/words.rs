//! What is said about issues, tasks and deliveries: kept beside the records that name it, and not
//! in memory.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{NodeId, PersonId, RoleId, Timestamp, TokenId},
    swarm::{DeliveryId, DocName, IssueId, NextStepId, SubmissionId, TaskMessageId, TaskNumber},
};

/// Words, and what they belong to. Each is written once.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum Words {
    #[n(0)]
    Issue {
        #[n(0)]
        issue: IssueId,
        #[n(1)]
        description: String,
    },
    /// Versions from 1.
    #[n(1)]
    Paths {
        #[n(0)]
        issue: IssueId,
        #[n(1)]
        version: u32,
        #[n(2)]
        paths: DocPaths,
    },
    #[n(2)]
    Task {
        #[n(0)]
        issue: IssueId,
        #[n(1)]
        task: TaskNumber,
        #[n(2)]
        words: TaskWords,
    },
    #[n(3)]
    Submission {
        #[n(0)]
        issue: IssueId,
        #[n(1)]
        submission: SubmissionId,
        #[n(2)]
        words: Artifacts,
    },
    #[n(4)]
    Review {
        #[n(0)]
        issue: IssueId,
        #[n(1)]
        submission: SubmissionId,
        #[n(2)]
        words: ReviewWords,
    },
    #[n(5)]
    Message {
        #[n(0)]
        issue: IssueId,
        #[n(1)]
        message: TaskMessageId,
        #[n(2)]
        words: MessageWords,
    },
    #[n(6)]
    Reply {
        #[n(0)]
        issue: IssueId,
        #[n(1)]
        message: TaskMessageId,
        #[n(2)]
        words: MessageWords,
    },
    #[n(7)]
    Delivery {
        #[n(0)]
        issue: IssueId,
        #[n(1)]
        delivery: DeliveryId,
        #[n(2)]
        words: Box<DeliveryWords>,
    },
    /// Numbers from 1.
    #[n(8)]
    Evidence {
        #[n(0)]
        issue: IssueId,
        #[n(1)]
        delivery: DeliveryId,
        #[n(2)]
        number: u32,
        #[n(3)]
        words: EvidenceWords,
    },
    #[n(9)]
    Verdict {
        #[n(0)]
        issue: IssueId,
        #[n(1)]
        delivery: DeliveryId,
        #[n(2)]
        words: VerdictWords,
    },
    /// Versions from 1.
    #[n(10)]
    Doc {
        #[n(0)]
        place: DocPlace,
        #[n(1)]
        name: DocName,
        #[n(2)]
        version: u32,
        #[n(3)]
        content: String,
        /// When it was written and by whom: a document itself has only the newest version's. No
        /// role where a person wrote.
        #[n(4)]
        at: Timestamp,
        #[n(5)]
        by: Option<RoleId>,
    },
    #[n(11)]
    Audit(#[n(0)] Box<AuditEntry>),
}

/// Where a document is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum DocPlace {
    #[n(0)]
    Shared,
    #[n(1)]
    Issue(#[n(0)] IssueId),
    #[n(2)]
    Task(#[n(0)] IssueId, #[n(1)] TaskNumber),
}

/// Documents in the project that belong to an issue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct DocPaths {
    #[n(0)]
    pub shared: Vec<String>,
    #[n(1)]
    pub project: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct TaskWords {
    #[n(0)]
    pub description: String,
    #[n(1)]
    pub labels: Vec<String>,
    #[n(2)]
    pub suggested_files: Vec<String>,
    #[n(3)]
    pub doc_paths: Vec<String>,
    /// Tasks to know of.
    #[n(4)]
    pub context: Vec<TaskNumber>,
    /// Have to be there when the task is made.
    #[n(5)]
    pub required_issue_docs: Vec<DocName>,
    /// Have to be there when it is submitted.
    #[n(6)]
    pub required_task_docs: Vec<DocName>,
    #[n(7)]
    pub spec: TaskSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct TaskSpec {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub split_from: String,
    #[n(2)]
    pub split_reason: String,
    #[n(3)]
    pub impact_scope: String,
    #[n(4)]
    pub goal: String,
    #[n(5)]
    pub rules: String,
    #[n(6)]
    pub constraints: String,
    #[n(7)]
    pub conventions: String,
    #[n(8)]
    pub acceptance: String,
}

/// What a worker submits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Artifacts {
    #[n(0)]
    pub summary: String,
    #[n(1)]
    pub changed_files: Vec<String>,
    #[n(2)]
    pub diff: String,
    #[n(3)]
    pub links: Vec<String>,
    #[n(4)]
    pub test_cases: Vec<String>,
    #[n(5)]
    pub test_result: String,
    #[n(6)]
    pub test_output: String,
    /// What may be run again, and on which commit.
    #[n(7)]
    pub commit: String,
    #[n(8)]
    pub commands: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ReviewWords {
    #[n(0)]
    pub summary: String,
    /// At least one.
    #[n(1)]
    pub reviewed_refs: Vec<String>,
    #[n(2)]
    pub feedback: String,
    /// At least one.
    #[n(3)]
    pub details: Vec<FeedbackDetail>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct FeedbackDetail {
    #[n(0)]
    pub dimension: Dimension,
    #[n(1)]
    pub severity: Severity,
    #[n(2)]
    pub file_path: String,
    #[n(3)]
    pub line_range: String,
    #[n(4)]
    pub content: String,
    #[n(5)]
    pub suggestion: String,
}

/// Kinds with names; those on disk have a number before each.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident $n:tt $text:literal,)* }) => {
        named!(
            $(#[$doc])*
            #[derive(minicbor::Encode, minicbor::Decode, serde::Serialize, serde::Deserialize)]
            #[cbor(index_only)]
            #[serde(rename_all = "snake_case")]
            $name { $($(#[$about])* #[n($n)] $variant $text,)* }
        );

        impl $crate::canonical::Canonical for $name {
            fn write(&self, to: &mut Vec<u8>) {
                let number: u32 = match self { $(Self::$variant => $n,)* };
                to.extend(number.to_be_bytes());
            }
        }
    };
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
        Correctness 1 "correctness",
        Security 2 "security",
        Performance 3 "performance",
        Maintainability 4 "maintainability",
        Style 5 "style",
        Test 6 "test",
        Docs 7 "docs",
    }
);
named!(
    /// How much it matters.
    Severity {
        Info 1 "info",
        Minor 2 "minor",
        Major 3 "major",
        Critical 4 "critical",
    }
);

#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct MessageWords {
    #[n(0)]
    pub content: String,
    #[n(1)]
    pub refs: String,
}

/// What a lead puts before the acceptors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct DeliveryWords {
    #[n(0)]
    pub summary: String,
    #[n(1)]
    pub refs: String,
    #[n(2)]
    pub is_test_passed: bool,
    #[n(3)]
    pub test_cases: Vec<String>,
    #[n(4)]
    pub changed_files: Vec<String>,
    #[n(5)]
    pub reviewed_refs: Vec<String>,
    #[n(6)]
    pub test_output: String,
    #[n(7)]
    pub known_risks: String,
    #[n(8)]
    pub evidence: TestEvidence,
    /// What may be run again, and on which commit.
    #[n(9)]
    pub commit: String,
    #[n(10)]
    pub commands: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct TestEvidence {
    #[n(0)]
    pub script_path: String,
    #[n(1)]
    pub script_cmd: String,
    #[n(2)]
    pub is_script_passed: bool,
    #[n(3)]
    pub script_result: String,
    #[n(4)]
    pub doc_path: String,
    #[n(5)]
    pub doc_commands: Vec<String>,
    /// One for each command, in their order.
    #[n(6)]
    pub doc_results: Vec<CommandResult>,
    #[n(7)]
    pub is_doc_passed: bool,
}

/// What came of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct CommandResult {
    #[n(0)]
    pub command: String,
    #[n(1)]
    pub is_passed: bool,
    #[n(2)]
    pub exit_code: i32,
    #[n(3)]
    pub output: String,
}

/// What an acceptor found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Verification {
    #[n(0)]
    pub is_script_passed: bool,
    #[n(1)]
    pub script_result: String,
    #[n(2)]
    pub is_doc_passed: bool,
    /// One for each of the delivery's commands, in their order.
    #[n(3)]
    pub doc_results: Vec<CommandResult>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct VerdictWords {
    #[n(0)]
    pub feedback: String,
    #[n(1)]
    pub refs: String,
    #[n(2)]
    pub verification: Verification,
}

/// What came of running a delivery's commands again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct EvidenceWords {
    /// What was checked out.
    #[n(0)]
    pub commit: String,
    /// At least one.
    #[n(1)]
    pub runs: Vec<Run>,
    /// Who ran them, and where.
    #[n(2)]
    pub role: Option<RoleId>,
    #[n(3)]
    pub node: Option<NodeId>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Run {
    #[n(0)]
    pub result: CommandResult,
    /// Of all it wrote, also where `output` has only the end.
    #[n(1)]
    pub output_hash: String,
    #[n(2)]
    pub output_bytes: u64,
    #[n(3)]
    pub duration_ms: u64,
    #[n(4)]
    pub is_timed_out: bool,
    /// What kept it from the rest of the machine.
    #[n(5)]
    pub sandbox: String,
}

named!(
    /// What an entry of the audit says.
    AuditKind {
        IssueCreated 1 "issue_created",
        IssueUpdated 2 "issue_updated",
        IssueClosed 3 "issue_closed",
        IssueReopened 4 "issue_reopened",
        IssueExpired 5 "issue_expired",
        TaskCreated 6 "issue_task_created",
        TaskClaimed 7 "issue_task_claimed",
        TaskExpired 8 "issue_task_expired",
        TaskReviewed 9 "issue_task_reviewed",
        TaskResolved 10 "issue_task_resolved",
        TaskMessage 11 "issue_task_message",
        TaskReplied 12 "issue_task_replied",
        TaskReset 13 "issue_task_reset",
        TaskReserved 14 "issue_task_reserved",
        ReservationExpired 15 "issue_task_reservation_expired",
        SubmissionCreated 16 "submission_created",
        DocWritten 17 "doc_written",
        DeliveryCreated 18 "delivery_created",
        DeliveryClaimed 19 "delivery_claimed",
        DeliveryExpired 20 "delivery_expired",
        EvidenceAttached 21 "evidence_attached",
        DeliveryReviewed 22 "delivery_reviewed",
        TaskCanceled 23 "issue_task_canceled",
        Imported 24 "imported",
    }
);

/// One thing that happened to an issue. Never changed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct AuditEntry {
    #[n(0)]
    pub issue: IssueId,
    /// From 1, no gaps (I7).
    #[n(1)]
    pub number: u64,
    #[n(2)]
    pub kind: AuditKind,
    #[n(3)]
    pub at: Timestamp,
    /// On whose word; nobody's where time alone brought it.
    #[n(4)]
    pub role: Option<RoleId>,
    #[n(5)]
    pub person: Option<PersonId>,
    #[n(6)]
    pub node: Option<NodeId>,
    #[n(7)]
    pub token: Option<TokenId>,
    #[n(8)]
    pub task: Option<TaskNumber>,
    #[n(9)]
    pub submission: Option<SubmissionId>,
    #[n(10)]
    pub message: Option<TaskMessageId>,
    #[n(11)]
    pub delivery: Option<DeliveryId>,
    #[n(12)]
    pub next_step: Option<NextStepId>,
    /// Whom it concerns beside who did it.
    #[n(13)]
    pub worker: Option<RoleId>,
    /// A reason, a verdict, a kind, a name.
    #[n(14)]
    pub detail: String,
}
