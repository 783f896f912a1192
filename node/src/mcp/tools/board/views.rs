//! Boards as tools return them.

use serde::Serialize;
use serde_json::{Map, Value};
use tasuki_proto::{
    id::RoleId,
    limits::TEXT_BYTES_MAX,
    wire::{self, board_answer::Standing},
};

use super::{
    super::{
        result::Time,
        sanitizer::{FRAME, Sanitizer},
        view::is_nothing,
        waiting::{superseded, unmet},
    },
    is_waiting,
};

/// Values in one result, as JSON, unless the channels are named: as much as an agent reads.
const VALUES_BYTES_MAX: usize = TEXT_BYTES_MAX;

/// Who wrote something: a role, or a person by name.
fn author(role: &str, person: &str) -> String {
    if role.is_empty() { person.to_owned() } else { role.to_owned() }
}

/// A value with all its texts and names as they may be shown.
fn shown(others: &mut Sanitizer, value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(others.text(&text)),
        Value::Array(items) => items.into_iter().map(|it| shown(others, it)).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let fields = fields.map(|(name, it)| (others.text(&name), shown(others, it)));
            Value::Object(fields.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[derive(Debug, Serialize)]
pub(super) struct ReadBoard {
    board: String,
    checkpoint: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    newest_checkpoint: u64,
    by: String,
    at: Time,
    note: &'static str,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
    values: Map<String, Value>,
    /// Left out for their size in bytes.
    #[serde(skip_serializing_if = "Map::is_empty")]
    omitted: Map<String, Value>,
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
}

impl ReadBoard {
    /// `is_asked`: the channels were named, and all of them are wanted.
    pub(super) fn new(it: &wire::ReadBoardResponse, is_asked: bool) -> Self {
        let board = it.board.clone().unwrap_or_default();
        let at = it.checkpoint.clone().unwrap_or_default();
        let mut others = Sanitizer::default();
        let (mut values, mut omitted) = (Map::new(), Map::new());
        let mut by_size: Vec<&wire::ChannelValue> = it.channels.iter().collect();
        by_size.sort_by_key(|it| it.value_json.len());
        let mut bytes = 0;
        for channel in by_size {
            bytes += channel.value_json.len();
            let name = others.line(&channel.channel);
            if VALUES_BYTES_MAX < bytes && !is_asked {
                omitted.insert(name, channel.value_json.len().into());
                continue;
            }
            let value = serde_json::from_str(&channel.value_json);
            let value = value.unwrap_or_else(|_| Value::String(channel.value_json.clone()));
            values.insert(name, shown(&mut others, value));
        }
        let hint = match omitted.is_empty() {
            true => String::new(),
            false => "Large channels are omitted. Name them in `channels` to read them.".to_owned(),
        };
        Self {
            board: board.board,
            checkpoint: at.checkpoint,
            newest_checkpoint: if board.checkpoint == at.checkpoint { 0 } else { board.checkpoint },
            by: author(&at.by_role, &at.by_person),
            at: Time(at.at_ms),
            note: FRAME,
            stripped: others.stripped,
            values,
            omitted,
            hint,
        }
    }
}

#[derive(Debug, Serialize)]
struct Summary {
    board: String,
    checkpoint: u64,
    by: String,
    at: Time,
    channels: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct BoardList {
    boards: Vec<Summary>,
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
}

impl BoardList {
    pub(super) fn new(it: &wire::ListBoardsResponse) -> Self {
        let mut others = Sanitizer::default();
        let boards = it.boards.iter().map(|it| Summary {
            board: it.board.clone(),
            checkpoint: it.checkpoint,
            by: author(&it.by_role, &it.by_person),
            at: Time(it.at_ms),
            channels: it.channels.iter().map(|it| others.line(&it.channel)).collect(),
        });
        let boards: Vec<Summary> = boards.collect();
        let hint = match (boards.is_empty(), it.next.is_empty()) {
            (true, _) => "There are no boards. Make one with board_update.",
            (false, false) => "There are more boards. Read one by its name.",
            (false, true) => "",
        };
        Self { boards, hint: hint.to_owned() }
    }
}

#[derive(Debug, Serialize)]
struct CheckpointView {
    checkpoint: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    parent: u64,
    by: String,
    at: Time,
    channels: Vec<String>,
    #[serde(skip_serializing_if = "is_nothing")]
    is_fork: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct History {
    board: String,
    checkpoints: Vec<CheckpointView>,
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
}

impl History {
    pub(super) fn new(board: &str, it: &wire::ListCheckpointsResponse) -> Self {
        let mut others = Sanitizer::default();
        let checkpoints = it.checkpoints.iter().map(|it| CheckpointView {
            checkpoint: it.checkpoint,
            parent: it.parent,
            by: author(&it.by_role, &it.by_person),
            at: Time(it.at_ms),
            channels: others.lines(&it.channels),
            is_fork: it.is_fork,
        });
        let checkpoints = checkpoints.collect();
        let hint = match it.next {
            0 => String::new(),
            next => format!("For older checkpoints, call again with before {next}."),
        };
        Self { board: board.to_owned(), checkpoints, hint }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct WaitedBoard {
    changed: bool,
    #[serde(rename = "status", skip_serializing_if = "Option::is_none")]
    unmet: Option<&'static str>,
    #[serde(skip_serializing_if = "is_nothing")]
    still_waiting: bool,
    #[serde(skip_serializing_if = "is_nothing")]
    superseded: bool,
    board: String,
    /// The newest; absent where there is no such board yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    by: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    channels: Vec<String>,
    hint: String,
}

impl WaitedBoard {
    pub(super) fn new(role: &RoleId, it: &wire::BoardAnswer) -> Self {
        let standing = it.standing();
        let is_superseded = standing == Standing::Superseded;
        let changed = standing == Standing::Changed;
        let newest = it.newest.as_ref();
        let hint = match standing {
            Standing::Superseded => superseded(role),
            Standing::Changed => {
                let at = newest.map_or(0, |it| it.checkpoint);
                format!("Read it with board_read. Wait on with after_checkpoint {at}.")
            }
            Standing::Unspecified | Standing::StillWaiting => {
                "No change yet. Call board_wait again immediately.".to_owned()
            }
        };
        Self {
            changed,
            unmet: unmet(is_waiting(standing), is_superseded),
            still_waiting: is_waiting(standing),
            superseded: is_superseded,
            board: it.board.clone(),
            checkpoint: newest.map(|it| it.checkpoint),
            by: newest.map(|it| author(&it.by_role, &it.by_person)).unwrap_or_default(),
            channels: Sanitizer::default().lines(&it.channels),
            hint,
        }
    }
}
