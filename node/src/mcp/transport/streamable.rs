//! Streamable HTTP: one endpoint for all versions of MCP from 2024-11-05 to 2026-07-28.

use std::{
    io,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    extract::{OriginalUri, Request},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header::CONTENT_TYPE, request::Parts};
use http_body::Frame;
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::{StreamableHttpServerConfig, StreamableHttpService},
};
use tasuki_proto::id::TokenId;
use tokio::sync::Mutex;

use super::{
    bearer::Bearer,
    body::read_body,
    early_headers::opened,
    errors::with_body_cut,
    lines::complaint,
    server::{Life, refuse},
    service::{McpService, StreamGuard},
    session_files::Files,
    sessions::{Owners, Sessions},
    write_ack::{Watched, WriteAck},
};
use crate::mcp::notices::SubscriptionRegistry;

/// Between two comments on a silent stream, in milliseconds: below the shortest silence after
/// which a client's HTTP library gives up.
const KEEP_ALIVE_MS: u64 = 15_000;

/// The header in which a client without a session repeats its request's method.
const METHOD_HEADER: &str = "mcp-method";

/// The method of a call, which may be held.
const CALL: &str = "tools/call";

/// The method that opens a stream of what changes.
const LISTEN: &str = "subscriptions/listen";

/// The header that names a request's session.
const SESSION_HEADER: &str = "mcp-session-id";

/// The header that names the event after which a client resumes a stream.
const LAST_EVENT_HEADER: &str = "last-event-id";

/// Streamable HTTP of one address.
pub(super) struct Streamable<S: McpService> {
    /// A handler is in many states of a session's task, each as large as it is: theirs is a pointer.
    service: StreamableHttpService<Arc<S::Handler>, Sessions>,
    served: Arc<S>,
    sessions: Arc<Sessions>,
    /// `None`: sessions end with this server.
    files: Option<Files>,
    /// Held by a request that restores its session, or that may have to.
    restoring: Mutex<()>,
    life: Life,
    doors: SubscriptionRegistry,
}

impl<S: McpService> Streamable<S> {
    /// Sessions are remembered in `dir`, if there is one.
    pub(super) fn new(served: Arc<S>, life: &Life, dir: Option<PathBuf>) -> io::Result<Self> {
        let mut config = StreamableHttpServerConfig::default()
            .with_sse_keep_alive(Some(Duration::from_millis(KEEP_ALIVE_MS)))
            // An empty priming event is something that some clients cannot parse.
            .with_sse_retry(None)
            .with_cancellation_token(life.ending.clone())
            // Host and Origin were checked for every endpoint alike.
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let owners = Owners::default();
        let files = dir.clone().map(|dir| Files::open(dir, owners.clone())).transpose()?;
        if let Some(files) = files.clone() {
            config.session_store = Some(Arc::new(files));
        }
        let doors = SubscriptionRegistry::in_dir(dir.as_deref());
        let sessions = Arc::new(Sessions::new(doors.clone(), owners));
        let of_requests = Arc::clone(&served);
        let service = StreamableHttpService::new(
            move || Ok(Arc::new(of_requests.of_requests())),
            sessions.clone(),
            config,
        );
        let restoring = Mutex::default();
        Ok(Self { service, sessions, files, restoring, served, life: life.clone(), doors })
    }

    /// Sessions in memory.
    pub(super) fn sessions(&self) -> usize {
        self.sessions.count()
    }

    /// Ends the sessions begun with a token that is no longer good.
    pub(super) async fn end_sessions(&self, is_good: &impl Fn(&TokenId) -> bool) {
        self.sessions.end_those(is_good).await;
    }

    /// Ends all sessions.
    pub(super) async fn end_all_sessions(&self) {
        self.sessions.end_all().await;
    }

    /// Whether the session was begun with the token that asks about it.
    async fn is_its_own(&self, session: &str, by: Option<&Bearer>) -> bool {
        let token = by.map(|by| &by.token);
        match (self.sessions.is_of(session, token), &self.files) {
            (Some(is_of), _) => is_of,
            (None, Some(files)) => files.is_of(session, token).await,
            (None, None) => true,
        }
    }

    /// Requests of a session that is not there are served one by one, so that the first restores
    /// it and the others find it restored: a client with several open asks them all again.
    async fn serve(&self, request: Request) -> Response {
        let session = request.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok());
        let _alone = match session {
            Some(id) if !self.sessions.is_ready(id) => Some(self.restoring.lock().await),
            Some(_) | None => None,
        };
        if let Some(id) = session
            && !self.is_its_own(id, request.extensions().get()).await
        {
            return (StatusCode::NOT_FOUND, "Not Found: Session not found").into_response();
        }
        let last_event = request.headers().get(LAST_EVENT_HEADER).and_then(|id| id.to_str().ok());
        if request.method() == Method::GET
            && session.is_some_and(|id| self.sessions.is_ready(id))
            && last_event.is_some_and(|id| self.sessions.is_last(id))
        {
            // Some clients come back after every answer. An empty stream they would take for one
            // more that broke, and open another for each call that they ever made.
            return StatusCode::NO_CONTENT.into_response();
        }
        self.service.handle(request).await.map(Body::new)
    }

    pub(super) async fn handle(&self, mut request: Request) -> Response {
        request.extensions_mut().insert(self.doors.clone());
        if request.method() != Method::POST {
            return self.handle_no_post(request).await;
        }
        if self.life.stopping.is_cancelled() {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the node is stopping");
        }
        let (mut parts, body) = request.into_parts();
        detach(&mut parts);
        let body = match read_body(&parts.headers, body).await {
            Ok(body) => body,
            Err(refusal) => return *refusal,
        };
        let probe = WriteAck::new(&self.life.unwritten);
        parts.extensions.insert(probe.clone());
        // The stream on which a client without a session hears what changes.
        let listens = parts.headers.get(METHOD_HEADER).is_some_and(|method| method == LISTEN);
        let open = listens.then(|| self.served.stream(&parts)).flatten();
        // Any other response opens at once, and some need their status and headers.
        let may_resume = parts.headers.contains_key(SESSION_HEADER);
        let is_modern_call = parts.headers.get(METHOD_HEADER).is_some_and(|it| it == CALL);
        let request = Request::from_parts(parts, Body::from(body.clone()));
        let response = if is_modern_call {
            let service = self.service.clone();
            let answering = async move { service.handle(request).await.map(Body::new) };
            opened(answering, Duration::from_millis(KEEP_ALIVE_MS)).await
        } else {
            self.serve(request).await
        };
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE
            && let Err(error) = serde_json::from_slice::<ClientJsonRpcMessage>(&body)
        {
            let json = [(CONTENT_TYPE, "application/json")];
            return (StatusCode::BAD_REQUEST, json, complaint(&body, &error)).into_response();
        }
        let is_stream = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        match (is_stream, open) {
            (false, _) if !response.status().is_success() => with_body_cut(response).await,
            (false, _) => response,
            (true, None) => response.map(|body| Body::new(Watched::new(body, probe, may_resume))),
            (true, Some(open)) => response
                .map(|body| Body::new(Watched::new(body, probe, may_resume)))
                .map(|body| Body::new(Kept { body, _open: open })),
        }
    }

    /// A session's own stream, or its end.
    async fn handle_no_post(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let is_get = parts.method == Method::GET;
        let open = is_get.then(|| self.served.stream(&parts)).flatten();
        // What is resumed is the answer to a call, mostly.
        let is_own = is_get && !parts.headers.contains_key(LAST_EVENT_HEADER);
        let opening = is_own.then(|| parts.clone());
        let closing = (parts.method == Method::DELETE).then(|| parts.clone());
        let request = Request::from_parts(parts, body);
        let mut response = self.serve(request).await;
        if let Some(closing) = closing
            && response.status() == StatusCode::ACCEPTED
        {
            self.served.left(&closing);
            // The session is ended, not about to be; some clients complain otherwise.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        if response.status() != StatusCode::OK {
            return response;
        }
        let present = opening.and_then(|opening| {
            let session = opening.headers.get(SESSION_HEADER).and_then(|id| id.to_str().ok());
            let client = session.map(|id| self.sessions.client(id)).unwrap_or_default();
            self.served.connected(&opening, &client)
        });
        response.map(|body| Body::new(Kept { body, _open: Box::new((open, present)) }))
    }
}

/// Copies what a request's head has of the buffer that it was read into. That one is of 8 KiB, and
/// would stay in memory for as long as the call is held.
fn detach(parts: &mut Parts) {
    for value in parts.headers.values_mut() {
        if let Ok(mut copy) = HeaderValue::from_bytes(value.as_bytes()) {
            copy.set_sensitive(value.is_sensitive());
            *value = copy;
        }
    }
    if let Ok(copy) = parts.uri.to_string().parse() {
        parts.uri = copy;
    }
    // The router keeps another.
    parts.extensions.remove::<OriginalUri>();
}

/// A response body, and what is open as long as it is.
struct Kept {
    body: Body,
    _open: StreamGuard,
}

impl http_body::Body for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
