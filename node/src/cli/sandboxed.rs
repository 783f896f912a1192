//! `tasuki sandboxed …`: this program as `tasuki accept` starts it, around and inside the sandbox.
//!
//! Not for people. It reads no configuration, and runs before there is a second thread: what a
//! process takes away from itself it takes away from one thread.

use std::process::ExitCode;

/// Used by `tasuki accept`: keeps a command in a sandbox.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// `keeper` or `inside`
    part: String,
    /// What is to be run, and what it may touch
    order: String,
}

#[cfg(unix)]
pub(super) fn run(args: &Args) -> ExitCode {
    use std::io::Write as _;

    use crate::accept::keeper::{INSIDE, KEEPER, inside, keep};

    const FAILED: u8 = 125;
    match args.part.as_str() {
        KEEPER => match keep(&args.order) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                // It is a line of the command's output.
                writeln!(std::io::stderr(), "tasuki: the command cannot be kept: {why}").ok();
                ExitCode::from(FAILED)
            }
        },
        INSIDE => ExitCode::from(u8::try_from(inside(&args.order)).unwrap_or(FAILED)),
        _ => ExitCode::from(2),
    }
}

#[cfg(not(unix))]
pub(super) fn run(_: &Args) -> ExitCode {
    ExitCode::from(2)
}
