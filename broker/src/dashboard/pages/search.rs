//! One search over everything: loops, handovers, mail, issues, tasks, deliveries, locks, runs, roles
//! and machines. Mail has an index; of everything else the newest is looked through, and the page says
//! where that was not all.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, response::Response, routing::get};
use futures::{StreamExt as _, stream};
use maud::{Markup, html};
use serde::Deserialize;
use tasuki_proto::{
    counted::counted,
    limits::{HISTORY_PAGE_MAX, SWARM_PAGE_MAX},
    rpc::Rpc,
    wire,
};
use tokio::{sync::SemaphorePermit, time::timeout};
use tonic::{Code, Status};

use super::{
    super::{
        App,
        view::{Page, ago, nothing, plain, respond},
        visit::{Query, Trouble, Visit},
    },
    Words, entry, escaped,
};
use crate::overview::{Calls as _, every_loop, every_node};

/// Mailboxes that are searched, a call each.
const MAILBOXES_SEARCHED_MAX: usize = 64;

/// Pages of handovers that are looked through, of all loops together.
const PAGES_MAX: usize = 100;
const PAGE: u64 = HISTORY_PAGE_MAX as u64;

/// Issues that are looked through, and tasks and deliveries of all of them together.
const ISSUES_SEARCHED_MAX: u32 = 50;
const TASKS_SEARCHED_MAX: usize = 1000;
const DELIVERIES_SEARCHED_MAX: u32 = 200;

/// Locks that are looked through, and runs.
const LOCKS_SEARCHED_MAX: u32 = 200;
const RUNS_SEARCHED_MAX: u32 = 200;

/// Of each kind, on the page.
const HITS_SHOWN_MAX: usize = 20;

/// Of a text around what was found, in characters.
const AROUND: usize = 80;

/// Letters of a mailbox: the best.
const LETTERS_MAX: u32 = 100;

const CALLS_AT_ONCE: usize = 4;

/// Until there is a place among the searches under way.
const PLACE_WITHIN: Duration = Duration::from_secs(10);

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router.route("/w/{workspace}/search", get(search))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    q: String,
}

/// Something that was found.
struct Hit {
    link: String,
    title: String,
    excerpt: String,
    at_ms: u64,
    words: Option<Words>,
}

/// What was found of a kind.
#[derive(Default)]
struct Found {
    hits: Vec<Hit>,
    /// Not all of the kind was looked through.
    is_cut: bool,
    /// What kept it from being looked through, if anything did.
    why: Option<String>,
}

/// One look through a kind.
struct Look<'a> {
    visit: &'a Visit,
    is_cut: AtomicBool,
    why: OnceLock<String>,
}

impl<'a> Look<'a> {
    fn new(visit: &'a Visit) -> Self {
        Self { visit, is_cut: AtomicBool::new(false), why: OnceLock::new() }
    }

    /// What may not be seen is left out; that something could not be looked through is said.
    async fn ask<R: Rpc<Response: Default>>(&self, request: R) -> R::Response {
        self.answer(self.visit.call(&request).await)
    }

    fn answer<T: Default>(&self, answer: Result<T, Status>) -> T {
        answer.unwrap_or_else(|why| {
            if !matches!(why.code(), Code::NotFound | Code::PermissionDenied) {
                self.cut_if(true);
                // The first stands for all.
                let _ = self.why.set(why.message().to_owned());
            }
            T::default()
        })
    }

    fn cut_if(&self, is_cut: bool) {
        self.is_cut.fetch_or(is_cut, Ordering::Relaxed);
    }

    fn found(self, hits: Vec<Hit>) -> Found {
        Found { hits, is_cut: self.is_cut.into_inner(), why: self.why.into_inner() }
    }
}

async fn search(visit: Visit, Query(asked): Query<Asked>) -> Result<Response, Trouble> {
    let query = asked.q.trim().to_owned();
    let now_ms = visit.now_ms().await?;
    let sections = if query.is_empty() {
        Vec::new()
    } else {
        let _place = place(&visit).await?;
        let all = every_loop(&visit).await?;
        vec![
            ("Loops", loops(&visit, &all, &query)),
            ("Handovers", handovers(&visit, all, &query).await),
            ("Mail", mail(&visit, &query).await),
            ("Issues and tasks", work(&visit, &query).await),
            ("Deliveries", deliveries(&visit, &query).await),
            ("Locks", locks(&visit, &query).await),
            ("Runs", runs(&visit, &query).await),
            ("Roles and machines", names(&visit, &query).await),
        ]
    };
    let total: usize = sections.iter().map(|it| it.1.hits.len()).sum();
    let cut = sections.iter().filter(|it| it.1.is_cut).map(|(title, found)| {
        let title = title.to_lowercase();
        match &found.why {
            Some(why) => format!("{title} ({})", plain(why)),
            None => title,
        }
    });
    let cut: Vec<String> = cut.collect();
    let body = html! {
        h1 { "Search" }
        form.search.wide method="get" action=(visit.link("/search")) {
            input type="search" name="q" value=(query) aria-label="Search everything" autofocus[query.is_empty()];
        }
        @if !query.is_empty() { p.note { (counted(total, "hit")) " for “" (plain(&query)) "”" } }
        @for (title, found) in &sections {
            @if !found.hits.is_empty() { (section(title, &found.hits, now_ms)) }
        }
        @if total == 0 && !query.is_empty() { (nothing("Nothing was found. Every word has to appear in what is looked for; try fewer.")) }
        @if !cut.is_empty() { p.note { "Not all was looked through: " (cut.join(", ")) "." } }
    };
    let page = Page { title: format!("Search: {}", plain(&query)), tab: "", live: "", every_s: 0 };
    Ok(respond(&visit, page, body).await)
}

fn section(title: &str, hits: &[Hit], now_ms: u64) -> Markup {
    html! {
        section {
            h2 { (title) " " span.note { (hits.len()) } }
            ul.threads {
                @for hit in hits.iter().take(HITS_SHOWN_MAX) {
                    li data-item {
                        a href=(hit.link) { (plain(&hit.title)) }
                        @if hit.at_ms != 0 { " " span.note { (ago(hit.at_ms, now_ms)) } }
                        @if !hit.excerpt.is_empty() { div.note { (plain(&hit.excerpt)) } }
                    }
                }
            }
            @if HITS_SHOWN_MAX < hits.len() { p.note { (hits.len() - HITS_SHOWN_MAX) " more" } }
        }
    }
}

/// Whether every word of a question is in a text; capitals do not matter.
fn has_all(text: &str, query: &str) -> bool {
    let text = text.to_lowercase();
    query.to_lowercase().split_whitespace().all(|word| text.contains(word))
}

/// The part of a text around the first word of the question.
fn excerpt(text: &str, query: &str) -> String {
    if text.trim().is_empty() {
        return String::new();
    }
    let lower = text.to_lowercase();
    let word = query.to_lowercase();
    let word = word.split_whitespace().next().unwrap_or_default();
    let at = lower.find(word).unwrap_or(0).min(text.len());
    let at = text.floor_char_boundary(at);
    let before = text[..at].chars().rev().take(AROUND).count();
    let start = text[..at].char_indices().rev().nth(before.saturating_sub(1)).map_or(at, |it| it.0);
    let cut: String = text[start..].chars().take(2 * AROUND).collect();
    let more = if start + cut.len() < text.len() { "…" } else { "" };
    format!("{}{}{more}", if start == 0 { "" } else { "…" }, cut.trim())
}

/// A place among the searches under way: each reads a lot.
async fn place(visit: &Visit) -> Result<SemaphorePermit<'_>, Trouble> {
    let busy = |_| Status::resource_exhausted("too many searches are under way; try again");
    let place = timeout(PLACE_WITHIN, visit.app.searches.acquire()).await.map_err(busy)?;
    place.map_err(|_| Status::unavailable("the pages are closing").into())
}

/// What has the words, of handovers and letters, and whether not all was looked through. `of`: of
/// one loop and no letter; empty: of all.
pub(super) async fn words(
    visit: &Visit,
    query: &str,
    of: &str,
) -> Result<(BTreeSet<Words>, bool), Trouble> {
    let _place = place(visit).await?;
    let mut loops = every_loop(visit).await?;
    loops.retain(|it| of.is_empty() || it.r#loop == of);
    let handed_over = handovers(visit, loops, query).await;
    let written = if of.is_empty() { mail(visit, query).await } else { Found::default() };
    let is_cut = handed_over.is_cut || written.is_cut;
    let hits = handed_over.hits.into_iter().chain(written.hits);
    Ok((hits.filter_map(|it| it.words).collect(), is_cut))
}

/// By name, and why one is paused.
fn loops(visit: &Visit, loops: &[wire::Loop], query: &str) -> Found {
    let hits = loops.iter().filter_map(|it| {
        let why = it.pause.as_ref().map(|it| it.reason.clone()).unwrap_or_default();
        has_all(&format!("{} {} {why}", it.r#loop, it.participants.join(" ")), query).then(|| Hit {
            link: visit.link(&format!("/now#loop-{}", it.r#loop)),
            title: format!("Loop {} of {}", it.r#loop, it.participants.join(", ")),
            excerpt: excerpt(&why, query),
            at_ms: it.turn_began_ms,
            words: None,
        })
    });
    Found { hits: hits.collect(), ..Found::default() }
}

async fn handovers(visit: &Visit, mut loops: Vec<wire::Loop>, query: &str) -> Found {
    let look = Look::new(visit);
    loops.sort_by_key(|it| std::cmp::Reverse(it.turn_began_ms));
    let mut hits = Vec::new();
    let mut left = PAGES_MAX;
    // The newest page of each loop before the second of any.
    let mut open: Vec<(String, u64)> =
        loops.into_iter().map(|it| (it.r#loop, it.entries)).filter(|it| it.1 != 0).collect();
    while !open.is_empty() && 0 < left {
        let rest = open.split_off(left.min(open.len()));
        look.cut_if(!rest.is_empty());
        left -= open.len();
        let pages: Vec<(String, u64, Vec<wire::Entry>)> = stream::iter(open)
            .map(|(name, last)| page(&look, name, last))
            .buffered(CALLS_AT_ONCE)
            .collect()
            .await;
        open = Vec::new();
        for (name, first, entries) in pages {
            // Those before were removed, or there are none.
            let oldest = entries.first().map_or(0, |it| it.number);
            hits.extend(entries.into_iter().filter_map(|it| handed_over(visit, &name, it, query)));
            if oldest == first && 1 < first {
                open.push((name, first - 1));
            }
        }
    }
    look.cut_if(!open.is_empty());
    hits.sort_by_key(|it| std::cmp::Reverse(it.at_ms));
    look.found(hits)
}

/// The entries of a loop up to `last`, from the number that is told.
async fn page(look: &Look<'_>, name: String, last: u64) -> (String, u64, Vec<wire::Entry>) {
    let first = last.saturating_sub(PAGE - 1).max(1);
    let entries = look.answer(entry::range(look.visit, &name, first, last).await);
    (name, first, entries)
}

fn handed_over(visit: &Visit, name: &str, it: wire::Entry, query: &str) -> Option<Hit> {
    let text = format!("{}\n{}\n{}", it.summary, it.instruction, it.reason);
    let whole = format!("{name} {} {} {text}", it.from, it.to);
    has_all(&whole, query).then(|| Hit {
        link: entry::link(visit, name, it.number),
        title: entry::title(name, &it),
        excerpt: excerpt(&text, query),
        at_ms: it.at_ms,
        words: Some(Words::Entry(name.to_owned(), it.number)),
    })
}

async fn mail(visit: &Visit, query: &str) -> Found {
    let look = Look::new(visit);
    let mailboxes = look.ask(wire::ListMailboxesRequest::default()).await.mailboxes;
    look.cut_if(MAILBOXES_SEARCHED_MAX < mailboxes.len());
    let roles: Vec<String> =
        mailboxes.into_iter().map(|it| it.role).take(MAILBOXES_SEARCHED_MAX).collect();
    let found: Vec<(String, wire::SearchMailResponse)> = stream::iter(roles)
        .map(|role| mailbox(&look, role, query))
        .buffered(CALLS_AT_ONCE)
        .collect()
        .await;
    let mut hits: Vec<Hit> = Vec::new();
    let mut known = BTreeSet::new();
    for (role, page) in found {
        look.cut_if((page.hits.len() as u64) < page.total || !page.left_out.is_empty());
        for hit in page.hits {
            let thread = hit.thread.unwrap_or_default();
            if known.insert((thread.message_id.clone(), hit.entry)) {
                hits.push(Hit {
                    link: visit.link(&format!("/mail?role={role}&thread={}", thread.message_id)),
                    title: format!("{} ({})", thread.subject, hit.sender),
                    excerpt: hit.excerpt,
                    at_ms: hit.at_ms,
                    words: Some(Words::Letter(thread.message_id.clone(), hit.entry)),
                });
            }
        }
    }
    hits.sort_by_key(|it| std::cmp::Reverse(it.at_ms));
    look.found(hits)
}

async fn mailbox(look: &Look<'_>, role: String, query: &str) -> (String, wire::SearchMailResponse) {
    let request = wire::SearchMailRequest {
        role: role.clone(),
        query: query.to_owned(),
        limit: LETTERS_MAX,
        include_sequence: u64::MAX,
        ..Default::default()
    };
    (role, look.ask(request).await)
}

async fn work(visit: &Visit, query: &str) -> Found {
    let look = Look::new(visit);
    let mut request = wire::ListIssuesRequest { limit: ISSUES_SEARCHED_MAX, ..Default::default() };
    request.set_sort_by(wire::SortBy::Updated);
    let listed = look.ask(request).await;
    look.cut_if(u64::from(ISSUES_SEARCHED_MAX) < listed.total);
    let mut found = Vec::new();
    let mut left = TASKS_SEARCHED_MAX;
    for issue in &listed.issues {
        let request =
            wire::GetIssueRequest { issue_id: issue.issue_id.clone(), ..Default::default() };
        let words = look.ask(request).await.issue.unwrap_or_default();
        let text = format!("{}\n{}", words.description, issue.summary);
        if has_all(&format!("{} {} {} {text}", issue.issue_id, issue.subject, issue.lead), query) {
            found.push(Hit {
                link: visit.link(&format!("/tasks?issue={}", escaped(&issue.issue_id))),
                title: format!("Issue: {}", issue.subject),
                excerpt: excerpt(&text, query),
                at_ms: issue.updated_ms,
                words: None,
            });
        }
        let request = wire::ListTasksRequest {
            issue_id: issue.issue_id.clone(),
            limit: SWARM_PAGE_MAX,
            ..Default::default()
        };
        let listed = look.ask(request).await;
        let count = listed.tasks.len().min(left);
        look.cut_if((count as u64) < listed.total);
        left -= count;
        let tasks = stream::iter(listed.tasks.into_iter().take(count));
        let hits: Vec<Option<Hit>> =
            tasks.map(|it| task(&look, it, query)).buffered(CALLS_AT_ONCE).collect().await;
        found.extend(hits.into_iter().flatten());
    }
    look.found(found)
}

/// A task, if its words or what was said about it fit.
async fn task(look: &Look<'_>, it: wire::Task, query: &str) -> Option<Hit> {
    let request = wire::GetTaskRequest {
        issue_id: it.issue_id.clone(),
        task_id: it.task_id.clone(),
        ..Default::default()
    };
    let whole = look.ask(request).await.task.unwrap_or_default();
    let said = whole.messages.iter().map(|it| format!("{}\n{}", it.content, it.reply));
    let words = whole.words.unwrap_or_default();
    let submitted = whole.submission.unwrap_or_default();
    let summary = submitted.words.unwrap_or_default().summary;
    let feedback = submitted.review.unwrap_or_default().feedback;
    let parts = [words.description, summary, feedback].into_iter().chain(said);
    let text = parts.filter(|it| !it.trim().is_empty()).collect::<Vec<_>>().join("\n");
    let names = format!("{} {} {}", it.task_id, it.subject, it.claimed_by);
    has_all(&format!("{names} {text}"), query).then(|| Hit {
        link: look.visit.link(&format!(
            "/tasks?issue={}&task={}",
            escaped(&it.issue_id),
            escaped(&it.task_id)
        )),
        title: format!("{}: {}", it.task_id, it.subject),
        excerpt: excerpt(&text, query),
        at_ms: it.updated_ms,
        words: None,
    })
}

async fn deliveries(visit: &Visit, query: &str) -> Found {
    let look = Look::new(visit);
    let request =
        wire::ListDeliveriesRequest { limit: DELIVERIES_SEARCHED_MAX, ..Default::default() };
    let listed = look.ask(request).await;
    look.cut_if((listed.deliveries.len() as u64) < listed.total);
    let read = stream::iter(listed.deliveries).map(|it| delivery(&look, it, query));
    let hits: Vec<Option<Hit>> = read.buffered(CALLS_AT_ONCE).collect().await;
    look.found(hits.into_iter().flatten().collect())
}

/// A delivery, if what was said of it fits.
async fn delivery(look: &Look<'_>, it: wire::Delivery, query: &str) -> Option<Hit> {
    let request =
        wire::GetDeliveryRequest { delivery_id: it.delivery_id.clone(), ..Default::default() };
    let whole = look.ask(request).await.delivery.unwrap_or_default();
    let text = format!("{}\n{}\n{}", whole.summary, whole.feedback, whole.ended_because);
    let names = format!("{} {} {}", it.delivery_id, it.delivered_by, it.reviewed_by);
    has_all(&format!("{names} {text}"), query).then(|| Hit {
        link: look.visit.link(&format!("/tasks?issue={}", escaped(&it.issue_id))),
        title: format!("{} of {}, by {}", it.delivery_id, it.issue_id, it.delivered_by),
        excerpt: excerpt(&text, query),
        at_ms: it.updated_ms,
        words: None,
    })
}

async fn locks(visit: &Visit, query: &str) -> Found {
    let look = Look::new(visit);
    let request = wire::ListLocksRequest { limit: LOCKS_SEARCHED_MAX, ..Default::default() };
    let listed = look.ask(request).await;
    look.cut_if((listed.locks.len() as u64) < listed.total);
    let hits = listed.locks.into_iter().filter_map(|it| {
        let files = it.files.unwrap_or_default();
        let patterns = files.patterns.join(", ");
        let text = format!("{patterns} {} {} {}", files.repository, it.holder, it.task_id);
        has_all(&text, query).then(|| Hit {
            link: visit.link("/tasks#locks"),
            title: format!("Lock of {}", it.holder),
            excerpt: excerpt(&patterns, query),
            at_ms: it.acquired_ms,
            words: None,
        })
    });
    look.found(hits.collect())
}

async fn runs(visit: &Visit, query: &str) -> Found {
    let look = Look::new(visit);
    let request = wire::ListRunsRequest { limit: RUNS_SEARCHED_MAX, ..Default::default() };
    let listed = look.ask(request).await;
    look.cut_if(listed.has_more);
    let hits = listed.runs.into_iter().filter_map(|it| {
        let agents: Vec<&str> = it.steps.iter().map(|it| it.agent.as_str()).collect();
        let agents = agents.join(", ");
        has_all(&format!("{} {} {} {agents}", it.run_id, it.role, it.person), query).then(|| Hit {
            link: visit.link(&format!("/runs?run={}", escaped(&it.run_id))),
            title: format!("{}: {agents}", it.run_id),
            excerpt: String::new(),
            at_ms: it.started_ms,
            words: None,
        })
    });
    look.found(hits.collect())
}

async fn names(visit: &Visit, query: &str) -> Found {
    let look = Look::new(visit);
    let (nodes, _) = look.answer(every_node(visit).await);
    let mut hits = Vec::new();
    for node in nodes {
        if has_all(&format!("{} {}", node.node, node.software), query) {
            hits.push(Hit {
                link: visit.link(&format!("/machines#node-{}", node.node)),
                title: format!("Node {}", node.node),
                excerpt: node.software.clone(),
                at_ms: node.last_seen_ms,
                words: None,
            });
        }
        for role in node.roles.iter().filter(|role| has_all(role, query)) {
            hits.push(Hit {
                link: visit.link(&format!("/now#role-{role}")),
                title: format!("Role {role}"),
                excerpt: format!("on {}", node.node),
                at_ms: 0,
                words: None,
            });
        }
    }
    look.found(hits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_to_be_there() {
        assert!(has_all("The API is done", "api DONE"));
        assert!(!has_all("The API is done", "api broken"));
    }

    #[test]
    fn an_excerpt_shows_where() {
        let text = format!("{} needle {}", "é".repeat(300), "ö".repeat(300));
        let found = excerpt(&text, "NEEDLE x");
        assert!(found.starts_with('…') && found.contains("needle") && found.ends_with('…'));
        assert!(found.chars().count() < 2 * AROUND + 4, "{found}");
        assert_eq!((excerpt("ab", "zz"), excerpt("\n", "zz")), ("ab".into(), String::new()));
        // Letters that are longer in small ones.
        assert!(!excerpt("İİİİ needle", "needle").is_empty());
    }
}
