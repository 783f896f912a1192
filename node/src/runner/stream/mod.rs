//! What an agent CLI says while it works: bytes in, progress out, and at the end a report.
//!
//! - **ST1** How bytes were split changes nothing.
//! - **ST2** Whatever comes, memory is bounded and nothing panics. Lines that are no JSON, lines that
//!   are too long and events that nobody knows are counted and otherwise ignored; whether a line that
//!   is too long may have held a newer answer is told.
//! - **ST3** The last message decides: an error that the agent recovered from is forgotten.
//! - **ST4** Each end of a tool follows a beginning.
//!
//! `lines` makes lines, `field` reads fields, `state` is what all dialects tell of; then a file for
//! each dialect, which says what was seen of it.
//!
//! Not here: whether the run succeeded (`outcome`), where long output is kept.

mod claude;
mod codex;
mod field;
mod gemini;
mod lines;
mod opencode;
mod pi;
mod state;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use serde::Deserialize;

pub use self::{
    lines::LINE_BYTES_MAX,
    state::{ErrorClass, OUTPUT_BYTES_MAX, Output, Report, Stop, StreamError, Usage, classify},
};
use self::{
    lines::{Line, Lines},
    state::State,
};

/// A JSON stream that some agent CLI writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    Pi,
    Claude,
    Codex,
    Gemini,
    Opencode,
}

impl Dialect {
    pub const ALL: [Self; 5] = [Self::Pi, Self::Claude, Self::Codex, Self::Gemini, Self::Opencode];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pi => "pi",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No stream has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown stream `{0}`. Available: pi, claude, codex, gemini, opencode")]
pub struct UnknownDialect(pub String);

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, UnknownDialect> {
        let found = Self::ALL.into_iter().find(|dialect| dialect.as_str() == name);
        found.ok_or_else(|| UnknownDialect(name.to_owned()))
    }
}

/// What happened, for whoever watches. Texts are the agent's own, and as long as a line may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The agent is there. Said again when its model becomes known.
    Started {
        session: Option<&'a str>,
        model: Option<&'a str>,
    },
    /// What it writes, as it comes; `begins` starts a message or a part of one.
    Text {
        text: &'a str,
        begins: bool,
    },
    /// The final output so far; `begins` replaces what was said before. Who keeps outputs of any
    /// length writes these down: [`Report::output`] is cut.
    Output {
        text: &'a str,
        begins: bool,
    },
    ToolStarted {
        name: &'a str,
    },
    ToolEnded {
        name: &'a str,
        is_error: bool,
    },
    /// The model answered once more; this is everything that was used so far.
    TurnEnded {
        usage: &'a Usage,
    },
    /// Its model failed, and the agent asks again by itself. 0 where the numbers are not told.
    Retrying {
        attempt: u64,
        attempts_max: u64,
        reason: &'a str,
    },
    /// It has nothing more to do and will end its process.
    Settled,
}

/// Who is told of progress.
type OnProgress<'s> = &'s mut dyn FnMut(Progress<'_>);

/// An event of a dialect: known, or of a type or role that nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventStatus {
    Known,
    Unknown,
}

/// A parsed line, or why it is none.
type Parsed = Result<EventStatus, serde_json::Error>;

/// What one dialect remembers between two events.
#[derive(Debug)]
enum Parser {
    Pi(pi::Parser),
    Claude(claude::Parser),
    Codex(codex::Parser),
    Gemini(gemini::Parser),
    Opencode(opencode::Parser),
}

impl Parser {
    /// Whether an event of this type may be an answer, or a part of one, that no other one is.
    fn may_answer(&self, kind: &str) -> bool {
        match self {
            Self::Pi(_) => !pi::NO_ANSWERS.contains(&kind),
            Self::Claude(_) | Self::Codex(_) | Self::Gemini(_) | Self::Opencode(_) => true,
        }
    }
}

/// Reads one run's standard output.
#[derive(Debug)]
pub struct Reader {
    lines: Lines,
    parser: Parser,
    state: State,
}

impl Reader {
    pub fn new(dialect: Dialect) -> Self {
        let parser = match dialect {
            Dialect::Pi => Parser::Pi(pi::Parser::default()),
            Dialect::Claude => Parser::Claude(claude::Parser::default()),
            Dialect::Codex => Parser::Codex(codex::Parser::default()),
            Dialect::Gemini => Parser::Gemini(gemini::Parser::default()),
            Dialect::Opencode => Parser::Opencode(opencode::Parser),
        };
        Self { lines: Lines::default(), parser, state: State::default() }
    }

    /// Takes the next bytes and says what they tell.
    pub fn push(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Progress<'_>)) {
        let Self { lines, parser, state } = self;
        lines.push(bytes, |line| read_line(parser, state, line, sink));
    }

    /// What the stream said so far.
    pub fn report(&self) -> &Report {
        &self.state.report
    }

    /// Takes what came after the last LF as a line, and ends.
    pub fn finish(mut self, sink: &mut dyn FnMut(Progress<'_>)) -> Report {
        let Self { lines, parser, state } = &mut self;
        lines.finish(|line| read_line(parser, state, line, sink));
        self.state.report
    }
}

fn read_line(parser: &mut Parser, state: &mut State, line: Line<'_>, sink: OnProgress<'_>) {
    let line = match line {
        Line::Whole(line) => without_escapes(line),
        Line::Oversized(head) => {
            let kind = leading_type(without_escapes(head));
            return state.skip_line(kind.is_none_or(|kind| parser.may_answer(kind)));
        }
    };
    if line.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    let parsed = event_type(line).and_then(|kind| match parser {
        Parser::Pi(parser) => parser.read(kind.as_str(), line, state, sink),
        Parser::Claude(parser) => parser.read(kind.as_str(), line, state, sink),
        Parser::Codex(parser) => parser.read(kind.as_str(), line, state, sink),
        Parser::Gemini(parser) => parser.read(kind.as_str(), line, state, sink),
        Parser::Opencode(parser) => parser.read(kind.as_str(), line, state, sink),
    });
    match parsed {
        Ok(EventStatus::Known) => state.report.events += 1,
        Ok(EventStatus::Unknown) => state.report.unknown_events += 1,
        Err(_) => state.report.garbage_lines += 1,
    }
}

/// Drops what a terminal would have taken for itself before an event.
fn without_escapes(line: &[u8]) -> &[u8] {
    if line.first() != Some(&0x1b) {
        return line;
    }
    let start = line.iter().position(|byte| *byte == b'{').unwrap_or(0);
    line.get(start..).unwrap_or(line)
}

/// How all these programs begin an event.
const TYPE_FIRST: &[u8] = b"{\"type\":\"";

/// The longest type that is looked for without parsing.
const TYPE_BYTES_MAX: usize = 64;

/// The event's type, which the dialect needs before it knows what to parse.
fn event_type(line: &[u8]) -> Result<field::Str<'_>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow, rename = "type")]
        kind: field::Str<'a>,
    }
    match leading_type(line) {
        Some(name) => Ok(field::Str(name.into())),
        None => serde_json::from_slice::<Head<'_>>(line).map(|head| head.kind),
    }
}

/// The type of an event that begins with it, told by its beginning alone.
fn leading_type(line: &[u8]) -> Option<&str> {
    let rest = line.strip_prefix(TYPE_FIRST)?;
    let name = rest.get(..TYPE_BYTES_MAX.min(rest.len()))?;
    let end = name.iter().position(|byte| *byte == b'"')?;
    let name = std::str::from_utf8(name.get(..end)?).ok()?;
    (!name.contains('\\')).then_some(name)
}

/// A line of which only the type counts, checked to be JSON.
fn ignore(line: &[u8]) -> Parsed {
    serde_json::from_slice::<serde::de::IgnoredAny>(line)?;
    Ok(EventStatus::Known)
}

/// The same for a type that nobody knows.
fn unknown(line: &[u8]) -> Parsed {
    ignore(line)?;
    Ok(EventStatus::Unknown)
}
