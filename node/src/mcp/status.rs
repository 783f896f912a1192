//! `GET /status`: what is open in this node, counted where it is kept.
//!
//! For programs of the node's user, and for finding what was left behind. It names roles and counts
//! things; nothing an agent wrote is in it, and whose turn it is the broker knows.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use serde::Serialize;

use super::transport::{
    bearer::{Bearer, only_its_user},
    served::{Served, UnderWay},
    server::Server,
};

/// What a node says about itself.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    name: &'static str,
    version: &'static str,
    roles: Vec<Role>,
    /// Tool calls in flight, waits among them.
    calls: usize,
    /// HTTP connections, that of the request included.
    connections: usize,
    /// Sessions of Streamable HTTP in memory, whether or not a connection of theirs is open.
    sessions: usize,
    /// Streams of HTTP+SSE.
    streams: usize,
    /// Agents connected through `tasuki mcp`.
    bridges: usize,
}

#[derive(Debug, Serialize)]
struct Role {
    role: String,
    waits: usize,
}

pub(super) async fn show<S: Served>(
    State(server): State<Arc<Server<S>>>,
    by: Option<Extension<Bearer>>,
) -> Response {
    if let Err(refusal) = only_its_user(by.as_deref()) {
        return *refusal;
    }
    let UnderWay { calls, waits } = server.served_to_all().under_way();
    let roles = waits.into_iter().map(|(role, waits)| Role { role: role.to_string(), waits });
    Json(Status {
        name: "tasuki",
        version: env!("CARGO_PKG_VERSION"),
        roles: roles.collect(),
        calls,
        connections: server.life.connections.len(),
        sessions: server.sessions(),
        streams: server.sse.count(),
        bridges: server.stdio.count(),
    })
    .into_response()
}
