//! What a worker does next: which task its points lead to, and keeping that one for it.
//!
//! A next step belongs to one submission and one worker. It is chosen by what the worker will have
//! earned once that submission is approved, among the tasks that are free then: also those that
//! wait for nothing but the submitted one. Asking again gives the same as long as the task it leads
//! to is kept and will be free, and the worker has earned nothing else meanwhile.

use tasuki_proto::{id::RoleId, swarm::TaskNumber};

use super::{
    Difficulty, Issue, IssueEventKind, MintNextStep, NextStep, NextStepMinted, NextStepOffer,
    Rejection, Reply, Reserved, Score, Swarm, Task, Total, check::DecisionBuilder, issue::Choice,
};

/// Points from which on tasks are medium, and from which on they are hard.
const MEDIUM_POINTS: u32 = 10;
const FOCUS_POINTS: u32 = 30;

/// Points from which on the pick is in the middle, and from which on it is the most rewarding.
const MIDDLE_POINTS: u32 = 50;
const BEST_POINTS: u32 = 100;

impl Swarm {
    pub(super) fn decide_mint(
        &self,
        draft: &mut DecisionBuilder<'_>,
        it: &MintNextStep,
    ) -> Result<Reply, Rejection> {
        let (issue, task) = self.open_task(it.issue, it.task)?;
        let none = Rejection::NoOpenSubmission { task: it.task };
        let submission = task.open_submission().ok_or(none)?;
        if submission.worker != it.worker {
            return Err(Rejection::SubmissionOfAnother {
                task: it.task,
                worker: submission.worker.clone(),
                named: it.worker.clone(),
            });
        }
        draft.not_own(Some(&it.worker))?;
        let total = issue.total_after(task, &it.worker, it.score);
        let difficulty = total.difficulty(it.score);
        let before = submission.minted.as_ref();
        let answer = |next_step, task, lapses| {
            let (points, low_scores) = (total.points, total.low_scores);
            Reply::NextStep(NextStep { next_step, task, difficulty, points, low_scores, lapses })
        };
        let is_as_then = |minted: &&NextStepOffer| minted.total == total;
        let same = before.filter(|minted| minted.score == it.score).filter(is_as_then);
        if let Some(minted) = same
            && let Some(number) = minted.task
            && let Some(kept) = issue.kept(number, minted)
            && draft.now < kept.lease.lapses
            && issue.tasks[number.index()].is_free_after(it.task)
        {
            let lapses = kept.lease.lapses;
            return Ok(draft.repeat(answer(minted.next_step, minted.task, Some(lapses))));
        }
        // What was kept goes back, and may be chosen again.
        let kept =
            before.and_then(|minted| minted.task.filter(|it| issue.kept(*it, minted).is_some()));
        let pick = issue.pick(difficulty, total.points, &issue.freed(task, kept));
        if let Some(minted) = same
            && minted.task.is_none()
            && pick.is_none()
        {
            return Ok(draft.repeat(answer(minted.next_step, None, None)));
        }
        let next_step = draft.make.next_step();
        let reserved = pick.map(|task| Reserved {
            task,
            token: draft.make.token(),
            lapses: draft.now.plus_millis(self.settings.reservation_ms),
        });
        let lapses = reserved.as_ref().map(|it| it.lapses);
        let minted = NextStepMinted {
            task: it.task,
            submission: submission.id,
            worker: it.worker.clone(),
            score: it.score,
            next_step,
            reserved,
        };
        draft.happened(it.issue, IssueEventKind::NextStepMinted(minted));
        Ok(answer(next_step, pick, lapses))
    }
}

impl Total {
    /// With what one more approval adds.
    pub(super) fn plus(self, points: u32, score: Score) -> Self {
        // What was taken over from elsewhere may be as much as can be counted.
        let low_scores = if score.is_low() { self.low_scores.saturating_add(1) } else { 0 };
        Self { points: self.points.saturating_add(points), low_scores }
    }

    /// How hard the next task is to be.
    pub(super) const fn difficulty(self, score: Score) -> Difficulty {
        let base = match self.points {
            FOCUS_POINTS.. => Difficulty::Focus,
            MEDIUM_POINTS.. => Difficulty::Medium,
            _ => Difficulty::Easy,
        };
        let allowed = match self.points {
            BEST_POINTS.. => 2,
            MIDDLE_POINTS.. => 1,
            _ => 0,
        };
        if score.is_low() && allowed < self.low_scores { easier(base) } else { base }
    }
}

const fn easier(difficulty: Difficulty) -> Difficulty {
    match difficulty {
        Difficulty::Focus => Difficulty::Medium,
        Difficulty::Medium | Difficulty::Easy => Difficulty::Easy,
    }
}

impl Issue {
    /// What `worker` will have once its work on `task` is approved.
    pub(super) fn total_after(&self, task: &Task, worker: &RoleId, score: Score) -> Total {
        self.total(worker).plus(task.points, score)
    }

    /// The reservation that this next step leads to, if the task is still kept with it.
    pub(super) fn kept(
        &self,
        number: TaskNumber,
        minted: &NextStepOffer,
    ) -> Option<&super::Reservation> {
        let reservation = self.tasks[number.index()].reservation.as_ref();
        reservation.filter(|it| it.next_step == minted.next_step)
    }

    /// Tasks to choose from once this one is done, and not before: those that wait for nothing
    /// else, and the one that was kept so far.
    fn freed(&self, reviewed: &Task, kept: Option<TaskNumber>) -> Vec<&Task> {
        let task = |number: &TaskNumber| &self.tasks[number.index()];
        let waiting = reviewed.blocks().iter().map(task).filter(|it| it.reservation.is_none());
        let freed = waiting.chain(kept.as_ref().map(task));
        freed.filter(|it| it.is_free_after(reviewed.number)).collect()
    }

    /// A task to do next, of this difficulty or, where there is none, an easier one; never a
    /// harder one. `freed` are there as well.
    fn pick(&self, difficulty: Difficulty, points: u32, freed: &[&Task]) -> Option<TaskNumber> {
        let levels = Difficulty::ALL.iter().rev().filter(|it| **it <= difficulty);
        levels.into_iter().find_map(|level| {
            let freed = freed.iter().filter(|it| it.difficulty == *level);
            let mut freed: Vec<Choice> = freed.map(|it| it.choice()).collect();
            freed.sort_unstable();
            let set = self.choice(*level);
            let len = set.len() + freed.len();
            let at = match points {
                _ if len == 0 => return None,
                BEST_POINTS.. => 0,
                FOCUS_POINTS..MIDDLE_POINTS => len - 1,
                _ => len / 2,
            };
            set.at_with(&freed, at).map(|it| it.task)
        })
    }
}
