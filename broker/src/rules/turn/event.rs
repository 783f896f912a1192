//! What happened in a loop.

use minicbor::{Decode, Encode};
use tasuki_proto::id::{LoopId, RoleId, Timestamp, Turn};

use super::{Pause, PauseReason};
use crate::hash::Hash;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Event {
    #[n(0)]
    LoopOpened(#[n(0)] LoopOpened),
    #[n(1)]
    ParticipantsSet(#[n(0)] ParticipantsSet),
    #[n(2)]
    HandedOver(#[n(0)] HandedOver),
    #[n(3)]
    TurnReclaimed(#[n(0)] TurnReclaimed),
    #[n(4)]
    RoundStarted(#[n(0)] RoundStarted),
    #[n(5)]
    TurnHanded(#[n(0)] TurnMoment),
    #[n(6)]
    TurnSeen(#[n(0)] TurnMoment),
    #[n(7)]
    TurnLapsed(#[n(0)] TurnMoment),
    #[n(8)]
    LeaseRenewed(#[n(0)] LeaseRenewed),
    #[n(9)]
    HistoryCompacted(#[n(0)] HistoryCompacted),
    #[n(10)]
    LoopPaused(#[n(0)] LoopPaused),
    #[n(11)]
    LoopResumed(#[n(0)] LoopResumed),
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
            Self::HistoryCompacted(it) => &it.loop_id,
            Self::LoopPaused(it) => &it.loop_id,
            Self::LoopResumed(it) => &it.loop_id,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LoopOpened {
    #[n(0)]
    pub loop_id: LoopId,
    #[n(1)]
    pub participants: Vec<RoleId>,
}

/// Who takes turns, settled before the first handover.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ParticipantsSet {
    #[n(0)]
    pub loop_id: LoopId,
    #[n(1)]
    pub participants: Vec<RoleId>,
    /// Somebody chose them: roles that register later do not join.
    #[n(2)]
    pub is_chosen: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct HandedOver {
    #[n(0)]
    pub loop_id: LoopId,
    #[n(1)]
    pub round: u32,
    #[n(2)]
    pub entry: u64,
    #[n(3)]
    pub ended: Turn,
    #[n(4)]
    pub from: RoleId,
    #[n(5)]
    pub content: Hash,
    /// `None` when it completed the loop.
    #[n(6)]
    pub next: Option<NextTurn>,
}

/// The turn that began.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NextTurn {
    #[n(0)]
    pub turn: Turn,
    #[n(1)]
    pub to: RoleId,
    #[n(2)]
    pub lapses: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TurnReclaimed {
    #[n(0)]
    pub loop_id: LoopId,
    #[n(1)]
    pub entry: u64,
    #[n(2)]
    pub ended: Turn,
    #[n(3)]
    pub from: RoleId,
    #[n(4)]
    pub reason: String,
    #[n(5)]
    pub content: Hash,
    #[n(6)]
    pub next: NextTurn,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RoundStarted {
    #[n(0)]
    pub loop_id: LoopId,
    #[n(1)]
    pub round: u32,
    #[n(2)]
    pub entry: u64,
    #[n(3)]
    pub content: Hash,
    #[n(4)]
    pub has_text: bool,
    #[n(5)]
    pub next: NextTurn,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LeaseRenewed {
    #[n(0)]
    pub loop_id: LoopId,
    #[n(1)]
    pub turn: Turn,
    #[n(2)]
    pub lapses: Timestamp,
    #[n(3)]
    pub is_grace: bool,
}

/// Entries of the history up to this one were removed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct HistoryCompacted {
    #[n(0)]
    pub loop_id: LoopId,
    #[n(1)]
    pub through: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LoopPaused {
    #[n(0)]
    pub loop_id: LoopId,
    #[n(1)]
    pub turn: Turn,
    #[n(2)]
    pub reason: PauseReason,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LoopResumed {
    #[n(0)]
    pub loop_id: LoopId,
    #[n(1)]
    pub turn: Turn,
    /// When the held turn lapses; `None` where it has not begun, or none is held.
    #[n(2)]
    pub lapses: Option<Timestamp>,
    /// What the person said of it; may be empty.
    #[n(3)]
    pub reason: String,
}

/// Something happened to this turn at the record's time.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TurnMoment {
    #[n(0)]
    pub loop_id: LoopId,
    #[n(1)]
    pub turn: Turn,
}

/// What a loop's command answers.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Reply {
    #[n(0)]
    Opened {
        #[n(0)]
        loop_id: LoopId,
    },
    #[n(1)]
    Started {
        #[n(0)]
        round: u32,
        #[n(1)]
        turn: Turn,
        #[n(2)]
        holder: RoleId,
    },
    /// `next` is the turn that began and who holds it; `None` when the loop was completed.
    #[n(2)]
    Handed {
        #[n(0)]
        ended: Turn,
        #[n(1)]
        next: Option<(Turn, RoleId)>,
        /// The loop was paused then.
        #[n(2)]
        pause: Option<Pause>,
    },
    #[n(3)]
    Reclaimed {
        #[n(0)]
        ended: Turn,
        #[n(1)]
        turn: Turn,
        #[n(2)]
        from: RoleId,
        #[n(3)]
        to: RoleId,
    },
}
