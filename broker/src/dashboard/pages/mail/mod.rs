//! *Mail*: boxes, threads, search in them; writing, answering and resolving as oneself.
//!
//! Looking marks nothing as seen: only what a person does with a thread says that they saw it.

mod actions;
mod file;
mod thread;

use std::sync::Arc;

use axum::{Router, response::Response, routing::get};
use maud::{Markup, html};
use serde::Deserialize;
use tasuki_proto::{counted::counted, mail::BoxKind, wire};
use tonic::Code;

use super::super::{
    App, HUMAN,
    view::{Page, ago, nothing, plain, respond},
    visit::{Query, Trouble, Visit},
};
use crate::overview::Calls as _;

/// Threads of one page.
const THREADS_SHOWN_MAX: u32 = 50;

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    let router = router.route("/w/{workspace}/mail", get(mail));
    file::routes(actions::routes(router))
}

/// Where one looks.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Place {
    /// Whose mail; empty: one's own.
    role: String,
    r#box: String,
    /// The thread that is open; empty: none.
    thread: String,
    /// `next` of the page before.
    after: String,
    q: String,
}

impl Place {
    fn role(&self) -> &str {
        if self.role.is_empty() { HUMAN } else { &self.role }
    }

    fn box_kind(&self) -> BoxKind {
        self.r#box.parse().unwrap_or(BoxKind::Inbox)
    }

    fn link(&self, visit: &Visit, name: &str, value: &str) -> String {
        let (role, kind) = (super::escaped(self.role()), self.box_kind());
        let value = super::escaped(value);
        visit.link(&format!("/mail?role={role}&box={kind}&{name}={value}"))
    }
}

async fn mail(visit: Visit, Query(place): Query<Place>) -> Result<Response, Trouble> {
    let now_ms = visit.now_ms().await?;
    let mailboxes = visit.call(&wire::ListMailboxesRequest::default()).await?.mailboxes;
    let list = if place.q.is_empty() {
        threads(&visit, &place, now_ms).await
    } else {
        found(&visit, &place, now_ms).await
    };
    let open = match place.thread.as_str() {
        "" => html! {},
        name => thread::whole(&visit, place.role(), name, now_ms).await,
    };
    let own = mailboxes.iter().find(|it| it.role == place.role());
    let body = html! {
        div.bar {
            h1 { "Mail of " (plain(place.role())) }
            (actions::compose(&visit, &mailboxes))
        }
        div.columns {
            nav.side aria-label="Mailboxes" { (boxes(&visit, &place, &mailboxes)) }
            section.list aria-label="Threads" {
                nav.row aria-label="Boxes" {
                    @for kind in BoxKind::ALL {
                        @let number = own.map_or(0, |it| in_box(it, kind));
                        a.button href=(visit.link(&format!("/mail?role={}&box={kind}", place.role()))) aria-current=[(place.q.is_empty() && kind == place.box_kind()).then_some("true")] { (kind) " " (number) }
                    }
                }
                form.search method="get" action=(visit.link("/mail")) {
                    input type="hidden" name="role" value=(place.role());
                    input type="search" name="q" value=(place.q) placeholder={ "Search mail of " (place.role()) } aria-label="Search mail";
                }
                (list)
            }
            section.open aria-label="Thread" { (open) }
        }
    };
    let page = Page {
        title: format!("Mail of {}", plain(place.role())),
        tab: "mail",
        live: "mail",
        every_s: 0,
    };
    Ok(respond(&visit, page, body).await)
}

const fn in_box(of: &wire::MailboxState, kind: BoxKind) -> u64 {
    match kind {
        BoxKind::Inbox => of.inbox,
        BoxKind::Outbox => of.outbox,
        BoxKind::Done => of.done,
        BoxKind::Cancel => of.cancel,
    }
}

fn boxes(visit: &Visit, place: &Place, mailboxes: &[wire::MailboxState]) -> Markup {
    let has_own = mailboxes.iter().any(|it| it.role == HUMAN);
    html! {
        ul.boxes {
            @if !has_own { li { a href=(visit.link("/mail")) aria-current=[(place.role() == HUMAN).then_some("true")] { (HUMAN) " (you)" } } }
            @for it in mailboxes {
                li {
                    a href=(visit.link(&format!("/mail?role={}", it.role))) aria-current=[(it.role == place.role()).then_some("true")] {
                        (plain(&it.role)) @if it.role == HUMAN { " (you)" }
                    }
                    @if it.unseen != 0 { " " span.chip.warn title="Threads with letters not seen" { (it.unseen) } }
                    @if it.dead != 0 { " " span.chip.bad title="Dead letters" { (it.dead) } }
                    @if it.is_closed { " " span.note { "closed" } }
                }
            }
        }
    }
}

async fn threads(visit: &Visit, place: &Place, now_ms: u64) -> Markup {
    let mut request = wire::ListBoxRequest {
        role: place.role().to_owned(),
        limit: THREADS_SHOWN_MAX,
        after: place.after.clone(),
        ..Default::default()
    };
    request.set_box(wire_box(place.box_kind()));
    match visit.call(&request).await {
        Ok(page) => html! {
            @if page.threads.is_empty() { (nothing("No threads here.")) }
            ul.threads { @for it in &page.threads { (row(visit, place, it, "", now_ms)) } }
            @if !page.next.is_empty() {
                p { a.button href=(place.link(visit, "after", &page.next)) { "Older of " (page.total) } }
            }
        },
        Err(why) if place.role() == HUMAN && why.code() == Code::NotFound => {
            nothing("You have no mail yet.")
        }
        Err(why) => html! { p.trouble { (super::super::view::sentence(why.message())) } },
    }
}

async fn found(visit: &Visit, place: &Place, now_ms: u64) -> Markup {
    let request = wire::SearchMailRequest {
        role: place.role().to_owned(),
        query: place.q.clone(),
        limit: THREADS_SHOWN_MAX,
        include_sequence: u64::MAX,
        ..Default::default()
    };
    match visit.call(&request).await {
        Ok(page) => html! {
            p.note { (counted(page.total, "letter")) " found for “" (plain(&place.q)) "”." }
            ul.threads {
                @for hit in &page.hits {
                    @if let Some(it) = &hit.thread { (row(visit, place, it, &hit.excerpt, now_ms)) }
                }
            }
        },
        Err(why) => html! { p.trouble { (super::super::view::sentence(why.message())) } },
    }
}

fn row(visit: &Visit, place: &Place, it: &wire::MailThread, excerpt: &str, now_ms: u64) -> Markup {
    let is_open = place.thread == it.message_id;
    html! {
        li data-item .unseen[it.unseen != 0] aria-current=[is_open.then_some("true")] id={ "thread-" (it.message_id) } {
            a href=(place.link(visit, "thread", &it.message_id)) { (thread::subject(it)) }
            div.note {
                @if it.is_urgent { span.chip.bad { "urgent" } " " }
                @if it.is_dead { span.chip.bad { "dead letter" } " " }
                (plain(&it.latest_sender)) " → " (plain(&it.latest_receivers.join(", "))) ", "
                (counted(it.entries, "entry")) ", " (ago(it.latest_ms, now_ms))
                @if it.unseen != 0 { ", " b { (it.unseen) " not seen" } }
            }
            @if !excerpt.is_empty() { div.note { "…" (plain(excerpt)) "…" } }
        }
    }
}

const fn wire_box(kind: BoxKind) -> wire::Box {
    match kind {
        BoxKind::Inbox => wire::Box::Inbox,
        BoxKind::Outbox => wire::Box::Outbox,
        BoxKind::Done => wire::Box::Done,
        BoxKind::Cancel => wire::Box::Cancel,
    }
}
