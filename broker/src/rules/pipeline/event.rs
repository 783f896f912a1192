//! What happened to pipelines.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{BoardName, CheckpointNumber, FencingToken, NodeId, PhaseName, RoleId, Timestamp},
    pipeline::Definition,
};

use super::{AttemptNumber, Status};
use crate::rules::board::Schema;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Event {
    #[n(0)]
    Started(#[n(0)] Started),
    #[n(1)]
    Claimed(#[n(0)] Claimed),
    #[n(2)]
    Renewed(#[n(0)] Renewed),
    #[n(3)]
    Transitioned(#[n(0)] Transition),
    #[n(4)]
    Forgotten(#[n(0)] BoardName),
}

/// Its first phase waits.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Started {
    #[n(0)]
    pub board: BoardName,
    #[n(1)]
    pub definition: Definition,
    /// Of its board.
    #[n(2)]
    pub schema: Schema,
    #[n(3)]
    pub checkpoint: CheckpointNumber,
}

/// A node took the attempt.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Claimed {
    #[n(0)]
    pub board: BoardName,
    #[n(1)]
    pub attempt: AttemptNumber,
    #[n(2)]
    pub node: NodeId,
    #[n(3)]
    pub token: FencingToken,
    #[n(4)]
    pub lapses: Timestamp,
    /// When it has taken too long.
    #[n(5)]
    pub deadline: Timestamp,
    /// Of the phase, for those who follow.
    #[n(6)]
    pub phase: PhaseName,
    #[n(7)]
    pub role: RoleId,
}

/// The lease of the attempt that runs goes on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Renewed {
    #[n(0)]
    pub board: BoardName,
    #[n(1)]
    pub lapses: Timestamp,
    #[n(2)]
    pub is_grace: bool,
}

/// It went from where it stood to somewhere else.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Transition {
    #[n(0)]
    pub board: BoardName,
    #[n(1)]
    pub change: Change,
    /// Why, where there is something to say.
    #[n(2)]
    pub error: String,
    /// What was written to the board; [`CheckpointNumber::NONE`]: nothing.
    #[n(3)]
    pub written: CheckpointNumber,
    /// Where it stands.
    #[n(4)]
    pub status: Status,
    #[n(5)]
    pub retries: u32,
    /// Where it stood, for those who follow.
    #[n(6)]
    pub from: PhaseName,
    /// The newest attempt then.
    #[n(7)]
    pub attempt: AttemptNumber,
    /// Where it stands, and who does that.
    #[n(8)]
    pub to: PhaseName,
    #[n(9)]
    pub role: RoleId,
}

/// Why it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    #[n(0)]
    Passed,
    #[n(1)]
    Failed,
    /// A gate was not passed.
    #[n(2)]
    Rejected,
    /// The attempt's node is gone, or began anew.
    #[n(3)]
    Lost,
    #[n(4)]
    TimedOut,
    /// A person approved.
    #[n(5)]
    Approved,
    /// A person rejected.
    #[n(6)]
    Denied,
    #[n(7)]
    ApprovalLapsed,
    #[n(8)]
    Canceled,
    #[n(9)]
    Resumed,
}

impl Change {
    /// Whether an attempt ended so.
    pub const fn is_end_of_attempt(self) -> bool {
        match self {
            Self::Passed
            | Self::Failed
            | Self::Rejected
            | Self::Lost
            | Self::TimedOut
            | Self::Canceled => true,
            Self::Approved | Self::Denied | Self::ApprovalLapsed | Self::Resumed => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Reply {
    #[n(0)]
    Claimed(#[n(0)] FencingToken),
}
