//! One delivery: what was delivered, on which evidence, and the verdict.

use maud::{Markup, html};
use tasuki_proto::{counted::counted, wire};

use super::{
    super::super::{
        markdown::markdown,
        view::{ago, lease, plain, role, sentence},
        visit::Visit,
    },
    actions, task,
};
use crate::overview::Calls as _;

pub(super) async fn card(visit: &Visit, id: &str, now_ms: u64) -> Markup {
    let request = wire::GetDeliveryRequest {
        role: visit.looks_as(),
        delivery_id: id.to_owned(),
        ..Default::default()
    };
    let it = match visit.call(&request).await {
        Ok(found) => found.delivery.unwrap_or_default(),
        Err(why) => return html! { p.trouble { (sentence(why.message())) } },
    };
    let tests = it.test_evidence.clone().unwrap_or_default();
    html! {
        article.card id={ "delivery-" (it.delivery_id) } {
            header {
                h4 { code { (plain(&it.delivery_id)) } }
                span.chip { (super::super::bare(it.status().as_str_name())) }
                span.note { "by " (role(visit, &it.delivered_by)) " " (ago(it.delivered_ms, now_ms)) }
                @if !it.claimed_by.is_empty() { span.note { "claimed by " (role(visit, &it.claimed_by)) ", " (lease(it.lease_expires_ms, now_ms)) } }
            }
            (markdown(&it.summary, None))
            @if let Some(artifacts) = &it.artifacts {
                p.note { (counted(artifacts.changed_files.len(), "changed file")) ", " (counted(artifacts.test_cases.len(), "test case")) }
                @if !artifacts.known_risks.is_empty() { p { "Known risks: " (plain(&artifacts.known_risks)) } }
                (task::folded("Test output", &artifacts.test_output))
            }
            @if !tests.script_cmd.is_empty() { p { "Script: " code { (plain(&tests.script_cmd)) } " " (verdict(tests.script_passed)) } }
            @for result in &tests.doc_results { (command(result)) }
            @for evidence in &it.evidence { (ran_again(evidence, now_ms)) }
            @if let Some(over) = &it.overridden { p.bad { (plain(&over.person)) " approved it in spite of failed evidence: " (plain(&over.reason)) } }
            @if !it.feedback.is_empty() {
                h4 { (plain(&it.reviewed_by)) " judged " (ago(it.reviewed_ms, now_ms)) }
                (markdown(&it.feedback, None))
            }
            @if !it.ended_because.is_empty() { p.note { "Ended without a verdict: " (plain(&it.ended_because)) } }
            (actions::of_delivery(visit, &it))
        }
    }
}

fn verdict(has_passed: bool) -> Markup {
    html! {
        @if has_passed { span.chip.good { "passed" } } @else { span.chip.bad { "failed" } }
    }
}

fn command(it: &wire::CommandResult) -> Markup {
    html! {
        div { code { (plain(&it.command)) } " " (verdict(it.has_passed)) (task::folded("Output", &it.output)) }
    }
}

/// Evidence of a command that somebody else ran again.
fn ran_again(it: &wire::Evidence, now_ms: u64) -> Markup {
    html! {
        section.letter {
            header {
                b { "Run again" } " by " (plain(&it.by)) @if !it.node.is_empty() { " on " (plain(&it.node)) } " " (ago(it.at_ms, now_ms))
                " at " code { (plain(&it.commit.chars().take(12).collect::<String>())) } " " (verdict(it.has_passed))
            }
            @for ran in &it.commands {
                div {
                    code { (plain(&ran.command)) } " "
                    (verdict(ran.exit_code == 0 && !ran.is_timed_out)) " "
                    span.note { "exit code " (ran.exit_code) ", " (ran.duration_ms) " ms, " @if ran.sandbox.is_empty() { "not sandboxed" } @else { "sandbox " (plain(&ran.sandbox)) } }
                    (task::folded("Output", &ran.output_tail))
                }
            }
        }
    }
}
