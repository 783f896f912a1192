//! Codex: `codex exec --json`, as 0.169.0 writes it.
//!
//! Usage is told once, at the end, for all of the run; its input includes what came from the cache
//! and what was written to it. There is no cost and no model. Turns are counted from the items: the
//! model answers once at the beginning, and again after tools that ended. `error` items are warnings;
//! an `error` event may be a retry (`Reconnecting... 1/5`), and `turn.failed` decides.
//!
//! Not here: sub-agents of Codex, whose items look like any other tool.

use serde::Deserialize;

use super::{
    EventStatus, OnProgress, Parsed, Progress, State, Stop,
    field::{Count, Str, text},
    ignore,
    state::classify,
    unknown,
};

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// A tool ended: what comes next is another answer of the model.
    is_answered: bool,
}

#[derive(Deserialize)]
struct ThreadEvent<'a> {
    #[serde(borrow)]
    thread_id: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct ItemEvent<'a> {
    #[serde(borrow)]
    item: Item<'a>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    #[serde(borrow)]
    text: Option<Str<'a>>,
    #[serde(borrow)]
    server: Option<Str<'a>>,
    #[serde(borrow)]
    tool: Option<Str<'a>>,
    #[serde(borrow)]
    status: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct TurnCompleted {
    usage: Option<CodexUsage>,
}

#[derive(Deserialize)]
struct CodexUsage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    cached_input_tokens: Count,
    #[serde(default)]
    cache_write_input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
}

#[derive(Deserialize)]
struct TurnFailed<'a> {
    #[serde(borrow)]
    error: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    message: Option<Str<'a>>,
}

/// What an item is.
enum Kind {
    Message,
    Tool,
    /// Shown by other clients, nothing to tell here.
    Other,
    Unknown,
}

/// How a retry begins.
const RECONNECTING: &str = "Reconnecting...";

impl Parser {
    pub(super) fn read(
        &mut self,
        kind: &str,
        line: &[u8],
        state: &mut State,
        sink: OnProgress<'_>,
    ) -> Parsed {
        match kind {
            "item.started" | "item.updated" | "item.completed" => {
                let event: ItemEvent<'_> = serde_json::from_slice(line)?;
                Ok(self.item(kind, &event.item, state, sink))
            }
            "thread.started" => {
                let event: ThreadEvent<'_> = serde_json::from_slice(line)?;
                state.start(text(&event.thread_id), "", sink);
                Ok(EventStatus::Known)
            }
            "turn.started" => {
                ignore(line)?;
                state.clear_error();
                state.stop(Stop::Other, "");
                self.is_answered = false;
                state.report.usage.turns += 1;
                Ok(EventStatus::Known)
            }
            "turn.completed" => {
                let event: TurnCompleted = serde_json::from_slice(line)?;
                if let Some(used) = event.usage {
                    let (read, write) =
                        (used.cached_input_tokens.0, used.cache_write_input_tokens.0);
                    let usage = &mut state.report.usage;
                    usage.input = used.input_tokens.0.saturating_sub(read).saturating_sub(write);
                    usage.output = used.output_tokens.0;
                    usage.cache_read = read;
                    usage.cache_write = write;
                }
                state.clear_error();
                state.stop(Stop::Normal, "completed");
                state.end_turn(sink);
                state.settle(sink);
                Ok(EventStatus::Known)
            }
            "turn.failed" => {
                let event: TurnFailed<'_> = serde_json::from_slice(line)?;
                let why = event.error.as_ref().map_or("", |error| text(&error.message));
                state.fail(classify(why), why);
                state.stop(Stop::Error, "failed");
                state.end_turn(sink);
                state.settle(sink);
                Ok(EventStatus::Known)
            }
            "error" => {
                let event: Message<'_> = serde_json::from_slice(line)?;
                let why = text(&event.message);
                if let Some(rest) = why.strip_prefix(RECONNECTING) {
                    let (attempt, attempts_max) = numbers(rest);
                    state.retry(attempt, attempts_max, why, sink);
                } else {
                    state.fail(classify(why), why);
                }
                Ok(EventStatus::Known)
            }
            _ => unknown(line),
        }
    }

    fn item(
        &mut self,
        kind: &str,
        item: &Item<'_>,
        state: &mut State,
        sink: OnProgress<'_>,
    ) -> EventStatus {
        let item_kind = text(&item.kind);
        let class = match item_kind {
            "agent_message" => Kind::Message,
            "command_execution" | "mcp_tool_call" | "file_change" | "web_search"
            | "collab_tool_call" | "image_generation" | "image_view" => Kind::Tool,
            "reasoning" | "error" | "todo_list" | "plan" => Kind::Other,
            _ => Kind::Unknown,
        };
        let is_model = match class {
            Kind::Message | Kind::Tool => true,
            Kind::Other => item_kind == "reasoning",
            Kind::Unknown => false,
        };
        let ends = kind == "item.completed";
        match class {
            Kind::Message if ends => {
                self.count_turn(state);
                let said = text(&item.text);
                state.report.messages += 1;
                sink(Progress::Text { text: said, begins: true });
                state.set_output(said, sink);
            }
            Kind::Tool => {
                let name = match (text(&item.server), text(&item.tool)) {
                    ("", "") => item_kind.to_owned(),
                    ("", tool) => tool.to_owned(),
                    (server, tool) => format!("{server}.{tool}"),
                };
                let id = text(&item.id);
                if ends {
                    let is_error = matches!(text(&item.status), "failed" | "declined");
                    if !state.end_open_tool(id, is_error, sink) {
                        self.count_turn(state);
                        state.end_tool(id, &name, is_error, sink);
                    }
                    self.is_answered = true;
                } else if kind == "item.started" {
                    self.count_turn(state);
                    state.start_tool(id, &name, sink);
                }
            }
            Kind::Message | Kind::Other | Kind::Unknown => {
                if is_model && ends {
                    self.count_turn(state);
                }
            }
        }
        if matches!(class, Kind::Unknown) { EventStatus::Unknown } else { EventStatus::Known }
    }

    fn count_turn(&mut self, state: &mut State) {
        if std::mem::take(&mut self.is_answered) {
            state.report.usage.turns += 1;
        }
    }
}

/// `2/5` at the beginning of a text.
fn numbers(text: &str) -> (u64, u64) {
    let numbers = text.split_whitespace().next().and_then(|word| word.split_once('/'));
    let (attempt, attempts_max) = numbers.unwrap_or_default();
    (attempt.parse().unwrap_or(0), attempts_max.parse().unwrap_or(0))
}
