//! What a request tells of its client's version and of what the client can do.

use rmcp::{
    RoleServer,
    model::{CacheScope, ProtocolVersion},
    service::RequestContext,
};

use super::transport::write_ack::WriteAck;

/// How long a client may keep what changes with a restart of the node at most, in milliseconds.
pub(super) const FRESH_MS: u64 = 60_000;

/// Whether a request is of a version that keeps connections or sessions.
pub(super) fn is_legacy(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_none_or(|version| version < ProtocolVersion::V_2026_07_28)
}

/// For how long a list may be kept, where the client's version knows of that.
pub(super) fn fresh(context: &RequestContext<RoleServer>) -> (Option<u64>, Option<CacheScope>) {
    if is_legacy(context) { (None, None) } else { (Some(FRESH_MS), Some(CacheScope::Private)) }
}

/// Whether the request itself declares the extension; what a session said once does not count.
pub(super) fn takes_tasks(context: &RequestContext<RoleServer>) -> bool {
    context.meta.client_capabilities().is_some_and(|it| it.supports_tasks())
}

pub(super) fn probe(context: &RequestContext<RoleServer>) -> Option<WriteAck> {
    let parts = context.extensions.get::<http::request::Parts>();
    context
        .extensions
        .get::<WriteAck>()
        .or_else(|| parts.and_then(|parts| parts.extensions.get::<WriteAck>()))
        .cloned()
}
