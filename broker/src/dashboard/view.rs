//! How pages look: the frame around each, and what several of them show alike.

use std::time::{Duration, UNIX_EPOCH};

use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use maud::{DOCTYPE, Markup, html};
use tasuki_proto::{counted::long, visible::shown, wire};

use super::{assets::VERSION, login, pages, visit::Visit};
use crate::overview::Calls as _;

/// A page and what surrounds it.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) title: String,
    /// The folder of the page among [`pages::ALL`]; empty: none.
    pub(super) tab: &'static str,
    /// Kinds of events after which it is asked for anew, apart by spaces.
    pub(super) live: &'static str,
    /// It is asked for anew after so many seconds, too: for what no event tells.
    pub(super) every_s: u32,
}

/// The page, in its frame.
pub(super) async fn respond(visit: &Visit, page: Page, body: Markup) -> Response {
    let workspaces = visit.call(&wire::ListWorkspacesRequest::default()).await;
    let workspaces = workspaces.map(|it| it.workspaces).unwrap_or_default();
    let own = visit.workspace.as_str();
    let html = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&page.title))
            body data-events=(visit.link("/events")) data-keys=(keys()) {
                a.skip href="#main" { "Skip to the content" }
                header {
                    a.brand href=(visit.link("/now")) { (sash()) "Tasuki" }
                    nav aria-label="Workspace" {
                        details.pick {
                            summary title="Workspace" { (own) }
                            ul {
                                @for name in &workspaces {
                                    li { a href={ "/w/" (name) "/now" } aria-current=[(name == own).then_some("true")] { (name) } }
                                }
                            }
                        }
                    }
                    nav.tabs aria-label="Pages" {
                        @for tab in pages::ALL {
                            a href=(visit.link(&format!("/{}", tab.folder))) aria-current=[(tab.folder == page.tab).then_some("page")] title={ "g " (tab.key) } { (tab.title) }
                        }
                    }
                    form.search role="search" method="get" action=(visit.link("/search")) {
                        input type="search" name="q" placeholder="Search everything  /" aria-label="Search everything" autocomplete="off";
                    }
                    span #live class="live" title="Connecting" { "●" }
                    (login::who(visit))
                }
                p #ended .trouble role="alert" hidden {
                    "Your session ended. " a href=(login::address(&visit.link("/now"))) target="_blank" { "Log in" }
                    " in another tab, then send what you typed here."
                }
                main #main data-live=(page.live) data-every=(page.every_s) { (body) }
                (help())
            }
        }
    };
    visit.named(html.into_response())
}

fn keys() -> String {
    let keys: Vec<String> =
        pages::ALL.iter().map(|it| format!("{}{}", it.key, it.folder)).collect();
    keys.join(" ")
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · Tasuki" }
            link rel="icon" href={ "/assets/icon.svg?v=" (*VERSION) };
            link rel="stylesheet" href={ "/assets/app.css?v=" (*VERSION) };
            script src={ "/assets/app.js?v=" (*VERSION) } defer {}
        }
    }
}

/// A page for whoever is nowhere: logging in, and what went wrong.
pub(super) fn bare_page(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body.bare {
                main #main {
                    h1 { (sash()) (title) }
                    (body)
                }
            }
        }
    }
}

/// Says what went wrong.
pub(super) fn bare(code: StatusCode, text: &str) -> Markup {
    let title = match code {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::SERVICE_UNAVAILABLE => "Not available",
        _ => "Not done",
    };
    let body = html! {
        p.trouble #trouble { (sentence(text)) }
        p { a href="/" { "To the first page" } }
    };
    bare_page(title, &body)
}

/// A refusal as a sentence: those of the API begin small and end without a full stop.
pub(super) fn sentence(text: &str) -> String {
    let (text, _) = shown(text);
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let text: String = first.chain(letters).collect();
    let ends = text.ends_with(['.', '!', '?', ':']);
    if ends || text.is_empty() { text } else { format!("{text}.") }
}

/// The sash that a team's runners hand on.
pub(super) fn sash() -> Markup {
    html! {
        svg.sash viewBox="0 0 24 24" aria-hidden="true" {
            path d="M4 3 L20 19 M4 3 L4 9 L14 19 L20 19" {}
        }
    }
}

fn help() -> Markup {
    html! {
        dialog #help {
            h2 { "Keys" }
            dl {
                dt { kbd { "/" } } dd { "Search everything" }
                @for tab in pages::ALL {
                    dt { kbd { "g" } " " kbd { (tab.key) } } dd { (tab.title) }
                }
                dt { kbd { "j" } " " kbd { "k" } } dd { "Next and previous item" }
                dt { kbd { "Enter" } } dd { "Open it" }
                dt { kbd { "Esc" } } dd { "Close" }
                dt { kbd { "?" } } dd { "These keys" }
            }
            form method="dialog" { button { "Close" } }
        }
    }
}

/// A name or a short text, without what would hide something.
pub(super) fn plain(text: &str) -> String {
    shown(text).0.into_owned()
}

/// A moment as ISO 8601 in UTC.
pub(super) fn iso(ms: u64) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(ms)).unwrap_or(UNIX_EPOCH);
    humantime::format_rfc3339_seconds(at).to_string()
}

/// When something was, by the clock of whoever looks.
pub(super) fn clock(ms: u64) -> Markup {
    html! { time datetime=(iso(ms)) data-ms=(ms) data-form="clock" { (iso(ms)) } }
}

/// How long ago something was; nothing of a time that is not known.
pub(super) fn ago(ms: u64, now_ms: u64) -> Markup {
    html! {
        @if ms == 0 { span.none { "never" } }
        @else {
            time datetime=(iso(ms)) title=(iso(ms)) data-ms=(ms) { (long(now_ms.saturating_sub(ms))) " ago" }
        }
    }
}

/// How long something has been so.
pub(super) fn since(ms: u64, now_ms: u64) -> Markup {
    html! {
        @if ms == 0 { span.none { "not known" } }
        @else {
            time datetime=(iso(ms)) title={ "since " (iso(ms)) } data-ms=(ms) data-form="since" { (long(now_ms.saturating_sub(ms))) }
        }
    }
}

/// When a lease runs out.
pub(super) fn lapses(ms: u64, now_ms: u64) -> Markup {
    html! {
        @if ms == 0 { span.none { "no limit" } }
        @else if ms <= now_ms { span.bad title=(iso(ms)) { "lapsed " (long(now_ms - ms)) " ago" } }
        @else {
            time datetime=(iso(ms)) title=(iso(ms)) data-ms=(ms) data-form="until" { "in " (long(ms - now_ms)) }
        }
    }
}

/// The same in a sentence: a lease that ran out did so some time ago.
pub(super) fn lease(ms: u64, now_ms: u64) -> Markup {
    html! { @if now_ms < ms { "lapses " } (lapses(ms, now_ms)) }
}

/// How far something got at its receiver, step by step.
pub(super) fn receipts(steps: &[(&str, u64)], now_ms: u64) -> Markup {
    html! {
        ol.receipts {
            @for (name, ms) in steps {
                li class=(if *ms == 0 { "open" } else { name }) title=(if *ms == 0 { "not yet".to_owned() } else { iso(*ms) }) {
                    (name) @if *ms != 0 { " " (ago(*ms, now_ms)) }
                }
            }
        }
    }
}

/// Of a turn.
pub(super) fn turn_receipts(it: &wire::Receipts, now_ms: u64) -> Markup {
    let mut steps = vec![
        ("stored", it.stored_ms),
        ("handed", it.handed_ms),
        ("seen", it.seen_ms),
        ("acted", it.acted_ms),
    ];
    steps
        .extend([("failed", it.failed_ms), ("lapsed", it.lapsed_ms)].iter().filter(|it| it.1 != 0));
    receipts(&steps, now_ms)
}

/// A role's name, as a link to what it did.
pub(super) fn role(visit: &Visit, name: &str) -> Markup {
    html! {
        @if name.is_empty() { span.none { "nobody" } }
        @else { a.role href=(visit.link(&format!("/timeline?role={name}"))) { (plain(name)) } }
    }
}

/// What to show where there is nothing.
pub(super) fn nothing(text: &str) -> Markup {
    html! { p.none { (text) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_sentence() {
        assert_eq!(sentence("there is no loop x"), "There is no loop x.");
        assert_eq!(sentence("Done."), "Done.");
        assert_eq!(sentence(""), "");
    }

    #[test]
    fn a_moment_is_said_from_where_one_stands() {
        let text = |markup: Markup| markup.into_string();
        assert!(text(ago(1_000, 66_000)).contains("1m 05s ago"));
        assert!(text(ago(0, 1)).contains("never"));
        assert!(text(lapses(5_000, 1_000)).contains("in 4s"));
        assert!(text(lapses(1_000, 5_000)).contains("lapsed 4s ago"));
        assert!(text(lapses(0, 1)).contains("no limit"));
        assert!(text(lease(5_000, 1_000)).starts_with("lapses <time"));
        assert!(text(lease(1_000, 5_000)).starts_with("<span"));
    }
}
