//! Who may speak to this server at all: programs on this machine, and no page of a browser.
//!
//! What a request says of where it goes and where it is from must be this server ([`Site`]), and what
//! may change something must be of a content type that no page sends without asking first, which is
//! never allowed.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{HeaderMap, Method, StatusCode, header::CONTENT_TYPE};
use tasuki_proto::net::site::{Site, follow_link};

use super::{bearer::Bearer, server::refuse};

/// This end of the connection that a request came on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Here(pub SocketAddr);

pub(super) async fn check_names(
    State(site): State<Arc<Site>>,
    mut request: Request,
    next: Next,
) -> Response {
    if is_page(request.uri().path()) {
        follow_link(&mut request);
    }
    let here = request.extensions().get().map(|here: &Here| here.0);
    match site.check(request.uri(), request.headers(), here) {
        Ok(()) => next.run(request).await,
        Err(why) => {
            tracing::warn!(%why, "a request from elsewhere was refused");
            refuse(StatusCode::FORBIDDEN, "forbidden", why)
        }
    }
}

/// Whether it is of a page for people. Everything else is for programs.
fn is_page(path: &str) -> bool {
    path == "/" || path.starts_with("/w/")
}

/// Refuses what a page can send without asking first, where it may change something. Whoever
/// shows a good token is no such page.
pub(super) async fn check_content_type(request: Request, next: Next) -> Response {
    let is_bearer = request.extensions().get::<Bearer>().is_some();
    if is_bearer || is_harmless(request.method()) || is_json(request.headers()) {
        return next.run(request).await;
    }
    let message = "the request must have the header `Content-Type: application/json`";
    refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
}

/// `DELETE` is no method that a page may use without asking.
fn is_harmless(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::DELETE].contains(method)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next());
    essence.is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_and_to_nothing_that_programs_use() {
        assert!(is_page("/") && is_page("/w/default/now"));
        for path in ["", "/mcp", "/mcp/A", "/sse/A", "/stdio", "/message", "/status", "//", "/wx"] {
            assert!(!is_page(path), "{path}");
        }
    }

    #[test]
    fn only_json_may_change_something() {
        let of = |kind: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, kind.parse().unwrap());
            is_json(&headers)
        };
        assert!(of("application/json") && of("Application/JSON; charset=utf-8"));
        assert!(!of("text/plain") && !of("text/plain; application/json") && !of(""));
        assert!(!of("multipart/form-data") && !of("application/x-www-form-urlencoded"));
        assert!(!is_json(&HeaderMap::new()));
    }
}
