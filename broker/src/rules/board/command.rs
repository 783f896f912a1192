//! What is asked of boards.

use tasuki_proto::{
    board::{ChannelName, Reducer},
    id::{BoardName, CheckpointNumber, PersonId, RoleId},
};

use super::{BoardId, ChannelIndex, Prune, Schema, StoreResults};
use crate::{
    hash::Hash,
    rules::{Acting, Needs, Rejection, privacy::Privacy, turn::Actor},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Update(Update),
    Fork(Fork),
    /// The broker's own: nothing is asked for by it.
    Fold(Fold),
    Delete {
        by: PersonId,
        board: BoardName,
    },
    StoreResults(StoreResults),
    Prune(Prune),
}

/// Write to channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    pub by: Actor,
    pub board: BoardName,
    /// Each channel once, by name.
    pub updates: Vec<ChannelUpdate>,
    /// The schema that the updates were parsed and checked for: the board's, or that of a new one.
    pub schema: Schema,
    pub expected: Option<CheckpointNumber>,
    pub is_fork: bool,
    /// Of a fork: the head that it leaves behind.
    pub newest: Option<CheckpointNumber>,
    pub write_key: Option<String>,
    /// Of the whole intent, to recognise it under its write key.
    pub content: Hash,
}

/// One channel, and what its reducer takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelUpdate {
    pub channel: ChannelName,
    /// The value itself with `last_value`; else what is added.
    pub json: String,
    /// What it does to the messages of a channel that has any; in order.
    pub messages: Vec<MessageChange>,
}

/// One change of a channel's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageChange {
    /// Written, in the place of another with the same id.
    Put(String),
    Remove(String),
    /// All before are removed. Whatever follows in the same update is put.
    RemoveAll,
}

/// Go on from a checkpoint: on the same board, or on a new one that begins with what there was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    pub by: Actor,
    pub board: BoardName,
    /// `None`: the head.
    pub checkpoint: Option<CheckpointNumber>,
    /// The new board; `None`: the same goes on.
    pub to: Option<BoardName>,
    /// What was read there for a new board; `None`: nothing could be read.
    pub copied: Option<Copied>,
}

/// The values of all channels at one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    pub board: BoardId,
    pub checkpoint: CheckpointNumber,
    /// With the ids of its messages, where it has any.
    pub values: Vec<(ChannelName, Reducer, String, Vec<String>)>,
}

/// Keep what channels are at a checkpoint, so that nobody has to go through all updates for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    pub board: BoardId,
    pub checkpoint: CheckpointNumber,
    pub values: Vec<(ChannelIndex, String)>,
}

impl Command {
    fn by(&self) -> Option<&Actor> {
        match self {
            Self::Update(it) => Some(&it.by),
            Self::Fork(it) => Some(&it.by),
            Self::StoreResults(it) => Some(&it.by),
            Self::Prune(it) => Some(&it.by),
            Self::Fold(_) | Self::Delete { .. } => None,
        }
    }
}

impl Acting for Command {
    fn role(&self) -> Option<&RoleId> {
        self.by().and_then(Actor::role)
    }

    fn person(&self) -> Option<&PersonId> {
        match self {
            Self::Delete { by, .. } => Some(by),
            Self::Update(_)
            | Self::Fork(_)
            | Self::Fold(_)
            | Self::StoreResults(_)
            | Self::Prune(_) => self.by().and_then(Actor::person),
        }
    }

    fn needs(&self) -> Needs<'_> {
        Needs::default()
    }

    /// Values are not sealed.
    fn check_words(&self, privacy: &Privacy) -> Result<(), Rejection> {
        match self {
            Self::Update(_) | Self::Fork(_) | Self::StoreResults(_) => privacy.check_boards(),
            Self::Fold(_) | Self::Delete { .. } | Self::Prune(_) => Ok(()),
        }
    }

    fn is_for_paused(&self) -> bool {
        matches!(self, Self::Fold(_) | Self::Delete { .. } | Self::Prune(_))
    }
}
