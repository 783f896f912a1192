//! The lead's verdict on a submission.

use super::{
    IssueEventKind, Judged, Rejection, Reply, ReviewTask, Reviewed, Score, Submission,
    SubmissionState, Swarm, Task, Verdict, Words, check::DecisionBuilder, claims::invalid,
    words::ReviewWords,
};
use crate::hash::Hash;

impl Swarm {
    pub(super) fn decide_review(
        &self,
        draft: &mut DecisionBuilder<'_>,
        it: &ReviewTask,
    ) -> Result<Reply, Rejection> {
        let (issue, task) = self.task(it.issue, it.task)?;
        if it.words.reviewed_refs.is_empty() || it.words.details.is_empty() {
            let text = "artifacts.reviewed_refs and feedback_details are required";
            return Err(Rejection::Invalid(text.to_owned()));
        }
        let content = it.content();
        let submission = task.to_review(it, content)?;
        if let Some(judged) = &submission.reviewed {
            if judged.verdict == it.verdict && judged.content == content {
                let (submission, next_step) = (submission.id, judged.next_step);
                return Ok(draft.repeat(Reply::Reviewed { submission, next_step }));
            }
            let (submission, state) = (submission.id, submission.state.as_str());
            return Err(Rejection::AlreadyReviewed { submission, state });
        }
        self.open_issue(it.issue)?;
        if submission.state != SubmissionState::Open {
            let (submission, state) = (submission.id, submission.state.as_str());
            return Err(Rejection::AlreadyReviewed { submission, state });
        }
        draft.not_own(Some(&submission.worker))?;
        let (mut next_step, mut lapses) = (None, None);
        match it.verdict {
            Verdict::Approved => {
                let shown = it.next_step.ok_or(Rejection::NextStepRequired)?;
                let minted = submission.minted.as_ref();
                let minted = minted.filter(|minted| minted.next_step == shown);
                let minted = minted
                    .ok_or_else(|| invalid("this submission has another one by now, or none"))?;
                if minted.score != it.score {
                    return Err(invalid("it was made for another completion_score"));
                }
                if let Some(number) = minted.task {
                    let kept = issue.kept(number, minted);
                    kept.filter(|kept| draft.now < kept.lease.lapses)
                        .ok_or_else(|| invalid("its task is not reserved any more"))?;
                    if !issue.tasks[number.index()].is_free_after(it.task) {
                        let why = "its task is blocked again: others were reset";
                        return Err(invalid(why));
                    }
                    lapses = Some(draft.now.plus_millis(self.settings.reservation_ms));
                }
                next_step = Some(shown);
            }
            Verdict::Rejected => {
                lapses = Some(draft.now.plus_millis(self.settings.task_claim_ms));
            }
        }
        let reviewed = Reviewed {
            task: it.task,
            submission: submission.id,
            verdict: it.verdict,
            score: it.score,
            content,
            next_step,
            lapses,
        };
        let submission = submission.id;
        draft.keep(Words::Review { issue: it.issue, submission, words: it.words.clone() });
        draft.happened(it.issue, IssueEventKind::Reviewed(reviewed));
        if it.verdict == Verdict::Approved {
            self.unlock_task(draft, it.issue, it.task);
        }
        Ok(Reply::Reviewed { submission, next_step })
    }
}

impl Task {
    /// The submission that is meant: the named one, the open one, or the newest if this verdict
    /// on it is known.
    fn to_review(&self, it: &ReviewTask, content: Hash) -> Result<&Submission, Rejection> {
        if let Some(id) = it.submission {
            let found = self.submissions.iter().find(|own| own.id == id);
            return found.ok_or(Rejection::UnknownSubmission { submission: id });
        }
        let is_known = |judged: &Judged| judged.verdict == it.verdict && judged.content == content;
        let newest = self.submissions.last();
        let repeated = newest.filter(|own| own.reviewed.as_ref().is_some_and(is_known));
        let none = Rejection::NoOpenSubmission { task: self.number };
        self.open_submission().or(repeated).ok_or(none)
    }
}

impl ReviewTask {
    pub(super) fn content(&self) -> Hash {
        self.words.content(self.verdict, self.score)
    }
}

impl ReviewWords {
    /// What is said with a verdict, to recognise it when it is said again.
    pub fn content(&self, verdict: Verdict, score: Score) -> Hash {
        Hash::of_values(&[&verdict, &u32::from(score.get()), self])
    }
}
