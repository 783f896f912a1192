//! One search over everything: handovers, mail, issues, tasks, runs, roles and machines.

use std::sync::Arc;

use axum::{Router, extract::Query, response::Response, routing::get};
use futures::{StreamExt as _, stream};
use maud::{Markup, html};
use serde::Deserialize;
use tasuki_proto::{counted::counted, wire};

use super::{
    super::{
        App,
        view::{Page, ago, nothing, plain, respond},
        visit::{Trouble, Visit},
    },
    escaped,
};
use crate::overview::{Calls as _, every_loop};

/// Mailboxes that are searched, a call each.
const MAILBOXES_SEARCHED_MAX: usize = 64;

/// Loops whose words are looked through, the latest first, and pages of each.
const LOOPS_SEARCHED_MAX: usize = 50;
const PAGES_MAX: u64 = 3;
const PAGE: u64 = 100;

/// Issues whose tasks are looked through.
const ISSUES_LISTED_MAX: u32 = 50;

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
}

async fn search(visit: Visit, Query(asked): Query<Asked>) -> Result<Response, Trouble> {
    let query = asked.q.trim().to_owned();
    let now_ms = visit.now_ms().await?;
    let sections = if query.is_empty() {
        Vec::new()
    } else {
        vec![
            ("Handovers", handovers(&visit, &query).await?),
            ("Mail", mail(&visit, &query).await?),
            ("Issues and tasks", work(&visit, &query).await?),
            ("Runs", runs(&visit, &query).await?),
            ("Roles and machines", names(&visit, &query).await?),
        ]
    };
    let total: usize = sections.iter().map(|it| it.1.len()).sum();
    let body = html! {
        h1 { "Search" }
        form.search.wide method="get" action=(visit.link("/search")) {
            input type="search" name="q" value=(query) aria-label="Search everything" autofocus[query.is_empty()];
        }
        @if !query.is_empty() { p.note { (counted(total, "hit")) " for “" (plain(&query)) "”" } }
        @for (title, hits) in &sections {
            @if !hits.is_empty() { (section(title, hits, now_ms)) }
        }
        @if total == 0 && !query.is_empty() { (nothing("Nothing was found. Every word has to appear in what is looked for; try fewer.")) }
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
    let lower = text.to_lowercase();
    let word = query.to_lowercase();
    let word = word.split_whitespace().next().unwrap_or_default();
    let at = lower.find(word).unwrap_or(0).min(text.len());
    let at = text.floor_char_boundary(at);
    let before = text[..at].chars().rev().take(AROUND).count();
    let start = text[..at].char_indices().rev().nth(before.saturating_sub(1)).map_or(at, |it| it.0);
    let cut: String = text[start..].chars().take(2 * AROUND).collect();
    format!("{}{cut}…", if start == 0 { "" } else { "…" })
}

async fn handovers(visit: &Visit, query: &str) -> Result<Vec<Hit>, Trouble> {
    let mut loops = every_loop(visit).await?;
    loops.sort_by_key(|it| std::cmp::Reverse(it.turn_began_ms));
    loops.truncate(LOOPS_SEARCHED_MAX);
    let pages = loops.iter().flat_map(|it| {
        let newest = it.entries;
        (0..PAGES_MAX).filter(move |page| page * PAGE < newest).map(move |page| {
            let from = newest.saturating_sub((page + 1) * PAGE) + 1;
            wire::HistoryRequest {
                r#loop: it.r#loop.clone(),
                from,
                limit: 100,
                ..Default::default()
            }
        })
    });
    let pages: Vec<wire::HistoryRequest> = pages.collect();
    let found: Vec<Vec<Hit>> = stream::iter(pages)
        .map(|request| async move {
            let entries = visit.call(&request).await.unwrap_or_default().entries;
            let hits = entries.into_iter().filter_map(|it| {
                let text = format!("{}\n{}\n{}", it.summary, it.instruction, it.reason);
                let whole = format!("{} {} {} {text}", request.r#loop, it.from, it.to);
                has_all(&whole, query).then(|| Hit {
                    link: visit
                        .link(&format!("/entry?loop={}&number={}", request.r#loop, it.number)),
                    title: format!(
                        "{} → {} in {}, turn {}",
                        it.from, it.to, request.r#loop, it.ended_turn
                    ),
                    excerpt: excerpt(&text, query),
                    at_ms: it.at_ms,
                })
            });
            hits.collect()
        })
        .buffered(CALLS_AT_ONCE)
        .collect()
        .await;
    let mut hits: Vec<Hit> = found.into_iter().flatten().collect();
    hits.sort_by_key(|it| std::cmp::Reverse(it.at_ms));
    Ok(hits)
}

async fn mail(visit: &Visit, query: &str) -> Result<Vec<Hit>, Trouble> {
    let mailboxes = visit.call(&wire::ListMailboxesRequest::default()).await?.mailboxes;
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
    let mut known = std::collections::BTreeSet::new();
    for (role, page) in found {
        for hit in page.hits {
            let thread = hit.thread.unwrap_or_default();
            if known.insert((thread.message_id.clone(), hit.entry)) {
                hits.push(Hit {
                    link: visit.link(&format!("/mail?role={role}&thread={}", thread.message_id)),
                    title: format!("{} ({})", thread.subject, hit.sender),
                    excerpt: hit.excerpt,
                    at_ms: hit.at_ms,
                });
            }
        }
    }
    hits.sort_by_key(|it| std::cmp::Reverse(it.at_ms));
    Ok(hits)
}

async fn work(visit: &Visit, query: &str) -> Result<Vec<Hit>, Trouble> {
    let mut request = wire::ListIssuesRequest { limit: ISSUES_LISTED_MAX, ..Default::default() };
    request.set_sort_by(wire::SortBy::Updated);
    let issues = visit.call(&request).await?.issues;
    let mut hits: Vec<Hit> = Vec::new();
    for issue in &issues {
        let id = escaped(&issue.issue_id);
        if has_all(&format!("{} {} {}", issue.issue_id, issue.subject, issue.lead), query) {
            hits.push(Hit {
                link: visit.link(&format!("/tasks?issue={id}")),
                title: format!("Issue: {}", issue.subject),
                excerpt: String::new(),
                at_ms: issue.updated_ms,
            });
        }
        let request = wire::ListTasksRequest {
            issue_id: issue.issue_id.clone(),
            limit: 500,
            ..Default::default()
        };
        for task in visit.call(&request).await.unwrap_or_default().tasks {
            if has_all(&format!("{} {} {}", task.task_id, task.subject, task.claimed_by), query) {
                hits.push(Hit {
                    link: visit.link(&format!("/tasks?issue={id}&task={}", escaped(&task.task_id))),
                    title: format!("{}: {}", task.task_id, task.subject),
                    excerpt: String::new(),
                    at_ms: task.updated_ms,
                });
            }
        }
    }
    Ok(hits)
}

async fn runs(visit: &Visit, query: &str) -> Result<Vec<Hit>, Trouble> {
    let request = wire::ListRunsRequest { limit: 200, ..Default::default() };
    let runs = visit.call(&request).await.unwrap_or_default().runs;
    let hits = runs.into_iter().filter_map(|it| {
        let agents: Vec<&str> = it.steps.iter().map(|it| it.agent.as_str()).collect();
        let agents = agents.join(", ");
        has_all(&format!("{} {} {} {agents}", it.run_id, it.role, it.person), query).then(|| Hit {
            link: visit.link(&format!("/runs?run={}", escaped(&it.run_id))),
            title: format!("{}: {agents}", it.run_id),
            excerpt: String::new(),
            at_ms: it.started_ms,
        })
    });
    Ok(hits.collect())
}

async fn names(visit: &Visit, query: &str) -> Result<Vec<Hit>, Trouble> {
    let nodes = visit.call(&wire::ListNodesRequest::default()).await?.nodes;
    let mut hits = Vec::new();
    for node in nodes {
        if has_all(&format!("{} {}", node.node, node.software), query) {
            hits.push(Hit {
                link: visit.link(&format!("/machines#node-{}", node.node)),
                title: format!("Node {}", node.node),
                excerpt: node.software.clone(),
                at_ms: node.last_seen_ms,
            });
        }
        for role in node.roles.iter().filter(|role| has_all(role, query)) {
            hits.push(Hit {
                link: visit.link(&format!("/now#role-{role}")),
                title: format!("Role {role}"),
                excerpt: format!("on {}", node.node),
                at_ms: 0,
            });
        }
    }
    Ok(hits)
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
        assert_eq!(excerpt("ab", "zz"), "ab…");
        // Letters that are longer in small ones.
        assert!(!excerpt("İİİİ needle", "needle").is_empty());
    }
}
