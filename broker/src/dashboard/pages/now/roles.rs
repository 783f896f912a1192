//! The roles of a workspace: who plays each, what it waits for, holds and has not seen.

use maud::{Markup, html};
use tasuki_proto::{counted::counted, token::Right, wire};

use super::super::super::{
    form::{button, hidden_field},
    view::{ago, nothing, plain, role, since},
    visit::Visit,
};
use crate::overview::{
    Overview,
    role::{Held, RoleStatus, State},
};

pub(super) fn table(visit: &Visit, overview: &Overview, guard: &wire::GetGuardResponse) -> Markup {
    let now_ms = overview.now_ms;
    html! {
        section aria-labelledby="roles" {
            h2 #roles { "Roles" }
            @if overview.roles.is_empty() { (nothing("No role was hosted yet.")) }
            @else {
                div.scroll { table.roles {
                    thead { tr {
                        th { "Role" } th { "Agent" } th { "Waits for" } th { "Holds" } th { "Not seen yet" }
                    } }
                    tbody {
                        @for it in &overview.roles {
                            @let guard = guard.roles.iter().find(|of| of.role == it.role.role);
                            (row(visit, it, guard, now_ms))
                        }
                    }
                } }
            }
        }
    }
}

fn row(visit: &Visit, it: &RoleStatus, guard: Option<&wire::RoleGuard>, now_ms: u64) -> Markup {
    html! {
        tr id={ "role-" (it.role.role) } {
            td { (role(visit, &it.role.role)) }
            td {
                (state(it, now_ms))
                @if let Some(guard) = guard { (budget(visit, guard, now_ms)) }
                @if !it.client().is_empty() { div.note { (plain(it.client())) } }
                @if !it.role.node.is_empty() { div.note { "on " (plain(&it.role.node)) } }
            }
            td {
                @for (at, wait) in it.role.waits.iter().enumerate() {
                    div { (plain(wait)) @if let Some(ms) = it.role.waits_since_ms.get(at) { " for " (since(*ms, now_ms)) } }
                }
            }
            td {
                @for held in it.holds.iter().take(8) { (held_item(visit, held, now_ms)) }
                @if 8 < it.holds.len() { div.note { "and " (it.holds.len() - 8) " more" } }
            }
            td {
                @for pending in &it.handovers {
                    div { "turn " (pending.turn) " of " (plain(&pending.r#loop)) ", "
                        @if pending.handed_ms == 0 { "stored " (ago(pending.stored_ms, now_ms)) }
                        @else { "handed " (ago(pending.handed_ms, now_ms)) }
                    }
                }
                @if it.mail.threads != 0 {
                    div { a href=(visit.link(&format!("/mail?role={}", it.role.role))) { (counted(it.mail.threads, "thread")) }
                        @if it.mail.oldest_ms != 0 { ", the oldest " (ago(it.mail.oldest_ms, now_ms)) }
                    }
                }
                @if it.mail.dead_letters != 0 { div.bad { (counted(it.mail.dead_letters, "dead letter")) } }
            }
        }
    }
}

/// What a role used of its budget, and why it is paused.
fn budget(visit: &Visit, it: &wire::RoleGuard, now_ms: u64) -> Markup {
    let limits = it.budget.unwrap_or_default();
    html! {
        @if limits.max_calls != 0 { div.note { (it.calls) " of " (limits.max_calls) " calls" } }
        @if limits.max_tokens != 0 { div.note { (it.tokens) " of " (limits.max_tokens) " tokens" } }
        @if let Some(pause) = &it.pause {
            div.bad { "paused " (ago(pause.at_ms, now_ms)) ": " (plain(&it.role)) " " (plain(&pause.reason)) }
            @if visit.may(Right::Steer) {
                (button(visit, "Resume", "/role/resume", &hidden_field("role", &it.role)))
            }
        }
    }
}

fn held_item(visit: &Visit, it: &Held, now_ms: u64) -> Markup {
    let link = match it.kind {
        "task" => Some(format!("/tasks?issue={}", it.of)),
        "delivery" => Some(format!("/tasks?issue={}", it.of)),
        "run" => Some(format!("/runs?run={}", it.name)),
        "turn" => Some(format!("/timeline?loop={}", it.of)),
        _ => None,
    };
    let text = html! { (it.kind) " " (plain(&it.name)) };
    html! {
        div {
            @if let Some(link) = link { a href=(visit.link(&link)) { (text) } } @else { (text) }
            @if it.kind == "turn" { " of " (plain(&it.of)) }
            @if it.since_ms != 0 { " for " (since(it.since_ms, now_ms)) }
        }
    }
}

fn state(it: &RoleStatus, now_ms: u64) -> Markup {
    let (class, text) = match it.state {
        State::Working => ("good", "working"),
        State::Waiting => ("good", "waiting"),
        State::Present => ("good", "present"),
        State::Silent => ("warn", "silent"),
        State::Gone => ("bad", "gone"),
        State::NodeAway => ("bad", "node away"),
        State::NoNode => ("idle", "no node"),
        State::Never => ("idle", "no agent"),
    };
    html! {
        span.chip.(class) { (text) }
        @match it.state {
            State::Working | State::Waiting | State::Present if it.role.since_ms != 0 => {
                span.note { " for " (since(it.role.since_ms, now_ms)) }
            }
            State::NodeAway => span.note { " since " (since(it.node_seen_ms, now_ms)) },
            State::Silent | State::Gone => span.note { " since " (since(it.role.last_seen_ms, now_ms)) },
            State::Working | State::Waiting | State::Present | State::NoNode | State::Never => {}
        }
    }
}
