//! What a stream told, whatever its dialect: the report, and how it grows.
//!
//! - **ST5** Output is cut on a character boundary at [`OUTPUT_BYTES_MAX`], and its whole length is
//!   known.
//!
//! Money is counted in billionths of a dollar, so that sums are exact and alike everywhere.
//!
//! Not here: which event means what.

use super::{OnProgress, Progress, field};

/// The output that is kept of one run; what is longer is somebody else's to keep.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// The longest message of an error that is kept.
const ERROR_BYTES_MAX: usize = 4 << 10;

/// The longest session, model, tool or stop reason that is kept.
const NAME_BYTES_MAX: usize = 256;

/// Tools of one run that are under way at once, as far as they are remembered.
const TOOLS_MAX: usize = 256;

/// Tokens and money, of one run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Tokens that went in and came from no cache.
    pub input: u64,
    /// Tokens that came out, those of thinking included.
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    /// In billionths of a dollar; none where the stream does not tell.
    pub cost_nanos: Option<u64>,
    /// How often the model answered.
    pub turns: u64,
    /// The tokens of the last answer and all that came before it; 0 where that is not told.
    pub context_tokens: u64,
}

impl Usage {
    /// Adds one answer. The context is the latest one's.
    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.turns = self.turns.saturating_add(other.turns);
        self.cost_nanos = match (self.cost_nanos, other.cost_nanos) {
            (Some(before), Some(more)) => Some(before.saturating_add(more)),
            (before, more) => before.or(more),
        };
        if other.context_tokens > 0 {
            self.context_tokens = other.context_tokens;
        }
    }
}

/// Dollars as billionths of them.
pub(super) fn nanos(dollars: f64) -> u64 {
    field::saturate(dollars * 1e9)
}

/// How the last message of an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It had said what it wanted to say.
    Normal,
    /// Cut off by a limit on its length.
    Length,
    /// It called a tool; an answer to the result did not come.
    ToolUse,
    /// Its model failed.
    Error,
    /// It was interrupted.
    Aborted,
    /// Anything else, such as a message still under way.
    Other,
}

/// What kind of error a model met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    Model,
    /// Too many requests, or nothing left of a quota.
    RateLimited,
    /// A limit that the agent CLI keeps itself: turns or money.
    Budget,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamError {
    pub class: ErrorClass,
    /// As the agent wrote it, cut to a few KiB.
    pub text: String,
}

/// A text of which the beginning is kept.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Output {
    /// At most [`OUTPUT_BYTES_MAX`].
    pub text: String,
    /// The length of the whole.
    pub bytes: u64,
}

impl Output {
    /// What is missing from the text.
    pub fn omitted_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.text.len() as u64)
    }

    fn append(&mut self, text: &str) {
        // Once something was left out, nothing may follow it.
        if self.omitted_bytes() == 0 {
            let room = OUTPUT_BYTES_MAX.saturating_sub(self.text.len());
            self.text.push_str(truncate(text, room));
        }
        self.bytes = self.bytes.saturating_add(text.len() as u64);
    }
}

/// The beginning of a text, cut on a character boundary.
pub(super) fn truncate(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// What the stream of one run told.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    pub session: Option<String>,
    pub model: Option<String>,
    /// The text of the last message that has one.
    pub output: Output,
    /// Messages of the agent, failed ones excluded where they are told apart.
    pub messages: u64,
    pub stop: Option<Stop>,
    /// In the words of the dialect.
    pub stop_reason: Option<String>,
    /// The error that the run ended with, as far as the stream went.
    pub error: Option<StreamError>,
    pub usage: Usage,
    /// How often the agent asked its model again after an error.
    pub retries: u64,
    /// The agent said that it had nothing more to do.
    pub is_settled: bool,
    pub events: u64,
    pub unknown_events: u64,
    /// Lines that are no event, the end of a stream that stopped within a line included.
    pub garbage_lines: u64,
    /// Lines longer than [`super::LINE_BYTES_MAX`].
    pub oversized_lines: u64,
    /// Those of them that came after the output and may have held another one.
    pub oversized_since_output: u64,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) report: Report,
    /// Ids and names of tools under way, the oldest first.
    tools: Vec<(String, String)>,
}

impl State {
    pub(super) fn start(&mut self, session: &str, model: &str, sink: OnProgress<'_>) {
        let before = (self.report.session.clone(), self.report.model.clone());
        if !session.is_empty() {
            self.report.session = Some(truncate(session, NAME_BYTES_MAX).to_owned());
        }
        if !model.is_empty() {
            self.report.model = Some(truncate(model, NAME_BYTES_MAX).to_owned());
        }
        if before != (self.report.session.clone(), self.report.model.clone()) {
            let (session, model) = (self.report.session.as_deref(), self.report.model.as_deref());
            sink(Progress::Started { session, model });
        }
    }

    /// Makes this text the output, unless it is blank.
    pub(super) fn set_output(&mut self, text: &str, sink: OnProgress<'_>) {
        if !text.trim().is_empty() {
            self.report.output = Output::default();
            self.report.output.append(text);
            self.confirm_output();
            sink(Progress::Output { text, begins: true });
        }
    }

    /// The output is the newest that there is: what was left out came before it.
    pub(super) fn confirm_output(&mut self) {
        self.report.oversized_since_output = 0;
    }

    /// A line was too long to be read.
    pub(super) fn skip_line(&mut self, may_answer: bool) {
        self.report.oversized_lines += 1;
        self.report.oversized_since_output += u64::from(may_answer);
    }

    /// Adds to an output that comes in pieces.
    pub(super) fn append_output(&mut self, text: &str, sink: OnProgress<'_>) {
        self.report.output.append(text);
        sink(Progress::Output { text, begins: false });
    }

    /// A message ended.
    pub(super) fn stop(&mut self, stop: Stop, reason: &str) {
        self.report.stop = Some(stop);
        let reason = truncate(reason, NAME_BYTES_MAX);
        self.report.stop_reason = (!reason.is_empty()).then(|| reason.to_owned());
    }

    /// A message began, or went well: what failed before does not count.
    pub(super) fn clear_error(&mut self) {
        self.report.error = None;
    }

    pub(super) fn fail(&mut self, class: ErrorClass, text: &str) {
        let text = match truncate(text.trim(), ERROR_BYTES_MAX) {
            "" => "the agent named no reason",
            text => text,
        };
        self.report.error = Some(StreamError { class, text: text.to_owned() });
    }

    /// Until it succeeds, what made it try again is the error.
    pub(super) fn retry(
        &mut self,
        attempt: u64,
        attempts_max: u64,
        reason: &str,
        sink: OnProgress<'_>,
    ) {
        self.report.retries = self.report.retries.saturating_add(1);
        self.report.is_settled = false;
        let reason = truncate(reason, ERROR_BYTES_MAX);
        self.fail(classify(reason), reason);
        sink(Progress::Retrying { attempt, attempts_max, reason });
    }

    pub(super) fn end_turn(&mut self, sink: OnProgress<'_>) {
        sink(Progress::TurnEnded { usage: &self.report.usage });
    }

    pub(super) fn settle(&mut self, sink: OnProgress<'_>) {
        self.report.is_settled = true;
        sink(Progress::Settled);
    }

    pub(super) fn start_tool(&mut self, id: &str, name: &str, sink: OnProgress<'_>) {
        let (id, name) = (truncate(id, NAME_BYTES_MAX), truncate(name, NAME_BYTES_MAX));
        if self.tools.iter().any(|(open, _)| open == id) {
            return;
        }
        if self.tools.len() >= TOOLS_MAX {
            self.tools.remove(0);
        }
        self.tools.push((id.to_owned(), name.to_owned()));
        sink(Progress::ToolStarted { name });
    }

    /// Ends a tool that is under way. Returns whether it was.
    pub(super) fn end_open_tool(&mut self, id: &str, is_error: bool, sink: OnProgress<'_>) -> bool {
        let id = truncate(id, NAME_BYTES_MAX);
        let Some(at) = self.tools.iter().position(|(open, _)| open == id) else { return false };
        let (_, name) = self.tools.remove(at);
        sink(Progress::ToolEnded { name: &name, is_error });
        true
    }

    /// Ends a tool, and begins it first if its beginning was not told.
    pub(super) fn end_tool(&mut self, id: &str, name: &str, is_error: bool, sink: OnProgress<'_>) {
        if !self.end_open_tool(id, is_error, sink) {
            let name = truncate(name, NAME_BYTES_MAX);
            sink(Progress::ToolStarted { name });
            sink(Progress::ToolEnded { name, is_error });
        }
    }
}

/// The status of too many requests.
const TOO_MANY_REQUESTS: &str = "429";

/// How models and CLIs say that there were too many requests, in lower case.
const RATE_WORDS: [&str; 7] = [
    "rate limit",
    "rate_limit",
    "ratelimit",
    "too many requests",
    "resource_exhausted",
    "quota",
    "usage limit",
];

/// What kind of error a message tells of.
pub fn classify(message: &str) -> ErrorClass {
    let message = message.to_lowercase();
    let has_status = message.match_indices(TOO_MANY_REQUESTS).any(|(at, found)| {
        let digit = |char: Option<char>| char.is_some_and(|char| char.is_ascii_digit());
        let before = message[..at].chars().next_back();
        let after = message[at + found.len()..].chars().next();
        !digit(before) && !digit(after)
    });
    if has_status || RATE_WORDS.iter().any(|words| message.contains(words)) {
        ErrorClass::RateLimited
    } else {
        ErrorClass::Model
    }
}
