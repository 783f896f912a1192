//! What the passing of time brings to runs: steps that are lost, and runs that are forgotten.
//!
//! A step's lease runs as long as its node reports; how it goes on otherwise is in
//! [`Lease`](crate::rules::lease::Lease). A node that begins anew has lost what it ran at once.

use tasuki_proto::{
    id::{NodeId, Timestamp},
    limits::{RUN_KEPT_MS, STEP_LEASE_MS},
    run::{RunId, StepId},
};

use super::{Claim, Event, Outcome, Reports, Runs, StepResult, draft::Draft};
use crate::rules::Context;

/// Leases that are looked at for one record, and runs that are forgotten. More follow in the next.
const LAPSES_MAX: usize = 1000;

impl Runs {
    /// What lapsed by `now`, and what goes on.
    pub(in crate::rules) fn decide_lapses(&self, now: Timestamp, context: &Context) -> Vec<Event> {
        let mut draft = Draft::new(now);
        let due = self.deadlines.iter().take_while(|(at, _)| *at <= now).take(LAPSES_MAX);
        for (_, step) in due {
            let Some(claim) = self.claim(*step) else { continue };
            draft.load(self, step.run);
            let sign = last_report(*step, &context.reports);
            match claim.lease.runs_until(sign, STEP_LEASE_MS, now, &context.presence) {
                Some((lapses, is_grace)) => {
                    draft.push(Event::LeaseRenewed { step: *step, lapses, is_grace });
                }
                None => draft.lose(*step, &context.reports),
            }
        }
        for step in self.graced.iter().take(LAPSES_MAX) {
            let Some(claim) = self.claim(*step) else { continue };
            let sign = claim.lease.sign(last_report(*step, &context.reports), STEP_LEASE_MS);
            // What is due was judged already.
            if let Some(sign) = sign.filter(|_| now < claim.lease.lapses) {
                draft.load(self, step.run);
                let lapses = sign.plus_millis(STEP_LEASE_MS).max(claim.lease.lapses);
                draft.push(Event::LeaseRenewed { step: *step, lapses, is_grace: false });
            }
        }
        let mut events = draft.events;
        let is_old = |(ended, _): &&(Timestamp, RunId)| ended.plus_millis(RUN_KEPT_MS) <= now;
        let old = self.over.iter().take_while(is_old).take(LAPSES_MAX);
        events.extend(self.forget(old.map(|(_, root)| *root)));
        events
    }

    /// What a node ran that begins anew.
    pub(in crate::rules) fn decide_fenced(
        &self,
        now: Timestamp,
        context: &Context,
        node: &NodeId,
    ) -> Vec<Event> {
        self.decide_lost(now, context, |claim| claim.node == *node)
    }

    /// What ran under such claims, none of which hold any more.
    pub(in crate::rules) fn decide_lost(
        &self,
        now: Timestamp,
        context: &Context,
        is_lost: impl Fn(&Claim) -> bool,
    ) -> Vec<Event> {
        let mut draft = Draft::new(now);
        for (_, step) in &self.deadlines {
            if self.claim(*step).is_some_and(&is_lost) {
                draft.load(self, step.run);
                draft.lose(*step, &context.reports);
            }
        }
        draft.events
    }

    /// The first runs of trees that had ended by then.
    pub(in crate::rules) fn over(&self, before: Timestamp) -> impl Iterator<Item = RunId> {
        let over = self.over.iter().take_while(move |(ended, _)| *ended <= before);
        over.map(|(_, root)| *root)
    }

    /// Forgets those of these trees that had ended by then.
    pub(in crate::rules) fn decide_compact(
        &self,
        before: Timestamp,
        roots: &[RunId],
    ) -> Option<Event> {
        let is_over = |root: &RunId| {
            let ended = self.ended(*root);
            ended <= before && self.over.contains(&(ended, *root))
        };
        self.forget(roots.iter().copied().filter(is_over))
    }

    /// Forgets whole trees.
    pub(super) fn forget(&self, roots: impl Iterator<Item = RunId>) -> Option<Event> {
        let runs: Vec<RunId> = roots.flat_map(|root| self.tree(root)).map(|run| run.id).collect();
        (!runs.is_empty()).then_some(Event::Forgotten { runs })
    }

    /// When a lease runs out next, or a run is old enough.
    pub(in crate::rules) fn next_deadline(&self) -> Option<Timestamp> {
        let lapses = self.deadlines.first().map(|(at, _)| *at);
        let old = self.over.first().map(|(ended, _)| ended.plus_millis(RUN_KEPT_MS));
        lapses.into_iter().chain(old).min()
    }

    /// Whether a step runs on a grace that a report would end.
    pub(in crate::rules) fn has_graced(&self) -> bool {
        !self.graced.is_empty()
    }

    fn claim(&self, step: StepId) -> Option<&Claim> {
        self.step(step).ok()?.1.claim()
    }
}

impl Draft {
    /// Nothing was heard of a step any more, but for what was reported before.
    fn lose(&mut self, step: StepId, reports: &Reports) {
        let usage = reports.get(&step).map(|report| report.usage).unwrap_or_default();
        self.end(step, Outcome::Lost, usage, StepResult::default());
    }
}

fn last_report(step: StepId, reports: &Reports) -> Option<Timestamp> {
    reports.get(&step).map(|report| report.at)
}
