//! How a task comes to a worker, and back.

use tasuki_proto::{
    id::{FencingToken, Timestamp},
    limits::WORKERS_MAX,
    swarm::{IssueId, NextStepId, TaskNumber},
};

use super::{
    Claimed, Event, Issue, IssueEventKind, LeaseRenewed, LeaseTarget, Rejection, Reply,
    Reservation, Swarm, Task, TaskState, check::DecisionBuilder,
};
use crate::rules::rejection::listed;

impl Swarm {
    pub(super) fn decide_worker(&self, draft: &mut DecisionBuilder<'_>) -> Result<(), Rejection> {
        let role = draft.role()?;
        if self.workers.contains_key(role) {
            draft.is_repeat = true;
            return Ok(());
        }
        if WORKERS_MAX <= self.workers.len() {
            return Err(Rejection::TooManyWorkers);
        }
        draft.push(Event::WorkerRegistered(role.clone()));
        Ok(())
    }

    pub(super) fn decide_claim(
        &self,
        draft: &mut DecisionBuilder<'_>,
        issue: IssueId,
        number: TaskNumber,
        next_step: Option<NextStepId>,
    ) -> Result<Reply, Rejection> {
        let role = draft.role()?;
        if !self.workers.contains_key(role) {
            return Err(Rejection::UnknownWorker { worker: role.clone() });
        }
        let (state, task) = self.open_task(issue, number)?;
        if let Some(own) = task.live_claim().filter(|it| it.worker == *role) {
            let (token, lapses) = (own.token, own.lease.lapses);
            return Ok(draft.repeat(Reply::Granted { token, lapses }));
        }
        if task.state != TaskState::Open {
            let holder = task.live_claim();
            let holder =
                holder.map_or_else(String::new, |it| format!(", claimed by {}", it.worker));
            let state = task.state.as_str();
            return Err(Rejection::TaskAlreadyClaimed { task: number, state, holder });
        }
        let live = task.live_reservation(draft.now);
        match (next_step, live) {
            (None, None) => {}
            (Some(shown), Some(own)) => own.check(shown, role)?,
            (Some(shown), None) => return Err(state.not_kept(shown, draft.now)),
            (None, Some(it)) if it.worker == *role && it.is_attached => {}
            (None, Some(it)) => {
                let left_ms = it.lease.lapses.millis_since(draft.now);
                return Err(Rejection::TaskReserved { task: number, left_ms });
            }
        }
        if task.undone_blockers != 0 {
            return Err(state.blocked(task));
        }
        let token = draft.make.token();
        let lapses = draft.now.plus_millis(self.settings.task_claim_ms);
        let next_step = live.map(|it| it.next_step);
        let worker = role.clone();
        let claimed = Claimed { task: number, worker, token, lapses, next_step };
        draft.happened(issue, IssueEventKind::Claimed(claimed));
        Ok(Reply::Granted { token, lapses })
    }

    pub(super) fn decide_renew_claim(
        &self,
        draft: &mut DecisionBuilder<'_>,
        issue: IssueId,
        number: TaskNumber,
        token: FencingToken,
        extend_ms: Option<u64>,
    ) -> Result<Reply, Rejection> {
        let (_, task) = self.open_task(issue, number)?;
        let claim = task.claim_of(draft.role()?, token)?;
        let usual_ms = self.settings.task_claim_ms;
        let extend_ms = extend_ms.unwrap_or_else(|| claim.lease.length(usual_ms));
        let lapses = draft.now.plus_millis(extend_ms).max(claim.lease.lapses);
        if lapses != claim.lease.lapses {
            let held = LeaseTarget::Claim(issue, number);
            draft.push(Event::LeaseRenewed(LeaseRenewed { held, lapses, is_grace: false }));
        }
        Ok(Reply::Granted { token: claim.token, lapses })
    }

    pub(super) fn decide_reset(
        &self,
        draft: &mut DecisionBuilder<'_>,
        issue: IssueId,
        number: TaskNumber,
        reason: &str,
    ) -> Result<(), Rejection> {
        let (_, task) = self.open_task(issue, number)?;
        if task.state == TaskState::Canceled {
            return Err(Rejection::TaskCanceled { task: number });
        }
        if task.state == TaskState::Open && task.reservation.is_none() {
            draft.is_repeat = true;
            return Ok(());
        }
        draft.happened(issue, IssueEventKind::Reset { task: number, reason: reason.to_owned() });
        self.unlock_task(draft, issue, number);
        Ok(())
    }
}

impl Swarm {
    pub(super) fn decide_cancel(
        &self,
        draft: &mut DecisionBuilder<'_>,
        id: IssueId,
        number: TaskNumber,
        reason: &str,
    ) -> Result<(), Rejection> {
        let (issue, task) = self.open_task(id, number)?;
        if reason.trim().is_empty() {
            let text = format!("say why {number} is not to be done; nothing changed");
            return Err(Rejection::Invalid(text));
        }
        match task.state {
            TaskState::Canceled => {
                draft.is_repeat = true;
                return Ok(());
            }
            TaskState::Done => return Err(Rejection::TaskDone { task: number }),
            TaskState::Open | TaskState::InProgress | TaskState::WaitingForAnswer => {}
        }
        let is_waiting = |it: &TaskNumber| issue.tasks[it.index()].state.is_undone();
        let unblocked = task.blocks().iter().copied().filter(is_waiting).collect();
        let reason = reason.to_owned();
        draft.happened(id, IssueEventKind::Canceled { task: number, reason, unblocked });
        self.unlock_task(draft, id, number);
        Ok(())
    }
}

impl Issue {
    fn blocked(&self, task: &Task) -> Rejection {
        let undone = task.blocked_by.iter().map(|it| &self.tasks[it.index()]);
        let undone = undone.filter(|it| it.state.is_undone());
        let told: Vec<String> = undone.map(|it| format!("{}:{}", it.number, it.state)).collect();
        let blockers = listed(told.iter().map(String::as_str));
        Rejection::TaskBlocked { task: task.number, blockers }
    }
}

impl Issue {
    /// A next step that leads to another task, or nowhere any more.
    fn not_kept(&self, shown: NextStepId, now: Timestamp) -> Rejection {
        let is_kept = |it: &&Task| it.live_reservation(now).is_some_and(|it| it.next_step == shown);
        match self.tasks.iter().find(is_kept) {
            Some(kept) => invalid(format!("it keeps task '{}', not this one", kept.number)),
            None => invalid("nothing is kept with it any more"),
        }
    }
}

impl Task {
    /// The reservation, if its time is not over.
    pub(super) fn live_reservation(&self, now: Timestamp) -> Option<&Reservation> {
        self.reservation.as_ref().filter(|it| now < it.lease.lapses)
    }
}

impl Reservation {
    /// Whether it is for whoever shows this (I5).
    fn check(&self, shown: NextStepId, role: &tasuki_proto::id::RoleId) -> Result<(), Rejection> {
        if self.next_step != shown {
            return Err(invalid("the task is kept with another one"));
        }
        if self.worker != *role {
            return Err(invalid("it was given to another worker"));
        }
        if !self.is_attached {
            return Err(invalid("no review has given it out yet"));
        }
        Ok(())
    }
}

pub(super) fn invalid(why: impl Into<String>) -> Rejection {
    Rejection::InvalidNextStepToken { why: why.into() }
}
