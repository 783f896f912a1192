//! *Boards*: shared state with its channels, its checkpoints as a line with forks, and what each of
//! them changed.

use std::sync::Arc;

use axum::{Router, response::Response, routing::get};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use tasuki_proto::{counted::counted, limits::BOARDS_PAGE_MAX, wire};

use super::{
    super::{
        App,
        view::{Page, ago, nothing, plain, respond, role, sentence},
        visit::{Query, Trouble, Visit},
    },
    escaped,
};
use crate::overview::Calls as _;

/// Checkpoints of a board that are listed at once.
const CHECKPOINTS_LISTED: u32 = 50;

/// Of a value, in bytes: more is for the command line.
const VALUE_SHOWN_BYTES_MAX: usize = 32 * 1024;

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router.route("/w/{workspace}/boards", get(boards))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Place {
    board: String,
    /// The checkpoint that is shown; 0: the newest.
    at: u64,
    /// Show what it changed in place of its values.
    changes: bool,
    /// Checkpoints below this one are listed; 0: the newest.
    before: u64,
    after: String,
}

async fn boards(visit: Visit, Query(place): Query<Place>) -> Result<Response, Trouble> {
    let request = wire::ListBoardsRequest {
        limit: BOARDS_PAGE_MAX,
        after: place.after.clone(),
        ..Default::default()
    };
    let list = visit.call(&request).await?;
    let open = match place.board.as_str() {
        "" if list.boards.is_empty() => html! {},
        "" => nothing("Choose a board to see its channels and checkpoints."),
        _ => board(&visit, &place).await,
    };
    let body = html! {
        h1 { "Boards" }
        div.columns.two {
            nav.side aria-label="Boards" {
                @if list.boards.is_empty() {
                    (nothing("No board was written yet. A board is state that agents share, with a checkpoint for each update."))
                    p.note { code { "tasuki board update plan current_phase=plan --as ROLE" } " writes one by hand." }
                }
                ul.boxes {
                    @for it in &list.boards {
                        li data-item aria-current=[(it.board == place.board).then_some("true")] {
                            a href=(visit.link(&format!("/boards?board={}", escaped(&it.board)))) { (plain(&it.board)) }
                            div.note { "checkpoint " (it.checkpoint) " by " (author(&visit, &it.by_role, &it.by_person)) }
                        }
                    }
                }
                @if !list.next.is_empty() {
                    p { a href=(visit.link(&format!("/boards?after={}", escaped(&list.next)))) { "More boards" } }
                }
            }
            section aria-label="Board" { (open) }
        }
    };
    let page = Page { title: "Boards".to_owned(), tab: "boards", live: "board", every_s: 0 };
    Ok(respond(&visit, page, body).await)
}

/// A role with its page, or a person by name.
fn author(visit: &Visit, by_role: &str, by_person: &str) -> Markup {
    html! { @if by_role.is_empty() { (plain(by_person)) } @else { (role(visit, by_role)) } }
}

async fn board(visit: &Visit, place: &Place) -> Markup {
    let read = wire::ReadBoardRequest {
        board: place.board.clone(),
        checkpoint: place.at,
        ..Default::default()
    };
    let history = wire::ListCheckpointsRequest {
        board: place.board.clone(),
        before: place.before,
        limit: CHECKPOINTS_LISTED,
        ..Default::default()
    };
    let read = match visit.call(&read).await {
        Ok(read) => read,
        Err(why) => return html! { p.trouble { (sentence(why.message())) } },
    };
    let history = visit.call(&history).await.unwrap_or_default();
    let summary = read.board.unwrap_or_default();
    let at = read.checkpoint.unwrap_or_default();
    let changes = match place.changes {
        true => Some(changes(visit, &place.board, &at).await),
        false => None,
    };
    let link = |more: &str| {
        let board = escaped(&place.board);
        visit.link(&format!("/boards?board={board}&at={}{more}", at.checkpoint))
    };
    html! {
        header {
            h2 { (plain(&summary.board)) }
            p.note {
                "Checkpoint " (at.checkpoint) " of " (summary.checkpoint) ", by " (author(visit, &at.by_role, &at.by_person)) " " (ago(at.at_ms, read.now_ms))
                @if !summary.from_board.is_empty() {
                    ". Forked from " a href=(visit.link(&format!("/boards?board={}&at={}", escaped(&summary.from_board), summary.from_checkpoint))) { (plain(&summary.from_board)) " at " (summary.from_checkpoint) }
                }
            }
            p {
                a href=(link("")) aria-current=[(!place.changes).then_some("page")] { "Values" } " "
                a href=(link("&changes=true")) aria-current=[place.changes.then_some("page")] { "What it changed" }
            }
        }
        @match changes {
            Some(changes) => (changes),
            None => @for it in &read.channels { (channel(it)) },
        }
        h3 { "Checkpoints" }
        ol.entries reversed {
            @for it in &history.checkpoints { (checkpoint(visit, place, &at, it, read.now_ms)) }
        }
        @if history.next != 0 {
            p { a href=(link(&format!("&before={}", history.next))) { "Older checkpoints" } }
        }
    }
}

fn channel(it: &wire::ChannelValue) -> Markup {
    html! {
        section.channel {
            h3 { (plain(&it.channel)) }
            p.note { (plain(&it.reducer)) ", last written by checkpoint " (it.changed_at) }
            (value(&it.value_json))
        }
    }
}

/// A value: a text as it is, anything else as indented JSON; its begin, where it is long.
fn value(json: &str) -> Markup {
    let text = match serde_json::from_str::<Value>(json) {
        Ok(Value::String(text)) => text,
        Ok(value) => serde_json::to_string_pretty(&value).unwrap_or_else(|_| json.to_owned()),
        Err(_) => json.to_owned(),
    };
    let cut = text.floor_char_boundary(VALUE_SHOWN_BYTES_MAX);
    html! {
        pre { (plain(&text[..cut])) }
        @if cut < text.len() { p.note { (counted(text.len() - cut, "byte")) " more: " code { "tasuki board show" } } }
    }
}

/// One checkpoint of the line; where it does not go on from the one before, from which it does.
fn checkpoint(
    visit: &Visit,
    place: &Place,
    at: &wire::BoardCheckpoint,
    it: &wire::BoardCheckpoint,
    now_ms: u64,
) -> Markup {
    let board = escaped(&place.board);
    let link =
        visit.link(&format!("/boards?board={board}&at={}&before={}", it.checkpoint, place.before));
    html! {
        li data-item value=(it.checkpoint) aria-current=[(it.checkpoint == at.checkpoint).then_some("true")] {
            a href=(link) { "Checkpoint " (it.checkpoint) } " "
            @if it.is_fork { span.chip { "fork of " (it.parent) } " " }
            (plain(&it.channels.join(", ")))
            div.note { (author(visit, &it.by_role, &it.by_person)) " " (ago(it.at_ms, now_ms)) }
        }
    }
}

/// What a checkpoint has that its parent had otherwise.
async fn changes(visit: &Visit, board: &str, at: &wire::BoardCheckpoint) -> Markup {
    let request = wire::DiffBoardRequest {
        board: board.to_owned(),
        from: at.parent,
        to: at.checkpoint,
        ..Default::default()
    };
    let diff = match visit.call(&request).await {
        Ok(diff) => diff,
        Err(why) => return html! { p.trouble { (sentence(why.message())) } },
    };
    html! {
        @if diff.channels.is_empty() { (nothing("It has the values that its parent has.")) }
        @for it in &diff.channels {
            section.channel {
                h3 { (plain(&it.channel)) }
                @if !it.before_json.is_empty() { h4 { "Before" } (value(&it.before_json)) }
                @if !it.after_json.is_empty() { h4 { "After" } (value(&it.after_json)) }
            }
        }
    }
}
