//! opencode: `opencode run --format json`, captured from 1.18.33.
//!
//! A step is one answer of the model; `step_finish` tells how it ended and what it used, its cost
//! included. Text and tools come whole, when they are done, and not always in their order. Each step
//! counts as a message. An `error` event ends the run with code 1; a rate limit or a failing server
//! is tried again without a word, for minutes. The model's name is not told.
//!
//! Not here: `opencode serve`, whose events are others.

use serde::Deserialize;

use super::{
    ErrorClass, EventStatus, OnProgress, Parsed, Progress, State, Stop, Usage,
    field::{Count, Number, Str, text},
    ignore,
    state::{classify, nanos},
    unknown,
};

/// The status of too many requests.
const TOO_MANY_REQUESTS: u64 = 429;

#[derive(Debug)]
pub(super) struct Parser;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartEvent<'a> {
    #[serde(borrow, rename = "sessionID")]
    session_id: Option<Str<'a>>,
    #[serde(borrow)]
    part: Part<'a>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Str<'a>>,
    #[serde(borrow)]
    tool: Option<Str<'a>>,
    #[serde(borrow, rename = "callID")]
    call_id: Option<Str<'a>>,
    #[serde(borrow)]
    state: Option<ToolState<'a>>,
    #[serde(borrow)]
    reason: Option<Str<'a>>,
    tokens: Option<Tokens>,
    cost: Option<Number>,
}

#[derive(Deserialize)]
struct ToolState<'a> {
    #[serde(borrow)]
    status: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Tokens {
    #[serde(default)]
    input: Count,
    #[serde(default)]
    output: Count,
    #[serde(default)]
    reasoning: Count,
    cache: Option<Cache>,
}

#[derive(Deserialize)]
struct Cache {
    #[serde(default)]
    read: Count,
    #[serde(default)]
    write: Count,
}

#[derive(Deserialize)]
struct ErrorEvent<'a> {
    #[serde(borrow, rename = "sessionID")]
    session_id: Option<Str<'a>>,
    #[serde(borrow)]
    error: Option<RunError<'a>>,
}

#[derive(Deserialize)]
struct RunError<'a> {
    #[serde(borrow)]
    name: Option<Str<'a>>,
    #[serde(borrow)]
    data: Option<ErrorData<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorData<'a> {
    #[serde(borrow)]
    message: Option<Str<'a>>,
    #[serde(default)]
    status_code: Count,
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
            "text" | "tool_use" | "step_start" | "step_finish" => {
                let event: PartEvent<'_> = serde_json::from_slice(line)?;
                state.start(text(&event.session_id), "", sink);
                part(kind, &event.part, state, sink);
                Ok(EventStatus::Known)
            }
            "error" => {
                let event: ErrorEvent<'_> = serde_json::from_slice(line)?;
                state.start(text(&event.session_id), "", sink);
                fail(event.error.as_ref(), state);
                Ok(EventStatus::Known)
            }
            "reasoning" => ignore(line),
            _ => unknown(line),
        }
    }
}

fn part(kind: &str, part: &Part<'_>, state: &mut State, sink: OnProgress<'_>) {
    match kind {
        "text" => {
            let said = text(&part.text);
            sink(Progress::Text { text: said, begins: true });
            state.set_output(said, sink);
        }
        "tool_use" => {
            let status = part.state.as_ref().map_or("", |tool| text(&tool.status));
            state.end_tool(text(&part.call_id), text(&part.tool), status == "error", sink);
        }
        "step_finish" => finish_step(part, state, sink),
        _ => {
            state.clear_error();
            state.stop(Stop::Other, "");
        }
    }
}

fn finish_step(part: &Part<'_>, state: &mut State, sink: OnProgress<'_>) {
    let reason = text(&part.reason);
    let stop = match reason {
        "stop" => Stop::Normal,
        "length" => Stop::Length,
        "tool-calls" => Stop::ToolUse,
        "error" | "content-filter" => Stop::Error,
        _ => Stop::Other,
    };
    if stop == Stop::Error {
        state.fail(ErrorClass::Model, reason);
    }
    state.stop(stop, reason);
    state.report.messages += 1;
    let mut used = Usage { turns: 1, ..Usage::default() };
    if let Some(tokens) = &part.tokens {
        used.input = tokens.input.0;
        used.output = tokens.output.0.saturating_add(tokens.reasoning.0);
        if let Some(cache) = &tokens.cache {
            used.cache_read = cache.read.0;
            used.cache_write = cache.write.0;
        }
        let cached = used.cache_read.saturating_add(used.cache_write);
        used.context_tokens = used.input.saturating_add(used.output).saturating_add(cached);
    }
    used.cost_nanos = part.cost.map(|dollars| nanos(dollars.0));
    state.report.usage.add(&used);
    state.end_turn(sink);
    if stop == Stop::Normal {
        state.settle(sink);
    }
}

fn fail(error: Option<&RunError<'_>>, state: &mut State) {
    let name = error.map_or("", |error| text(&error.name));
    let data = error.and_then(|error| error.data.as_ref());
    let why = match data.map_or("", |data| text(&data.message)) {
        "" => name,
        why => why,
    };
    let class = match data.map_or(0, |data| data.status_code.0) {
        TOO_MANY_REQUESTS => ErrorClass::RateLimited,
        _ => classify(why),
    };
    state.fail(class, why);
    match name {
        "MessageAbortedError" => state.stop(Stop::Aborted, name),
        "MessageOutputLengthError" => state.stop(Stop::Length, name),
        _ => state.stop(Stop::Error, "error"),
    }
}
