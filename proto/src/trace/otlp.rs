//! Spans as OpenTelemetry exports them: over OTLP to where `OTEL_EXPORTER_OTLP_ENDPOINT` says.
//!
//! The exporter's own code reads the variables of the standard. It works on threads of its own, so
//! that it is started before and ended after whatever the program runs on.

use std::sync::OnceLock;

use opentelemetry::{
    Context,
    trace::{
        SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
        TracerProvider as _,
    },
};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tokio::runtime::Runtime;
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, Targets},
    registry::LookupSpan,
};

use super::TraceContext;

/// What names a service, where anybody does.
const SERVICE_NAMES: [&str; 2] = ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"];

/// Only spans of this project's own code: they carry no bodies.
const OWN: (&str, LevelFilter) = ("tasuki", LevelFilter::DEBUG);

static EXPORT: OnceLock<(SdkTracerProvider, Runtime)> = OnceLock::new();

/// Why nothing is exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Runtime(#[from] std::io::Error),
    #[error(transparent)]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// Begins to export spans, as those of this program unless a variable names another service.
///
/// # Errors
/// When what the variables say cannot be used.
pub fn layer<S>() -> Result<impl Layer<S>, ExportError>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("otlp")
        .enable_all()
        .build()?;
    let exporter = {
        let _entered = runtime.enter();
        SpanExporter::builder().with_tonic().build()?
    };
    let is_named = SERVICE_NAMES.iter().any(|name| std::env::var_os(name).is_some());
    let resource = Resource::builder();
    let resource = if is_named { resource } else { resource.with_service_name(program()) };
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource.build())
        .build();
    let tracer = provider.tracer("tasuki");
    // There is one; a second would be told so by what takes the layer.
    let _ = EXPORT.set((provider, runtime));
    let layer = tracing_opentelemetry::layer().with_tracer(tracer);
    Ok(layer.with_filter(Targets::new().with_targets([OWN])))
}

/// What this program is called: `tasuki` or `tasuki-broker`.
fn program() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(|path| path.file_stem()?.to_str());
    name.unwrap_or("tasuki").to_owned()
}

/// Sends what was not sent yet, as far as somebody takes it.
pub fn end() {
    if let Some((provider, _)) = EXPORT.get()
        && let Err(error) = provider.shutdown()
    {
        tracing::debug!(%error, "the last spans were not exported");
    }
}

/// Makes the span of `caller` that which `span` belongs to.
pub(super) fn link(span: &Span, caller: &TraceContext) {
    let state = caller.state().and_then(|state| state.parse().ok());
    let parent = SpanContext::new(
        TraceId::from(caller.trace),
        SpanId::from(caller.span),
        TraceFlags::new(caller.flags),
        true,
        state.unwrap_or(TraceState::NONE),
    );
    // Nobody exports it.
    let _ = span.set_parent(Context::new().with_remote_span_context(parent));
}

/// What is called within `span`, where it is exported.
pub(super) fn context(span: &Span, state: Option<String>) -> Option<TraceContext> {
    let context = span.context();
    let own = context.span().span_context().clone();
    own.is_valid().then(|| TraceContext {
        trace: u128::from_be_bytes(own.trace_id().to_bytes()),
        span: u64::from_be_bytes(own.span_id().to_bytes()),
        flags: own.trace_flags().to_u8(),
        state,
    })
}
