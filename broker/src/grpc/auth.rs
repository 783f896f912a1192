//! In front of every service: who calls, and whether this call is theirs to make.
//!
//! - **E4** Every call is in [`CALLS`] or [`STANDARD`], and one that is not is refused.
//! - **E5** What is refused here was not looked at: no message is decoded.
//! - **E8** Messages that are on their way in are bounded: those of a stranger in number and size,
//!   those of a token in bytes, all together.
//!
//! A token's workspace and roles are in the message, so they are checked where messages are
//! parsed: in [`WorkspaceSession`](super::session), the only way to a workspace.

use std::{
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{HeaderMap, Request, Response, header::AUTHORIZATION};
use http_body::{Frame, SizeHint};
use tasuki_proto::{
    echo::echo,
    limits::MESSAGE_BYTES_MAX,
    net::auth_backoff::{FAILURES_PER_CONNECTION_MAX, Penalty},
    reason::Reason,
    rpc::{Access, CALLS, Call, CallKind},
    token::Right,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Status, body::Body};
use tower::{Layer, Service};
use tracing::{Instrument as _, debug, warn};

use super::{observe::ObservedCall, session::Admitted};
use crate::{
    access::{self, CallSlot, Denied, Ended, Grant, Tokens},
    connection::{Joining, Peer, limits::JOINS_PER_CONNECTION_MAX},
    metrics::CallMetrics,
};

const HEAD_BYTES: usize = 5;

/// The message of whoever joins without a token, in bytes: two hashes and a label.
const JOIN_BYTES_MAX: usize = 4 * 1024;

/// Calls of services that gRPC defines, ordered by path.
const STANDARD: &[Call] = &[
    standard("/grpc.health.v1.Health/Check", CallKind::Query),
    standard("/grpc.health.v1.Health/Watch", CallKind::Stream),
    standard("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", CallKind::Stream),
    // What grpcio's client calls.
    standard("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", CallKind::Stream),
];

const fn standard(path: &'static str, kind: CallKind) -> Call {
    Call { path, access: Access::AnyToken, kind, noun: "server", has_key: false }
}

/// Whether there is such a service, by its full name.
pub(super) fn is_service(name: &str) -> bool {
    let of = |call: &Call| call.path.strip_prefix('/').and_then(|it| it.split_once('/'));
    let mut all = STANDARD.iter().chain(CALLS);
    all.any(|call| of(call).is_some_and(|(service, _)| service == name))
}

fn find(path: &str) -> Option<&'static Call> {
    let within = |calls: &'static [Call]| {
        let at = calls.binary_search_by(|call| call.path.cmp(path)).ok()?;
        calls.get(at)
    };
    within(CALLS).or_else(|| within(STANDARD))
}

/// What counts the calls that there are.
pub(crate) fn call_metrics() -> Arc<CallMetrics> {
    CallMetrics::new(CALLS.iter().chain(STANDARD))
}

/// Puts [`Guarded`] in front of a service.
#[derive(Debug, Clone)]
pub struct Guard {
    tokens: Tokens,
    metrics: Arc<CallMetrics>,
}

impl Guard {
    pub(crate) fn new(tokens: Tokens, metrics: Arc<CallMetrics>) -> Self {
        Self { tokens, metrics }
    }
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { inner, tokens: self.tokens.clone(), metrics: self.metrics.clone() }
    }
}

/// A service that is reached only by calls that may be made.
#[derive(Debug, Clone)]
pub struct Guarded<S> {
    inner: S,
    tokens: Tokens,
    metrics: Arc<CallMetrics>,
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // The clone may not be ready; the one that was asked is.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        let peer = request.extensions().get::<Arc<Peer>>().cloned();
        let call = find(request.uri().path());
        let observed = ObservedCall::begin(&self.metrics, call, request.headers());
        let admitted = match self.admit(call, &request, peer.as_ref()) {
            Ok(admitted) => admitted,
            Err(Refused::Stranger(denied)) => {
                let (tokens, status) =
                    (self.tokens.clone(), Reason::Unauthenticated.status(denied.to_string()));
                // The answer may be held back, which is no work.
                observed.ended(Some(&status));
                return Box::pin(
                    async move { Ok(reject_unauthenticated(&tokens, peer, status).await) },
                );
            }
            Err(Refused::Known(status)) => {
                observed.ended(Some(&status));
                return Box::pin(std::future::ready(Ok(status.into_http())));
            }
        };
        let (call, grant, slot) = admitted;
        let span = observed.span();
        let known = Admitted { grant: grant.clone(), peer: peer.clone(), bytes: 0 };
        request.extensions_mut().insert(known);
        let Grant::Token(live) = &grant else {
            return Box::pin(async move {
                let _joining = match joining(call, &mut request, peer.as_ref()) {
                    Ok(joining) => joining,
                    Err(status) => return Ok(observed.answered(status.into_http())),
                };
                Ok(observed.answered(inner.call(request).instrument(span).await?))
            });
        };
        // A stream's messages are small, and go on.
        if call.kind != CallKind::Stream {
            let in_flight_kib = Arc::clone(&live.in_flight_kib);
            request = request.map(|body| Incoming::wrap(body, Allowed::InFlight(in_flight_kib)));
        }
        Box::pin(async move {
            let mut ended = grant.ended();
            let response = tokio::select! {
                response = inner.call(request).instrument(span) => response?,
                () = &mut ended => return Ok(observed.answered(over().into_http())),
            };
            Ok(observed
                .answered(response)
                .map(|body| Body::new(RevocableBody { body, ended: Some(ended), _slot: slot })))
        })
    }
}

enum Refused {
    Stranger(Denied),
    Known(Status),
}

impl<S> Guarded<S> {
    fn admit(
        &self,
        call: Option<&'static Call>,
        request: &Request<Body>,
        peer: Option<&Arc<Peer>>,
    ) -> Result<(&'static Call, Grant, CallSlot), Refused> {
        if let Some(call @ Call { access: Access::Public, .. }) = call {
            return Ok((call, Grant::Stranger, CallSlot::default()));
        }
        let shown = shown(request.headers()).map_err(Refused::Stranger)?;
        let grant = self.tokens.authenticate(shown).map_err(Refused::Stranger)?;
        if let Some(peer) = peer {
            grant.shown_on(peer);
        }
        let Some(call) = call else {
            let text = format!("there is no call {}", echo(request.uri().path()));
            return Err(Refused::Known(Status::unimplemented(text)));
        };
        let lacking = match call.access {
            Access::Public | Access::AnyToken => None,
            Access::Rights(rights) => {
                let has_one = rights.iter().any(|right| grant.has_right(*right));
                rights.first().copied().filter(|_| !has_one)
            }
        };
        if let Some(right) = lacking {
            return Err(match (&grant, right) {
                // Nobody administrates without a token.
                (Grant::Open | Grant::Stranger, _) => Refused::Stranger(Denied::Missing),
                (Grant::Token(_), right) => Refused::Known(lacks(right)),
            });
        }
        let slot = grant.enter(call.kind).map_err(Refused::Known)?;
        Ok((call, grant, slot))
    }
}

/// Bounds what is taken of a call that shows no token, where tokens are asked for; on an open
/// broker only joining, which there comes to nothing anyway.
fn joining(
    call: &Call,
    request: &mut Request<Body>,
    peer: Option<&Arc<Peer>>,
) -> Result<Option<Joining>, Status> {
    if call.access != Access::Public {
        return Ok(None);
    }
    let body = std::mem::take(request.body_mut());
    *request.body_mut() = Incoming::wrap(body, Allowed::Bytes(JOIN_BYTES_MAX));
    let Some(peer) = peer else { return Ok(None) };
    peer.join().map(Some).ok_or_else(|| {
        Reason::Overloaded.status(format!(
            "{JOINS_PER_CONNECTION_MAX} calls without a token are under way on this connection \
             already; try again shortly"
        ))
    })
}

/// The token that a call shows, if it shows one.
pub(crate) fn shown(headers: &HeaderMap) -> Result<Option<&str>, Denied> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = all.next() else { return Ok(None) };
    if all.next().is_some() {
        return Err(Denied::Unknown);
    }
    let value = value.to_str().map_err(|_| Denied::Unknown)?;
    let (scheme, token) = value.split_once(' ').ok_or(Denied::Unknown)?;
    if scheme.eq_ignore_ascii_case("bearer") {
        Ok(Some(token.trim()))
    } else {
        Err(Denied::Unknown)
    }
}

/// The refusal of what takes a right that a token lacks.
pub(super) fn lacks(right: Right) -> Status {
    Reason::RightForbidden.status(format!(
        "permission denied: requires the `{right}` right, which your token does not have; ask \
         whoever runs the broker for a token with it"
    ))
}

fn over() -> Status {
    Reason::Unauthenticated.status(
        "the token was revoked or has expired meanwhile; ask for an invitation and join again",
    )
}

/// Answers who showed no good token, the later the more often it happens (E3).
pub(super) async fn reject_unauthenticated(
    tokens: &Tokens,
    peer: Option<Arc<Peer>>,
    status: Status,
) -> Response<Body> {
    let Some(peer) = peer else { return status.into_http() };
    penalise(tokens, &peer).await;
    status.into_http()
}

/// Holds back the answer to a failed authentication.
pub(crate) async fn penalise(tokens: &Tokens, peer: &Arc<Peer>) {
    let address: IpAddr = peer.address.ip();
    let on_connection = peer.failed();
    let (penalty, failures) = tokens.backoff().failed(address, tokens.now());
    if failures.is_power_of_two() {
        warn!(%address, failures, "calls without a good token");
    } else {
        debug!(%address, failures, "a call without a good token");
    }
    match penalty {
        Penalty::Delay(delay) => {
            let held_back = HeldBack { tokens, address };
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = peer.is_cut().cancelled() => {}
            }
            drop(held_back);
            if FAILURES_PER_CONNECTION_MAX <= on_connection {
                peer.cut_soon();
            }
        }
        Penalty::Cut => peer.cut(),
    }
}

/// Given back also when the caller goes away first.
struct HeldBack<'a> {
    tokens: &'a Tokens,
    address: IpAddr,
}

impl Drop for HeldBack<'_> {
    fn drop(&mut self) {
        self.tokens.backoff().answered(self.address);
    }
}

/// How much may still come in of a call.
enum Allowed {
    /// So many bytes.
    Bytes(usize),
    /// As much as its token has in flight besides leaves room for, in KiB.
    InFlight(Arc<Semaphore>),
}

/// A request of which no more is taken than is allowed (E8).
struct Incoming {
    body: Body,
    bytes: usize,
    /// What its message begins with (gRPC over HTTP/2): compressed or not, and its length.
    head: [u8; HEAD_BYTES],
    allowed: Allowed,
    /// KiB of what its token may have in flight, given back with this.
    reserved: Option<OwnedSemaphorePermit>,
}

impl Incoming {
    fn wrap(body: Body, allowed: Allowed) -> Body {
        Body::new(Self { body, bytes: 0, head: [0; HEAD_BYTES], allowed, reserved: None })
    }

    /// The announced length counts at once, because memory is set aside for it at once.
    fn take(&mut self, data: &[u8]) -> Result<(), Status> {
        let missing = HEAD_BYTES.saturating_sub(self.bytes).min(data.len());
        self.head[HEAD_BYTES.min(self.bytes)..][..missing].copy_from_slice(&data[..missing]);
        self.bytes = self.bytes.saturating_add(data.len());
        let [_, length @ ..] = self.head;
        let announced = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        let bytes = if self.bytes < HEAD_BYTES { 0 } else { announced }.max(self.bytes);
        match &self.allowed {
            Allowed::Bytes(most) if bytes <= *most => Ok(()),
            Allowed::Bytes(most) => {
                Err(Status::out_of_range(format!("the message has more than {most} bytes")))
            }
            Allowed::InFlight(in_flight_kib) => {
                let taken = self.reserved.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
                // What is longer is refused when it is read.
                let bytes = bytes.min(MESSAGE_BYTES_MAX);
                let more = bytes.div_ceil(1024).saturating_sub(taken);
                let more = access::reserve_kib(in_flight_kib, more)?;
                match &mut self.reserved {
                    Some(reserved) => reserved.merge(more),
                    None => self.reserved = Some(more),
                }
                Ok(())
            }
        }
    }
}

impl http_body::Body for Incoming {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(status) = this.take(data)
        {
            return Poll::Ready(Some(Err(status)));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response that ends with its token.
struct RevocableBody {
    body: Body,
    /// `None` once it was said that the token ended.
    ended: Option<Ended>,
    _slot: CallSlot,
}

impl http_body::Body for RevocableBody {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let this = &mut *self;
        let Some(ended) = &mut this.ended else { return Poll::Ready(None) };
        if ended.as_mut().poll(cx).is_ready() {
            this.ended = None;
            let mut trailers = HeaderMap::new();
            return Poll::Ready(match over().add_header(&mut trailers) {
                Ok(()) => Some(Ok(Frame::trailers(trailers))),
                Err(status) => Some(Err(status)),
            });
        }
        Pin::new(&mut this.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.ended.is_none() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // It may end before its time.
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use prost_types::FileDescriptorSet;
    use tasuki_proto::DESCRIPTORS;

    use super::*;

    #[test]
    fn every_call_states_what_it_takes() {
        assert!(STANDARD.is_sorted_by(|one, other| one.path < other.path), "searched by halves");
        let mut known = 0;
        for bytes in [
            DESCRIPTORS,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ] {
            let files = FileDescriptorSet::decode(bytes).unwrap().file;
            for file in files {
                for service in &file.service {
                    for method in &service.method {
                        let path =
                            format!("/{}.{}/{}", file.package(), service.name(), method.name());
                        let call =
                            find(&path).unwrap_or_else(|| panic!("E4: no options for {path}"));
                        let is_stream = call.kind == CallKind::Stream;
                        assert_eq!(method.server_streaming(), is_stream, "{path}");
                        known += 1;
                    }
                }
            }
        }
        assert_eq!(known, CALLS.len() + STANDARD.len());
    }

    #[test]
    fn a_token_is_shown_in_one_way() {
        let shows = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            shown(&headers).map(|it| it.map(str::to_owned))
        };
        assert_eq!(shows(&[]), Ok(None));
        assert_eq!(shows(&["Bearer x"]), Ok(Some("x".to_owned())));
        assert_eq!(shows(&["bearer  x "]), Ok(Some("x".to_owned())));
        for bad in [&["x"][..], &["Basic x"], &["Bearer x", "Bearer x"], &["Bearer"]] {
            assert_eq!(shows(bad), Err(Denied::Unknown), "{bad:?}");
        }
    }
}
