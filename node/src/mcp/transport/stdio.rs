//! Connections of `tasuki mcp`: an HTTP upgrade, then JSON-RPC line by line.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    body::Body,
    extract::{Path, Request, State},
    response::Response,
};
use http::{
    HeaderValue, StatusCode,
    header::{CONNECTION, UPGRADE as UPGRADE_HEADER},
};
use hyper_util::rt::TokioIo;
use tokio::io::BufReader;

use super::{
    bearer::{Bearer, LastsAs},
    lines::Connection,
    server::{Server, refuse},
    service::{ConnectionGuard, McpService, converse},
};
use crate::role::player::Ended;

/// The protocol that `Upgrade` names.
pub const UPGRADE: &str = "tasuki-stdio";

/// Connections open at once.
const LINES_MAX: usize = 512;

/// How many are open.
#[derive(Debug, Default)]
pub(in crate::mcp) struct Lines(AtomicUsize);

impl Lines {
    pub(in crate::mcp) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

pub(in crate::mcp) async fn open_of_all<S: McpService>(
    State(server): State<Arc<Server<S>>>,
    request: Request,
) -> Response {
    reach(server, None, request)
}

pub(in crate::mcp) async fn open_of_role<S: McpService>(
    State(server): State<Arc<Server<S>>>,
    Path(role): Path<String>,
    request: Request,
) -> Response {
    reach(server, Some(&role), request)
}

fn reach<S: McpService>(server: Arc<Server<S>>, role: Option<&str>, request: Request) -> Response {
    match server.served_at(role, request.extensions().get()) {
        Ok(served) => open(server, served, request),
        Err(refusal) => *refusal,
    }
}

/// One taken place; given back when dropped.
struct Place<S: McpService>(Arc<Server<S>>);

impl<S: McpService> Drop for Place<S> {
    fn drop(&mut self) {
        self.0.stdio.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn open<S: McpService>(server: Arc<Server<S>>, served: Arc<S>, mut request: Request) -> Response {
    let asked = request.headers().get(UPGRADE_HEADER).and_then(|it| it.to_str().ok());
    if !asked.is_some_and(|asked| asked.eq_ignore_ascii_case(UPGRADE)) {
        let mut response = refuse(
            StatusCode::UPGRADE_REQUIRED,
            "upgrade_required",
            "this address is for `tasuki mcp`; agents use /mcp or /sse",
        );
        response.headers_mut().insert(UPGRADE_HEADER, HeaderValue::from_static(UPGRADE));
        return response;
    }
    if LINES_MAX <= server.stdio.0.fetch_add(1, Ordering::Relaxed) {
        drop(Place(server));
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "overloaded",
            format!("{LINES_MAX} agents are connected this way"),
        );
    }
    let place = Place(Arc::clone(&server));
    let upgrading = hyper::upgrade::on(&mut request);
    let (mut parts, _) = request.into_parts();
    let life = server.life.clone();
    let gone = life.ending.child_token();
    parts.extensions.insert(ConnectionGuard { what: Ended::Connection, gone: gone.clone() });
    let by = Bearer::of(&parts).cloned();
    let handler = served.of_connection(&parts);
    server.life.tasks.spawn(async move {
        let _place = place;
        let io = match upgrading.await {
            Ok(io) => LastsAs::long_as(by, TokioIo::new(io)),
            Err(error) => return tracing::debug!(%error, "an upgrade failed"),
        };
        let (reader, writer) = tokio::io::split(io);
        let connection = Connection::new(BufReader::new(reader), writer, &life, gone.clone());
        let is_left = connection.is_left();
        converse(handler, connection, gone).await;
        if is_left.load(Ordering::Relaxed) {
            served.left(&parts);
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE_HEADER, HeaderValue::from_static(UPGRADE));
    response
}
