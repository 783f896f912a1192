//! Which requests over HTTP a server on this machine answers at all: those of programs, and of no
//! page of a browser.
//!
//! A page can make a browser send requests to loopback, also under its own name (DNS rebinding),
//! and one on another port of this machine is no better than one from elsewhere. So the Host must
//! be a name of this machine or the address listened on; an Origin, where there is one, must be
//! that of this very server; and what a browser says is another site's is refused. A guarded
//! server may also be called what its certificate calls it, and the address it was reached at.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use http::{
    HeaderMap, HeaderName, Method, Request, Uri,
    header::{HOST, ORIGIN},
};

/// Names of this machine that do not leave it.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Where a browser says that a request comes from. Other ports of one host are `same-site`.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What `Sec-Fetch-Site` may say: it was no page, or one of this server's own.
const OWN_SITES: [&str; 2] = ["none", "same-origin"];

/// Lets a link on another site's page lead to one for people: a browser that asks for a whole page
/// of its own changes nothing, and shows it in no frame. For addresses of such pages alone.
pub fn follow_link<B>(request: &mut Request<B>) {
    let says = |name: &str, value: &str| request.headers().get(name).is_some_and(|it| it == value);
    if request.method() == Method::GET
        && says("sec-fetch-mode", "navigate")
        && says("sec-fetch-dest", "document")
    {
        request.headers_mut().remove(SEC_FETCH_SITE);
    }
}

/// Whether a name of the Host header is one that the server's certificate is for.
pub type IsNamed = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The names that a request may use for a server.
#[derive(Clone)]
pub struct Site {
    listening: Option<IpAddr>,
    /// `None`: the server is open.
    is_named: Option<IsNamed>,
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("listening", &self.listening).finish_non_exhaustive()
    }
}

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

impl Site {
    /// Of a server that listens at `listening`; a guarded one says what its certificate is for.
    pub fn new(listening: SocketAddr, is_named: Option<IsNamed>) -> Self {
        let listening = Some(listening.ip()).filter(|ip| !ip.is_unspecified());
        Self { listening, is_named }
    }

    fn has(&self, host: &str, here: Option<SocketAddr>) -> bool {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let ip = bare.parse::<IpAddr>().ok();
        // A guarded server may listen everywhere: it is then where it was reached.
        let here = here.filter(|_| self.is_named.is_some()).map(|here| here.ip().to_canonical());
        LOOPBACK.iter().any(|name| name.eq_ignore_ascii_case(host))
            || ip.is_some_and(|ip| self.listening == Some(ip) || here == Some(ip.to_canonical()))
            || self.is_named.as_ref().is_some_and(|is_named| is_named(bare))
    }

    /// The scheme of this server's own pages, and its usual port.
    const fn scheme(&self) -> (&'static str, u16) {
        if self.is_named.is_some() { ("https://", 443) } else { ("http://", 80) }
    }

    /// Whether a request may speak to this server; `here` is this end of its connection.
    ///
    /// # Errors
    /// Why not.
    pub fn check(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        here: Option<SocketAddr>,
    ) -> Result<(), String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, headers: &[(HeaderName, &str)]) -> bool {
        let mut all = HeaderMap::new();
        all.insert(HOST, host.parse().unwrap());
        for (name, value) in headers {
            all.append(name, value.parse().unwrap());
        }
        let site = Site::new("127.0.0.2:7421".parse().unwrap(), None);
        site.check(&"/mcp/A".parse().unwrap(), &all, None).is_ok()
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
    fn only_a_link_that_opens_a_page_of_its_own_is_followed() {
        let forgets = |method: Method, mode: &str, dest: &str| {
            let request = Request::builder()
                .method(method)
                .header(SEC_FETCH_SITE, "cross-site")
                .header("sec-fetch-mode", mode)
                .header("sec-fetch-dest", dest);
            let mut request = request.body(()).unwrap();
            follow_link(&mut request);
            !request.headers().contains_key(SEC_FETCH_SITE)
        };
        assert!(forgets(Method::GET, "navigate", "document"));
        assert!(!forgets(Method::POST, "navigate", "document"));
        assert!(!forgets(Method::GET, "navigate", "iframe"));
        assert!(!forgets(Method::GET, "cors", "empty"));
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
}
