//! What is asked of pipelines.

use tasuki_proto::{
    id::{BoardName, CheckpointNumber, FencingToken, PersonId, RoleId},
    pipeline::Definition,
};

use super::AttemptNumber;
use crate::rules::{
    Acting, Needs, Rejection,
    board::{ChannelUpdate, Schema},
    privacy::Privacy,
    turn::Actor,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Start(Box<Start>),
    Claim { role: RoleId, board: BoardName, attempt: AttemptNumber },
    End(Box<End>),
    DecideApproval(DecideApproval),
    Cancel { by: Actor, board: BoardName, reason: String },
    Resume { by: Actor, board: BoardName },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub by: Actor,
    pub board: BoardName,
    pub definition: Definition,
    /// What is written first, and the schema that it was parsed for: the board's, or that of a new
    /// one.
    pub updates: Vec<ChannelUpdate>,
    pub schema: Schema,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub role: RoleId,
    pub board: BoardName,
    pub attempt: AttemptNumber,
    pub token: FencingToken,
    /// What is written to the board. A gate says here whether it is passed, and any phase may say
    /// that it failed.
    pub updates: Vec<ChannelUpdate>,
    /// Why the phase failed, if its node says so.
    pub error: Option<String>,
}

/// A person approves or rejects what a phase did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecideApproval {
    pub by: PersonId,
    pub board: BoardName,
    /// The attempt that was looked at; `None`: whichever it is.
    pub attempt: Option<AttemptNumber>,
    /// The board's newest checkpoint that was looked at; `None`: whichever it is.
    pub checkpoint: Option<CheckpointNumber>,
    pub is_approved: bool,
    pub reason: String,
}

impl Command {
    fn by(&self) -> Option<&Actor> {
        match self {
            Self::Start(it) => Some(&it.by),
            Self::Cancel { by, .. } | Self::Resume { by, .. } => Some(by),
            Self::Claim { .. } | Self::End(_) | Self::DecideApproval(_) => None,
        }
    }
}

impl Acting for Command {
    fn role(&self) -> Option<&RoleId> {
        match self {
            Self::Claim { role, .. } => Some(role),
            Self::End(it) => Some(&it.role),
            Self::Start(_)
            | Self::DecideApproval(_)
            | Self::Cancel { .. }
            | Self::Resume { .. } => self.by().and_then(Actor::role),
        }
    }

    fn person(&self) -> Option<&PersonId> {
        match self {
            Self::DecideApproval(it) => Some(&it.by),
            Self::Start(_)
            | Self::Claim { .. }
            | Self::End(_)
            | Self::Cancel { .. }
            | Self::Resume { .. } => self.by().and_then(Actor::person),
        }
    }

    fn needs(&self) -> Needs<'_> {
        Needs::default()
    }

    /// What is written to the board is not sealed, and neither is why something was decided.
    fn check_words(&self, privacy: &Privacy) -> Result<(), Rejection> {
        match self {
            Self::End(it) if it.updates.is_empty() => Ok(()),
            Self::Start(_) | Self::End(_) | Self::Resume { .. } => privacy.check_boards(),
            Self::DecideApproval(it) if !it.reason.is_empty() => privacy.check_boards(),
            Self::Cancel { reason, .. } if !reason.is_empty() => privacy.check_boards(),
            Self::Claim { .. } | Self::DecideApproval(_) | Self::Cancel { .. } => Ok(()),
        }
    }

    fn is_for_paused(&self) -> bool {
        match self {
            Self::End(_) | Self::DecideApproval(_) | Self::Cancel { .. } => true,
            Self::Start(_) | Self::Claim { .. } | Self::Resume { .. } => false,
        }
    }
}
