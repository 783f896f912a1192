//! Logs go to standard error, in the format that was asked for, and nowhere when it takes nothing
//! any more: a full disk or a terminal that was closed must not stop the work.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// What is logged unless `RUST_LOG` says otherwise.
const FILTER: &str = "warn,tasuki_node=info,tasuki_broker=info";

pub(crate) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(FILTER));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // They would be written to standard error too, by a macro that panics.
        .log_internal_errors(false);
    let started = match format {
        LogFormat::Text => logs.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).try_init(),
        LogFormat::Json => logs.json().try_init(),
    };
    if let Err(why) = started {
        tracing::debug!(%why, "logs are set up already");
    }
}
