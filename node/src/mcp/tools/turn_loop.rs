//! Taking turns at a piece of work: `await_my_turn`, `handover_work`, `loop_status`.
//!
//! Names, parameters and the words of the answers are those of the tools people already have
//! prompts for; what was added are further fields.

mod answer;

use std::{convert::Infallible, sync::Arc, time::Duration};

use rmcp::model::{
    CallToolResponse, CallToolResult, ProgressNotificationParam, Tool, ToolAnnotations,
};
use serde_json::{Value, json};
use tasuki_proto::{
    id::{LoopId, Turn},
    reason::Reason,
    wire,
};
use tokio_util::sync::CancellationToken;

use self::answer::Awaited;
pub(in crate::mcp) use self::answer::Status;
use super::{
    Call,
    arguments::{Arguments, missing},
    result::{said, shown},
    schema,
};
use crate::{
    mcp::{
        hold::{Ask, hold},
        intent,
        transport::handed::Mark,
    },
    role::{Actions, HandOver, Refusal},
};

/// The toolset.
pub(in crate::mcp) const SET: &str = "loop";

pub(super) const AWAIT_MY_TURN: &str = "await_my_turn";
pub(in crate::mcp) const HANDOVER_WORK: &str = "handover_work";
pub(super) const LOOP_STATUS: &str = "loop_status";

/// Between two signs of life during a wait, in milliseconds: a third of the shortest silence
/// that a client takes for death.
const PROGRESS_MS: u64 = 10_000;

/// Before the first of them, in milliseconds: it opens the response, but an answer that is
/// there at once needs none.
const PROGRESS_FIRST_MS: u64 = 200;

/// How long an answer may be overdue, in milliseconds, before the wait ends without it: longer
/// than it takes to find out that the broker is away, and before the client's own limit.
const OVERDUE_MS: u64 = 4_000;

pub(super) fn tools(role_is_required: bool) -> Vec<Tool> {
    let role = |what: &str| json!({ "type": "string", "description": what });
    let loop_id = json!({
        "type": "string",
        "description": "The loop; default `main`."
    });
    let required = |fields: &[&'static str], role: &'static str| -> Vec<&'static str> {
        role_is_required.then_some(role).into_iter().chain(fields.iter().copied()).collect()
    };
    vec![
        Tool::new(
            AWAIT_MY_TURN,
            "Waits until it is your turn and returns what the previous agent did and what you \
             are to do. Call it before starting work. If the answer says still_waiting, call \
             it again at once.",
            schema(
                json!({
                    "agent_id": role("Your role, e.g. A."),
                    "loop": loop_id,
                    "timeout_sec": {
                        "type": "number",
                        "minimum": 0,
                        "description": "Wait at most this long; 0 only looks. Best left out."
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
            "Ends your turn and gives the work to the next agent. Call it when your part is \
             done; then call await_my_turn. Repeating the same call does no harm.",
            schema(
                json!({
                    "current_agent_id": role("Your role, e.g. A."),
                    "work_summary": { "type": "string", "description": "What you did." },
                    "next_instruction": {
                        "type": "string",
                        "description": "What the next agent is to do."
                    },
                    "is_task_complete": {
                        "type": "boolean",
                        "description": "True ends the whole task for everyone."
                    },
                    "loop": loop_id,
                    "to": {
                        "type": "string",
                        "description": "Who is next; default: the next participant in order."
                    },
                    "turn": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "The turn you are ending, as await_my_turn gave it."
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
            "Shows whose turn it is, since when, who waits, and how far the last handover got. \
             Does not wait.",
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
    let loop_id = arguments.loop_id()?;
    let client = call.client.as_ref();
    let asked = arguments.seconds("timeout_sec")?;
    let hold = hold(&Ask {
        client: client.map_or(("", ""), |client| (&client.name, &client.version)),
        transport: call.transport,
        wants_progress: call.context.meta.get_progress_token().is_some(),
        learnt: client.and_then(|client| call.host.learning.hold(client)),
        configured: call.hold,
        asked,
    });
    let _present = actions.connected(&call.client_label());
    if call.takes_tasks && !hold.is_zero() {
        match look(&*actions, &loop_id, &call.host.stopping).await {
            Looked::Told(answer) if answer.can_start || answer.is_finished => {
                call.host.tasks.supersede(&*actions, &loop_id);
                return Ok(CallToolResponse::Complete(given(call, &actions, loop_id, &answer)));
            }
            Looked::Told(_) | Looked::Unanswered => {
                let task = call.host.tasks.create(call, &actions, playing, &loop_id, asked);
                return task.map(CallToolResponse::Task).map_err(|why| Refusal {
                    reason: Reason::Unavailable,
                    message: format!("The system gives no random bytes ({why}). Call again."),
                });
            }
            Looked::Refused(refusal) => return Err(refusal),
        }
    }
    if !hold.is_zero() {
        call.host.tasks.supersede(&*actions, &loop_id);
    }
    let held = call.hold_for(hold);
    let answer = tokio::select! {
        biased;
        () = playing.lost() => Ok(lost(loop_id.as_str())),
        answer = actions.await_turn(&loop_id, hold) => answer,
        () = call.host.stopping.cancelled() => Ok(still_waiting(loop_id.as_str())),
        () = tokio::time::sleep(hold + Duration::from_millis(OVERDUE_MS)) => {
            Ok(still_waiting(loop_id.as_str()))
        }
        () = abandoned(call) => Ok(still_waiting(loop_id.as_str())),
        never = signs_of_life(call) => match never {},
    };
    held.answered();
    Ok(CallToolResponse::Complete(given(call, &actions, loop_id, &answer?)))
}

/// The answer as a result; a turn it gives is handed once it is written.
fn given(
    call: &Call<'_>,
    actions: &Arc<dyn Actions>,
    loop_id: LoopId,
    answer: &wire::TurnAnswer,
) -> CallToolResult {
    if answer.can_start
        && let Some(probe) = &call.probe
    {
        let turn = Turn::from(answer.turn);
        probe.when_written(Mark { actions: Arc::clone(actions), loop_id, turn });
    }
    awaited(&**actions, answer)
}

pub(in crate::mcp) fn awaited(actions: &dyn Actions, answer: &wire::TurnAnswer) -> CallToolResult {
    shown(&Awaited::new(actions.role(), answer))
}

/// What was found out without waiting.
#[derive(Debug)]
pub(in crate::mcp) enum Looked {
    Told(Box<wire::TurnAnswer>),
    Refused(Refusal),
    /// The broker said nothing, or not for now.
    Unanswered,
}

/// Asks whose turn it is, for as long as the broker is worth waiting for.
pub(in crate::mcp) async fn look(
    actions: &dyn Actions,
    loop_id: &LoopId,
    stopping: &CancellationToken,
) -> Looked {
    let answer = tokio::select! {
        biased;
        answer = actions.await_turn(loop_id, Duration::ZERO) => answer,
        () = stopping.cancelled() => return Looked::Unanswered,
        () = tokio::time::sleep(Duration::from_millis(OVERDUE_MS)) => return Looked::Unanswered,
    };
    match answer {
        Ok(answer) => Looked::Told(Box::new(answer)),
        Err(refusal) if is_silence(refusal.reason) => Looked::Unanswered,
        Err(refusal) => Looked::Refused(refusal),
    }
}

/// Whether a refusal says nothing about the question, only that it got no answer for now.
fn is_silence(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Unavailable | Reason::Overloaded | Reason::OutcomeUnknown | Reason::StaleEpoch
    )
}

fn still_waiting(loop_id: &str) -> wire::TurnAnswer {
    wire::TurnAnswer { still_waiting: true, r#loop: loop_id.to_owned(), ..Default::default() }
}

/// Another agent plays the role by now.
fn lost(loop_id: &str) -> wire::TurnAnswer {
    wire::TurnAnswer { superseded: true, r#loop: loop_id.to_owned(), ..Default::default() }
}

/// Resolves when nobody hears the answer any more and nobody came back for it: a session outlives
/// its streams, so its calls go on when their client is gone.
async fn abandoned(call: &Call<'_>) {
    match &call.probe {
        Some(probe) => probe.is_cut().await,
        None => std::future::pending().await,
    }
    tokio::time::sleep(call.host.resume_within).await;
}

/// Progress for as long as it is polled.
async fn signs_of_life(call: &Call<'_>) -> Infallible {
    let Some(token) = call.context.meta.get_progress_token() else {
        return std::future::pending().await;
    };
    tokio::time::sleep(Duration::from_millis(PROGRESS_FIRST_MS)).await;
    let mut count = 0.0;
    loop {
        count += 1.0;
        let sign = ProgressNotificationParam::new(token.clone(), count)
            .with_message("waiting for the turn");
        if call.context.peer.notify_progress(sign).await.is_err() {
            // The stream is gone but a session outlives it: the wait itself goes on.
            return std::future::pending().await;
        }
        tokio::time::sleep(Duration::from_millis(PROGRESS_MS)).await;
    }
}

pub(super) async fn handover_work(
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    const DONE: &str = "Handover successful. Turn switched.";
    let (actions, _playing) = call.player(arguments, "current_agent_id", SET)?;
    let is_task_complete = arguments
        .flag("is_task_complete")?
        .ok_or_else(|| missing("is_task_complete", "true ends the whole task, false goes on"))?;
    let summary = arguments.words("work_summary", "say what you did")?;
    let instruction = if is_task_complete {
        arguments.text("next_instruction")?.unwrap_or_default()
    } else {
        arguments.words("next_instruction", "say what the next agent is to do")?
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
