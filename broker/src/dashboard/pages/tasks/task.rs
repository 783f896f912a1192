//! One task: what is asked, its questions, and the work that was submitted.

use maud::{Markup, html};
use tasuki_proto::wire::{self, MessageStatus};

use super::{
    super::super::{
        markdown::markdown,
        view::{ago, plain, role, sentence},
        visit::Visit,
    },
    actions,
};
use crate::overview::Calls as _;

/// Of a diff or the output of tests, in bytes.
const TEXT_SHOWN_BYTES_MAX: usize = 64 * 1024;

pub(super) async fn whole(visit: &Visit, issue: &str, task: &str, now_ms: u64) -> Markup {
    let request = wire::GetTaskRequest {
        role: visit.looks_as(),
        issue_id: issue.to_owned(),
        task_id: task.to_owned(),
        ..Default::default()
    };
    let it = match visit.call(&request).await {
        Ok(found) => found.task.unwrap_or_default(),
        Err(why) => return html! { p.trouble { (sentence(why.message())) } },
    };
    let words = it.words.clone().unwrap_or_default();
    html! {
        article.card.task id={ "open-" (it.task_id) } {
            header { h3 { (plain(&it.subject)) } span.chip { (super::super::bare(it.stage().as_str_name())) } code { (plain(&it.task_id)) } }
            @if !words.description.is_empty() { (markdown(&words.description, None)) }
            @if !words.suggested_files.is_empty() { p { "Files: " @for file in &words.suggested_files { code { (plain(file)) } " " } } }
            @if let Some(spec) = &words.spec { (specification(spec)) }
            @for message in &it.messages { (question(visit, &it, message, now_ms)) }
            @if let Some(submission) = &it.submission { (submitted(visit, submission, now_ms)) }
            (actions::of_task(visit, &it))
        }
    }
}

fn specification(it: &wire::TaskSpec) -> Markup {
    let parts = [
        ("Goal", &it.goal),
        ("Rules", &it.rules),
        ("Constraints", &it.constraints),
        ("Conventions", &it.conventions),
        ("Acceptance", &it.acceptance),
    ];
    html! {
        @for (name, text) in parts {
            @if !text.is_empty() { h4 { (name) } (markdown(text, None)) }
        }
    }
}

fn question(visit: &Visit, task: &wire::Task, it: &wire::TaskMessage, now_ms: u64) -> Markup {
    html! {
        section.letter {
            header { b { (plain(&it.sender)) } " " span.chip { (plain(&it.kind)) } " " span.note { (ago(it.created_ms, now_ms)) } }
            (markdown(&it.content, None))
            @if it.reply.is_empty() {
                @if it.status() == MessageStatus::Open { (actions::answer(visit, task, it)) }
            } @else {
                h4 { (plain(&it.replied_by)) " answered " (ago(it.replied_ms, now_ms)) }
                (markdown(&it.reply, None))
            }
        }
    }
}

fn submitted(visit: &Visit, it: &wire::Submission, now_ms: u64) -> Markup {
    let words = it.words.clone().unwrap_or_default();
    html! {
        section.letter {
            header {
                b { "Submission" } " of " (role(visit, &it.worker)) " " (ago(it.submitted_ms, now_ms)) " "
                span.chip { (super::super::bare(it.status().as_str_name())) }
            }
            (markdown(&words.summary, None))
            @if !words.changed_files.is_empty() { p { "Changed: " @for file in &words.changed_files { code { (plain(file)) } " " } } }
            (folded("Diff", &words.diff))
            @if !words.test_cases.is_empty() { p { "Tests: " (plain(&words.test_cases.join(", "))) } }
            @if !words.test_result.is_empty() { p { "Result: " b { (plain(&words.test_result)) } } }
            (folded("Test output", &words.test_output))
            @if let Some(review) = &it.review {
                h4 { (plain(&it.reviewed_by)) @if review.is_approved { " approved it, score " (it.completion_score) } @else { " rejected it" } ", " (ago(it.reviewed_ms, now_ms)) }
                (markdown(&review.feedback, None))
            }
        }
    }
}

/// A long text that opens.
pub(super) fn folded(title: &str, text: &str) -> Markup {
    let text = plain(text);
    let cut = TEXT_SHOWN_BYTES_MAX < text.len();
    let shown = &text[..text.floor_char_boundary(TEXT_SHOWN_BYTES_MAX.min(text.len()))];
    html! {
        @if !text.is_empty() {
            details {
                summary { (title) }
                pre { code { (shown) } }
                @if cut { p.note { "Cut after " (TEXT_SHOWN_BYTES_MAX / 1024) " KiB." } }
            }
        }
    }
}
