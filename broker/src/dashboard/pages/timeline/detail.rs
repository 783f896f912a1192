//! The texts of one record: what was handed over, what a letter says.

use maud::{Markup, html};
use tasuki_proto::wire::{self, event::Noun, mail_event};

use super::{
    super::{
        super::{
            markdown::markdown,
            view::{ago, clock, nothing, plain},
            visit::Visit,
        },
        Words, entry,
    },
    event::Timeline,
};
use crate::overview::Calls as _;

pub(super) async fn panel(
    visit: &Visit,
    records: &[wire::FeedItem],
    at: u64,
    now_ms: u64,
    close: &str,
) -> Markup {
    let found = records.binary_search_by_key(&at, |it| it.sequence);
    let Some(item) = found.ok().and_then(|at| records.get(at)) else {
        return nothing("That record is not among those that are shown.");
    };
    let lines = Timeline::new(std::slice::from_ref(item), now_ms).marks;
    let mut texts = Vec::new();
    for it in &lines {
        if let Some(Words::Entry(name, number)) = &it.words {
            texts.push(handed_over(visit, name, *number).await);
        }
    }
    for noun in item.events.iter().filter_map(|it| it.noun.as_ref()) {
        texts.push(text(visit, noun).await);
    }
    html! {
        article.card.detail id="detail" {
            header {
                h2 { @for it in &lines { (plain(&it.text)) " " } @if lines.is_empty() { "Something that is not drawn" } }
                span.note { (clock(item.at_ms)) ", " (ago(item.at_ms, now_ms)) }
                @if !item.node.is_empty() { span.note { "from " (plain(&item.node)) } }
                @if !item.token.is_empty() { span.note { "token " (plain(&item.token)) } }
                a.button href=(close) { "Close" }
            }
            @for text in &texts { (text) }
        }
    }
}

async fn text(visit: &Visit, noun: &Noun) -> Markup {
    match noun {
        Noun::Mail(wire::MailEvent { kind: Some(mail_event::Kind::MailSent(it)) }) => {
            letter(visit, it).await
        }
        Noun::Swarm(wire::SwarmEvent { kind: Some(wire::swarm_event::Kind::IssueChanged(it)) }) => {
            let link = visit.link(&format!("/tasks?issue={}", it.issue_id));
            html! { p { a href=(link) { "Open the issue" } } }
        }
        Noun::Run(wire::RunEvent { kind: Some(wire::run_event::Kind::RunStarted(it)) }) => {
            let link = visit.link(&format!("/runs?run={}", it.run_id));
            html! { p { a href=(link) { "Open the run" } } }
        }
        Noun::Directory(_)
        | Noun::Turn(_)
        | Noun::Mail(_)
        | Noun::Privacy(_)
        | Noun::Swarm(_)
        | Noun::Run(_)
        | Noun::Guard(_)
        | Noun::Call(_)
        | Noun::Board(_)
        | Noun::Pipeline(_) => html! {},
    }
}

async fn handed_over(visit: &Visit, name: &str, number: u64) -> Markup {
    let Ok(Some(it)) = entry::read(visit, name, number).await else {
        return nothing("Its words are no longer kept.");
    };
    let whole = entry::link(visit, name, number);
    html! {
        (entry::words(&it, &format!("{whole}&raw=1")))
        p { a href=(whole) { "Open it, and what came before and after" } }
    }
}

async fn letter(visit: &Visit, it: &wire::MailSent) -> Markup {
    // Whoever has a copy may read it; which of them the visitor may act as is not known here.
    for role in std::iter::once(&it.sender).chain(&it.receivers) {
        let mut request = wire::ReadThreadRequest {
            role: role.clone(),
            message: it.message_id.clone(),
            from: it.entry,
            ..Default::default()
        };
        request.set_mark(wire::MailMark::None);
        if let Ok(read) = visit.call(&request).await
            && let Some(entry) = read.entries.first()
        {
            let subject = read.thread.map(|it| it.subject).unwrap_or_default();
            let link = visit.link(&format!("/mail?role={role}&thread={}", it.message_id));
            return html! {
                h4 { a href=(link) { (plain(&subject)) } }
                @if entry.sealed.is_some() { p.note { "Sealed: only nodes with the key can read it." } }
                @else { (markdown(&entry.text, Some(&link))) }
            };
        }
    }
    nothing("Your token may not read this letter.")
}
