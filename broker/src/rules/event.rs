//! What happened. Past tense: it cannot be refused, only added to.
//!
//! Events carry results, not intentions: a handover holds the turn and the deadline that were
//! chosen, so replay never chooses again.

use tasuki_proto::{
    id::{
        Epoch, IdempotencyKey, InvitationId, LoopId, NodeId, PersonId, RoleId, Sequence, Timestamp,
        TokenId, Turn,
    },
    mail::{BoxKind, MessageId},
};

use super::access::{self, Scope};
use super::directory::NodeRegistered;
use super::mailbox;
use super::privacy;
use super::swarm;
use super::turn::{
    HandedOver, LeaseRenewed, LoopOpened, ParticipantsSet, RoundStarted, TurnReclaimed,
};
use crate::hash::Hash;

/// One command: who asked, what came of it, what was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub sequence: Sequence,
    pub time: Timestamp,
    pub principal: Principal,
    pub key: Option<(IdempotencyKey, Hash)>,
    /// None for a repeated intent: then only its answer is kept.
    pub events: Vec<Event>,
    pub reply: Reply,
    pub is_repeat: bool,
}

/// On whose word something happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Principal {
    pub node: Option<NodeId>,
    pub role: Option<RoleId>,
    pub person: Option<PersonId>,
    /// `None` where the broker asks for none.
    pub token: Option<TokenId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    NodeRegistered(NodeRegistered),
    LoopOpened(LoopOpened),
    ParticipantsSet(ParticipantsSet),
    HandedOver(HandedOver),
    TurnReclaimed(TurnReclaimed),
    RoundStarted(RoundStarted),
    TurnHanded(TurnMoment),
    TurnSeen(TurnMoment),
    TurnLapsed(TurnMoment),
    LeaseRenewed(LeaseRenewed),
    Access(access::Event),
    Mail(mailbox::Event),
    Privacy(privacy::Event),
    Swarm(swarm::Event),
}

impl From<privacy::Event> for Event {
    fn from(event: privacy::Event) -> Self {
        Self::Privacy(event)
    }
}

impl From<access::Event> for Event {
    fn from(event: access::Event) -> Self {
        Self::Access(event)
    }
}

/// Something happened to this turn at the record's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnMoment {
    pub loop_id: LoopId,
    pub turn: Turn,
}

impl Event {
    /// The loop it changed, where there is one.
    pub fn loop_id(&self) -> Option<&LoopId> {
        match self {
            Self::NodeRegistered(_) | Self::Access(_) | Self::Mail(_) | Self::Privacy(_) => None,
            Self::Swarm(_) => None,
            Self::LoopOpened(it) => Some(&it.loop_id),
            Self::ParticipantsSet(it) => Some(&it.loop_id),
            Self::HandedOver(it) => Some(&it.loop_id),
            Self::TurnReclaimed(it) => Some(&it.loop_id),
            Self::RoundStarted(it) => Some(&it.loop_id),
            Self::TurnHanded(it) | Self::TurnSeen(it) | Self::TurnLapsed(it) => Some(&it.loop_id),
            Self::LeaseRenewed(it) => Some(&it.loop_id),
        }
    }
}

/// What a command answers. Kept with its record, so that the same key gets the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Registered {
        epoch: Epoch,
    },
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
    Invited {
        invitation: InvitationId,
        expires: Timestamp,
    },
    Issued {
        token: TokenId,
        expires: Option<Timestamp>,
        scope: Scope,
    },
    Rotated {
        token: TokenId,
        old_until: Timestamp,
    },
    /// `kind` is where the sender's copy is.
    Sent {
        thread: MessageId,
        entry: u32,
        kind: BoxKind,
    },
    /// In the order asked for.
    Moved {
        to: BoxKind,
        moved: Vec<mailbox::Moved>,
    },
    /// `entries` is the number of the newest.
    Imported {
        thread: MessageId,
        entries: u32,
    },
    Swarm(swarm::Reply),
    Done,
}
