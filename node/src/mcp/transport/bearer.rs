//! Who may speak to a guarded server: whoever shows a token of this node's, and as the roles that
//! the token is for.
//!
//! - **G1** Nothing of a request but its Host and Origin is looked at before its token.
//! - **G2** What a token opened ends with it: requests, streams, connections, sessions.
//! - **G3** A token that is unknown, wrong or no longer good gets one and the same answer.
//! - **G4** What one token opened cannot be used with another.
//!
//! Which tokens there are says [`crate::agent_tokens`]; an open server asks for none.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, StatusCode, Uri,
    header::{AUTHORIZATION, CONNECTION, WWW_AUTHENTICATE},
    request::Parts,
};
use http_body::Frame;
use parking_lot::RwLock;
use tasuki_proto::{
    id::{RoleId, Timestamp, TokenId},
    net::auth_backoff::{AuthBackoff, Penalty},
    token::{PREFIX, SECRET_BYTES, SecretHash, Token},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::server::refuse;
use crate::{
    agent_tokens::{AgentTokens, Bearing},
    clock::{Clock, Moment},
};

/// The scheme of the header `Authorization`, in lower case.
const SCHEME: &str = "bearer";

/// Names under which clients put a token into an address, where it does not belong: addresses
/// are kept in logs.
const IN_QUERY: [&str; 2] = ["access_token", "token"];

/// Why something breaks off.
const NO_LONGER: &str = "the token is no longer valid";

/// Failures of one address that are answered at once: people mistype, clients probe.
const FREE: u32 = 4;

/// Of failures in a row each so many is worth a line in the log.
const LOG_EVERY: u32 = 100;

/// The other end of the connection that a request came on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub SocketAddr);

/// Who a request is from: its token was good when it came.
#[derive(Debug, Clone)]
pub(in crate::mcp) struct Bearer {
    pub token: TokenId,
    bearing: Bearing,
    gone: CancellationToken,
}

impl Bearer {
    /// `None`: the server is open.
    pub(in crate::mcp) fn of(parts: &Parts) -> Option<&Self> {
        parts.extensions.get()
    }

    /// The only role it is for; `None`: all of the node's.
    pub(in crate::mcp) const fn role(&self) -> Option<&RoleId> {
        match &self.bearing {
            Bearing::Node => None,
            Bearing::Role(role) => Some(role),
        }
    }

    /// Resolves when the token is no longer valid.
    pub(in crate::mcp) async fn gone(&self) {
        self.gone.cancelled().await;
    }
}

/// What only the node's user may do, and agents may not.
pub(in crate::mcp) fn only_its_user(by: Option<&Bearer>) -> Result<(), Box<Response>> {
    match by.map(|by| &by.bearing) {
        None | Some(Bearing::Node) => Ok(()),
        Some(Bearing::Role(_)) => Err(Box::new(forbidden(
            "this requires the token of the whole node, which `tasuki agent-token` prints",
        ))),
    }
}

/// What a token is not for. It says nothing of what there is.
pub(super) fn forbidden(why: &str) -> Response {
    let mut response = refuse(StatusCode::FORBIDDEN, "role_forbidden", why);
    let scope = HeaderValue::from_static("Bearer error=\"insufficient_scope\"");
    response.headers_mut().insert(WWW_AUTHENTICATE, scope);
    response
}

/// The tokens that are good now.
#[derive(Debug)]
pub(super) struct Bearers {
    live: RwLock<BTreeMap<TokenId, Live>>,
    failures: AuthBackoff,
    clock: Clock,
}

#[derive(Debug)]
struct Live {
    hash: SecretHash,
    bearing: Bearing,
    gone: CancellationToken,
}

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denied {
    NoToken,
    Twice,
    InAddress,
    /// Garbage, unknown, wrong, rotated.
    NotGood,
}

impl Bearers {
    pub(super) fn new(clock: Clock) -> Self {
        Self { live: RwLock::default(), failures: AuthBackoff::new(FREE), clock }
    }

    /// From here on `tokens` are good, and no others.
    pub(super) fn replace(&self, tokens: &AgentTokens) {
        let mut live = self.live.write();
        let mut before = std::mem::take(&mut *live);
        for (bearing, token) in tokens.iter() {
            let hash = token.secret.hash();
            let same = before.remove(&token.id).filter(|it| it.hash == hash);
            let same = same.filter(|it| it.bearing == *bearing);
            let gone = same.map_or_else(CancellationToken::new, |it| it.gone);
            live.insert(token.id.clone(), Live { hash, bearing: bearing.clone(), gone });
        }
        before.into_values().for_each(|it| it.gone.cancel());
    }

    pub(super) fn is_good(&self, token: &TokenId) -> bool {
        self.live.read().contains_key(token)
    }

    fn authenticate(&self, uri: &Uri, headers: &HeaderMap) -> Result<Bearer, Denied> {
        if is_in(uri) {
            return Err(Denied::InAddress);
        }
        let token: Token = shown(headers)?.parse().map_err(|_| Denied::NotGood)?;
        let live = self.live.read();
        let known = live.get(&token.id);
        // Compared also where nobody has that id, in the same time whatever differs.
        let nobodys = SecretHash::of(&[0; SECRET_BYTES]);
        let is_same = known.map_or(nobodys, |it| it.hash) == token.secret.hash();
        match known {
            Some(it) if is_same => {
                Ok(Bearer { token: token.id, bearing: it.bearing.clone(), gone: it.gone.clone() })
            }
            Some(_) | None => Err(Denied::NotGood),
        }
    }

    /// Counts a failure of an address. How long its answer waits, and which one it is.
    fn failed(&self, from: IpAddr) -> (Penalty, u32) {
        let since_start = self.clock.now().since(Moment::from_millis(0)).as_millis();
        let now = Timestamp::from_millis(u64::try_from(since_start).unwrap_or(u64::MAX));
        self.failures.failed(from, now)
    }

    /// What a request without a good token is told, and when.
    async fn deny(&self, denied: Denied, from: Option<Peer>) -> Response {
        if let Some(Peer(from)) = from {
            let (penalty, times) = self.failed(from.ip());
            if times % LOG_EVERY == 1 {
                let from = from.ip();
                tracing::warn!(%from, times, ?denied, "a request without a good token was refused");
            }
            // Enough answers are held back: this one ends its connection at once.
            if let Penalty::Delay(delay) = penalty {
                let _answered = Answered { failures: &self.failures, from: from.ip() };
                tokio::time::sleep(delay).await;
            }
        }
        denied.response()
    }
}

/// Given back also when the caller goes away first.
struct Answered<'a> {
    failures: &'a AuthBackoff,
    from: IpAddr,
}

impl Drop for Answered<'_> {
    fn drop(&mut self) {
        self.failures.answered(self.from);
    }
}

/// The credentials in the one header `Authorization` of a request.
pub(super) fn shown(headers: &HeaderMap) -> Result<&str, Denied> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let shown = all.next().ok_or(Denied::NoToken)?;
    if all.next().is_some() {
        return Err(Denied::Twice);
    }
    let shown = shown.to_str().map_err(|_| Denied::NotGood)?;
    match shown.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(SCHEME) => Ok(token.trim()),
        Some(_) | None => Err(Denied::NotGood),
    }
}

/// Whether an address has a token in it, or something that was meant to be one.
fn is_in(uri: &Uri) -> bool {
    let pairs = uri.query().unwrap_or_default().split('&');
    let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.any(|(name, value)| IN_QUERY.contains(&name) || value.starts_with(PREFIX))
}

impl Denied {
    fn response(self) -> Response {
        let (challenge, why) = match self {
            Self::NoToken => (
                "Bearer",
                "this node requires a token: send the header `Authorization: Bearer TOKEN` with \
                 the token that `tasuki agent-token` prints; `tasuki connect` sets it up",
            ),
            Self::Twice => {
                ("Bearer error=\"invalid_request\"", "the request has several tokens; send one")
            }
            Self::InAddress => (
                "Bearer error=\"invalid_request\"",
                "a token must not be in the address, which is logged: send the header \
                 `Authorization: Bearer TOKEN`",
            ),
            Self::NotGood => (
                "Bearer error=\"invalid_token\"",
                "invalid or revoked token; `tasuki agent-token` prints the current one, and \
                 `tasuki connect` sets it up again",
            ),
        };
        unauthenticated(challenge, why)
    }
}

/// What a request is told that is not let in.
pub(super) fn unauthenticated(challenge: &'static str, why: &str) -> Response {
    let mut response = refuse(StatusCode::UNAUTHORIZED, "unauthenticated", why);
    let headers = response.headers_mut();
    headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    // Whoever has no token holds no connection.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Lets in whoever shows a good token, for as long as it is good.
pub(super) async fn authenticated(
    State(bearers): State<Arc<Bearers>>,
    mut request: Request,
    next: Next,
) -> Response {
    let bearer = match bearers.authenticate(request.uri(), request.headers()) {
        Ok(bearer) => bearer,
        Err(denied) => {
            let from = request.extensions().get::<Peer>().copied();
            return bearers.deny(denied, from).await;
        }
    };
    let gone = bearer.gone.clone();
    request.extensions_mut().insert(bearer);
    let response = tokio::select! {
        response = next.run(request) => response,
        () = gone.cancelled() => return Denied::NotGood.response(),
    };
    until_gone(response, gone)
}

/// The response, which breaks off once `gone` is cancelled.
pub(super) fn until_gone(response: Response, gone: CancellationToken) -> Response {
    let gone = Box::pin(gone.cancelled_owned());
    response.map(|body| Body::new(UntilGone { body, gone }))
}

/// A response body that breaks off when its token is no longer good.
struct UntilGone {
    body: Body,
    gone: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl http_body::Body for UntilGone {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.gone.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(axum::Error::new(NO_LONGER))));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// A connection that breaks off when the token that opened it is no longer good, before anything
/// more is read or written.
pub(super) struct LastsAs<S> {
    io: S,
    /// The token, and who reads being told of its end; `None`: it was opened with none.
    gone: Option<(CancellationToken, Pin<Box<WaitForCancellationFutureOwned>>)>,
}

impl<S> LastsAs<S> {
    pub(super) fn long_as(by: Option<Bearer>, io: S) -> Self {
        let gone = by.map(|by| (by.gone.clone(), Box::pin(by.gone.cancelled_owned())));
        Self { io, gone }
    }
}

fn broken_off() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, NO_LONGER)
}

impl<S: AsyncRead + Unpin> AsyncRead for LastsAs<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some((_, gone)) = &mut self.gone
            && gone.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(broken_off()));
        }
        Pin::new(&mut self.io).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LastsAs<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.gone.as_ref().is_some_and(|(gone, _)| gone.is_cancelled()) {
            return Poll::Ready(Err(broken_off()));
        }
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(roles: &[&str]) -> (tempfile::TempDir, AgentTokens) {
        let data = tempfile::tempdir().unwrap();
        let roles = roles.iter().map(|role| Bearing::Role(role.parse().unwrap()));
        let tokens = AgentTokens::with(data.path(), roles.chain([Bearing::Node])).unwrap();
        (data, tokens)
    }

    fn shown(tokens: &AgentTokens, role: &str) -> String {
        tokens.get(&Bearing::Role(role.parse().unwrap())).unwrap().expose()
    }

    fn ask(bearers: &Bearers, path: &str, headers: &[&str]) -> Result<Bearer, Denied> {
        let mut all = HeaderMap::new();
        for value in headers {
            all.append(AUTHORIZATION, value.parse().unwrap());
        }
        bearers.authenticate(&path.parse().unwrap(), &all)
    }

    #[test]
    fn only_a_token_that_is_good_now_is_let_in() {
        let (data, first) = tokens(&["A", "B"]);
        let bearers = Bearers::new(Clock::default());
        let a = format!("Bearer {}", shown(&first, "A"));
        assert_eq!(ask(&bearers, "/mcp/A", &[&a]).unwrap_err(), Denied::NotGood, "none yet");
        bearers.replace(&first);
        let bearer = ask(&bearers, "/mcp/A?as=x&hold=1", &[&a]).unwrap();
        assert_eq!(bearer.role().map(RoleId::as_str), Some("A"));
        assert!(ask(&bearers, "/", &[&a.replacen("Bearer ", "bEARER  ", 1)]).is_ok());
        for (path, headers, denied) in [
            ("/", &[][..], Denied::NoToken),
            ("/", &[&a[..], &a][..], Denied::Twice),
            ("/?access_token=x", &[&a], Denied::InAddress),
            ("/?as=x&token", &[], Denied::InAddress),
            ("/?x=tasuki_1_2", &[&a], Denied::InAddress),
            ("/", &[""], Denied::NotGood),
            ("/", &["Bearer"], Denied::NotGood),
            ("/", &["Bearer "], Denied::NotGood),
            ("/", &[&a[7..]], Denied::NotGood),
            ("/", &[&format!("Basic {}", &a[7..])], Denied::NotGood),
            ("/", &[&a[..a.len() - 1]], Denied::NotGood),
            ("/", &[&format!("{a}A")], Denied::NotGood),
            ("/", &[&format!("{a} {a}")], Denied::NotGood),
        ] {
            assert_eq!(ask(&bearers, path, headers).unwrap_err(), denied, "{path} {headers:?}");
        }
        // The id of one with the secret of another.
        let b = shown(&first, "B");
        let part = |token: &str, at| token.splitn(3, '_').nth(at).unwrap().to_owned();
        let mixed = format!("{}_{}_{}", part(&a, 0), part(&a, 1), part(&b, 2));
        assert_eq!(ask(&bearers, "/", &[&mixed]).unwrap_err(), Denied::NotGood);

        let second = AgentTokens::rotate(data.path(), Bearing::Role("A".parse().unwrap()));
        let second = second.unwrap();
        let other = ask(&bearers, "/", &[&format!("Bearer {b}")]).unwrap();
        bearers.replace(&second);
        assert!(bearer.gone.is_cancelled() && !other.gone.is_cancelled());
        assert!(!bearers.is_good(&bearer.token) && bearers.is_good(&other.token));
        assert_eq!(ask(&bearers, "/", &[&a]).unwrap_err(), Denied::NotGood);
        let a = format!("Bearer {}", shown(&second, "A"));
        assert!(!ask(&bearers, "/", &[&a]).unwrap().gone.is_cancelled());
    }

    #[test]
    fn nothing_printed_shows_a_secret() {
        let (_data, tokens) = tokens(&["A"]);
        let bearers = Bearers::new(Clock::default());
        bearers.replace(&tokens);
        let a = shown(&tokens, "A");
        let bearer = ask(&bearers, "/", &[&format!("Bearer {a}")]).unwrap();
        let secret = a.splitn(3, '_').nth(2).unwrap();
        for printed in [format!("{tokens:?}"), format!("{bearers:?}"), format!("{bearer:?}")] {
            assert!(!printed.contains(secret), "{printed}");
        }
    }
}
