//! What the transports serve: whoever answers at an address.
//!
//! The transports know neither roles nor tools. The node puts its agents behind its addresses;
//! a conformance test puts a handler of its own behind the same transports.

use std::any::Any;

use http::request::Parts;
use rmcp::{RoleServer, ServerHandler, ServiceExt as _, transport::Transport};
use tasuki_proto::id::RoleId;
use tokio_util::sync::CancellationToken;

use crate::{
    hooks, mirror,
    role::{Connected, NodeStatus, player::Ended},
};

/// Something that lasts until it is dropped.
pub(in crate::mcp) type StreamGuard = Box<dyn Any + Send + Sync>;

/// Beside the request that opened a connection, what the connection is; beside each request of a
/// session, what the session is.
#[derive(Debug, Clone)]
pub(in crate::mcp) struct ConnectionGuard {
    pub what: Ended,
    /// Cancelled when it ends.
    pub gone: CancellationToken,
}

impl Default for ConnectionGuard {
    fn default() -> Self {
        Self { what: Ended::Stream, gone: CancellationToken::new() }
    }
}

/// Counted where it is kept.
#[derive(Debug, Clone, Default)]
pub struct ServerStats {
    /// What is known of the broker.
    pub glance: Option<NodeStatus>,
    /// Calls of all addresses that have begun and are not over.
    pub calls: usize,
    /// Of each role that the address speaks for: its open waits.
    pub waits: Vec<(RoleId, usize)>,
    /// How each hook of the node does.
    pub hooks: Vec<hooks::Report>,
    /// The mailboxes on disk.
    pub mirror: Vec<mirror::Report>,
}

/// Makes the handlers of one address. It is asked for each request, so it should be quick.
pub trait McpService: Send + Sync + 'static {
    type Handler: ServerHandler;

    /// What answers one request, or a session that connections come and go under.
    fn of_requests(&self) -> Self::Handler;

    /// What answers one connection, for as long as it lives; `opening` is the request that
    /// opened it.
    fn of_connection(&self, opening: &Parts) -> Self::Handler;

    /// What is under way at this address, for whoever looks.
    fn under_way(&self) -> ServerStats {
        ServerStats::default()
    }

    /// The names of the tools that are shown at this address.
    fn tools(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// A session's own stream is open for as long as the guard lives; `opening` is the request that
    /// opened it, `client` the name and version that the session began with, empty if not known.
    fn connected(&self, opening: &Parts, client: &str) -> Option<Connected>;

    /// A client's own stream is open for as long as the result lives; `opening` is the request
    /// that opened it.
    fn stream(&self, _opening: &Parts) -> Option<StreamGuard> {
        None
    }

    /// A client closed its session, with the request `request`, or its connection, which it had
    /// opened with that.
    fn left(&self, _request: &Parts) {}
}

/// Serves one connection until it ends or is `gone`.
pub(super) async fn converse(
    handler: impl ServerHandler,
    connection: impl Transport<RoleServer> + 'static,
    gone: CancellationToken,
) {
    let served = tokio::select! {
        served = handler.serve_with_ct(connection, gone.clone()) => served,
        () = gone.cancelled() => return,
    };
    match served {
        Ok(running) => {
            if let Err(error) = running.waiting().await {
                tracing::debug!(%error, "a connection's service ended");
            }
        }
        // Why it was not would say what came instead.
        Err(_) => tracing::debug!("a connection was not initialized"),
    }
}
