//! What happened to boards.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    board::{ChannelName, Reducer},
    id::{BoardName, CheckpointNumber},
};

use super::{BoardId, ChannelIndex, ResultsStored, Schema};
use crate::hash::Hash;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Event {
    #[n(0)]
    Updated(#[n(0)] Updated),
    #[n(1)]
    Folded(#[n(0)] Folded),
    #[n(2)]
    Deleted(#[n(0)] Deleted),
    #[n(3)]
    ResultsStored(#[n(0)] ResultsStored),
    #[n(4)]
    Pruned(#[n(0)] Pruned),
}

/// A checkpoint was written.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Updated {
    #[n(0)]
    pub board: BoardName,
    #[n(1)]
    pub checkpoint: CheckpointNumber,
    /// [`CheckpointNumber::NONE`] of the first.
    #[n(2)]
    pub parent: CheckpointNumber,
    /// The board is new.
    #[n(3)]
    pub created: Option<Created>,
    /// Channels that had no value before; they are numbered on.
    #[n(4)]
    pub channels: Vec<(ChannelName, Reducer)>,
    #[n(5)]
    pub changes: Vec<Change>,
    #[n(6)]
    pub write_key: Option<String>,
    #[n(7)]
    pub content: Hash,
    /// Names of the channels that it wrote to, for those who follow.
    #[n(8)]
    pub written: Vec<ChannelName>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Created {
    #[n(0)]
    pub id: BoardId,
    #[n(1)]
    pub schema: Schema,
    #[n(2)]
    pub origin: Option<Origin>,
}

/// Where the values of a forked board come from.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Origin {
    #[n(0)]
    pub board: BoardName,
    #[n(1)]
    pub id: BoardId,
    #[n(2)]
    pub checkpoint: CheckpointNumber,
}

/// What a checkpoint has of one channel.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Change {
    #[n(0)]
    pub channel: ChannelIndex,
    /// What was written, in bytes.
    #[n(1)]
    pub update: Option<u32>,
    /// The whole value, in bytes, where that is kept, too.
    #[n(2)]
    pub whole: Option<u32>,
    /// What it did to the channel's messages, in order.
    #[n(3)]
    pub messages: Vec<MessageMark>,
}

/// A [`super::MessageChange`] as it is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum MessageMark {
    #[n(0)]
    Put(#[n(0)] Hash),
    #[n(1)]
    Removed(#[n(0)] Hash),
    #[n(2)]
    AllRemoved,
}

/// Whole values at a checkpoint are kept from here on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Folded {
    #[n(0)]
    pub board: BoardName,
    #[n(1)]
    pub checkpoint: CheckpointNumber,
    /// With their sizes in bytes.
    #[n(2)]
    pub values: Vec<(ChannelIndex, u32)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Deleted {
    #[n(0)]
    pub board: BoardName,
}

/// Older checkpoints are forgotten, with their results.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Pruned {
    #[n(0)]
    pub board: BoardName,
    /// The oldest that remains.
    #[n(1)]
    pub oldest: CheckpointNumber,
}
