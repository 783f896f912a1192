//! `tasuki sandboxed …`: this program as it starts commands, around and inside the sandbox.
//!
//! Not for people, so it is none of the commands that are parsed, listed and completed. It reads no
//! configuration, and runs before there is a second thread: what a process takes away from itself
//! it takes away from one thread.

use std::{ffi::OsString, process::ExitCode};

/// Its name on a command line.
const NAME: &str = "sandboxed";

#[derive(Debug)]
pub(super) struct Args {
    /// `keeper` or `inside`.
    part: String,
    /// What the command may touch.
    order: String,
    /// The command, its program first.
    words: Vec<String>,
}

impl Args {
    /// `None`: this process was started for something else.
    pub(super) fn of_process() -> Option<Self> {
        Self::of(std::env::args_os().skip(1))
    }

    fn of(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        words.next().filter(|name| name == NAME)?;
        let (part, order) = (words.next()?, words.next()?);
        let words = words.map(|word| word.into_string().ok()).collect::<Option<_>>()?;
        Some(Self { part: part.into_string().ok()?, order: order.into_string().ok()?, words })
    }
}

pub(super) fn run(args: &Args) -> ExitCode {
    use std::io::Write as _;

    use crate::process::keeper::{INSIDE, KEEPER, inside, keep};

    const FAILED: u8 = 125;
    match args.part.as_str() {
        KEEPER => match keep(&args.order, &args.words) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                // It is a line of the command's output.
                writeln!(std::io::stderr(), "tasuki: the command cannot be kept: {why}").ok();
                ExitCode::from(FAILED)
            }
        },
        INSIDE => ExitCode::from(u8::try_from(inside(&args.order, &args.words)).unwrap_or(FAILED)),
        _ => ExitCode::from(2),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn it_is_understood_and_no_command_of_people() {
        let of = |line: &str| Args::of(line.split_whitespace().map(OsString::from));
        let args = of("sandboxed keeper {} echo -n").expect("as it is started");
        assert_eq!((args.part.as_str(), args.order.as_str()), ("keeper", "{}"));
        assert_eq!(args.words, ["echo", "-n"]);
        for line in ["", "sandboxed", "sandboxed keeper", "up a b"] {
            assert!(of(line).is_none(), "{line}");
        }
        assert!(Cli::command().find_subcommand(NAME).is_none());
    }
}
