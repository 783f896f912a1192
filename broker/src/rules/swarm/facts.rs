//! What is told of issues, tasks and deliveries to whoever asks.

use std::{collections::BTreeSet, ops::Bound};

use tasuki_proto::{
    id::{RoleId, Timestamp},
    swarm::{DeliveryId, IssueId, TaskNumber},
};

use super::{
    Delivery, DeliveryState, Issue, IssueState, Item, ItemState, Reservation, Swarm, Task,
    TaskState, words::named,
};

named!(
    /// How a task stands, beside the state that is stored.
    TaskStage {
        /// Other tasks have to be done or canceled first.
        Blocked "blocked",
        Ready "ready",
        Reserved "reserved",
        InProgress "in_progress",
        /// Its worker asked a question, or said what keeps it from going on.
        WaitingForAnswer "waiting_for_answer",
        /// A submission waits for its verdict.
        Submitted "submitted",
        /// And the lead was given it.
        InReview "in_review",
        Done "done",
        Canceled "canceled",
    }
);

named!(
    /// What a list of tasks is ordered by.
    TaskOrder {
        Created "created_at",
        Updated "updated_at",
        Points "points",
        Subject "subject",
    }
);

/// Which of a list are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Of tasks.
    pub task_state: Option<TaskState>,
    /// Of issues.
    pub issue_state: Option<IssueState>,
    pub claimed_by: Option<RoleId>,
    /// Who submitted last.
    pub submitter: Option<RoleId>,
    /// In lower case, to be found in any.
    pub subject_contains: Option<String>,
    /// Open tasks that can be claimed now.
    pub is_ready: bool,
}

/// How much there is in an issue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IssueCounts {
    /// By [`TaskState`].
    pub tasks: [usize; 5],
    pub ready: usize,
    pub reserved: usize,
    /// For the lead to look at.
    pub items: usize,
}

impl Issue {
    pub fn counts(&self) -> IssueCounts {
        let tasks = [0, 1, 2, 3, 4].map(|at: usize| self.by_state[at].len());
        let (ready, reserved, items) = (self.ready.len(), self.reserved.len(), self.items.len());
        IssueCounts { tasks, ready, reserved, items }
    }

    pub fn task_standing(&self, task: &Task) -> TaskStage {
        match task.state {
            TaskState::Done => TaskStage::Done,
            TaskState::Canceled => TaskStage::Canceled,
            TaskState::Open if task.undone_blockers != 0 => TaskStage::Blocked,
            TaskState::Open if task.reservation.is_some() => TaskStage::Reserved,
            TaskState::Open => TaskStage::Ready,
            TaskState::WaitingForAnswer => TaskStage::WaitingForAnswer,
            TaskState::InProgress => match task.open_submission() {
                None => TaskStage::InProgress,
                Some(open) => match self.items.get(&open.item).map(|item| item.state) {
                    Some(ItemState::Handed(_)) => TaskStage::InReview,
                    Some(ItemState::New) | None => TaskStage::Submitted,
                },
            },
        }
    }

    /// Whether somebody works on it: shown as in progress.
    pub fn is_in_progress(&self) -> bool {
        self.state == IssueState::Open && self.is_worked_on()
    }

    /// Tasks that this worker holds or held when they were done.
    pub fn tasks_of(&self, worker: &RoleId) -> impl DoubleEndedIterator<Item = TaskNumber> {
        self.by_worker.get(worker).into_iter().flatten().copied()
    }

    /// Workers whose review told them of a task that is kept for them.
    pub fn bearers(&self) -> BTreeSet<&RoleId> {
        let told = self.reserved.iter().filter(|(number, _)| self.tasks[number.index()].is_given());
        told.map(|(_, worker)| worker).collect()
    }

    /// Tasks that are kept for this worker.
    pub fn reserved_for<'a>(
        &'a self,
        worker: &'a RoleId,
    ) -> impl Iterator<Item = (TaskNumber, &'a Reservation)> {
        let own = self.reserved.iter().filter(move |(_, other)| *other == worker);
        own.filter_map(|(number, _)| {
            Some((*number, self.tasks[number.index()].reservation.as_ref()?))
        })
    }

    /// Tasks as they are asked for, the newest first; without a filter, by state and by claim a
    /// page costs what is on it.
    pub fn list<'a>(&'a self, filter: &'a ListFilter) -> impl Iterator<Item = &'a Task> {
        self.candidates(filter, None).filter(move |task| filter.fits(task))
    }

    /// Tasks that have to be looked at for this filter, the newest first; only those before
    /// `before`.
    pub fn candidates<'a>(
        &'a self,
        filter: &'a ListFilter,
        before: Option<TaskNumber>,
    ) -> Box<dyn Iterator<Item = &'a Task> + 'a> {
        let of = |set: &'a BTreeSet<TaskNumber>| {
            Box::new(older(set, before).map(|it| &self.tasks[it.index()]))
        };
        if filter.is_ready {
            return of(&self.ready);
        }
        if let Some(worker) = &filter.claimed_by {
            return match self.by_worker.get(worker) {
                Some(own) => of(own),
                None => Box::new(std::iter::empty()),
            };
        }
        match filter.task_state {
            Some(state) => of(&self.by_state[state as usize]),
            None => {
                let end = before.map_or(self.tasks.len(), TaskNumber::index);
                Box::new(self.tasks.iter().take(end).rev())
            }
        }
    }

    /// What the lead is shown: the oldest that was never handed, else the oldest of those handed
    /// long ago and still to be dealt with.
    pub fn item(&self, now: Timestamp, again_ms: u64) -> Option<(u64, &Item)> {
        let new = self.unhanded.first().copied();
        let again = || {
            let due = self.handed.first().filter(|(at, _)| at.plus_millis(again_ms) <= now);
            due.map(|(_, number)| *number)
        };
        let number = new.or_else(again)?;
        Some((number, &self.items[&number]))
    }

    /// When an item that was handed is shown again.
    pub fn item_again(&self, again_ms: u64) -> Option<Timestamp> {
        self.handed.first().map(|(at, _)| at.plus_millis(again_ms))
    }
}

impl ListFilter {
    pub fn fits(&self, task: &Task) -> bool {
        let holds = |worker: &RoleId| task.claim.as_ref().is_some_and(|it| it.worker == *worker);
        let submitted =
            |role: &RoleId| task.submissions.last().is_some_and(|it| it.worker == *role);
        self.task_state.is_none_or(|state| state == task.state)
            && self.claimed_by.as_ref().is_none_or(holds)
            && self.submitter.as_ref().is_none_or(submitted)
            && (!self.is_ready || task.is_ready())
            && self.has_subject(&task.subject)
    }

    pub fn has_subject(&self, subject: &str) -> bool {
        self.subject_contains.as_ref().is_none_or(|it| subject.to_lowercase().contains(it))
    }
}

/// The newest first.
fn older<T: Ord + Copy>(set: &BTreeSet<T>, before: Option<T>) -> impl Iterator<Item = &T> {
    set.range((Bound::Unbounded, before.map_or(Bound::Unbounded, Bound::Excluded))).rev()
}

impl Swarm {
    /// Issues in this state, or in any, the newest first; only those before `before`.
    pub fn list_issues(
        &self,
        state: Option<IssueState>,
        before: Option<IssueId>,
    ) -> Box<dyn Iterator<Item = &Issue> + '_> {
        let end = before.map_or(Bound::Unbounded, Bound::Excluded);
        match state {
            None => Box::new(self.issues.range((Bound::Unbounded, end)).rev().map(|(_, it)| it)),
            Some(state) => {
                let ids = older(&self.by_state[state as usize], before);
                Box::new(ids.map(|id| &self.issues[id]))
            }
        }
    }

    /// How many issues are in this state, or in any.
    pub fn count_issues(&self, state: Option<IssueState>) -> usize {
        state.map_or(self.issues.len(), |state| self.by_state[state as usize].len())
    }

    /// How many deliveries are in this state.
    pub fn count_deliveries(&self, state: DeliveryState) -> usize {
        self.deliveries_by_state[state as usize].len()
    }

    /// Deliveries in this state, or in any, the newest first; only those before `before`.
    pub fn list_deliveries(
        &self,
        state: Option<DeliveryState>,
        before: Option<DeliveryId>,
    ) -> Box<dyn Iterator<Item = &Delivery> + '_> {
        let end = before.map_or(Bound::Unbounded, Bound::Excluded);
        match state {
            None => {
                Box::new(self.deliveries.range((Bound::Unbounded, end)).rev().map(|(_, it)| it))
            }
            Some(state) => {
                let ids = older(&self.deliveries_by_state[state as usize], before);
                Box::new(ids.map(|id| &self.deliveries[id]))
            }
        }
    }

    /// Issues in one state.
    pub(super) fn issues_in(&self, state: IssueState) -> &BTreeSet<IssueId> {
        &self.by_state[state as usize]
    }

    /// Deliveries that this role can claim or has claimed, the oldest first.
    pub(super) fn deliveries_for<'a>(
        &'a self,
        role: &'a RoleId,
    ) -> impl Iterator<Item = DeliveryId> {
        let of = |state: DeliveryState| self.deliveries_by_state[state as usize].iter();
        let open = of(DeliveryState::Open);
        let open = open.filter(|id| self.deliveries[id].role.as_ref() != Some(role));
        let is_own = |id: &&DeliveryId| {
            self.deliveries[id].live_claim().is_some_and(|claim| claim.role == *role)
        };
        of(DeliveryState::InReview).filter(is_own).chain(open).copied()
    }
}
