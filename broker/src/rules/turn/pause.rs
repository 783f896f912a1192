//! Loops that stand still until a person lets them go on.
//!
//! A pause takes nothing: the holder keeps its turn and may hand it over, and what it hands over is
//! stored. Only the next turn does not start.

use std::{collections::BTreeSet, fmt};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    counted::counted,
    id::{LoopId, PersonId, RoleId, Timestamp},
    limits::CYCLE_TIMES,
};

use super::{
    Actor, Ended, Event, Loop, LoopPaused, LoopResumed, Loops, NextTurn, PauseLoop, ResumeLoop,
};
use crate::rules::{
    Asked, Decision, Rejection, Reply, Workspace,
    guard::{self, is_human},
};

/// That a loop is paused.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Pause {
    #[n(0)]
    pub at: Timestamp,
    #[n(1)]
    pub reason: PauseReason,
}

/// Why a loop is paused. Its text is a clause about the loop, for people and agents alike.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// A person or a role wanted it.
    #[n(0)]
    Asked {
        #[n(0)]
        person: Option<PersonId>,
        #[n(1)]
        role: Option<RoleId>,
        #[n(2)]
        reason: String,
    },
    /// So many turns ended, and no person acted meanwhile.
    #[n(1)]
    Turns {
        #[n(0)]
        turns: u32,
    },
    /// The same handovers came again and again.
    #[n(2)]
    Cycle {
        /// How many handovers it has.
        #[n(0)]
        length: u32,
        /// How often they came.
        #[n(1)]
        times: u32,
    },
    /// The role that has the turn is paused.
    #[n(3)]
    Role {
        #[n(0)]
        role: RoleId,
        #[n(1)]
        reason: guard::PauseReason,
    },
}

impl fmt::Display for PauseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked { person, role, reason } => {
                let person = person.as_ref().map(PersonId::as_str);
                let by = person.or_else(|| role.as_ref().map(RoleId::as_str)).unwrap_or("somebody");
                write!(f, "{by} paused it: {reason}")
            }
            Self::Turns { turns } => {
                write!(f, "{} ended and no person acted in it", counted(*turns, "turn"))
            }
            Self::Cycle { length: 1, times } => {
                write!(f, "the same handover came {times} times in a row")
            }
            Self::Cycle { length, times } => {
                write!(f, "the same {length} handovers came {times} times in a row")
            }
            Self::Role { role, reason } => write!(f, "{role} {reason}"),
        }
    }
}

impl Loops {
    pub(super) fn decide_pause(&self, it: &PauseLoop) -> Result<Decision, Rejection> {
        let state = self.get(&it.loop_id)?;
        if state.holder.is_none() {
            return Err(state.completed(&it.loop_id));
        }
        if state.pause.is_some() {
            return Ok(Decision::repeat(Reply::Done));
        }
        let reason = PauseReason::Asked {
            person: it.by.person().cloned(),
            role: it.by.role().cloned(),
            reason: it.reason.clone(),
        };
        let paused = LoopPaused { loop_id: it.loop_id.clone(), turn: state.turn, reason };
        Ok(Decision::new([Event::LoopPaused(paused)], Reply::Done))
    }

    pub(super) fn decide_resume(
        &self,
        asked: Asked<'_>,
        it: &ResumeLoop,
    ) -> Result<Decision, Rejection> {
        let state = self.get(&it.loop_id)?;
        if let Actor::Role(role) = &it.by
            && !is_human(role)
        {
            return Err(Rejection::PersonRequired { role: role.clone() });
        }
        let Some(pause) = &state.pause else { return Ok(Decision::repeat(Reply::Done)) };
        // One command goes on: a loop whose role stays paused would not, nor would its others.
        let of_reason = match &pause.reason {
            PauseReason::Role { role, .. } => Some(role),
            PauseReason::Asked { .. } | PauseReason::Turns { .. } | PauseReason::Cycle { .. } => {
                None
            }
        };
        let roles = of_reason.into_iter().chain(&state.holder);
        let roles = roles.filter(|role| asked.workspace.guard.pause_of(role).is_some());
        let roles: BTreeSet<&RoleId> = roles.collect();
        let resumed = state.resumption(&it.loop_id, asked, it.reason.clone(), &roles);
        let mut decision = Decision::new(resumed, Reply::Done);
        for role in &roles {
            let resumed = guard::Event::RoleResumed((*role).clone(), it.reason.clone());
            decision.events.push(resumed.into());
        }
        let others = self.resumptions_of(&roles, asked).into_iter();
        let others = others.filter(|event| *event.loop_id() != it.loop_id);
        decision.events.extend(others.map(Into::into));
        Ok(decision)
    }

    /// What lets the loops go on that are paused because of these roles.
    pub(in crate::rules) fn resumptions_of(
        &self,
        roles: &BTreeSet<&RoleId>,
        asked: Asked<'_>,
    ) -> Vec<Event> {
        let is_due_to = |it: &Loop| {
            let reason = it.pause.as_ref().map(|it| &it.reason);
            matches!(reason, Some(PauseReason::Role { role, .. }) if roles.contains(role))
        };
        let paused = self.by_id.iter().filter(|(_, it)| is_due_to(it));
        paused.flat_map(|(id, it)| it.resumption(id, asked, String::new(), roles)).collect()
    }
}

impl Loop {
    /// Lets the loop go on together with `roles`. Where its turn is with another one that is paused
    /// by now, it is paused because of that one.
    fn resumption(
        &self,
        id: &LoopId,
        Asked { now, context, workspace, .. }: Asked<'_>,
        reason: String,
        roles: &BTreeSet<&RoleId>,
    ) -> Vec<Event> {
        let resumed = Event::LoopResumed(LoopResumed {
            loop_id: id.clone(),
            turn: self.turn,
            lapses: self.lease.map(|_| now.plus_millis(context.lease_ms)),
            reason,
        });
        let holder = self.holder.as_ref().filter(|holder| !roles.contains(holder));
        let why = holder.and_then(|holder| why_pause_for(workspace, holder));
        let paused = why.map(|reason| {
            Event::LoopPaused(LoopPaused { loop_id: id.clone(), turn: self.turn, reason })
        });
        [resumed].into_iter().chain(paused).collect()
    }

    /// Why the loop is to be paused once a role ended its turn so, and `next` began (T6).
    pub(super) fn why_pause(
        &self,
        workspace: &Workspace,
        id: &LoopId,
        ended: &Ended,
        next: &NextTurn,
    ) -> Option<PauseReason> {
        // Whoever wants no limit wants no guard.
        if let Some(max) = workspace.guard.turns_of(id) {
            let turns = self.turns_alone().saturating_add(1);
            if max <= turns {
                return Some(PauseReason::Turns { turns });
            }
            if let Some(length) = self.cycle_with(ended) {
                let number = |it| u32::try_from(it).unwrap_or(u32::MAX);
                let (length, times) = (number(length), number(CYCLE_TIMES));
                return Some(PauseReason::Cycle { length, times });
            }
        }
        why_pause_for(workspace, &next.to)
    }

    /// That the loop is paused with the turn that begins.
    pub(super) fn paused(id: &LoopId, next: &NextTurn, reason: PauseReason) -> Event {
        Event::LoopPaused(LoopPaused { loop_id: id.clone(), turn: next.turn, reason })
    }
}

/// Why a loop is to be paused when this role gets its turn.
pub(super) fn why_pause_for(workspace: &Workspace, to: &RoleId) -> Option<PauseReason> {
    let reason = workspace.guard.pause_of(to)?.reason;
    Some(PauseReason::Role { role: to.clone(), reason })
}
