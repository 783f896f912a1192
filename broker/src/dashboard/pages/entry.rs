//! One entry of a loop's history: a handover, a reclaim or the start of a round, with all its words.

use std::sync::Arc;

use axum::{
    Router,
    response::{IntoResponse as _, Response},
    routing::get,
};
use http::header::CONTENT_TYPE;
use maud::{Markup, html};
use serde::Deserialize;
use tasuki_proto::{
    limits::HISTORY_PAGE_MAX,
    wire::{self, EntryKind},
};
use tonic::Status;

use super::super::{
    App,
    markdown::markdown,
    view::{Page, ago, clock, plain, respond},
    visit::{Query, Trouble, Visit},
};
use crate::overview::Calls as _;

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router.route("/w/{workspace}/entry", get(entry))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Which {
    r#loop: String,
    number: u64,
    /// Not empty: its words and nothing else, as they are.
    raw: String,
}

/// Where an entry is shown.
pub(super) fn link(visit: &Visit, name: &str, number: u64) -> String {
    visit.link(&format!("/entry?loop={name}&number={number}"))
}

async fn entry(visit: Visit, Query(which): Query<Which>) -> Result<Response, Trouble> {
    let name = which.r#loop;
    let Some(it) = read(&visit, &name, which.number).await? else { return Err(Trouble::NotFound) };
    if !which.raw.is_empty() {
        let text = format!("{}\n\n{}\n", it.summary, it.instruction);
        return Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response());
    }
    let now_ms = visit.now_ms().await?;
    let raw = format!("{}&raw=1", link(&visit, &name, it.number));
    let has_before = read(&visit, &name, it.number.saturating_sub(1)).await?.is_some();
    let has_next = read(&visit, &name, it.number.saturating_add(1)).await?.is_some();
    let body = html! {
        article.card.detail {
            header {
                h1 { (title(&name, &it)) }
                span.note { (clock(it.at_ms)) ", " (ago(it.at_ms, now_ms)) }
            }
            (words(&it, &raw))
            p.row {
                @if has_before { a.button href=(link(&visit, &name, it.number - 1)) { "The one before" } }
                @if has_next { a.button href=(link(&visit, &name, it.number + 1)) { "The next" } }
                a.button href=(visit.link(&format!("/timeline?loop={name}"))) { "Timeline of " (plain(&name)) }
            }
        }
    };
    let page = Page { title: plain(&name), tab: "timeline", live: "", every_s: 0 };
    Ok(respond(&visit, page, body).await)
}

/// `None`: there is no such entry, or it is no longer kept.
pub(super) async fn read(
    visit: &Visit,
    name: &str,
    number: u64,
) -> Result<Option<wire::Entry>, Status> {
    let found = range(visit, name, number, number).await?.into_iter().next();
    Ok(found.filter(|it| it.number == number))
}

/// Those of at most a page, as far as they are kept: long texts take several answers.
pub(super) async fn range(
    visit: &Visit,
    name: &str,
    first: u64,
    last: u64,
) -> Result<Vec<wire::Entry>, Status> {
    let mut all: Vec<wire::Entry> = Vec::new();
    let mut from = first;
    while from <= last && last - from < u64::from(HISTORY_PAGE_MAX) {
        let request = wire::HistoryRequest {
            r#loop: name.to_owned(),
            from,
            limit: u32::try_from(last - from + 1).unwrap_or(HISTORY_PAGE_MAX),
            ..Default::default()
        };
        let answer = visit.call(&request).await?;
        all.extend(answer.entries.into_iter().filter(|it| it.number <= last));
        if answer.next <= from {
            break;
        }
        from = answer.next;
    }
    Ok(all)
}

/// What happened, in one line.
pub(super) fn title(name: &str, it: &wire::Entry) -> String {
    let who = [&it.person, &it.from].into_iter().find(|it| !it.is_empty());
    let who = who.map_or_else(|| "somebody".to_owned(), |it| plain(it));
    let (name, to) = (plain(name), plain(&it.to));
    match it.kind() {
        EntryKind::Handover if it.is_task_complete => format!("{who} completed {name}"),
        EntryKind::Reclaim => format!("{who} took turn {} of {name} for {to}", it.ended_turn),
        EntryKind::RoundStart => format!("{who} began round {} of {name} with {to}", it.round),
        EntryKind::Handover | EntryKind::Unspecified => {
            format!("{who} ended turn {} of {name} and handed it to {to}", it.ended_turn)
        }
    }
}

/// What was done, what comes next, and why; `raw` leads to what is cut.
pub(super) fn words(it: &wire::Entry, raw: &str) -> Markup {
    html! {
        @if !it.summary.is_empty() { h4 { "Done" } (markdown(&it.summary, Some(raw))) }
        @if !it.instruction.is_empty() { h4 { "Next" } (markdown(&it.instruction, Some(raw))) }
        @if !it.reason.is_empty() { h4 { "Why" } p { (plain(&it.reason)) } }
    }
}
