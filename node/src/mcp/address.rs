//! What an agent's address or its headers say about it.
//!
//! `http://HOST:PORT/mcp/ROLE?as=ID&hold=SECONDS`; the headers `Tasuki-As` and `Tasuki-Hold` say
//! the same, and win. What cannot be read is refused before anything looks at the request.

use std::time::Duration;

use axum::{extract::Request, middleware::Next, response::Response};
use http::{StatusCode, request::Parts};
use tasuki_proto::id::{InstanceId, InvalidId, TokenId};

use super::transport::{bearer::Bearer, server::refuse};
use crate::role::player::Instance;

/// How the names of the headers begin.
const HEADERS: &str = "tasuki-";

/// What one request says, or the one that opened its connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Address {
    pub hold: Option<Duration>,
    pub instance: Option<InstanceId>,
    /// The token it was let in with, where one is asked for.
    pub token: Option<TokenId>,
}

impl Address {
    pub(super) fn read(parts: &Parts) -> Result<Self, String> {
        Ok(Self {
            hold: said(parts, "hold", seconds)?,
            instance: said(parts, "as", id)?,
            token: Bearer::of(parts).map(|by| by.token.clone()),
        })
    }

    /// The same of a request that was let in: [`readable`] has seen it.
    pub(super) fn of(parts: &Parts) -> Self {
        Self::read(parts).unwrap_or_default()
    }

    /// With what `other` says where this says nothing.
    pub(super) fn or(self, other: &Self) -> Self {
        Self {
            hold: self.hold.or(other.hold),
            instance: self.instance.or_else(|| other.instance.clone()),
            token: self.token.or_else(|| other.token.clone()),
        }
    }

    /// Which agent it is.
    pub(super) fn who(&self) -> Instance {
        Instance::new(self.instance.clone(), self.token.clone())
    }
}

/// Refuses a request whose address or headers say something unreadable.
pub(super) async fn readable(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match Address::read(&parts) {
        Ok(_) => next.run(Request::from_parts(parts, body)).await,
        Err(why) => refuse(StatusCode::BAD_REQUEST, "bad_request", why),
    }
}

/// What the header `tasuki-NAME` says, else the address; both must be readable.
fn said<T: PartialEq>(
    parts: &Parts,
    name: &str,
    parse: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let pairs = parts.uri.query().unwrap_or_default().split('&');
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut in_query = pairs.filter(|(it, _)| *it == name).map(|(_, text)| parse(text));
    let in_query =
        only(&mut in_query).map_err(|why| format!("`{name}` in the address is {why}"))?;
    let header = format!("{HEADERS}{name}");
    let in_header = parts.headers.get_all(&header).iter();
    let mut in_header = in_header.map(|it| parse(it.to_str().unwrap_or("(no text)")));
    let in_header = only(&mut in_header).map_err(|why| format!("the header {header} is {why}"))?;
    Ok(in_header.or(in_query))
}

/// What is said once. Of two that differ nobody knows which was meant.
fn only<T: PartialEq>(
    all: &mut dyn Iterator<Item = Result<T, String>>,
) -> Result<Option<T>, String> {
    let Some(first) = all.next().transpose()? else { return Ok(None) };
    for other in all {
        if other? != first {
            return Err("there more than once, each time with another value".to_owned());
        }
    }
    Ok(Some(first))
}

/// A whole number; more than can be held is cut later.
fn seconds(text: &str) -> Result<Duration, String> {
    let digits = text.trim();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text:?}; it takes a whole number of seconds"));
    }
    Ok(Duration::from_secs(digits.parse().unwrap_or(u64::MAX)))
}

fn id(text: &str) -> Result<InstanceId, String> {
    text.trim().parse().map_err(|why: InvalidId| format!("{text:?}, which {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(address: &str, headers: &[(&'static str, &str)]) -> Result<Address, String> {
        let mut request = http::Request::new(());
        *request.uri_mut() = address.parse().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        Address::read(&request.into_parts().0)
    }

    #[test]
    fn an_address_may_say_how_long_and_who() {
        let check = |address, headers: &[_], hold: Option<u64>, who: Option<&str>| {
            let hold = hold.map(Duration::from_secs);
            let instance = who.map(|who| who.parse().unwrap());
            assert_eq!(
                read(address, headers),
                Ok(Address { hold, instance, token: None }),
                "{address}"
            );
        };
        check("/mcp/A", &[], None, None);
        check("/mcp/A?a=1&hold=30&as=codex-1", &[], Some(30), Some("codex-1"));
        check("/mcp/A?hold=99999999999999999999", &[], Some(u64::MAX), None);
        check("/mcp/A?holder=x&ass=y", &[], None, None);
        check("/mcp/A", &[("tasuki-hold", "7"), ("tasuki-as", " x ")], Some(7), Some("x"));
        check("/mcp/A?hold=5&as=y", &[("tasuki-as", "x")], Some(5), Some("x"));
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_place() {
        for garbage in ["hold=soon", "hold=-1", "hold=", "hold", "hold=1.5", "hold=%31"] {
            let why = read(&format!("/mcp/A?{garbage}"), &[]).unwrap_err();
            assert!(why.starts_with("`hold` in the address is "), "{why}");
        }
        for garbage in ["as=", "as", "as=-x", "as=a%20b", "as=a/b"] {
            let why = read(&format!("/mcp/A?{garbage}"), &[]).unwrap_err();
            assert!(why.starts_with("`as` in the address is "), "{why}");
        }
        let why = read("/mcp/A?as=x", &[("tasuki-as", "a b")]).unwrap_err();
        assert!(why.starts_with("the header tasuki-as is \"a b\", which contains ' '"), "{why}");
        for twice in ["as=x&as=y", "as=x&hold=1&as=", "hold=1&hold=2", "hold=1&hold=soon"] {
            read(&format!("/mcp/A?{twice}"), &[]).unwrap_err();
        }
        let why = read("/mcp/A?as=x&as=y", &[]).unwrap_err();
        assert_eq!(
            why,
            "`as` in the address is there more than once, each time with another value"
        );
        read("/mcp/A?as=x&as=x&hold=5&hold=05", &[]).unwrap();
        let long = "x".repeat(65);
        assert!(read(&format!("/mcp/A?as={long}"), &[]).unwrap_err().contains("65 bytes"));
    }
}
