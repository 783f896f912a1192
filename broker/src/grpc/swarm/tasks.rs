//! Tasks: made by a lead, claimed by workers.

use prost::Message as _;
use tasuki_proto::{
    id::RoleId,
    limits::{MESSAGE_BYTES_MAX, SWARM_WORDS_BYTES_MAX, TASKS_PER_CALL_MAX},
    swarm::{IssueId, TaskNumber},
    wire,
};
use tonic::Status;

use super::{
    super::parse::{check_count, check_size},
    super::scan::{Page, Part, SKIPPED_MAX},
    Answer, Endpoint, Later, Rejection, View, WorkspaceSession, at_once, issues, messages,
    optional, parse, render, reviews,
    states::Named,
};
use crate::rules::swarm::{CommandKind, CreateTasks, ListFilter, Reply, Task, TaskState};

/// Words of a task's messages that are told with it, in bytes, where the rest of the task leaves
/// room for them; older ones are left out.
const MESSAGES_BYTES_MAX: usize = 1024 * 1024;

/// Room for what is around the task and each of its messages, in bytes.
const FRAMES_BYTES_MAX: usize = 4 * 1024;

/// Messages that are told with a task.
const MESSAGES_MAX: usize = 100;

impl Endpoint for wire::CreateTasksRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let issue: IssueId = parse::named("issue_id", &self.issue_id)?;
        let count = self.tasks.len();
        check_count("tasks", count, 1..=TASKS_PER_CALL_MAX)?;
        let bytes = self.tasks.iter().map(prost::Message::encoded_len).sum();
        check_size("tasks", bytes, SWARM_WORDS_BYTES_MAX)?;
        let tasks = self.tasks.into_iter().map(parse::new_task).collect::<Result<_, _>>()?;
        let create = CommandKind::CreateTasks(CreateTasks { issue, tasks });
        let render = move |view: &View<'_>, reply: Option<Reply>| {
            let Some(Reply::Tasks { first, count }) = reply else {
                unreachable!("tasks are made or refused")
            };
            let state = view.workspace.swarm.issue(issue)?;
            let made = state.tasks.iter().skip(first.index()).take(count as usize);
            let tasks = made.map(|it| render::task(state, it, None)).collect();
            Ok(at_once(wire::CreateTasksResponse { tasks, ..Default::default() }))
        };
        session.ask(create, render).await
    }
}

impl Endpoint for wire::ClaimTaskRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let (issue, task) = of(&self.issue_id, &self.task_id)?;
        let next_step = parse::next_step(&self.next_step_token)?;
        let claim = CommandKind::ClaimTask { issue, task, next_step };
        ask(session, (issue, task), claim).await
    }
}

impl Endpoint for wire::RenewClaimRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let (issue, task) = of(&self.issue_id, &self.task_id)?;
        let (token, extend_ms) = (self.claim_token.into(), parse::lease(self.for_ms)?);
        let renew = CommandKind::RenewClaim { issue, task, token, extend_ms };
        // Nodes ask again and again, and have its words: none are read for it.
        let render = move |view: &View<'_>, _| {
            let (state, task) = view.workspace.swarm.task(issue, task)?;
            let task = Some(render::task(state, task, Some(&role)));
            Ok(at_once(wire::TaskResponse { task, ..Default::default() }))
        };
        session.ask(renew, render).await
    }
}

impl Endpoint for wire::ResetTaskRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let (issue, task) = of(&self.issue_id, &self.task_id)?;
        let reason = parse::why("reason", self.reason)?;
        let reset = CommandKind::ResetTask { issue, task, reason };
        ask(session, (issue, task), reset).await
    }
}

impl Endpoint for wire::CancelTaskRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let (issue, task) = of(&self.issue_id, &self.task_id)?;
        let reason = parse::why("reason", self.reason)?;
        let cancel = CommandKind::CancelTask { issue, task, reason };
        ask(session, (issue, task), cancel).await
    }
}

impl Endpoint for wire::GetTaskRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let asker = session.asker.clone();
        let task = of(&self.issue_id, &self.task_id)?;
        let shown_to = asker.clone();
        session.show(asker.as_ref(), move |view| response(view, task, shown_to.as_ref())).await
    }
}

impl Endpoint for wire::ListTasksRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let asker = session.asker.clone();
        let issue: IssueId = parse::named("issue_id", &self.issue_id)?;
        let (limit, offset) = (parse::limit(self.limit), self.offset as usize);
        let (stage, sort_by, is_ascending) = (self.stage(), self.sort_by(), self.ascending);
        let is_any_stage = stage == wire::TaskStage::Unspecified;
        let order: fn(&Task) -> (u64, String) = match sort_by {
            wire::SortBy::Unspecified | wire::SortBy::Created => |_| Default::default(),
            wire::SortBy::Updated => |it| (it.updated.as_millis(), String::new()),
            wire::SortBy::Subject => |it| (0, it.subject.clone()),
            wire::SortBy::Points => |it| (it.points.into(), String::new()),
        };
        let filter = ListFilter {
            task_state: if is_any_stage {
                TaskState::of_wire(self.status())
            } else {
                state_of_stage(stage)
            },
            claimed_by: optional("claimed_by", &self.claimed_by)?,
            submitter: optional("submitter", &self.submitter)?,
            subject_contains: issues::wanted(&self.subject_contains),
            is_ready: stage == wire::TaskStage::Ready,
            ..ListFilter::default()
        };
        let is_default = matches!(sort_by, wire::SortBy::Unspecified | wire::SortBy::Created);
        let is_plain = is_default
            && !is_ascending
            && offset <= SKIPPED_MAX
            && filter.claimed_by.is_none()
            && filter.submitter.is_none()
            && filter.subject_contains.is_none();
        let plain = filter.clone();
        let first = move |view: &View<'_>| {
            let state = view.workspace.swarm.issue(issue)?;
            let counts = state.counts();
            let total = match (stage, plain.task_state) {
                _ if !is_plain => None,
                (wire::TaskStage::Ready, _) => Some(counts.ready),
                (wire::TaskStage::Unspecified, Some(wanted)) => Some(counts.tasks[wanted as usize]),
                (wire::TaskStage::Unspecified, None) => Some(state.tasks.len()),
                (_, _) => None,
            };
            let page = || state.list(&plain).skip(offset).take(limit).map(|it| it.number).collect();
            Ok(total.map(|total| (page(), total as u64)))
        };
        let part = move |view: &View<'_>, before: Option<TaskNumber>| {
            let state = view.workspace.swarm.issue(issue)?;
            let fits = |it: &Task| {
                let is_of_stage =
                    is_any_stage || wire::TaskStage::from(state.task_standing(it)) == stage;
                (is_of_stage && filter.fits(it)).then(|| (order(it), it.number))
            };
            let tasks = state.candidates(&filter, before);
            Ok(Part::of(tasks, usize::MAX, |it| (it.number, 1), fits))
        };
        let shown_to = asker.clone();
        let render = move |view: &View<'_>, numbers: Vec<TaskNumber>| {
            let state = view.workspace.swarm.issue(issue)?;
            let tasks = numbers.iter().filter_map(|it| state.tasks.get(it.index()));
            Ok(tasks.map(|it| render::task(state, it, shown_to.as_ref())).collect())
        };
        let page = Page::new(is_ascending, limit, offset);
        let listed = session.list(asker.as_ref(), page, first, part, render).await?;
        let (tasks, total, now_ms) = listed;
        Ok(wire::ListTasksResponse { tasks, total, now_ms })
    }
}

/// A task of an issue, by their names.
pub(super) fn of(issue: &str, task: &str) -> Result<(IssueId, TaskNumber), Status> {
    Ok((parse::named("issue_id", issue)?, parse::named("task_id", task)?))
}

/// The state that all tasks of a stage are in.
fn state_of_stage(stage: wire::TaskStage) -> Option<TaskState> {
    match stage {
        wire::TaskStage::Unspecified => None,
        wire::TaskStage::Ready | wire::TaskStage::Blocked | wire::TaskStage::Reserved => {
            Some(TaskState::Open)
        }
        wire::TaskStage::Working | wire::TaskStage::Submitted | wire::TaskStage::InReview => {
            Some(TaskState::InProgress)
        }
        wire::TaskStage::WaitingForAnswer => Some(TaskState::WaitingForAnswer),
        wire::TaskStage::Done => Some(TaskState::Done),
        wire::TaskStage::Canceled => Some(TaskState::Canceled),
    }
}

/// Executes what a role asks about a task.
pub(super) async fn ask(
    session: &WorkspaceSession,
    of: (IssueId, TaskNumber),
    ask: CommandKind,
) -> Result<wire::TaskResponse, Status> {
    let role = session.role()?;
    session.ask(ask, move |view, _| response(view, of, Some(&role))).await
}

/// The answer of a call about a task: all that was said about it, as `asker` may see it.
fn response(
    view: &View<'_>,
    of: (IssueId, TaskNumber),
    asker: Option<&RoleId>,
) -> Result<Later<wire::TaskResponse>, Rejection> {
    let task = with_words(view, of, asker)?;
    Ok(Box::new(move |session| {
        Ok(wire::TaskResponse { task: Some(task(session)?), ..Default::default() })
    }))
}

fn with_words(
    view: &View<'_>,
    (issue, number): (IssueId, TaskNumber),
    asker: Option<&RoleId>,
) -> Result<Later<wire::Task>, Rejection> {
    let (state, task) = view.workspace.swarm.task(issue, number)?;
    let mut shown = render::task(state, task, asker);
    let submission = task.submissions.last().map(|it| reviews::with_words(state, it, asker));
    let newest = task.messages.iter().rev().take(MESSAGES_MAX);
    let newest: Vec<_> = newest.map(|it| messages::with_words(issue, task, it)).collect();
    Ok(Box::new(move |session| {
        shown.words = Some(render::task_words(session.task_words(issue, number)?));
        shown.submission = submission.map(|it| it(session)).transpose()?;
        let taken = shown.encoded_len() + FRAMES_BYTES_MAX;
        let bytes_max = MESSAGE_BYTES_MAX.saturating_sub(taken).min(MESSAGES_BYTES_MAX);
        let mut bytes = 0;
        for message in newest {
            let message = message(session)?;
            bytes += message.encoded_len();
            if bytes_max < bytes {
                break;
            }
            shown.messages.push(message);
        }
        shown.messages.reverse();
        Ok(shown)
    }))
}
