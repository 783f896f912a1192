//! Who may speak to this server at all: programs on this machine, and no page of a browser that
//! came from elsewhere.
//!
//! A page can make a browser send requests to loopback, also under its own name (DNS
//! rebinding). So the Host must be a name of this machine or the address listened on, and an
//! Origin, where there is one, must be a page served from this machine. A guarded server may
//! also be called what its certificate calls it, and the address it was reached at.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{
    HeaderMap, StatusCode, Uri,
    header::{HOST, ORIGIN},
    uri::Authority,
};

use super::{guarded::Guard, server::refuse};

/// Names of this machine that do not leave it.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The names that a request may use for this server.
pub(super) struct Names {
    listening: Option<IpAddr>,
    /// `None`: the server is open.
    guard: Option<Guard>,
}

/// This end of the connection that a request came on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Here(pub SocketAddr);

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

    fn check(&self, uri: &Uri, headers: &HeaderMap, here: Option<Here>) -> Result<(), String> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().ok_or("the request has no Host header")?;
        if hosts.next().is_some() {
            return Err("the request has several Host headers".to_owned());
        }
        let host: Authority = host
            .to_str()
            .ok()
            .and_then(|host| host.parse().ok())
            .ok_or("the Host header is not readable")?;
        if !self.has(host.host(), here) {
            return Err(format!("the Host {host} is not a name of this server"));
        }
        if let Some(authority) = uri.authority()
            && !self.has(authority.host(), here)
        {
            return Err(format!("the address {authority} is not a name of this server"));
        }
        for origin in headers.get_all(ORIGIN) {
            if !origin.to_str().is_ok_and(is_local_page) {
                return Err(format!("the Origin {origin:?} is not allowed"));
            }
        }
        Ok(())
    }
}

fn is_local_page(origin: &str) -> bool {
    let Some(authority) = origin.strip_prefix("http://") else { return false };
    authority.parse::<Authority>().is_ok_and(|authority| {
        !authority.as_str().contains('@') && LOOPBACK.contains(&authority.host())
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        let names = Names::new("127.0.0.2:7421".parse().unwrap(), None);
        names.check(&"/mcp/A".parse().unwrap(), &headers, None).is_ok()
    }

    #[test]
    fn only_this_machine_may_speak() {
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:7421", "[::1]:7421", "127.0.0.2"] {
            assert!(check(host, None), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1"]
        {
            assert!(!check(host, None), "{host}");
        }
    }

    #[test]
    fn only_pages_of_this_machine_may_speak() {
        for origin in ["http://localhost", "http://127.0.0.1:3000", "http://[::1]:80"] {
            assert!(check("localhost", Some(origin)), "{origin}");
        }
        for origin in [
            "null",
            "https://evil.example",
            "http://localhost.evil.example",
            "http://localhost@evil.example",
            "http://evil.example:80",
            "file://",
        ] {
            assert!(!check("localhost", Some(origin)), "{origin}");
        }
    }
}
