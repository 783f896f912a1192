//! Logging in with a token, and out; links that log somebody in to look.

use std::sync::Arc;

use axum::{
    Form as Fields, Router,
    extract::{FromRequest as _, Request, State},
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use http::{
    HeaderValue, StatusCode,
    header::{LOCATION, SET_COOKIE},
};
use maud::{Markup, html};
use serde::Deserialize;
use tasuki_proto::{
    rpc,
    token::{Right, Token},
    wire,
};
use tokio::time::Instant;
use tonic::Status;

use super::{
    App, form,
    form::Act,
    session::Login,
    view,
    visit::{Bearing, Query, Trouble, Visit},
};
use crate::connection::Peer;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/login", get(ask).post(log_in))
        .route("/link", get(follow_link).post(log_in))
        .route("/w/{workspace}/logout", post(log_out))
}

/// Where one logs in to go on to `next`.
pub(super) fn address(next: &str) -> String {
    let next = if is_own(next) { next } else { "/" };
    let escaped: String = next
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect();
    format!("/login?next={escaped}")
}

/// Whether a path leads to a page of this server, whatever a browser makes of it.
fn is_own(path: &str) -> bool {
    let rest = path.strip_prefix('/');
    rest.is_some_and(|rest| !rest.starts_with(['/', '\\']))
        && path.bytes().all(|it| b' ' < it && it < 127)
}

#[derive(Debug, Deserialize)]
struct Asked {
    #[serde(default)]
    next: String,
}

async fn ask(State(app): State<Arc<App>>, Query(asked): Query<Asked>) -> Response {
    if !app.settings.asks_for_token {
        return Redirect::to("/").into_response();
    }
    page(&asked.next, "").into_response()
}

fn page(next: &str, trouble: &str) -> Markup {
    let body = html! {
        @if !trouble.is_empty() { p.trouble #trouble { (trouble) } }
        form method="post" action="/login" {
            input type="hidden" name="next" value=(next);
            label { span { "Access token" }
                input type="password" name="token" required autofocus autocomplete="current-password" placeholder="tasuki_…";
            }
            p.row { button type="submit" class="main" { "Log in" } }
        }
        p.note {
            "Make one where the broker runs: " code { "tasuki-broker token new --role human --right read --right send --right claim --right review --right steer" }
        }
    };
    view::bare_page("Log in", &body)
}

/// A link carries its token behind the `#`, which browsers send to nobody: the script puts it into
/// this form.
async fn follow_link(State(app): State<Arc<App>>) -> Response {
    if !app.settings.asks_for_token {
        return Redirect::to("/").into_response();
    }
    let body = html! {
        form #link method="post" action="/link" {
            input type="hidden" name="token";
            input type="hidden" name="next" value="/";
            p { "This link shows the dashboard for a limited time." }
            p.row { button type="submit" class="main" { "Open" } }
        }
    };
    view::bare_page("Open the dashboard", &body).into_response()
}

#[derive(Debug, Deserialize)]
struct Shown {
    token: String,
    #[serde(default)]
    next: String,
}

async fn log_in(State(app): State<Arc<App>>, request: Request) -> Result<Response, Trouble> {
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    let Fields(shown) = Fields::<Shown>::from_request(request, &())
        .await
        .map_err(|why| Trouble::Invalid(format!("The form is not readable: {why}.")))?;
    let next = if is_own(&shown.next) { shown.next.as_str() } else { "/" };
    match token_of(&app, &shown.token, peer).await {
        Ok(login) => {
            // A new name: one that somebody planted before is worth nothing.
            let (name, cookie) = app.sessions.begin();
            app.sessions.log_in(name, login, Instant::now());
            Ok(([(SET_COOKIE, cookie)], Redirect::to(next)).into_response())
        }
        Err(status) => {
            let text = view::sentence(status.message());
            Ok((StatusCode::UNAUTHORIZED, page(next, &text)).into_response())
        }
    }
}

/// Where nobody logs in, it is the token of whoever serves the pages that the broker refused.
pub(super) async fn turned_away(response: Response) -> Response {
    let to = response.headers().get(LOCATION).and_then(|it| it.to_str().ok());
    if !to.is_some_and(|it| it.starts_with("/login")) {
        return response;
    }
    let text = "the broker refuses the token of this node: it was revoked, or it expired. `tasuki \
                join` with a new invitation gives it another";
    (StatusCode::UNAUTHORIZED, view::bare(StatusCode::UNAUTHORIZED, text)).into_response()
}

/// Whose token it is, if it is a good one.
async fn token_of(app: &App, text: &str, peer: Option<Arc<Peer>>) -> Result<Login, Status> {
    let not = |_| Status::unauthenticated("this is not a token: one looks like tasuki_ID_SECRET");
    let token: Token = text.trim().parse().map_err(not)?;
    let authorization = format!("Bearer {}", token.expose());
    let mut authorization = HeaderValue::from_str(&authorization)
        .map_err(|_| Status::unauthenticated("this is not a token"))?;
    authorization.set_sensitive(true);
    let carrier = app.settings.carrier.clone();
    let bearing = Bearing::new(carrier, Some(authorization.clone()), peer);
    let token = rpc::send(bearing, wire::WhoAmIRequest::default()).await?.into_inner();
    let rights = token.scope.as_ref().map(|it| it.rights.as_slice()).unwrap_or_default();
    if !rights.contains(&Right::Read.to_string()) {
        let text = "this token lacks the right `read`, and every page reads";
        return Err(Status::permission_denied(text));
    }
    Ok(Login { authorization, token })
}

async fn log_out(act: Act) -> Response {
    let sessions = &act.visit.app.sessions;
    sessions.log_out(&act.visit.name);
    ([(SET_COOKIE, sessions.forgotten())], Redirect::to("/login")).into_response()
}

/// Who looks, and how they leave.
pub(super) fn who(visit: &Visit) -> Markup {
    let Some(login) = &visit.login else {
        return html! { span.who title="This address is open on this machine only" { "this machine" } };
    };
    let token = &login.token;
    let label = if token.label.is_empty() { &token.token_id } else { &token.label };
    html! {
        details.pick.who {
            summary title="Logged in" { (view::plain(label)) }
            div {
                p { "Token " code { (token.token_id) } }
                @if let Some(scope) = &token.scope { p { (scope.rights.join(", ")) } }
                @if token.expires_ms != 0 { p { "until " (view::iso(token.expires_ms)) } }
                (form::button(visit, "Log out", "/logout", &html! {}))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_logging_in_one_stays_on_this_server() {
        for own in ["/", "/w/default/now", "/w/x/mail?role=A"] {
            assert!(is_own(own), "{own}");
        }
        for other in ["", "https://evil.example", "//evil.example", "/\\evil.example", "/\nx", "x"]
        {
            assert!(!is_own(other), "{other}");
        }
        assert_eq!(address("/w/x/mail?role=A"), "/login?next=/w/x/mail%3Frole%3DA");
        assert_eq!(address("//evil.example"), "/login?next=/");
    }
}
