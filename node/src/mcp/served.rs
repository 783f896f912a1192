//! What the transports serve: whoever answers at an address.
//!
//! The transports know neither roles nor tools. The node puts its agents behind its addresses;
//! a conformance test puts a handler of its own behind the same transports.

use http::request::Parts;
use rmcp::ServerHandler;

use crate::role::Connected;

/// Makes the handlers of one address. It is asked for each request, so it should be quick.
pub trait Served: Send + Sync + 'static {
    type Handler: ServerHandler;

    /// What answers one request, or a session that connections come and go under.
    fn of_requests(&self) -> Self::Handler;

    /// What answers one connection, for as long as it lives; `opening` is the request that
    /// opened it.
    fn of_connection(&self, opening: &Parts) -> Self::Handler;

    /// A stream of a session of `client` (name and version, for people) is open for as long as
    /// the guard lives.
    fn connected(&self, client: &str) -> Option<Connected>;
}
