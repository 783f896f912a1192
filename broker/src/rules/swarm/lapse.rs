//! What the passing of time brings: claims, reservations, locks and issues that lapse.
//!
//! A lease runs as long as its holder gives signs of life, and a while longer. Signs are soft
//! state; a renewal is journalled when the lease would lapse without it, and so is the lapse. After
//! the broker was down or stood still, what ran out meanwhile gets one grace per grant: nobody
//! could renew it. A reservation and an issue are held by nobody's presence: their time just runs,
//! but for that grace.

use tasuki_proto::id::{RoleId, Timestamp};

use super::{
    Event, Happened, Held, Lease, LeaseRenewed, OfIssue, Swarm, Unlocked, WhyUnlocked, Words,
};
use crate::rules::{Caller, presence::Presence};

/// Leases that are looked at for one record. More follow in the next.
const LAPSES_MAX: usize = 1000;

/// Signs of life that a node gives in the shortest lease.
pub(super) const SIGNS_IN_A_LEASE: u64 = 3;

impl Swarm {
    /// What lapsed by `now`, and what goes on.
    pub(in crate::rules) fn decide_lapses(
        &self,
        now: Timestamp,
        presence: &Presence,
    ) -> (Vec<Event>, Vec<Words>) {
        let due = self.deadlines.iter().take_while(|(at, _)| *at <= now).take(LAPSES_MAX);
        let mut events: Vec<Event> = Vec::new();
        for (_, held) in due {
            let Some((lease, holder, length_ms)) = self.lease(*held) else { continue };
            // Nobody could keep what lasts no longer than it takes to hear of its holder.
            let granted_ms = lease.length(length_ms);
            let length_ms = granted_ms.max(SIGNS_IN_A_LEASE * self.settings.sign_every_ms());
            match lease.runs_until(holder, length_ms, now, presence) {
                Some((lapses, is_grace)) => {
                    events.push(Event::LeaseRenewed(LeaseRenewed {
                        held: *held,
                        lapses,
                        is_grace,
                    }));
                }
                None => self.lapsed(*held, &mut events),
            }
        }
        let words = self.number(now, &Caller::default(), None, &mut events);
        (events, words)
    }

    /// The lease of what is held, who holds it by being there, and how long one lasts by the
    /// settings.
    fn lease(&self, held: Held) -> Option<(Lease, Option<&RoleId>, u64)> {
        let settings = &self.settings;
        Some(match held {
            Held::Issue(id) => (self.issues.get(&id)?.lease?, None, settings.issue_ttl_ms),
            Held::Claim(id, number) => {
                let claim = self.task(id, number).ok()?.1.live_claim()?;
                (claim.lease, Some(&claim.worker), settings.task_claim_ms)
            }
            Held::Reservation(id, number) => {
                let reservation = self.task(id, number).ok()?.1.reservation.as_ref()?;
                (reservation.lease, None, settings.reservation_ms)
            }
            Held::Delivery(id) => {
                let claim = self.deliveries.get(&id)?.live_claim()?;
                (claim.lease, Some(&claim.role), settings.delivery_claim_ms)
            }
            Held::Lock(id) => {
                let lock = self.locks.get(id)?;
                (lock.lease, Some(&lock.role), settings.lock_ms)
            }
        })
    }

    fn lapsed(&self, held: Held, events: &mut Vec<Event>) {
        let happened = |issue, what| Event::Issue(OfIssue { issue, audit: 0, what });
        let unlocked = |lock, why| Event::Unlocked(Unlocked { lock, why });
        match held {
            Held::Issue(issue) => {
                // What happened to it in the same moment keeps it.
                if !events.iter().any(|event| event.issue() == Some(issue)) {
                    events.push(happened(issue, Happened::Lapsed));
                }
            }
            Held::Claim(issue, task) => {
                let Ok((_, state)) = self.task(issue, task) else { return };
                let Some(claim) = state.live_claim() else { return };
                let worker = claim.worker.clone();
                events.push(happened(issue, Happened::ClaimLapsed { task, worker }));
                let locks = self.locks.of_task(issue, task).map(|it| it.id);
                let is_open = |events: &[Event], lock| {
                    let is_it =
                        |event: &Event| matches!(event, Event::Unlocked(it) if it.lock == lock);
                    !events.iter().any(is_it)
                };
                for lock in locks {
                    if is_open(events, lock) {
                        events.push(unlocked(lock, WhyUnlocked::TaskEnded));
                    }
                }
            }
            Held::Reservation(issue, task) => {
                let Ok((_, state)) = self.task(issue, task) else { return };
                let Some(kept) = &state.reservation else { return };
                let next_step = kept.next_step;
                events.push(happened(issue, Happened::ReservationLapsed { task, next_step }));
            }
            Held::Delivery(delivery) => {
                let it = &self.deliveries[&delivery];
                let Some(claim) = it.live_claim() else { return };
                let role = claim.role.clone();
                events.push(happened(it.issue, Happened::DeliveryLapsed { delivery, role }));
            }
            Held::Lock(lock) => {
                // Its task may have ended in the same moment.
                let is_it = |event: &Event| matches!(event, Event::Unlocked(it) if it.lock == lock);
                if !events.iter().any(is_it) {
                    events.push(unlocked(lock, WhyUnlocked::Lapsed));
                }
            }
        }
    }
}

impl Lease {
    /// Until when it goes on, and whether that is its one grace; `None`: it lapsed.
    fn runs_until(
        self,
        holder: Option<&RoleId>,
        length_ms: u64,
        now: Timestamp,
        presence: &Presence,
    ) -> Option<(Timestamp, bool)> {
        let sign = holder.and_then(|role| presence.role(role));
        let lasts = sign.map(|sign| sign.at.plus_millis(length_ms));
        if let Some(lasts) = lasts.filter(|lasts| now < *lasts) {
            return Some((lasts, false));
        }
        let graced = presence.grace(self.lapses, length_ms);
        graced.filter(|graced| !self.had_grace && now < *graced).map(|graced| (graced, true))
    }
}
