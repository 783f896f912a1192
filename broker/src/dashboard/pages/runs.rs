//! *Runs*: sub-agents, their steps and what those say, questions, cost.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    response::Response,
    routing::{get, post},
};
use http::uri::PathAndQuery;
use maud::{Markup, html};
use serde::Deserialize;
use tasuki_proto::{
    counted::{counted, long},
    token::Right,
    wire::{self, RunStatus, StepStatus},
};
use tokio::time::timeout;
use tonic::{Request, Status, client::Grpc};
use tonic_prost::ProstCodec;

use super::{
    super::{
        App,
        form::{Act, button, dialog, hidden_field, text_field},
        markdown::markdown,
        view::{Page, ago, nothing, plain, respond, role, sentence},
        visit::{Query, Trouble, Visit},
    },
    bare, done,
};
use crate::overview::Calls as _;

/// Runs in the list.
const RUNS_LISTED_MAX: u32 = 100;

/// Runs below another that are drawn in its tree.
const BELOW_MAX: u32 = 100;

/// Of an output, in bytes: its end.
const OUTPUT_SHOWN_BYTES_MAX: usize = 32 * 1024;

/// Until a run says how far its steps are.
const PROGRESS_WITHIN: Duration = Duration::from_millis(500);

/// Seconds after which a run that goes on is looked at again: what its steps say is no event.
const EVERY_S: u32 = 2;

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route("/w/{workspace}/runs", get(runs))
        .route("/w/{workspace}/run/cancel", post(cancel))
        .route("/w/{workspace}/run/reply", post(reply))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Place {
    run: String,
    before: String,
}

async fn runs(visit: Visit, Query(place): Query<Place>) -> Result<Response, Trouble> {
    let request = wire::ListRunsRequest {
        limit: RUNS_LISTED_MAX,
        before: place.before.clone(),
        ..Default::default()
    };
    let list = visit.call(&request).await?;
    let now_ms = list.now_ms;
    let (open, is_running) = match place.run.as_str() {
        "" if list.runs.is_empty() => (html! {}, false),
        "" => (nothing("Choose a run to see its steps."), false),
        id => whole(&visit, id, now_ms).await,
    };
    let last = list.runs.last().map(|it| it.run_id.clone()).unwrap_or_default();
    let body = html! {
        h1 { "Runs" }
        div.columns.two {
            nav.side aria-label="Runs" {
                @if list.runs.is_empty() {
                    (nothing("No sub-agent was started yet. An agent starts one for a part of its work, on this machine or another."))
                    p.note { code { "tasuki run AGENT \"task\"" } " starts one by hand." }
                }
                ul.boxes {
                    @for it in &list.runs {
                        li data-item aria-current=[(it.run_id == place.run).then_some("true")] {
                            a href=(visit.link(&format!("/runs?run={}", it.run_id))) { (plain(&agents(it))) }
                            div.note { (chip(it.status())) " " code { (plain(&it.run_id)) } " " (ago(it.started_ms, now_ms)) ", " (cost(it.usage.as_ref())) }
                        }
                    }
                }
                @if list.has_more { p { a.button href=(visit.link(&format!("/runs?before={last}"))) { "Older" } } }
            }
            div { (open) }
        }
    };
    let page = Page {
        title: "Runs".to_owned(),
        tab: "runs",
        live: "run",
        every_s: if is_running { EVERY_S } else { 0 },
    };
    Ok(respond(&visit, page, body).await)
}

fn agents(it: &wire::Run) -> String {
    let names: Vec<&str> = it.steps.iter().map(|it| it.agent.as_str()).collect();
    if names.len() <= 3 {
        names.join(", ")
    } else {
        format!("{} and {} more", names[0], names.len() - 1)
    }
}

fn chip(status: RunStatus) -> Markup {
    let class = match status {
        RunStatus::Running => "good",
        RunStatus::Succeeded => "done",
        RunStatus::Failed | RunStatus::Lost | RunStatus::OutOfBudget => "bad",
        RunStatus::Canceled | RunStatus::Unspecified => "idle",
    };
    html! { span.chip.(class) { (bare(status.as_str_name())) } }
}

fn cost(usage: Option<&wire::RunUsage>) -> String {
    let Some(it) = usage else { return "cost not known".to_owned() };
    let tokens = it.input_tokens + it.output_tokens + it.cache_read_tokens + it.cache_write_tokens;
    let cents = it.cost_microusd / 10_000;
    let parts = it.cost_microusd % 10_000 / 100;
    match it.cost_microusd {
        0 => counted(tokens, "token"),
        _ => format!("${}.{:02}{parts:02}, {}", cents / 100, cents % 100, counted(tokens, "token")),
    }
}

async fn whole(visit: &Visit, id: &str, now_ms: u64) -> (Markup, bool) {
    let request = wire::GetRunRequest { run_id: id.to_owned(), ..Default::default() };
    let run = match visit.call(&request).await {
        Ok(found) => found.run.unwrap_or_default(),
        Err(why) => return (html! { p.trouble { (sentence(why.message())) } }, false),
    };
    let is_running = run.status() == RunStatus::Running;
    let progress = if is_running { progress(visit, id).await } else { Vec::new() };
    let request =
        wire::ListRunsRequest { below: id.to_owned(), limit: BELOW_MAX, ..Default::default() };
    let below = visit.call(&request).await.unwrap_or_default().runs;
    let request = wire::ListRunMessagesRequest { run_id: id.to_owned(), ..Default::default() };
    let messages = visit.call(&request).await.unwrap_or_default().messages;
    let mut steps = Vec::new();
    for step in &run.steps {
        let partial = progress.iter().find(|it| it.step == step.step);
        steps.push(one_step(visit, &run, step, partial, now_ms).await);
    }
    let who = if run.person.is_empty() { &run.role } else { &run.person };
    let markup = html! {
        article #{ "run-" (run.run_id) } {
            header.bar {
                h2 { (plain(&agents(&run))) }
                (chip(run.status()))
                @if run.is_stopping && is_running { span.chip.warn { "stopping" } }
                span.note { code { (plain(&run.run_id)) } " by " (role(visit, who)) ", " (bare(run.mode().as_str_name())) ", started " (ago(run.started_ms, now_ms)) }
            }
            p { (cost(run.usage.as_ref())) @if run.ended_ms != 0 { ", took " (long(run.ended_ms.saturating_sub(run.started_ms))) } "." }
            @if let Some(parent) = &run.parent {
                p { "Started by step " (parent.step) " of " a href=(visit.link(&format!("/runs?run={}", parent.run_id))) { (plain(&parent.run_id)) } "." }
            }
            @if is_running && !run.is_stopping && visit.may(Right::Send) && visit.may(Right::Steer) {
                div.actions { (button(visit, "Cancel the run", "/run/cancel", &hidden_field("run", id))) }
            }
            @for it in &messages { (message(visit, &run, it, now_ms)) }
            @for step in &steps { (step) }
            @if below.iter().any(|it| it.run_id != run.run_id) {
                h3 { "Runs that it started" }
                (tree(visit, &below, &run.run_id))
            }
        }
    };
    (markup, is_running)
}

/// The runs that one started, and those that they started.
fn tree(visit: &Visit, all: &[wire::Run], above: &str) -> Markup {
    let is_below = |it: &&wire::Run| it.parent.as_ref().is_some_and(|it| it.run_id == above);
    html! {
        ul.tree {
            @for it in all.iter().filter(is_below) {
                li {
                    (chip(it.status())) " " a href=(visit.link(&format!("/runs?run={}", it.run_id))) { (plain(&agents(it))) } " " span.note { (cost(it.usage.as_ref())) }
                    (tree(visit, all, &it.run_id))
                }
            }
        }
    }
}

/// What the steps of a run said last.
async fn progress(visit: &Visit, id: &str) -> Vec<wire::StepProgress> {
    let request = wire::WatchRunRequest { caller: Some(visit.caller()), run_id: id.to_owned() };
    let watch = async {
        let mut grpc = Grpc::new(visit.channel());
        grpc.ready().await.map_err(|why| Status::unavailable(why.to_string()))?;
        let path = PathAndQuery::from_static("/tasuki.v1.Runs/WatchRun");
        let codec = ProstCodec::<_, wire::WatchRunResponse>::default();
        let answer = grpc.server_streaming(Request::new(request), path, codec).await?;
        answer.into_inner().message().await
    };
    match timeout(PROGRESS_WITHIN, watch).await {
        Ok(Ok(Some(first))) => first.progress,
        // The page is as good without it.
        Ok(Ok(None) | Err(_)) | Err(_) => Vec::new(),
    }
}

async fn one_step(
    visit: &Visit,
    run: &wire::Run,
    it: &wire::RunStep,
    partial: Option<&wire::StepProgress>,
    now_ms: u64,
) -> Markup {
    let request =
        wire::GetStepRequest { run_id: run.run_id.clone(), step: it.step, ..Default::default() };
    let texts = visit.call(&request).await.unwrap_or_default();
    let text = |it: Option<&wire::RunText>| it.map(|it| it.text.clone()).unwrap_or_default();
    let output: String = texts.output.iter().map(|it| it.text.as_str()).collect();
    let said =
        if output.is_empty() { text(partial.and_then(|it| it.partial.as_ref())) } else { output };
    let error = text(texts.error.as_ref());
    let class = match it.status() {
        StepStatus::Running => "good",
        StepStatus::Succeeded => "done",
        StepStatus::Failed | StepStatus::Lost => "bad",
        StepStatus::Waiting
        | StepStatus::Ready
        | StepStatus::Canceled
        | StepStatus::Unspecified => "idle",
    };
    html! {
        article.card.step id={ "step-" (it.step) } {
            header {
                h3 { (it.step) ". " (plain(&it.agent)) }
                span.chip.(class) { (bare(it.status().as_str_name())) }
                @if it.failure() != wire::StepFailure::Unspecified { span.chip.bad { (bare(it.failure().as_str_name())) } }
                span.note {
                    (plain(&it.runner)) @if !it.model.is_empty() { " " (plain(&it.model)) } @if !it.node.is_empty() { " on " (plain(&it.node)) }
                    @if it.started_ms != 0 { ", started " (ago(it.started_ms, now_ms)) }
                    ", " (cost(it.usage.as_ref()))
                    @if !it.last_tool.is_empty() { ", last tool " code { (plain(&it.last_tool)) } }
                    @if let Some(code) = it.exit_code { ", exit code " (code) }
                }
            }
            details { summary { "Task" } (markdown(&text(texts.task.as_ref()), None)) }
            @if !error.is_empty() { p.trouble { (plain(&error)) } }
            @if !said.is_empty() {
                @let from = said.ceil_char_boundary(said.len().saturating_sub(OUTPUT_SHOWN_BYTES_MAX));
                details open { summary { "Output" @if 0 < from { " (the end of it)" } } pre.output { code { (plain(&said[from..])) } } }
            }
        }
    }
}

fn message(visit: &Visit, run: &wire::Run, it: &wire::RunMessage, now_ms: u64) -> Markup {
    let text = |it: Option<&wire::RunText>| it.map(|it| it.text.clone()).unwrap_or_default();
    let reply = text(it.reply.as_ref());
    html! {
        section.letter id={ "message-" (it.number) } {
            header {
                b { "Step " (it.step) @if it.is_question { " asks" } @else { " reports" } } " " span.note { (ago(it.at_ms, now_ms)) }
                @if let Some(file) = &it.file { " " span.chip { (plain(&file.name)) ", " (file.size) " bytes" } }
            }
            (markdown(&text(it.text.as_ref()), None))
            @if !reply.is_empty() { h4 { "Reply" } (markdown(&reply, None)) }
            @else if it.is_question && !it.is_over && visit.may(Right::Send) && visit.may(Right::Steer) {
                @let fields = html! {
                    (hidden_field("run", &run.run_id)) (hidden_field("message", &it.number.to_string()))
                    (text_field("text", "Reply", true))
                };
                (dialog(visit, &format!("reply-{}", it.number), "Reply", "/run/reply", &fields))
            }
        }
    }
}

async fn cancel(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::CancelRunRequest {
        person: visit.person(),
        run_id: form.text("run"),
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(done(&visit, &format!("/runs?run={}", form.text("run"))))
}

async fn reply(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::ReplyToRunRequest {
        person: visit.person(),
        run_id: form.text("run"),
        message: form.number("message")?,
        text: Some(wire::RunText { text: form.text("text"), sealed: None }),
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(done(&visit, &format!("/runs?run={}", form.text("run"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_cost_is_said_as_far_as_it_is_known() {
        let usage =
            |cost_microusd| wire::RunUsage { input_tokens: 7, cost_microusd, ..Default::default() };
        assert_eq!(cost(None), "cost not known");
        assert_eq!(cost(Some(&usage(0))), "7 tokens");
        assert_eq!(cost(Some(&usage(1_234_500))), "$1.2345, 7 tokens");
        assert_eq!(cost(Some(&usage(900))), "$0.0009, 7 tokens");
    }
}
