//! pi: `pi --mode json -p --no-session`, as 0.73.1 to 1.5.2 write it.
//!
//! The final output is the first text part of the last assistant message that has one, as pi's own
//! sub-agent extension takes it; a blank part counts as none. A message that ended in an error counts
//! as a turn and not as a message.
//!
//! Up to 0.83 each `message_update` carries the whole message so far, twice. Of that only the delta
//! is parsed. `tool_result_end` is taken for a tool's result, though no version was seen to write it.
//!
//! Not here: RPC mode, whose events are the same; its responses are ignored.

use serde::Deserialize;

use super::{
    ErrorClass, EventStatus, OnProgress, Parsed, Progress, State, Stop, Usage,
    field::{Count, Flag, Number, Parts, Str, text},
    ignore,
    state::{classify, nanos},
    unknown,
};

/// Events that hold no answer, or one that a `message_end` holds, too. The last of a run has all of
/// its messages, and so may be longer than any other.
pub(super) const NO_ANSWERS: [&str; 7] = [
    "message_update",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
    "entry_appended",
    "turn_end",
    "agent_end",
];

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// The text that comes next begins a part.
    part_begins: bool,
    /// Some text of the message came as a delta.
    has_deltas: bool,
}

#[derive(Deserialize)]
struct SessionEvent<'a> {
    #[serde(borrow)]
    id: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct MessageEvent<'a> {
    #[serde(borrow)]
    message: Message<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    #[serde(borrow)]
    role: Option<Str<'a>>,
    #[serde(borrow, default)]
    content: Parts<Part<'a>>,
    #[serde(borrow)]
    provider: Option<Str<'a>>,
    #[serde(borrow)]
    model: Option<Str<'a>>,
    usage: Option<PiUsage>,
    #[serde(borrow)]
    stop_reason: Option<Str<'a>>,
    #[serde(borrow)]
    error_message: Option<Str<'a>>,
    #[serde(borrow)]
    tool_call_id: Option<Str<'a>>,
    #[serde(default)]
    is_error: Flag,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    #[serde(borrow)]
    text: Option<Str<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PiUsage {
    #[serde(default)]
    input: Count,
    #[serde(default)]
    output: Count,
    #[serde(default)]
    cache_read: Count,
    #[serde(default)]
    cache_write: Count,
    #[serde(default)]
    total_tokens: Count,
    cost: Option<Cost>,
}

#[derive(Deserialize)]
struct Cost {
    #[serde(default)]
    total: Number,
}

#[derive(Deserialize)]
struct UpdateEvent<'a> {
    #[serde(borrow, rename = "assistantMessageEvent")]
    update: Option<Update<'a>>,
}

#[derive(Deserialize)]
struct Update<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    #[serde(borrow)]
    delta: Option<Str<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolEvent<'a> {
    #[serde(borrow)]
    tool_call_id: Option<Str<'a>>,
    #[serde(borrow)]
    tool_name: Option<Str<'a>>,
    #[serde(default)]
    is_error: Flag,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentEndEvent {
    #[serde(default)]
    will_retry: Flag,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RetryEvent<'a> {
    #[serde(default)]
    attempt: Count,
    #[serde(default)]
    max_attempts: Count,
    #[serde(borrow)]
    error_message: Option<Str<'a>>,
    #[serde(default)]
    success: Flag,
    #[serde(borrow)]
    final_error: Option<Str<'a>>,
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
            "message_update" => {
                let event: UpdateEvent<'_> = serde_json::from_slice(line)?;
                self.update(event.update.as_ref(), sink);
                Ok(EventStatus::Known)
            }
            "message_start" => {
                let event: MessageEvent<'_> = serde_json::from_slice(line)?;
                Ok(self.message_start(&event.message, state, sink))
            }
            "message_end" | "tool_result_end" => {
                let event: MessageEvent<'_> = serde_json::from_slice(line)?;
                Ok(self.message_end(&event.message, state, sink))
            }
            "session" => {
                let event: SessionEvent<'_> = serde_json::from_slice(line)?;
                state.start(text(&event.id), "", sink);
                Ok(EventStatus::Known)
            }
            "tool_execution_start" => {
                let event: ToolEvent<'_> = serde_json::from_slice(line)?;
                state.start_tool(text(&event.tool_call_id), text(&event.tool_name), sink);
                Ok(EventStatus::Known)
            }
            "tool_execution_end" => {
                let event: ToolEvent<'_> = serde_json::from_slice(line)?;
                let (id, name) = (text(&event.tool_call_id), text(&event.tool_name));
                state.end_tool(id, name, event.is_error.0, sink);
                Ok(EventStatus::Known)
            }
            "agent_end" => {
                let event: AgentEndEvent = serde_json::from_slice(line)?;
                // Before 0.75.4 a retry is not announced here: its `auto_retry_start` takes this back.
                state.report.is_settled = !event.will_retry.0;
                Ok(EventStatus::Known)
            }
            "agent_settled" => {
                ignore(line)?;
                state.settle(sink);
                Ok(EventStatus::Known)
            }
            "auto_retry_start" => {
                let event: RetryEvent<'_> = serde_json::from_slice(line)?;
                let reason = text(&event.error_message);
                state.retry(event.attempt.0, event.max_attempts.0, reason, sink);
                Ok(EventStatus::Known)
            }
            "auto_retry_end" => {
                let event: RetryEvent<'_> = serde_json::from_slice(line)?;
                let reason = text(&event.final_error);
                if event.success.0 {
                    state.clear_error();
                } else if !reason.is_empty() {
                    state.fail(classify(reason), reason);
                }
                Ok(EventStatus::Known)
            }
            "agent_start"
            | "turn_start"
            | "turn_end"
            | "tool_execution_update"
            | "entry_appended"
            | "queue_update"
            | "compaction_start"
            | "compaction_end"
            | "session_info_changed"
            | "thinking_level_changed"
            | "bash_execution_update"
            | "extension_error"
            | "response" => ignore(line),
            other if other.starts_with("summarization_retry_") => ignore(line),
            _ => unknown(line),
        }
    }

    fn update(&mut self, update: Option<&Update<'_>>, sink: OnProgress<'_>) {
        let Some(update) = update else { return };
        match text(&update.kind) {
            "text_start" => self.part_begins = true,
            "text_delta" => {
                self.has_deltas = true;
                let begins = std::mem::take(&mut self.part_begins);
                sink(Progress::Text { text: text(&update.delta), begins });
            }
            _ => {}
        }
    }

    fn message_start(
        &mut self,
        message: &Message<'_>,
        state: &mut State,
        sink: OnProgress<'_>,
    ) -> EventStatus {
        match text(&message.role) {
            "assistant" => {
                self.part_begins = true;
                self.has_deltas = false;
                let model = match (text(&message.provider), text(&message.model)) {
                    ("", model) => model.to_owned(),
                    (_, "") => String::new(),
                    (provider, model) => format!("{provider}/{model}"),
                };
                state.start("", &model, sink);
                EventStatus::Known
            }
            role => seen_role(role),
        }
    }

    fn message_end(
        &mut self,
        message: &Message<'_>,
        state: &mut State,
        sink: OnProgress<'_>,
    ) -> EventStatus {
        match text(&message.role) {
            "assistant" => {
                self.assistant_end(message, state, sink);
                EventStatus::Known
            }
            role @ ("toolResult" | "tool_result") => {
                state.end_open_tool(text(&message.tool_call_id), message.is_error.0, sink);
                seen_role(role)
            }
            role => seen_role(role),
        }
    }

    fn assistant_end(&mut self, message: &Message<'_>, state: &mut State, sink: OnProgress<'_>) {
        let reason = text(&message.stop_reason);
        let stop = match reason {
            "stop" => Stop::Normal,
            "length" => Stop::Length,
            "toolUse" => Stop::ToolUse,
            "error" => Stop::Error,
            "aborted" => Stop::Aborted,
            _ => Stop::Other,
        };
        let mut parts = message.content.0.iter().filter(|part| text(&part.kind) == "text");
        let said = parts.find(|part| !text(&part.text).trim().is_empty());
        let said = said.map_or("", |part| text(&part.text));
        if !said.is_empty() && !std::mem::take(&mut self.has_deltas) {
            sink(Progress::Text { text: said, begins: true });
        }
        state.set_output(said, sink);
        state.stop(stop, reason);
        match stop {
            Stop::Error => {
                let why = text(&message.error_message);
                state.fail(classify(why), why);
            }
            Stop::Aborted => state.fail(ErrorClass::Model, text(&message.error_message)),
            Stop::Normal | Stop::Length | Stop::ToolUse | Stop::Other => {
                state.clear_error();
                state.report.messages += 1;
            }
        }
        let usage = message.usage.as_ref();
        state.report.usage.add(&usage.map_or_else(Usage::default, |used| Usage {
            input: used.input.0,
            output: used.output.0,
            cache_read: used.cache_read.0,
            cache_write: used.cache_write.0,
            cost_nanos: used.cost.as_ref().map(|cost| nanos(cost.total.0)),
            turns: 0,
            context_tokens: used.total_tokens.0,
        }));
        state.report.usage.turns += 1;
        state.end_turn(sink);
    }
}

/// Whether a role other than the assistant's is one that pi has.
fn seen_role(role: &str) -> EventStatus {
    match role {
        "user" | "system" | "toolResult" | "tool_result" | "custom" | "bashExecution"
        | "branchSummary" | "compactionSummary" => EventStatus::Known,
        _ => EventStatus::Unknown,
    }
}
