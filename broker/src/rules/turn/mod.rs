//! Loops: lines of work that roles take turns at.
//!
//! Whose turn it is, how a turn ends (`decide`), what its lease does (`lease`), what a role
//! that asks is told ([`Loops::answer`]), and what makes it stand still until a person lets it go on
//! (`pause`).
//!
//! - **T1** A loop has at most one holder, and it is a participant.
//! - **T2** Turn numbers of a loop increase by one, across handovers, rounds and restarts; at a
//!   restore they go on above all that any loop had.
//! - **T3** History entries of a loop are numbered without gaps; the oldest may be removed.
//! - **T4** A turn ends once: by its holder, or by a reclaim.
//! - **T5** In a paused loop nobody can start and no lease runs, until a person resumes it.
//! - **T6** Without a person no more turns end in a loop than its limit says, and no cycle of
//!   handovers goes round more than [`CYCLE_TIMES`](tasuki_proto::limits::CYCLE_TIMES) times: then
//!   it is paused.

mod apply;
mod command;
mod compact;
mod cycle;
mod decide;
mod event;
mod lease;
mod pause;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, VecDeque},
};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{LoopId, NodeId, PersonId, RoleId, Timestamp, TokenId, Turn},
    limits::LOOP_DEFAULT,
};

pub use self::{
    command::{
        Actor, Command, CreateLoop, HandOver, MarkTurn, PauseLoop, Reclaim, ResumeLoop, StartRound,
    },
    event::{
        Event, HandedOver, HistoryCompacted, LeaseRenewed, LoopOpened, LoopPaused, LoopResumed,
        NextTurn, ParticipantsSet, Reply, RoundStarted, TurnMoment, TurnReclaimed,
    },
    pause::{Pause, PauseReason},
};
use super::{
    Fence, Kept, Rejection,
    guard::is_human,
    rejection::{listed, listed_for},
};
use crate::hash::Hash;

/// Ended turns kept per loop to recognise a repeated intent: four for each of 16 participants.
pub const RECENT_MAX: usize = 64;

/// Entries of each history that stay, however old: a role that takes over reads some, and looks
/// behind as many reclaims as there are in a row.
pub const HISTORY_KEPT: u64 = 100;

/// All loops of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loops {
    pub by_id: BTreeMap<LoopId, Loop>,
    /// Loops that are opened begin with the turn after it: 0, or above all that a loop of the same
    /// name had before a restore (T2).
    before_first: Turn,
    /// Derived: leases that run, by when they lapse.
    leases: BTreeSet<(Timestamp, LoopId)>,
    /// Derived: loops whose lease lapsed.
    lapsed: BTreeSet<LoopId>,
    /// Derived: loops whose lease is one of grace, and runs.
    graced: BTreeSet<LoopId>,
    /// Derived: who holds the turn of which.
    held: BTreeSet<(RoleId, LoopId)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Loop {
    /// In order.
    #[n(0)]
    pub participants: Vec<RoleId>,
    /// From 1.
    #[n(1)]
    pub round: u32,
    /// The latest turn, held or, once completed, over.
    #[n(2)]
    pub turn: Turn,
    /// `None` once completed.
    #[n(3)]
    pub holder: Option<RoleId>,
    #[n(4)]
    pub began: Timestamp,
    /// `None` while nobody has begun, and once completed.
    #[n(5)]
    pub lease: Option<Lease>,
    /// History entries so far.
    #[n(6)]
    pub entries: u64,
    /// The newest of them.
    #[n(7)]
    pub latest: Option<EntryMeta>,
    /// How the latest turns ended, oldest first.
    #[n(8)]
    pub recent: VecDeque<Ended>,
    /// Roles that register may still be seated in it.
    #[n(9)]
    pub is_open_to_join: bool,
    /// History entries up to this one were removed.
    #[n(10)]
    pub compacted: Option<u64>,
    #[n(11)]
    pub pause: Option<Pause>,
    /// Turns that ended since a person last acted in it; `None` is 0.
    #[n(12)]
    pub alone: Option<u32>,
}

/// What a snapshot holds.
#[derive(Debug, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotItem<'a> {
    #[n(0)]
    Loop(#[n(0)] Cow<'a, LoopId>, #[n(1)] Box<Cow<'a, Loop>>),
    /// The turn before the first of a loop that is opened; where it is not 0.
    #[n(1)]
    BeforeFirst(#[n(0)] Turn),
}

/// The time limit on a held turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Lease {
    #[n(0)]
    pub lapses: Timestamp,
    #[n(1)]
    pub is_lapsed: bool,
    /// It is one of grace, after the broker was down, and no sign of its holder is known since.
    #[n(2)]
    pub had_grace: bool,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Ended {
    #[n(0)]
    pub turn: Turn,
    #[n(1)]
    pub is_reclaim: bool,
    #[n(2)]
    pub from: RoleId,
    /// Who got the next turn; `None` when the loop was completed.
    #[n(3)]
    pub next: Option<(Turn, RoleId)>,
    /// What was said, to recognise it.
    #[n(4)]
    pub content: Hash,
}

/// One entry of a loop's history, without its words.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct EntryMeta {
    #[n(0)]
    pub loop_id: LoopId,
    /// From 1, no gaps (T3).
    #[n(1)]
    pub number: u64,
    #[n(2)]
    pub kind: EntryKind,
    #[n(3)]
    pub round: u32,
    /// [`Turn::NONE`] for a round's start.
    #[n(4)]
    pub ended: Turn,
    /// What began; `None` when the loop was completed.
    #[n(5)]
    pub next: Option<(Turn, RoleId)>,
    #[n(6)]
    pub from: Option<RoleId>,
    /// Of a reclaim.
    #[n(7)]
    pub reason: String,
    #[n(8)]
    pub person: Option<PersonId>,
    #[n(9)]
    pub node: Option<NodeId>,
    #[n(10)]
    pub token: Option<TokenId>,
    #[n(11)]
    pub receipts: Receipts,
    /// Whether words were said.
    #[n(12)]
    pub has_text: bool,
    /// How far from what a person last did in the loop, in turns; `None` is 0.
    #[n(13)]
    pub hops: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    #[n(0)]
    Handover,
    #[n(1)]
    Reclaim,
    #[n(2)]
    RoundStart,
}

/// The words of one history entry, and the facts of the one before, which are final with it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct EntryBody {
    #[n(0)]
    pub loop_id: LoopId,
    #[n(1)]
    pub number: u64,
    #[n(2)]
    pub summary: String,
    #[n(3)]
    pub instruction: String,
    #[n(4)]
    pub before: Option<EntryMeta>,
}

/// How far a handover got, each the time it happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Receipts {
    #[n(0)]
    pub stored: Option<Timestamp>,
    #[n(1)]
    pub handed: Option<Timestamp>,
    #[n(2)]
    pub seen: Option<Timestamp>,
    #[n(3)]
    pub acted: Option<Timestamp>,
    #[n(4)]
    pub failed: Option<Timestamp>,
    #[n(5)]
    pub lapsed: Option<Timestamp>,
}

/// What a role that asks "is it my turn" is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub standing: TurnStatus,
    pub loop_id: LoopId,
    pub round: u32,
    pub turn: Turn,
    pub holder: Option<RoleId>,
    pub lapses: Option<Timestamp>,
    pub latest: Option<EntryMeta>,
    pub pause: Option<Box<Pause>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnStatus {
    CanStart,
    Finished,
    NotYet,
}

impl Default for Loops {
    /// A workspace starts with one loop; turn 1 is with the first of its participants.
    fn default() -> Self {
        let main = Loop::opened(default_participants(), Timestamp::default(), Turn::NONE, true);
        let id = LOOP_DEFAULT.parse::<LoopId>().expect("a valid id");
        Self::of(BTreeMap::from([(id, main)]))
    }
}

fn default_participants() -> Vec<RoleId> {
    ["A", "B"].map(|name| name.parse().expect("a valid id")).to_vec()
}

impl Kept for Loops {
    type Item<'a> = SnapshotItem<'a>;

    fn items(&self) -> impl Iterator<Item = SnapshotItem<'_>> {
        let before = (self.before_first != Turn::NONE).then_some(self.before_first);
        let loops = self.by_id.iter();
        let loops = loops
            .map(|(id, it)| SnapshotItem::Loop(Cow::Borrowed(id), Box::new(Cow::Borrowed(it))));
        before.map(SnapshotItem::BeforeFirst).into_iter().chain(loops)
    }

    fn restore(&mut self, item: SnapshotItem<'_>) -> Result<(), &'static str> {
        match item {
            SnapshotItem::Loop(_, it) if it.participants.is_empty() => {
                return Err("the participants of a loop");
            }
            SnapshotItem::Loop(id, it) => {
                _ = self.by_id.insert(id.into_owned(), (*it).into_owned())
            }
            SnapshotItem::BeforeFirst(turn) => self.before_first = turn,
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), &'static str> {
        let before_first = self.before_first;
        *self = Self { before_first, ..Self::of(std::mem::take(&mut self.by_id)) };
        Ok(())
    }
}

impl Loops {
    /// With what is derived.
    pub fn of(by_id: BTreeMap<LoopId, Loop>) -> Self {
        let (mut leases, mut lapsed) = (BTreeSet::new(), BTreeSet::new());
        for (id, it) in &by_id {
            if it.has_lapsed() {
                lapsed.insert(id.clone());
            }
            leases.extend(it.running_lease().map(|lapses| (lapses, id.clone())));
        }
        let graced = by_id.iter().filter(|(_, it)| it.is_graced()).map(|(id, _)| id.clone());
        let graced = graced.collect();
        let held = by_id.iter().filter_map(|(id, it)| Some((it.holder.clone()?, id.clone())));
        let held = held.collect();
        Self { by_id, before_first: Turn::NONE, leases, lapsed, graced, held }
    }

    /// Each turn is its holder's under a new number, and so is the first of every loop to come (T2).
    pub(super) fn fence(&mut self, fence: Fence) {
        let above = |turn: Turn| Turn::from(fence.above(turn.get()));
        self.before_first = above(self.before_first);
        for it in self.by_id.values_mut() {
            let before = it.turn;
            it.turn = above(before);
            if let Some(latest) = &mut it.latest
                && let Some((began, _)) = &mut latest.next
                && *began == before
            {
                *began = it.turn;
            }
        }
    }

    /// The loop of this name.
    ///
    /// # Errors
    /// [`Rejection::UnknownLoop`] names those there are.
    pub fn get(&self, id: &LoopId) -> Result<&Loop, Rejection> {
        self.by_id.get(id).ok_or_else(|| Rejection::UnknownLoop {
            loop_id: id.clone(),
            known: listed(self.by_id.keys().map(LoopId::as_str)),
        })
    }

    /// The loops whose turn a role holds.
    pub fn held_by(&self, role: &RoleId) -> impl Iterator<Item = (&LoopId, &Loop)> {
        let from = (role.clone(), lease::smallest_id());
        let held = self.held.range(from..).take_while(move |(holder, _)| holder == role);
        held.map(|(_, id)| (id, &self.by_id[id]))
    }

    /// What `role` is told about its turn. Shows state, changes nothing.
    ///
    /// # Errors
    /// An unknown loop, or a role that does not take part in it.
    pub fn answer(&self, id: &LoopId, role: &RoleId) -> Result<Answer, Rejection> {
        let it = self.get(id)?;
        it.check_participant(id, role)?;
        let standing = match &it.holder {
            None => TurnStatus::Finished,
            Some(holder) if holder == role && it.pause.is_none() => TurnStatus::CanStart,
            Some(_) => TurnStatus::NotYet,
        };
        Ok(Answer {
            standing,
            loop_id: id.clone(),
            round: it.round,
            turn: it.turn,
            holder: it.holder.clone(),
            lapses: it.timed_lease().map(|lease| lease.lapses),
            latest: it.latest.clone(),
            pause: it.pause.clone().map(Box::new),
        })
    }
}

impl Loop {
    fn opened(
        participants: Vec<RoleId>,
        now: Timestamp,
        before_first: Turn,
        is_open_to_join: bool,
    ) -> Self {
        let holder = participants.first().cloned();
        Self {
            participants,
            round: 1,
            turn: before_first.next(),
            holder,
            began: now,
            lease: None,
            entries: 0,
            latest: None,
            recent: VecDeque::new(),
            is_open_to_join,
            compacted: None,
            pause: None,
            alone: None,
        }
    }

    fn check_participant(&self, id: &LoopId, role: &RoleId) -> Result<(), Rejection> {
        if self.participants.contains(role) {
            return Ok(());
        }
        Err(Rejection::UnknownRole {
            role: role.clone(),
            loop_id: id.clone(),
            known: listed_for(role.as_str(), self.participants.iter().map(RoleId::as_str)),
        })
    }

    /// Turns that ended since a person last acted in it.
    pub fn turns_alone(&self) -> u32 {
        self.alone.unwrap_or_default()
    }

    /// Whether somebody works on its turn.
    pub fn has_begun(&self) -> bool {
        self.lease.is_some()
    }

    /// The lease, where time runs: not in a paused loop, and not against a person.
    pub fn timed_lease(&self) -> Option<Lease> {
        let is_timed = self.pause.is_none() && !self.holder.as_ref().is_some_and(is_human);
        self.lease.filter(|_| is_timed)
    }

    /// When the lease lapses, if one runs.
    pub fn running_lease(&self) -> Option<Timestamp> {
        self.timed_lease().filter(|lease| !lease.is_lapsed).map(|lease| lease.lapses)
    }

    /// Whether the lease lapsed, and a sign of its holder sets it running again.
    fn has_lapsed(&self) -> bool {
        self.timed_lease().is_some_and(|lease| lease.is_lapsed)
    }

    /// Whether a lease of grace runs.
    fn is_graced(&self) -> bool {
        self.running_lease().is_some() && self.lease.is_some_and(|lease| lease.had_grace)
    }

    /// Who comes after `role`, in order.
    fn after(&self, role: &RoleId) -> &RoleId {
        let at = self.participants.iter().position(|it| it == role).map_or(0, |at| at + 1);
        &self.participants[at % self.participants.len()]
    }
}
