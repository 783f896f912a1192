//! Taking turns at a piece of work: `await_my_turn`, `handover_work`, `loop_status`.
//!
//! Names, parameters and the words of the answers are those of the tools people already have
//! prompts for; what was added are further fields.

mod answer;
mod labels;

use rmcp::model::{CallToolResponse, CallToolResult, Tool, ToolAnnotations};
use serde_json::{Value, json};
use tasuki_proto::{id::Turn, wire};

use self::answer::Awaited;
pub(in crate::mcp) use self::answer::Status;
use super::{
    Call,
    arguments::{Arguments, missing},
    result::{said, shown},
    schema,
    waiting::wait,
};
use crate::{
    mcp::{
        intent,
        question::{About, Asking},
    },
    role::{Actions, HandOver, Refusal},
};

/// The toolset.
pub(in crate::mcp) const SET: &str = "loop";

pub(in crate::mcp) const AWAIT_MY_TURN: &str = "await_my_turn";
pub(in crate::mcp) const HANDOVER_WORK: &str = "handover_work";
pub(in crate::mcp) const LOOP_STATUS: &str = "loop_status";

pub(super) fn tools(role_is_required: bool) -> Vec<Tool> {
    let role = |what: &str| json!({ "type": "string", "description": what });
    let loop_id = json!({
        "type": "string",
        "description": "Loop name. Default `main`."
    });
    let required = |fields: &[&'static str], role: &'static str| -> Vec<&'static str> {
        role_is_required.then_some(role).into_iter().chain(fields.iter().copied()).collect()
    };
    vec![
        Tool::new(
            AWAIT_MY_TURN,
            "Waits for your turn. Returns what the previous agent did and your instruction. Call \
             it before you start work. If the result is still_waiting, call it again immediately.",
            schema(
                json!({
                    "agent_id": role("Your role, e.g. A."),
                    "loop": loop_id,
                    "timeout_sec": {
                        "type": "number",
                        "minimum": 0,
                        "description": "Seconds. 0 returns immediately. Omit it to wait as long as \
                                        your client allows."
                    },
                }),
                &required(&[], "agent_id"),
            ),
        )
        .with_annotations(
            ToolAnnotations::new().read_only(true).idempotent(true).open_world(false),
        ),
        Tool::new(
            HANDOVER_WORK,
            "Ends your turn and hands the work to the next agent. Call it when your part is done, \
             then call await_my_turn. Repeating the same call is safe.",
            schema(
                json!({
                    "current_agent_id": role("Your role, e.g. A."),
                    "work_summary": { "type": "string", "description": "What you did." },
                    "next_instruction": {
                        "type": "string",
                        "description": "What the next agent should do."
                    },
                    "is_task_complete": {
                        "type": "boolean",
                        "description": "true ends the task for all agents."
                    },
                    "loop": loop_id,
                    "to": {
                        "type": "string",
                        "description": "Role that gets the turn. Default: the next participant in \
                                        order."
                    },
                    "turn": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "Number of the turn that you end, from await_my_turn."
                    },
                }),
                &required(
                    &["work_summary", "next_instruction", "is_task_complete"],
                    "current_agent_id",
                ),
            ),
        )
        .with_annotations(
            ToolAnnotations::new()
                .read_only(false)
                .destructive(false)
                .idempotent(true)
                .open_world(false),
        ),
        Tool::new(
            LOOP_STATUS,
            "Returns whose turn it is and since when, who is waiting, and the state of the last \
             handover. Does not wait.",
            schema(
                json!({ "agent_id": role("Your role, e.g. A."), "loop": loop_id }),
                &required(&[], "agent_id"),
            ),
        )
        .with_annotations(
            ToolAnnotations::new().read_only(true).idempotent(true).open_world(false),
        ),
    ]
}

pub(super) async fn await_my_turn(
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResponse, Refusal> {
    let (actions, playing) = call.player(arguments, "agent_id", SET)?;
    let asking = Asking { actions, about: About::Turn(arguments.loop_id()?) };
    wait(call, playing, asking, arguments.seconds("timeout_sec")?).await
}

pub(in crate::mcp) fn awaited(actions: &dyn Actions, answer: &wire::TurnAnswer) -> CallToolResult {
    shown(&Awaited::new(actions.role(), answer))
}

pub(super) async fn handover_work(
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    const DONE: &str = "Handover successful. Turn switched.";
    let (actions, _playing) = call.player(arguments, "current_agent_id", SET)?;
    let is_task_complete = arguments.flag("is_task_complete")?.ok_or_else(|| {
        missing("is_task_complete", "true ends the whole task, false continues it")
    })?;
    let summary = arguments.words("work_summary", "describe your work")?;
    let instruction = if is_task_complete {
        arguments.text("next_instruction")?.unwrap_or_default()
    } else {
        arguments.words("next_instruction", "say what the next agent should do")?
    };
    let done = actions
        .hand_over(HandOver {
            loop_id: arguments.loop_id()?,
            summary,
            instruction,
            is_task_complete,
            to: arguments.id("to")?,
            turn: arguments.number("turn")?.filter(|turn| *turn != 0).map(Turn::from),
            key: intent::of(&call.context.meta),
        })
        .await?;
    let mut facts = json!({
        // Some clients show a model the facts alone.
        "message": DONE,
        "ended_turn": done.ended_turn,
        "is_finished": done.is_finished,
        "repeated": done.repeated,
    });
    if let Value::Object(facts) = &mut facts
        && !done.is_finished
    {
        facts.insert("turn".to_owned(), done.turn.into());
        facts.insert("to".to_owned(), done.to.into());
    }
    Ok(said(DONE, facts))
}

pub(super) async fn loop_status(
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let actions = call.spectator(arguments, "agent_id", SET)?;
    let loop_id = arguments.loop_id()?;
    let seen = actions.loop_status(&loop_id).await?;
    Ok(shown(&Status::new(loop_id.as_str(), &seen)))
}
