//! What the passing of time brings: claims, reservations, locks and issues that lapse.
//!
//! How a lease goes on is in [`Lease`]. A reservation and an issue are held by nobody's presence:
//! their time just runs, but for the grace; of an issue the next needs something done to it.

use tasuki_proto::id::{RoleId, Timestamp};

use super::{
    Event, IssueEvent, IssueEventKind, Lease, LeaseRenewed, LeaseTarget, Swarm, Unlocked,
    WhyUnlocked, Words,
};
use crate::rules::{
    Caller, Fence, lease::SIGNS_IN_A_LEASE, presence::Presence, restored::Renumber,
};

/// Leases that are looked at for one record. More follow in the next.
const LAPSES_MAX: usize = 1000;

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
            let sign = last_sign(holder, presence);
            match lease.runs_until(sign, length_ms, now, presence) {
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
        let heard = self.graced.iter().filter_map(|held| self.heard(*held, now, presence));
        events.extend(heard.take(LAPSES_MAX));
        let words = self.number(now, &Caller::default(), None, &mut events);
        (events, words)
    }

    /// What a restore takes away from those who were granted it: tasks that are kept for the bearer
    /// of a next step. What is held by name stays, under a new token.
    pub(in crate::rules) fn decide_restore(&self, now: Timestamp) -> (Vec<Event>, Vec<Words>) {
        let mut events: Vec<Event> = Vec::new();
        for (_, held) in &self.deadlines {
            match held {
                LeaseTarget::Reservation(..) => self.lapsed(*held, &mut events),
                LeaseTarget::Issue(_)
                | LeaseTarget::Claim(..)
                | LeaseTarget::Delivery(_)
                | LeaseTarget::Lock(_) => {}
            }
        }
        let words = self.number(now, &Caller::default(), None, &mut events);
        (events, words)
    }

    /// Every grant has a token above all that any had before a restore (I3).
    pub(in crate::rules) fn fence(&mut self, fence: Fence) {
        let mut tokens = Renumber::above(fence, self.token);
        for task in self.issues.values_mut().flat_map(|issue| &mut issue.tasks) {
            if task.live_claim().is_some()
                && let Some(claim) = &mut task.claim
            {
                claim.token = tokens.next();
            }
            if let Some(reservation) = &mut task.reservation {
                reservation.token = tokens.next();
            }
        }
        for delivery in self.deliveries.values_mut() {
            if delivery.live_claim().is_some()
                && let Some(claim) = &mut delivery.claim
            {
                claim.token = tokens.next();
            }
        }
        self.locks.renumber(|| tokens.next());
        self.token = tokens.latest();
    }

    /// The renewal of what runs on a grace, once its holder was heard of again.
    fn heard(&self, held: LeaseTarget, now: Timestamp, presence: &Presence) -> Option<Event> {
        let (lease, holder, length_ms) = self.lease(held)?;
        // What is due was judged already.
        let sign = lease.sign(last_sign(holder, presence), length_ms);
        let sign = sign.filter(|_| now < lease.lapses)?;
        let lapses = sign.plus_millis(length_ms).max(lease.lapses);
        Some(Event::LeaseRenewed(LeaseRenewed { held, lapses, is_grace: false }))
    }

    /// Whether something that is held runs on a grace that a sign of its holder would end.
    pub(in crate::rules) fn has_graced(&self) -> bool {
        !self.graced.is_empty()
    }

    /// Sees to it that a lease is found by its grace while it runs.
    pub(super) fn note_graced(&mut self, held: LeaseTarget) {
        let is_graced = self.lease(held).is_some_and(|(lease, holder, _)| {
            let is_kept = lease.had_grace && holder.is_some();
            is_kept && self.deadlines.contains(&(lease.lapses, held))
        });
        if is_graced {
            self.graced.insert(held);
        } else {
            self.graced.remove(&held);
        }
    }

    /// The lease of what is held, who holds it by being there, and how long it lasts from each
    /// sign of life.
    fn lease(&self, held: LeaseTarget) -> Option<(Lease, Option<&RoleId>, u64)> {
        let settings = &self.settings;
        let (lease, holder, usual_ms) = match held {
            LeaseTarget::Issue(id) => (self.issues.get(&id)?.lease?, None, settings.issue_ttl_ms),
            LeaseTarget::Claim(id, number) => {
                let claim = self.task(id, number).ok()?.1.live_claim()?;
                (claim.lease, Some(&claim.worker), settings.task_claim_ms)
            }
            LeaseTarget::Reservation(id, number) => {
                let reservation = self.task(id, number).ok()?.1.reservation.as_ref()?;
                (reservation.lease, None, settings.reservation_ms)
            }
            LeaseTarget::Delivery(id) => {
                let claim = self.deliveries.get(&id)?.live_claim()?;
                (claim.lease, Some(&claim.role), settings.delivery_claim_ms)
            }
            LeaseTarget::Lock(id) => {
                let lock = self.locks.get(id)?;
                (lock.lease, Some(&lock.role), settings.lock_ms)
            }
        };
        // Nobody could keep what lasts no longer than it takes to hear of its holder.
        let heard_ms = SIGNS_IN_A_LEASE * settings.sign_every_ms();
        Some((lease, holder, lease.length(usual_ms).max(heard_ms)))
    }

    fn lapsed(&self, held: LeaseTarget, events: &mut Vec<Event>) {
        let happened = |issue, what| Event::Issue(IssueEvent { issue, audit: 0, what });
        let unlocked = |lock, why| Event::Unlocked(Unlocked { lock, why });
        match held {
            LeaseTarget::Issue(issue) => {
                // What happened to it in the same moment keeps it.
                if !events.iter().any(|event| event.issue() == Some(issue)) {
                    events.push(happened(issue, IssueEventKind::Lapsed));
                }
            }
            LeaseTarget::Claim(issue, task) => {
                let Ok((_, state)) = self.task(issue, task) else { return };
                let Some(claim) = state.live_claim() else { return };
                let worker = claim.worker.clone();
                events.push(happened(issue, IssueEventKind::ClaimLapsed { task, worker }));
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
            LeaseTarget::Reservation(issue, task) => {
                let Ok((_, state)) = self.task(issue, task) else { return };
                let Some(kept) = &state.reservation else { return };
                let next_step = kept.next_step;
                events.push(happened(issue, IssueEventKind::ReservationLapsed { task, next_step }));
            }
            LeaseTarget::Delivery(delivery) => {
                let it = &self.deliveries[&delivery];
                let Some(claim) = it.live_claim() else { return };
                let role = claim.role.clone();
                events.push(happened(it.issue, IssueEventKind::DeliveryLapsed { delivery, role }));
            }
            LeaseTarget::Lock(lock) => {
                // Its task may have ended in the same moment.
                let is_it = |event: &Event| matches!(event, Event::Unlocked(it) if it.lock == lock);
                if !events.iter().any(is_it) {
                    events.push(unlocked(lock, WhyUnlocked::Lapsed));
                }
            }
        }
    }
}

fn last_sign(holder: Option<&RoleId>, presence: &Presence) -> Option<Timestamp> {
    holder.and_then(|role| presence.role(role)).map(|sign| sign.at)
}
