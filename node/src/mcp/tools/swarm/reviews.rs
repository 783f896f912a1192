//! What a lead judges: what a worker does after a submission, the verdict, and replies.

use rmcp::model::{CallToolResponse, CallToolResult};
use serde::Serialize;
use tasuki_proto::{reason::Reason, wire};

use super::{
    super::{
        arguments::{Arguments, invalid, missing},
        result::shown,
        sanitizer::Sanitizer,
    },
    answer::answer,
    args,
    caller::Caller,
    views,
};
use crate::role::{Refusal, swarm::Awaited};

pub(super) async fn wait_events(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResponse, Refusal> {
    let issue = args::issue(arguments)?;
    // What the agent was shown a moment ago is not shown again.
    caller.settled().await;
    caller.wait(Awaited::Items(issue), arguments).await
}

pub(super) async fn next_step(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::MintNextStepRequest {
        issue_id: args::issue(arguments)?.to_string(),
        task_id: args::required(arguments, args::TASK)?,
        worker: args::required(arguments, "worker_id")?,
        completion_score: args::score(arguments)?,
        ..wire::MintNextStepRequest::default()
    };
    let minted = caller.tell(request).await?;
    let next = views::Next::new(&minted.next_step.unwrap_or_default());
    Ok(shown(&Minted {
        next,
        repeated: minted.repeated,
        next_actions: ["To approve, call reviewIssueTask with this next_step_token and the same \
                        completion_score. Points are granted on approval."],
    }))
}

#[derive(Debug, Serialize)]
struct Minted {
    #[serde(flatten)]
    next: views::Next,
    /// It is the one that was made before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
    next_actions: [&'static str; 1],
}

/// A verdict, and how the whole issue stands after it.
#[derive(Debug, Serialize)]
struct Reviewed {
    #[serde(flatten)]
    task: views::Task,
    /// It had been given before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    issue: Option<views::Issue>,
}

pub(super) async fn review(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let issue_id = args::issue(arguments)?.to_string();
    let is_approved = args::approves(arguments)?;
    let next_step_token = arguments.name("next_step_token")?.unwrap_or_default();
    if is_approved && next_step_token.is_empty() {
        return Err(Refusal {
            reason: Reason::InvalidArgument,
            message: "next_step_token is required to approve: call getNextStepToken, then \
                      reviewIssueTask with its token. No change was made."
                .to_owned(),
        });
    }
    let request = wire::ReviewTaskRequest {
        issue_id: issue_id.clone(),
        task_id: args::required(arguments, args::TASK)?,
        submission_id: arguments.name("submission_id")?.unwrap_or_default(),
        completion_score: args::score(arguments)?,
        next_step_token,
        review: Some(wire::Review { is_approved, ..review_words(arguments)? }),
        ..wire::ReviewTaskRequest::default()
    };
    let reviewed = caller.tell(request).await?;
    // The verdict stands whether or not this is known.
    let of = wire::GetIssueRequest { issue_id, ..wire::GetIssueRequest::default() };
    let issue = caller.ask(of).await.ok().and_then(|it| it.issue);
    let next = after_review(is_approved, issue.as_ref());
    let mut others = Sanitizer::default();
    let task = views::Task::new(&reviewed.task.unwrap_or_default(), &mut others);
    let issue = issue.map(|it| views::Issue::new(&brief(it), &mut others));
    let told = Reviewed { task, repeated: reviewed.repeated, issue };
    Ok(answer(told, reviewed.now_ms, &others, vec![next.to_owned()]))
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
    use wire::TaskStatus::{Blocked, InProgress, Open};
    let is_left = |it: &wire::Issue| {
        [Open, InProgress, Blocked]
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

fn review_words(arguments: Arguments<'_>) -> Result<wire::Review, Refusal> {
    const DETAILS: &str = "feedback_details";
    let required = |what: &str| Refusal {
        reason: Reason::InvalidArgument,
        message: format!(
            "artifacts.reviewed_refs and feedback_details are required: {what}. No change was made."
        ),
    };
    let artifacts = arguments.required_object("artifacts", "give what you reviewed")?;
    let reviewed_refs = artifacts.texts("reviewed_refs")?;
    if reviewed_refs.is_empty() {
        return Err(required("list the files or commits you reviewed in reviewed_refs"));
    }
    let found = arguments.objects(DETAILS)?;
    if found.is_empty() {
        return Err(required("give your findings in feedback_details, one entry or more"));
    }
    let mut details = Vec::new();
    for (place, it) in found.into_iter().enumerate() {
        details.push(detail(it).map_err(|why| args::of(DETAILS, place, why))?);
    }
    Ok(wire::Review {
        is_approved: false,
        feedback: arguments.text("feedback")?.unwrap_or_default(),
        review_summary: artifacts.words("review_summary", "summarize your findings")?,
        reviewed_refs,
        details,
    })
}

const DIMENSIONS: [&str; 7] =
    ["correctness", "security", "performance", "maintainability", "style", "test", "docs"];
const SEVERITIES: [&str; 4] = ["info", "minor", "major", "critical"];

fn detail(it: Arguments<'_>) -> Result<wire::FeedbackDetail, Refusal> {
    let one_of = |field: &'static str, known: &[&str]| {
        let known_words = known.join(", ");
        let word = args::word(it, field)?;
        let word = word.ok_or_else(|| missing(&it.at(field), &format!("one of {known_words}")))?;
        match known.contains(&word.as_str()) {
            true => Ok(word),
            false => Err(invalid(&it.at(field), &format_args!("must be one of {known_words}"))),
        }
    };
    Ok(wire::FeedbackDetail {
        dimension: one_of("dimension", &DIMENSIONS)?,
        severity: one_of("severity", &SEVERITIES)?,
        file_path: it.text("file_path")?.unwrap_or_default(),
        line_range: it.name("line_range")?.unwrap_or_default(),
        content: it.words("content", "give your finding")?,
        suggestion: it.text("suggestion")?.unwrap_or_default(),
    })
}

#[derive(Debug, Serialize)]
struct Replied {
    message: views::Message,
    /// As its task stands.
    task_status: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

pub(super) async fn reply(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::ReplyMessageRequest {
        issue_id: args::issue(arguments)?.to_string(),
        task_id: args::required(arguments, args::TASK)?,
        message_id: arguments.name("message_id")?.unwrap_or_default(),
        content: arguments.words("content", "give the answer for the worker")?,
        refs: args::refs(arguments)?,
        ..wire::ReplyMessageRequest::default()
    };
    let replied = caller.tell(request).await?;
    let mut others = Sanitizer::default();
    let told = Replied {
        message: views::Message::new(&replied.message.unwrap_or_default(), &mut others),
        task_status: views::task_status(replied.task.unwrap_or_default().status()),
        repeated: replied.repeated,
    };
    let next = "Its worker is notified. Call waitIssueTaskEvents for the next event.";
    Ok(answer(told, replied.now_ms, &others, vec![next.to_owned()]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(arguments: serde_json::Value) -> String {
        let fields = arguments.as_object().cloned().unwrap();
        let why = review_words(Arguments::new(&fields)).unwrap_err();
        assert_eq!(why.reason, Reason::InvalidArgument);
        why.message
    }

    #[test]
    fn feedback_is_checked_field_by_field() {
        let looked = json!({ "review_summary": "fine", "reviewed_refs": ["a.rs"] });
        let fine = json!({ "dimension": "Correctness", "severity": "info", "content": "ok",
            "line_range": 7 });
        let with = |detail: serde_json::Value| json!({ "artifacts": looked, "feedback_details": [fine, detail] });
        let fields = with(fine.clone()).as_object().cloned().unwrap();
        let words = review_words(Arguments::new(&fields)).unwrap();
        assert_eq!(words.details.len(), 2);
        assert_eq!(
            (&words.details[0].dimension[..], &words.details[0].line_range[..]),
            ("correctness", "7")
        );
        const BOTH: &str = "artifacts.reviewed_refs and feedback_details are required";
        assert!(refused(json!({ "artifacts": looked })).starts_with(BOTH));
        let none = json!({ "artifacts": { "review_summary": "x", "reviewed_refs": [] } });
        assert!(refused(none).starts_with(BOTH));
        assert!(refused(json!({ "feedback_details": [fine] })).contains("`artifacts` is missing"));
        for (detail, words) in [
            (
                json!({ "severity": "info", "content": "x" }),
                "feedback_details[1]: `feedback_details.dimension` is missing",
            ),
            (
                json!({ "dimension": "taste", "severity": "info", "content": "x" }),
                "one of correctness",
            ),
            (
                json!({ "dimension": "docs", "severity": "grave", "content": "x" }),
                "info, minor, major, critical",
            ),
            (
                json!({ "dimension": "docs", "severity": "info", "content": " " }),
                "`feedback_details.content` is empty",
            ),
            (json!("bad"), "a list of objects"),
        ] {
            let why = refused(with(detail));
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn after_the_last_approval_it_is_time_to_deliver() {
        let with = |tasks| wire::Issue { tasks: Some(tasks), ..wire::Issue::default() };
        let done = with(wire::TaskCounts { done: 2, ..Default::default() });
        let blocked = with(wire::TaskCounts { done: 1, blocked: 1, ..Default::default() });
        let after = |issue: &wire::Issue| after_review(true, Some(issue));
        assert!(after(&done).contains("submitDelivery"));
        assert!(after(&blocked).contains("waitIssueTaskEvents"));
        assert!(after_review(false, Some(&done)).contains("notified"));
        assert!(after_review(true, None).contains("waitIssueTaskEvents"));
    }
}
