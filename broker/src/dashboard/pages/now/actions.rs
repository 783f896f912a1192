//! What a person does with loops: starts one, hands over, takes a turn back, begins a round.

use std::sync::Arc;

use axum::{Router, response::Response, routing::post};
use maud::{Markup, html};
use tasuki_proto::{
    token::Right,
    wire::{self, LoopStatus},
};

use super::super::{
    super::{
        App, HUMAN,
        form::{Act, button, choice, dialog, hidden_field, line_field, text_field},
        visit::{Trouble, Visit},
    },
    done,
};
use crate::overview::Overview;

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route("/w/{workspace}/loop/new", post(create))
        .route("/w/{workspace}/loop/handover", post(hand_over))
        .route("/w/{workspace}/loop/reclaim", post(reclaim))
        .route("/w/{workspace}/loop/round", post(start_round))
        .route("/w/{workspace}/loop/pause", post(pause))
        .route("/w/{workspace}/loop/resume", post(resume))
        .route("/w/{workspace}/role/resume", post(resume_role))
}

pub(super) fn new_loop(visit: &Visit, overview: &Overview) -> Markup {
    if !visit.may(Right::Steer) {
        return html! {};
    }
    let known = overview.roles.iter().map(|it| it.role.role.as_str());
    let fields = html! {
        (line_field("loop", "Name of the loop", "", true))
        (line_field("participants", "Roles with commas between them; the first begins", "", true))
        p.note {
            "Roles here: " (known.collect::<Vec<_>>().join(", ")) ". " code { (HUMAN) } " is you."
        }
        (text_field("instruction", "What to do first (if the first role is you, human)", false))
        label.check { input type="checkbox" name="new_roles" value="yes"; span { "Add roles that are new here" } }
    };
    dialog(visit, "new-loop", "Start a loop", "/loop/new", &fields)
}

/// What may be done with a loop as it stands.
pub(super) fn of_loop(visit: &Visit, of: &wire::Loop) -> Markup {
    let name = &of.r#loop;
    let loop_field = || hidden_field("loop", name);
    let others = || of.participants.iter().map(String::as_str);
    // Whoever is next comes first, and whoever has the turn comes last.
    let next = of.participants.iter().position(|it| *it == of.holder).map_or(0, |at| at + 1);
    let (before, after) = of.participants.split_at(next.min(of.participants.len()));
    let takers = || after.iter().chain(before).map(String::as_str);
    let is_own = of.holder == HUMAN;
    let is_over = of.status() == LoopStatus::Completed;
    html! {
        div.actions id={ "actions-" (name) } {
            @if is_own && !is_over && visit.may_act(Right::Send) {
                @let fields = html! {
                    (loop_field()) (hidden_field("turn", &of.turn.to_string()))
                    (text_field("summary", "What was done", true))
                    (text_field("instruction", "What to do next", false))
                    (choice("to", "To", others().filter(|it| *it != HUMAN), ""))
                    label.check { input type="checkbox" name="complete" value="yes"; span { "The work is finished" } }
                };
                (dialog(visit, &format!("handover-{name}"), "Hand over", "/loop/handover", &fields))
            }
            @if !is_over && visit.may(Right::Steer) && visit.may(Right::Claim) {
                @let fields = html! {
                    (loop_field()) (hidden_field("turn", &of.turn.to_string()))
                    (choice("to", "Give the turn to", takers(), ""))
                    (line_field("reason", "Why", "", true))
                };
                (dialog(visit, &format!("reclaim-{name}"), "Reclaim", "/loop/reclaim", &fields))
            }
            @if of.pause.is_some() && visit.may(Right::Steer) {
                (button(visit, "Resume", "/loop/resume", &loop_field()))
            } @else if !is_over && visit.may(Right::Steer) {
                @let fields = html! { (loop_field()) (line_field("reason", "Why", "", true)) };
                (dialog(visit, &format!("pause-{name}"), "Pause", "/loop/pause", &fields))
            }
            @if is_over && visit.may(Right::Steer) && visit.may(Right::Send) {
                @let fields = html! {
                    (loop_field())
                    (choice("to", "Who begins", others(), ""))
                    (text_field("instruction", "What to do", true))
                };
                (dialog(visit, &format!("round-{name}"), "Start a round", "/loop/round", &fields))
            }
        }
    }
}

async fn create(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let create = wire::CreateLoopRequest {
        r#loop: form.text("loop"),
        participants: form.names("participants"),
        allow_new_roles: form.has("new_roles")
            || form.names("participants").iter().any(|it| it == HUMAN),
        ..Default::default()
    };
    let instruction = form.text("instruction");
    let name = create.r#loop.clone();
    let created = visit.command(&form, create).await?;
    let holder = created.r#loop.map(|it| it.holder).unwrap_or_default();
    if !instruction.is_empty() && holder == HUMAN {
        let handover = wire::HandOverRequest {
            r#loop: name,
            role: HUMAN.to_owned(),
            summary: "Started the loop.".to_owned(),
            instruction,
            ..Default::default()
        };
        visit.command_after(&form, "handover", handover).await?;
    }
    Ok(done(&visit, "/now"))
}

async fn hand_over(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::HandOverRequest {
        r#loop: form.text("loop"),
        role: HUMAN.to_owned(),
        summary: form.text("summary"),
        instruction: form.text("instruction"),
        is_task_complete: form.has("complete"),
        to: if form.has("complete") { String::new() } else { form.text("to") },
        turn: form.number("turn")?,
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(done(&visit, "/now"))
}

async fn reclaim(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::ReclaimRequest {
        r#loop: form.text("loop"),
        person: visit.person(),
        to: form.text("to"),
        reason: form.text("reason"),
        turn: form.number("turn")?,
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(done(&visit, "/now"))
}

async fn pause(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::PauseLoopRequest {
        r#loop: form.text("loop"),
        person: visit.person(),
        reason: form.text("reason"),
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(done(&visit, "/now"))
}

async fn resume(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::ResumeLoopRequest {
        r#loop: form.text("loop"),
        person: visit.person(),
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(done(&visit, "/now"))
}

async fn resume_role(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::ResumeRoleRequest {
        person: visit.person(),
        target: form.text("role"),
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(done(&visit, "/now"))
}

async fn start_round(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::StartRoundRequest {
        r#loop: form.text("loop"),
        person: visit.person(),
        to: form.text("to"),
        instruction: form.text("instruction"),
        ..Default::default()
    };
    visit.command(&form, request).await?;
    Ok(done(&visit, "/now"))
}
