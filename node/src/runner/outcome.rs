//! What came of a run: from what its stream said, how its process ended, the end of its standard
//! error, and why it was stopped, if it was.
//!
//! Success is exit code 0, at least one message, the last one ended by a normal stop, and no line too
//! long to be read that could be a newer one (RN1). The first of these that holds names a failure: it
//! was stopped by us; it could not be started; it was killed; its model failed; it was cut off; it
//! ended with another code; it said nothing; its stream stopped in the middle. What was stopped is no
//! success, whatever it had said and with whatever code it then ended; a run that had ended before
//! our signal reached it was not stopped.
//!
//! Not here: whether the output has the wished form (`output_invalid` is given by whoever checks
//! that), and runs whose node is gone (`lost`, by whoever notices).

use std::fmt;

use super::stream::{ErrorClass, Output, Report, Stop, Usage, classify};

/// The end of standard error that a failure may quote.
const QUOTE_BYTES_MAX: usize = 1000;

/// How the process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    /// Ended by this signal.
    Signal(i32),
    /// There is no such program.
    NotFound {
        program: String,
    },
    /// It could not be started.
    NotStarted {
        program: String,
        why: String,
    },
    /// What watched over it was killed, and so it was, too.
    KeeperLost,
}

/// Why we ended a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    TimedOut {
        secs: u64,
    },
    Cancelled,
    /// It used up what it was given; the text says which limit.
    Budget {
        limit: String,
    },
    /// It said that it was done, and its process did not end.
    Lingering,
}

/// What kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    ModelError,
    RateLimited,
    /// The answer reached its maximal length.
    CutOff,
    Killed,
    TimedOut,
    Cancelled,
    /// The CLI refused its arguments.
    BadFlag,
    NotInstalled,
    /// It ended with a code other than 0, for no reason that is known.
    ExitCode,
    NoOutput,
    MalformedStream,
    Budget,
    OutputInvalid,
    Lost,
}

impl FailureKind {
    pub const ALL: [Self; 14] = [
        Self::ModelError,
        Self::RateLimited,
        Self::CutOff,
        Self::Killed,
        Self::TimedOut,
        Self::Cancelled,
        Self::BadFlag,
        Self::NotInstalled,
        Self::ExitCode,
        Self::NoOutput,
        Self::MalformedStream,
        Self::Budget,
        Self::OutputInvalid,
        Self::Lost,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ModelError => "model_error",
            Self::RateLimited => "rate_limited",
            Self::CutOff => "cut_off",
            Self::Killed => "killed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::BadFlag => "bad_flag",
            Self::NotInstalled => "not_installed",
            Self::ExitCode => "exit_code",
            Self::NoOutput => "no_output",
            Self::MalformedStream => "malformed_stream",
            Self::Budget => "budget",
            Self::OutputInvalid => "output_invalid",
            Self::Lost => "lost",
        }
    }

    /// The stop reason that the original extension shows, where it has one.
    pub const fn stop_word(self) -> Option<&'static str> {
        match self {
            Self::ModelError | Self::RateLimited => Some("error"),
            Self::Cancelled => Some("aborted"),
            Self::CutOff => Some("length"),
            Self::Killed
            | Self::TimedOut
            | Self::BadFlag
            | Self::NotInstalled
            | Self::ExitCode
            | Self::NoOutput
            | Self::MalformedStream
            | Self::Budget
            | Self::OutputInvalid
            | Self::Lost => None,
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// For people. A model's or a CLI's own message stands as it came.
    pub text: String,
}

impl Failure {
    pub fn new(kind: FailureKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

/// How a run ended, with what it left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// None is success.
    pub failure: Option<Failure>,
    /// The final output; a failed run may have one, too.
    pub output: Output,
    pub usage: Usage,
    pub session: Option<String>,
    pub model: Option<String>,
    pub stop_reason: Option<String>,
    pub exit: Exit,
    pub retries: u64,
}

impl Outcome {
    pub fn is_success(&self) -> bool {
        self.failure.is_none()
    }

    /// Judges a run. `stderr` is the end of its standard error; `stopped` says why it was ended, if
    /// it had not ended by itself.
    pub fn new(report: Report, exit: Exit, stderr: &str, stopped: Option<&Stopped>) -> Self {
        let failure = judge(&report, &exit, stderr, stopped);
        Self {
            failure,
            output: report.output,
            usage: report.usage,
            session: report.session,
            model: report.model,
            stop_reason: report.stop_reason,
            exit,
            retries: report.retries,
        }
    }
}

fn judge(report: &Report, exit: &Exit, stderr: &str, stopped: Option<&Stopped>) -> Option<Failure> {
    if let Some(stopped) = stopped {
        return Some(stop_failure(stopped, report));
    }
    let is_last = report.oversized_since_output == 0;
    let answered = report.stop == Some(Stop::Normal) && report.messages > 0 && is_last;
    if answered && *exit == Exit::Code(0) {
        return None;
    }
    start_failure(exit, report, stderr)
        .or_else(|| killed(exit, answered))
        .or_else(|| stream_failure(report))
        .or_else(|| code_failure(exit, report, stderr, answered))
        .or_else(|| Some(missing_answer(report)))
}

fn stop_failure(stopped: &Stopped, report: &Report) -> Failure {
    match stopped {
        Stopped::TimedOut { secs } => {
            let last = report.error.as_ref().map(|error| error.text.as_str());
            let last = last.map_or(String::new(), |text| format!(" Its last error: {text}"));
            Failure::new(FailureKind::TimedOut, format!("Timed out after {secs} s.{last}"))
        }
        Stopped::Cancelled => Failure::new(FailureKind::Cancelled, "Cancelled."),
        Stopped::Budget { limit } => {
            let text = format!("Stopped: the budget is used up ({limit}).");
            Failure::new(FailureKind::Budget, text)
        }
        Stopped::Lingering => {
            let text = "The agent finished, but its process did not exit and was killed.";
            Failure::new(FailureKind::Killed, text)
        }
    }
}

/// What a shell says for a program that it cannot find, and for one that it cannot run.
const SHELL_NOT_FOUND: i32 = 127;
const SHELL_NOT_RUN: i32 = 126;

fn start_failure(exit: &Exit, report: &Report, stderr: &str) -> Option<Failure> {
    let text = match exit {
        Exit::NotFound { program } => {
            format!("`{program}` is not installed, or not on the PATH.")
        }
        Exit::NotStarted { program, why } => format!("Cannot start `{program}`: {why}."),
        Exit::Code(SHELL_NOT_FOUND | SHELL_NOT_RUN) if report.events == 0 => {
            quote_stderr("The program is not installed, or cannot be run", stderr)
        }
        Exit::Code(_) | Exit::Signal(_) | Exit::KeeperLost => return None,
    };
    Some(Failure::new(FailureKind::NotInstalled, text))
}

/// Programs that handle a signal end with 128 and its number. Only these count: other codes in that
/// range are a status modulo 256, as Gemini's 145 for 401.
const SIGNALS: [(i32, &str); 8] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (6, "SIGABRT"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (15, "SIGTERM"),
];

/// What is added to a signal's number.
const SIGNAL_CODE: i32 = 128;

fn killed(exit: &Exit, answered: bool) -> Option<Failure> {
    let name = |number| SIGNALS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name);
    let signal = match exit {
        Exit::Signal(number) => match name(*number) {
            Some(name) => name.to_owned(),
            None => format!("signal {number}"),
        },
        Exit::Code(code) => name(code.checked_sub(SIGNAL_CODE)?)?.to_owned(),
        Exit::KeeperLost => {
            let text = "What watched over it was killed.";
            return Some(Failure::new(FailureKind::Killed, text));
        }
        Exit::NotFound { .. } | Exit::NotStarted { .. } => return None,
    };
    let after = if answered { " after its answer" } else { "" };
    Some(Failure::new(FailureKind::Killed, format!("Killed by {signal}{after}.")))
}

fn stream_failure(report: &Report) -> Option<Failure> {
    let (kind, text) = match (report.stop, &report.error) {
        (Some(Stop::Aborted), _) => (FailureKind::Killed, "The agent was interrupted."),
        (Some(Stop::Length), _) => {
            (FailureKind::CutOff, "The answer was cut off at the model's output limit.")
        }
        (_, Some(error)) => {
            let kind = match error.class {
                ErrorClass::Model => FailureKind::ModelError,
                ErrorClass::RateLimited => FailureKind::RateLimited,
                ErrorClass::Budget => FailureKind::Budget,
            };
            (kind, error.text.as_str())
        }
        (Some(Stop::Error), None) => (FailureKind::ModelError, "The model failed."),
        (Some(Stop::Normal | Stop::ToolUse | Stop::Other) | None, None) => return None,
    };
    Some(Failure::new(kind, text))
}

/// The code of clap and of many others for arguments that they do not take.
const USAGE_CODE: i32 = 2;

/// How CLIs say that they do not take their arguments, in lower case.
const USAGE_WORDS: [&str; 14] = [
    "unknown option",
    "unknown argument",
    "unknown flag",
    "unexpected argument",
    "unrecognized",
    "invalid value",
    "invalid option",
    "not found. use --list-models",
    "requires --",
    "required arguments",
    "you must provide",
    "no input provided",
    "usage:",
    "options:",
];

fn code_failure(exit: &Exit, report: &Report, stderr: &str, answered: bool) -> Option<Failure> {
    let Exit::Code(code) = exit else { return None };
    if *code == 0 {
        return None;
    }
    if answered {
        let what = format!("The agent answered, then exited with code {code}");
        return Some(Failure::new(FailureKind::ExitCode, quote_stderr(&what, stderr)));
    }
    let (started, words) = (report.events > 0, stderr.to_lowercase());
    let is_usage = *code == USAGE_CODE || USAGE_WORDS.iter().any(|word| words.contains(word));
    let (kind, what) = if !started && is_usage {
        (FailureKind::BadFlag, "The agent's CLI refused its arguments".to_owned())
    } else if classify(stderr) == ErrorClass::RateLimited {
        (FailureKind::RateLimited, format!("The agent exited with code {code}"))
    } else {
        (FailureKind::ExitCode, format!("The agent exited with code {code}"))
    };
    Some(Failure::new(kind, quote_stderr(&what, stderr)))
}

/// Code 0, and no answer that ended normally.
fn missing_answer(report: &Report) -> Failure {
    let (kind, text) = if report.oversized_lines > 0 {
        (FailureKind::MalformedStream, "A line of the stream is longer than 16 MiB.")
    } else if report.events == 0 && report.garbage_lines > 0 {
        (FailureKind::MalformedStream, "The output is not a stream of this runner's format.")
    } else if report.messages == 0 {
        (FailureKind::NoOutput, "The agent exited without an answer.")
    } else {
        (FailureKind::MalformedStream, "The stream ended before the final answer.")
    };
    Failure::new(kind, text)
}

/// How help begins its list of flags.
const HELP_WORDS: &str = "options:";

/// A sentence, with what standard error says: the line that names an error, else the last one.
fn quote_stderr(what: &str, stderr: &str) -> String {
    let lines = || stderr.lines().map(strip_escapes).filter(|line| !line.is_empty());
    let named = lines().find(|line| line.to_lowercase().contains("error:"));
    let is_help = || lines().any(|line| line.to_lowercase() == HELP_WORDS);
    let line = match named {
        None if is_help() => return format!("{what} and printed its help."),
        None => lines().next_back(),
        Some(line) => Some(line),
    };
    match line {
        Some(line) => format!("{what}: {}", &line[..line.floor_char_boundary(QUOTE_BYTES_MAX)]),
        None => format!("{what}."),
    }
}

/// A line without colours and other things that only a terminal reads.
fn strip_escapes(line: &str) -> String {
    let mut stripped = String::new();
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        if char == '\x1b' {
            // `ESC [ … LETTER`; any other sequence loses its first character.
            if chars.next() == Some('[') {
                chars.by_ref().find(char::is_ascii_alphabetic);
            }
        } else if !char.is_control() {
            stripped.push(char);
        }
    }
    stripped.trim().to_owned()
}

#[cfg(test)]
mod tests;
