//! Logs: to standard error or a file, and never with what agents say to each other.
//!
//! **Invariant:** whatever `RUST_LOG` asks for, no body of a request or an answer is logged. The
//! libraries that carry them log them whole when they say much, so they may not.

use std::{
    io::{self, IsTerminal as _},
    sync::Mutex,
};

use tracing::level_filters::LevelFilter;
#[cfg(not(feature = "otlp"))]
use tracing_subscriber::layer::Identity;
use tracing_subscriber::{
    EnvFilter, Layer as _,
    filter::{FilterExt as _, Targets},
    fmt::{self, MakeWriter},
    layer::SubscriberExt as _,
    registry,
    util::{SubscriberInitExt as _, TryInitError},
};

#[cfg(feature = "otlp")]
use crate::trace::otlp;

/// How much this project's own code may say: it logs no bodies.
const OWN: (&str, LevelFilter) = ("tasuki", LevelFilter::TRACE);

/// What frames come and go, by their kind and size; what is in them it says only at `trace`.
const FRAMES: (&str, LevelFilter) = ("h2", LevelFilter::DEBUG);

/// It warns of each error that a caller is answered with, and says each notification.
const MESSAGES: (&str, LevelFilter) = ("rmcp", LevelFilter::ERROR);

/// It names the addresses of servers, which may have keys in them. What becomes of a connection is
/// said by whoever opened it.
const ADDRESSES: (&str, LevelFilter) = ("rmcp::transport", LevelFilter::OFF);

/// Where spans are exported to, as the standard calls it.
pub const OTLP_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// How much all other code may say.
const OTHERS: LevelFilter = LevelFilter::INFO;

/// Logs what `RUST_LOG` says, else `default`.
///
/// # Errors
/// When something logs already.
pub fn start(default: &str, is_json: bool) -> Result<(), TryInitError> {
    start_with(default, is_json, io::stderr().is_terminal(), io::stderr)
}

/// The same with another place for the lines; each is one write.
///
/// # Errors
/// As above.
pub fn start_in(
    default: &str,
    is_json: bool,
    place: impl io::Write + Send + 'static,
) -> Result<(), TryInitError> {
    start_with(default, is_json, false, Mutex::new(place))
}

fn start_with(
    default: &str,
    is_json: bool,
    has_colours: bool,
    writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> Result<(), TryInitError> {
    let asked = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let logs = fmt::layer()
        .with_writer(writer)
        // When the place takes nothing any more, these would be written to standard error, by a
        // macro that panics.
        .log_internal_errors(false);
    let logs = if is_json { logs.json().boxed() } else { logs.with_ansi(has_colours).boxed() };
    let logs = logs.with_filter(asked.and(quiet()));
    #[cfg(feature = "otlp")]
    let (spans, lacking) = match is_exporting().then(otlp::layer).transpose() {
        Ok(layer) => (layer, None),
        Err(why) => (None, Some(why.to_string())),
    };
    #[cfg(not(feature = "otlp"))]
    let (spans, lacking) = {
        let lacking = "this build lacks OTLP; build one with `--features otlp`";
        (None::<Identity>, is_exporting().then(|| lacking.to_owned()))
    };
    registry().with(spans).with(logs).try_init()?;
    if let Some(why) = lacking {
        tracing::warn!("{OTLP_ENDPOINT} is set, but no traces are exported: {why}");
    }
    Ok(())
}

/// The program ends: spans that were not exported yet are.
pub fn end() {
    #[cfg(feature = "otlp")]
    otlp::end();
}

fn is_exporting() -> bool {
    std::env::var_os(OTLP_ENDPOINT).is_some_and(|it| !it.is_empty())
}

fn quiet() -> Targets {
    Targets::new().with_default(OTHERS).with_targets([OWN, FRAMES, MESSAGES, ADDRESSES])
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn what_carries_bodies_does_not_say_much() {
        assert!(!quiet().would_enable("rmcp::service", &Level::WARN));
        assert!(!quiet().would_enable("rmcp::transport::worker", &Level::ERROR));
        for target in ["hyper::proto", "tonic::codec", "sled", "tower", "x"] {
            assert!(quiet().would_enable(target, &Level::INFO), "{target}");
            assert!(!quiet().would_enable(target, &Level::DEBUG), "{target}");
        }
        assert!(quiet().would_enable("tasuki_node::link", &Level::TRACE));
        assert!(!quiet().would_enable("h2::hpack", &Level::TRACE));
    }
}
