//! Submissions: put before the lead by a worker, and judged.

use tasuki_proto::{id::RoleId, swarm::IssueId, wire};
use tonic::Status;

use super::{
    super::status::invalid,
    WorkspaceSession, id, parse,
    render::{self, Submitted},
    tasks, token,
};
use crate::rules::swarm::{CommandKind, MintNextStep, Reply, ReviewTask, SubmitTask, Verdict};

pub(super) async fn submit(
    session: &WorkspaceSession,
    mut it: wire::SubmitTaskRequest,
) -> Result<wire::SubmitTaskResponse, Status> {
    let token = token(&mut it.claim_token);
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let (issue, task) = tasks::of(&it.issue_id, &it.task_id)?;
    let words = parse::artifacts(it.words)?;
    let ask = CommandKind::SubmitTask(SubmitTask { issue, task, token, words });
    let done = session.ask(role.clone(), Some(key), ask).await?;
    let Some(Reply::Submitted(submission)) = done.reply else {
        unreachable!("a task is submitted or refused")
    };
    let shown = session.task(Some(role), (issue, task)).await?;
    Ok(wire::SubmitTaskResponse {
        submission_id: submission.to_string(),
        task: Some(shown.wire),
        repeated: done.is_repeat,
        sequence: done.sequence.get(),
        now_ms: shown.now.as_millis(),
    })
}

pub(super) async fn mint(
    session: &WorkspaceSession,
    mut it: wire::MintNextStepRequest,
) -> Result<wire::MintNextStepResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let (issue, task) = tasks::of(&it.issue_id, &it.task_id)?;
    let worker = id("worker", &it.worker)?;
    let score = parse::score(it.completion_score)?;
    let ask = CommandKind::MintNextStep(MintNextStep { issue, task, worker, score });
    let done = session.ask(role, Some(key), ask).await?;
    let Some(Reply::NextStep(step)) = done.reply else {
        unreachable!("a next step is chosen or refused")
    };
    let next_step = wire::NextStep {
        token: step.next_step.to_string(),
        task_id: step.task.map_or_else(String::new, |it| it.to_string()),
        difficulty: render::difficulty(step.difficulty).into(),
        reserved_until_ms: step.lapses.map_or(0, |it| it.as_millis()),
        worker_total_points: step.points.into(),
        consecutive_low_scores: step.low_scores,
    };
    Ok(wire::MintNextStepResponse {
        next_step: Some(next_step),
        repeated: done.is_repeat,
        sequence: done.sequence.get(),
    })
}

pub(super) async fn review(
    session: &WorkspaceSession,
    mut it: wire::ReviewTaskRequest,
) -> Result<wire::TaskResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let (issue, task) = tasks::of(&it.issue_id, &it.task_id)?;
    let review = it.review.ok_or_else(|| invalid("review", &"is required"))?;
    let verdict = if review.is_approved { Verdict::Approved } else { Verdict::Rejected };
    let review = ReviewTask {
        issue,
        task,
        submission: parse::maybe("submission_id", &it.submission_id)?,
        verdict,
        score: parse::score(it.completion_score)?,
        next_step: match it.next_step_token.as_str() {
            "" => None,
            shown => Some(parse::next_step(shown)?),
        },
        words: parse::review(review)?,
    };
    let done = session.ask(role.clone(), Some(key), CommandKind::ReviewTask(review)).await?;
    session.task_response(Some(role), (issue, task), done.is_repeat, done.sequence).await
}

impl WorkspaceSession {
    /// Adds what was submitted, and what its review said.
    pub(super) fn add_submission_words(
        &self,
        to: &mut wire::Submission,
        issue: IssueId,
        it: Submitted,
    ) -> Result<(), Status> {
        to.words = Some(self.submission_words(issue, it.id)?);
        to.review = match it.is_approved {
            Some(is_approved) => {
                Some(render::review(self.review_words(issue, it.id)?, is_approved))
            }
            None => None,
        };
        Ok(())
    }
}
