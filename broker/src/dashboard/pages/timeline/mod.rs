//! *Timeline*: what happened, a lane for each role: turns, handovers, mail, tasks, locks and runs.
//!
//! The newest [`RECORDS_MAX`] records are read anew for each look, as the visitor may see them. What
//! lies close together is drawn as one mark, so a page has a bounded number of nodes however much
//! happened.

mod chart;
mod detail;
mod event;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use axum::{Router, response::Response, routing::get};
use futures::{StreamExt as _, stream};
use maud::{Markup, html};
use serde::Deserialize;
use tasuki_proto::{
    counted::counted,
    limits::{HISTORY_PAGE_MAX, TIME_MS_MAX},
    wire,
};
use tokio::time::timeout;

use self::event::{Kind, Mark, Timeline};
use super::{
    super::{
        App, live,
        view::{Page, ago, clock, nothing, plain, respond, role},
        visit::{Query, Trouble, Visit},
    },
    Words, entry, search,
};
use crate::overview::Calls as _;

/// Records that are looked at: some days of a busy workspace.
const RECORDS_MAX: u64 = 10_000;

/// Until they are all there.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// Rows of the list below the lanes.
const ROWS_MAX: usize = 40;

/// Roles, and loops, that one can choose.
const CHOICES_MAX: usize = 60;

/// Loops whose words are shown in that list.
const LOOPS_TOLD_MAX: usize = 8;

/// Threads whose subject is shown there, and how many are read at once.
const THREADS_TOLD_MAX: usize = ROWS_MAX;
const CALLS_AT_ONCE: usize = 4;

/// Letters of the words of one row.
const WORDS_SHOWN_MAX: usize = 120;

/// Lengths of time that one can look at, in milliseconds, with their names.
const SPANS: [(&str, u64); 6] = [
    ("5m", 300_000),
    ("1h", 3_600_000),
    ("6h", 21_600_000),
    ("1d", 86_400_000),
    ("7d", 604_800_000),
    ("all", u64::MAX),
];

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router.route("/w/{workspace}/timeline", get(timeline))
}

/// What is looked at.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Filter {
    /// A name of [`SPANS`]; empty: all.
    span: String,
    /// The end, in milliseconds since 1970; 0: now.
    until: u64,
    role: String,
    r#loop: String,
    /// A kind's name; empty: all.
    kind: String,
    /// Part of a line, or words of what was handed over or written.
    q: String,
    /// The record whose texts are shown; 0: none.
    at: u64,
}

impl Filter {
    fn has(&self, mark: &Mark, told: &BTreeSet<Words>) -> bool {
        let named = |wanted: &str, names: &[&str]| wanted.is_empty() || names.contains(&wanted);
        named(&self.role, &mark.roles())
            && named(&self.r#loop, &[&mark.of_loop])
            && named(&self.kind, &[mark.kind.name()])
            && (self.q.is_empty()
                || mark.text.to_lowercase().contains(&self.q.to_lowercase())
                || mark.words.as_ref().is_some_and(|it| told.contains(it)))
    }

    fn span_ms(&self) -> u64 {
        SPANS.iter().find(|it| it.0 == self.span).map_or(u64::MAX, |it| it.1)
    }

    /// The address of the same with something else.
    fn link(&self, visit: &Visit, change: impl FnOnce(&mut Self)) -> String {
        let mut other = Self { at: 0, ..self.clone() };
        change(&mut other);
        let number = |it: u64| if it == 0 { String::new() } else { it.to_string() };
        let fields = [
            ("span", other.span),
            ("until", number(other.until)),
            ("role", other.role),
            ("loop", other.r#loop),
            ("kind", other.kind),
            ("q", other.q),
            ("at", number(other.at)),
        ];
        let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
        let query: Vec<String> =
            fields.map(|(name, value)| format!("{name}={}", super::escaped(&value))).collect();
        visit.link(&format!("/timeline?{}", query.join("&")))
    }
}

async fn timeline(visit: Visit, Query(filter): Query<Filter>) -> Result<Response, Trouble> {
    let now_ms = visit.now_ms().await?;
    let (records, is_cut) = records(&visit).await?;
    let whole = Timeline::new(&records, now_ms);
    let until = if filter.until == 0 { now_ms } else { filter.until.min(TIME_MS_MAX) };
    let first = whole.marks.first().map_or(until, |it| it.at_ms);
    let from = match filter.span_ms() {
        u64::MAX => first.min(until),
        span => until.saturating_sub(span),
    };
    let (told, is_part) = match filter.q.trim() {
        "" => Default::default(),
        words => search::words(&visit, words, &filter.r#loop).await?,
    };
    let shown = whole.within(from, until, &filter, &told);
    let body = html! {
        h1 { "Timeline" }
        (controls(&visit, &filter, &whole, (from, until, now_ms)))
        @if shown.marks.is_empty() && shown.bars.is_empty() { (nothing("Nothing happened in this time that fits.")) }
        @else { (chart::lanes(&shown, from, until, |at| filter.link(&visit, |it| it.at = at))) }
        @if filter.at != 0 { (detail::panel(&visit, &records, filter.at, now_ms, &filter.link(&visit, |_| {})).await) }
        (list(&visit, &filter, &shown, now_ms).await)
        @if is_part { p.note { "Not all handovers and messages were looked through for these words." } }
        @if is_cut {
            p.note { "Shown are the newest " (RECORDS_MAX) " records. All of a loop: " code { "tasuki loop history" } "." }
        }
    };
    let page = Page {
        title: "Timeline".to_owned(),
        tab: "timeline",
        live: "turn mail swarm run guard",
        every_s: 0,
    };
    Ok(respond(&visit, page, body).await)
}

/// The newest records, oldest first, and whether there are older ones.
async fn records(visit: &Visit) -> Result<(Vec<wire::FeedItem>, bool), Trouble> {
    let request =
        wire::SubscribeRequest { latest: RECORDS_MAX, only_kept: true, ..Default::default() };
    let mut feed = live::subscribe(visit, request).await?;
    let mut records = Vec::new();
    let read = async {
        while let Some(item) = feed.message().await? {
            records.push(item);
        }
        Ok::<_, tonic::Status>(())
    };
    // What came in time is shown.
    timeout(READ_WITHIN, read).await.unwrap_or(Ok(()))?;
    let is_cut = records.first().is_some_and(|it| 1 < it.sequence);
    Ok((records, is_cut))
}

fn controls(
    visit: &Visit,
    filter: &Filter,
    whole: &Timeline,
    (from, until, now_ms): (u64, u64, u64),
) -> Markup {
    let length = until.saturating_sub(from).max(1000);
    let earlier = filter.link(visit, |it| it.until = until.saturating_sub(length / 2));
    let after = until.saturating_add(length / 2);
    // At the end it follows what happens.
    let later = filter.link(visit, |it| it.until = if after < now_ms { after } else { 0 });
    let chosen = |all: &BTreeSet<String>, own: &str| {
        let mut all: BTreeSet<String> = all.iter().take(CHOICES_MAX).cloned().collect();
        all.insert(own.to_owned());
        all.remove("");
        all
    };
    let (lanes, loops) = (chosen(&whole.lanes, &filter.role), chosen(&whole.loops, &filter.r#loop));
    html! {
        form.row.filters method="get" action=(visit.link("/timeline")) {
            label { span { "Role" } select name="role" {
                option value="" { "all" }
                @for name in &lanes { option value=(name) selected[*name == filter.role] { (plain(name)) } }
            } }
            label { span { "Loop" } select name="loop" {
                option value="" { "all" }
                @for name in &loops { option value=(name) selected[*name == filter.r#loop] { (plain(name)) } }
            } }
            label { span { "Kind" } select name="kind" {
                option value="" { "all" }
                @for kind in Kind::ALL { option value=(kind.name()) selected[kind.name() == filter.kind] { (kind.name()) } }
            } }
            label { span { "Text" } input type="search" name="q" value=(filter.q); }
            input type="hidden" name="span" value=(filter.span);
            @if filter.until != 0 { input type="hidden" name="until" value=(filter.until); }
            button type="submit" { "Filter" }
        }
        nav.row.zoom aria-label="Time" {
            a.button href=(earlier) title="Earlier" { "◀" }
            @for (name, _) in SPANS {
                @let is_own = filter.span == name || (filter.span.is_empty() && name == "all");
                a.button href=(filter.link(visit, |it| name.clone_into(&mut it.span))) aria-current=[is_own.then_some("true")] { (name) }
            }
            @if filter.until != 0 { a.button href=(later) title="Later" { "▶" } }
            @if filter.until != 0 { a.button href=(filter.link(visit, |it| it.until = 0)) { "To now" } }
            span.note { (clock(from)) " to " (clock(until)) }
        }
    }
}

async fn list(visit: &Visit, filter: &Filter, shown: &Timeline, now_ms: u64) -> Markup {
    let rows: Vec<&Mark> = shown.marks.iter().rev().take(ROWS_MAX).collect();
    let words = first_words(visit, &rows).await;
    html! {
        section aria-labelledby="events" {
            h2 #events { (counted(shown.marks.len(), "event")) }
            div.scroll { table.events {
                tbody {
                    @for mark in &rows {
                        tr data-item aria-current=[(mark.sequence == filter.at).then_some("true")] {
                            td { (clock(mark.at_ms)) div.note { (ago(mark.at_ms, now_ms)) } }
                            td { span.chip.(mark.kind.name()) { (mark.kind.name()) } }
                            td { (role(visit, &mark.lane)) }
                            td {
                                a href=(filter.link(visit, |it| it.at = mark.sequence)) { (plain(&mark.text)) }
                                @if let Some(words) = mark.words.as_ref().and_then(|it| words.get(it)) { div.note { (plain(words)) } }
                            }
                        }
                    }
                }
            } }
            @if ROWS_MAX < shown.marks.len() { p.note { "The newest " (ROWS_MAX) " are listed. Zoom or filter to see others." } }
        }
    }
}

/// How what was handed over begins, and what letters are about.
async fn first_words(visit: &Visit, rows: &[&Mark]) -> BTreeMap<Words, String> {
    let mut loops: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut threads: BTreeMap<&str, [&str; 2]> = BTreeMap::new();
    for mark in rows {
        match &mark.words {
            Some(Words::Entry(name, number)) => {
                let (first, last) = loops.entry(name).or_insert((*number, *number));
                (*first, *last) = (*number.min(first), *number.max(last));
            }
            Some(Words::Letter(thread, _)) => {
                threads.entry(thread).or_insert_with(|| mark.roles());
            }
            None => {}
        }
    }
    let mut told = BTreeMap::new();
    for (name, (first, last)) in loops.into_iter().take(LOOPS_TOLD_MAX) {
        let first = first.max(last.saturating_sub(u64::from(HISTORY_PAGE_MAX) - 1));
        // The list is of use without them.
        for it in entry::range(visit, name, first, last).await.unwrap_or_default() {
            let parts = [first_line(&it.summary), first_line(&it.instruction)];
            let parts: Vec<String> = parts.into_iter().filter(|it| !it.is_empty()).collect();
            told.insert(Words::Entry(name.to_owned(), it.number), parts.join(" → "));
        }
    }
    let threads: Vec<(String, [String; 2])> = threads
        .into_iter()
        .take(THREADS_TOLD_MAX)
        .map(|(thread, roles)| (thread.to_owned(), roles.map(str::to_owned)))
        .collect();
    let subjects: BTreeMap<String, String> = stream::iter(threads)
        .map(|(thread, roles)| subject(visit, thread, roles))
        .buffered(CALLS_AT_ONCE)
        .collect()
        .await;
    for mark in rows {
        if let Some(words @ Words::Letter(thread, _)) = &mark.words
            && let Some(subject) = subjects.get(thread.as_str())
        {
            told.insert(words.clone(), subject.clone());
        }
    }
    told
}

fn first_line(text: &str) -> String {
    let line = text.lines().find(|it| !it.trim().is_empty()).unwrap_or_default();
    line.chars().take(WORDS_SHOWN_MAX).collect()
}

/// What a thread is about, from the copy of one of two roles.
async fn subject(visit: &Visit, thread: String, roles: [String; 2]) -> (String, String) {
    let mut subject = String::new();
    for role in roles.into_iter().filter(|it| !it.is_empty()) {
        let mut request = wire::ReadThreadRequest {
            role,
            message: thread.clone(),
            last: 1,
            ..Default::default()
        };
        request.set_mark(wire::MailMark::None);
        if let Ok(read) = visit.call(&request).await {
            subject = first_line(&read.thread.unwrap_or_default().subject);
            break;
        }
    }
    (thread, subject)
}
