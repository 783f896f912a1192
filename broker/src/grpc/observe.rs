//! What is told of a call to whoever runs the broker: it is counted, and log lines about it name
//! the trace that it belongs to.

use std::sync::Arc;

use http::{HeaderMap, Response};
use tasuki_proto::{rpc::Call, trace::TraceContext};
use tonic::{Code, Status, body::Body};
use tracing::{Span, debug, debug_span, field::display, info};

use crate::metrics::{CallMetrics, CallTimer};

/// A call under way.
#[derive(Debug)]
pub(super) struct ObservedCall {
    /// `None`: there is no such call.
    call: Option<(&'static Call, Option<CallTimer>)>,
    trace: Option<TraceContext>,
}

impl ObservedCall {
    pub(super) fn begin(
        metrics: &Arc<CallMetrics>,
        call: Option<&'static Call>,
        headers: &HeaderMap,
    ) -> Self {
        let call = call.map(|call| (call, metrics.begin(call)));
        Self { call, trace: TraceContext::of_headers(headers) }
    }

    /// What log lines of the call say beside their own words.
    pub(super) fn span(&self) -> Span {
        let (Some((call, _)), Some(trace)) = (&self.call, &self.trace) else {
            return Span::none();
        };
        let span = debug_span!("call", method = call.path, trace_id = %trace.trace_id());
        trace.link(&span);
        span
    }

    /// It was answered.
    pub(super) fn answered(self, response: Response<Body>) -> Response<Body> {
        // A refusal that came before any message stands in the headers.
        let status = Status::from_header_map(response.headers());
        self.ended(status.as_ref().filter(|status| status.code() != Code::Ok));
        response
    }

    /// It ended, with `refused` where it was.
    pub(super) fn ended(self, refused: Option<&Status>) {
        let Some((call, timer)) = self.call else { return };
        let outcome = timer.map(|timer| timer.answered(refused));
        let Some(status) = refused else { return };
        let (method, trace) = (call.path, self.trace.as_ref());
        let trace_id = trace.map(|trace| display(trace.trace_id()));
        if matches!(status.code(), Code::Internal | Code::Unknown | Code::DataLoss) {
            info!(method, outcome, trace_id, "a call failed");
        } else {
            debug!(method, outcome, trace_id, "a call was refused");
        }
    }
}
