//! `filebox_resolve_message` and `filebox_reject_message`: out of the inbox, one or many.

use rmcp::model::{CallToolResponse, CallToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tasuki_proto::{
    echo::{bounded, echo},
    limits::{FILE_NAME_BYTES_MAX, MOVES_MAX},
    reason::Reason,
    wire::{self, Box, Moved},
};

use super::{
    super::{
        arguments::missing,
        field_types::Names,
        result::text_result,
        sanitizer::Sanitizer,
        tool::{Tool, ToolInfo},
    },
    CORE,
    caller::{Mailbox, Player, message_name, refused_as},
    views::place,
};
use crate::{link::Moving, mcp::intent, role::Refusal};

const UNKNOWN: &str = "Message not found";

/// Moves messages from your inbox to done.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ResolveMessage {
    /// File name, message ID or ID prefix, or a list of these.
    filename: Names,
}

impl Tool for ResolveMessage {
    const INFO: ToolInfo = ToolInfo::write("filebox_resolve_message", CORE);

    type Caller<'a> = Player<'a>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let move_to = Move { to: Box::Done, done: "Message resolved" };
        move_to.run(&player.caller, self.filename).await
    }
}

/// Moves messages from your inbox to cancel.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RejectMessage {
    /// File name, message ID or ID prefix, or a list of these.
    filename: Names,
}

impl Tool for RejectMessage {
    const INFO: ToolInfo = ToolInfo::write("filebox_reject_message", CORE);

    type Caller<'a> = Player<'a>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let move_to = Move { to: Box::Cancel, done: "Message rejected" };
        move_to.run(&player.caller, self.filename).await
    }
}

struct Move {
    to: Box,
    done: &'static str,
}

/// What became of one, under the name it was asked for by.
struct Outcome {
    /// As it is said back.
    asked: String,
    became: Result<Moved, Refusal>,
}

/// A name as it is said back: whole, unless it is longer than names of messages are.
fn said_back(name: &str) -> String {
    if name.len() <= FILE_NAME_BYTES_MAX { bounded(name) } else { echo(name).to_string() }
}

impl Move {
    async fn run(
        &self,
        mailbox: &Mailbox<'_>,
        Names(names): Names,
    ) -> Result<CallToolResponse, Refusal> {
        const FIELD: &str = "filename";
        if names.is_empty() {
            return Err(missing(FIELD, "give a message or a list of messages"));
        }
        if MOVES_MAX < names.len() {
            return Err(Refusal {
                reason: Reason::TooLarge,
                message: format!(
                    "`{FIELD}` lists {} messages; the limit is {MOVES_MAX}. No message was moved.",
                    names.len()
                ),
            });
        }
        let messages: Vec<String> =
            names.iter().filter(|name| message_name(name).is_ok()).cloned().collect();
        let mut moved = Vec::new();
        if !messages.is_empty() {
            let request = wire::MoveRequest { messages, to: self.to.into(), ..Default::default() };
            mailbox.settled().await;
            let key = intent::of(&mailbox.call.context.meta);
            match mailbox.actions.move_mail(request, key).await? {
                Moving::Moved(response) => moved = response.moved,
                Moving::Queued { number } => return Ok(self.queued(&names, number).into()),
            }
        }
        let mut moved = moved.into_iter();
        let outcomes: Vec<Outcome> = names
            .into_iter()
            .map(|name| {
                let became = match message_name(&name) {
                    Err(why) => Err(why),
                    Ok(()) => moved.next().map_or_else(|| Err(unsaid()), judged),
                };
                Outcome { asked: said_back(&name), became }
            })
            .collect();
        let result = match &outcomes[..] {
            [one] => self.one(one),
            many => self.many(many),
        };
        Ok(result.into())
    }

    fn one(&self, outcome: &Outcome) -> CallToolResult {
        match &outcome.became {
            Ok(moved) => {
                let mut facts = facts(moved);
                facts["message"] = self.done.into();
                text_result(self.done, facts)
            }
            Err(refusal) if refusal.reason == Reason::UnknownMessage => {
                refused_as(UNKNOWN, refusal)
            }
            Err(refusal) => super::super::refused(refusal),
        }
    }

    fn many(&self, outcomes: &[Outcome]) -> CallToolResult {
        let line = |outcome: &Outcome| match &outcome.became {
            Ok(_) => format!("{}: {}", outcome.asked, self.done),
            Err(refusal) if refusal.reason == Reason::UnknownMessage => {
                format!("{}: {UNKNOWN}. {}", outcome.asked, refusal.message)
            }
            Err(refusal) => format!("{}: {}", outcome.asked, refusal.message),
        };
        let text = outcomes.iter().map(line).collect::<Vec<_>>().join("\n");
        let result = |outcome: &Outcome| match &outcome.became {
            Ok(moved) => {
                let mut facts = facts(moved);
                facts["asked"] = outcome.asked.clone().into();
                facts
            }
            Err(refusal) => json!({
                "asked": outcome.asked,
                "error": { "code": refusal.reason.as_str(), "message": refusal.message },
            }),
        };
        let done = outcomes.iter().filter(|it| it.became.is_ok()).count();
        let facts = json!({
            "moved": done,
            "refused": outcomes.len() - done,
            "results": outcomes.iter().map(result).collect::<Vec<_>>(),
        });
        let mut result = text_result(text, facts);
        result.is_error = Some(done == 0);
        result
    }

    fn queued(&self, names: &[String], number: u64) -> CallToolResult {
        let text = format!(
            "Queued as number {number}: the broker is unreachable. It is sent when the broker is \
             back. Do not retry."
        );
        let asked: Vec<String> = names.iter().map(|it| said_back(it)).collect();
        let facts = json!({
            "message": text, "queued": number, "asked": asked, "box": place(self.to),
        });
        text_result(text, facts)
    }
}

fn facts(moved: &Moved) -> Value {
    json!({
        "message_id": moved.message_id,
        "file_name": Sanitizer::default().line(&moved.file_name),
        "box": place(moved.r#box()),
    })
}

fn judged(moved: Moved) -> Result<Moved, Refusal> {
    match &moved.refusal {
        None => Ok(moved),
        Some(refusal) => Err(Refusal {
            reason: Reason::parse(&refusal.reason).unwrap_or(Reason::InvalidArgument),
            message: bounded(&refusal.message),
        }),
    }
}

/// An answer that says nothing of what was asked about.
fn unsaid() -> Refusal {
    Refusal {
        reason: Reason::OutcomeUnknown,
        message: "The broker returned no result for it. Call again.".to_owned(),
    }
}
