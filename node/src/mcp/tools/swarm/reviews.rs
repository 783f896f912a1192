//! What a lead judges: what a worker does after a submission, the verdict, and replies.

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    limits::REFS_BYTES_MAX,
    reason::Reason,
    review_terms::with_defaults,
    swarm::{IssueId, SCORE_REJECTED},
    wire,
};

use super::{
    super::{
        arguments::missing,
        field_types::{Id, Name, Text, Word, Words},
        result::json_result,
        sanitizer::Sanitizer,
        tool::ToolInfo,
        view::is_nothing,
    },
    LEAD_CORE, LEAD_FULL, SwarmTool,
    answer::answer,
    args::{self, Approves, Score, Timeout},
    caller::Caller,
    views,
};
use crate::{role::Refusal, wait::Awaited};

/// Declares a wait for the events of an issue: the tool, or one of its aliases.
macro_rules! wait_events {
    ($(#[$doc:meta])* $name:ident $tool:literal $sets:expr) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, JsonSchema)]
        pub(super) struct $name {
            issue_id: Id<IssueId>,
            #[schemars(skip)]
            timeout_sec: Option<Timeout>,
        }

        impl SwarmTool for $name {
            const INFO: ToolInfo = ToolInfo::read($tool, $sets);

            async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
                // What the agent was shown a moment ago is not shown again.
                caller.settled().await;
                caller.wait(Awaited::Items(self.issue_id.0), self.timeout_sec).await
            }
        }
    };
}

wait_events! {
    /// Waits for the next event of an issue that needs you: a submission, a question, or the verdict
    /// on its delivery.
    WaitEvents "waitIssueTaskEvents" &[LEAD_CORE]
}
wait_events! {
    /// Alias of waitIssueTaskEvents.
    SelectInbox "selectIssueInbox" &[LEAD_FULL]
}
wait_events! {
    /// Alias of waitIssueTaskEvents.
    NextSignal "nextIssueSignal" &[LEAD_FULL]
}
wait_events! {
    /// Alias of waitIssueTaskEvents.
    StepInbox "stepLeadInbox" &[LEAD_FULL]
}

/// Reserves the worker's next task and returns the token that approving needs.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct GetNextStep {
    issue_id: Id<IssueId>,
    task_id: Name,
    worker_id: Name,
    completion_score: Score,
}

impl SwarmTool for GetNextStep {
    const INFO: ToolInfo = ToolInfo::write("getNextStepToken", &[LEAD_CORE]).with_role(args::NONE);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::MintNextStepRequest {
            issue_id: self.issue_id.0.to_string(),
            task_id: self.task_id.0,
            worker: self.worker_id.0,
            completion_score: self.completion_score.0,
            ..wire::MintNextStepRequest::default()
        };
        let minted = caller.execute(request).await?;
        let next = views::Next::new(&minted.next_step.unwrap_or_default());
        Ok(json_result(&NextStepOffer {
            next,
            repeated: minted.repeated,
            next_actions: [
                "To approve, call reviewIssueTask with this next_step_token and the same \
                            completion_score. Points are granted on approval.",
            ],
        })
        .into())
    }
}

#[derive(Debug, Serialize)]
struct NextStepOffer {
    #[serde(flatten)]
    next: views::Next,
    /// It is the one that was made before.
    #[serde(skip_serializing_if = "is_nothing")]
    repeated: bool,
    next_actions: [&'static str; 1],
}

/// A verdict, and how the whole issue stands after it.
#[derive(Debug, Serialize)]
struct Reviewed {
    #[serde(flatten)]
    task: views::Task,
    /// It had been given before.
    #[serde(skip_serializing_if = "is_nothing")]
    repeated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    issue: Option<views::Issue>,
}

/// Approves or rejects a submission and notifies its worker.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ReviewTask {
    issue_id: Id<IssueId>,
    task_id: Name,
    /// Required if several are open.
    submission_id: Option<Name>,
    /// approved or rejected.
    verdict: Word<Approves>,
    /// 1 poor, 2 fair, 5 good. Required to approve.
    completion_score: Option<Score>,
    /// From getNextStepToken. Required to approve.
    next_step_token: Option<Name>,
    /// For the worker. Or give feedback_details.
    feedback: Option<String>,
    artifacts: Option<Artifacts>,
    /// Default: the feedback.
    feedback_details: Option<Vec<Finding>>,
}

impl SwarmTool for ReviewTask {
    const INFO: ToolInfo = ToolInfo::write("reviewIssueTask", &[LEAD_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let issue_id = self.issue_id.0.to_string();
        let Word(Approves(is_approved)) = self.verdict;
        let next_step_token = self.next_step_token.unwrap_or_default().0;
        if is_approved && next_step_token.is_empty() {
            return Err(Refusal {
                reason: Reason::InvalidArgument,
                message: "next_step_token is required to approve: call getNextStepToken, then \
                          reviewIssueTask with its token. No change was made."
                    .to_owned(),
            });
        }
        let score = match (self.completion_score, is_approved) {
            (Some(Score(score)), _) => score,
            (None, false) => SCORE_REJECTED,
            (None, true) => {
                let what = "required to approve: 1 poor, 2 fair, 5 good";
                return Err(missing("completion_score", what));
            }
        };
        let submission_id = self.submission_id.unwrap_or_default().0;
        let task_id = self.task_id.0;
        let looked_at = if submission_id.is_empty() { &task_id } else { &submission_id };
        let draft = ReviewDraft {
            feedback: self.feedback.unwrap_or_default(),
            artifacts: self.artifacts.unwrap_or_default(),
            details: self.feedback_details.unwrap_or_default(),
        };
        let review = draft.into_review(is_approved, looked_at)?;
        let request = wire::ReviewTaskRequest {
            issue_id: issue_id.clone(),
            task_id,
            submission_id,
            completion_score: score,
            next_step_token,
            review: Some(review),
            ..wire::ReviewTaskRequest::default()
        };
        let reviewed = caller.execute(request).await?;
        // The verdict stands whether or not this is known.
        let of = wire::GetIssueRequest { issue_id, ..wire::GetIssueRequest::default() };
        let issue = caller.query(of).await.ok().and_then(|it| it.issue);
        let next = after_review(is_approved, issue.as_ref());
        let mut others = Sanitizer::default();
        let task = views::Task::new(&reviewed.task.unwrap_or_default(), &mut others);
        let issue = issue.map(|it| views::Issue::new(&brief(it), &mut others));
        let reviewed_task = Reviewed { task, repeated: reviewed.repeated, issue };
        Ok(answer(reviewed_task, reviewed.now_ms, &others, vec![next.to_owned()]).into())
    }
}

/// Without what its lead knows.
fn brief(it: wire::Issue) -> wire::Issue {
    wire::Issue {
        description: String::new(),
        shared_doc_paths: Vec::new(),
        project_doc_paths: Vec::new(),
        ..it
    }
}

fn after_review(is_approved: bool, issue: Option<&wire::Issue>) -> &'static str {
    use wire::TaskStatus::{InProgress, Open, WaitingForAnswer};
    let is_left = |it: &wire::Issue| {
        [Open, InProgress, WaitingForAnswer]
            .into_iter()
            .any(|status| it.tasks.unwrap_or_default().of(status) != 0)
    };
    match issue {
        _ if !is_approved => "Its worker is notified and keeps the task. Call waitIssueTaskEvents.",
        Some(issue) if !is_left(issue) => {
            "All tasks are done. Test the whole, then call submitDelivery."
        }
        Some(_) | None => "Call waitIssueTaskEvents for the next event.",
    }
}

/// What a verdict rests on, as far as it was said.
struct ReviewDraft {
    feedback: String,
    artifacts: Artifacts,
    details: Vec<Finding>,
}

impl ReviewDraft {
    /// The review, filled up as `tasuki task review` does.
    fn into_review(self, is_approved: bool, looked_at: &str) -> Result<wire::Review, Refusal> {
        let review_summary = self.artifacts.review_summary.unwrap_or_default().0;
        let is_said = [&self.feedback, &review_summary].iter().any(|it| !it.trim().is_empty());
        if !is_said && self.details.is_empty() {
            let what = "say what you found, here or in feedback_details";
            return Err(missing("feedback", what));
        }
        let review = wire::Review {
            is_approved,
            feedback: self.feedback,
            review_summary,
            reviewed_refs: self.artifacts.reviewed_refs.unwrap_or_default(),
            details: self.details.into_iter().map(Into::into).collect(),
        };
        Ok(with_defaults(review, looked_at))
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
struct Artifacts {
    review_summary: Option<Text>,
    /// Default: the submission.
    reviewed_refs: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Finding {
    dimension: Word<Dimension>,
    severity: Word<Severity>,
    file_path: Option<String>,
    line_range: Option<Name>,
    content: Text,
    suggestion: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Dimension(&'static str);

impl Words for Dimension {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("correctness", Self("correctness")),
        ("security", Self("security")),
        ("performance", Self("performance")),
        ("maintainability", Self("maintainability")),
        ("style", Self("style")),
        ("test", Self("test")),
        ("docs", Self("docs")),
    ];
}

#[derive(Debug, Clone, Copy)]
struct Severity(&'static str);

impl Words for Severity {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("info", Self("info")),
        ("minor", Self("minor")),
        ("major", Self("major")),
        ("critical", Self("critical")),
    ];
}

impl From<Finding> for wire::FeedbackDetail {
    fn from(it: Finding) -> Self {
        Self {
            dimension: it.dimension.0.0.to_owned(),
            severity: it.severity.0.0.to_owned(),
            file_path: it.file_path.unwrap_or_default(),
            line_range: it.line_range.unwrap_or_default().0,
            content: it.content.0,
            suggestion: it.suggestion.unwrap_or_default(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Replied {
    message: views::Message,
    /// As its task stands.
    task_status: &'static str,
    #[serde(skip_serializing_if = "is_nothing")]
    repeated: bool,
}

/// Answers a worker's question. The worker continues its task.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ReplyMessage {
    issue_id: Id<IssueId>,
    task_id: Name,
    /// Required if several are open.
    message_id: Option<Name>,
    content: Text,
    refs: Option<Text<REFS_BYTES_MAX>>,
}

impl SwarmTool for ReplyMessage {
    const INFO: ToolInfo = ToolInfo::write("replyIssueTaskMessage", &[LEAD_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::ReplyMessageRequest {
            issue_id: self.issue_id.0.to_string(),
            task_id: self.task_id.0,
            message_id: self.message_id.unwrap_or_default().0,
            content: self.content.0,
            refs: self.refs.unwrap_or_default().0,
            ..wire::ReplyMessageRequest::default()
        };
        let replied = caller.execute(request).await?;
        let mut others = Sanitizer::default();
        let reply = Replied {
            message: views::Message::new(&replied.message.unwrap_or_default(), &mut others),
            task_status: views::task_status(replied.task.unwrap_or_default().status()),
            repeated: replied.repeated,
        };
        let next = "Its worker is notified. Call waitIssueTaskEvents for the next event.";
        Ok(answer(reply, replied.now_ms, &others, vec![next.to_owned()]).into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::super::arguments, *};

    fn read(arguments: serde_json::Value) -> Result<wire::Review, Refusal> {
        let mut whole = json!({
            "issue_id": "issue_1_0000", "task_id": "task-1", "verdict": "approved",
        });
        whole.as_object_mut().unwrap().extend(arguments.as_object().cloned().unwrap());
        let it: ReviewTask = arguments::read_all(whole.as_object().unwrap())?;
        let draft = ReviewDraft {
            feedback: it.feedback.unwrap_or_default(),
            artifacts: it.artifacts.unwrap_or_default(),
            details: it.feedback_details.unwrap_or_default(),
        };
        draft.into_review(it.verdict.0.0, "task-1")
    }

    #[test]
    fn feedback_is_checked_field_by_field() {
        let looked = json!({ "review_summary": "fine", "reviewed_refs": ["a.rs"] });
        let fine = json!({ "dimension": "Correctness", "severity": "info", "content": "ok",
            "line_range": 7 });
        let with = |detail: serde_json::Value| json!({ "artifacts": looked, "feedback_details": [fine, detail] });
        let review = read(with(fine.clone())).unwrap();
        assert_eq!(
            (review.details.len(), &review.reviewed_refs[..]),
            (2, &["a.rs".to_owned()][..])
        );
        let detail = &review.details[0];
        assert_eq!((&detail.dimension[..], &detail.line_range[..]), ("correctness", "7"));
        for (arguments, words) in [
            (json!({}), "`feedback` is missing"),
            (json!({ "feedback": " ", "feedback_details": [] }), "`feedback` is missing"),
            (
                with(json!({ "severity": "info", "content": "x" })),
                "`feedback_details[1].dimension` is missing",
            ),
            (
                with(json!({ "dimension": "taste", "severity": "info", "content": "x" })),
                "one of correctness",
            ),
            (
                with(json!({ "dimension": "docs", "severity": "grave", "content": "x" })),
                "info, minor, major, critical",
            ),
            (
                with(json!({ "dimension": "docs", "severity": "info", "content": " " })),
                "`feedback_details[1].content` is empty",
            ),
            (with(json!("bad")), "`feedback_details[1]` must be an object"),
        ] {
            let why = read(arguments).unwrap_err();
            assert_eq!(why.reason, Reason::InvalidArgument);
            assert!(why.message.contains(words), "{}", why.message);
        }
    }

    #[test]
    fn a_verdict_needs_no_more_than_why() {
        for (arguments, severity, content) in [
            (json!({ "feedback": "good" }), "info", "good"),
            (json!({ "verdict": "rejected", "feedback": "no tests" }), "major", "no tests"),
            (json!({ "artifacts": { "review_summary": "fine" } }), "info", "fine"),
        ] {
            let review = read(arguments).unwrap();
            assert_eq!(review.reviewed_refs, ["task-1"]);
            let [detail] = &review.details[..] else { panic!("{:?}", review.details) };
            assert_eq!((&detail.severity[..], &detail.content[..]), (severity, content));
        }
    }

    #[test]
    fn after_the_last_approval_it_is_time_to_deliver() {
        let with = |tasks| wire::Issue { tasks: Some(tasks), ..wire::Issue::default() };
        let done = with(wire::TaskCounts { done: 2, ..Default::default() });
        let asked = with(wire::TaskCounts { done: 1, waiting_for_answer: 1, ..Default::default() });
        let after = |issue: &wire::Issue| after_review(true, Some(issue));
        assert!(after(&done).contains("submitDelivery"));
        assert!(after(&asked).contains("waitIssueTaskEvents"));
        assert!(after_review(false, Some(&done)).contains("notified"));
        assert!(after_review(true, None).contains("waitIssueTaskEvents"));
    }
}
