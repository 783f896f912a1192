//! Connections: TLS 1.3 with certificates and pins, dialling a broker, slowing down whoever guesses
//! tokens, and keeping pages of a browser out.
//!
//! Shared by broker, node and bridge. Nothing here knows the API, roles or workspaces.

pub mod auth_backoff;
pub mod dial;
pub mod site;
pub mod tls;
