//! *Tasks*: issues, their tasks by stage, claims, locks, reviews, and deliveries with evidence.

mod actions;
mod delivery;
mod task;

use std::sync::Arc;

use axum::{Router, response::Response, routing::get};
use maud::{Markup, html};
use serde::Deserialize;
use tasuki_proto::{
    counted::counted,
    wire::{self, IssueStatus, TaskStage},
};

use super::super::{
    App,
    markdown::markdown,
    view::{Page, ago, lapses, lease, nothing, plain, respond, role, sentence},
    visit::{Query, Trouble, Visit},
};
use crate::overview::Calls as _;

/// Issues in the list.
const ISSUES_LISTED_MAX: u32 = 100;

/// Tasks of an issue that are shown.
const TASKS_SHOWN_MAX: u32 = 500;

/// Deliveries and locks that are shown.
const LISTED_MAX: u32 = 50;

/// Entries of an issue's history that are shown: the newest.
const HISTORY_MAX: u32 = 50;

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    actions::routes(router.route("/w/{workspace}/tasks", get(tasks)))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Place {
    issue: String,
    task: String,
    q: String,
}

async fn tasks(visit: Visit, Query(place): Query<Place>) -> Result<Response, Trouble> {
    let mut request = wire::ListIssuesRequest {
        limit: ISSUES_LISTED_MAX,
        subject_contains: place.q.clone(),
        ..Default::default()
    };
    request.set_sort_by(wire::SortBy::Updated);
    let issues = visit.call(&request).await?;
    let now_ms = issues.now_ms;
    let first = issues.issues.first().map(|it| it.issue_id.clone()).unwrap_or_default();
    let chosen = if place.issue.is_empty() { first } else { place.issue.clone() };
    let open = if chosen.is_empty() {
        nothing(if place.q.is_empty() {
            "No issue was opened yet. An agent that leads opens one with its tools, or a person here."
        } else {
            "No issue has that in its subject."
        })
    } else {
        issue(&visit, &chosen, &place.task, now_ms).await
    };
    let body = html! {
        div.bar { h1 { "Tasks" } (actions::new_issue(&visit)) }
        div.columns.two {
            nav.side aria-label="Issues" {
                form.search method="get" action=(visit.link("/tasks")) {
                    input type="search" name="q" value=(place.q) placeholder="Find an issue" aria-label="Find an issue";
                }
                ul.boxes {
                    @for it in &issues.issues {
                        li data-item aria-current=[(it.issue_id == chosen).then_some("true")] {
                            a href=(visit.link(&format!("/tasks?issue={}", it.issue_id))) { (plain(&it.subject)) }
                            div.note { (issue_chip(it.status())) " " (progress(it)) ", " (ago(it.updated_ms, now_ms)) }
                        }
                    }
                }
                @if u64::from(ISSUES_LISTED_MAX) < issues.total { p.note { (issues.total) " issues; the newest " (ISSUES_LISTED_MAX) " are listed." } }
            }
            div { (open) }
        }
        (locks(&visit, now_ms).await)
    };
    let page = Page { title: "Tasks".to_owned(), tab: "tasks", live: "swarm", every_s: 30 };
    Ok(respond(&visit, page, body).await)
}

fn progress(it: &wire::Issue) -> String {
    let counts = it.tasks.unwrap_or_default();
    let all = counts.open
        + counts.in_progress
        + counts.waiting_for_answer
        + counts.done
        + counts.canceled;
    format!("{} of {} done", counts.done, counted(all, "task"))
}

fn issue_chip(status: IssueStatus) -> Markup {
    let class = match status {
        IssueStatus::Open | IssueStatus::Unspecified => "idle",
        IssueStatus::InProgress => "good",
        IssueStatus::Done => "done",
        IssueStatus::Canceled => "bad",
    };
    html! { span.chip.(class) { (super::bare(status.as_str_name())) } }
}

async fn issue(visit: &Visit, id: &str, task: &str, now_ms: u64) -> Markup {
    let id = id.to_owned();
    let request = wire::GetIssueRequest { issue_id: id.clone(), ..Default::default() };
    let issue = match visit.call(&request).await {
        Ok(found) => found.issue.unwrap_or_default(),
        Err(why) => return html! { p.trouble { (sentence(why.message())) } },
    };
    let request = wire::ListTasksRequest {
        issue_id: id.clone(),
        limit: TASKS_SHOWN_MAX,
        ascending: true,
        ..Default::default()
    };
    let tasks = visit.call(&request).await.unwrap_or_default();
    let request = wire::ListDeliveriesRequest {
        issue_id: id.clone(),
        limit: LISTED_MAX,
        ..Default::default()
    };
    let deliveries = visit.call(&request).await.unwrap_or_default().deliveries;
    html! {
        article id={ "issue-" (id) } {
            header.bar {
                h2 { (plain(&issue.subject)) }
                (issue_chip(issue.status()))
                span.note { code { (plain(&issue.issue_id)) } ", lead " (role(visit, &issue.lead)) ", " (lease(issue.lease_expires_ms, now_ms)) }
            }
            @if !issue.description.is_empty() { details { summary { "Description" } (markdown(&issue.description, None)) } }
            @if !issue.summary.is_empty() { h4 { "Summary" } (markdown(&issue.summary, None)) }
            (actions::of_issue(visit, &issue))
            @if !task.is_empty() { (task::whole(visit, &id, task, now_ms).await) }
            (stages(visit, &tasks.tasks, now_ms))
            @if u64::from(TASKS_SHOWN_MAX) < tasks.total { p.note { (tasks.total) " tasks; " (TASKS_SHOWN_MAX) " are shown." } }
            @if !deliveries.is_empty() {
                h3 { "Deliveries" }
                @for it in &deliveries { (delivery::card(visit, &it.delivery_id, now_ms).await) }
            }
            (history(visit, &id, now_ms).await)
        }
    }
}

/// Tasks in columns, from ready to done.
fn stages(visit: &Visit, tasks: &[wire::Task], now_ms: u64) -> Markup {
    const ORDER: [TaskStage; 9] = [
        TaskStage::Blocked,
        TaskStage::Ready,
        TaskStage::Reserved,
        TaskStage::Working,
        TaskStage::WaitingForAnswer,
        TaskStage::Submitted,
        TaskStage::InReview,
        TaskStage::Done,
        TaskStage::Canceled,
    ];
    html! {
        div.stages {
            @for stage in ORDER {
                @let there: Vec<_> = tasks.iter().filter(|it| it.stage() == stage).collect();
                @if !there.is_empty() {
                    section.stage aria-label=(super::bare(stage.as_str_name())) {
                        h3 { (super::bare(stage.as_str_name())) " " span.note { (there.len()) } }
                        @for it in there { (card(visit, it, now_ms)) }
                    }
                }
            }
        }
    }
}

fn card(visit: &Visit, it: &wire::Task, now_ms: u64) -> Markup {
    html! {
        article.card.small data-item id={ "task-" (it.task_id) } {
            a href=(visit.link(&format!("/tasks?issue={}&task={}", it.issue_id, it.task_id))) { (plain(&it.subject)) }
            div.note {
                code { (plain(&it.task_id)) } " " (super::bare(it.difficulty().as_str_name().trim_start_matches("DIFFICULTY_"))) ", " (counted(it.points, "point"))
            }
            @if !it.claimed_by.is_empty() { div { "by " (role(visit, &it.claimed_by)) ", " (lease(it.lease_expires_ms, now_ms)) } }
            @if !it.reserved_for.is_empty() { div { "kept for " (role(visit, &it.reserved_for)) " until " (lapses(it.reserved_until_ms, now_ms)) } }
            @if !it.blocked_by.is_empty() { div.note { "after " (plain(&it.blocked_by.join(", "))) } }
        }
    }
}

async fn history(visit: &Visit, id: &str, now_ms: u64) -> Markup {
    let ask = |after, limit| wire::GetHistoryRequest {
        issue_id: id.to_owned(),
        after,
        limit,
        ..Default::default()
    };
    let total = visit.call(&ask(0, 1)).await.unwrap_or_default().total;
    let newest = visit.call(&ask(total.saturating_sub(u64::from(HISTORY_MAX)), HISTORY_MAX)).await;
    let entries = newest.unwrap_or_default().entries;
    html! {
        details {
            summary { "History (" (total) ")" }
            table { tbody {
                @for it in entries.iter().rev() {
                    tr {
                        td { (ago(it.at_ms, now_ms)) }
                        td { (plain(&it.r#type.replacen("issue_task", "task", 1).replace('_', " "))) }
                        td { code { (plain(&it.task_id)) } }
                        td { @if it.person.is_empty() { (plain(&it.role)) } @else { (plain(&it.person)) } }
                        td { (plain(&it.detail.chars().take(160).collect::<String>())) }
                    }
                }
            } }
        }
    }
}

async fn locks(visit: &Visit, now_ms: u64) -> Markup {
    let request = wire::ListLocksRequest { limit: LISTED_MAX, ..Default::default() };
    let locks = visit.call(&request).await.unwrap_or_default();
    html! {
        section aria-labelledby="locks" {
            h2 #locks { "Locks" }
            @if locks.locks.is_empty() { (nothing("No file is locked.")) }
            @else { div.scroll { table {
                thead { tr { th { "Files" } th { "Repository" } th { "Held by" } th { "For" } th { "Since" } th { "Lapses" } th {} } }
                tbody {
                    @for it in &locks.locks {
                        @let files = it.files.clone().unwrap_or_default();
                        tr {
                            td { @for pattern in &files.patterns { code { (plain(pattern)) } " " } }
                            td.note { (plain(&files.repository)) }
                            td { (role(visit, &it.holder)) }
                            td { (plain(&it.task_id)) }
                            td { (ago(it.acquired_ms, now_ms)) }
                            td { (lapses(it.expires_ms, now_ms)) }
                            td { (actions::of_lock(visit, it)) }
                        }
                    }
                }
            } } }
            @if u64::from(LISTED_MAX) < locks.total { p.note { (locks.total) " locks; " (LISTED_MAX) " are listed." } }
        }
    }
}
