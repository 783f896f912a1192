//! What roles wait for, and what they are told.
//!
//! An answer names what it is about; what that says is read from the state when the answer is
//! written, so it may have gone on meanwhile.

use tasuki_proto::{
    id::RoleId,
    swarm::{IssueId, TaskMessageId, TaskNumber},
    wire::{self, swarm_answer::Standing, swarm_question::Ask},
};
use tonic::Status;

use super::{
    super::status::{invalid, too_large},
    View, WorkspaceSession, hold, id, issues, parse, render,
    render::Submitted,
};
use crate::{
    rules::swarm::{
        Answer, IssueState, LocksAnswer, MessageState, Question, SubmissionState, words::AuditKind,
    },
    workspace::{self, WaitOutcome},
};

/// Names of files that one wait is for, in bytes: a token has thousands of waits.
const WAIT_FILES_BYTES_MAX: usize = 8 * 1024;

/// Entries of an audit that are looked through for why something ended.
const AUDIT_LOOK_MAX: u64 = 64;

pub(super) async fn wait(
    session: &WorkspaceSession,
    it: wire::SwarmQuestion,
) -> Result<wire::SwarmAnswer, Status> {
    let question = question(&it)?;
    let role = question.role().clone();
    let told = session.wait_for(question, hold(it.hold_ms)).await?;
    session.swarm_answer(&role, &told).await
}

pub(in crate::grpc) fn question(it: &wire::SwarmQuestion) -> Result<workspace::Question, Status> {
    let role = id("role", &it.role)?;
    let Some(ask) = &it.ask else {
        return Err(invalid("ask", &"is missing; say what is waited for"));
    };
    let what = match ask {
        Ask::Issues(status) => {
            let status = wire::IssueStatus::try_from(*status).unwrap_or_default();
            match (status, issues::state(status)) {
                (wire::IssueStatus::InProgress, _) | (_, None) => {
                    return Err(invalid("issues", &"is open, done or canceled"));
                }
                (_, Some(state)) => Question::Issues(state),
            }
        }
        Ask::TasksOf(issue) => Question::Tasks(parse::named("tasks_of", issue)?),
        Ask::ItemsOf(issue) => Question::Events(parse::named("items_of", issue)?),
        Ask::Submission(it) => Question::Review(parse::named("submission", it)?),
        Ask::Message(it) => Question::Reply(parse::named("message", it)?),
        Ask::Deliveries(true) => Question::Deliveries,
        Ask::Deliveries(false) => return Err(invalid("deliveries", &"is true or not there")),
        Ask::Delivery(it) => Question::Verdict(parse::named("delivery", it)?),
        Ask::Files(files) => {
            let bytes: usize = files.patterns.iter().map(String::len).sum();
            if WAIT_FILES_BYTES_MAX < bytes {
                return Err(too_large("files", bytes, WAIT_FILES_BYTES_MAX));
            }
            Question::Locks(parse::lock_keys(files)?)
        }
    };
    Ok(workspace::Question::Swarm { what, role })
}

impl WorkspaceSession {
    /// What a wait about issues, tasks, deliveries or locks ended with.
    pub(in crate::grpc) async fn swarm_answer(
        &self,
        role: &RoleId,
        told: &WaitOutcome,
    ) -> Result<wire::SwarmAnswer, Status> {
        let workspace::Answer::Swarm(it) = &told.answer else {
            unreachable!("a question about issues is answered with one")
        };
        let mut answer = match it {
            Answer::Issues(ids) => {
                let ids = ids.clone();
                let look = move |view: &View<'_>| {
                    let swarm = &view.workspace.swarm;
                    let issues = ids.iter().filter_map(|id| swarm.issue(*id).ok());
                    let issues = issues.map(render::issue).collect();
                    let now_ms = view.now.as_millis();
                    Ok(wire::SwarmAnswer { issues, now_ms, ..Default::default() })
                };
                self.look_for(None, look).await?
            }
            Answer::Tasks(it) => {
                let mut answer = wire::SwarmAnswer {
                    ended_because: issue_ended(it.issue),
                    ..Default::default()
                };
                if let Some(task) = it.task {
                    let shown = self.task(Some(role.clone()), (it.of, task)).await?;
                    answer.tasks = vec![shown.wire];
                }
                answer
            }
            Answer::Events(it) => {
                let mut answer = wire::SwarmAnswer {
                    ended_because: issue_ended(it.issue),
                    more_items: it.items.saturating_sub(it.item.iter().len()) as u64,
                    ..Default::default()
                };
                if let Some((number, item)) = &it.item {
                    answer.item = Some(self.item(it.of, *number, item, role).await?);
                }
                answer
            }
            Answer::Review { submission, .. } => {
                let (id, asker) = (*submission, role.clone());
                let look = move |view: &View<'_>| {
                    let (issue, task, found) = view.workspace.swarm.submission(id)?;
                    let shown = render::submission(issue, found, Some(&asker));
                    let of = (issue.id, task.number, issue.audit, found.item);
                    Ok((shown, Submitted::of(found), found.state, of))
                };
                let (mut shown, submitted, state, of) = self.look_for(None, look).await?;
                self.add_submission_words(&mut shown, of.0, submitted)?;
                let ended_because = match state {
                    SubmissionState::Superseded => "superseded".to_owned(),
                    SubmissionState::Reset => self.why_ended(of)?,
                    SubmissionState::Open
                    | SubmissionState::Approved
                    | SubmissionState::Rejected => String::new(),
                };
                let submission = Some(shown);
                wire::SwarmAnswer { submission, ended_because, ..Default::default() }
            }
            Answer::Reply { message, state } => {
                let shown = self.message(*message).await?.0;
                let ended_because = match state {
                    MessageState::Resolved => self.why_resolved(*message).await?,
                    MessageState::Open | MessageState::Replied => String::new(),
                };
                let message = Some(shown);
                wire::SwarmAnswer { message, ended_because, ..Default::default() }
            }
            Answer::Deliveries(ids) => {
                let (ids, asker) = (ids.clone(), role.clone());
                let look = move |view: &View<'_>| {
                    let swarm = &view.workspace.swarm;
                    let found = ids.iter().filter_map(|id| swarm.delivery(*id).ok());
                    let deliveries = found.map(|it| render::delivery(it, Some(&asker))).collect();
                    Ok(wire::SwarmAnswer { deliveries, ..Default::default() })
                };
                self.look_for(None, look).await?
            }
            Answer::Verdict { delivery, .. } => {
                let shown = self.delivery(Some(role.clone()), *delivery).await?.0;
                let (ended_because, delivery) = (shown.ended_because.clone(), Some(shown));
                wire::SwarmAnswer { delivery, ended_because, ..Default::default() }
            }
            Answer::Locks(it) => {
                let id = match it {
                    LocksAnswer::Locked(conflict) => Some(conflict.lock),
                    LocksAnswer::Free | LocksAnswer::Unknown | LocksAnswer::Unlocked => None,
                };
                let asker = role.clone();
                let look = move |view: &View<'_>| {
                    let found = id.and_then(|id| view.workspace.swarm.locks.get(id));
                    Ok(found.map(|it| render::lock(it, Some(&asker))))
                };
                let locks = self.look_for(None, look).await?.into_iter().collect();
                wire::SwarmAnswer { locks, ..Default::default() }
            }
        };
        answer.sequence = told.sequence.get();
        if answer.now_ms == 0 {
            answer.now_ms = self.look(|view| view.now.as_millis()).await?;
        }
        answer.set_standing(match it.is_there() {
            _ if told.is_superseded => Standing::Superseded,
            true => Standing::There,
            false => Standing::StillWaiting,
        });
        Ok(answer)
    }
}

impl WorkspaceSession {
    /// Why a submission came to nothing: what happened to its task or issue after it.
    fn why_ended(
        &self,
        (issue, task, audit, item): (IssueId, TaskNumber, u64, u64),
    ) -> Result<String, Status> {
        let oldest = audit.saturating_sub(AUDIT_LOOK_MAX).max(item);
        for number in (oldest + 1..=audit).rev() {
            let entry = self.audited(issue, number)?;
            let is_own = entry.task.is_none() || entry.task == Some(task);
            let what = match entry.kind {
                AuditKind::TaskReset if is_own => "the task was reset",
                AuditKind::TaskCanceled if is_own => "the task was canceled",
                AuditKind::TaskExpired if is_own => "the claim lapsed",
                AuditKind::TaskResolved if is_own => "the task was approved",
                AuditKind::IssueClosed => "the issue was closed",
                AuditKind::IssueExpired => "the issue lapsed",
                AuditKind::IssueCreated
                | AuditKind::IssueUpdated
                | AuditKind::IssueReopened
                | AuditKind::TaskCreated
                | AuditKind::TaskClaimed
                | AuditKind::TaskExpired
                | AuditKind::TaskReviewed
                | AuditKind::TaskResolved
                | AuditKind::TaskMessage
                | AuditKind::TaskReplied
                | AuditKind::TaskReset
                | AuditKind::TaskCanceled
                | AuditKind::TaskReserved
                | AuditKind::ReservationExpired
                | AuditKind::SubmissionCreated
                | AuditKind::DocWritten
                | AuditKind::DeliveryCreated
                | AuditKind::DeliveryClaimed
                | AuditKind::DeliveryExpired
                | AuditKind::EvidenceAttached
                | AuditKind::DeliveryReviewed
                | AuditKind::Imported => continue,
            };
            let is_said = matches!(
                entry.kind,
                AuditKind::TaskReset | AuditKind::TaskCanceled | AuditKind::IssueClosed
            );
            return Ok(match entry.detail {
                reason if is_said && !reason.is_empty() => format!("{what}: {reason}"),
                _ => what.to_owned(),
            });
        }
        Ok("the task or its issue came to an end".to_owned())
    }

    async fn why_resolved(&self, message: TaskMessageId) -> Result<String, Status> {
        let look = move |view: &View<'_>| {
            let (issue, task, found) = view.workspace.swarm.message(message)?;
            Ok((issue.id, task.number, issue.audit, found.item))
        };
        let of = self.look_for(None, look).await?;
        self.why_ended(of)
    }
}

/// Why nothing will come of an issue any more; empty while it is open.
fn issue_ended(state: IssueState) -> String {
    match state {
        IssueState::Open => String::new(),
        IssueState::Done => "the issue was closed".to_owned(),
        IssueState::Canceled => "the issue lapsed".to_owned(),
    }
}
