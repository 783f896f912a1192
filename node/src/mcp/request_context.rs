//! What a request tells of its client's version, of what the client can do, and of what it belongs
//! to.

use rmcp::{
    RoleServer,
    model::{CacheScope, ProtocolVersion},
    service::RequestContext,
};
use tasuki_proto::trace::TraceContext;
use tracing::{Instrument as _, field};

use super::transport::write_ack::WriteAck;
use crate::client::retry::chance;

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

/// Codex' own name for the conversation that a call belongs to, if it says one.
pub(super) fn thread(context: &RequestContext<RoleServer>) -> Option<&str> {
    context.meta.get("threadId")?.as_str()
}

/// The trace that a request names in its `_meta`, else in the headers of its HTTP request.
fn caller(context: &RequestContext<RoleServer>) -> Option<TraceContext> {
    let meta = &context.meta;
    let named = meta.get_traceparent();
    named.and_then(|parent| TraceContext::parse(parent, meta.get_tracestate())).or_else(|| {
        let parts = context.extensions.get::<http::request::Parts>()?;
        TraceContext::of_headers(&parts.headers)
    })
}

/// Does what a request asks for as a part of its trace, or of one that begins here: log lines of it
/// and calls of the broker name that.
pub(super) async fn traced<T, E>(
    context: &RequestContext<RoleServer>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    // Of the highest level, so that warnings name the trace whatever else is logged.
    let span = tracing::error_span!("tool_call", trace_id = field::Empty);
    let mut random = [0; 24];
    for part in random.chunks_exact_mut(8) {
        part.copy_from_slice(&chance().to_be_bytes());
    }
    let trace = TraceContext::within(&span, caller(context), random);
    span.record("trace_id", field::display(trace.trace_id()));
    let work = async {
        let done = work.await;
        tracing::debug!(is_answered = done.is_ok(), "a tool call ended");
        done
    };
    trace.scope(work.instrument(span)).await
}
