//! What a person does with issues, tasks, deliveries and locks.

use std::sync::Arc;

use axum::{Router, response::Response, routing::post};
use maud::{Markup, html};
use tasuki_proto::{
    reason::Reason,
    review_terms::with_defaults,
    swarm::SCORE_REJECTED,
    token::Right,
    wire::{self, DeliveryStatus, IssueStatus, SubmissionStatus, TaskStage},
};
use tonic::Status;

use super::super::{
    super::{
        App, HUMAN,
        form::{Act, Form, choice, dialog, hidden_field, line_field, text_field},
        visit::{Trouble, Visit},
    },
    done,
};

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route("/w/{workspace}/issue/new", post(create_issue))
        .route("/w/{workspace}/issue/close", post(close_issue))
        .route("/w/{workspace}/issue/reopen", post(reopen_issue))
        .route("/w/{workspace}/task/new", post(create_task))
        .route("/w/{workspace}/task/answer", post(answer_question))
        .route("/w/{workspace}/task/review", post(review_task))
        .route("/w/{workspace}/task/reset", post(reset_task))
        .route("/w/{workspace}/task/cancel", post(cancel_task))
        .route("/w/{workspace}/delivery/review", post(review_delivery))
        .route("/w/{workspace}/lock/force", post(force_unlock))
}

pub(super) fn new_issue(visit: &Visit) -> Markup {
    if !visit.may_act(Right::Send) {
        return html! {};
    }
    let fields = html! {
        (line_field("subject", "Subject", "", true))
        (text_field("description", "What is to be done (Markdown)", true))
    };
    dialog(visit, "new-issue", "Open an issue", "/issue/new", &fields)
}

pub(super) fn of_issue(visit: &Visit, it: &wire::Issue) -> Markup {
    if !visit.may_act(Right::Send) {
        return html! {};
    }
    let issue = || hidden_field("issue", &it.issue_id);
    let is_over = matches!(it.status(), IssueStatus::Done | IssueStatus::Canceled);
    html! {
        div.actions id={ "actions-" (it.issue_id) } {
            @if is_over {
                @let fields = html! { (issue()) (text_field("summary", "Why", true)) };
                (dialog(visit, "reopen", "Reopen", "/issue/reopen", &fields))
            } @else {
                @let fields = html! {
                    (issue())
                    (line_field("subject", "Subject", "", true))
                    (text_field("description", "What is to be done (Markdown)", true))
                    (choice("difficulty", "Difficulty", ["easy", "medium", "focus"], "medium"))
                };
                (dialog(visit, "new-task", "Add a task", "/task/new", &fields))
                @let fields = html! { (issue()) (text_field("summary", "Summary", true)) };
                (dialog(visit, "close-issue", "Close", "/issue/close", &fields))
            }
        }
    }
}

fn task_fields(it: &wire::Task) -> Markup {
    html! { (hidden_field("issue", &it.issue_id)) (hidden_field("task", &it.task_id)) }
}

pub(super) fn answer(visit: &Visit, task: &wire::Task, it: &wire::TaskMessage) -> Markup {
    if !visit.may_act(Right::Review) {
        return html! {};
    }
    let fields = html! {
        (task_fields(task))
        (hidden_field("message", &it.message_id))
        (text_field("text", "Answer (Markdown)", true))
    };
    dialog(visit, &format!("answer-{}", it.message_id), "Answer", "/task/answer", &fields)
}

pub(super) fn of_task(visit: &Visit, it: &wire::Task) -> Markup {
    if !visit.may_act(Right::Review) {
        return html! {};
    }
    let submission = it.submission.clone().unwrap_or_default();
    let is_over = matches!(it.stage(), TaskStage::Done | TaskStage::Canceled);
    html! {
        div.actions id={ "actions-" (it.task_id) } {
            @if submission.status() == SubmissionStatus::Open {
                @let fields = html! {
                    (task_fields(it))
                    (hidden_field("submission", &submission.submission_id))
                    (hidden_field("worker", &submission.worker))
                    (choice("verdict", "Verdict", ["approve", "reject"], "approve"))
                    (choice("score", "Score (approving)", ["5", "2", "1"], "5"))
                    (text_field("feedback", "Feedback for the worker", true))
                };
                (dialog(visit, "review", "Review", "/task/review", &fields))
            }
            @if !is_over {
                @let fields = html! { (task_fields(it)) (line_field("reason", "Why", "", true)) };
                @if !it.claimed_by.is_empty() { (dialog(visit, "reset", "Take it back", "/task/reset", &fields)) }
                (dialog(visit, "cancel", "Cancel the task", "/task/cancel", &fields))
            }
        }
    }
}

pub(super) fn of_delivery(visit: &Visit, it: &wire::Delivery) -> Markup {
    let is_open = matches!(it.status(), DeliveryStatus::Open | DeliveryStatus::InReview);
    if !is_open || !visit.may_act(Right::Review) {
        return html! {};
    }
    let has_failed = it.evidence.iter().any(|it| !it.has_passed);
    let fields = html! {
        (hidden_field("delivery", &it.delivery_id))
        (hidden_field("issue", &it.issue_id))
        (choice("verdict", "Verdict", ["approve", "reject"], "approve"))
        (text_field("feedback", "Feedback for the lead", true))
        label.check { input type="checkbox" name="script_failed" value="yes"; span { "Its script failed" } }
        @if has_failed && visit.may(Right::Steer) {
            (line_field("despite", "Approve in spite of failed evidence, because", "", false))
        }
        p.note { "Approving states that you ran its script and its document’s steps, and that they passed." }
    };
    html! {
        div.actions { (dialog(visit, &format!("judge-{}", it.delivery_id), "Review the delivery", "/delivery/review", &fields)) }
    }
}

pub(super) fn of_lock(visit: &Visit, it: &wire::Lock) -> Markup {
    if !visit.may_act(Right::Review) {
        return html! {};
    }
    let fields =
        html! { (hidden_field("lease", &it.lease_id)) (line_field("reason", "Why", "", true)) };
    dialog(visit, &format!("unlock-{}", it.lease_id), "Unlock", "/lock/force", &fields)
}

fn back(visit: &Visit, form: &Form) -> Response {
    let task = Some(form.text("task")).filter(|it| !it.is_empty());
    let task = task.map_or_else(String::new, |it| format!("&task={it}"));
    done(visit, &format!("/tasks?issue={}{task}", form.text("issue")))
}

async fn create_issue(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::CreateIssueRequest {
        role: HUMAN.to_owned(),
        subject: form.text("subject"),
        description: form.text("description"),
        ..Default::default()
    };
    let issue = visit.command(&form, request).await?.issue.unwrap_or_default();
    Ok(done(&visit, &format!("/tasks?issue={}", issue.issue_id)))
}

async fn close_issue(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::CloseIssueRequest {
        role: HUMAN.to_owned(),
        issue_id: form.text("issue"),
        summary: form.text("summary"),
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(back(&visit, &form))
}

async fn reopen_issue(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::ReopenIssueRequest {
        role: HUMAN.to_owned(),
        issue_id: form.text("issue"),
        summary: form.text("summary"),
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(back(&visit, &form))
}

async fn create_task(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let words = wire::TaskWords { description: form.text("description"), ..Default::default() };
    let mut task =
        wire::NewTask { subject: form.text("subject"), words: Some(words), ..Default::default() };
    task.set_difficulty(match form.text("difficulty").as_str() {
        "easy" => wire::Difficulty::Easy,
        "focus" => wire::Difficulty::Focus,
        _ => wire::Difficulty::Medium,
    });
    let request = wire::CreateTasksRequest {
        role: HUMAN.to_owned(),
        issue_id: form.text("issue"),
        tasks: vec![task],
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(back(&visit, &form))
}

async fn answer_question(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::ReplyMessageRequest {
        role: HUMAN.to_owned(),
        issue_id: form.text("issue"),
        task_id: form.text("task"),
        message_id: form.text("message"),
        content: form.text("text"),
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(back(&visit, &form))
}

async fn review_task(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let is_approved = form.text("verdict") == "approve";
    let score = if is_approved { form.number("score")? } else { SCORE_REJECTED };
    let feedback = form.text("feedback");
    let submission = form.text("submission");
    let review = wire::Review { is_approved, feedback, ..Default::default() };
    let review = with_defaults(review, &submission);
    let request = wire::ReviewTaskRequest {
        role: HUMAN.to_owned(),
        issue_id: form.text("issue"),
        task_id: form.text("task"),
        submission_id: submission,
        completion_score: score,
        review: Some(review),
        ..Default::default()
    };
    if !is_approved {
        visit.command(&form, request).await?;
        return Ok(back(&visit, &form));
    }
    let first = approve(&visit, &form, "token", request.clone()).await;
    // What the token reserves may lapse before the verdict arrives.
    if first.as_ref().is_err_and(|why| Reason::of(why) == Some(Reason::InvalidNextStepToken)) {
        approve(&visit, &form, "token-again", request).await?;
    } else {
        first?;
    }
    Ok(back(&visit, &form))
}

/// Approving reserves the worker's next task first, and shows its token.
async fn approve(
    visit: &Visit,
    form: &Form,
    step: &str,
    request: wire::ReviewTaskRequest,
) -> Result<(), Status> {
    let mint = wire::MintNextStepRequest {
        role: HUMAN.to_owned(),
        issue_id: request.issue_id.clone(),
        task_id: request.task_id.clone(),
        worker: form.text("worker"),
        completion_score: request.completion_score,
        ..Default::default()
    };
    let minted = visit.command_after(form, step, mint).await?.next_step.unwrap_or_default();
    let request = wire::ReviewTaskRequest { next_step_token: minted.token, ..request };
    visit.command_after(form, &format!("{step}-verdict"), request).await?;
    Ok(())
}

async fn reset_task(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::ResetTaskRequest {
        role: HUMAN.to_owned(),
        issue_id: form.text("issue"),
        task_id: form.text("task"),
        reason: form.text("reason"),
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(back(&visit, &form))
}

async fn cancel_task(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::CancelTaskRequest {
        role: HUMAN.to_owned(),
        issue_id: form.text("issue"),
        task_id: form.text("task"),
        reason: form.text("reason"),
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(back(&visit, &form))
}

async fn review_delivery(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let delivery_id = form.text("delivery");
    let claim = wire::ClaimDeliveryRequest {
        role: HUMAN.to_owned(),
        delivery_id: delivery_id.clone(),
        ..Default::default()
    };
    let claimed = visit.command_after(&form, "claim", claim).await?.delivery.unwrap_or_default();
    let commands = claimed.test_evidence.unwrap_or_default().doc_commands;
    let passed =
        |command: String| wire::CommandResult { command, has_passed: true, ..Default::default() };
    let verification = wire::Verification {
        script_passed: !form.has("script_failed"),
        script_result: String::new(),
        doc_passed: true,
        doc_results: commands.into_iter().map(passed).collect(),
    };
    let despite = form.text("despite");
    let overriding =
        (!despite.is_empty()).then(|| wire::Override { person: visit.person(), reason: despite });
    let request = wire::ReviewDeliveryRequest {
        role: HUMAN.to_owned(),
        delivery_id,
        claim_token: claimed.claim_token,
        is_approved: form.text("verdict") == "approve",
        feedback: form.text("feedback"),
        verification: Some(verification),
        r#override: overriding,
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(back(&visit, &form))
}

async fn force_unlock(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::ForceUnlockRequest {
        role: HUMAN.to_owned(),
        lease_id: form.text("lease"),
        reason: form.text("reason"),
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(done(&visit, "/tasks"))
}
