//! What happens to a task: claims, submissions, next steps, verdicts, and their ends.

use tasuki_proto::{
    id::Timestamp,
    swarm::{IssueId, NextStepId, TaskNumber},
};

use super::super::{
    Claim, Claimed, ItemKind, Judged, Lease, MessageState, NextStepMinted, NextStepOffer,
    PreviousClaim, Reservation, Reviewed, Submission, SubmissionState, Submitted, Swarm, Task,
    TaskCreated, TaskState, Verdict,
};
use crate::rules::Principal;

/// How what was done about a task came to an end without a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskEnd {
    Lapsed,
    Reset,
    Canceled,
}

impl Swarm {
    pub(super) fn claimed(&mut self, now: Timestamp, id: IssueId, it: &Claimed) {
        self.grant(it.token);
        self.change_task(id, it.task, |task| {
            assert!(task.state == TaskState::Open, "I1: {} is claimed twice", it.task);
            let reserved = task.reservation.take();
            if let Some(shown) = it.next_step {
                let kept = reserved.filter(|kept| kept.next_step == shown);
                let is_bearer = kept.is_some_and(|kept| kept.worker == it.worker);
                assert!(is_bearer, "I5: {} was not kept for {}", it.task, it.worker);
            }
            task.claim = Some(Claim {
                worker: it.worker.clone(),
                token: it.token,
                lease: Lease::granted(now, it.lapses),
                claimed: now,
            });
            task.former = task.former.take().filter(|former| former.worker != it.worker);
            task.state = TaskState::InProgress;
            task.updated = now;
        });
    }

    /// A claim lapsed, or a task was reset: it is open again. Or it was canceled. Whoever waits on
    /// it is told.
    pub(super) fn task_ended(
        &mut self,
        now: Timestamp,
        id: IssueId,
        number: TaskNumber,
        end: TaskEnd,
    ) {
        let mut ended = Vec::new();
        let mut minted = None;
        self.change_task(id, number, |task| {
            let live = task.live_claim().is_some();
            if let Some(claim) = task.claim.take().filter(|_| live) {
                let Claim { worker, token, .. } = claim;
                task.former =
                    Some(PreviousClaim { worker, token, is_reset: end != TaskEnd::Lapsed });
            }
            task.state = match end {
                TaskEnd::Lapsed | TaskEnd::Reset => TaskState::Open,
                TaskEnd::Canceled => TaskState::Canceled,
            };
            task.reservation = None;
            task.updated = now;
            ended = task.resolve_messages();
            if let Some(open) = task.submissions.last_mut()
                && open.state == SubmissionState::Open
            {
                ended.push(open.item);
                minted = open.end(SubmissionState::Reset);
            }
        });
        self.end_items(id, ended);
        self.put_back(now, id, minted);
    }

    pub(super) fn submitted(&mut self, now: Timestamp, id: IssueId, item: u64, it: &Submitted) {
        self.made(it.submission.0.tail);
        self.submissions.insert(it.submission, (id, it.task));
        let (mut ended, mut minted) = (None, None);
        self.change_task(id, it.task, |task| {
            let older = task.submissions.last_mut();
            if let Some(older) = older.filter(|older| older.state == SubmissionState::Open) {
                assert!(it.supersedes == Some(older.id), "I6: {} waits for a verdict", older.id);
                ended = Some(older.item);
                minted = older.end(SubmissionState::Superseded);
            }
            task.submissions.push(Submission {
                id: it.submission,
                worker: it.worker.clone(),
                content: it.content,
                at: now,
                state: SubmissionState::Open,
                reviewed: None,
                minted: None,
                files: it.files.clone(),
                item,
            });
            task.updated = now;
        });
        self.end_items(id, ended);
        self.put_back(now, id, minted);
        self.add_item(id, item, ItemKind::Submission(it.task, it.submission));
    }

    pub(super) fn minted(&mut self, now: Timestamp, id: IssueId, it: &NextStepMinted) {
        self.made(it.next_step.0.tail);
        let mut older = None;
        let issue = &self.issues[&id];
        let total = issue.total_after(&issue.tasks[it.task.index()], &it.worker, it.score);
        self.change_task(id, it.task, |task| {
            let minted = NextStepOffer {
                next_step: it.next_step,
                score: it.score,
                task: it.reserved.as_ref().map(|it| it.task),
                total,
            };
            let found = task.submissions.iter_mut().find(|own| own.id == it.submission);
            let submission = found.expect("a next step is for a submission that is there");
            older = submission.minted.replace(minted);
        });
        self.put_back(now, id, older);
        let Some(reserved) = &it.reserved else { return };
        self.grant(reserved.token);
        self.change_task(id, reserved.task, |task| {
            assert!(task.reservation.is_none(), "I5: {} is kept twice", reserved.task);
            assert!(task.is_free_after(it.task), "I5: {} waits for others", reserved.task);
            task.reservation = Some(Reservation {
                next_step: it.next_step,
                worker: it.worker.clone(),
                token: reserved.token,
                lease: Lease::until(reserved.lapses),
                is_attached: false,
            });
            task.updated = now;
        });
    }

    pub(super) fn reviewed(&mut self, now: Timestamp, by: &Principal, id: IssueId, it: &Reviewed) {
        let (mut ended, mut minted) = (Vec::new(), None);
        let (_, task, submission) = self.submission(it.submission).expect("as it was decided");
        let (points, worker) = (task.points, submission.worker.clone());
        let total = self.issues[&id].total(&worker).plus(points, it.score);
        let total = (it.verdict == Verdict::Approved).then_some(total);
        self.change_task(id, it.task, |task| {
            let found = task.submissions.iter_mut().find(|own| own.id == it.submission);
            let submission = found.expect("a review is of a submission that is there");
            assert!(
                submission.state == SubmissionState::Open,
                "I4: {} is {} already",
                submission.id,
                submission.state
            );
            ended.push(submission.item);
            submission.reviewed = Some(Judged {
                verdict: it.verdict,
                score: it.score,
                content: it.content,
                at: now,
                by: by.role.clone(),
                next_step: it.next_step,
                total,
            });
            match it.verdict {
                Verdict::Approved => {
                    submission.state = SubmissionState::Approved;
                    minted.clone_from(&submission.minted);
                    task.state = TaskState::Done;
                    ended.extend(task.resolve_messages());
                }
                Verdict::Rejected => {
                    minted = submission.end(SubmissionState::Rejected);
                    if let (Some(claim), Some(lapses)) = (&mut task.claim, it.lapses) {
                        // Its worker was heard of: it submitted.
                        claim.lease = Lease { lapses, had_grace: false, ..claim.lease };
                    }
                    task.stand();
                }
            }
            task.updated = now;
        });
        self.end_items(id, ended);
        let Some(total) = total else { return self.put_back(now, id, minted) };
        let issue = self.issues.get_mut(&id).expect("just seen");
        issue.totals.insert(worker, total);
        let kept = minted.and_then(|minted| Some((minted.next_step, minted.task?, it.lapses?)));
        if let Some((next_step, task, lapses)) = kept {
            self.attach(id, next_step, task, lapses);
        }
    }

    /// The review gave the next step to its worker: the time of the reservation begins again.
    fn attach(&mut self, id: IssueId, next_step: NextStepId, task: TaskNumber, lapses: Timestamp) {
        self.change_task(id, task, |task| {
            if let Some(kept) = task.reservation.as_mut().filter(|it| it.next_step == next_step) {
                kept.lease = Lease::until(lapses);
                kept.is_attached = true;
            }
        });
    }

    /// The task that a next step led to is not kept any more.
    fn put_back(&mut self, now: Timestamp, id: IssueId, minted: Option<NextStepOffer>) {
        let Some(minted) = minted else { return };
        let Some(number) = minted.task else { return };
        self.change_task(id, number, |task| {
            if task.reservation.as_ref().is_some_and(|it| it.next_step == minted.next_step) {
                task.reservation = None;
                task.updated = now;
            }
        });
    }
}

impl Submission {
    /// It will not be approved. Returns the next step that led somewhere.
    fn end(&mut self, state: SubmissionState) -> Option<NextStepOffer> {
        self.state = state;
        self.files = Vec::new();
        self.minted.take()
    }
}

impl Task {
    pub(super) fn made(it: &TaskCreated, by: &Principal, now: Timestamp) -> Self {
        Self {
            difficulty: it.difficulty,
            points: it.points,
            blocked_by: it.blocked_by.clone(),
            required_docs: it.required_docs.clone(),
            plan: it.plan,
            by: by.role.clone(),
            ..Self::blank(it.task, it.subject.clone(), now)
        }
    }

    /// A claimed task stands still while a question is open.
    pub(super) fn stand(&mut self) {
        if self.live_claim().is_some() {
            let is_asked = self.open_questions().next().is_some();
            self.state = if is_asked { TaskState::WaitingForAnswer } else { TaskState::InProgress };
        }
    }

    /// Nobody will reply any more. Returns their items.
    fn resolve_messages(&mut self) -> Vec<u64> {
        let open = self.messages.iter_mut().filter(|it| it.state == MessageState::Open);
        let ended = open.map(|it| {
            it.state = MessageState::Resolved;
            it.item
        });
        ended.collect()
    }
}
