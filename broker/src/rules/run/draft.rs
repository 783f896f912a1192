//! What a change to a step means for its run, those below it and those above it, worked out on a
//! copy of their tree: each event is applied there as it will be applied for good.

use tasuki_proto::{
    id::Timestamp,
    run::{RunId, StepId},
};

use super::{Event, Outcome, Runs, StepEnded, StepResult, StopReason, Usage, state::Run};
use crate::rules::Principal;

/// A decision that is being made.
pub(super) struct Draft {
    pub now: Timestamp,
    copy: Runs,
    pub events: Vec<Event>,
}

impl Draft {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { now, copy: Runs::default(), events: Vec::new() }
    }

    /// Copies the tree of a run, unless it is there.
    pub(super) fn load(&mut self, runs: &Runs, id: RunId) {
        let root = runs.root(id);
        if self.copy.by_id.contains_key(&root) {
            return;
        }
        for run in runs.tree(root) {
            self.copy.by_id.insert(run.id, run.clone());
            self.copy.index(run.id);
        }
        self.copy.open.extend(runs.open.get(&root).map(|open| (root, *open)));
    }

    pub(super) fn push(&mut self, event: Event) {
        self.copy.apply(self.now, &Principal::default(), &event);
        self.events.push(event);
    }

    /// A step has ended.
    pub(super) fn end(&mut self, step: StepId, outcome: Outcome, usage: Usage, result: StepResult) {
        self.push(Event::StepEnded(Box::new(StepEnded { step, outcome, usage, result })));
        // Nobody is left to hear of what it started.
        let is_its = |run: &&Run| run.parent() == Some(step);
        let tree = self.copy.tree(step.run);
        let own: Vec<RunId> = tree.into_iter().filter(is_its).map(|run| run.id).collect();
        own.into_iter().for_each(|run| self.stop(run, StopReason::Canceled));
        self.settle(step.run);
        let is_spent = |run: &&Run| run.stopped.is_none() && run.budget.spent(run.used).is_some();
        let line = self.copy.line(step.run);
        let spent: Vec<RunId> = line.filter(is_spent).map(|run| run.id).collect();
        spent.into_iter().for_each(|run| self.stop(run, StopReason::Budget));
    }

    /// Nothing of a run and those below it begins any more.
    pub(super) fn stop(&mut self, id: RunId, why: StopReason) {
        let Some(run) = self.copy.by_id.get(&id).filter(|run| run.is_open()) else { return };
        let below = run.children.clone();
        let is_more = match run.stopped {
            None => true,
            Some(StopReason::Budget) => why == StopReason::Canceled,
            Some(StopReason::Canceled) => false,
        };
        if is_more {
            self.push(Event::Stopped { run: id, why });
        }
        below.into_iter().for_each(|run| self.stop(run, why));
        self.settle(id);
    }

    /// Ends a run if it is to end.
    fn settle(&mut self, run: RunId) {
        if let Some(outcome) = self.copy.by_id.get(&run).and_then(Run::outcome_due) {
            self.push(Event::Ended { run, outcome });
        }
    }
}
