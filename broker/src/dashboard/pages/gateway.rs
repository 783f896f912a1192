//! *Gateway*: the MCP servers of the node that serves the page, with their tools and what changed in
//! them; and what roles export to others.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    response::Response,
    routing::{get, post},
};
use maud::{Markup, html};
use tasuki_proto::{counted::counted, wire};

use super::{
    super::{
        App, ChangedTool, ToolServer,
        form::{Act, button, hidden_field},
        view::{Page, nothing, plain, respond, role},
        visit::{Trouble, Visit},
    },
    done,
};
use crate::overview::Calls as _;

/// Servers come and go without an event of the workspace's.
const EVERY_S: u32 = 10;

/// Tools of one server that are listed.
const TOOLS_MAX: usize = 100;

/// Letters of a tool's description in the list.
const DESCRIPTION_CHARS_MAX: usize = 120;

/// A tool as JSON, before and after it changed, in bytes, and how many are shown: more is for the
/// command line.
const JSON_BYTES_MAX: usize = 16 * 1024;
const CHANGES_MAX: usize = 10;

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route("/w/{workspace}/gateway", get(gateway))
        .route("/w/{workspace}/gateway/approve", post(approve))
}

async fn gateway(visit: Visit) -> Result<Response, Trouble> {
    let exported = visit.call(&wire::ListToolsRequest::default()).await?.roles;
    let servers = visit.app.settings.servers.as_ref().map(|it| it.list());
    let body = html! {
        h1 { "Gateway" }
        section aria-labelledby="servers" {
            h2 #servers { "MCP servers of this node" }
            @match &servers {
                None => p.note { "MCP servers are listed on the dashboard of the node that runs them. Open the address that " code { "tasuki up" } " or " code { "tasuki node" } " printed for MCP when it started." },
                Some(servers) if servers.is_empty() => (nothing("No MCP servers are configured.")),
                Some(servers) => @for it in servers { (server(&visit, it)) },
            }
        }
        section aria-labelledby="exported" {
            h2 #exported { "Tools that roles export" }
            @if exported.is_empty() { (nothing("No connected role exports tools.")) }
            @else { div.scroll { table {
                thead { tr { th { "Role" } th { "Tool" } th { "Roles that may call it" } } }
                tbody { @for of in &exported { @for tool in &of.tools {
                    tr {
                        td { (role(&visit, &of.role)) }
                        td { code { (plain(&tool.name)) } }
                        td { @if tool.callers.is_empty() { "every role" } @else { (plain(&tool.callers.join(", "))) } }
                    }
                } } }
            } } }
        }
    };
    let page = Page {
        title: "Gateway".to_owned(),
        tab: "gateway",
        live: "directory call",
        every_s: EVERY_S,
    };
    Ok(respond(&visit, page, body).await)
}

fn server(visit: &Visit, it: &ToolServer) -> Markup {
    html! {
        article id={ "server-" (it.name) } {
            header {
                h3 { (plain(&it.name)) }
                @if it.is_ready { span.chip.good { (it.state) } } @else { span.chip.bad { (it.state) } }
                code { (plain(&it.endpoint)) }
            }
            @if !it.why.is_empty() { p { (plain(&it.why)) } }
            p.note {
                @if !it.version.is_empty() { (plain(&it.version)) ", " }
                (counted(it.tools.len(), "tool"))
                @if it.in_flight != 0 { ", " (counted(it.in_flight, "call")) " in progress" }
                @if it.restarts != 0 { ", restarted " (counted(it.restarts, "time")) }
            }
            @if !it.held.is_empty() { (held(visit, it)) }
            @if !it.tools.is_empty() {
                details {
                    summary { (counted(it.tools.len(), "tool")) }
                    div.scroll { table { tbody {
                        @for (name, text) in it.tools.iter().take(TOOLS_MAX) {
                            tr { td { code { (plain(name)) } } td { (plain(&cut(text, DESCRIPTION_CHARS_MAX))) } }
                        }
                    } } }
                    @if TOOLS_MAX < it.tools.len() { p.note { "The first " (TOOLS_MAX) " are listed. All: " code { "tasuki gateway tools " (it.name) } } }
                }
            }
            @if !it.refused.is_empty() {
                details {
                    summary { (counted(it.refused.len(), "tool")) " not shown" }
                    ul { @for (name, why) in it.refused.iter().take(TOOLS_MAX) { li { code { (plain(name)) } ": " (plain(why)) } } }
                }
            }
        }
    }
}

/// Tools that changed since they were approved, with both, and what approves just these.
fn held(visit: &Visit, it: &ToolServer) -> Markup {
    // Nobody approves here what is not shown whole.
    let (whole, long): (Vec<_>, Vec<_>) =
        it.held.iter().partition(|it| it.approved.len() + it.current.len() <= JSON_BYTES_MAX);
    let shown = &whole[..whole.len().min(CHANGES_MAX)];
    let fields = html! {
        (hidden_field("server", &it.name))
        @for it in shown { (hidden_field("change", &format!("{} {}", it.digest, it.tool))) }
    };
    let hidden = whole.len() - shown.len() + long.len();
    html! {
        p.trouble { (counted(it.held.len(), "tool")) " changed after approval. Agents cannot see or call what changed until you approve it." }
        @for it in shown { (difference(it)) }
        @if !shown.is_empty() { (button(visit, "Approve the changes shown here", "/gateway/approve", &fields)) }
        @if hidden != 0 {
            p.note { "Not shown here: " (counted(hidden, "change")) ". To review and approve all: " code { "tasuki gateway approve " (it.name) } }
        }
    }
}

fn difference(it: &ChangedTool) -> Markup {
    html! {
        details open {
            summary { code { (plain(&it.tool)) } }
            h4 { "Approved" }
            pre { (plain(&it.approved)) }
            h4 { "Now" }
            pre { (plain(&it.current)) }
        }
    }
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}… (cut)", &text[..at]),
        None => text.to_owned(),
    }
}

async fn approve(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let servers = visit.app.settings.servers.as_ref().ok_or(Trouble::NotFound)?;
    let digests: BTreeMap<String, String> = form
        .all("change")
        .filter_map(|it| {
            let (digest, tool) = it.split_once(' ')?;
            Some((tool.to_owned(), digest.to_owned()))
        })
        .collect();
    let approved = servers.approve(form.text("server"), digests).await;
    approved.map_err(Trouble::Invalid)?;
    Ok(done(&visit, "/gateway"))
}
