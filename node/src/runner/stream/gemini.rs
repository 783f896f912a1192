//! Gemini CLI: `gemini -p … --output-format stream-json`, as 0.61.0 writes it.
//!
//! A message comes in pieces (`delta`) and ends where something else comes; output is the last one.
//! Only `result` tells how the run ended. There is no cost, and turns are counted: the model answers
//! the user, and again after tools. That an answer was cut off by its length is not told.
//!
//! Not here: retries, of which only standard error tells.

use serde::Deserialize;

use super::{
    ErrorClass, EventStatus, OnProgress, Parsed, Progress, State, Stop,
    field::{Count, Flag, Str, text},
    ignore,
    state::classify,
    unknown,
};

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// A message is coming in pieces.
    is_within: bool,
    /// What comes next from the model is another answer.
    is_answered: bool,
}

#[derive(Deserialize)]
struct InitEvent<'a> {
    #[serde(borrow)]
    session_id: Option<Str<'a>>,
    #[serde(borrow)]
    model: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct MessageEvent<'a> {
    #[serde(borrow)]
    role: Option<Str<'a>>,
    #[serde(borrow)]
    content: Option<Str<'a>>,
    #[serde(default)]
    delta: Flag,
}

#[derive(Deserialize)]
struct ToolEvent<'a> {
    #[serde(borrow)]
    tool_id: Option<Str<'a>>,
    #[serde(borrow)]
    tool_name: Option<Str<'a>>,
    #[serde(borrow)]
    status: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct ResultEvent<'a> {
    #[serde(borrow)]
    status: Option<Str<'a>>,
    #[serde(borrow)]
    error: Option<ResultError<'a>>,
    stats: Option<Stats>,
}

#[derive(Deserialize)]
struct ResultError<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    #[serde(borrow)]
    message: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Stats {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    cached: Count,
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
            "message" => {
                let event: MessageEvent<'_> = serde_json::from_slice(line)?;
                Ok(self.message(&event, state, sink))
            }
            "tool_use" => {
                let event: ToolEvent<'_> = serde_json::from_slice(line)?;
                self.is_within = false;
                self.count_turn(state);
                state.start_tool(text(&event.tool_id), text(&event.tool_name), sink);
                Ok(EventStatus::Known)
            }
            "tool_result" => {
                let event: ToolEvent<'_> = serde_json::from_slice(line)?;
                self.is_within = false;
                self.is_answered = true;
                let is_error = text(&event.status) != "success";
                state.end_open_tool(text(&event.tool_id), is_error, sink);
                Ok(EventStatus::Known)
            }
            "init" => {
                let event: InitEvent<'_> = serde_json::from_slice(line)?;
                state.start(text(&event.session_id), text(&event.model), sink);
                Ok(EventStatus::Known)
            }
            "result" => {
                let event: ResultEvent<'_> = serde_json::from_slice(line)?;
                self.is_within = false;
                end(&event, state, sink);
                Ok(EventStatus::Known)
            }
            "error" => ignore(line),
            _ => unknown(line),
        }
    }

    fn message(
        &mut self,
        event: &MessageEvent<'_>,
        state: &mut State,
        sink: OnProgress<'_>,
    ) -> EventStatus {
        let said = text(&event.content);
        match text(&event.role) {
            "assistant" => {
                let begins = !self.is_within || !event.delta.0;
                // A blank piece begins no message: an earlier answer stays until there is another.
                if begins && !said.trim().is_empty() {
                    self.count_turn(state);
                    state.stop(Stop::Other, "");
                    state.report.messages += 1;
                    sink(Progress::Text { text: said, begins: true });
                    state.set_output(said, sink);
                    self.is_within = true;
                } else if !begins {
                    sink(Progress::Text { text: said, begins: false });
                    state.append_output(said, sink);
                }
                EventStatus::Known
            }
            "user" => {
                self.is_within = false;
                self.is_answered = true;
                EventStatus::Known
            }
            _ => EventStatus::Unknown,
        }
    }

    fn count_turn(&mut self, state: &mut State) {
        if std::mem::take(&mut self.is_answered) {
            state.report.usage.turns += 1;
        }
    }
}

fn end(event: &ResultEvent<'_>, state: &mut State, sink: OnProgress<'_>) {
    if let Some(stats) = &event.stats {
        let usage = &mut state.report.usage;
        usage.input = stats.input_tokens.0.saturating_sub(stats.cached.0);
        usage.output = stats.output_tokens.0;
        usage.cache_read = stats.cached.0;
    }
    let status = text(&event.status);
    if status == "success" {
        state.clear_error();
        state.stop(Stop::Normal, status);
    } else {
        let kind = event.error.as_ref().map_or("", |error| text(&error.kind));
        let why = event.error.as_ref().map_or("", |error| text(&error.message));
        let class = match kind {
            "FatalTurnLimitedError" => ErrorClass::Budget,
            _ => classify(why),
        };
        state.fail(class, if why.is_empty() { kind } else { why });
        state.stop(Stop::Error, status);
    }
    state.end_turn(sink);
    state.settle(sink);
}
