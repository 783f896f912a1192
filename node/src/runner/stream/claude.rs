//! Claude Code: `claude -p --output-format stream-json --verbose`, with or without
//! `--include-partial-messages`, as 2.1.197 and 2.1.330 write it; also the one line of
//! `--output-format json`.
//!
//! Only the last line, `result`, tells how the run ended. Its `subtype` is `success` even when the
//! model failed: `is_error` counts. Usage and cost of the whole run stand there; until it comes they
//! are summed from the messages, of which each block is an event of its own. Output is the result's
//! text, else the last block of text. What Claude's own sub-agents say is no output and no turn.
//!
//! Not here: `--input-format stream-json`.

use serde::Deserialize;

use super::{
    ErrorClass, EventStatus, OnProgress, Parsed, Progress, State, Stop, Usage,
    field::{Count, Flag, Number, Parts, Str, text},
    ignore,
    state::{classify, nanos, truncate},
    unknown,
};

/// The longest message id that is compared.
const ID_BYTES_MAX: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// The message whose blocks come.
    message_id: String,
    /// A tool's result came since: what follows is another message.
    is_answered: bool,
    /// Some text of the block came as a delta.
    has_deltas: bool,
    /// The text that comes next begins a block.
    part_begins: bool,
}

#[derive(Deserialize)]
struct SystemEvent<'a> {
    #[serde(borrow)]
    subtype: Option<Str<'a>>,
    #[serde(borrow)]
    session_id: Option<Str<'a>>,
    #[serde(borrow)]
    model: Option<Str<'a>>,
    #[serde(default)]
    attempt: Count,
    #[serde(default)]
    max_retries: Count,
    #[serde(borrow)]
    error: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct MessageEvent<'a> {
    #[serde(borrow)]
    message: Message<'a>,
    #[serde(borrow)]
    parent_tool_use_id: Option<Str<'a>>,
    #[serde(borrow)]
    error: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow, default)]
    content: Parts<Block<'a>>,
    usage: Option<ClaudeUsage>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    #[serde(borrow)]
    text: Option<Str<'a>>,
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    name: Option<Str<'a>>,
    #[serde(borrow)]
    tool_use_id: Option<Str<'a>>,
    #[serde(default)]
    is_error: Flag,
}

#[derive(Deserialize)]
struct ClaudeUsage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    cache_read_input_tokens: Count,
    #[serde(default)]
    cache_creation_input_tokens: Count,
}

impl ClaudeUsage {
    fn usage(&self) -> Usage {
        Usage {
            input: self.input_tokens.0,
            output: self.output_tokens.0,
            cache_read: self.cache_read_input_tokens.0,
            cache_write: self.cache_creation_input_tokens.0,
            ..Usage::default()
        }
    }
}

#[derive(Deserialize)]
struct ResultEvent<'a> {
    #[serde(borrow)]
    subtype: Option<Str<'a>>,
    #[serde(default)]
    is_error: Flag,
    #[serde(default)]
    api_error_status: Count,
    #[serde(default)]
    num_turns: Count,
    #[serde(borrow)]
    result: Option<Str<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Str<'a>>,
    #[serde(borrow)]
    session_id: Option<Str<'a>>,
    total_cost_usd: Option<Number>,
    usage: Option<ClaudeUsage>,
    #[serde(borrow)]
    errors: Option<Vec<Str<'a>>>,
}

#[derive(Deserialize)]
struct StreamEvent<'a> {
    #[serde(borrow)]
    event: RawEvent<'a>,
    #[serde(borrow)]
    parent_tool_use_id: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    #[serde(borrow)]
    text: Option<Str<'a>>,
}

impl Parser {
    pub(super) fn read(
        &mut self,
        kind: &str,
        line: &[u8],
        state: &mut State,
        sink: OnProgress<'_>,
    ) -> Parsed {
        match kind {
            "stream_event" => {
                let event: StreamEvent<'_> = serde_json::from_slice(line)?;
                if event.parent_tool_use_id.is_none() {
                    self.delta(&event.event, sink);
                }
                Ok(EventStatus::Known)
            }
            "assistant" => {
                let event: MessageEvent<'_> = serde_json::from_slice(line)?;
                self.assistant(&event, state, sink);
                Ok(EventStatus::Known)
            }
            "user" => {
                let event: MessageEvent<'_> = serde_json::from_slice(line)?;
                self.is_answered |= event.parent_tool_use_id.is_none();
                for block in &event.message.content.0 {
                    if text(&block.kind) == "tool_result" {
                        state.end_open_tool(text(&block.tool_use_id), block.is_error.0, sink);
                    }
                }
                Ok(EventStatus::Known)
            }
            "result" => {
                let event: ResultEvent<'_> = serde_json::from_slice(line)?;
                end(&event, state, sink);
                Ok(EventStatus::Known)
            }
            "system" => {
                let event: SystemEvent<'_> = serde_json::from_slice(line)?;
                match text(&event.subtype) {
                    "init" => state.start(text(&event.session_id), text(&event.model), sink),
                    "api_retry" => {
                        let reason = text(&event.error);
                        state.retry(event.attempt.0, event.max_retries.0, reason, sink);
                    }
                    _ => {}
                }
                Ok(EventStatus::Known)
            }
            "rate_limit_event" | "tool_progress" | "tool_use_summary" | "auth_status"
            | "prompt_suggestion" | "control_request" | "control_response" | "keep_alive" => {
                ignore(line)
            }
            _ => unknown(line),
        }
    }

    fn delta(&mut self, event: &RawEvent<'_>, sink: OnProgress<'_>) {
        match (text(&event.kind), &event.delta) {
            ("content_block_start", _) => self.part_begins = true,
            ("content_block_delta", Some(delta)) if text(&delta.kind) == "text_delta" => {
                self.has_deltas = true;
                let begins = std::mem::take(&mut self.part_begins);
                sink(Progress::Text { text: text(&delta.text), begins });
            }
            _ => {}
        }
    }

    fn assistant(&mut self, event: &MessageEvent<'_>, state: &mut State, sink: OnProgress<'_>) {
        let is_own = event.parent_tool_use_id.is_none();
        let failed = event.error.as_ref().map(Str::as_str);
        let is_new = is_own && failed.is_none() && self.count(&event.message, state);
        for block in &event.message.content.0 {
            match text(&block.kind) {
                "tool_use" => state.start_tool(text(&block.id), text(&block.name), sink),
                "text" if is_own => match failed {
                    None => {
                        if !std::mem::take(&mut self.has_deltas) {
                            sink(Progress::Text { text: text(&block.text), begins: true });
                        }
                        state.set_output(text(&block.text), sink);
                    }
                    Some(code) => {
                        let class = match code {
                            "rate_limit" => ErrorClass::RateLimited,
                            _ => classify(text(&block.text)),
                        };
                        state.fail(class, text(&block.text));
                        state.stop(Stop::Error, code);
                    }
                },
                _ => {}
            }
        }
        if is_new {
            state.end_turn(sink);
        }
    }

    /// Counts a message once, with the first of its blocks. Returns whether it is that one.
    fn count(&mut self, message: &Message<'_>, state: &mut State) -> bool {
        let id = truncate(text(&message.id), ID_BYTES_MAX);
        let is_new = std::mem::take(&mut self.is_answered) || self.message_id != id;
        if !is_new && state.report.messages > 0 {
            return false;
        }
        id.clone_into(&mut self.message_id);
        state.clear_error();
        state.stop(Stop::Other, "");
        state.report.messages += 1;
        let used = message.usage.as_ref().map_or_else(Usage::default, ClaudeUsage::usage);
        let context = used.input.saturating_add(used.cache_read).saturating_add(used.cache_write);
        let context_tokens = context.saturating_add(used.output);
        state.report.usage.add(&Usage { turns: 1, context_tokens, ..used });
        true
    }
}

/// The status of too many requests.
const TOO_MANY_REQUESTS: u64 = 429;

fn end(event: &ResultEvent<'_>, state: &mut State, sink: OnProgress<'_>) {
    state.start(text(&event.session_id), "", sink);
    let usage = event.usage.as_ref().map(ClaudeUsage::usage);
    let before = state.report.usage;
    state.report.usage = Usage {
        cost_nanos: event.total_cost_usd.map(|dollars| nanos(dollars.0)).or(before.cost_nanos),
        turns: if event.num_turns.0 > 0 { event.num_turns.0 } else { before.turns },
        context_tokens: before.context_tokens,
        ..usage.unwrap_or(before)
    };
    let (subtype, said) = (text(&event.subtype), text(&event.result));
    let reason = text(&event.stop_reason);
    if event.is_error.0 || subtype != "success" {
        let first = event.errors.as_ref().and_then(|errors| errors.first());
        let why = match (said, first.map_or("", Str::as_str)) {
            ("", "") => subtype,
            ("", first) => first,
            (said, _) => said,
        };
        let class = match subtype {
            "error_max_turns" | "error_max_budget_usd" => ErrorClass::Budget,
            _ if event.api_error_status.0 == TOO_MANY_REQUESTS => ErrorClass::RateLimited,
            _ => classify(why),
        };
        state.fail(class, why);
        state.stop(Stop::Error, if subtype == "success" { "error" } else { subtype });
    } else {
        if state.report.output.text != said {
            state.set_output(said, sink);
        } else if !said.is_empty() {
            state.confirm_output();
        }
        state.report.messages = state.report.messages.max(1);
        match reason {
            "max_tokens" | "model_context_window_exceeded" => state.stop(Stop::Length, reason),
            "refusal" => {
                state.fail(ErrorClass::Model, "the model refused to answer");
                state.stop(Stop::Error, reason);
            }
            _ => {
                state.clear_error();
                state.stop(Stop::Normal, reason);
            }
        }
    }
    state.end_turn(sink);
    state.settle(sink);
}
