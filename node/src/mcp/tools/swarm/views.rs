//! What answers about issues, tasks, deliveries and locks are made of, field by field, in the order
//! an agent reads them. Fields that say nothing are left out. Times are milliseconds since the Unix
//! epoch by the broker's clock, and `…_at` the same as text.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use tasuki_proto::wire;

use super::super::{result::time, sanitizer::Sanitizer};

/// Which task or message or file something is about, and when, in each of these.
type Texts = Vec<String>;

#[derive(Debug, Serialize)]
pub(super) struct Issue {
    pub id: String,
    pub subject: String,
    pub status: &'static str,
    pub lead: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summary: String,
    #[serde(skip_serializing_if = "is_false")]
    pub is_unaccepted: bool,
    pub docs: Texts,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shared_doc_paths: Texts,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub project_doc_paths: Texts,
    /// How many are in each state.
    pub tasks: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "is_zero")]
    pub lease_expires_at_ms: u64,
    pub created_at: Time,
    pub updated_at: Time,
}

#[derive(Debug, Serialize)]
pub(super) struct Task {
    pub id: String,
    pub issue_id: String,
    pub subject: String,
    pub status: &'static str,
    /// Finer than the status, derived.
    pub stage: &'static str,
    pub difficulty: &'static str,
    pub points: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Texts,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub claimed_by: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub lease_expires_at_ms: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reserved_for: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reserved_token: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub reserved_until_ms: u64,
    #[serde(flatten)]
    pub words: Option<Words>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission: Option<Submission>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    pub created_at: Time,
    pub updated_at: Time,
}

/// What a task is about.
#[derive(Debug, Serialize)]
pub(super) struct Words {
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<Spec>,
    pub context_task_ids: Texts,
    pub suggested_files: Texts,
    pub labels: Texts,
    pub doc_paths: Texts,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_issue_docs: Texts,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_task_docs: Texts,
}

#[derive(Debug, Serialize)]
pub(super) struct Spec {
    pub name: String,
    pub split_from: String,
    pub split_reason: String,
    pub impact_scope: String,
    pub context_task_ids: Texts,
    pub goal: String,
    pub rules: String,
    pub constraints: String,
    pub conventions: String,
    pub acceptance: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Submission {
    pub id: String,
    pub worker_id: String,
    pub status: &'static str,
    pub submitted_at: Time,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reviewed_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<&'static str>,
    #[serde(skip_serializing_if = "is_zero_32")]
    pub completion_score: u32,
    /// Before what may be long: clients cut long results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Artifacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
}

#[derive(Debug, Serialize)]
pub(super) struct Artifacts {
    pub summary: String,
    pub changed_files: Texts,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub diff: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Texts,
    pub test_cases: Texts,
    pub test_result: String,
    pub test_output: String,
    #[serde(flatten)]
    pub rerun: Option<Rerun>,
}

#[derive(Debug, Serialize)]
pub(super) struct Rerun {
    pub commit: String,
    pub commands: Texts,
}

#[derive(Debug, Serialize)]
pub(super) struct Review {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub feedback: String,
    pub review_summary: String,
    pub reviewed_refs: Texts,
    pub feedback_details: Vec<Detail>,
}

#[derive(Debug, Serialize)]
pub(super) struct Detail {
    pub dimension: String,
    pub severity: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file_path: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub line_range: String,
    pub content: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub suggestion: String,
}

/// What a worker does after a submission.
#[derive(Debug, Serialize)]
pub(super) struct Next {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_step_token: String,
    pub next_step: Step,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub difficulty: &'static str,
    #[serde(skip_serializing_if = "is_zero")]
    pub reserved_until_ms: u64,
    pub worker_total_points: u64,
    pub consecutive_low_scores: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct Step {
    pub r#type: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_id: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Message {
    pub id: String,
    pub task_id: String,
    pub sender_id: String,
    pub kind: String,
    pub status: &'static str,
    pub content: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub refs: String,
    pub created_at: Time,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reply_by: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reply_content: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reply_refs: String,
}

/// Left out where it is not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time(pub u64);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            0 => to.serialize_none(),
            ms => to.serialize_str(&time(ms)),
        }
    }
}

impl Issue {
    pub(super) fn new(it: &wire::Issue, others: &mut Sanitizer) -> Self {
        let tasks = it.tasks.unwrap_or_default();
        let counted = |status: wire::TaskStatus| {
            let count = tasks.of(status);
            (count != 0).then(|| (task_status(status), count))
        };
        Self {
            id: it.issue_id.clone(),
            subject: others.line(&it.subject),
            status: issue_status(it.status()),
            lead: it.lead.clone(),
            description: others.text(&it.description),
            summary: others.text(&it.summary),
            is_unaccepted: it.is_unaccepted,
            docs: others.lines(&it.docs),
            shared_doc_paths: others.lines(&it.shared_doc_paths),
            project_doc_paths: others.lines(&it.project_doc_paths),
            tasks: TASK_STATUSES.into_iter().filter_map(counted).collect(),
            lease_expires_at_ms: it.lease_expires_ms,
            created_at: Time(it.created_ms),
            updated_at: Time(it.updated_ms),
        }
    }
}

impl Task {
    pub(super) fn new(it: &wire::Task, others: &mut Sanitizer) -> Self {
        Self {
            id: it.task_id.clone(),
            issue_id: it.issue_id.clone(),
            subject: others.line(&it.subject),
            status: task_status(it.status()),
            stage: stage(it.stage()),
            difficulty: difficulty(it.difficulty()),
            points: it.points,
            blocked_by: it.blocked_by.clone(),
            claimed_by: it.claimed_by.clone(),
            lease_expires_at_ms: it.lease_expires_ms,
            reserved_for: it.reserved_for.clone(),
            reserved_token: it.reserved_token.clone(),
            reserved_until_ms: it.reserved_until_ms,
            words: it.words.as_ref().map(|it| Words::new(it, others)),
            submission: it.submission.as_ref().map(|it| Submission::new(it, others)),
            messages: it.messages.iter().map(|it| Message::new(it, others)).collect(),
            created_at: Time(it.created_ms),
            updated_at: Time(it.updated_ms),
        }
    }
}

impl Words {
    pub(super) fn new(it: &wire::TaskWords, others: &mut Sanitizer) -> Self {
        Self {
            description: others.text(&it.description),
            spec: it.spec.as_ref().map(|it| Spec::new(it, others)),
            context_task_ids: others.lines(&it.context_task_ids),
            suggested_files: others.lines(&it.suggested_files),
            labels: others.lines(&it.labels),
            doc_paths: others.lines(&it.doc_paths),
            required_issue_docs: others.lines(&it.required_issue_docs),
            required_task_docs: others.lines(&it.required_task_docs),
        }
    }
}

impl Spec {
    fn new(it: &wire::TaskSpec, others: &mut Sanitizer) -> Self {
        Self {
            name: others.text(&it.name),
            split_from: others.text(&it.split_from),
            split_reason: others.text(&it.split_reason),
            impact_scope: others.text(&it.impact_scope),
            context_task_ids: others.lines(&it.context_task_ids),
            goal: others.text(&it.goal),
            rules: others.text(&it.rules),
            constraints: others.text(&it.constraints),
            conventions: others.text(&it.conventions),
            acceptance: others.text(&it.acceptance),
        }
    }
}

impl Submission {
    pub(super) fn new(it: &wire::Submission, others: &mut Sanitizer) -> Self {
        let verdict = match it.status() {
            wire::SubmissionStatus::Approved => Some("approved"),
            wire::SubmissionStatus::Rejected => Some("rejected"),
            wire::SubmissionStatus::Unspecified
            | wire::SubmissionStatus::Open
            | wire::SubmissionStatus::Superseded
            | wire::SubmissionStatus::Reset => None,
        };
        Self {
            id: it.submission_id.clone(),
            worker_id: it.worker.clone(),
            status: submission_status(it.status()),
            submitted_at: Time(it.submitted_ms),
            reviewed_by: it.reviewed_by.clone(),
            verdict,
            completion_score: it.completion_score,
            next: it.next_step.as_ref().map(Next::new),
            artifacts: it.words.as_ref().map(|it| Artifacts::new(it, others)),
            review: it.review.as_ref().map(|it| Review::new(it, others)),
        }
    }
}

impl Artifacts {
    fn new(it: &wire::SubmissionWords, others: &mut Sanitizer) -> Self {
        Self {
            summary: others.text(&it.summary),
            changed_files: others.lines(&it.changed_files),
            diff: others.text(&it.diff),
            links: others.lines(&it.links),
            test_cases: others.lines(&it.test_cases),
            test_result: others.text(&it.test_result),
            test_output: others.text(&it.test_output),
            rerun: it.rerun.as_ref().map(|it| Rerun::new(it, others)),
        }
    }
}

impl Rerun {
    pub(super) fn new(it: &wire::Rerun, others: &mut Sanitizer) -> Self {
        Self { commit: others.line(&it.commit), commands: others.lines(&it.commands) }
    }
}

impl Review {
    fn new(it: &wire::Review, others: &mut Sanitizer) -> Self {
        Self {
            feedback: others.text(&it.feedback),
            review_summary: others.text(&it.review_summary),
            reviewed_refs: others.lines(&it.reviewed_refs),
            feedback_details: it.details.iter().map(|it| Detail::new(it, others)).collect(),
        }
    }
}

impl Detail {
    fn new(it: &wire::FeedbackDetail, others: &mut Sanitizer) -> Self {
        Self {
            dimension: others.line(&it.dimension),
            severity: others.line(&it.severity),
            file_path: others.line(&it.file_path),
            line_range: others.line(&it.line_range),
            content: others.text(&it.content),
            suggestion: others.text(&it.suggestion),
        }
    }
}

impl Next {
    pub(super) fn new(it: &wire::NextStep) -> Self {
        let has_task = !it.task_id.is_empty();
        Self {
            next_step_token: it.token.clone(),
            next_step: Step {
                r#type: if has_task { "claim_task" } else { "end" },
                task_id: it.task_id.clone(),
            },
            difficulty: difficulty(it.difficulty()),
            reserved_until_ms: it.reserved_until_ms,
            worker_total_points: it.worker_total_points,
            consecutive_low_scores: it.consecutive_low_scores,
        }
    }
}

impl Message {
    pub(super) fn new(it: &wire::TaskMessage, others: &mut Sanitizer) -> Self {
        let status = match it.status() {
            wire::MessageStatus::Unspecified => "",
            wire::MessageStatus::Open => "open",
            wire::MessageStatus::Replied => "replied",
            wire::MessageStatus::Resolved => "resolved",
        };
        Self {
            id: it.message_id.clone(),
            task_id: it.task_id.clone(),
            sender_id: it.sender.clone(),
            kind: it.kind.clone(),
            status,
            content: others.text(&it.content),
            refs: others.text(&it.refs),
            created_at: Time(it.created_ms),
            reply_by: it.replied_by.clone(),
            reply_content: others.text(&it.reply),
            reply_refs: others.text(&it.reply_refs),
        }
    }
}

const TASK_STATUSES: [wire::TaskStatus; 5] = [
    wire::TaskStatus::Open,
    wire::TaskStatus::InProgress,
    wire::TaskStatus::Blocked,
    wire::TaskStatus::Done,
    wire::TaskStatus::Canceled,
];

pub(super) const fn issue_status(it: wire::IssueStatus) -> &'static str {
    match it {
        wire::IssueStatus::Unspecified => "",
        wire::IssueStatus::Open => "open",
        wire::IssueStatus::InProgress => "in_progress",
        wire::IssueStatus::Done => "done",
        wire::IssueStatus::Canceled => "canceled",
    }
}

pub(super) const fn task_status(it: wire::TaskStatus) -> &'static str {
    match it {
        wire::TaskStatus::Unspecified => "",
        wire::TaskStatus::Open => "open",
        wire::TaskStatus::InProgress => "in_progress",
        wire::TaskStatus::Blocked => "blocked",
        wire::TaskStatus::Done => "done",
        wire::TaskStatus::Canceled => "canceled",
    }
}

pub(super) const fn stage(it: wire::TaskStage) -> &'static str {
    match it {
        wire::TaskStage::Unspecified => "",
        wire::TaskStage::Ready => "ready",
        wire::TaskStage::Waiting => "waiting",
        wire::TaskStage::Reserved => "reserved",
        wire::TaskStage::Working => "working",
        wire::TaskStage::Asking => "asking",
        wire::TaskStage::Submitted => "submitted",
        wire::TaskStage::InReview => "in_review",
        wire::TaskStage::Done => "done",
        wire::TaskStage::Canceled => "canceled",
    }
}

pub(super) const fn difficulty(it: wire::Difficulty) -> &'static str {
    match it {
        wire::Difficulty::Unspecified => "",
        wire::Difficulty::Easy => "easy",
        wire::Difficulty::Medium => "medium",
        wire::Difficulty::Focus => "focus",
    }
}

const fn submission_status(it: wire::SubmissionStatus) -> &'static str {
    match it {
        wire::SubmissionStatus::Unspecified => "",
        wire::SubmissionStatus::Open => "open",
        wire::SubmissionStatus::Approved => "approved",
        wire::SubmissionStatus::Rejected => "rejected",
        wire::SubmissionStatus::Superseded => "superseded",
        wire::SubmissionStatus::Reset => "reset",
    }
}

pub(super) fn is_nothing(number: &usize) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_zero_32(number: &u32) -> bool {
    *number == 0
}
