//! One search over everything: handovers, mail, issues, tasks, deliveries, locks, runs, roles and
//! machines. Mail has an index; of everything else the newest is looked through, and the page says
//! where that was not all.

use std::{collections::BTreeSet, sync::Arc};

use axum::{Router, response::Response, routing::get};
use futures::{StreamExt as _, stream};
use maud::{Markup, html};
use serde::Deserialize;
use tasuki_proto::{
    counted::counted,
    limits::{HISTORY_PAGE_MAX, SWARM_PAGE_MAX},
    wire,
};

use super::{
    super::{
        App,
        view::{Page, ago, nothing, plain, respond},
        visit::{Query, Trouble, Visit},
    },
    Words, entry, escaped,
};
use crate::overview::{Calls as _, every_loop};

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

const CALLS_AT_ONCE: usize = 4;

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
    /// There is more of the kind than was looked through.
    is_cut: bool,
}

async fn search(visit: Visit, Query(asked): Query<Asked>) -> Result<Response, Trouble> {
    let query = asked.q.trim().to_owned();
    let now_ms = visit.now_ms().await?;
    let sections = if query.is_empty() {
        Vec::new()
    } else {
        let all = every_loop(&visit).await?;
        vec![
            ("Loops", loops(&visit, &all, &query)),
            ("Handovers", handovers(&visit, all, &query).await?),
            ("Mail", mail(&visit, &query).await?),
            ("Issues and tasks", work(&visit, &query).await?),
            ("Deliveries", deliveries(&visit, &query).await),
            ("Locks", locks(&visit, &query).await),
            ("Runs", runs(&visit, &query).await?),
            ("Roles and machines", names(&visit, &query).await?),
        ]
    };
    let total: usize = sections.iter().map(|it| it.1.hits.len()).sum();
    let cut: Vec<&str> = sections.iter().filter(|it| it.1.is_cut).map(|it| it.0).collect();
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
        @if !cut.is_empty() { p.note { "Only the newest were looked through: " (cut.join(", ").to_lowercase()) "." } }
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

/// What has the words, of handovers and letters.
pub(super) async fn words(visit: &Visit, query: &str) -> Result<BTreeSet<Words>, Trouble> {
    let handed_over = handovers(visit, every_loop(visit).await?, query).await?.hits;
    let written = mail(visit, query).await?.hits;
    Ok(handed_over.into_iter().chain(written).filter_map(|it| it.words).collect())
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
    Found { hits: hits.collect(), is_cut: false }
}

async fn handovers(
    visit: &Visit,
    mut loops: Vec<wire::Loop>,
    query: &str,
) -> Result<Found, Trouble> {
    loops.sort_by_key(|it| std::cmp::Reverse(it.turn_began_ms));
    let all: u64 = loops.iter().map(|it| it.entries.div_ceil(PAGE)).sum();
    let deepest = loops.iter().map(|it| it.entries.div_ceil(PAGE)).max().unwrap_or(0);
    // The newest page of each loop before the second of any.
    let pages = (1..=deepest).flat_map(|page| {
        let has_it = loops.iter().filter(move |it| (page - 1) * PAGE < it.entries);
        has_it.map(move |it| wire::HistoryRequest {
            r#loop: it.r#loop.clone(),
            from: it.entries.saturating_sub(page * PAGE) + 1,
            limit: HISTORY_PAGE_MAX,
            ..Default::default()
        })
    });
    let pages: Vec<wire::HistoryRequest> = pages.take(PAGES_MAX).collect();
    let is_cut = (pages.len() as u64) < all;
    let found: Vec<Vec<Hit>> = stream::iter(pages)
        .map(|request| async move {
            let entries = visit.call(&request).await.unwrap_or_default().entries;
            let hits = entries.into_iter().filter_map(|it| {
                let text = format!("{}\n{}\n{}", it.summary, it.instruction, it.reason);
                let whole = format!("{} {} {} {text}", request.r#loop, it.from, it.to);
                has_all(&whole, query).then(|| Hit {
                    link: entry::link(visit, &request.r#loop, it.number),
                    title: entry::title(&request.r#loop, &it),
                    excerpt: excerpt(&text, query),
                    at_ms: it.at_ms,
                    words: Some(Words::Entry(request.r#loop.clone(), it.number)),
                })
            });
            hits.collect()
        })
        .buffered(CALLS_AT_ONCE)
        .collect()
        .await;
    // The last page of a loop may reach into the one before it.
    let mut hits: Vec<Hit> = found.into_iter().flatten().collect();
    hits.sort_by(|a, b| (b.at_ms, &a.link).cmp(&(a.at_ms, &b.link)));
    hits.dedup_by(|a, b| a.link == b.link);
    Ok(Found { hits, is_cut })
}

async fn mail(visit: &Visit, query: &str) -> Result<Found, Trouble> {
    let mailboxes = visit.call(&wire::ListMailboxesRequest::default()).await?.mailboxes;
    let is_cut = MAILBOXES_SEARCHED_MAX < mailboxes.len();
    let roles: Vec<String> =
        mailboxes.into_iter().map(|it| it.role).take(MAILBOXES_SEARCHED_MAX).collect();
    let found: Vec<(String, wire::SearchMailResponse)> = stream::iter(roles)
        .map(|role| async move {
            let request = wire::SearchMailRequest {
                role: role.clone(),
                query: query.to_owned(),
                limit: u32::try_from(HITS_SHOWN_MAX).unwrap_or(u32::MAX),
                ..Default::default()
            };
            // A box that the visitor may not read is left out.
            (role, visit.call(&request).await.unwrap_or_default())
        })
        .buffered(CALLS_AT_ONCE)
        .collect()
        .await;
    let mut hits: Vec<Hit> = Vec::new();
    let mut known = BTreeSet::new();
    for (role, page) in found {
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
    Ok(Found { hits, is_cut })
}

async fn work(visit: &Visit, query: &str) -> Result<Found, Trouble> {
    let mut request = wire::ListIssuesRequest { limit: ISSUES_SEARCHED_MAX, ..Default::default() };
    request.set_sort_by(wire::SortBy::Updated);
    let listed = visit.call(&request).await?;
    let mut found =
        Found { hits: Vec::new(), is_cut: u64::from(ISSUES_SEARCHED_MAX) < listed.total };
    let mut left = TASKS_SEARCHED_MAX;
    for issue in &listed.issues {
        let request =
            wire::GetIssueRequest { issue_id: issue.issue_id.clone(), ..Default::default() };
        let words = visit.call(&request).await.unwrap_or_default().issue.unwrap_or_default();
        let text = format!("{}\n{}", words.description, issue.summary);
        if has_all(&format!("{} {} {} {text}", issue.issue_id, issue.subject, issue.lead), query) {
            found.hits.push(Hit {
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
        let listed = visit.call(&request).await.unwrap_or_default();
        let count = listed.tasks.len().min(left);
        found.is_cut |= (count as u64) < listed.total;
        left -= count;
        let tasks = stream::iter(listed.tasks.into_iter().take(count));
        let hits: Vec<Option<Hit>> =
            tasks.map(|it| task(visit, it, query)).buffered(CALLS_AT_ONCE).collect().await;
        found.hits.extend(hits.into_iter().flatten());
    }
    Ok(found)
}

/// A task, if its words or what was said about it fit.
async fn task(visit: &Visit, it: wire::Task, query: &str) -> Option<Hit> {
    let request = wire::GetTaskRequest {
        issue_id: it.issue_id.clone(),
        task_id: it.task_id.clone(),
        ..Default::default()
    };
    let whole = visit.call(&request).await.unwrap_or_default().task.unwrap_or_default();
    let said = whole.messages.iter().map(|it| format!("{}\n{}", it.content, it.reply));
    let words = whole.words.unwrap_or_default();
    let submitted = whole.submission.unwrap_or_default();
    let summary = submitted.words.unwrap_or_default().summary;
    let feedback = submitted.review.unwrap_or_default().feedback;
    let parts = [words.description, summary, feedback].into_iter().chain(said);
    let text = parts.filter(|it| !it.trim().is_empty()).collect::<Vec<_>>().join("\n");
    let names = format!("{} {} {}", it.task_id, it.subject, it.claimed_by);
    has_all(&format!("{names} {text}"), query).then(|| Hit {
        link: visit.link(&format!(
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
    let request =
        wire::ListDeliveriesRequest { limit: DELIVERIES_SEARCHED_MAX, ..Default::default() };
    let listed = visit.call(&request).await.unwrap_or_default();
    let is_cut = u64::from(DELIVERIES_SEARCHED_MAX) < listed.total;
    let read = stream::iter(listed.deliveries).map(|it| async move {
        let request =
            wire::GetDeliveryRequest { delivery_id: it.delivery_id.clone(), ..Default::default() };
        let whole = visit.call(&request).await.unwrap_or_default().delivery.unwrap_or_default();
        let text = format!("{}\n{}\n{}", whole.summary, whole.feedback, whole.ended_because);
        let names = format!("{} {} {}", it.delivery_id, it.delivered_by, it.reviewed_by);
        has_all(&format!("{names} {text}"), query).then(|| Hit {
            link: visit.link(&format!("/tasks?issue={}", escaped(&it.issue_id))),
            title: format!("{} of {}, by {}", it.delivery_id, it.issue_id, it.delivered_by),
            excerpt: excerpt(&text, query),
            at_ms: it.updated_ms,
            words: None,
        })
    });
    let hits: Vec<Option<Hit>> = read.buffered(CALLS_AT_ONCE).collect().await;
    Found { hits: hits.into_iter().flatten().collect(), is_cut }
}

async fn locks(visit: &Visit, query: &str) -> Found {
    let request = wire::ListLocksRequest { limit: LOCKS_SEARCHED_MAX, ..Default::default() };
    let listed = visit.call(&request).await.unwrap_or_default();
    let is_cut = (listed.locks.len() as u64) < listed.total;
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
    Found { hits: hits.collect(), is_cut }
}

async fn runs(visit: &Visit, query: &str) -> Result<Found, Trouble> {
    let request = wire::ListRunsRequest { limit: RUNS_SEARCHED_MAX, ..Default::default() };
    let listed = visit.call(&request).await.unwrap_or_default();
    let is_cut = listed.has_more;
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
    Ok(Found { hits: hits.collect(), is_cut })
}

async fn names(visit: &Visit, query: &str) -> Result<Found, Trouble> {
    let nodes = visit.call(&wire::ListNodesRequest::default()).await?.nodes;
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
    Ok(Found { hits, is_cut: false })
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
