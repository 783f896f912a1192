//! What answers about issues, tasks, deliveries and locks are made of, field by field, in the order
//! an agent reads them. Fields that say nothing are left out. Times are by the broker's clock. Each
//! thing is named by `id`, as prompts for other servers know it, and by the name of the argument
//! that takes it; a time in `…_ms` is there for those prompts too.

use std::collections::BTreeMap;

use serde::Serialize;
use tasuki_proto::wire;

pub(super) use super::super::result::Time;
use super::super::{
    sanitizer::Sanitizer,
    view::{is_nothing, view},
};

/// Which task or message or file something is about, and when, in each of these.
type Texts = Vec<String>;

view! {
    Issue(it: wire::Issue, others) with {
        let tasks = it.tasks.unwrap_or_default();
        let counted = |status: wire::TaskStatus| {
            let count = tasks.of(status);
            (count != 0).then(|| (task_status(status), count))
        };
    } {
        id: String = it.issue_id.clone(),
        issue_id: String = it.issue_id.clone(),
        subject: String = others.line(&it.subject),
        status: &'static str = issue_status(it.status()),
        lead: String = it.lead.clone(),
        description: String = others.text(&it.description) => if_any,
        summary: String = others.text(&it.summary) => if_any,
        is_unaccepted: bool = it.is_unaccepted => if_any,
        docs: Texts = others.lines(&it.docs),
        shared_doc_paths: Texts = others.lines(&it.shared_doc_paths) => if_any,
        project_doc_paths: Texts = others.lines(&it.project_doc_paths) => if_any,
        /// How many are in each state.
        tasks: BTreeMap<&'static str, u64> =
            TASK_STATUSES.into_iter().filter_map(counted).collect(),
        lease_expires_at: Time = Time(it.lease_expires_ms) => if_any,
        lease_expires_at_ms: u64 = it.lease_expires_ms => if_any,
        created_at: Time = Time(it.created_ms),
        updated_at: Time = Time(it.updated_ms),
    }
}

view! {
    Task(it: wire::Task, others) {
        id: String = it.task_id.clone(),
        task_id: String = it.task_id.clone(),
        issue_id: String = it.issue_id.clone(),
        subject: String = others.line(&it.subject),
        status: &'static str = task_status(it.status()),
        /// Finer than the status, derived.
        stage: &'static str = stage(it.stage()),
        difficulty: &'static str = difficulty(it.difficulty()),
        points: u32 = it.points,
        blocked_by: Texts = it.blocked_by.clone() => if_any,
        claimed_by: String = it.claimed_by.clone() => if_any,
        lease_expires_at: Time = Time(it.lease_expires_ms) => if_any,
        lease_expires_at_ms: u64 = it.lease_expires_ms => if_any,
        reserved_for: String = it.reserved_for.clone() => if_any,
        reserved_token: String = it.reserved_token.clone() => if_any,
        reserved_until: Time = Time(it.reserved_until_ms) => if_any,
        reserved_until_ms: u64 = it.reserved_until_ms => if_any,
        #[serde(flatten)]
        words: Option<Words> = it.words.as_ref().map(|it| Words::new(it, others)),
        submission: Option<Submission> =
            it.submission.as_ref().map(|it| Submission::new(it, others)) => if_any,
        messages: Vec<Message> =
            it.messages.iter().map(|it| Message::new(it, others)).collect() => if_any,
        created_at: Time = Time(it.created_ms),
        updated_at: Time = Time(it.updated_ms),
    }
}

view! {
    /// What a task is about.
    Words(it: wire::TaskWords, others) {
        description: String = others.text(&it.description),
        spec: Option<Spec> = it
            .spec
            .as_ref()
            .filter(|it| **it != wire::TaskSpec::default())
            .map(|it| Spec::new(it, others)) => if_any,
        context_task_ids: Texts = others.lines(&it.context_task_ids),
        suggested_files: Texts = others.lines(&it.suggested_files),
        labels: Texts = others.lines(&it.labels),
        doc_paths: Texts = others.lines(&it.doc_paths),
        required_issue_docs: Texts = others.lines(&it.required_issue_docs) => if_any,
        required_task_docs: Texts = others.lines(&it.required_task_docs) => if_any,
    }
}

view! {
    Spec(it: wire::TaskSpec, others) {
        name: String = others.text(&it.name) => if_any,
        split_from: String = others.text(&it.split_from) => if_any,
        split_reason: String = others.text(&it.split_reason) => if_any,
        impact_scope: String = others.text(&it.impact_scope) => if_any,
        context_task_ids: Texts = others.lines(&it.context_task_ids) => if_any,
        goal: String = others.text(&it.goal) => if_any,
        rules: String = others.text(&it.rules) => if_any,
        constraints: String = others.text(&it.constraints) => if_any,
        conventions: String = others.text(&it.conventions) => if_any,
        acceptance: String = others.text(&it.acceptance) => if_any,
    }
}

view! {
    Submission(it: wire::Submission, others) with {
        let verdict = match it.status() {
            wire::SubmissionStatus::Approved => Some("approved"),
            wire::SubmissionStatus::Rejected => Some("rejected"),
            wire::SubmissionStatus::Unspecified
            | wire::SubmissionStatus::Open
            | wire::SubmissionStatus::Superseded
            | wire::SubmissionStatus::Reset => None,
        };
    } {
        id: String = it.submission_id.clone(),
        submission_id: String = it.submission_id.clone(),
        worker_id: String = it.worker.clone(),
        status: &'static str = submission_status(it.status()),
        submitted_at: Time = Time(it.submitted_ms),
        reviewed_by: String = it.reviewed_by.clone() => if_any,
        verdict: Option<&'static str> = verdict => if_any,
        completion_score: u32 = it.completion_score => if_any,
        /// Before what may be long: clients cut long results.
        next: Option<Next> = it.next_step.as_ref().map(Next::new) => if_any,
        artifacts: Option<Artifacts> =
            it.words.as_ref().map(|it| Artifacts::new(it, others)) => if_any,
        review: Option<Review> = it.review.as_ref().map(|it| Review::new(it, others)) => if_any,
    }
}

view! {
    Artifacts(it: wire::SubmissionWords, others) {
        summary: String = others.text(&it.summary),
        changed_files: Texts = others.lines(&it.changed_files),
        diff: String = others.text(&it.diff) => if_any,
        links: Texts = others.lines(&it.links) => if_any,
        test_cases: Texts = others.lines(&it.test_cases),
        test_result: String = others.text(&it.test_result),
        test_output: String = others.text(&it.test_output),
        #[serde(flatten)]
        rerun: Option<Rerun> = it.rerun.as_ref().map(|it| Rerun::new(it, others)),
    }
}

view! {
    Rerun(it: wire::Rerun, others) {
        commit: String = others.line(&it.commit),
        commands: Texts = others.lines(&it.commands),
    }
}

view! {
    Review(it: wire::Review, others) {
        feedback: String = others.text(&it.feedback) => if_any,
        review_summary: String = others.text(&it.review_summary),
        reviewed_refs: Texts = others.lines(&it.reviewed_refs),
        feedback_details: Vec<Detail> =
            it.details.iter().map(|it| Detail::new(it, others)).collect(),
    }
}

view! {
    Detail(it: wire::FeedbackDetail, others) {
        dimension: String = others.line(&it.dimension),
        severity: String = others.line(&it.severity),
        file_path: String = others.line(&it.file_path) => if_any,
        line_range: String = others.line(&it.line_range) => if_any,
        content: String = others.text(&it.content),
        suggestion: String = others.text(&it.suggestion) => if_any,
    }
}

/// What a worker does after a submission.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Next {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_step_token: String,
    pub next_step: Step,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub difficulty: &'static str,
    #[serde(skip_serializing_if = "is_nothing")]
    pub reserved_until: Time,
    pub worker_total_points: u64,
    pub consecutive_low_scores: u32,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Step {
    pub r#type: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_id: String,
}

view! {
    Message(it: wire::TaskMessage, others) with {
        let status = match it.status() {
            wire::MessageStatus::Unspecified => "",
            wire::MessageStatus::Open => "open",
            wire::MessageStatus::Replied => "replied",
            wire::MessageStatus::Resolved => "resolved",
        };
    } {
        id: String = it.message_id.clone(),
        message_id: String = it.message_id.clone(),
        task_id: String = it.task_id.clone(),
        sender_id: String = it.sender.clone(),
        kind: String = it.kind.clone(),
        status: &'static str = status,
        content: String = others.text(&it.content),
        refs: String = others.text(&it.refs) => if_any,
        created_at: Time = Time(it.created_ms),
        reply_by: String = it.replied_by.clone() => if_any,
        reply_content: String = others.text(&it.reply) => if_any,
        reply_refs: String = others.text(&it.reply_refs) => if_any,
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
            reserved_until: Time(it.reserved_until_ms),
            worker_total_points: it.worker_total_points,
            consecutive_low_scores: it.consecutive_low_scores,
        }
    }
}

const TASK_STATUSES: [wire::TaskStatus; 5] = [
    wire::TaskStatus::Open,
    wire::TaskStatus::InProgress,
    wire::TaskStatus::WaitingForAnswer,
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
        wire::TaskStatus::WaitingForAnswer => "waiting_for_answer",
        wire::TaskStatus::Done => "done",
        wire::TaskStatus::Canceled => "canceled",
    }
}

pub(super) const fn stage(it: wire::TaskStage) -> &'static str {
    match it {
        wire::TaskStage::Unspecified => "",
        wire::TaskStage::Ready => "ready",
        wire::TaskStage::Blocked => "blocked",
        wire::TaskStage::Reserved => "reserved",
        wire::TaskStage::Working => "working",
        wire::TaskStage::WaitingForAnswer => "waiting_for_answer",
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
