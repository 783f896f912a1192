//! What can be asked of a workspace. Imperative mood: it may be refused.

use tasuki_proto::id::{Epoch, IdempotencyKey, LoopId, NodeId, PersonId, RoleId, TokenId, Turn};

use super::{access, directory::Register, mailbox, privacy, swarm, turn};
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Register(Register),
    CreateLoop(turn::CreateLoop),
    StartRound(turn::StartRound),
    HandOver(turn::HandOver),
    Reclaim(turn::Reclaim),
    Mark(turn::MarkTurn),
    Mail(mailbox::Command),
    Swarm(swarm::Command),
    /// Of the system workspace.
    Access(access::Command),
    Privacy(privacy::Command),
    /// What the passing of time alone brings.
    Tick,
}

/// How far a handover got at its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Handed,
    Seen,
}

impl Command {
    /// The role that acts, where one does.
    pub fn role(&self) -> Option<&RoleId> {
        match self {
            Self::HandOver(it) => Some(&it.role),
            Self::Mark(it) => Some(&it.role),
            Self::Mail(it) => it.role(),
            Self::Swarm(it) => it.by.role(),
            Self::StartRound(it) => it.by.role(),
            Self::Reclaim(it) => it.by.role(),
            Self::Register(_)
            | Self::CreateLoop(_)
            | Self::Access(_)
            | Self::Privacy(_)
            | Self::Tick => None,
        }
    }

    /// The person who acts, where one does.
    pub fn person(&self) -> Option<&PersonId> {
        match self {
            Self::StartRound(it) => it.by.person(),
            Self::Reclaim(it) => it.by.person(),
            Self::Swarm(it) => it.by.person(),
            Self::Register(_)
            | Self::CreateLoop(_)
            | Self::HandOver(_)
            | Self::Mark(_)
            | Self::Mail(_)
            | Self::Access(_)
            | Self::Privacy(_)
            | Self::Tick => None,
        }
    }
}

impl turn::MarkTurn {
    pub fn new(loop_id: LoopId, role: RoleId, turn: Turn, mark: Mark) -> Self {
        Self { loop_id, role, turn, mark }
    }
}
