//! What can be asked of a loop.

use tasuki_proto::id::{LoopId, PersonId, RoleId, Turn};

use crate::{
    hash::Hash,
    rules::{Acting, Needs, ReceiptKind, Rejection, guard::is_human, privacy::Privacy},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    CreateLoop(CreateLoop),
    StartRound(StartRound),
    HandOver(HandOver),
    Reclaim(Reclaim),
    Mark(MarkTurn),
    Pause(PauseLoop),
    Resume(ResumeLoop),
}

impl Acting for Command {
    fn role(&self) -> Option<&RoleId> {
        match self {
            Self::CreateLoop(_) => None,
            Self::StartRound(it) => it.by.role(),
            Self::HandOver(it) => Some(&it.role),
            Self::Reclaim(it) => it.by.role(),
            Self::Mark(it) => Some(&it.role),
            Self::Pause(it) => it.by.role(),
            Self::Resume(it) => it.by.role(),
        }
    }

    fn person(&self) -> Option<&PersonId> {
        match self {
            Self::StartRound(it) => it.by.person(),
            Self::Reclaim(it) => it.by.person(),
            Self::Pause(it) => it.by.person(),
            Self::Resume(it) => it.by.person(),
            Self::CreateLoop(_) | Self::HandOver(_) | Self::Mark(_) => None,
        }
    }

    fn needs(&self) -> Needs<'_> {
        Needs::default()
    }

    fn check_words(&self, _: &Privacy) -> Result<(), Rejection> {
        Ok(())
    }

    fn is_for_paused(&self) -> bool {
        match self {
            Self::HandOver(_) | Self::Mark(_) | Self::Pause(_) | Self::Resume(_) => true,
            Self::CreateLoop(_) | Self::StartRound(_) | Self::Reclaim(_) => false,
        }
    }
}

/// Who asks: a role, or a person who plays none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    Role(RoleId),
    Person(PersonId),
}

impl Actor {
    /// Whether it is a person, also as the role that is a person's own.
    pub fn is_person(&self) -> bool {
        self.role().is_none_or(is_human)
    }

    pub fn role(&self) -> Option<&RoleId> {
        match self {
            Self::Role(role) => Some(role),
            Self::Person(_) => None,
        }
    }

    pub fn person(&self) -> Option<&PersonId> {
        match self {
            Self::Role(_) => None,
            Self::Person(person) => Some(person),
        }
    }
}

/// Open a loop; the first participant begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateLoop {
    pub loop_id: LoopId,
    /// At least one, each once.
    pub participants: Vec<RoleId>,
    /// They may be roles that nobody knows yet.
    pub allow_new_roles: bool,
}

/// Open a new round of a completed loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRound {
    pub loop_id: LoopId,
    pub by: Actor,
    /// `None` is the first participant.
    pub to: Option<RoleId>,
    pub summary: String,
    pub instruction: String,
}

/// End a turn by giving the loop to another role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandOver {
    pub loop_id: LoopId,
    pub role: RoleId,
    pub summary: String,
    pub instruction: String,
    pub is_task_complete: bool,
    /// `None` is the next participant in order.
    pub to: Option<RoleId>,
    /// `None` is the turn held.
    pub turn: Option<Turn>,
}

/// Take a turn from its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclaim {
    pub loop_id: LoopId,
    pub by: Actor,
    /// `None` is the role that asks.
    pub to: Option<RoleId>,
    pub reason: String,
    /// `None` is the latest turn.
    pub turn: Option<Turn>,
}

/// Let nobody start in a loop until a person resumes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseLoop {
    pub loop_id: LoopId,
    pub by: Actor,
    pub reason: String,
}

/// Let a paused loop go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeLoop {
    pub loop_id: LoopId,
    pub by: Actor,
    /// May be empty.
    pub reason: String,
}

/// Tell how far the handover that began `turn` got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkTurn {
    pub loop_id: LoopId,
    pub role: RoleId,
    pub turn: Turn,
    pub mark: ReceiptKind,
}

impl MarkTurn {
    pub fn new(loop_id: LoopId, role: RoleId, turn: Turn, mark: ReceiptKind) -> Self {
        Self { loop_id, role, turn, mark }
    }
}

impl HandOver {
    /// What is said, to recognise it when it is said again.
    pub(super) fn content(&self) -> Hash {
        let complete = if self.is_task_complete { "complete" } else { "" };
        let to = self.to.as_ref().map_or("", RoleId::as_str);
        Hash::of_fields([self.summary.as_str(), self.instruction.as_str(), complete, to])
    }
}

impl StartRound {
    pub(super) fn content(&self) -> Hash {
        let to = self.to.as_ref().map_or("", RoleId::as_str);
        Hash::of_fields([self.summary.as_str(), self.instruction.as_str(), to, by(&self.by)])
    }
}

impl Reclaim {
    pub(super) fn content(&self) -> Hash {
        let to = self.to.as_ref().map_or("", RoleId::as_str);
        let kind = if self.by.role().is_some() { "role" } else { "person" };
        Hash::of_fields([kind, by(&self.by), to, self.reason.as_str()])
    }
}

fn by(actor: &Actor) -> &str {
    match actor {
        Actor::Role(role) => role.as_str(),
        Actor::Person(person) => person.as_str(),
    }
}
