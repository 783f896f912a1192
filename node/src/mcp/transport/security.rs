//! Who may speak to this server at all: programs on this machine, and no page of a browser.
//!
//! A page can make a browser send requests to loopback, also under its own name (DNS
//! rebinding), and one on another port of this machine is no better than one from elsewhere. So
//! the Host must be a name of this machine or the address listened on; an Origin, where there is
//! one, must be that of this very server; what a browser says is another site's is refused; and
//! what may change something must be of a content type that no page sends without asking first,
//! which is never allowed. A guarded server may also be called what its certificate calls it, and
//! the address it was reached at.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{
    HeaderMap, HeaderName, Method, StatusCode, Uri,
    header::{CONTENT_TYPE, HOST, ORIGIN},
};

use super::{bearer::Bearer, guarded::Guard, server::refuse};

/// Names of this machine that do not leave it.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Where a browser says that a request comes from. Other ports of one host are `same-site`.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What `Sec-Fetch-Site` may say: it was no page, or one of this server's own.
const OWN_SITES: [&str; 2] = ["none", "same-origin"];

/// The names that a request may use for this server.
pub(super) struct Names {
    listening: Option<IpAddr>,
    /// `None`: the server is open.
    guard: Option<Guard>,
}

/// This end of the connection that a request came on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Here(pub SocketAddr);

/// A host and the port after it, exactly as they may be written.
#[derive(Debug, Clone, Copy)]
struct HostPort<'a> {
    /// With its brackets, where it has some.
    host: &'a str,
    port: Option<u16>,
}

impl<'a> HostPort<'a> {
    /// `None`: it is written as no client writes one.
    fn parse(text: &'a str) -> Option<Self> {
        let end = match text.strip_prefix('[') {
            Some(rest) => {
                let end = rest.find(']')?;
                rest[..end].parse::<Ipv6Addr>().ok()?;
                end + 2
            }
            None => text.find(':').unwrap_or(text.len()),
        };
        let (host, port) = text.split_at(end);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if host.is_empty() || !(host.starts_with('[') || host.bytes().all(is_name)) {
            return None;
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            None | Some(_) => return None,
        };
        Some(Self { host, port })
    }

    fn is(self, other: Self, default_port: u16) -> bool {
        let port = |it: Self| it.port.unwrap_or(default_port);
        self.host.eq_ignore_ascii_case(other.host) && port(self) == port(other)
    }
}

impl Names {
    pub(super) fn new(listening: SocketAddr, guard: Option<&Guard>) -> Self {
        let ip = Some(listening.ip()).filter(|ip| !ip.is_unspecified());
        Self { listening: ip, guard: guard.cloned() }
    }

    fn has(&self, host: &str, here: Option<Here>) -> bool {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let ip = bare.parse::<IpAddr>().ok();
        // A guarded server may listen everywhere: it is then where it was reached.
        let here = here.filter(|_| self.guard.is_some()).map(|here| here.0.ip().to_canonical());
        LOOPBACK.iter().any(|name| name.eq_ignore_ascii_case(host))
            || ip.is_some_and(|ip| self.listening == Some(ip) || here == Some(ip.to_canonical()))
            || self.guard.as_ref().is_some_and(|guard| (guard.is_named)(bare))
    }

    /// The scheme of this server's own pages, and its usual port.
    const fn scheme(&self) -> (&'static str, u16) {
        if self.guard.is_some() { ("https://", 443) } else { ("http://", 80) }
    }

    fn check(&self, uri: &Uri, headers: &HeaderMap, here: Option<Here>) -> Result<(), String> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().ok_or("the request has no Host header")?;
        if hosts.next().is_some() {
            return Err("the request has several Host headers".to_owned());
        }
        let host = host.to_str().ok().and_then(HostPort::parse);
        let host = host.ok_or("the Host header is not readable")?;
        if !self.has(host.host, here) {
            return Err(format!("the Host {} is not a name of this server", host.host));
        }
        if let Some(authority) = uri.authority()
            && !HostPort::parse(authority.as_str()).is_some_and(|it| self.has(it.host, here))
        {
            return Err("the address of the request is not one of this server".to_owned());
        }
        let (scheme, port) = self.scheme();
        for origin in headers.get_all(ORIGIN) {
            let origin = origin.to_str().ok().and_then(|it| it.strip_prefix(scheme));
            if !origin.and_then(HostPort::parse).is_some_and(|it| it.is(host, port)) {
                return Err("the Origin is not this server's own".to_owned());
            }
        }
        for site in headers.get_all(SEC_FETCH_SITE) {
            if !site.to_str().is_ok_and(|site| OWN_SITES.contains(&site)) {
                return Err("Sec-Fetch-Site says that a page of another site asks".to_owned());
            }
        }
        Ok(())
    }
}

pub(super) async fn check_names(
    State(names): State<Arc<Names>>,
    request: Request,
    next: Next,
) -> Response {
    let here = request.extensions().get().copied();
    match names.check(request.uri(), request.headers(), here) {
        Ok(()) => next.run(request).await,
        Err(why) => {
            tracing::warn!(%why, "a request from elsewhere was refused");
            refuse(StatusCode::FORBIDDEN, "forbidden", why)
        }
    }
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

    fn check(host: &str, headers: &[(HeaderName, &str)]) -> bool {
        let mut all = HeaderMap::new();
        all.insert(HOST, host.parse().unwrap());
        for (name, value) in headers {
            all.append(name, value.parse().unwrap());
        }
        let names = Names::new("127.0.0.2:7421".parse().unwrap(), None);
        names.check(&"/mcp/A".parse().unwrap(), &all, None).is_ok()
    }

    #[test]
    fn only_this_machine_may_speak() {
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:7421", "[::1]:7421", "127.0.0.2"] {
            assert!(check(host, &[]), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1:7421.evil.example",
            "127.0.0.1:7421:80",
            "127.0.0.1:",
            "127.0.0.1:99999",
            "127.0.0.1:+80",
            "127.0.0.1,evil.example",
            "evil.example@127.0.0.1",
            "127.0.0.1@evil.example",
            "127.0.0.1/evil",
            "localhost evil.example",
            "[::1].evil.example",
            "[::1]7421",
            "[[::1]]",
            "[::1",
            "::1",
            "[127.0.0.1]",
            "[localhost]",
            "10.0.0.1",
        ] {
            assert!(!check(host, &[]), "{host}");
        }
    }

    #[test]
    fn no_page_but_its_own_may_speak() {
        let check = |host, origin| check(host, &[(ORIGIN, origin)]);
        for (host, origin) in [
            ("localhost:7421", "http://localhost:7421"),
            ("localhost", "http://LOCALHOST:80"),
            ("127.0.0.1:80", "http://127.0.0.1"),
            ("[::1]:7421", "http://[::1]:7421"),
        ] {
            assert!(check(host, origin), "{host} {origin}");
        }
        for origin in [
            "null",
            "",
            "http://localhost",
            "http://localhost:3000",
            "http://127.0.0.1:7421",
            "https://localhost:7421",
            "http://localhost:7421/",
            "http://localhost:7421.evil.example",
            "http://localhost:7421@evil.example",
            "http://evil.example:7421",
            "file://",
        ] {
            assert!(!check("localhost:7421", origin), "{origin}");
        }
    }

    #[test]
    fn what_a_browser_calls_another_site_is_refused_without_an_origin_too() {
        let check = |site| check("localhost:7421", &[(SEC_FETCH_SITE, site)]);
        assert!(check("none") && check("same-origin"));
        assert!(!check("cross-site") && !check("same-site") && !check("anything"));
        let own = (ORIGIN, "http://localhost:7421");
        let twice = [own.clone(), (ORIGIN, "http://localhost:3000")];
        assert!(self::check("localhost:7421", &[own]) && !self::check("localhost:7421", &twice));
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
