//! What ends at a person before it costs too much: how far agents may go without one.
//!
//! How many turns a loop may take (`turn` counts them), how many hops a letter may be from what a
//! person last did, and what each role may use. Who reaches its bound is paused: what it does then
//! is stored, what it begins next is refused, until a person resumes it. What it holds it may give
//! back, so nothing is lost.
//!
//! - **GD1** What a role with a budget uses is counted from the journal alone, so it is the same
//!   after a restart.
//! - **GD2** Only a person resumes a role.

mod budget;
mod decide;

#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeMap};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{LoopId, PersonId, RoleId, Timestamp, Turn},
    limits::{HOPS, ROLE_HUMAN, TURNS_ALONE},
    mail::MessageId,
};

pub use self::budget::{Budget, PauseReason, RolePause, RoleUse, Usage};
use super::{Acting, Kept, Needs, Principal, Rejection, privacy::Privacy, turn::Actor};

/// Whether a role is the person's own.
pub fn is_human(role: &RoleId) -> bool {
    role.as_str() == ROLE_HUMAN
}

/// What led to something: where its sender was when it did it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A turn that its sender held.
    #[n(0)]
    Turn {
        #[n(0)]
        loop_id: LoopId,
        #[n(1)]
        turn: Turn,
    },
    /// An entry that was handed to its sender.
    #[n(1)]
    Mail {
        #[n(0)]
        thread: MessageId,
        #[n(1)]
        entry: u32,
    },
}

/// The bounds of a workspace, and what its roles used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    pub limits: Limits,
    /// Turns of loops that have a limit of their own; 0 is none.
    pub loops: BTreeMap<LoopId, u32>,
    /// Roles that have a budget, or are paused.
    pub roles: BTreeMap<RoleId, RoleUse>,
}

/// How far agents may go without a person. 0 is without a limit, `None` the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Limits {
    /// Turns of a loop.
    #[n(0)]
    pub turns: Option<u32>,
    /// Of a letter.
    #[n(1)]
    pub hops: Option<u32>,
}

/// What a snapshot holds.
#[derive(Debug, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotItem<'a> {
    #[n(0)]
    Limits(#[n(0)] Limits),
    #[n(1)]
    Loop(#[n(0)] Cow<'a, LoopId>, #[n(1)] u32),
    #[n(2)]
    Role(#[n(0)] Cow<'a, RoleId>, #[n(1)] Cow<'a, RoleUse>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    SetLimits(SetLimits),
    SetBudget(SetBudget),
    Report(Report),
    Resume(Resume),
}

/// Set how far agents may go without a person; `None` leaves it as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetLimits {
    pub by: Actor,
    /// `None`: the workspace.
    pub loop_id: Option<LoopId>,
    pub turns: Option<u32>,
    pub hops: Option<u32>,
}

/// Set what a role may use; `None` is without a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetBudget {
    pub by: Actor,
    pub role: RoleId,
    pub budget: Option<Budget>,
}

/// Tell what a role used besides what the broker counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub role: RoleId,
    pub usage: Usage,
}

/// Let a paused role go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    pub by: Actor,
    pub role: RoleId,
    /// May be empty.
    pub reason: String,
}

impl Acting for Command {
    fn role(&self) -> Option<&RoleId> {
        match self {
            Self::SetLimits(it) => it.by.role(),
            Self::SetBudget(it) => it.by.role(),
            Self::Report(it) => Some(&it.role),
            Self::Resume(it) => it.by.role(),
        }
    }

    fn person(&self) -> Option<&PersonId> {
        match self {
            Self::SetLimits(it) => it.by.person(),
            Self::SetBudget(it) => it.by.person(),
            Self::Report(_) => None,
            Self::Resume(it) => it.by.person(),
        }
    }

    fn needs(&self) -> Needs<'_> {
        Needs::default()
    }

    fn check_words(&self, _: &Privacy) -> Result<(), Rejection> {
        Ok(())
    }

    fn is_for_paused(&self) -> bool {
        true
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Event {
    #[n(0)]
    LimitsSet(#[n(0)] Limits),
    /// `None`: as the workspace.
    #[n(1)]
    LoopLimitSet(#[n(0)] LoopId, #[n(1)] Option<u32>),
    #[n(2)]
    BudgetSet(#[n(0)] RoleId, #[n(1)] Option<Budget>),
    #[n(3)]
    UsageReported(#[n(0)] RoleId, #[n(1)] Usage),
    #[n(4)]
    RolePaused(#[n(0)] RoleId, #[n(1)] PauseReason),
    /// With what the person said of it; it may be empty.
    #[n(5)]
    RoleResumed(#[n(0)] RoleId, #[n(1)] String),
}

impl Kept for Guard {
    type Item<'a> = SnapshotItem<'a>;

    fn items(&self) -> impl Iterator<Item = SnapshotItem<'_>> {
        // There is nothing to say where nothing was set.
        let limits = (self.limits != Limits::default()).then_some(self.limits);
        let loops = self.loops.iter().map(|(id, it)| SnapshotItem::Loop(Cow::Borrowed(id), *it));
        let roles = self.roles.iter();
        let roles =
            roles.map(|(role, it)| SnapshotItem::Role(Cow::Borrowed(role), Cow::Borrowed(it)));
        limits.map(SnapshotItem::Limits).into_iter().chain(loops).chain(roles)
    }

    fn restore(&mut self, item: SnapshotItem<'_>) -> Result<(), &'static str> {
        match item {
            SnapshotItem::Limits(it) => self.limits = it,
            SnapshotItem::Loop(id, turns) => _ = self.loops.insert(id.into_owned(), turns),
            SnapshotItem::Role(role, it) => {
                _ = self.roles.insert(role.into_owned(), it.into_owned());
            }
        }
        Ok(())
    }
}

impl Guard {
    /// Turns that a loop without a limit of its own may take without a person.
    pub fn turns(&self) -> Option<u32> {
        Some(self.limits.turns.unwrap_or(TURNS_ALONE)).filter(|turns| *turns != 0)
    }

    /// Turns that a loop may take without a person; `None` is without a limit.
    pub fn turns_of(&self, id: &LoopId) -> Option<u32> {
        match self.loops.get(id) {
            Some(turns) => Some(*turns).filter(|turns| *turns != 0),
            None => self.turns(),
        }
    }

    /// Hops that a letter may be from a person; `None` is without a limit.
    pub fn hops(&self) -> Option<u32> {
        Some(self.limits.hops.unwrap_or(HOPS)).filter(|hops| *hops != 0)
    }

    /// Why a role is paused, if it is.
    pub fn pause_of(&self, role: &RoleId) -> Option<&RolePause> {
        self.roles.get(role)?.pause.as_ref()
    }

    /// Whether the next letter of this role begins at no hops: a person resumed it.
    pub(super) fn is_fresh(&self, role: &RoleId) -> bool {
        self.roles.get(role).is_some_and(|it| it.is_fresh)
    }

    pub(super) fn apply(&mut self, now: Timestamp, _: &Principal, event: &Event) {
        match event {
            Event::LimitsSet(limits) => self.limits = *limits,
            Event::LoopLimitSet(id, Some(turns)) => _ = self.loops.insert(id.clone(), *turns),
            Event::LoopLimitSet(id, None) => _ = self.loops.remove(id),
            Event::BudgetSet(role, budget) => self.change(role, |it| {
                if it.budget.is_none() {
                    it.since = now;
                    it.used = Usage::default();
                }
                it.budget = *budget;
            }),
            Event::UsageReported(role, usage) => self.count(role, *usage, now),
            Event::RolePaused(role, reason) => {
                let pause = RolePause { at: now, reason: *reason };
                self.change(role, |it| it.pause = Some(pause));
            }
            Event::RoleResumed(role, _) => self.change(role, |it| {
                let pause = it.pause.take().expect("GD2: what goes on was paused");
                it.is_fresh = matches!(pause.reason, PauseReason::Hops { .. });
                (it.since, it.used) = (now, Usage::default());
            }),
        }
    }

    /// A role with a budget used this (GD1).
    pub(super) fn count(&mut self, role: &RoleId, usage: Usage, now: Timestamp) {
        if let Some(it) = self.roles.get_mut(role) {
            (it.since, it.used) = it.with(usage, now);
        }
    }

    /// A role wrote a letter.
    pub(super) fn wrote(&mut self, role: &RoleId) {
        if self.is_fresh(role) {
            self.change(role, |it| it.is_fresh = false);
        }
    }

    fn change(&mut self, role: &RoleId, change: impl FnOnce(&mut RoleUse)) {
        let mut it = self.roles.remove(role).unwrap_or_default();
        change(&mut it);
        if it.budget.is_some() || it.pause.is_some() || it.is_fresh {
            self.roles.insert(role.clone(), it);
        }
    }
}
