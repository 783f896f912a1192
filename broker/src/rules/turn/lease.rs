//! The time limit on a held turn.
//!
//! A lease runs as long as its holder gives signs of life, and a while longer. Signs are soft
//! state; what is journalled is a renewal once half the lease is used up, so that a restart
//! knows of it, and the lapse. After the broker was down or stood still, a lease that ran out
//! meanwhile gets one grace, since its holder could not renew it; the next only after a sign of
//! its holder since. The first sign after a grace is journalled at once, so that a restart knows.
//! In a paused loop no lease runs; the held turn gets a new one when the loop goes on.

use tasuki_proto::id::{LoopId, RoleId, Timestamp};

use super::{Event, LeaseRenewed, Loop, Loops, MarkTurn, TurnMoment};
use crate::rules::{Context, Decision, ReceiptKind, Rejection, Reply, presence::Presence};

impl Loops {
    /// Tells how far a handover got. Marks of turns that are over have no effect.
    pub(super) fn decide_mark(
        &self,
        now: Timestamp,
        context: &Context,
        it: &MarkTurn,
    ) -> Result<Decision, Rejection> {
        let state = self.get(&it.loop_id)?;
        state.check_participant(&it.loop_id, &it.role)?;
        let mut events = Vec::new();
        if state.turn == it.turn && state.holder.as_ref() == Some(&it.role) {
            let moment = TurnMoment { loop_id: it.loop_id.clone(), turn: it.turn };
            let receipts = state.latest.as_ref().map(|latest| latest.receipts);
            match (it.mark, receipts) {
                (ReceiptKind::Handed, Some(r)) if r.handed.is_none() => {
                    events.push(Event::TurnHanded(moment));
                }
                (ReceiptKind::Seen, Some(r)) if r.seen.is_none() => {
                    events.push(Event::TurnSeen(moment));
                }
                (ReceiptKind::Handed | ReceiptKind::Seen, _) => {}
            }
            if state.running_lease().is_none() && state.pause.is_none() {
                events.push(state.renewal(&it.loop_id, now.plus_millis(context.lease_ms), false));
            }
        }
        Ok(Decision::new(events, Reply::Done))
    }

    /// Renewals, graces and lapses that are due.
    pub(in crate::rules) fn decide_tick(&self, now: Timestamp, context: &Context) -> Vec<Event> {
        let half = context.lease_ms / 2;
        let mut events = Vec::new();
        for id in &self.graced {
            let state = &self.by_id[id];
            let (Some(holder), Some(lapses)) = (&state.holder, state.running_lease()) else {
                continue;
            };
            // What used up half its lease is looked at below.
            if lapses.minus_millis(half) <= now {
                continue;
            }
            let sign = last_sign(&context.presence, holder);
            let lasts = sign.map(|at| at.plus_millis(context.lease_ms));
            if let Some(lasts) = lasts.filter(|lasts| lapses < *lasts) {
                events.push(state.renewal(id, lasts, false));
            }
        }
        for (lapses, id) in &self.leases {
            if now < lapses.minus_millis(half) {
                break;
            }
            let state = &self.by_id[id];
            let Some(holder) = &state.holder else { continue };
            let sign = last_sign(&context.presence, holder);
            let lasts = sign.map_or(*lapses, |at| at.plus_millis(context.lease_ms)).max(*lapses);
            if *lapses < lasts {
                // Signs come every few seconds: only those that gain much are worth a record,
                // unless the lease would lapse without, or could have no other grace.
                let is_much = lapses.plus_millis(half / 2) <= lasts;
                if is_much || *lapses <= now || state.is_graced() {
                    events.push(state.renewal(id, lasts, false));
                }
                continue;
            }
            if now < *lapses {
                continue;
            }
            let had_grace = state.lease.is_some_and(|lease| lease.had_grace);
            let graced = context.presence.grace(*lapses, context.lease_ms);
            if let Some(graced) = graced.filter(|graced| !had_grace && now < *graced) {
                events.push(state.renewal(id, graced, true));
            } else {
                let moment = TurnMoment { loop_id: id.clone(), turn: state.turn };
                events.push(Event::TurnLapsed(moment));
            }
        }
        for id in &self.lapsed {
            let state = &self.by_id[id];
            let Some(holder) = &state.holder else { continue };
            let lasts = last_sign(&context.presence, holder)
                .map_or_else(Timestamp::default, |at| at.plus_millis(context.lease_ms));
            if now < lasts {
                events.push(state.renewal(id, lasts, false));
            }
        }
        events
    }

    /// Whether this loop's lease lapsed.
    pub fn is_lapsed(&self, id: &LoopId) -> bool {
        self.lapsed.contains(id)
    }

    /// Whether a sign of life may set a lapsed lease running again.
    pub fn has_lapsed(&self) -> bool {
        !self.lapsed.is_empty()
    }

    /// Whether a turn runs on a grace that a sign of its holder would end.
    pub(in crate::rules) fn has_graced(&self) -> bool {
        !self.graced.is_empty()
    }

    pub(in crate::rules) fn next_deadline(
        &self,
        now: Timestamp,
        lease_ms: u64,
    ) -> Option<Timestamp> {
        let (first, _) = self.leases.first()?;
        let half = lease_ms / 2;
        // Half-times lie in the order of the lapses: the first that is still to come counts.
        let undue = (now.plus_millis(half + 1), smallest_id());
        let next_half = self.leases.range(undue..).next().map(|(at, _)| at.minus_millis(half));
        Some(next_half.map_or(*first, |half_time| half_time.min(*first)))
    }
}

impl Loop {
    fn renewal(&self, id: &LoopId, lapses: Timestamp, is_grace: bool) -> Event {
        let turn = self.turn;
        Event::LeaseRenewed(LeaseRenewed { loop_id: id.clone(), turn, lapses, is_grace })
    }
}

pub(super) fn smallest_id() -> LoopId {
    "0".parse().expect("a valid id")
}

fn last_sign(presence: &Presence, role: &RoleId) -> Option<Timestamp> {
    presence.role(role).map(|sign| sign.at)
}
