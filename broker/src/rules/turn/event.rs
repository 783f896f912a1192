//! What happened in a loop.

use tasuki_proto::id::{LoopId, RoleId, Timestamp, Turn};

use crate::hash::Hash;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    LoopOpened(LoopOpened),
    ParticipantsSet(ParticipantsSet),
    HandedOver(HandedOver),
    TurnReclaimed(TurnReclaimed),
    RoundStarted(RoundStarted),
    TurnHanded(TurnMoment),
    TurnSeen(TurnMoment),
    TurnLapsed(TurnMoment),
    LeaseRenewed(LeaseRenewed),
}

impl Event {
    /// The loop it changed.
    pub fn loop_id(&self) -> &LoopId {
        match self {
            Self::LoopOpened(it) => &it.loop_id,
            Self::ParticipantsSet(it) => &it.loop_id,
            Self::HandedOver(it) => &it.loop_id,
            Self::TurnReclaimed(it) => &it.loop_id,
            Self::RoundStarted(it) => &it.loop_id,
            Self::TurnHanded(it) | Self::TurnSeen(it) | Self::TurnLapsed(it) => &it.loop_id,
            Self::LeaseRenewed(it) => &it.loop_id,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopOpened {
    pub loop_id: LoopId,
    pub participants: Vec<RoleId>,
}

/// Who takes turns, settled before the first handover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParticipantsSet {
    pub loop_id: LoopId,
    pub participants: Vec<RoleId>,
    /// Somebody chose them: roles that register later do not join.
    pub is_chosen: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOver {
    pub loop_id: LoopId,
    pub round: u32,
    pub entry: u64,
    pub ended: Turn,
    pub from: RoleId,
    pub content: Hash,
    /// `None` when it completed the loop.
    pub next: Option<NextTurn>,
}

/// The turn that began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextTurn {
    pub turn: Turn,
    pub to: RoleId,
    pub lapses: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnReclaimed {
    pub loop_id: LoopId,
    pub entry: u64,
    pub ended: Turn,
    pub from: RoleId,
    pub reason: String,
    pub content: Hash,
    pub next: NextTurn,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundStarted {
    pub loop_id: LoopId,
    pub round: u32,
    pub entry: u64,
    pub content: Hash,
    pub has_text: bool,
    pub next: NextTurn,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRenewed {
    pub loop_id: LoopId,
    pub turn: Turn,
    pub lapses: Timestamp,
    pub is_grace: bool,
}

/// Something happened to this turn at the record's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnMoment {
    pub loop_id: LoopId,
    pub turn: Turn,
}

/// What a loop's command answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Opened {
        loop_id: LoopId,
    },
    Started {
        round: u32,
        turn: Turn,
        holder: RoleId,
    },
    /// `next` is the turn that began and who holds it; `None` when the loop was completed.
    Handed {
        ended: Turn,
        next: Option<(Turn, RoleId)>,
    },
    Reclaimed {
        ended: Turn,
        turn: Turn,
        from: RoleId,
        to: RoleId,
    },
}
