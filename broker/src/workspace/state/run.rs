//! Runs: what nodes report and is not kept, who watches, and which event ends which wait.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::{FencingToken, Timestamp},
    limits::STEP_LEASE_MS,
    run::{RunId, StepId},
};
use tokio::sync::watch;

use super::{
    super::waits::{Question, WaitId},
    State,
};
use crate::rules::{
    Caller, Event as AnyEvent, Rejection,
    run::{self, Event, Report, StopReason},
};

/// What a node is told that reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported {
    pub(crate) stop: Option<StopReason>,
    pub(crate) lapses: Timestamp,
    pub(crate) now: Timestamp,
}

impl State {
    /// Takes a node's word for how far a step is, which renews its lease.
    pub(in crate::workspace) fn report(
        &mut self,
        caller: &Caller,
        step: StepId,
        token: FencingToken,
        report: Report,
    ) -> Result<Reported, Rejection> {
        let now = self.now();
        self.last_active = now;
        self.workspace.directory.check(caller, None)?;
        self.workspace.runs.check_claim(caller, step, token)?;
        report.partial.check(&self.workspace.privacy)?;
        if let Some((node, _)) = &caller.node {
            self.context.presence.node_seen(node, now);
        }
        let reports = &mut self.context.reports;
        let serial = reports.get(&step).map_or(1, |before| before.serial + 1);
        reports.insert(step, Report { at: now, serial, ..report });
        let stop = self.workspace.runs.stop(step, reports);
        self.notify(step.run);
        Ok(Reported { stop, lapses: now.plus_millis(STEP_LEASE_MS), now })
    }

    /// Says when a run changed. Ends with this actor.
    pub(in crate::workspace) fn watch(&mut self, run: RunId) -> watch::Receiver<()> {
        self.watched.retain(|_, it| !it.is_closed());
        self.watched.entry(run).or_insert_with(|| watch::channel(()).0).subscribe()
    }

    /// Whether somebody watches a run, or what there is to do for pipelines.
    pub(super) fn is_watched(&self) -> bool {
        !self.phases_changed.is_closed() || self.watched.values().any(|it| !it.is_closed())
    }

    fn notify(&self, run: RunId) {
        if let Some(watchers) = self.watched.get(&run) {
            watchers.send_replace(());
        }
    }

    /// What the state says, and of a step that is ready: that it is offered from now on.
    pub(super) fn answer_run(
        &mut self,
        question: &run::Question,
    ) -> Result<run::Answer, Rejection> {
        let answer = self.look_at_runs(question)?;
        if let (run::Question::Steps(offer), run::Answer::Steps { ready: Some(step), .. }) =
            (question, &answer)
        {
            self.step_offers.offer(self.now(), *step, &offer.node);
        }
        Ok(answer)
    }

    fn look_at_runs(&self, question: &run::Question) -> Result<run::Answer, run::Rejection> {
        let is_free = |step| match question {
            run::Question::Steps(offer) => self.step_offers.is_free(step, Some(&offer.node)),
            run::Question::Run { .. } | run::Question::Reply { .. } => true,
        };
        self.workspace.runs.answer(&self.workspace.directory, question, is_free)
    }

    /// Ends the waits that the state answers after this happened, and tells who watches.
    pub(super) fn wake_for_runs(&mut self, events: &[AnyEvent]) {
        let mut changed: BTreeSet<RunId> = BTreeSet::new();
        let mut has_nodes = false;
        for event in events {
            if let AnyEvent::Directory(_) = event {
                has_nodes = true;
            }
            let AnyEvent::Run(event) = event else { continue };
            if let Event::StepStarted(it) = event {
                self.step_offers.remove(it.step);
            }
            if let Event::StepEnded(it) = event {
                self.context.reports.remove(&it.step);
            }
            changed.extend(event.run());
        }
        changed.iter().for_each(|run| self.notify(*run));
        if !changed.is_empty() {
            let is_about = |it: &&run::Question| match it {
                run::Question::Run { run, .. } => changed.contains(run),
                run::Question::Reply { by, .. } => changed.contains(&by.step.run),
                run::Question::Steps(_) => false,
            };
            let asked = self.waits.about_runs().map(|(it, _)| it).filter(is_about);
            for question in asked.cloned().collect::<Vec<_>>() {
                self.end_if_answered(question);
            }
        }
        if has_nodes || !changed.is_empty() {
            self.wake_nodes();
        }
    }

    /// Shows what is ready to nodes that wait for it, the one first that waits the longest.
    pub(super) fn wake_nodes(&mut self) {
        let nodes = self.waits.about_runs();
        let nodes = nodes.filter(|(it, _)| matches!(it, run::Question::Steps(_)));
        let mut nodes: Vec<(WaitId, run::Question)> =
            nodes.map(|(it, wait)| (wait, it.clone())).collect();
        nodes.sort_unstable();
        nodes.into_iter().for_each(|(_, question)| self.end_if_answered(question));
    }

    /// What is not there any more is told, too.
    fn end_if_answered(&mut self, question: run::Question) {
        if self.look_at_runs(&question).map_or(true, |it| it.is_there()) {
            self.end(&Question::Run(question));
        }
    }
}
