//! Phases that roles do one after another: `pipeline_run`, `pipeline_status`,
//! `pipeline_ask_approval`.
//!
//! What waits for a person is approved by nobody but the user of the agent's client: the tool asks
//! that user, and a model cannot answer for them.

use std::sync::Arc;

use rmcp::model::{CallToolResponse, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tasuki_proto::{
    enum_name::enum_name,
    id::{BoardName, RoleId},
    reason::Reason,
    wire::{self, PipelineStatus},
};

use super::{
    Call, Part, Toolset,
    arguments::invalid,
    board::channel_updates,
    caller::{FindRole, Player, Reader, find_able},
    elicit::{Question, can_ask, confirm},
    field_types::Id,
    result::{Time, json_result, text_result},
    sanitizer::{FRAME, Sanitizer},
    tool::{Membership, RoleArgument, Tool, ToolDef, ToolInfo},
    view::is_nothing,
};
use crate::{
    mcp::intent,
    os_user,
    pipeline::file,
    role::{Actions, Refusal},
    toolset::{PIPELINE, ToolVisibility},
};

pub(super) struct Pipelines;

static TOOLS: [ToolDef; 3] = [
    ToolDef::new::<PipelineRun>(),
    ToolDef::new::<PipelineStatusTool>(),
    ToolDef::new::<PipelineAskApproval>(),
];

const CORE: &[Membership] = &[Membership { set: PIPELINE, from: ToolVisibility::Core }];

impl Toolset for Pipelines {
    fn tools(&self) -> &'static [ToolDef] {
        &TOOLS
    }

    fn part(&self, _: &RoleId, _: &[&str], _: &[RoleId]) -> Option<&'static dyn Part> {
        None
    }

    /// Their descriptions say it all.
    fn prompt_note(&self, _: &[&str]) -> Option<&'static str> {
        None
    }
}

impl FindRole for Pipelines {
    const ARGUMENTS: &'static [RoleArgument] = &[];

    fn find_role(call: &Call<'_>, tool: &ToolDef) -> Result<Arc<dyn Actions>, Refusal> {
        find_able(call, tool, "role", Reason::UnknownRole)
    }
}

/// Starts a pipeline on a board: roles do phases one after another, and what fails leads back.
/// Returns at once; pipeline_status says how it stands.
#[derive(Debug, Deserialize, JsonSchema)]
struct PipelineRun {
    /// Board that it works on, and its name. Made if it does not exist.
    board: Id<BoardName>,
    /// The pipeline's file: TOML with a [[phase]] table for each phase. Default: plan by pm, code by
    /// dev, test by qa, review by arch.
    file: Option<String>,
    /// Written to the board first: channel names with their values, such as requirements.
    #[schemars(with = "Option<JsonObject>")]
    #[expect(dead_code, reason = "they are passed on as they came, not as they are read")]
    updates: Option<Value>,
}

impl Tool for PipelineRun {
    const INFO: ToolInfo = ToolInfo::write("pipeline_run", CORE);

    type Caller<'a> = Player<'a, Pipelines>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let caller = &player.caller;
        let text = self.file.as_deref().unwrap_or(file::DEFAULT);
        let definition = file::read(text).map_err(|problems| {
            let lines = problems.iter().map(|it| format!("line {}: {}", it.line, it.what));
            invalid("file", &format!("does not work: {}", lines.collect::<Vec<_>>().join("; ")))
        })?;
        let arguments = &caller.call.arguments;
        let updates = match arguments.get("updates") {
            None | Some(Value::Null) => Vec::new(),
            Some(_) => channel_updates(arguments)?,
        };
        let request = wire::StartPipelineRequest {
            board: self.board.0.to_string(),
            definition: Some(definition),
            updates,
            ..Default::default()
        };
        let key = intent::of(&caller.call.context.meta);
        let started = caller.actions.command(request, key).await?;
        Ok(json_result(&View::new(&started.pipeline.unwrap_or_default())).into())
    }
}

/// Returns how a pipeline stands: its phase, attempts, errors and what waits for a person. Without
/// `board` it lists the pipelines.
#[derive(Debug, Deserialize, JsonSchema)]
struct PipelineStatusTool {
    /// Board of the pipeline.
    board: Option<Id<BoardName>>,
}

impl Tool for PipelineStatusTool {
    const INFO: ToolInfo = ToolInfo::read("pipeline_status", CORE);

    type Caller<'a> = Reader<'a, Pipelines>;

    async fn call(self, reader: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let actions = &reader.caller.actions;
        let Some(Id(board)) = self.board else {
            let list = actions.query(wire::ListPipelinesRequest::default()).await?;
            let all: Vec<View> = list.pipelines.iter().map(View::new).collect();
            return Ok(json_result(&json!({ "note": FRAME, "pipelines": all })).into());
        };
        Ok(json_result(&View::new(&get(actions, &board).await?)).into())
    }
}

async fn get(actions: &Arc<dyn Actions>, board: &BoardName) -> Result<wire::Pipeline, Refusal> {
    let request = wire::GetPipelineRequest { board: board.to_string(), ..Default::default() };
    Ok(actions.query(request).await?.pipeline.unwrap_or_default())
}

/// Asks your user whether they approve what a phase did, so that the next phase begins. Call it when
/// pipeline_status says awaiting_approval. Your user decides; do not answer for them.
#[derive(Debug, Deserialize, JsonSchema)]
struct PipelineAskApproval {
    /// Board of the pipeline.
    board: Id<BoardName>,
}

impl Tool for PipelineAskApproval {
    const INFO: ToolInfo = ToolInfo::write("pipeline_ask_approval", CORE);

    type Caller<'a> = Player<'a, Pipelines>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let caller = &player.caller;
        let board = self.board.0;
        if !can_ask(caller.call) {
            let message = format!(
                "Your client cannot ask your user. Ask them to type `tasuki pipeline approve \
                 {board}`, or to open the page Pipelines."
            );
            return Err(Refusal { reason: Reason::RightForbidden, message });
        }
        let it = get(&caller.actions, &board).await?;
        let newest = it.attempts.last().cloned().unwrap_or_default();
        if it.status() == PipelineStatus::AwaitingApproval {
            let about = format!("{board}/{}/{}", newest.attempt, newest.written);
            let question = Question {
                kind: "approve-phase",
                about: about.as_bytes(),
                message: format!(
                    "Approve what {} did in phase {} of the pipeline {board} (attempt {}, \
                     checkpoint {})? Read it with `tasuki board show {board} --checkpoint {}`.",
                    newest.role, newest.phase, newest.attempt, newest.written, newest.written
                ),
                whether: "whether they approve it",
                declined: "Your user did not approve it. The pipeline waits.",
            };
            if let Some(asked) = confirm(caller.call, &question).await? {
                return Ok(asked);
            }
        }
        // The broker says why nothing waits.
        let person = os_user::person().map_err(|why| invalid("board", &why))?;
        let request = wire::DecideApprovalRequest {
            person: person.to_string(),
            board: board.to_string(),
            attempt: newest.attempt,
            approve: true,
            ..Default::default()
        };
        let decided = caller.actions.command(request, None).await?;
        let it = decided.pipeline.unwrap_or_default();
        let text = format!("Your user approved it. The pipeline is at phase {}.", it.phase);
        Ok(text_result(text, json!(View::new(&it))).into())
    }
}

/// A pipeline as tools return it.
#[derive(Debug, Serialize)]
struct View {
    board: String,
    status: String,
    phase: String,
    #[serde(skip_serializing_if = "is_nothing")]
    retries: u32,
    note: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    #[serde(skip_serializing_if = "is_nothing")]
    approval_lapses: Time,
    attempts: Vec<AttemptView>,
}

#[derive(Debug, Serialize)]
struct AttemptView {
    attempt: u32,
    phase: String,
    role: String,
    status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    node: String,
    /// What it wrote.
    #[serde(skip_serializing_if = "is_nothing")]
    checkpoint: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
}

impl View {
    fn new(it: &wire::Pipeline) -> Self {
        let mut others = Sanitizer::default();
        let attempts = it.attempts.iter().map(|it| AttemptView {
            attempt: it.attempt,
            phase: it.phase.clone(),
            role: it.role.clone(),
            status: enum_name(it.status().as_str_name(), "ATTEMPT_STATUS_"),
            node: it.node.clone(),
            checkpoint: it.written,
            error: others.text(&it.error),
        });
        Self {
            board: it.board.clone(),
            status: enum_name(it.status().as_str_name(), "PIPELINE_STATUS_"),
            phase: it.phase.clone(),
            retries: it.retries,
            note: FRAME,
            attempts: attempts.collect(),
            error: Sanitizer::default().text(&it.error),
            approval_lapses: Time(it.approval_lapses_ms),
        }
    }
}
