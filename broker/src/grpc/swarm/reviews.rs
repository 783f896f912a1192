//! Submissions: put before the lead by a worker, and judged.

use tasuki_proto::{id::RoleId, wire};

use super::{
    super::{render::text, status::invalid},
    Answer, Endpoint, Later, View, WorkspaceSession, at_once, id, parse, render, tasks,
};
use crate::rules::swarm::{
    CommandKind, Issue, MintNextStep, Reply, ReviewTask, Submission, SubmitTask, Verdict,
};

impl Endpoint for wire::SubmitTaskRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let (issue, task) = tasks::of(&self.issue_id, &self.task_id)?;
        let words = parse::artifacts(self.words)?;
        let files = parse::submitted_keys(self.files)?;
        let submit = SubmitTask { issue, task, token: self.claim_token.into(), words, files };
        let render = move |view: &View<'_>, reply: Option<Reply>| {
            let Some(Reply::Submitted(submission)) = reply else {
                unreachable!("a task is submitted or refused")
            };
            let (state, task) = view.workspace.swarm.task(issue, task)?;
            let task = Some(render::task(state, task, Some(&role)));
            let submission_id = submission.to_string();
            Ok(at_once(wire::SubmitTaskResponse { submission_id, task, ..Default::default() }))
        };
        session.ask(CommandKind::SubmitTask(submit), render).await
    }
}

impl Endpoint for wire::MintNextStepRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let (issue, task) = tasks::of(&self.issue_id, &self.task_id)?;
        let worker = id("worker", &self.worker)?;
        let score = parse::score(self.completion_score)?;
        let mint = CommandKind::MintNextStep(MintNextStep { issue, task, worker, score });
        let render = |_: &View<'_>, reply: Option<Reply>| {
            let Some(Reply::NextStep(step)) = reply else {
                unreachable!("a next step is chosen or refused")
            };
            let next_step = wire::NextStep {
                token: step.next_step.to_string(),
                task_id: text(step.task.as_ref()),
                difficulty: wire::Difficulty::from(step.difficulty).into(),
                reserved_until_ms: step.lapses.map_or(0, |it| it.as_millis()),
                worker_total_points: step.points.into(),
                consecutive_low_scores: step.low_scores,
            };
            let next_step = Some(next_step);
            Ok(at_once(wire::MintNextStepResponse { next_step, ..Default::default() }))
        };
        session.ask(mint, render).await
    }
}

impl Endpoint for wire::ReviewTaskRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let (issue, task) = tasks::of(&self.issue_id, &self.task_id)?;
        let review = self.review.ok_or_else(|| invalid("review", &"is required"))?;
        let verdict = if review.is_approved { Verdict::Approved } else { Verdict::Rejected };
        let review = ReviewTask {
            issue,
            task,
            submission: parse::maybe("submission_id", &self.submission_id)?,
            verdict,
            score: parse::score_of(self.completion_score, verdict)?,
            next_step: parse::next_step(&self.next_step_token)?,
            words: parse::review(review)?,
        };
        tasks::ask(session, (issue, task), CommandKind::ReviewTask(review)).await
    }
}

/// A submission with what was submitted, and what its review said, as `asker` may see it.
pub(super) fn with_words(
    issue: &Issue,
    it: &Submission,
    asker: Option<&RoleId>,
) -> Later<wire::Submission> {
    let (mut shown, issue, id) = (render::submission(issue, it, asker), issue.id, it.id);
    let approved = it.reviewed.as_ref().map(|it| it.verdict == Verdict::Approved);
    Box::new(move |session| {
        shown.words = Some(render::artifacts(session.submission_words(issue, id)?));
        if let Some(is_approved) = approved {
            shown.review = Some(render::review(session.review_words(issue, id)?, is_approved));
        }
        Ok(shown)
    })
}
