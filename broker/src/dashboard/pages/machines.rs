//! *Machines*: nodes and their roles, runners, tokens and invitations; links to look.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::{
    Router,
    response::Response,
    routing::{get, post},
};
use http::{HeaderMap, header::HOST};
use maud::{Markup, html};
use tasuki_proto::{
    counted::{counted, listed_names},
    token::{Right, SECRET_BYTES, Secret, Token},
    wire,
};

use super::{
    super::{
        App,
        form::{Act, button, choice, dialog, hidden_field, line_field},
        view::{Page, ago, nothing, plain, respond, role},
        visit::{Trouble, Visit},
    },
    done,
};
use crate::overview::{Calls as _, every_node};

/// Presence is no event: it is looked at again after so many seconds.
const EVERY_S: u32 = 10;

/// How long links may last, by name, in milliseconds.
const LASTING: [(&str, u64); 4] = [
    ("1 hour", 3_600_000),
    ("8 hours", 28_800_000),
    ("1 day", 86_400_000),
    ("7 days", 604_800_000),
];

/// Roles of a node in the list; all are on the page *Now*.
const ROLES_SHOWN_MAX: usize = 50;

/// Tokens and invitations in the lists: the newest.
const LISTED_MAX: usize = 100;

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route("/w/{workspace}/machines", get(machines))
        .route("/w/{workspace}/token/revoke", post(revoke))
        .route("/w/{workspace}/link/new", post(new_link))
}

async fn machines(visit: Visit) -> Result<Response, Trouble> {
    let (nodes, software) = every_node(&visit).await?;
    let now_ms = visit.now_ms().await?;
    let offers = visit.call(&wire::ListRunnersRequest::default()).await.unwrap_or_default().offers;
    let offers: BTreeMap<&str, &wire::RunnerOffer> =
        offers.iter().map(|it| (it.node.as_str(), it)).collect();
    let body = html! {
        h1 { "Machines" }
        section {
            @if nodes.is_empty() { (nothing("No node has joined this workspace yet.")) }
            @else { div.scroll { table {
                thead { tr { th { "Node" } th { "State" } th { "Roles" } th { "Runs sub-agents" } th { "Program" } th { "Token" } } }
                tbody {
                    @for it in &nodes { (node(&visit, it, offers.get(it.node.as_str()).copied(), now_ms)) }
                }
            } } }
            @if !software.is_empty() { p.note { "Broker: " (plain(&software)) } }
        }
        (tokens(&visit, now_ms).await)
    };
    let page =
        Page { title: "Machines".to_owned(), tab: "machines", live: "directory", every_s: EVERY_S };
    Ok(respond(&visit, page, body).await)
}

fn node(visit: &Visit, it: &wire::Node, offer: Option<&wire::RunnerOffer>, now_ms: u64) -> Markup {
    html! {
        tr id={ "node-" (it.node) } {
            td { b { (plain(&it.node)) } }
            td {
                @if it.is_present { span.chip.good { "connected" } }
                @else { span.chip.bad { "away" } " " span.note { "since " (ago(it.last_seen_ms, now_ms)) } }
                div.note { "registered " (ago(it.registered_ms, now_ms)) }
            }
            td {
                @for name in it.roles.iter().collect::<BTreeSet<_>>().into_iter().take(ROLES_SHOWN_MAX) { (role(visit, name)) " " }
                @if ROLES_SHOWN_MAX < it.roles.len() { span.note { "and " (it.roles.len() - ROLES_SHOWN_MAX) " more" } }
            }
            td {
                @if let Some(offer) = offer { (plain(&offer.runners.join(", "))) div.note { (counted(offer.places, "place")) } } @else { span.none { "none" } }
            }
            td.note { (plain(&it.software)) }
            td { @if it.token.is_empty() { span.none { "none" } } @else { code { (plain(&it.token)) } } }
        }
    }
}

async fn tokens(visit: &Visit, now_ms: u64) -> Markup {
    if visit.login.is_none() {
        return html! {
            section {
                h2 { "Tokens" }
                p.note { "This broker is open to this machine and asks for no tokens. " code { "tasuki-broker token list" } " shows those that were made." }
            }
        };
    }
    if !visit.may(Right::Admin) {
        return html! {
            section { h2 { "Tokens" } p.note { "Your token lacks the " code { "admin" } " right, so it sees no others." } }
        };
    }
    let tokens = visit.call(&wire::ListTokensRequest::default()).await.unwrap_or_default().tokens;
    let invitations =
        visit.call(&wire::ListInvitationsRequest::default()).await.unwrap_or_default().invitations;
    html! {
        section aria-labelledby="tokens" {
            div.bar { h2 #tokens { "Tokens" } (link_form(visit)) }
            div.scroll { table {
                thead { tr { th { "Token" } th { "For" } th { "May" } th { "Used" } th { "Ends" } th {} } }
                tbody {
                    @for it in tokens.iter().rev().take(LISTED_MAX) { (token(visit, it, now_ms)) }
                }
            } }
            @if LISTED_MAX < tokens.len() { p.note { (tokens.len()) " tokens; the newest " (LISTED_MAX) " are listed." } }
            @if !invitations.is_empty() {
                h3 { "Invitations" }
                div.scroll { table {
                    thead { tr { th { "Invitation" } th { "For" } th { "Issued" } th { "State" } } }
                    tbody {
                        @for it in invitations.iter().take(LISTED_MAX) {
                            tr {
                                td { code { (plain(&it.invitation_id)) } }
                                td { (plain(&it.label)) }
                                td { (ago(it.issued_ms, now_ms)) }
                                td {
                                    @if it.is_withdrawn { "withdrawn" } @else if it.used_ms != 0 { "used " (ago(it.used_ms, now_ms)) }
                                    @else if it.expires_ms <= now_ms { "expired" } @else { span.chip.warn { "open" } }
                                    @if !it.misuses.is_empty() { " " span.chip.bad { (counted(it.misuses.len(), "misuse")) } }
                                }
                            }
                        }
                    }
                } }
            }
        }
    }
}

fn token(visit: &Visit, it: &wire::Token, now_ms: u64) -> Markup {
    let scope = it.scope.clone().unwrap_or_default();
    let is_own = visit.login.as_ref().is_some_and(|login| login.token.token_id == it.token_id);
    let is_over = it.revoked_ms != 0 || (it.expires_ms != 0 && it.expires_ms <= now_ms);
    html! {
        tr id={ "token-" (it.token_id) } {
            td { code { (plain(&it.token_id)) } div.note { (plain(&it.label)) } }
            td {
                @if scope.workspace.is_empty() { "all workspaces" } @else { (plain(&scope.workspace)) }
                div.note { @if scope.is_any_role { "any role" } @else { (plain(&listed_names(&scope.roles))) } }
            }
            td { (plain(&scope.rights.join(", "))) }
            td { @if it.last_used_ms == 0 { span.none { "not since the start" } } @else { (ago(it.last_used_ms, now_ms)) } }
            td {
                @if it.revoked_ms != 0 { span.chip.bad { "revoked" } }
                @else if it.expires_ms == 0 { "never" }
                @else { (super::super::view::lapses(it.expires_ms, now_ms)) }
            }
            td {
                @if !is_over && !is_own { (button(visit, "Revoke", "/token/revoke", &hidden_field("token", &it.token_id))) }
                @if is_own { span.note { "yours" } }
            }
        }
    }
}

fn link_form(visit: &Visit) -> Markup {
    let fields = html! {
        (line_field("label", "For whom", "", true))
        (choice("for", "For how long", LASTING.iter().map(|it| it.0), "8 hours"))
        p.note data-page { "Whoever has the link sees the pages of " (plain(visit.workspace.as_str())) " as you see them, and can change nothing." }
    };
    dialog(visit, "new-link", "Make a link to look", "/link/new", &fields)
}

async fn revoke(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::RevokeTokenRequest { token_id: form.text("token") };
    visit.call(&request).await?;
    Ok(done(&visit, "/machines"))
}

/// A token that may read one workspace for a while, behind the `#` of a link: no server and no log
/// sees it there.
async fn new_link(headers: HeaderMap, Act { visit, form }: Act) -> Result<Response, Trouble> {
    let lasting = form.text("for");
    let valid_ms = LASTING.iter().find(|it| it.0 == lasting).map(|it| it.1);
    let valid_ms =
        valid_ms.ok_or_else(|| Trouble::Invalid("Choose how long the link lasts.".to_owned()))?;
    let mut random = [0; SECRET_BYTES];
    getrandom::fill(&mut random)
        .map_err(|why| Trouble::Invalid(format!("The system's random source failed: {why}.")))?;
    let secret = Secret::new(random);
    // Nobody gives more than they have.
    let scope = wire::Scope {
        workspace: visit.workspace.to_string(),
        rights: vec![Right::Read.to_string()],
        ..wire::Scope::clone(&visit.scope)
    };
    let request = wire::IssueTokenRequest {
        secret: secret.hash().as_bytes().to_vec(),
        scope: Some(scope),
        valid_ms,
        label: format!("link for {}", form.text("label")),
    };
    let issued = visit.call(&request).await?;
    let id = issued.token_id.parse().map_err(|_| Trouble::NotFound)?;
    let token = Token { id, secret };
    let host = headers.get(HOST).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let link = format!("https://{host}/link#{}", token.expose());
    let body = html! {
        h1 { "A link to look" }
        p { "Copy it now: it is not shown again." }
        p { a #look href=(link) { "Link for " (plain(&form.text("label"))) } }
        p { code { (link) } }
        p.note { "It ends in " (lasting) ", or when its token " code { (plain(&issued.token_id)) } " is revoked." }
        p { a href=(visit.link("/machines")) { "Back to the machines" } }
    };
    let page = Page { title: "A link to look".to_owned(), tab: "machines", live: "", every_s: 0 };
    Ok(respond(&visit, page, body).await)
}
