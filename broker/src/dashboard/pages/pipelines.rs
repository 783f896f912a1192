//! *Pipelines*: phases that roles do one after another, where each pipeline stands, its attempts, and
//! what a person approves, rejects, cancels or resumes.

use std::sync::Arc;

use axum::{
    Router,
    response::Response,
    routing::{get, post},
};
use maud::{Markup, html};
use serde::Deserialize;
use tasuki_proto::{
    limits::PIPELINES_PAGE_MAX,
    token::Right,
    wire::{self, AttemptStatus, PipelineStatus},
};

use super::{
    super::{
        App,
        form::{Act, button, dialog, hidden_field, line_field, text_field},
        view::{Page, ago, lapses, nothing, plain, respond, role, sentence},
        visit::{Query, Trouble, Visit},
    },
    bare, done, escaped,
};
use crate::overview::Calls as _;

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route("/w/{workspace}/pipelines", get(pipelines))
        .route("/w/{workspace}/pipeline/approve", post(approve))
        .route("/w/{workspace}/pipeline/reject", post(reject))
        .route("/w/{workspace}/pipeline/cancel", post(cancel))
        .route("/w/{workspace}/pipeline/resume", post(resume))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Place {
    board: String,
    after: String,
}

async fn pipelines(visit: Visit, Query(place): Query<Place>) -> Result<Response, Trouble> {
    let request = wire::ListPipelinesRequest {
        limit: PIPELINES_PAGE_MAX,
        after: place.after.clone(),
        ..Default::default()
    };
    let list = visit.call(&request).await?;
    let open = match place.board.as_str() {
        "" if list.pipelines.is_empty() => html! {},
        "" => nothing("Choose a pipeline to see its phases and attempts."),
        board => pipeline(&visit, board).await,
    };
    let body = html! {
        h1 { "Pipelines" }
        div.columns.two {
            nav.side aria-label="Pipelines" {
                @if list.pipelines.is_empty() {
                    (nothing("No pipeline was started yet. A pipeline is phases that roles do one after another: plan, code, test, review."))
                    p.note { code { "tasuki pipeline run --board NAME" } " starts one." }
                }
                ul.boxes {
                    @for it in &list.pipelines {
                        li data-item aria-current=[(it.board == place.board).then_some("true")] {
                            a href=(visit.link(&format!("/pipelines?board={}", escaped(&it.board)))) { (plain(&it.board)) }
                            div.note { (bare(it.status().as_str_name())) ", " (plain(&it.phase)) }
                        }
                    }
                }
                @if !list.next.is_empty() {
                    p { a href=(visit.link(&format!("/pipelines?after={}", escaped(&list.next)))) { "More pipelines" } }
                }
            }
            section aria-label="Pipeline" { (open) }
        }
    };
    let page =
        Page { title: "Pipelines".to_owned(), tab: "pipelines", live: "pipeline", every_s: 0 };
    Ok(respond(&visit, page, body).await)
}

async fn pipeline(visit: &Visit, board: &str) -> Markup {
    let request = wire::GetPipelineRequest { board: board.to_owned(), ..Default::default() };
    let answer = match visit.call(&request).await {
        Ok(answer) => answer,
        Err(why) => return html! { p.trouble { (sentence(why.message())) } },
    };
    let (it, now_ms) = (answer.pipeline.unwrap_or_default(), answer.now_ms);
    let phases = it.definition.iter().flat_map(|it| &it.phases);
    html! {
        header {
            h2 { (plain(&it.board)) }
            p.note {
                "Started by "
                @if it.by_role.is_empty() { (plain(&it.by_person)) } @else { (role(visit, &it.by_role)) }
                " " (ago(it.started_ms, now_ms)) ". "
                a href=(visit.link(&format!("/boards?board={}", escaped(&it.board)))) { "Its board" }
            }
            p {
                strong { (bare(it.status().as_str_name())) } " at " (plain(&it.phase))
                @if it.retries != 0 { ", retry " (it.retries) }
                @if it.approval_lapses_ms != 0 { ", " (lapses(it.approval_lapses_ms, now_ms)) }
            }
            @if !it.error.is_empty() { p.trouble { (plain(&it.error)) } }
            (actions(visit, &it))
        }
        ol.phases {
            @for phase in phases { (phase_item(visit, &it, phase)) }
        }
        h3 { "Attempts" }
        ol.entries reversed {
            @for attempt in it.attempts.iter().rev() { (attempt_item(visit, &it, attempt, now_ms)) }
        }
        @if !it.decisions.is_empty() {
            h3 { "Decisions" }
            ul {
                @for decided in it.decisions.iter().rev() {
                    li {
                        (plain(&decided.person)) " " (if decided.approved { "approved" } else { "rejected" }) " "
                        (plain(&decided.phase)) " " (ago(decided.at_ms, now_ms))
                        @if !decided.reason.is_empty() { div.note { (plain(&decided.reason)) } }
                    }
                }
            }
        }
    }
}

fn phase_item(visit: &Visit, it: &wire::Pipeline, phase: &wire::PipelinePhase) -> Markup {
    let is_open = matches!(it.status(), PipelineStatus::Running | PipelineStatus::AwaitingApproval);
    let is_here = is_open && phase.name == it.phase;
    html! {
        li aria-current=[is_here.then_some("step")] {
            (plain(&phase.name)) " by " (role(visit, &phase.role))
            @if !phase.approves.is_empty() { " " span.chip { "approves " (plain(&phase.approves)) } }
            @if phase.approval_ms != 0 { " " span.chip { "a person approves" } }
        }
    }
}

fn attempt_item(
    visit: &Visit,
    it: &wire::Pipeline,
    attempt: &wire::PhaseAttempt,
    now_ms: u64,
) -> Markup {
    let board = escaped(&it.board);
    let link = visit.link(&format!("/boards?board={board}&at={}&changes=true", attempt.written));
    html! {
        li data-item value=(attempt.attempt) {
            (plain(&attempt.phase)) ": " (bare(attempt.status().as_str_name())) " "
            @if attempt.written != 0 { a href=(link) { "checkpoint " (attempt.written) } }
            div.note {
                (role(visit, &attempt.role))
                @if !attempt.node.is_empty() { " on " (plain(&attempt.node)) }
                @if attempt.ended_ms != 0 { " " (ago(attempt.ended_ms, now_ms)) }
                @else if attempt.status() == AttemptStatus::Running { " since " (ago(attempt.began_ms, now_ms)) }
            }
            @if !attempt.error.is_empty() { p.note { (plain(&attempt.error)) } }
        }
    }
}

/// What may be done with a pipeline as it stands.
fn actions(visit: &Visit, it: &wire::Pipeline) -> Markup {
    if !visit.may(Right::Steer) {
        return html! {};
    }
    let board = || hidden_field("board", &it.board);
    let attempt = it.attempts.last().map_or(0, |it| it.attempt).to_string();
    let seen = html! {
        (board()) (hidden_field("attempt", &attempt))
        (hidden_field("checkpoint", &it.checkpoint.to_string()))
    };
    html! {
        div.actions {
            @match it.status() {
                PipelineStatus::AwaitingApproval => {
                    @let fields = html! {
                        (seen) (line_field("reason", "Why", "", false))
                    };
                    (dialog(visit, "approve-pipeline", "Approve", "/pipeline/approve", &fields))
                    @let fields = html! {
                        (seen) (text_field("reason", "Why; the next attempt reads it", true))
                    };
                    (dialog(visit, "reject-pipeline", "Reject", "/pipeline/reject", &fields))
                    (cancel_dialog(visit, &board()))
                }
                PipelineStatus::Running => (cancel_dialog(visit, &board())),
                PipelineStatus::Failed | PipelineStatus::Canceled => {
                    (button(visit, "Resume", "/pipeline/resume", &board()))
                }
                PipelineStatus::Completed | PipelineStatus::Unspecified => {}
            }
        }
    }
}

fn cancel_dialog(visit: &Visit, board: &Markup) -> Markup {
    let fields = html! { (board) (line_field("reason", "Why", "", false)) };
    dialog(visit, "cancel-pipeline", "Cancel", "/pipeline/cancel", &fields)
}

fn back(visit: &Visit, board: &str) -> Response {
    done(visit, &format!("/pipelines?board={}", escaped(board)))
}

async fn approve(act: Act) -> Result<Response, Trouble> {
    decide(&act, true).await
}

async fn reject(act: Act) -> Result<Response, Trouble> {
    decide(&act, false).await
}

async fn decide(Act { visit, form }: &Act, approve: bool) -> Result<Response, Trouble> {
    let request = wire::DecideApprovalRequest {
        person: visit.person(),
        board: form.text("board"),
        attempt: form.number("attempt")?,
        checkpoint: form.number("checkpoint")?,
        approve,
        reason: form.text("reason"),
        ..Default::default()
    };
    visit.command(form, request).await?;
    Ok(back(visit, &form.text("board")))
}

async fn cancel(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::CancelPipelineRequest {
        person: visit.person(),
        board: form.text("board"),
        reason: form.text("reason"),
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(back(&visit, &form.text("board")))
}

async fn resume(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::ResumePipelineRequest {
        person: visit.person(),
        board: form.text("board"),
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(back(&visit, &form.text("board")))
}
