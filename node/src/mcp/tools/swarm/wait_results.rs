//! What waits about issues, tasks and deliveries end with.

use rmcp::model::CallToolResult;
use serde::Serialize;
use tasuki_proto::{
    id::RoleId,
    wire::{
        MessageStatus, Submission, SubmissionStatus, SwarmAnswer, TaskMessage,
        swarm_answer::Standing,
    },
};

use super::{
    super::{
        result::{add_field, json_result},
        sanitizer::{FRAME, Sanitizer},
        view::is_nothing,
        waiting::{PauseView, role_paused, superseded},
    },
    delivery_views, items, views,
};
use crate::{role::Refusal, wait::Awaited};

/// What was waited for, or how the wait ended without it.
#[derive(Debug, Serialize)]
struct Waited {
    status: &'static str,
    /// What was submitted or asked, known also where nothing of it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    submission_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    issues: Vec<views::Issue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<views::Task>,
    #[serde(skip_serializing_if = "Option::is_none")]
    submission: Option<views::Submission>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<views::Message>,
    /// What it ended with in place of what was waited for.
    #[serde(skip_serializing_if = "String::is_empty")]
    ended_because: String,
    #[serde(flatten)]
    pause: PauseView,
    #[serde(skip_serializing_if = "is_nothing")]
    server_now: views::Time,
    #[serde(skip_serializing_if = "is_nothing")]
    server_now_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
    next_actions: Vec<String>,
}

/// The answer to a wait of `role`, as a result.
pub(in crate::mcp) fn wait_result(
    role: &RoleId,
    awaited: &Awaited,
    answer: &SwarmAnswer,
) -> CallToolResult {
    let limit = match awaited {
        Awaited::Items(issue) => return items::wait_result(role, *issue, answer),
        Awaited::Deliveries { limit } => return delivery_views::to_claim(role, *limit, answer),
        Awaited::Verdict(delivery) => return delivery_views::verdict(role, *delivery, answer),
        Awaited::Issues { limit, .. } => usize::try_from(*limit).unwrap_or(usize::MAX),
        Awaited::Tasks(_) | Awaited::Review(_) | Awaited::Reply(_) | Awaited::Files { .. } => {
            usize::MAX
        }
    };
    let standing = answer.standing();
    let is_there = standing == Standing::There;
    let mut others = Sanitizer::default();
    let submission_id = if let Awaited::Review(id) = awaited { Some(id.to_string()) } else { None };
    let message_id = if let Awaited::Reply(id) = awaited { Some(id.to_string()) } else { None };
    let issues = answer.issues.iter().take(limit);
    let issues = issues.map(|it| views::Issue::new(it, &mut others)).collect();
    let tasks = answer.tasks.iter().map(|it| views::Task::new(it, &mut others)).collect();
    let submission = answer.submission.clone().map(judged);
    let message = answer.message.as_ref();
    json_result(&Waited {
        status: items::status(standing, answer.ended_because.is_empty()),
        submission_id,
        message_id,
        issues,
        tasks,
        submission: submission.map(|it| views::Submission::new(&it, &mut others)),
        message: message.map(|it| views::Message::new(it, &mut others)),
        ended_because: others.text(&answer.ended_because),
        pause: PauseView::of_role(role, answer.pause.as_ref(), &mut others),
        server_now: views::Time(answer.now_ms),
        server_now_ms: answer.now_ms,
        note: is_there.then_some(FRAME),
        stripped: others.stripped,
        next_actions: next(role, awaited, answer),
    })
}

/// The end of a wait for what comes of something that is stored, of which nothing could be asked.
pub(super) fn unanswered(role: &RoleId, awaited: &Awaited, why: &Refusal) -> CallToolResult {
    let mut result = wait_result(role, awaited, &SwarmAnswer::default());
    let words = format!("Your request is stored; its result is unknown: {}", why.message);
    add_field(&mut result, "unanswered", why.message.as_str().into(), words);
    result
}

/// Without what its worker said itself: a long diff would push the verdict out of what its client
/// shows of a result.
fn judged(it: Submission) -> Submission {
    Submission { words: None, ..it }
}

/// What the agent does now.
fn next(role: &RoleId, awaited: &Awaited, answer: &SwarmAnswer) -> Vec<String> {
    if let Some(paused) = role_paused(role, answer.pause.as_ref()) {
        return vec![paused];
    }
    let said = match answer.standing() {
        Standing::Superseded => superseded(role),
        Standing::Unspecified | Standing::StillWaiting => match awaited {
            Awaited::Issues { .. } => "Nothing yet. Call waitIssues again immediately.".to_owned(),
            Awaited::Tasks(_) => "Nothing yet. Call waitIssueTasks again immediately.".to_owned(),
            Awaited::Items(_) => {
                "Nothing yet. Call waitIssueTaskEvents again immediately.".to_owned()
            }
            Awaited::Review(_) => "No review yet. Call submitIssueTask again immediately with the \
                                   same arguments. Nothing is submitted twice."
                .to_owned(),
            Awaited::Reply(_) => {
                "No answer yet. Call askIssueTask again immediately with the same arguments. \
                 Nothing is asked twice."
                    .to_owned()
            }
            Awaited::Deliveries { .. } => {
                "Nothing yet. Call waitDeliveries again immediately.".to_owned()
            }
            Awaited::Verdict(_) => {
                "No verdict yet. Call submitDelivery again immediately with the same arguments. \
                 Nothing is delivered twice."
                    .to_owned()
            }
            Awaited::Files { .. } => "The files are still locked. Call lockFiles again.".to_owned(),
        },
        Standing::There => match awaited {
            Awaited::Tasks(_) if !answer.ended_because.is_empty() => {
                "This issue has no more tasks. Call waitIssues for another issue.".to_owned()
            }
            Awaited::Tasks(_) if answer.tasks.iter().any(|it| it.claimed_by == role.as_str()) => {
                "Your role has claimed this task. Call claimIssueTask for it again and continue, \
                 unless another agent of the role is working on it."
                    .to_owned()
            }
            Awaited::Tasks(_) => "Claim it with claimIssueTask.".to_owned(),
            Awaited::Issues { .. } => {
                "Call waitIssueTasks with the issue that you work on.".to_owned()
            }
            Awaited::Review(_) => after_review(answer),
            Awaited::Reply(_) => after_reply(answer),
            Awaited::Items(_)
            | Awaited::Deliveries { .. }
            | Awaited::Verdict(_)
            | Awaited::Files { .. } => return Vec::new(),
        },
    };
    vec![said]
}

/// After the verdict on a submission, or what it ended with.
fn after_review(answer: &SwarmAnswer) -> String {
    let Some(submission) = &answer.submission else { return String::new() };
    match submission.status() {
        SubmissionStatus::Approved => match &submission.next_step {
            Some(next) if !next.task_id.is_empty() => format!(
                "Approved; your locks for it are released. Your next task is {}, reserved for you: \
                 claimIssueTask with this next_step_token.",
                next.task_id
            ),
            Some(_) | None => {
                "Approved; your locks for it are released. No task of this issue is reserved for \
                 you: waitIssueTasks or waitIssues."
                    .to_owned()
            }
        },
        SubmissionStatus::Rejected => {
            "Rejected; you keep the task. Fix what the review reports, then call submitIssueTask \
             with your changes in `summary`: identical arguments repeat this submission."
                .to_owned()
        }
        SubmissionStatus::Superseded => {
            "Superseded by a later submission of this task. Wait for the verdict on that one."
                .to_owned()
        }
        SubmissionStatus::Reset => {
            "You no longer hold the task or your locks for it. Stop working on it and call \
             waitIssueTasks."
                .to_owned()
        }
        SubmissionStatus::Unspecified | SubmissionStatus::Open => String::new(),
    }
}

/// After the reply to a message, or what it ended with.
fn after_reply(answer: &SwarmAnswer) -> String {
    match answer.message.as_ref().map(TaskMessage::status) {
        Some(MessageStatus::Replied) => {
            "Continue with the task. Identical arguments repeat this question; to ask another, \
             change the content."
                .to_owned()
        }
        Some(MessageStatus::Resolved) => {
            "There will be no answer. Check with getIssueTask whether you still hold the task."
                .to_owned()
        }
        Some(MessageStatus::Unspecified | MessageStatus::Open) | None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use tasuki_proto::reason::Reason;

    use super::*;

    fn facts(result: &CallToolResult) -> &serde_json::Value {
        result.structured_content.as_ref().unwrap()
    }

    /// The broker is away, or says nothing for as long as the call was held.
    #[test]
    fn what_is_stored_is_named_where_nothing_else_is_known() {
        let role = "w".parse().unwrap();
        let silence = SwarmAnswer::default();
        let review = Awaited::Review("sub_1_0000".parse().unwrap());
        let result = wait_result(&role, &review, &silence);
        let shown = facts(&result);
        assert_eq!(
            (&shown["status"], &shown["submission_id"]),
            (&"still_waiting".into(), &"sub_1_0000".into())
        );
        assert!(shown.get("server_now_ms").is_none() && shown.get("message_id").is_none());
        let reply = Awaited::Reply("msg_1_0000".parse().unwrap());
        let result = wait_result(&role, &reply, &silence);
        assert_eq!(facts(&result)["message_id"], "msg_1_0000");

        let why = Refusal { reason: Reason::Unavailable, message: "Nobody there.".to_owned() };
        let verdict = Awaited::Verdict("delivery_1_0000".parse().unwrap());
        for (awaited, field) in [(review, "submission_id"), (verdict, "delivery_id")] {
            let result = unanswered(&role, &awaited, &why);
            let shown = facts(&result);
            assert!(shown[field].is_string(), "{shown}");
            assert_eq!(
                (&shown["unanswered"], &shown["status"]),
                (&"Nobody there.".into(), &"still_waiting".into())
            );
            assert!(shown.get("server_now_ms").is_none(), "{shown}");
            let words = serde_json::to_string(&result.content).unwrap();
            assert!(words.contains("is stored; its result is unknown: Nobody"), "{words}");
        }
    }
}
