//! A request, and the record of what came of it.

use minicbor::{Decode, Encode};
use tasuki_proto::id::{
    Epoch, IdempotencyKey, NodeId, PersonId, RoleId, Sequence, Timestamp, TokenId,
};

use super::noun::{Command, Event, Reply};
use crate::hash::Hash;

/// A command and what came with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub caller: Caller,
    /// The intent's name and the hash of the whole request; `None` for commands of the broker's
    /// own and those that are idempotent by nature.
    pub key: Option<(IdempotencyKey, Hash)>,
    pub command: Command,
}

/// Which connection asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// A registered node and its epoch; `None` for any other client.
    pub node: Option<(NodeId, Epoch)>,
    /// The token the call came with; `None` where the broker asks for none.
    pub token: Option<TokenId>,
}

/// One command: who asked, what came of it, what was answered.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Record {
    #[n(0)]
    pub sequence: Sequence,
    #[n(1)]
    pub time: Timestamp,
    #[n(2)]
    pub principal: Principal,
    #[n(3)]
    pub key: Option<(IdempotencyKey, Hash)>,
    /// None for a repeated intent: then only its answer is kept.
    #[n(4)]
    pub events: Vec<Event>,
    #[n(5)]
    pub reply: Reply,
    #[n(6)]
    pub is_repeat: bool,
}

/// On whose word something happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Principal {
    #[n(0)]
    pub node: Option<NodeId>,
    #[n(1)]
    pub role: Option<RoleId>,
    #[n(2)]
    pub person: Option<PersonId>,
    /// `None` where the broker asks for none.
    #[n(3)]
    pub token: Option<TokenId>,
}

/// How far a caller reports that something got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiptKind {
    Handed,
    Seen,
}
