//! Why a command did not do what was asked, and the exit code that says so.

use std::{fmt::Write as _, process::ExitCode};

use tasuki_proto::reason::Reason;
use tonic::Status;

use crate::config::Problem;

/// What the process leaves behind. Scripts rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Ok = 0,
    /// The broker said no.
    Refused = 1,
    /// The command line or the configuration makes no sense; nothing was tried.
    Usage = 2,
    /// The broker or the node cannot be reached, or is stopping; nothing happened.
    Unreachable = 3,
    /// The command may or may not have taken effect.
    OutcomeUnknown = 4,
    /// Something on this machine: a file, a port, a disk.
    Local = 5,
    /// Whoever answers is not the broker, or would be spoken to in the clear; nothing was sent.
    Untrusted = 6,
    /// What was waited for did not come.
    Nothing = 7,
    /// A run of agents, or a command of others that was run again, failed.
    Failed = 8,
    /// What was submitted or delivered was rejected.
    Rejected = 9,
}

/// The same for `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done
  1  refused by the broker; the reason's code is printed
  2  invalid command line or configuration
  3  the broker or the node cannot be reached; nothing happened
  4  the command may or may not have taken effect
  5  something on this machine failed: a file, a port, a disk; `tasuki doctor` found an error
  6  the broker that answers is not the one that was joined, or TLS fails; nothing was sent
  7  no result: a wait ended without one, a run was canceled, or there is no task to claim
  8  a run of agents, or a command that `tasuki accept` ran again, failed
  9  the submission or delivery was rejected (--wait)

Settings come from flags, else from TASUKI_* variables, else from tasuki.toml;
`tasuki config check` shows them all and where each came from.
`tasuki doctor` finds what is wrong with this machine's set-up.
RUST_LOG sets what is logged to standard error, such as RUST_LOG=tasuki_node=debug.";

impl Exit {
    /// What a process of this program left behind; `None`: it did not end by itself.
    pub(crate) fn of_code(code: i32) -> Option<Self> {
        let all = [
            Self::Ok,
            Self::Refused,
            Self::Usage,
            Self::Unreachable,
            Self::OutcomeUnknown,
            Self::Local,
            Self::Untrusted,
            Self::Nothing,
            Self::Failed,
            Self::Rejected,
        ];
        all.into_iter().find(|exit| *exit as i32 == code)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// As the broker's table has it.
    Reason(Reason),
    /// A status without one of our reasons: a proxy or another version.
    Foreign,
    Usage,
    Local,
    Untrusted,
    /// An agent did not do its task.
    Run,
    /// The answer said it all; the exit code says it to programs.
    Told(Exit),
    /// Whoever read standard output has gone; nothing is said about it.
    Quiet,
}

/// Why a command did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    kind: Kind,
    /// One or two sentences.
    pub message: String,
}

impl Failure {
    /// A reason of the table, worded here.
    pub fn reason(reason: Reason, message: impl Into<String>) -> Self {
        Self { kind: Kind::Reason(reason), message: message.into() }
    }

    /// The command line makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, message: message.into() }
    }

    /// Something on this machine failed.
    pub fn local(message: impl Into<String>) -> Self {
        Self { kind: Kind::Local, message: message.into() }
    }

    /// Whoever answers is not the broker.
    pub fn untrusted(message: impl Into<String>) -> Self {
        Self { kind: Kind::Untrusted, message: message.into() }
    }

    /// A run of agents ended without success.
    pub(crate) fn run_failed(message: impl Into<String>) -> Self {
        Self { kind: Kind::Run, message: message.into() }
    }

    /// The answer was printed, and tells of what was not done.
    pub(crate) fn told(exit: Exit) -> Self {
        Self { kind: Kind::Told(exit), message: String::new() }
    }

    /// The same with what holds besides, where the broker was not reached.
    pub(crate) fn if_unreached(mut self, rest: &str) -> Self {
        if self.as_reason() == Some(Reason::Unavailable) {
            self.message = format!("{} {rest}", self.message);
        }
        self
    }

    pub(crate) fn quiet() -> Self {
        Self { kind: Kind::Quiet, message: String::new() }
    }

    pub(crate) fn configuration(problems: &[Problem]) -> Self {
        let mut message = match problems.len() {
            1 => "The configuration has a problem:".to_owned(),
            many => format!("The configuration has {many} problems:"),
        };
        for problem in problems {
            write!(message, "\n{problem}").expect("a String takes everything");
        }
        Self::usage(message)
    }

    /// What a refused call said.
    pub(crate) fn of_status(status: &Status) -> Self {
        let kind = Reason::of(status).map_or(Kind::Foreign, Kind::Reason);
        let message = match kind {
            Kind::Foreign => {
                format!("The broker answered {:?}: {}", status.code(), status.message())
            }
            Kind::Reason(_)
            | Kind::Usage
            | Kind::Local
            | Kind::Untrusted
            | Kind::Run
            | Kind::Told(_)
            | Kind::Quiet => status.message().to_owned(),
        };
        Self { kind, message }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        matches!(self.kind, Kind::Quiet | Kind::Told(_))
    }

    /// The reason of the table, where it is one.
    pub(crate) fn as_reason(&self) -> Option<Reason> {
        match self.kind {
            Kind::Reason(reason) => Some(reason),
            Kind::Foreign
            | Kind::Usage
            | Kind::Local
            | Kind::Untrusted
            | Kind::Run
            | Kind::Told(_)
            | Kind::Quiet => None,
        }
    }

    /// What programs match on.
    pub fn code(&self) -> &'static str {
        match self.kind {
            Kind::Reason(reason) => reason.as_str(),
            Kind::Foreign => "foreign_status",
            Kind::Usage => "usage",
            Kind::Local => "local",
            Kind::Untrusted => "untrusted",
            Kind::Run => "run_failed",
            Kind::Told(_) => "told",
            Kind::Quiet => "quiet",
        }
    }

    pub fn is_retryable(&self) -> bool {
        self.as_reason().is_some_and(Reason::is_retryable)
    }

    pub fn is_maybe_applied(&self) -> bool {
        self.as_reason().is_some_and(Reason::is_maybe_applied)
    }

    pub fn exit(&self) -> Exit {
        match self.kind {
            Kind::Reason(Reason::Unavailable) => Exit::Unreachable,
            // The broker is not asked for that: a command knows its role first.
            Kind::Reason(Reason::RoleRequired) => Exit::Usage,
            Kind::Reason(reason) if reason.is_maybe_applied() => Exit::OutcomeUnknown,
            Kind::Reason(_) | Kind::Foreign => Exit::Refused,
            Kind::Usage => Exit::Usage,
            Kind::Local => Exit::Local,
            Kind::Untrusted => Exit::Untrusted,
            Kind::Run => Exit::Failed,
            Kind::Told(exit) => exit,
            Kind::Quiet => Exit::Ok,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_exit_code() {
        let of = |reason: Reason| Failure::of_status(&reason.status("because")).exit() as u8;
        assert_eq!(of(Reason::NotYourTurn), 1);
        assert_eq!(of(Reason::RoleRequired), 2);
        assert_eq!(of(Reason::Unavailable), 3);
        assert_eq!(of(Reason::OutcomeUnknown), 4);
        assert_eq!(of(Reason::KeyExpired), 4);
        assert_eq!(Failure::of_status(&Status::aborted("a proxy")).exit() as u8, 1);
        assert_eq!(Failure::usage("no").exit() as u8, 2);
        assert_eq!(Failure::local("no").exit() as u8, 5);
        assert_eq!(Failure::untrusted("no").exit() as u8, 6);
        assert_eq!(Failure::run_failed("no").exit() as u8, 8);
        assert_eq!(Failure::told(Exit::Nothing).exit() as u8, 7);
        assert_eq!(Failure::told(Exit::Failed).exit() as u8, 8);
        assert_eq!(Failure::told(Exit::Rejected).exit() as u8, 9);
        let codes = (-1..=10).filter_map(Exit::of_code).map(|exit| exit as u8);
        assert_eq!(codes.collect::<Vec<_>>(), (0..=9).collect::<Vec<_>>());
    }
}
