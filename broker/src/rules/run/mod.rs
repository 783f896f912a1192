//! Runs of sub-agents: what somebody asked for in one call, as steps that nodes run.
//!
//! A run is a state machine of its own: its steps become ready as its mode says, nodes claim them
//! under a lease and say how they ended (`decide`), and what follows from that for the run, those
//! below it and those above it is worked out on a copy of their tree (`draft`). Time alone makes
//! steps `lost` (`lapse`). What runs use is added up along the tree and bounded by it (`budget`).
//! Words are in bodies of their own ([`words`]).
//!
//! - **RU1** A step is claimed by at most one node at a time, and ends once.
//! - **RU2** What is written about a step under an older token, or another node's, is refused.
//! - **RU3** A run ends exactly when its mode says so: once, and never while a step of it runs.
//! - **RU4** Nothing that ended runs again.
//! - **RU5** The usage of a tree is the sum of its steps'.
//! - **RU6** A run never has more budget than what its parent had left.
//!
//! Not here: which sub-agents there are, and how they are run (nodes).

mod apply;
mod budget;
mod command;
mod decide;
mod draft;
mod event;
mod lapse;
mod rejection;
mod state;
mod waiting;
pub mod words;

#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{FencingToken, RoleId, Timestamp},
    run::{RunId, StepId},
};

use self::state::Source;
pub use self::{
    budget::{Budget, Usage, WantedBudget},
    command::{Bearer, Command, End, Speaker, Start},
    event::{Event, Reply, Started, StepEnded, StepResult, StepSpec, StepStarted},
    rejection::Rejection,
    state::{
        Asker, Claim, Ended, Failure, Message, MessageKind, MessageState, Mode, Origin, Outcome,
        Run, RunOutcome, Step, StepState, StopReason,
    },
    waiting::{Answer, Offer, Question, Waiter},
    words::{File, FileFacts, OutputWords, StepWords, Text, Words},
};
use super::{Fence, Kept};

/// What a node said last of a step that it runs. Soft state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub at: Timestamp,
    /// Tells it from the one before.
    pub serial: u64,
    /// So far.
    pub usage: Usage,
    pub last_tool: String,
    /// The newest output.
    pub partial: Text,
}

/// The newest report of each step that runs.
pub type Reports = BTreeMap<StepId, Report>;

/// All runs of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs {
    by_id: BTreeMap<RunId, Run>,
    /// Of the latest claim.
    token: FencingToken,
    /// Of the id made next.
    next_tail: u32,
    /// Derived: steps that may be claimed.
    ready: BTreeSet<StepId>,
    /// Derived: leases of steps that run, by when they lapse.
    deadlines: BTreeSet<(Timestamp, StepId)>,
    /// Derived: those of them that are graces.
    graced: BTreeSet<StepId>,
    /// Derived: runs that have not ended, of each tree that has such.
    open: BTreeMap<RunId, usize>,
    /// Derived: runs that have not ended, of each source that has such.
    open_by_source: BTreeMap<Source, usize>,
    /// Derived: the first runs of trees that have ended, and when.
    over: BTreeSet<(Timestamp, RunId)>,
}

/// What a snapshot holds.
#[derive(Debug, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotItem<'a> {
    /// The latest claim's token, and what the next id ends with.
    #[n(0)]
    Base(#[n(0)] FencingToken, #[n(1)] u32),
    #[n(1)]
    Run(#[n(0)] Box<Cow<'a, Run>>),
}

impl Kept for Runs {
    type Item<'a> = SnapshotItem<'a>;

    fn items(&self) -> impl Iterator<Item = SnapshotItem<'_>> {
        // There is nothing to say where there never was a run.
        let base = (self.next_tail != 0 || self.token != FencingToken::NONE)
            .then_some(SnapshotItem::Base(self.token, self.next_tail));
        let runs = self.by_id.values().map(|it| SnapshotItem::Run(Box::new(Cow::Borrowed(it))));
        base.into_iter().chain(runs)
    }

    fn restore(&mut self, item: SnapshotItem<'_>) -> Result<(), &'static str> {
        match item {
            SnapshotItem::Base(token, next_tail) => {
                (self.token, self.next_tail) = (token, next_tail);
            }
            SnapshotItem::Run(it) => _ = self.by_id.insert(it.id, (*it).into_owned()),
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), &'static str> {
        self.by_id.values_mut().for_each(|run| run.children.clear());
        let below = self.by_id.values().filter_map(|run| Some((run.parent()?, run.id)));
        let below: Vec<(StepId, RunId)> = below.collect();
        for (parent, child) in below {
            let run = self.by_id.get_mut(&parent.run).ok_or("the run above another")?;
            run.step(parent.number).ok_or("the step above a run")?;
            run.children.push(child);
        }
        let all: Vec<RunId> = self.by_id.keys().copied().collect();
        for id in &all {
            self.index(*id);
            let (root, is_open) = (self.root(*id), self.by_id[id].is_open());
            *self.open.entry(root).or_default() += usize::from(is_open);
        }
        for (root, _) in self.open.extract_if(.., |_, open| *open == 0).collect::<Vec<_>>() {
            self.over.insert((self.ended(root), root));
        }
        Ok(())
    }
}

impl Runs {
    /// All of them, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Run> {
        self.by_id.values()
    }

    /// Those before this one, or all.
    pub fn before(&self, id: Option<RunId>) -> impl DoubleEndedIterator<Item = &Run> {
        let end = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_id.range((Bound::Unbounded, end)).map(|(_, run)| run)
    }

    /// The run of this id.
    ///
    /// # Errors
    /// [`Rejection::UnknownRun`].
    pub fn get(&self, id: RunId) -> Result<&Run, Rejection> {
        self.by_id.get(&id).ok_or(Rejection::UnknownRun { run: id })
    }

    /// The step of this name, and its run.
    ///
    /// # Errors
    /// [`Rejection::UnknownRun`], [`Rejection::UnknownStep`].
    pub fn step(&self, id: StepId) -> Result<(&Run, &Step), Rejection> {
        let run = self.get(id.run)?;
        let step = run.step(id.number);
        let last = run.steps.len();
        Ok((run, step.ok_or(Rejection::UnknownStep { step: id, last })?))
    }

    /// The role that asked for the first run of the tree.
    pub fn role_of(&self, id: RunId) -> Option<&RoleId> {
        match &self.line(id).last()?.asker {
            Asker::Role(role) => Some(role),
            Asker::Person(_) | Asker::Step(_) => None,
        }
    }

    /// A run and those above it.
    fn line(&self, id: RunId) -> impl Iterator<Item = &Run> {
        let above = |run: &&Run| run.parent().and_then(|it| self.by_id.get(&it.run));
        std::iter::successors(self.by_id.get(&id), above)
    }

    /// The first run of the tree.
    pub fn root(&self, id: RunId) -> RunId {
        self.line(id).last().map_or(id, |run| run.id)
    }

    /// How many there are from the first of the tree to this one.
    pub fn depth(&self, id: RunId) -> usize {
        self.line(id).count()
    }

    /// A run and all below it.
    pub fn tree(&self, id: RunId) -> Vec<&Run> {
        let mut all: Vec<&Run> = self.by_id.get(&id).into_iter().collect();
        let mut at = 0;
        while let Some(run) = all.get(at) {
            all.extend(run.children.iter().filter_map(|child| self.by_id.get(child)));
            at += 1;
        }
        all
    }

    /// What a run and all below it used, with what is reported of steps that run.
    pub fn used(&self, id: RunId, reports: &Reports) -> Usage {
        let Some(run) = self.by_id.get(&id) else { return Usage::default() };
        let steps = self.tree(id).into_iter().flat_map(Run::numbered);
        let running = steps.filter(|(_, step)| step.claim().is_some());
        let reported = running.filter_map(|(step, _)| reports.get(&step));
        reported.fold(run.used, |used, report| used.plus(report.usage))
    }

    /// What a run below this one may use at most.
    pub fn left(&self, id: RunId, reports: &Reports) -> Option<Budget> {
        let left =
            self.line(id).map(|run| run.budget.left(self.used(run.id, reports), run.tree_steps));
        left.reduce(Budget::within)
    }

    /// Whether a node is to stop a step that it runs, and why.
    pub fn stop(&self, step: StepId, reports: &Reports) -> Option<StopReason> {
        let is_canceled = |run: &Run| run.stopped == Some(StopReason::Canceled);
        if self.by_id.get(&step.run).is_some_and(is_canceled) {
            return Some(StopReason::Canceled);
        }
        let is_over = |run: &Run| {
            let is_limited = run.budget.cost_microusd.is_some() || run.budget.turns.is_some();
            is_limited && run.budget.exceeded(self.used(run.id, reports)).is_some()
        };
        self.line(step.run).any(is_over).then_some(StopReason::Budget)
    }

    /// The next claim has a token above all that any had before a restore.
    pub(super) fn fence(&mut self, fence: Fence) {
        self.token = fence.above(self.token.get()).into();
    }

    /// Whether a node holds a step.
    pub fn is_held(&self) -> bool {
        !self.deadlines.is_empty()
    }

    /// How many steps nodes hold.
    pub fn held(&self) -> usize {
        self.deadlines.len()
    }

    /// Adds what is derived of a run.
    fn index(&mut self, id: RunId) {
        let Some(run) = self.by_id.get(&id) else { return };
        if run.is_open() {
            *self.open_by_source.entry(run.source()).or_default() += 1;
        }
        self.ready.extend(run.ready());
        for (step, claim) in run.numbered().filter_map(|(id, it)| Some((id, it.claim()?))) {
            self.deadlines.insert((claim.lease.lapses, step));
            if claim.lease.had_grace {
                self.graced.insert(step);
            }
        }
    }

    /// Takes it away again.
    fn unindex(&mut self, id: RunId) {
        let Some(run) = self.by_id.get(&id) else { return };
        if run.is_open() {
            let source = run.source();
            let open = self.open_by_source.get_mut(&source).expect("a source with an open run");
            *open -= 1;
            if *open == 0 {
                self.open_by_source.remove(&source);
            }
        }
        for (step, it) in run.numbered() {
            self.ready.remove(&step);
            self.graced.remove(&step);
            if let Some(claim) = it.claim() {
                self.deadlines.remove(&(claim.lease.lapses, step));
            }
        }
    }

    /// When the last run of a tree ended.
    fn ended(&self, root: RunId) -> Timestamp {
        let ended = self.tree(root).into_iter().filter_map(|run| Some(run.ended?.0));
        ended.max().unwrap_or_default()
    }
}
