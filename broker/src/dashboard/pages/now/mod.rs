//! *Now*: whose turn it is in each loop, who plays each role, what runs out, and what is wrong.

mod actions;
mod relay;
mod roles;

use std::{collections::BTreeSet, sync::Arc};

use axum::{Router, response::Response, routing::get};
use futures::{StreamExt as _, stream};
use maud::{Markup, html};
use tasuki_proto::{
    counted::counted,
    wire::{self, LoopStatus},
};

use super::{
    super::{
        App,
        view::{self, Page, ago, lapses, lease, nothing, plain, respond, since},
        visit::{Trouble, Visit},
    },
    entry,
};
use crate::overview::{
    self, Calls as _, Overview,
    problems::{Problem, problems},
};

/// Loops whose last handover is shown in full; of the others there is a list.
const LOOPS_WHOLE_MAX: usize = 24;

/// Calls under way for one page.
const CALLS_AT_ONCE: usize = 4;

/// Seconds after which presence is looked at again: no event tells of it.
const EVERY_S: u32 = 10;

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    actions::routes(router.route("/w/{workspace}/now", get(now)))
}

async fn now(visit: Visit) -> Result<Response, Trouble> {
    let overview = overview::gather(&visit).await?;
    let (open, over): (Vec<_>, Vec<_>) =
        overview.loops.iter().partition(|it| it.status() != LoopStatus::Completed);
    let whole: Vec<String> =
        open.iter().take(LOOPS_WHOLE_MAX).map(|it| it.r#loop.clone()).collect();
    let latest: Vec<wire::GetLoopResponse> = stream::iter(whole)
        .map(|name| {
            let request = wire::GetLoopRequest { r#loop: name, ..Default::default() };
            let visit = &visit;
            async move { visit.call(&request).await }
        })
        .buffered(CALLS_AT_ONCE)
        .filter_map(|it| std::future::ready(it.ok()))
        .collect()
        .await;
    let guard = visit.call(&wire::GetGuardRequest::default()).await.unwrap_or_default();
    let found = problems(&overview);
    let stuck: BTreeSet<&str> = found.iter().map(|it| it.of_loop.as_str()).collect();
    let body = html! {
        h1 .visually-hidden { "Now" }
        (problem_list(&found))
        section aria-labelledby="loops" {
            div.bar {
                h2 #loops { "Loops" }
                (actions::new_loop(&visit, &overview))
            }
            div.cards {
                @for it in &latest { (loop_card(&visit, it, &stuck, overview.now_ms)) }
            }
            @if latest.is_empty() { (nothing("No loop is open.")) }
            @if LOOPS_WHOLE_MAX < open.len() {
                (loop_list(&visit, &open[LOOPS_WHOLE_MAX..], "Other open loops", overview.now_ms))
            }
            @if !over.is_empty() { (loop_list(&visit, &over, "Completed", overview.now_ms)) }
        }
        (roles::table(&visit, &overview, &guard))
        (leases(&visit, &overview))
    };
    let page = Page {
        title: "Now".to_owned(),
        tab: "now",
        live: "directory turn mail swarm run guard",
        every_s: EVERY_S,
    };
    Ok(respond(&visit, page, body).await)
}

/// What is wrong, and the command that helps.
fn problem_list(found: &[Problem]) -> Markup {
    html! {
        section #problems .problems .calm[found.is_empty()] aria-label="What needs attention" {
            @if found.is_empty() { p { "Nothing is stuck." } }
            @for it in found {
                article.problem {
                    p.what {
                        @if it.of_loop.is_empty() { (plain(&it.what)) }
                        @else { a href={ "#loop-" (it.of_loop) } { (plain(&it.what)) } }
                    }
                    p.mend { (commands(&it.mend)) }
                }
            }
        }
    }
}

/// A sentence with commands between backticks.
fn commands(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (plain(part)) } } @else { (plain(part)) }
        }
    }
}

fn loop_card(
    visit: &Visit,
    it: &wire::GetLoopResponse,
    stuck: &BTreeSet<&str>,
    now_ms: u64,
) -> Markup {
    let empty = wire::Loop::default();
    let of = it.r#loop.as_ref().unwrap_or(&empty);
    let is_quiet = of.turn_began_ms < of.quiet_since_ms;
    let words = it.words.as_ref().or(it.latest.as_ref());
    html! {
        article.card.loop id={ "loop-" (of.r#loop) } {
            header {
                h3 { a href=(visit.link(&format!("/timeline?loop={}", of.r#loop))) { (plain(&of.r#loop)) } }
                @match of.status() {
                    LoopStatus::Idle | LoopStatus::Working if stuck.contains(of.r#loop.as_str()) => {
                        span.chip.warn title="What is missing is said above" { "waits" }
                    }
                    status => (status_chip(status)),
                }
                span.note { "round " (of.round) ", " (counted(of.entries, "entry")) " of history" }
            }
            (relay::picture(of, it.latest.as_ref()))
            p.turn {
                b { "Turn " (of.turn) } " is with " (view::role(visit, &of.holder))
                @if of.turn_began_ms != 0 { " since " (since(of.turn_began_ms, now_ms)) }
                @if of.lease_lapses_ms != 0 { ", its lease " (lease(of.lease_lapses_ms, now_ms)) }
                @if is_quiet { "; quiet for " (since(of.quiet_since_ms, now_ms)) }
                "."
                @if !of.waiting.is_empty() { " Waiting for it: " (plain(&of.waiting.join(", "))) "." }
            }
            @if let Some(pause) = &of.pause {
                p.trouble { "Paused " (ago(pause.at_ms, now_ms)) ": " (plain(&pause.reason)) }
            }
            @if let Some(receipts) = &of.receipts { (view::turn_receipts(receipts, now_ms)) }
            @if let Some(words) = words { (last_entry(visit, of, words, now_ms)) }
            @else { (nothing("Nothing was handed over yet.")) }
            (actions::of_loop(visit, of))
        }
    }
}

fn last_entry(visit: &Visit, of: &wire::Loop, it: &wire::Entry, now_ms: u64) -> Markup {
    let raw = format!("{}&raw=1", entry::link(visit, &of.r#loop, it.number));
    html! {
        details.entry open[it.summary.len() + it.instruction.len() < 1200] {
            summary { (entry::title(&of.r#loop, it)) " " (ago(it.at_ms, now_ms)) }
            (entry::words(it, &raw))
        }
    }
}

fn status_chip(status: LoopStatus) -> Markup {
    let (class, text) = match status {
        LoopStatus::Idle => ("idle", "not begun"),
        LoopStatus::Working => ("good", "working"),
        LoopStatus::Stalled => ("bad", "stalled"),
        LoopStatus::Paused => ("bad", "paused"),
        LoopStatus::Completed => ("done", "completed"),
        LoopStatus::Unspecified => ("idle", "not known"),
    };
    html! { span.chip.(class) { (text) } }
}

fn loop_list(visit: &Visit, loops: &[&wire::Loop], title: &str, now_ms: u64) -> Markup {
    html! {
        details {
            summary { (title) " (" (loops.len()) ")" }
            div.scroll { table {
                thead { tr { th { "Loop" } th { "State" } th { "Turn" } th { "Holder" } th { "Since" } th {} } }
                tbody {
                    @for it in loops.iter().take(200) {
                        tr id={ "loop-" (it.r#loop) } {
                            td { a href=(visit.link(&format!("/timeline?loop={}", it.r#loop))) { (plain(&it.r#loop)) } }
                            td { (status_chip(it.status())) }
                            td.number { (it.turn) }
                            td { (view::role(visit, &it.holder)) }
                            td { (ago(it.turn_began_ms, now_ms)) }
                            td { (actions::of_loop(visit, it)) }
                        }
                    }
                }
            } }
        }
    }
}

/// What runs out, the next first.
fn leases(visit: &Visit, overview: &Overview) -> Markup {
    let held = overview.roles.iter().flat_map(|role| role.holds.iter().map(move |it| (role, it)));
    let mut running: Vec<_> = held.filter(|(_, it)| it.lapses_ms != 0).collect();
    running.sort_by_key(|(_, it)| it.lapses_ms);
    let now_ms = overview.now_ms;
    let unlisted = overview.unlisted.locks + overview.unlisted.deliveries;
    html! {
        section aria-labelledby="leases" {
            h2 #leases { "Leases running out" }
            @if running.is_empty() { (nothing("Nothing that is held has a time limit.")) }
            @else {
                p.note { "Renewed while an agent works. A turn whose lease lapses can be reclaimed; a task is open again, and a lock is free." }
                div.scroll { table {
                    thead { tr { th { "What" } th { "Of" } th { "Held by" } th { "Since" } th { "Lapses" } } }
                    tbody {
                        @for (role, it) in running.iter().take(100) {
                            tr {
                                td { (it.kind) " " (plain(&it.name)) }
                                td { (plain(&it.of)) }
                                td { (view::role(visit, &role.role.role)) }
                                td { (since(it.since_ms, now_ms)) }
                                td { (lapses(it.lapses_ms, now_ms)) }
                            }
                        }
                    }
                } }
            }
            @if unlisted != 0 || 100 < running.len() {
                p.note { (counted(unlisted + running.len().saturating_sub(100) as u64, "more lease")) " not shown." }
            }
        }
    }
}
