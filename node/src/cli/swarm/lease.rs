//! How long a claim, a lock or an issue is held, as people type it and as they are told.

use std::time::Duration;

use serde_json::Value;
use tasuki_proto::{host::config::duration, limits::SWARM_LEASE_MS_MAX};

use super::{Failure, Output, labels::has_left};
use crate::cli::text::{line, time};

/// How long something is held.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct LeaseArgs {
    /// Lease length, counted from now, at most 24h [default: from `tasuki settings`]
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_length)]
    length: Option<Duration>,
}

impl LeaseArgs {
    /// The length on the wire; 0 stands for the workspace's setting.
    pub(super) fn ms(self) -> u64 {
        self.length.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX).max(1))
    }
}

fn parse_length(text: &str) -> Result<Duration, String> {
    let length = duration(text)?;
    // A lease that expires at once would be reported as held.
    if length.is_zero() {
        return Err(format!("is {text:?}; it takes a time that is not over at once, such as 2m"));
    }
    if Duration::from_millis(SWARM_LEASE_MS_MAX) < length {
        return Err(format!("is {text:?}; nothing is held for longer than 24h at a time"));
    }
    Ok(length)
}

/// Reports a renewed lease. `subject` is what is held; `until_ms` is 0 where it does not expire.
pub(super) fn report_renewal(
    output: &mut Output,
    subject: &str,
    value: Value,
    until_ms: u64,
    now_ms: u64,
) -> Result<(), Failure> {
    output.answer(
        || value,
        || match until_ms {
            0 => format!("{} does not expire.\n", line(subject)),
            ms => {
                let (until, left) = (time(ms), has_left(ms, now_ms));
                format!("{} is kept until {until} ({left}).\n", line(subject))
            }
        },
    )
}
