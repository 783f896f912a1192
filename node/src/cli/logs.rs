//! Logs go to standard error, in the format that was asked for, and nowhere when it takes nothing
//! any more: a full disk or a terminal that was closed must not stop the work.

use tasuki_proto::host::logs;

use crate::config::LogFormat;

/// What is logged unless `RUST_LOG` says otherwise.
pub(crate) const FILTER: &str = "warn,tasuki_node=info,tasuki_broker=info";

/// The same where a node runs beside lines that people read.
const QUIET: &str = "warn";

pub(crate) fn start(format: LogFormat, is_quiet: bool) {
    let filter = if is_quiet { QUIET } else { FILTER };
    if let Err(why) = logs::start(filter, matches!(format, LogFormat::Json)) {
        tracing::debug!(%why, "logs are set up already");
    }
}
