//! Shared state with checkpoints: `board_read`, `board_update`, `board_wait`, `board_history`,
//! `board_fork`.

mod args;
mod views;

use std::{collections::BTreeSet, sync::Arc};

use rmcp::model::{CallToolResponse, CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tasuki_proto::{
    board::ChannelName,
    id::{BoardName, RoleId},
    reason::Reason,
    wire::{self, board_answer::Standing},
};

pub(super) use self::args::channel_updates;
use self::views::{BoardList, History, ReadBoard, WaitedBoard};
use super::{
    Call, Part, Toolset,
    arguments::invalid,
    caller::{FindRole, Player, Reader, find_able},
    field_types::{Id, Name, Names, Seconds},
    result::{json_result, text_result},
    tool::{Membership, RoleArgument, Tool, ToolDef, ToolInfo},
    waiting::wait,
};
use crate::{
    mcp::{
        intent,
        question::{About, Asking},
    },
    role::{Actions, Refusal},
    toolset::{BOARD, ToolVisibility},
    wait::BoardAwaited,
};

pub(super) struct Boards;

static TOOLS: [ToolDef; 5] = [
    ToolDef::new::<BoardRead>(),
    ToolDef::new::<BoardUpdate>(),
    ToolDef::new::<BoardWait>(),
    ToolDef::new::<BoardHistory>(),
    ToolDef::new::<BoardFork>(),
];

const CORE: &[Membership] = &[Membership { set: BOARD, from: ToolVisibility::Core }];
const FULL: &[Membership] = &[Membership { set: BOARD, from: ToolVisibility::Full }];

impl Toolset for Boards {
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

impl FindRole for Boards {
    const ARGUMENTS: &'static [RoleArgument] = &[];

    fn find_role(call: &Call<'_>, tool: &ToolDef) -> Result<Arc<dyn Actions>, Refusal> {
        find_able(call, tool, "role", Reason::UnknownRole)
    }
}

/// Channels by name.
fn channels(names: Option<Names>) -> Result<BTreeSet<ChannelName>, Refusal> {
    let names = names.unwrap_or_default().0;
    names.iter().map(|it| it.parse().map_err(|why| invalid("channels", &why))).collect()
}

/// Returns a board's values and the number of its newest checkpoint, or without `board` lists the
/// boards.
#[derive(Debug, Deserialize, JsonSchema)]
struct BoardRead {
    /// Board name.
    board: Option<Id<BoardName>>,
    /// Checkpoint to read. Default: the newest.
    checkpoint: Option<u64>,
    /// Channels to return. Default: all.
    channels: Option<Names>,
}

impl Tool for BoardRead {
    const INFO: ToolInfo = ToolInfo::read("board_read", CORE);

    type Caller<'a> = Reader<'a, Boards>;

    async fn call(self, reader: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let actions = &reader.caller.actions;
        let Some(Id(board)) = self.board else {
            let boards = actions.query(wire::ListBoardsRequest::default()).await?;
            return Ok(json_result(&BoardList::new(&boards)).into());
        };
        let channels = channels(self.channels)?;
        let request = wire::ReadBoardRequest {
            board: board.to_string(),
            checkpoint: self.checkpoint.unwrap_or_default(),
            channels: channels.iter().map(ToString::to_string).collect(),
            ..Default::default()
        };
        let answer = actions.query(request).await?;
        Ok(json_result(&ReadBoard::new(&answer, !channels.is_empty())).into())
    }
}

/// Writes to a board's channels as one checkpoint, and makes the board if it does not exist. A new
/// board has the channels task_id, requirements, messages, current_phase, artifacts, retry_count,
/// last_error, review_comments and is_approved. Updates of messages and review_comments are lists
/// that are added; updates of artifacts set keys. If it is refused with stale_checkpoint, read the
/// board and update again.
#[derive(Debug, Deserialize, JsonSchema)]
struct BoardUpdate {
    /// Board name.
    board: Id<BoardName>,
    /// Channel names with their new values.
    #[schemars(with = "JsonObject")]
    #[expect(dead_code, reason = "they are passed on as they came, not as they are read")]
    updates: Value,
    /// Schema of a new board: agent_state (default), any, or a JSON Schema whose properties are the
    /// channels; a property's `reducer` is last_value, append, add_messages or merge.
    #[expect(dead_code, reason = "it is passed on as it came, not as it is read")]
    schema: Option<args::SchemaText>,
    /// Checkpoint that the update is based on; it is refused if the board has a newer one. 0: the
    /// board must not exist yet.
    expected_checkpoint: Option<u64>,
    /// Idempotency key: a repeat on this board is not written twice.
    write_key: Option<Name>,
}

impl Tool for BoardUpdate {
    const INFO: ToolInfo = ToolInfo::write("board_update", CORE);

    type Caller<'a> = Player<'a, Boards>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let caller = &player.caller;
        let request = wire::UpdateBoardRequest {
            board: self.board.0.to_string(),
            updates: channel_updates(&caller.call.arguments)?,
            schema: args::schema_text(&caller.call.arguments)?,
            expected_checkpoint: self.expected_checkpoint,
            write_key: self.write_key.unwrap_or_default().0,
            ..Default::default()
        };
        let key = intent::of(&caller.call.context.meta);
        Ok(updated(&caller.actions.command(request, key).await?).into())
    }
}

fn updated(it: &wire::UpdateBoardResponse) -> CallToolResult {
    let (board, checkpoint) = (&it.board, it.checkpoint);
    let again = if it.repeated { " It was written before." } else { "" };
    let facts = json!({ "board": board, "checkpoint": checkpoint, "repeated": it.repeated });
    text_result(format!("Wrote checkpoint {checkpoint} of board {board}.{again}"), facts)
}

/// Waits until a board has a checkpoint newer than `after_checkpoint`. Returns which channels
/// changed; read them with board_read. If the result is still_waiting, call it again immediately.
#[derive(Debug, Deserialize, JsonSchema)]
struct BoardWait {
    /// Board name. It may not exist yet.
    board: Id<BoardName>,
    /// Channels to wait for. Default: any.
    channels: Option<Names>,
    /// Checkpoint that you know. Default 0: returns at once if the board exists.
    after_checkpoint: Option<u64>,
    /// Seconds. 0 returns immediately. Omit it to wait as long as your client allows.
    timeout_sec: Option<Seconds>,
}

impl Tool for BoardWait {
    const INFO: ToolInfo = ToolInfo::read("board_wait", CORE);

    type Caller<'a> = Player<'a, Boards>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let Player { caller, playing } = player;
        let awaited = BoardAwaited {
            board: self.board.0,
            channels: channels(self.channels)?,
            after: self.after_checkpoint.unwrap_or_default(),
        };
        let asking = Asking { actions: caller.actions, about: About::Board(awaited) };
        wait(caller.call, playing, asking, self.timeout_sec.map(|it| it.0)).await
    }
}

/// The answer to a wait, as a result.
pub(in crate::mcp) fn wait_result(role: &RoleId, answer: &wire::BoardAnswer) -> CallToolResult {
    json_result(&WaitedBoard::new(role, answer))
}

/// Whether the wait goes on with another call, as clients are told.
const fn is_waiting(standing: Standing) -> bool {
    matches!(standing, Standing::Unspecified | Standing::StillWaiting)
}

/// Lists a board's checkpoints, newest first: who wrote which channels when.
#[derive(Debug, Deserialize, JsonSchema)]
struct BoardHistory {
    /// Board name.
    board: Id<BoardName>,
    /// Only checkpoints below this number.
    before: Option<u64>,
    /// 1–200. Default 50.
    limit: Option<u32>,
}

impl Tool for BoardHistory {
    const INFO: ToolInfo = ToolInfo::read("board_history", FULL);

    type Caller<'a> = Reader<'a, Boards>;

    async fn call(self, reader: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::ListCheckpointsRequest {
            board: self.board.0.to_string(),
            before: self.before.unwrap_or_default(),
            limit: self.limit.unwrap_or_default(),
            ..Default::default()
        };
        let answer = reader.caller.actions.query(request).await?;
        Ok(json_result(&History::new(self.board.0.as_str(), &answer)).into())
    }
}

/// Continues from an earlier checkpoint of a board on a new board, or on the same one, whose newer
/// checkpoints stay readable.
#[derive(Debug, Deserialize, JsonSchema)]
struct BoardFork {
    /// Board name.
    board: Id<BoardName>,
    /// Checkpoint to continue from. Default: the newest.
    checkpoint: Option<u64>,
    /// Name of the new board, or of the same board to continue it from there.
    to: Id<BoardName>,
}

impl Tool for BoardFork {
    const INFO: ToolInfo = ToolInfo::write("board_fork", FULL);

    type Caller<'a> = Player<'a, Boards>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let caller = &player.caller;
        let request = wire::ForkBoardRequest {
            board: self.board.0.to_string(),
            checkpoint: self.checkpoint.unwrap_or_default(),
            to: self.to.0.to_string(),
            ..Default::default()
        };
        let key = intent::of(&caller.call.context.meta);
        Ok(updated(&caller.actions.command(request, key).await?).into())
    }
}
