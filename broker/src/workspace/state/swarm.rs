//! Waits about issues, tasks, locks and deliveries: what each is answered, and which event ends
//! which.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::{RoleId, Timestamp},
    limits::LOCK_STEPS_MAX,
    swarm::{IssueId, TaskNumber},
};

use super::{
    super::waits::{Answer, Parked, Question, WaitId, WaitOutcome},
    State,
};
use crate::rules::{
    Caller, Event as AnyEvent, Rejection,
    swarm::{self, Event, IssueEvent, IssueEventKind, IssueState, Reach, lock::Effort},
};

impl State {
    /// What the state says, and for a task: that it is offered from now on.
    pub(super) fn answer_swarm(
        &mut self,
        role: &RoleId,
        what: &swarm::Question,
    ) -> Result<swarm::Answer, Rejection> {
        let (now, offers, swarm) = (self.now(), &self.offers, &self.workspace.swarm);
        let swarm::Question::Tasks(issue) = *what else {
            return Ok(swarm.answer(now, role, what, |_| true)?);
        };
        if let Some((of, task)) = self.returned_tasks.remove(role)
            && let Some((answer, worker)) = swarm.unfinished(of, task)
            && worker == role
        {
            return Ok(swarm::Answer::Tasks(answer));
        }
        // What it was offered and has not claimed is what it is told again.
        let is_ready = |task| swarm.task(issue, task).is_ok_and(|(_, task)| task.is_ready());
        let all = (issue, TaskNumber(0))..=(issue, TaskNumber(u32::MAX));
        let own = offers.of(all, role).map(|(_, task)| task).find(|task| is_ready(*task));
        let is_free = |task| match own {
            Some(own) => task == own,
            None => offers.is_free((issue, task), Some(role)),
        };
        let answer = swarm.answer(now, role, what, is_free)?;
        if let swarm::Answer::Tasks(it) = &answer
            && let Some(task) = it.task
            && is_ready(task)
        {
            self.offers.offer(now, (issue, task), role);
        }
        Ok(answer)
    }

    /// What follows from this alone: an offer that is over, and a task that is given back.
    pub(super) fn note_for_swarm(&mut self, event: &Event) {
        if let Event::Issue(IssueEvent { issue, what: IssueEventKind::Claimed(it), .. }) = event {
            self.offers.remove((*issue, it.task));
        }
        if let Some((answer, worker, waits)) = self.workspace.swarm.gives_back(event) {
            self.wake_claimant(&answer, &worker, waits);
        }
    }

    /// Ends the waits that the state answers after this happened.
    pub(super) fn wake_for_swarm(&mut self, events: &[AnyEvent]) {
        if self.waits.is_empty() {
            return;
        }
        let events = events.iter().filter_map(|event| {
            let AnyEvent::Swarm(event) = event else { return None };
            Some(event)
        });
        for reach in self.workspace.swarm.reached(events) {
            self.wake_reached(reach);
        }
    }

    fn wake_reached(&mut self, reach: Reach) {
        match reach {
            Reach::Issues => {
                for state in IssueState::ALL {
                    self.wake_answered(&swarm::Question::Issues(*state));
                }
            }
            Reach::Tasks(issue) => self.wake_workers(issue),
            Reach::Events(issue) => self.wake_answered(&swarm::Question::Events(issue)),
            Reach::Review(it) => self.wake_answered(&swarm::Question::Review(it)),
            Reach::Reply(it) => self.wake_answered(&swarm::Question::Reply(it)),
            Reach::Deliveries => self.wake_answered(&swarm::Question::Deliveries),
            Reach::Verdict(it) => self.wake_answered(&swarm::Question::Verdict(it)),
            Reach::Locks => self.wake_lockers(),
        }
    }

    /// Ends the waits for files that are free, and those that there is no time to look at: whoever
    /// asked for such files asks again. All of them share one effort, so it is called once for a
    /// record.
    fn wake_lockers(&mut self) {
        let (swarm, effort) = (&self.workspace.swarm, Effort::new(LOCK_STEPS_MAX));
        let freed = self.waits.for_locks().filter_map(|question| {
            let Question::Swarm { what: swarm::Question::Locks(keys), role } = question else {
                return None;
            };
            Some((question.clone(), swarm.unlocked_for(role, keys, &effort)?))
        });
        for (question, answer) in freed.collect::<Vec<_>>() {
            let Some(parked) = self.waits.take(&question) else { continue };
            self.end_as(parked, question.role(), swarm::Answer::Locks(answer));
        }
    }

    fn end_as(&mut self, parked: Parked, role: Option<&RoleId>, answer: swarm::Answer) {
        let (answer, sequence) = (Answer::Swarm(answer), self.workspace.sequence);
        self.end_with(role, parked, Ok(WaitOutcome { answer, is_superseded: false, sequence }));
    }

    /// A worker that does not wait for what came of its task, since it began anew, waits for
    /// another task, and with that keeps the one it has: it is told of that one.
    fn wake_claimant(
        &mut self,
        answer: &swarm::TasksAnswer,
        worker: &RoleId,
        waits: swarm::Question,
    ) {
        let knows = Question::Swarm { what: waits, role: worker.clone() };
        if self.waits.questions().any(|it| *it == knows) {
            return;
        }
        let is_its = |it: &&Question| {
            let Question::Swarm { what, role } = it else { return false };
            role == worker && matches!(what, swarm::Question::Tasks(_))
        };
        let asked: Vec<Question> = self.waits.questions().filter(is_its).cloned().collect();
        if let (true, Some(task)) = (asked.is_empty(), answer.task) {
            self.returned_tasks.insert(worker.clone(), (answer.of, task));
        }
        for question in asked {
            let Some(parked) = self.waits.take(&question) else { continue };
            self.end_as(parked, Some(worker), swarm::Answer::Tasks(answer.clone()));
        }
    }

    /// What time alone answers: offers that are over, and items that are shown again.
    pub(super) fn wake_by_time(&mut self, now: Timestamp) {
        let due = self.offers.take_due(now);
        self.wake_workers_of(due);
        if !self.step_offers.take_due(now).is_empty() {
            self.wake_nodes();
        }
        let leads: Vec<_> = self.waits.for_events().map(|(_, question)| question.clone()).collect();
        leads.iter().for_each(|question| self.end_answered(question));
    }

    /// When time alone answers the next of them.
    pub(super) fn next_answer(&self) -> Option<Timestamp> {
        let swarm = &self.workspace.swarm;
        let again = self.waits.for_events().filter_map(|(issue, _)| {
            swarm.issue(issue).ok()?.item_again(swarm.settings.item_again_ms)
        });
        let offers = self.offers.next_deadline().into_iter();
        again.chain(offers).chain(self.step_offers.next_deadline()).min()
    }

    /// What the role was offered goes to the next.
    pub(in crate::workspace) fn decline(&mut self, role: &RoleId, caller: &Caller) {
        if self.workspace.directory.check(caller, Some(role)).is_ok() {
            let declined = self.offers.decline(role);
            self.wake_workers_of(declined);
        }
    }

    fn wake_workers_of(&mut self, tasks: BTreeSet<(IssueId, TaskNumber)>) {
        let issues: BTreeSet<IssueId> = tasks.into_iter().map(|(issue, _)| issue).collect();
        issues.into_iter().for_each(|issue| self.wake_workers(issue));
    }

    fn wake_answered(&mut self, what: &swarm::Question) {
        let asked: Vec<Question> = self.waits.asking(what).map(|(it, _)| it.clone()).collect();
        asked.iter().for_each(|question| self.end_answered(question));
    }

    fn end_answered(&mut self, question: &Question) {
        let Question::Swarm { what, role } = question else { return };
        let answer = self.workspace.swarm.answer(self.now(), role, what, |_| true);
        // What is not there any more is told, too.
        if answer.map_or(true, |it| it.is_there()) {
            self.end(question);
        }
    }

    /// Wakes a worker for each task that came free, the one first that waits the longest, and the
    /// ones that tasks are kept for.
    fn wake_workers(&mut self, id: IssueId) {
        let what = swarm::Question::Tasks(id);
        let waiting = self.waits.asking(&what).filter_map(|(it, wait)| Some((wait, it.role()?)));
        let mut waiting: Vec<(WaitId, &RoleId)> = waiting.collect();
        let Ok(issue) = self.workspace.swarm.issue(id) else { return };
        let mut chosen: Vec<(WaitId, &RoleId)> = Vec::new();
        if issue.state == IssueState::Open && !waiting.is_empty() {
            let bearers = issue.bearers();
            chosen.extend(waiting.extract_if(.., |(_, role)| bearers.contains(role)));
            let free = issue.ready().filter(|task| self.offers.is_free((id, *task), None));
            let free = free.take(waiting.len()).count();
            // Most of the time one of many is woken, so the others are not sorted.
            if free < waiting.len() {
                waiting.select_nth_unstable(free);
                waiting.truncate(free);
            }
        }
        waiting.sort_unstable();
        chosen.extend(waiting);
        let chosen: Vec<RoleId> = chosen.into_iter().map(|(_, role)| role.clone()).collect();
        for role in chosen {
            self.end(&Question::Swarm { what: what.clone(), role });
        }
    }
}
