//! Taking turns at a piece of work: `await_my_turn`, `handover_work`, `loop_status`.
//!
//! Names, parameters and the words of the answers are those of the tools people already have
//! prompts for; what was added are further fields.

mod labels;
mod prompt;
mod views;

use std::sync::Arc;

use rmcp::model::{CallToolResponse, CallToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tasuki_proto::{
    id::{LoopId, RoleId, Turn},
    limits::LOOP_DEFAULT,
    wire,
};

pub(in crate::mcp) use self::views::LoopView;
use self::views::TurnView;
use super::{
    Call, Part, Toolset,
    arguments::invalid,
    caller::{FindRole, Player, Reader},
    field_types::{Id, Seconds, Text},
    no_set,
    result::{json_result, text_result},
    sanitizer::Sanitizer,
    tool::{Listed, Membership, RoleArgument, Tool, ToolDef, ToolInfo},
    waiting::{loop_paused, wait},
};
use crate::{
    mcp::{
        intent,
        question::{About, Asking},
    },
    role::{Actions, HandOver, Refusal},
    toolset::{LOOP, ToolVisibility},
};

pub(in crate::mcp) const HANDOVER_WORK: &str = HandoverWork::INFO.name;

pub(super) struct TurnLoop;

static TOOLS: [ToolDef; 3] =
    [ToolDef::new::<AwaitMyTurn>(), ToolDef::new::<HandoverWork>(), ToolDef::new::<LoopStatus>()];

impl Toolset for TurnLoop {
    fn tools(&self) -> &'static [ToolDef] {
        &TOOLS
    }

    fn part(&self, role: &RoleId, sets: &[&str], order: &[RoleId]) -> Option<&'static dyn Part> {
        sets.contains(&LOOP).then(|| prompt::part(role, order) as &dyn Part)
    }

    fn prompt_note(&self, _: &[&str]) -> Option<&'static str> {
        Some(
            "Only if your user asks you to take turns: await_my_turn, do the work it returns, \
             handover_work.",
        )
    }
}

const SETS: &[Membership] = &[Membership { set: LOOP, from: ToolVisibility::Core }];

const AGENT_ID: &[RoleArgument] = &[RoleArgument {
    name: "agent_id",
    listed: Listed::RequiredOfMany,
    description: "Your role, e.g. A.",
}];

const CURRENT_AGENT_ID: &[RoleArgument] =
    &[RoleArgument { name: "current_agent_id", ..AGENT_ID[0] }];

impl FindRole for TurnLoop {
    const ARGUMENTS: &'static [RoleArgument] = AGENT_ID;

    fn find_role(call: &Call<'_>, tool: &ToolDef) -> Result<Arc<dyn Actions>, Refusal> {
        let named = call.named_role(tool)?;
        let field = tool.role.first().map_or("", |it| it.name);
        let actions = call.scope.resolve(call.host, field, named.as_deref())?;
        match call.host.has_set(actions.role(), LOOP) {
            true => Ok(actions),
            false => Err(no_set(actions.role(), LOOP)),
        }
    }
}

/// The loop that is meant: the one every workspace starts with, unless another one is named.
fn loop_id(named: Option<Id<LoopId>>) -> LoopId {
    let default = || LOOP_DEFAULT.parse().expect("the default is a name");
    named.map_or_else(default, |Id(named)| named)
}

/// Waits for your turn. Returns what the previous agent did and your instruction. Call it before
/// you start work. If the result is still_waiting, call it again immediately. If it is paused, tell
/// your user why and end your turn.
#[derive(Debug, Deserialize, JsonSchema)]
struct AwaitMyTurn {
    /// Loop name. Default `main`.
    r#loop: Option<Id<LoopId>>,
    /// Seconds. 0 returns immediately. Omit it to wait as long as your client allows.
    timeout_sec: Option<Seconds>,
}

impl Tool for AwaitMyTurn {
    const INFO: ToolInfo = ToolInfo::read("await_my_turn", SETS);

    type Caller<'a> = Player<'a, TurnLoop>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let Player { caller, playing } = player;
        let about = About::Turn(loop_id(self.r#loop));
        let asking = Asking { actions: caller.actions, about };
        wait(caller.call, playing, asking, self.timeout_sec.map(|it| it.0)).await
    }
}

/// The answer to a wait for a turn, as a result.
pub(in crate::mcp) fn turn_result(
    actions: &dyn Actions,
    answer: &wire::TurnAnswer,
) -> CallToolResult {
    json_result(&TurnView::new(actions.role(), answer))
}

/// Ends your turn and hands the work to the next agent. Call it when your part is done, then call
/// await_my_turn. Repeating the same call is safe.
#[derive(Debug, Deserialize, JsonSchema)]
struct HandoverWork {
    /// What you did.
    work_summary: Text,
    /// What the next agent should do.
    #[schemars(required)]
    next_instruction: Option<Text>,
    /// true ends the task for all agents. Default false.
    is_task_complete: Option<bool>,
    /// Loop name. Default `main`.
    r#loop: Option<Id<LoopId>>,
    /// Role that gets the turn. Default: the next participant in order.
    to: Option<Id<RoleId>>,
    /// Number of the turn that you end, from await_my_turn.
    #[schemars(range(min = 1))]
    turn: Option<u64>,
}

impl Tool for HandoverWork {
    const INFO: ToolInfo = ToolInfo::write("handover_work", SETS).with_role(CURRENT_AGENT_ID);

    type Caller<'a> = Player<'a, TurnLoop>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        const DONE: &str = "Handover successful. Turn switched.";
        let instruction = self.next_instruction.map(|it| it.0).unwrap_or_default();
        let is_task_complete = self.is_task_complete.unwrap_or_default();
        if instruction.is_empty() && !is_task_complete {
            return Err(invalid(
                "next_instruction",
                &"is empty: say what the next agent should do",
            ));
        }
        let (caller, loop_id) = (&player.caller, loop_id(self.r#loop));
        let done = caller
            .actions
            .hand_over(HandOver {
                loop_id: loop_id.clone(),
                summary: self.work_summary.0,
                instruction,
                is_task_complete,
                to: self.to.map(|it| it.0),
                turn: self.turn.filter(|turn| *turn != 0).map(Turn::from),
                key: intent::of(&caller.call.context.meta),
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
        let Some(pause) = &done.pause else { return Ok(text_result(DONE, facts).into()) };
        let mut others = Sanitizer::default();
        let because = others.line(&pause.reason);
        let note = loop_paused(loop_id.as_str());
        let text = format!("{DONE} {note}");
        if let Value::Object(facts) = &mut facts {
            facts.insert("paused".to_owned(), true.into());
            facts.insert("paused_because".to_owned(), because.into());
            facts.insert("hint".to_owned(), note.into());
        }
        Ok(text_result(&text, facts).into())
    }
}

/// Returns whose turn it is and since when, who is waiting, and the state of the last handover.
/// Does not wait.
#[derive(Debug, Deserialize, JsonSchema)]
struct LoopStatus {
    /// Loop name. Default `main`.
    r#loop: Option<Id<LoopId>>,
}

impl Tool for LoopStatus {
    const INFO: ToolInfo = ToolInfo::read("loop_status", SETS);

    type Caller<'a> = Reader<'a, TurnLoop>;

    async fn call(self, reader: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let loop_id = loop_id(self.r#loop);
        let seen = reader.caller.actions.loop_status(&loop_id).await?;
        Ok(json_result(&LoopView::new(loop_id.as_str(), &seen)).into())
    }
}
