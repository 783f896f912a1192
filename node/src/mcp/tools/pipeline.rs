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

/// Attempts of one pipeline in a result, the newest: as many as an agent reads.
const ATTEMPTS_MAX: usize = 50;

/// The error of one of them, but of the newest, which is whole.
const ERROR_BYTES_MAX: usize = 512;

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

/// Returns how a pipeline stands: its phase, newest attempts, errors and what waits for a person.
/// Without `board` it lists pipelines by board, at most 50.
#[derive(Debug, Deserialize, JsonSchema)]
struct PipelineStatusTool {
    /// Board of the pipeline.
    board: Option<Id<BoardName>>,
    /// Without `board`: only pipelines that have not ended.
    only_open: Option<bool>,
    /// Without `board`: only pipelines of boards after this one.
    after: Option<Id<BoardName>>,
}

impl Tool for PipelineStatusTool {
    const INFO: ToolInfo = ToolInfo::read("pipeline_status", CORE);

    type Caller<'a> = Reader<'a, Pipelines>;

    async fn call(self, reader: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let actions = &reader.caller.actions;
        let Some(Id(board)) = self.board else {
            let request = wire::ListPipelinesRequest {
                only_open: self.only_open.unwrap_or_default(),
                after: self.after.map(|it| it.0.to_string()).unwrap_or_default(),
                ..Default::default()
            };
            let list = actions.query(request).await?;
            return Ok(json_result(&PipelineList::new(&list)).into());
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
        let approval = PendingApproval::find(&board, &get(&caller.actions, &board).await?)?;
        let question = Question {
            kind: "approve-phase",
            about: approval.about.as_bytes(),
            message: approval.message,
            whether: "whether they approve it",
            declined: "Your user did not approve it. The pipeline waits.",
        };
        if let Some(asked) = confirm(caller.call, &question).await? {
            return Ok(asked);
        }
        let person = os_user::person().map_err(|why| invalid("board", &why))?;
        let request =
            wire::DecideApprovalRequest { person: person.to_string(), ..approval.request };
        let decided = caller.actions.command(request, None).await?;
        let it = decided.pipeline.unwrap_or_default();
        let text = format!("Your user approved it. The pipeline is at phase {}.", it.phase);
        Ok(text_result(text, json!(View::new(&it))).into())
    }
}

/// What a user is asked to approve, and what is sent once they did.
#[derive(Debug)]
struct PendingApproval {
    /// All that the answer holds for.
    about: String,
    /// The question.
    message: String,
    /// Approves the attempt and the checkpoint that the question names, and nothing else.
    request: wire::DecideApprovalRequest,
}

impl PendingApproval {
    /// What waits for an approval.
    ///
    /// # Errors
    /// When nothing does: then nobody is asked, and nothing may be sent.
    fn find(board: &BoardName, it: &wire::Pipeline) -> Result<Self, Refusal> {
        let none = |why: String| {
            let message = format!(
                "nothing of the pipeline of board {board} waits for an approval: {why}. Your user \
                 was not asked, and nothing was done"
            );
            Refusal { reason: Reason::NoApprovalPending, message }
        };
        let newest = match (it.status(), it.attempts.last()) {
            (PipelineStatus::AwaitingApproval, Some(newest)) => newest,
            (PipelineStatus::Running, _) => {
                return Err(none(format!("phase {} is not done yet", it.phase)));
            }
            (PipelineStatus::Completed | PipelineStatus::Failed | PipelineStatus::Canceled, _) => {
                return Err(none("it has ended".to_owned()));
            }
            (PipelineStatus::AwaitingApproval | PipelineStatus::Unspecified, _) => {
                return Err(none("its status is not known to this release".to_owned()));
            }
        };
        let attempt = newest.attempt;
        // A broker of an earlier release says only what the attempt wrote.
        let checkpoint = if it.checkpoint == 0 { newest.written } else { it.checkpoint };
        Ok(Self {
            about: format!(
                "{board}/{}/{attempt}/{checkpoint}/{}",
                it.started_ms, it.approval_lapses_ms
            ),
            message: format!(
                "Approve what {} did in phase {} of the pipeline {board} (attempt {attempt}, \
                 checkpoint {checkpoint})? Read it with `tasuki board show {board} --checkpoint \
                 {checkpoint}`.",
                newest.role, newest.phase
            ),
            request: wire::DecideApprovalRequest {
                board: board.to_string(),
                attempt,
                checkpoint: it.checkpoint,
                approve: true,
                ..Default::default()
            },
        })
    }
}

/// Pipelines as tools list them.
#[derive(Debug, Serialize)]
struct PipelineList {
    note: &'static str,
    pipelines: Vec<View>,
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
}

impl PipelineList {
    fn new(list: &wire::ListPipelinesResponse) -> Self {
        let hint = match list.next.as_str() {
            "" => String::new(),
            next => format!(
                "There are more pipelines. For those after these, call again with after {next:?}; \
                 with only_open those that ended are left out."
            ),
        };
        Self { note: FRAME, pipelines: list.pipelines.iter().map(View::new).collect(), hint }
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
    /// The board's newest.
    #[serde(skip_serializing_if = "is_nothing")]
    checkpoint: u64,
    /// Attempts before those that are shown.
    #[serde(skip_serializing_if = "is_nothing")]
    omitted_attempts: usize,
    attempts: Vec<AttemptView>,
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
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
        let omitted = it.attempts.len().saturating_sub(ATTEMPTS_MAX);
        let newest = it.attempts.len().saturating_sub(1);
        let mut is_cut = false;
        let attempts = it.attempts.iter().enumerate().skip(omitted).map(|(index, it)| {
            let bytes_max = if index == newest { it.error.len() } else { ERROR_BYTES_MAX };
            let end = it.error.floor_char_boundary(bytes_max);
            let mut error = others.text(&it.error[..end]);
            if end < it.error.len() {
                error.push('…');
                is_cut = true;
            }
            AttemptView {
                attempt: it.attempt,
                phase: it.phase.clone(),
                role: it.role.clone(),
                status: enum_name(it.status().as_str_name(), "ATTEMPT_STATUS_"),
                node: it.node.clone(),
                checkpoint: it.written,
                error,
            }
        });
        let attempts = attempts.collect();
        let hint = match (omitted, is_cut) {
            (0, false) => String::new(),
            (0, true) => format!("Long errors are cut. {}", all_of(&it.board)),
            (_, false) => format!("Older attempts are left out. {}", all_of(&it.board)),
            (_, true) => {
                format!("Older attempts are left out, long errors cut. {}", all_of(&it.board))
            }
        };
        Self {
            board: it.board.clone(),
            status: enum_name(it.status().as_str_name(), "PIPELINE_STATUS_"),
            phase: it.phase.clone(),
            retries: it.retries,
            note: FRAME,
            error: others.text(&it.error),
            approval_lapses: Time(it.approval_lapses_ms),
            checkpoint: it.checkpoint,
            omitted_attempts: omitted,
            attempts,
            hint,
        }
    }
}

fn all_of(board: &str) -> String {
    format!("`tasuki pipeline status {board}` shows all.")
}

#[cfg(test)]
mod tests {
    use tasuki_proto::wire::{AttemptStatus, PhaseAttempt};

    use super::*;

    fn pipeline(status: PipelineStatus, attempts: u32, error: &str) -> wire::Pipeline {
        let attempt = |attempt| PhaseAttempt {
            attempt,
            phase: "plan".to_owned(),
            role: "pm".to_owned(),
            status: AttemptStatus::Failed.into(),
            written: 3,
            error: error.to_owned(),
            ..Default::default()
        };
        wire::Pipeline {
            board: "b".to_owned(),
            status: status.into(),
            phase: "plan".to_owned(),
            attempts: (1..=attempts).map(attempt).collect(),
            checkpoint: 5,
            ..Default::default()
        }
    }

    #[test]
    fn only_what_waits_for_an_approval_is_sent_and_nothing_that_was_not_shown() {
        let board: BoardName = "b".parse().unwrap();
        let find = |it: &wire::Pipeline| PendingApproval::find(&board, it);
        for (status, why) in [
            (PipelineStatus::Running, "phase plan is not done yet"),
            (PipelineStatus::Completed, "it has ended"),
            (PipelineStatus::Failed, "it has ended"),
            (PipelineStatus::Canceled, "it has ended"),
            (PipelineStatus::Unspecified, "its status is not known to this release"),
        ] {
            let refusal = find(&pipeline(status, 2, "")).unwrap_err();
            assert_eq!(refusal.reason, Reason::NoApprovalPending, "{status:?}");
            assert!(refusal.message.contains(why), "{status:?}: {}", refusal.message);
        }
        let waiting = pipeline(PipelineStatus::AwaitingApproval, 2, "");
        let approval = find(&waiting).unwrap();
        assert_eq!((approval.request.attempt, approval.request.checkpoint), (2, 5));
        assert!(approval.request.approve && approval.message.contains("attempt 2, checkpoint 5"));
        // An answer holds for nothing else.
        for change in [
            |it: &mut wire::Pipeline| it.checkpoint = 6,
            |it: &mut wire::Pipeline| it.attempts[1].attempt = 3,
            |it: &mut wire::Pipeline| it.started_ms = 1,
        ] {
            let mut other = waiting.clone();
            change(&mut other);
            assert_ne!(find(&other).unwrap().about, approval.about);
        }
        // A broker of an earlier release does not know of it.
        let earlier = wire::Pipeline { checkpoint: 0, ..waiting };
        let approval = find(&earlier).unwrap();
        assert_eq!(approval.request.checkpoint, 0);
        assert!(approval.message.contains("--checkpoint 3`"), "{}", approval.message);
    }

    #[test]
    fn many_attempts_with_long_errors_stay_readable_and_what_is_left_out_is_said() {
        let error = "ä".repeat(2048);
        let view = View::new(&pipeline(PipelineStatus::Failed, 500, &error));
        let bytes = serde_json::to_string(&view).unwrap().len();
        assert!(bytes < 64 * 1024, "{bytes}");
        assert_eq!((view.omitted_attempts, view.attempts.len()), (450, ATTEMPTS_MAX));
        assert_eq!((view.attempts[0].attempt, view.attempts[49].attempt), (451, 500));
        assert!(view.attempts[48].error.ends_with('…'));
        assert_eq!(view.attempts[49].error, error, "the newest is whole");
        let hint =
            "Older attempts are left out, long errors cut. `tasuki pipeline status b` shows all.";
        assert_eq!(view.hint, hint);
        let view = View::new(&pipeline(PipelineStatus::Failed, 2, "no"));
        assert_eq!((view.omitted_attempts, view.hint.as_str()), (0, ""));
    }

    #[test]
    fn a_list_says_that_there_are_more() {
        let mut list = wire::ListPipelinesResponse {
            pipelines: vec![pipeline(PipelineStatus::Running, 1, "")],
            next: "b".to_owned(),
        };
        assert!(PipelineList::new(&list).hint.contains("after \"b\""));
        list.next.clear();
        assert_eq!(PipelineList::new(&list).hint, "");
    }
}
