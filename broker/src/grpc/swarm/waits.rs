//! What roles wait for, and what they are answered.

use tasuki_proto::{
    id::RoleId,
    swarm::{IssueId, TaskNumber},
    wire::{self, park_response::Outcome, swarm_answer::Standing, swarm_question::Ask},
};
use tonic::Status;

use super::{
    super::{guard, parse::check_size, status::invalid},
    Endpoint, Later, Rejection, View, WorkspaceSession, at_once, deliveries, id, issues, items,
    messages, parse, render, reviews,
};
use crate::{
    rules::swarm::{
        Answer, IssueState, LocksAnswer, MessageState, Question, SubmissionState, words::AuditKind,
    },
    workspace,
};

/// Names of files that one wait is for, in bytes: a token has thousands of waits.
const WAIT_FILES_BYTES_MAX: usize = 8 * 1024;

/// Entries of an audit that are looked through for why something ended.
const AUDIT_LOOK_MAX: u64 = 64;

impl Endpoint for wire::SwarmQuestion {
    async fn answer(self, session: &WorkspaceSession) -> super::Answer<Self> {
        let Outcome::Swarm(answer) = session.wait(question(&self)?, self.hold_ms).await? else {
            unreachable!("a question about issues is answered with one")
        };
        Ok(answer)
    }
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
            check_size("files", bytes, WAIT_FILES_BYTES_MAX)?;
            Question::Locks(parse::lock_keys(files)?)
        }
    };
    Ok(workspace::Question::Swarm { what, role })
}

/// What a wait about issues, tasks, deliveries or locks ended with.
pub(in crate::grpc) fn outcome(
    view: &View<'_>,
    role: &RoleId,
    it: Answer,
    is_superseded: bool,
    sequence: u64,
) -> Result<Later<wire::SwarmAnswer>, Rejection> {
    let (swarm, asker) = (&view.workspace.swarm, Some(role));
    let now_ms = view.now.as_millis();
    let mut answer = wire::SwarmAnswer { sequence, now_ms, ..Default::default() };
    answer.set_standing(match it.is_there() {
        _ if is_superseded => Standing::Superseded,
        true => Standing::There,
        false => Standing::StillWaiting,
    });
    answer.pause = guard::pause_of(view, asker, !it.is_there() && !is_superseded);
    match it {
        Answer::Issues(ids) => {
            let found = ids.into_iter().filter_map(|id| swarm.issue(id).ok());
            answer.issues = found.map(render::issue).collect();
        }
        Answer::Tasks(it) => {
            answer.ended_because = issue_ended(it.issue);
            if let Some(number) = it.task {
                let (state, task) = swarm.task(it.of, number)?;
                answer.tasks = vec![render::task(state, task, asker)];
            }
        }
        Answer::Events(it) => {
            answer.ended_because = issue_ended(it.issue);
            answer.more_items = it.items.saturating_sub(it.item.iter().len()) as u64;
            if let Some((number, item)) = it.item {
                let item = items::with_words(view, it.of, number, &item, role)?;
                return Ok(Box::new(move |session| {
                    answer.item = Some(item(session)?);
                    Ok(answer)
                }));
            }
        }
        Answer::Review { submission, .. } => {
            let (issue, task, found) = swarm.submission(submission)?;
            let (submission, state) = (reviews::with_words(issue, found, asker), found.state);
            let of = (issue.id, task.number, issue.audit, found.item);
            return Ok(Box::new(move |session| {
                answer.submission = Some(submission(session)?);
                answer.ended_because = match state {
                    SubmissionState::Superseded => "superseded".to_owned(),
                    SubmissionState::Reset => session.why_ended(of)?,
                    SubmissionState::Open
                    | SubmissionState::Approved
                    | SubmissionState::Rejected => String::new(),
                };
                Ok(answer)
            }));
        }
        Answer::Reply { message, state } => {
            let (issue, task, found) = swarm.message(message)?;
            let message = messages::with_words(issue.id, task, found);
            let of = (issue.id, task.number, issue.audit, found.item);
            return Ok(Box::new(move |session| {
                answer.message = Some(message(session)?);
                answer.ended_because = match state {
                    MessageState::Resolved => session.why_ended(of)?,
                    MessageState::Open | MessageState::Replied => String::new(),
                };
                Ok(answer)
            }));
        }
        Answer::Deliveries(ids) => {
            let found = ids.into_iter().filter_map(|id| swarm.delivery(id).ok());
            answer.deliveries = found.map(|it| render::delivery(it, asker)).collect();
        }
        Answer::Verdict { delivery, .. } => {
            let delivery = deliveries::with_words(view, delivery, asker)?;
            return Ok(Box::new(move |session| {
                let delivery = delivery(session)?;
                answer.ended_because.clone_from(&delivery.ended_because);
                answer.delivery = Some(delivery);
                Ok(answer)
            }));
        }
        Answer::Locks(LocksAnswer::Locked(conflict)) => {
            let found = swarm.locks.get(conflict.lock);
            answer.locks = found.map(|it| render::lock(it, asker)).into_iter().collect();
        }
        Answer::Locks(LocksAnswer::Free | LocksAnswer::Unknown | LocksAnswer::Unlocked) => {}
    }
    Ok(at_once(answer))
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
}

/// Why nothing will come of an issue any more; empty while it is open.
fn issue_ended(state: IssueState) -> String {
    match state {
        IssueState::Open => String::new(),
        IssueState::Done => "the issue was closed".to_owned(),
        IssueState::Canceled => "the issue lapsed".to_owned(),
    }
}
