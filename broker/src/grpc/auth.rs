//! In front of every service: who calls, and whether this call is theirs to make.
//!
//! - **E4** Every call is in [`TABLE`], and one that is not is refused.
//! - **E5** What is refused here was not looked at: no message is decoded.
//! - **E8** Messages that are on their way in are bounded: those of a stranger in number and size,
//!   those of a token by its words.
//!
//! A token's workspace and roles are in the message, so they are checked where messages are
//! parsed: in [`Entered`](super::entered), the only way to a workspace.

use std::{
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{HeaderMap, Request, Response, header::AUTHORIZATION};
use http_body::{Frame, SizeHint};
use tasuki_proto::{echo::echo, limits::MESSAGE_BYTES_MAX, reason::Reason, token::Right};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Status, body::Body};
use tower::{Layer, Service};
use tracing::{debug, warn};

use super::entered::Admitted;
use crate::{
    access::{self, Denied, Ended, Grant, Kind, Penalty, Place, Tokens},
    access::{FAILURES_PER_CONNECTION_MAX, JOINS_PER_CONNECTION_MAX},
    server::{Joining, Peer},
};

const HEAD_BYTES: usize = 5;

/// The message of whoever joins without a token, in bytes: two hashes and a label.
const JOIN_BYTES_MAX: usize = 4 * 1024;

/// What a call takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    pub path: &'static str,
    pub takes: Takes,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Whoever reaches the broker may call it, and acts as a stranger.
    Nothing,
    /// Any good token; none where the broker asks for none.
    Entry,
    Right(Right),
    /// One of the two; which of them is asked for is in the message, so
    /// [`Entered`](super::entered) looks again.
    Either(Right, Right),
}

const fn rule(path: &'static str, takes: Takes, kind: Kind) -> Rule {
    Rule { path, takes, kind }
}

const fn right(path: &'static str, right: Right, kind: Kind) -> Rule {
    rule(path, Takes::Right(right), kind)
}

/// Every call there is, by path. What acts as a person takes `steer` beside it.
pub(crate) const TABLE: &[Rule] = &[
    rule("/grpc.health.v1.Health/Check", Takes::Entry, Kind::Call),
    rule("/grpc.health.v1.Health/Watch", Takes::Entry, Kind::Stream),
    rule("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Takes::Entry, Kind::Stream),
    // What grpcio's client calls.
    rule(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        Takes::Entry,
        Kind::Stream,
    ),
    right("/tasuki.v1.Access/Invite", Right::Admin, Kind::Call),
    right("/tasuki.v1.Access/IssueToken", Right::Admin, Kind::Call),
    rule("/tasuki.v1.Access/Join", Takes::Nothing, Kind::Call),
    right("/tasuki.v1.Access/ListInvitations", Right::Admin, Kind::Page),
    right("/tasuki.v1.Access/ListTokens", Right::Admin, Kind::Page),
    right("/tasuki.v1.Access/RevokeToken", Right::Admin, Kind::Call),
    // Of another token than the call's own it takes `admin`.
    rule("/tasuki.v1.Access/RotateToken", Takes::Entry, Kind::Call),
    rule("/tasuki.v1.Access/WhoAmI", Takes::Entry, Kind::Call),
    right("/tasuki.v1.Access/WithdrawInvitation", Right::Admin, Kind::Call),
    right("/tasuki.v1.Directory/Heartbeat", Right::Host, Kind::Call),
    right("/tasuki.v1.Directory/ListNodes", Right::Read, Kind::Page),
    right("/tasuki.v1.Directory/ListRoles", Right::Read, Kind::Page),
    right("/tasuki.v1.Directory/Register", Right::Host, Kind::Call),
    right("/tasuki.v1.Feed/Subscribe", Right::Read, Kind::Stream),
    right("/tasuki.v1.Mailbox/AwaitMail", Right::Read, Kind::Wait),
    right("/tasuki.v1.Mailbox/CloseMailbox", Right::Send, Kind::Call),
    right("/tasuki.v1.Mailbox/GetAttachment", Right::Read, Kind::Stream),
    right("/tasuki.v1.Mailbox/HandAgain", Right::Send, Kind::Call),
    right("/tasuki.v1.Mailbox/ImportThread", Right::Steer, Kind::Call),
    right("/tasuki.v1.Mailbox/ListBox", Right::Read, Kind::Page),
    right("/tasuki.v1.Mailbox/ListDeadLetters", Right::Read, Kind::Page),
    right("/tasuki.v1.Mailbox/ListMailboxes", Right::Read, Kind::Page),
    right("/tasuki.v1.Mailbox/MarkMail", Right::Send, Kind::Call),
    right("/tasuki.v1.Mailbox/Move", Right::Send, Kind::Call),
    right("/tasuki.v1.Mailbox/OpenMailbox", Right::Send, Kind::Call),
    right("/tasuki.v1.Mailbox/PutAttachment", Right::Send, Kind::Call),
    right("/tasuki.v1.Mailbox/ReadThread", Right::Read, Kind::Page),
    right("/tasuki.v1.Mailbox/SearchMail", Right::Read, Kind::Page),
    right("/tasuki.v1.Mailbox/Send", Right::Send, Kind::Call),
    right("/tasuki.v1.Privacy/GetRoster", Right::Read, Kind::Call),
    right("/tasuki.v1.Privacy/PublishKey", Right::Host, Kind::Call),
    right("/tasuki.v1.Privacy/SetRoster", Right::Steer, Kind::Call),
    right("/tasuki.v1.Swarm/AttachEvidence", Right::Review, Kind::Call),
    right("/tasuki.v1.Swarm/AwaitSwarm", Right::Read, Kind::Wait),
    right("/tasuki.v1.Swarm/CancelTask", Right::Review, Kind::Call),
    right("/tasuki.v1.Swarm/ClaimDelivery", Right::Review, Kind::Call),
    right("/tasuki.v1.Swarm/ClaimTask", Right::Claim, Kind::Call),
    right("/tasuki.v1.Swarm/CloseIssue", Right::Send, Kind::Call),
    right("/tasuki.v1.Swarm/CreateIssue", Right::Send, Kind::Call),
    right("/tasuki.v1.Swarm/CreateTasks", Right::Send, Kind::Call),
    right("/tasuki.v1.Swarm/ExtendIssue", Right::Send, Kind::Call),
    right("/tasuki.v1.Swarm/ForceUnlock", Right::Review, Kind::Call),
    right("/tasuki.v1.Swarm/GetDelivery", Right::Read, Kind::Page),
    right("/tasuki.v1.Swarm/GetHistory", Right::Read, Kind::Page),
    right("/tasuki.v1.Swarm/GetIssue", Right::Read, Kind::Page),
    right("/tasuki.v1.Swarm/GetSettings", Right::Read, Kind::Call),
    right("/tasuki.v1.Swarm/GetTask", Right::Read, Kind::Page),
    right("/tasuki.v1.Swarm/ImportIssue", Right::Steer, Kind::Call),
    right("/tasuki.v1.Swarm/ImportShared", Right::Steer, Kind::Call),
    right("/tasuki.v1.Swarm/ListDeliveries", Right::Read, Kind::Page),
    right("/tasuki.v1.Swarm/ListDocs", Right::Read, Kind::Page),
    right("/tasuki.v1.Swarm/ListIssues", Right::Read, Kind::Page),
    right("/tasuki.v1.Swarm/ListLocks", Right::Read, Kind::Page),
    right("/tasuki.v1.Swarm/ListTasks", Right::Read, Kind::Page),
    right("/tasuki.v1.Swarm/ListWorkers", Right::Read, Kind::Page),
    right("/tasuki.v1.Swarm/LockFiles", Right::Claim, Kind::Call),
    right("/tasuki.v1.Swarm/MarkItems", Right::Review, Kind::Call),
    right("/tasuki.v1.Swarm/MintNextStep", Right::Review, Kind::Call),
    right("/tasuki.v1.Swarm/PostMessage", Right::Claim, Kind::Call),
    right("/tasuki.v1.Swarm/ReadDoc", Right::Read, Kind::Page),
    right("/tasuki.v1.Swarm/RegisterWorker", Right::Claim, Kind::Call),
    right("/tasuki.v1.Swarm/RenewClaim", Right::Claim, Kind::Call),
    right("/tasuki.v1.Swarm/RenewDelivery", Right::Review, Kind::Call),
    right("/tasuki.v1.Swarm/RenewLock", Right::Claim, Kind::Call),
    right("/tasuki.v1.Swarm/ReopenIssue", Right::Send, Kind::Call),
    right("/tasuki.v1.Swarm/ReplyMessage", Right::Review, Kind::Call),
    right("/tasuki.v1.Swarm/ResetTask", Right::Review, Kind::Call),
    right("/tasuki.v1.Swarm/ReviewDelivery", Right::Review, Kind::Call),
    right("/tasuki.v1.Swarm/ReviewTask", Right::Review, Kind::Call),
    right("/tasuki.v1.Swarm/SetSettings", Right::Steer, Kind::Call),
    right("/tasuki.v1.Swarm/SubmitDelivery", Right::Send, Kind::Call),
    right("/tasuki.v1.Swarm/SubmitTask", Right::Claim, Kind::Call),
    right("/tasuki.v1.Swarm/Unlock", Right::Claim, Kind::Call),
    right("/tasuki.v1.Swarm/UpdateIssueDocPaths", Right::Send, Kind::Call),
    // With `claim` alone it is only for documents of the task that one has claimed.
    rule("/tasuki.v1.Swarm/WriteDoc", Takes::Either(Right::Send, Right::Claim), Kind::Call),
    right("/tasuki.v1.TurnLoop/AwaitTurn", Right::Read, Kind::Wait),
    right("/tasuki.v1.TurnLoop/CreateLoop", Right::Steer, Kind::Call),
    right("/tasuki.v1.TurnLoop/GetLoop", Right::Read, Kind::Call),
    right("/tasuki.v1.TurnLoop/HandOver", Right::Send, Kind::Call),
    right("/tasuki.v1.TurnLoop/History", Right::Read, Kind::Page),
    right("/tasuki.v1.TurnLoop/ListLoops", Right::Read, Kind::Page),
    right("/tasuki.v1.TurnLoop/MarkTurn", Right::Send, Kind::Call),
    right("/tasuki.v1.TurnLoop/Reclaim", Right::Claim, Kind::Call),
    right("/tasuki.v1.TurnLoop/StartRound", Right::Send, Kind::Call),
    right("/tasuki.v1.Waits/Park", Right::Read, Kind::Stream),
];

/// Whether there is such a service, by its full name.
pub(super) fn is_service(name: &str) -> bool {
    let of = |rule: &Rule| rule.path.strip_prefix('/').and_then(|it| it.split_once('/'));
    TABLE.iter().any(|rule| of(rule).is_some_and(|(service, _)| service == name))
}

fn find(path: &str) -> Option<&'static Rule> {
    TABLE.binary_search_by(|rule| rule.path.cmp(path)).ok().map(|at| &TABLE[at])
}

/// Puts [`Guarded`] in front of a service.
#[derive(Debug, Clone)]
pub struct Guard {
    tokens: Tokens,
}

impl Guard {
    pub fn new(tokens: Tokens) -> Self {
        Self { tokens }
    }
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { inner, tokens: self.tokens.clone() }
    }
}

/// A service that is reached only by calls that may be made.
#[derive(Debug, Clone)]
pub struct Guarded<S> {
    inner: S,
    tokens: Tokens,
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
        let admitted = match self.admit(&request, peer.as_ref()) {
            Ok(admitted) => admitted,
            Err(Refused::Stranger(denied)) => {
                let tokens = self.tokens.clone();
                return Box::pin(async move {
                    Ok(turn_away(&tokens, peer, Reason::Unauthenticated.status(denied.to_string()))
                        .await)
                });
            }
            Err(Refused::Known(status)) => {
                return Box::pin(std::future::ready(Ok(status.into_http())));
            }
        };
        let (rule, grant, place) = admitted;
        let known = Admitted { grant: grant.clone(), call: rule.path, bytes: 0 };
        request.extensions_mut().insert(known);
        let Grant::Token(live) = &grant else {
            return Box::pin(async move {
                let _joining = match joining(rule, &mut request, peer.as_ref()) {
                    Ok(joining) => joining,
                    Err(status) => return Ok(status.into_http()),
                };
                inner.call(request).await
            });
        };
        // A stream's messages are small, and go on.
        if rule.kind != Kind::Stream {
            let words = Arc::clone(&live.words);
            request = request.map(|body| Incoming::wrap(body, Allowed::Words(words)));
        }
        Box::pin(async move {
            let mut ended = grant.ended();
            let response = tokio::select! {
                response = inner.call(request) => response?,
                () = &mut ended => return Ok(over().into_http()),
            };
            Ok(response.map(|body| Body::new(Leased { body, ended: Some(ended), _place: place })))
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
        request: &Request<Body>,
        peer: Option<&Arc<Peer>>,
    ) -> Result<(&'static Rule, Grant, Place), Refused> {
        let rule = find(request.uri().path());
        if let Some(rule @ Rule { takes: Takes::Nothing, .. }) = rule {
            return Ok((rule, Grant::Stranger, Place::default()));
        }
        let shown = shown(request.headers()).map_err(Refused::Stranger)?;
        let grant = self.tokens.authenticate(shown).map_err(Refused::Stranger)?;
        if let (Grant::Token(live), Some(peer)) = (&grant, peer) {
            live.shown_on(peer);
        }
        let Some(rule) = rule else {
            let text = format!("there is no call {}", echo(request.uri().path()));
            return Err(Refused::Known(Status::unimplemented(text)));
        };
        let lacking = match rule.takes {
            Takes::Nothing | Takes::Entry => None,
            Takes::Right(right) => Some(right).filter(|right| !grant.has_right(*right)),
            Takes::Either(right, other) => {
                Some(right).filter(|right| !grant.has_right(*right) && !grant.has_right(other))
            }
        };
        if let Some(right) = lacking {
            return Err(match (&grant, right) {
                // Nobody administrates without a token.
                (Grant::Open | Grant::Stranger, _) => Refused::Stranger(Denied::Missing),
                (Grant::Token(_), right) => Refused::Known(lacks(right)),
            });
        }
        let place = grant.enter(rule.kind).map_err(Refused::Known)?;
        Ok((rule, grant, place))
    }
}

/// Bounds what is taken of a call that shows no token, where tokens are asked for; on an open
/// broker only joining, which there comes to nothing anyway.
fn joining(
    rule: &Rule,
    request: &mut Request<Body>,
    peer: Option<&Arc<Peer>>,
) -> Result<Option<Joining>, Status> {
    if rule.takes != Takes::Nothing {
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
fn shown(headers: &HeaderMap) -> Result<Option<&str>, Denied> {
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
        "this takes the right {right}, which your token does not have; ask whoever runs the \
         broker for one that does"
    ))
}

fn over() -> Status {
    Reason::Unauthenticated.status(
        "the token was revoked or has expired meanwhile; ask for an invitation and join again",
    )
}

/// Answers who showed no good token, the later the more often it happens (E3).
pub(super) async fn turn_away(
    tokens: &Tokens,
    peer: Option<Arc<Peer>>,
    status: Status,
) -> Response<Body> {
    let Some(peer) = peer else { return status.into_http() };
    penalise(tokens, &peer).await;
    status.into_http()
}

/// Holds back the answer to a failed authentication.
pub(super) async fn penalise(tokens: &Tokens, peer: &Arc<Peer>) {
    let address: IpAddr = peer.address.ip();
    let on_connection = peer.failed();
    let (penalty, failures) = tokens.penalties().failed(address, tokens.now());
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
        self.tokens.penalties().answered(self.address);
    }
}

/// How much may still come in of a call.
enum Allowed {
    /// So many bytes.
    Bytes(usize),
    /// As much as its token has under way besides leaves room for, in KiB.
    Words(Arc<Semaphore>),
}

/// A request of which no more is taken than is allowed (E8).
struct Incoming {
    body: Body,
    bytes: usize,
    /// What its message begins with (gRPC over HTTP/2): compressed or not, and its length.
    head: [u8; HEAD_BYTES],
    allowed: Allowed,
    /// KiB taken of the token's words, given back with this.
    words: Option<OwnedSemaphorePermit>,
}

impl Incoming {
    fn wrap(body: Body, allowed: Allowed) -> Body {
        Body::new(Self { body, bytes: 0, head: [0; HEAD_BYTES], allowed, words: None })
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
            Allowed::Words(words) => {
                let taken = self.words.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
                // What is longer is refused when it is read.
                let bytes = bytes.min(MESSAGE_BYTES_MAX);
                let more = bytes.div_ceil(1024).saturating_sub(taken);
                let more = access::take_words(words, more)?;
                match &mut self.words {
                    Some(words) => words.merge(more),
                    None => self.words = Some(more),
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
struct Leased {
    body: Body,
    /// `None` once it was said that the token ended.
    ended: Option<Ended>,
    _place: Place,
}

impl http_body::Body for Leased {
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
    fn every_call_there_is_has_one_rule() {
        let sorted = TABLE.windows(2).all(|pair| pair[0].path < pair[1].path);
        assert!(sorted, "E4: the table is searched by halves");
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
                        let rule = find(&path).unwrap_or_else(|| panic!("E4: no rule for {path}"));
                        let is_stream = matches!(rule.kind, Kind::Stream);
                        assert_eq!(method.server_streaming(), is_stream, "{path}");
                        known += 1;
                    }
                }
            }
        }
        assert_eq!(known, TABLE.len());
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
