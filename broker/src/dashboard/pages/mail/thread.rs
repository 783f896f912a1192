//! One thread: its letters, how far each got, and what to do with it.

use maud::{Markup, html};
use tasuki_proto::wire;

use super::{
    super::super::{
        markdown::markdown,
        view::{ago, plain, receipts, sentence},
        visit::Visit,
    },
    actions,
};
use crate::overview::Calls as _;

/// Letters of a long thread that are shown: the newest.
const ENTRIES_SHOWN_MAX: u32 = 50;

pub(super) fn subject(it: &wire::MailThread) -> Markup {
    html! {
        @if it.subject.is_empty() && it.first.as_ref().is_some_and(|it| it.sealed.is_some()) { span.note { "sealed" } }
        @else if it.subject.is_empty() { (plain(&it.file_name)) }
        @else { (plain(&it.subject)) }
    }
}

pub(super) async fn whole(visit: &Visit, role: &str, name: &str, now_ms: u64) -> Markup {
    let mut request = wire::ReadThreadRequest {
        role: role.to_owned(),
        message: name.to_owned(),
        last: ENTRIES_SHOWN_MAX,
        ..Default::default()
    };
    request.set_mark(wire::MailMark::None);
    let read = match visit.call(&request).await {
        Ok(read) => read,
        Err(why) => return html! { p.trouble { (sentence(why.message())) } },
    };
    let thread = read.thread.unwrap_or_default();
    let cut = thread.entries.saturating_sub(u32::try_from(read.entries.len()).unwrap_or(u32::MAX));
    html! {
        article.thread id={ "open-" (thread.message_id) } {
            h2 { (subject(&thread)) }
            p.note { (plain(&thread.file_name)) ", in " (role) "’s " (thread.r#box().as_str_name().trim_start_matches("BOX_").to_lowercase()) }
            @if 0 < cut { p.note { "The oldest " (cut) " are not shown: " code { "tasuki mail read" } " shows all." } }
            @for entry in &read.entries { (letter(visit, role, &thread, entry, now_ms)) }
            (actions::of_thread(visit, role, &thread))
        }
    }
}

fn letter(
    visit: &Visit,
    role: &str,
    thread: &wire::MailThread,
    it: &wire::MailEntry,
    now_ms: u64,
) -> Markup {
    let at_ms = if it.is_imported { it.written_ms } else { it.at_ms };
    html! {
        section.letter id={ "entry-" (it.number) } {
            header {
                b { (plain(&it.sender)) } " to " (plain(&it.receivers.join(", ")))
                " " span.chip { (plain(&it.r#type)) } " " span.note { (ago(at_ms, now_ms)) }
                @if it.is_imported { " " span.note { "imported" } }
            }
            @if it.sealed.is_some() && it.text.is_empty() {
                p.note { "Sealed. Only nodes with the key can read it: open this page at a node of a receiver." }
            } @else { (markdown(&it.text, Some(&visit.link(&format!("/letter?role={role}&thread={}&entry={}", thread.message_id, it.number))))) }
            @if !it.attachments.is_empty() {
                ul.files {
                    @for file in &it.attachments {
                        li {
                            a href=(visit.link(&format!("/file?role={role}&thread={}&hash={}&name={}", thread.message_id, file.hash, super::super::escaped(&file.name)))) download { (plain(&file.name)) }
                            " " span.note { (file.size) " bytes" }
                        }
                    }
                }
            }
            @for receipt in &it.receipts {
                div.receipt {
                    span.note { (plain(&receipt.role)) }
                    (receipts(&steps(receipt), now_ms))
                }
            }
        }
    }
}

fn steps(it: &wire::MailReceipt) -> Vec<(&'static str, u64)> {
    let mut steps = vec![
        ("stored", it.stored_ms),
        ("handed", it.handed_ms),
        ("seen", it.seen_ms),
        ("acted", it.acted_ms),
    ];
    steps.extend([("lapsed", it.lapsed_ms), ("dead", it.dead_ms)].iter().filter(|it| it.1 != 0));
    steps
}
