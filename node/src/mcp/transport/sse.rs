//! The older HTTP+SSE transport: a stream for what the server says, and an address to post to.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{Path, Query, Request, State},
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{Stream, stream};
use http::{StatusCode, request::Parts};
use parking_lot::Mutex;
use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ErrorData, GetExtensions as _, JsonRpcMessage},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tasuki_proto::{id::TokenId, limits::ROLES_MAX};
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use super::{
    bearer::Bearer,
    body::read_body,
    errors::with_error_cut,
    server::{Server, refuse},
    service::{ConnectionGuard, McpService, converse},
    write_ack::{NotTaken, Probes, Sent},
};
use crate::role::player::Ended;

/// Streams open at once: two of each role, while one takes the place of another.
const SESSIONS_MAX: usize = 2 * ROLES_MAX;

/// Messages on their way, per stream and direction.
const CHANNEL_CAPACITY: usize = 256;

/// Between two comments on a silent stream, in milliseconds.
const KEEP_ALIVE_MS: u64 = 15_000;

/// Where to put what a client posts, by the stream's id.
#[derive(Debug, Default)]
pub(in crate::mcp) struct Sessions(Mutex<BTreeMap<String, Session>>);

impl Sessions {
    pub(in crate::mcp) fn count(&self) -> usize {
        self.0.lock().len()
    }
}

#[derive(Debug, Clone)]
struct Session {
    /// That which opened it.
    token: Option<TokenId>,
    incoming: mpsc::Sender<RxJsonRpcMessage<RoleServer>>,
    outgoing: mpsc::Sender<Outgoing>,
    probes: Arc<Probes>,
}

#[derive(Debug)]
struct Outgoing {
    json: String,
    sent: Option<Sent>,
}

impl Outgoing {
    fn new(message: &TxJsonRpcMessage<RoleServer>, sent: Option<Sent>) -> Option<Self> {
        let json = serde_json::to_string(message)
            .inspect_err(|error| tracing::error!(%error, "an answer cannot be written"));
        Some(Self { json: json.ok()?, sent })
    }
}

pub(super) async fn open_of_all<S: McpService>(
    State(server): State<Arc<Server<S>>>,
    request: Request,
) -> Response {
    reach(server, None, request)
}

pub(super) async fn open_of_role<S: McpService>(
    State(server): State<Arc<Server<S>>>,
    Path(role): Path<String>,
    request: Request,
) -> Response {
    reach(server, Some(&role), request)
}

fn reach<S: McpService>(server: Arc<Server<S>>, role: Option<&str>, request: Request) -> Response {
    match server.served_at(role, request.extensions().get()) {
        Ok(served) => open(server, &*served, request),
        Err(refusal) => *refusal,
    }
}

fn open<S: McpService>(server: Arc<Server<S>>, served: &S, request: Request) -> Response {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let token = request.extensions().get::<Bearer>().map(|by| by.token.clone());
    let (incoming, received) = mpsc::channel(CHANNEL_CAPACITY);
    let (outgoing, to_send) = mpsc::channel(CHANNEL_CAPACITY);
    let probes = Arc::new(Probes::new(server.life.unwritten.clone()));
    {
        let (outgoing, probes) = (outgoing.clone(), Arc::clone(&probes));
        let session = Session { token, incoming, outgoing, probes };
        let mut sessions = server.sse.0.lock();
        if SESSIONS_MAX <= sessions.len() {
            return refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "overloaded",
                format!("{SESSIONS_MAX} streams are open"),
            );
        }
        sessions.insert(id.clone(), session);
    }
    let (mut parts, _) = request.into_parts();
    let gone = server.life.ending.child_token();
    parts.extensions.insert(ConnectionGuard { what: Ended::Stream, gone: gone.clone() });
    let handler = served.of_connection(&parts);
    let connection = Connection { received, outgoing, probes };
    let held = gone.clone().drop_guard();
    let endpoint = Event::default().event("endpoint").data(format!("/message?sessionId={id}"));
    server.life.tasks.clone().spawn(async move {
        converse(handler, connection, gone).await;
        server.sse.0.lock().remove(&id);
    });
    Sse::new(events(endpoint, to_send, held))
        .keep_alive(KeepAlive::new().interval(Duration::from_millis(KEEP_ALIVE_MS)))
        .into_response()
}

/// A message counts as written when the connection asks for the one after it.
fn events(
    endpoint: Event,
    to_send: mpsc::Receiver<Outgoing>,
    held: DropGuard,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let state = (Some(endpoint), to_send, None::<Sent>, held);
    stream::unfold(state, |(endpoint, mut to_send, taken, held)| async move {
        if let Some(sent) = taken {
            sent.written();
        }
        if let Some(endpoint) = endpoint {
            return Some((Ok(endpoint), (None, to_send, None, held)));
        }
        let Outgoing { json, sent } = to_send.recv().await?;
        let event = Event::default().event("message").data(json);
        Some((Ok(event), (None, to_send, sent, held)))
    })
}

#[derive(Debug, serde::Deserialize)]
pub(super) struct Address {
    #[serde(rename = "sessionId")]
    session_id: String,
}

pub(super) async fn message<S: McpService>(
    State(server): State<Arc<Server<S>>>,
    Query(address): Query<Address>,
    request: Request,
) -> Response {
    let session = {
        let sessions = server.sse.0.lock();
        let token = request.extensions().get::<Bearer>().map(|by| &by.token);
        sessions.get(&address.session_id).filter(|it| it.token.as_ref() == token).cloned()
    };
    let Some(session) = session else {
        return refuse(
            StatusCode::NOT_FOUND,
            "not_found",
            "no stream of this sessionId is open; open one with GET /sse",
        );
    };
    if server.life.stopping.is_cancelled() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the node is stopping");
    }
    let (parts, body) = request.into_parts();
    let body = match read_body(&parts.headers, body).await {
        Ok(body) => body,
        Err(refusal) => return *refusal,
    };
    match serde_json::from_slice(&body) {
        Ok(message) => session.take(message, parts),
        Err(error) => refuse(
            StatusCode::BAD_REQUEST,
            "bad_request",
            format!("the body is not a JSON-RPC message: {error}"),
        ),
    }
}

impl Session {
    fn take(&self, mut message: ClientJsonRpcMessage, parts: Parts) -> Response {
        if let JsonRpcMessage::Request(request) = &mut message {
            request.request.extensions_mut().insert(parts);
        }
        let overloaded = || {
            refuse(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "too many messages are waiting")
        };
        // Before anything is noted of a message that cannot be taken.
        let place = match self.incoming.try_reserve() {
            Ok(place) => place,
            Err(mpsc::error::TrySendError::Full(())) => return overloaded(),
            Err(mpsc::error::TrySendError::Closed(())) => {
                return refuse(StatusCode::NOT_FOUND, "not_found", "the stream has ended");
            }
        };
        match self.probes.received(&mut message) {
            Ok(()) => {
                place.send(message);
                accepted()
            }
            Err(NotTaken::Repeated) => accepted(),
            Err(NotTaken::TooMany(id)) => {
                let error =
                    ErrorData::internal_error("too many requests are not answered yet", None);
                let refusal = Outgoing::new(&JsonRpcMessage::error(error, Some(id)), None);
                let told = refusal.is_some_and(|refusal| self.outgoing.try_send(refusal).is_ok());
                if told { accepted() } else { overloaded() }
            }
        }
    }
}

fn accepted() -> Response {
    (StatusCode::ACCEPTED, "Accepted").into_response()
}

/// The server's side of one stream.
struct Connection {
    received: mpsc::Receiver<RxJsonRpcMessage<RoleServer>>,
    outgoing: mpsc::Sender<Outgoing>,
    probes: Arc<Probes>,
}

#[derive(Debug, thiserror::Error)]
#[error("the stream has ended")]
struct Closed;

impl Transport<RoleServer> for Connection {
    type Error = Closed;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Closed>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        let sent = self.probes.answered(&message);
        async move {
            let Some(sent) = sent else { return Ok(()) };
            let message = Outgoing::new(&with_error_cut(message), Some(sent)).ok_or(Closed)?;
            outgoing.send(message).await.map_err(|_| Closed)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.received.recv().await
    }

    async fn close(&mut self) -> Result<(), Closed> {
        self.received.close();
        Ok(())
    }
}
