//! What is derived from issues and tasks, so that nothing has to be searched for.

use std::cmp::Reverse;

use tasuki_proto::{
    id::Timestamp,
    swarm::{DeliveryId, IssueId, TaskNumber},
};

use super::{
    Claim, DeliveryState, Issue, IssueState, ItemState, LeaseTarget, Swarm, Task, TaskState,
    issue::Choice,
};

impl Swarm {
    /// Everything that is derived, from nothing.
    pub(super) fn derive(&mut self) -> Result<(), &'static str> {
        for delivery in self.deliveries.values() {
            self.deliveries_by_state[delivery.state as usize].insert(delivery.id);
        }
        for mut issue in std::mem::take(&mut self.issues).into_values() {
            issue.derive()?;
            self.tasks += issue.tasks.len();
            for task in &issue.tasks {
                let place = (issue.id, task.number);
                self.submissions.extend(task.submissions.iter().map(|it| (it.id, place)));
                self.messages.extend(task.messages.iter().map(|it| (it.id, place)));
            }
            self.by_state[issue.state as usize].insert(issue.id);
            self.note_newest(&issue);
            if !issue.delivery.is_none_or(|it| self.deliveries.contains_key(&it)) {
                return Err("an issue's delivery");
            }
            self.issues.insert(issue.id, issue);
        }
        if !self.deliveries.values().all(|it| self.issues.contains_key(&it.issue)) {
            return Err("a delivery's issue");
        }
        self.deadlines = self.all_deadlines().collect();
        let running: Vec<LeaseTarget> = self.deadlines.iter().map(|(_, held)| *held).collect();
        for held in running {
            self.note_graced(held);
        }
        Ok(())
    }

    fn all_deadlines(&self) -> impl Iterator<Item = (Timestamp, LeaseTarget)> {
        let locks = self.locks.iter().map(|it| (it.lease.lapses, LeaseTarget::Lock(it.id)));
        let deliveries = self.deliveries.values().filter_map(|it| {
            let claim = it.live_claim()?;
            Some((claim.lease.lapses, LeaseTarget::Delivery(it.id)))
        });
        let issues = self.issues.values().flat_map(|issue| {
            let of_tasks = issue.tasks.iter().flat_map(|task| task.deadlines(issue.id));
            of_tasks.chain(self.deadline_of(issue))
        });
        locks.chain(deliveries).chain(issues)
    }

    /// When the issue lapses: never while somebody has something of it in hand.
    pub(super) fn deadline_of(&self, issue: &Issue) -> Option<(Timestamp, LeaseTarget)> {
        let is_delivered = issue.delivery.is_some_and(|it| self.deliveries[&it].state.is_open());
        let is_idle = issue.state == IssueState::Open && !is_delivered && !issue.is_worked_on();
        let lease = issue.lease.filter(|_| is_idle)?;
        Some((lease.lapses, LeaseTarget::Issue(issue.id)))
    }

    /// That this issue is here.
    pub(super) fn note_newest(&mut self, issue: &Issue) {
        let newest = self.newest.entry((issue.lead.clone(), issue.content)).or_insert(issue.id);
        *newest = issue.id.max(*newest);
    }

    /// Changes a task, and sees to it that it is found where it belongs.
    pub(super) fn change_task(
        &mut self,
        id: IssueId,
        number: TaskNumber,
        change: impl FnOnce(&mut Task),
    ) {
        let issue = self.issues.get_mut(&id).expect("events are about issues that are there");
        for deadline in issue.tasks[number.index()].deadlines(id) {
            self.deadlines.remove(&deadline);
        }
        let was_undone = issue.tasks[number.index()].state.is_undone();
        issue.unindex(number);
        let task = &mut issue.tasks[number.index()];
        change(task);
        let is_undone = task.state.is_undone();
        let (state, checked) = (task.state, task.check());
        assert!(checked.is_ok(), "I1, I5: {number} of {id} is {state}: {checked:?}");
        issue.index(number);
        self.deadlines.extend(issue.tasks[number.index()].deadlines(id));
        if was_undone != is_undone {
            for dependant in issue.tasks[number.index()].blocks.clone() {
                issue.unindex(dependant);
                let task = &mut issue.tasks[dependant.index()];
                if is_undone {
                    task.undone_blockers += 1;
                } else {
                    task.undone_blockers -= 1;
                }
                issue.index(dependant);
            }
        }
        self.note_graced(LeaseTarget::Claim(id, number));
    }

    pub(super) fn set_delivery_state(&mut self, id: DeliveryId, state: DeliveryState) {
        let it = self.deliveries.get_mut(&id).expect("events are about deliveries that are there");
        self.deliveries_by_state[it.state as usize].remove(&id);
        it.state = state;
        self.deliveries_by_state[state as usize].insert(id);
    }
}

impl Issue {
    /// Everything that is derived, from nothing.
    fn derive(&mut self) -> Result<(), &'static str> {
        let count = self.tasks.len();
        let numbers = (1..).map(TaskNumber);
        if !self.tasks.iter().map(|it| it.number).eq(numbers.take(count)) {
            return Err("the numbers of tasks");
        }
        self.tasks.iter().try_for_each(Task::check)?;
        for at in 0..count {
            let (number, blockers) = (self.tasks[at].number, self.tasks[at].blocked_by.clone());
            for blocker in &blockers {
                if *blocker == number || blocker.0 == 0 || count <= blocker.index() {
                    return Err("what a task is blocked by");
                }
                self.tasks[blocker.index()].blocks.push(number);
            }
            let undone = blockers.iter().filter(|it| self.tasks[it.index()].state.is_undone());
            self.tasks[at].undone_blockers = undone.count();
        }
        for at in 0..count {
            self.newest.insert(self.tasks[at].by.clone(), self.tasks[at].number);
            self.index(self.tasks[at].number);
        }
        for (number, item) in &self.items {
            if item.kind.task().is_some_and(|task| count <= task.index()) {
                return Err("the task of an item");
            }
            match item.state {
                ItemState::New => _ = self.unhanded.insert(*number),
                ItemState::Handed(at) => _ = self.handed.insert((at, *number)),
            }
        }
        Ok(())
    }

    /// A task that was just made, and those of the same call that it blocks.
    pub(super) fn add(&mut self, mut task: Task) {
        let number = task.number;
        assert!(!task.blocked_by.contains(&number), "I8: {number} is blocked by itself");
        assert!(number.index() == self.tasks.len(), "{number} after {} tasks", self.tasks.len());
        // Whatever was made before and waits for it is of the same call, right before it.
        let before = self.tasks.iter().rev().take(tasuki_proto::limits::TASKS_PER_CALL_MAX);
        let waiting = before.filter(|it| it.blocked_by.contains(&number)).map(|it| it.number);
        task.blocks = waiting.collect();
        task.blocks.reverse();
        let is_undone = |it: &&TaskNumber| {
            self.tasks.get(it.index()).is_none_or(|other| other.state.is_undone())
        };
        task.undone_blockers = task.blocked_by.iter().filter(is_undone).count();
        for blocker in &task.blocked_by {
            if let Some(other) = self.tasks.get_mut(blocker.index()) {
                other.blocks.push(number);
            }
        }
        self.newest.insert(task.by.clone(), number);
        self.tasks.push(task);
        self.index(number);
    }

    fn index(&mut self, number: TaskNumber) {
        let task = &self.tasks[number.index()];
        self.by_state[task.state as usize].insert(number);
        if task.is_ready() {
            self.ready.insert(number);
            self.choice[task.difficulty as usize].insert(task.choice());
        }
        if let Some(Claim { worker, .. }) = &task.claim {
            self.by_worker.entry(worker.clone()).or_default().insert(number);
        }
        if let Some(reservation) = &task.reservation {
            self.reserved.insert(number, reservation.worker.clone());
        }
    }

    fn unindex(&mut self, number: TaskNumber) {
        let task = &self.tasks[number.index()];
        self.by_state[task.state as usize].remove(&number);
        self.ready.remove(&number);
        self.choice[task.difficulty as usize].remove(&task.choice());
        if let Some(Claim { worker, .. }) = &task.claim
            && let Some(own) = self.by_worker.get_mut(worker)
        {
            own.remove(&number);
            if own.is_empty() {
                self.by_worker.remove(worker);
            }
        }
        self.reserved.remove(&number);
    }
}

impl Task {
    pub(super) fn choice(&self) -> Choice {
        let (points, name) = (Reverse(self.points), self.number.text_order());
        Choice { points, name, task: self.number }
    }

    /// What of it can lapse, and when. A claim does not while its submission waits for a verdict:
    /// the worker did its part.
    pub(super) fn deadlines(
        &self,
        issue: IssueId,
    ) -> impl Iterator<Item = (Timestamp, LeaseTarget)> {
        let claim = self.live_claim().filter(|_| self.open_submission().is_none());
        let claim = claim.map(|it| (it.lease.lapses, LeaseTarget::Claim(issue, self.number)));
        let reservation = self.reservation.as_ref();
        let held = LeaseTarget::Reservation(issue, self.number);
        claim.into_iter().chain(reservation.map(|it| (it.lease.lapses, held)))
    }

    /// I1, I5.
    fn check(&self) -> Result<(), &'static str> {
        let is_claimed = self.claim.is_some();
        let is_sound = match self.state {
            TaskState::Open => !is_claimed,
            TaskState::InProgress | TaskState::WaitingForAnswer => is_claimed,
            TaskState::Done | TaskState::Canceled => true,
        };
        if !is_sound {
            return Err("who claims a task");
        }
        if self.reservation.is_some() && self.state != TaskState::Open {
            return Err("who a task is kept for");
        }
        Ok(())
    }
}
