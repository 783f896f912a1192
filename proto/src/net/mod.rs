//! Connections: TLS 1.3 with certificates and pins, dialling a broker, and slowing down whoever
//! guesses tokens.
//!
//! Shared by broker, node and bridge. Nothing here knows the API, roles or workspaces.

pub mod auth_backoff;
pub mod dial;
pub mod tls;
