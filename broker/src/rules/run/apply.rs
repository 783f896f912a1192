//! What events do to runs. Cannot refuse.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::Timestamp,
    run::{RunId, StepId},
};

use super::{
    Asker, Claim, Event, Message, MessageState, Run, Runs, Started, Step, StepEnded, StepStarted,
    StepState, Usage,
};
use crate::rules::{Principal, lease::Lease};

impl Runs {
    /// Records that this happened at `now`.
    pub(in crate::rules) fn apply(&mut self, now: Timestamp, _: &Principal, event: &Event) {
        match event {
            Event::Started(it) => self.started(now, it),
            Event::StepStarted(it) => self.step_started(now, it),
            Event::StepEnded(it) => self.step_ended(now, it),
            Event::Stopped { run, why } => self.change(*run, |run| {
                run.stopped = Some(*why);
                run.cancel_waiting(now);
            }),
            Event::Ended { run: id, outcome } => {
                self.change(*id, |run| {
                    assert!(run.is_open(), "RU4: {id} ended before");
                    let due = run.outcome_due();
                    assert!(due.is_some(), "RU3: {id} ends as {outcome:?} too early");
                    run.ended = Some((now, *outcome));
                    run.cancel_waiting(now);
                });
                let root = self.root(*id);
                let open = self.open.get_mut(&root).expect("a tree with an open run");
                *open -= 1;
                if *open == 0 {
                    self.open.remove(&root);
                    self.over.insert((self.ended(root), root));
                }
            }
            Event::LeaseRenewed { step, lapses, is_grace } => self.change(step.run, |run| {
                if let StepState::Running(claim) = &mut run.step_mut(step.number).state {
                    let lease = claim.lease;
                    claim.lease = Lease { lapses: *lapses, had_grace: *is_grace, ..lease };
                }
            }),
            Event::ParentTold { step, number, kind, content } => self.change(step.run, |run| {
                assert!(*number as usize == run.messages.len() + 1, "messages have no gaps");
                run.messages.push(Message {
                    step: step.number,
                    kind: *kind,
                    content: *content,
                    at: now,
                    state: MessageState::Open,
                });
            }),
            Event::Replied { run, number, content } => self.change(*run, |run| {
                let message = &mut run.messages[*number as usize - 1];
                assert!(message.is_open_question(), "{message:?} waits for no reply");
                message.state = MessageState::Replied(*content);
            }),
            Event::Forgotten { runs } => {
                let gone: BTreeSet<RunId> = runs.iter().copied().collect();
                self.over.retain(|(_, root)| !gone.contains(root));
                for id in gone {
                    let run = self.by_id.remove(&id);
                    assert!(run.is_none_or(|run| !run.is_open()), "{id} has not ended");
                }
            }
        }
    }

    /// Changes a run, and what is derived of it.
    fn change(&mut self, id: RunId, change: impl FnOnce(&mut Run)) {
        self.unindex(id);
        change(self.by_id.get_mut(&id).expect("events are about runs that are there"));
        self.index(id);
    }

    /// Changes a run and those above it in what is added up.
    fn change_line(&mut self, id: RunId, change: impl Fn(&mut Run)) {
        let line: Vec<RunId> = self.line(id).map(|run| run.id).collect();
        for id in line {
            change(self.by_id.get_mut(&id).expect("just seen"));
        }
    }

    fn started(&mut self, now: Timestamp, it: &Started) {
        self.next_tail = it.run.0.tail.wrapping_add(1);
        if let Asker::Step(parent) = it.asker {
            let left = self.line(parent.run).map(|run| run.budget.left(run.used, run.tree_steps));
            let left = left.reduce(super::Budget::within).expect("a step has a run");
            assert!(it.budget.within(left) == it.budget, "RU6: {:?} of {left:?}", it.budget);
            self.change(parent.run, |run| run.children.push(it.run));
        }
        let steps = it.steps.iter().map(|spec| Step {
            spec: spec.clone(),
            state: StepState::Waiting,
            usage: Usage::default(),
        });
        let run = Run {
            id: it.run,
            mode: it.mode,
            asker: it.asker.clone(),
            origin: it.origin.clone(),
            steps: steps.collect(),
            concurrency: it.concurrency,
            budget: it.budget,
            started: now,
            stopped: None,
            ended: None,
            used: Usage::default(),
            tree_steps: 0,
            messages: Vec::new(),
            children: Vec::new(),
        };
        let count = u32::try_from(run.steps.len()).unwrap_or(u32::MAX);
        let other = self.by_id.insert(it.run, run);
        assert!(other.is_none(), "RU4: {} was started before", it.run);
        self.change_line(it.run, |run| run.tree_steps = run.tree_steps.saturating_add(count));
        self.index(it.run);
        *self.open.entry(self.root(it.run)).or_default() += 1;
    }

    fn step_started(&mut self, now: Timestamp, it: &StepStarted) {
        assert!(self.token < it.token, "RU2: token {} after {}", it.token, self.token);
        self.token = it.token;
        assert!(self.ready.contains(&it.step), "RU1: {} is not to be claimed", it.step);
        let claim = Claim {
            node: it.node.clone(),
            epoch: it.epoch,
            token: it.token,
            secret: it.secret,
            lease: Lease::granted(now, it.lapses),
            claimed: now,
        };
        self.change(it.step.run, |run| {
            run.step_mut(it.step.number).state = StepState::Running(claim);
        });
    }

    fn step_ended(&mut self, now: Timestamp, it: &StepEnded) {
        let StepId { run: id, number } = it.step;
        self.change(id, |run| {
            let step = run.step_mut(number);
            step.end(now, it.outcome, it.result.clone());
            step.usage = it.usage;
            for message in run.messages.iter_mut().filter(|message| message.step == number) {
                if message.is_open_question() {
                    message.state = MessageState::Over;
                }
            }
        });
        self.change_line(id, |run| run.used = run.used.plus(it.usage));
    }
}
