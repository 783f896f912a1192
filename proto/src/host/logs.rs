//! Logs: to standard error, and never with what agents say to each other.
//!
//! **Invariant:** whatever `RUST_LOG` asks for, no body of a request or an answer is logged. The
//! libraries that carry them log them whole when they say much, so they may not.

use std::io::{self, IsTerminal as _};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    EnvFilter, Layer as _,
    filter::Targets,
    fmt,
    layer::SubscriberExt as _,
    registry,
    util::{SubscriberInitExt as _, TryInitError},
};

/// How much this project's own code may say: it logs no bodies.
const OWN: (&str, LevelFilter) = ("tasuki", LevelFilter::TRACE);

/// What frames come and go, by their kind and size; what is in them it says only at `trace`.
const FRAMES: (&str, LevelFilter) = ("h2", LevelFilter::DEBUG);

/// It warns of each error that a caller is answered with, and says each notification.
const MESSAGES: (&str, LevelFilter) = ("rmcp", LevelFilter::ERROR);

/// How much all other code may say.
const OTHERS: LevelFilter = LevelFilter::INFO;

/// Logs what `RUST_LOG` says, else `default`.
///
/// # Errors
/// When something logs already.
pub fn start(default: &str, is_json: bool) -> Result<(), TryInitError> {
    let asked = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let logs = fmt::layer()
        .with_writer(io::stderr)
        // When standard error takes nothing any more, these would be written there too, by a
        // macro that panics.
        .log_internal_errors(false);
    let logs = if is_json {
        logs.json().boxed()
    } else {
        logs.with_ansi(io::stderr().is_terminal()).boxed()
    };
    registry().with(asked).with(quiet()).with(logs).try_init()
}

fn quiet() -> Targets {
    Targets::new().with_default(OTHERS).with_targets([OWN, FRAMES, MESSAGES])
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn what_carries_bodies_does_not_say_much() {
        assert!(!quiet().would_enable("rmcp::service", &Level::WARN));
        for target in ["hyper::proto", "tonic::codec", "sled", "tower", "x"] {
            assert!(quiet().would_enable(target, &Level::INFO), "{target}");
            assert!(!quiet().would_enable(target, &Level::DEBUG), "{target}");
        }
        assert!(quiet().would_enable("tasuki_node::link", &Level::TRACE));
        assert!(!quiet().would_enable("h2::hpack", &Level::TRACE));
    }
}
