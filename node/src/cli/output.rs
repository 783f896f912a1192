//! The one place that prints.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use owo_colors::OwoColorize as _;
use serde_json::{Map, Value, json};
use tasuki_proto::echo::{REFUSAL_BYTES_MAX, bounded};

use super::{Failure, json::harmless, text};

/// Standard output, in the form that was asked for.
///
/// Colours are dropped where nobody would see them: anstream looks at the terminal, `NO_COLOR`
/// and `CLICOLOR_FORCE`.
pub struct Output {
    is_json: bool,
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    /// What programs get beside a failure.
    beside: Map<String, Value>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("is_json", &self.is_json).finish_non_exhaustive()
    }
}

impl Output {
    pub(crate) fn of_process(is_json: bool) -> Self {
        let (out, err) = (Box::new(anstream::stdout()), Box::new(anstream::stderr()));
        Self { is_json, out, err, beside: Map::new() }
    }

    /// Whether programs read it.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Prints the answer to what was done: `value` for programs, `lines` for people.
    pub(crate) fn answer(
        &mut self,
        value: impl FnOnce() -> Value,
        lines: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let text = if self.is_json { format!("{}\n", harmless(&value())) } else { lines() };
        self.write(&text).map_err(|why| unprintable("The command was carried out, but its", &why))
    }

    /// Keeps what programs get beside the reason where a command fails.
    pub(crate) fn beside(&mut self, name: &str, value: Value) {
        self.beside.insert(name.to_owned(), value);
    }

    /// Prints what helps people and is nothing to programs.
    pub(crate) fn guide(&mut self, lines: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.is_json { Ok(()) } else { self.raw(&lines()) }
    }

    /// Prints one line in either form; it is not waited for.
    pub fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.raw(&format!("{line}\n"))
    }

    /// Prints as it is.
    pub(crate) fn raw(&mut self, text: &str) -> Result<(), Failure> {
        self.write(text).map_err(|why| unprintable("The", &why))
    }

    /// Prints bytes as they are, also those that a colour would begin with.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.flush()?;
        let mut out = io::stdout().lock();
        let printed = out.write_all(bytes).and_then(|()| out.flush());
        printed.map_err(|why| unprintable("The", &why))
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|why| unprintable("The", &why))
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Tells people something beside the answer.
    pub(crate) fn note(&mut self, note: &str) {
        let line = text::line(note);
        // Nobody is left to be told that nobody can be told.
        drop(writeln!(self.err, "{}", line.dimmed()));
    }

    /// The same of several lines.
    pub(crate) fn note_lines(&mut self, lines: &str) {
        drop(writeln!(self.err, "{}", text::block(lines)));
    }

    /// Says why there is no answer.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        if failure.is_quiet() {
            return;
        }
        let message = cut(&failure.message);
        if self.is_json {
            let error = json!({
                "code": failure.code(),
                "message": message,
                "retryable": failure.is_retryable(),
                "maybe_applied": failure.is_maybe_applied(),
            });
            let mut told = std::mem::take(&mut self.beside);
            told.insert("error".to_owned(), error);
            if self.write(&format!("{}\n", harmless(&Value::Object(told)))).is_ok() {
                return;
            }
        }
        let message = text::block(&message);
        // As above.
        drop(writeln!(self.err, "{} {message} ({})", "error:".red().bold(), failure.code()));
    }
}

/// As much of a failure's words as a broker says of a refusal: an argument of any length may be said
/// back in them.
fn cut(message: &str) -> Cow<'_, str> {
    if message.len() <= REFUSAL_BYTES_MAX { message.into() } else { bounded(message).into() }
}

/// `which` answer cannot be written, and what holds all the same.
fn unprintable(which: &str, why: &io::Error) -> Failure {
    if why.kind() == io::ErrorKind::BrokenPipe {
        return Failure::quiet();
    }
    Failure::local(format!("{which} answer cannot be written to standard output: {why}."))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tasuki_proto::reason::Reason;

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn said(is_json: bool, failure: &Failure) -> (String, String) {
        let (out, err) = (Shared::default(), Shared::default());
        let mut output = Output {
            is_json,
            out: Box::new(out.clone()),
            err: Box::new(err.clone()),
            beside: Map::new(),
        };
        output.failure(failure);
        let text = |shared: Shared| {
            let bytes = shared.0.lock().unwrap().clone();
            anstream::adapter::strip_str(&String::from_utf8(bytes).unwrap()).to_string()
        };
        (text(out), text(err))
    }

    #[test]
    fn a_refusal_is_a_sentence_and_a_code() {
        let failure = Failure::reason(Reason::NotYourTurn, "B\u{1b}[31m holds turn 7 of `main`.");
        let (out, err) = said(false, &failure);
        assert_eq!(out, "");
        assert_eq!(err, "error: B holds turn 7 of `main`. (not_your_turn)\n");
    }

    #[test]
    fn what_is_said_back_is_cut() {
        let all = format!("--to names {:?}; nothing was sent.", "B".repeat(30_000));
        let failure = Failure::usage(all);
        for is_json in [false, true] {
            let (out, err) = said(is_json, &failure);
            let said = out + &err;
            assert!(said.len() < REFUSAL_BYTES_MAX + 200, "{} bytes", said.len());
            assert!(said.contains("--to names") && said.contains("nothing was sent."), "{said}");
        }
        let most = Failure::usage("x".repeat(REFUSAL_BYTES_MAX));
        assert!(said(false, &most).1.contains(&most.message));
    }

    #[test]
    fn programs_get_a_refusal_on_standard_output() {
        let failure = Failure::reason(Reason::OutcomeUnknown, "No answer came.");
        let (out, err) = said(true, &failure);
        let expected = json!({"error": {
            "code": "outcome_unknown",
            "message": "No answer came.",
            "retryable": true,
            "maybe_applied": true,
        }});
        assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), expected);
        assert_eq!(err, "");
    }

    #[test]
    fn a_reader_that_left_is_not_an_error() {
        let gone = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(unprintable("The", &gone).exit(), super::super::Exit::Ok);
    }
}
