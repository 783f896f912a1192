//! Tasks: made by a lead, claimed by workers.

use prost::Message as _;
use tasuki_proto::{
    id::{RoleId, Sequence, Timestamp},
    limits::{SWARM_WORDS_BYTES_MAX, TASKS_PER_CALL_MAX},
    swarm::{IssueId, TaskNumber},
    wire,
};
use tonic::Status;

use super::{
    super::scan::{Page, Part, SKIPPED_MAX},
    super::status::{invalid, too_large},
    View, WorkspaceSession, id, issues, optional, parse,
    render::{self, Posted, Submitted},
    token,
};
use crate::rules::swarm::{CommandKind, CreateTasks, ListFilter, Reply, Task, TaskState};

/// Words of a task's messages that are told with it, in bytes; older ones are left out.
const MESSAGES_BYTES_MAX: usize = 1024 * 1024;

/// Messages that are told with a task.
const MESSAGES_MAX: usize = 100;

pub(super) async fn create(
    session: &WorkspaceSession,
    mut it: wire::CreateTasksRequest,
) -> Result<wire::CreateTasksResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let (role, issue): (_, IssueId) =
        (id("role", &it.role)?, parse::named("issue_id", &it.issue_id)?);
    let count = it.tasks.len();
    if count == 0 || TASKS_PER_CALL_MAX < count {
        let why = format!("are {count}; 1 to {TASKS_PER_CALL_MAX} are possible");
        return Err(invalid("tasks", &why));
    }
    let bytes = it.tasks.iter().map(prost::Message::encoded_len).sum();
    if SWARM_WORDS_BYTES_MAX < bytes {
        return Err(too_large("tasks", bytes, SWARM_WORDS_BYTES_MAX));
    }
    let tasks = it.tasks.into_iter().map(parse::new_task).collect::<Result<_, _>>()?;
    let ask = CommandKind::CreateTasks(CreateTasks { issue, tasks });
    let done = session.ask(role, Some(key), ask).await?;
    let Some(Reply::Tasks { first, count }) = done.reply else {
        unreachable!("tasks are made or refused")
    };
    let look = move |view: &View<'_>| {
        let state = view.workspace.swarm.issue(issue)?;
        let made = state.tasks.iter().skip(first.index()).take(count as usize);
        let tasks = made.map(|it| render::task(state, it, None)).collect();
        Ok((tasks, view.now.as_millis()))
    };
    let (tasks, now_ms) = session.look_for(None, look).await?;
    let (repeated, sequence) = (done.is_repeat, done.sequence.get());
    Ok(wire::CreateTasksResponse { tasks, repeated, sequence, now_ms })
}

pub(super) async fn claim(
    session: &WorkspaceSession,
    mut it: wire::ClaimTaskRequest,
) -> Result<wire::TaskResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let (issue, task) = of(&it.issue_id, &it.task_id)?;
    let next_step = match it.next_step_token.as_str() {
        "" => None,
        shown => Some(parse::next_step(shown)?),
    };
    let ask = CommandKind::ClaimTask { issue, task, next_step };
    let done = session.ask(role.clone(), Some(key), ask).await?;
    session.task_response(Some(role), (issue, task), done.is_repeat, done.sequence).await
}

pub(super) async fn renew(
    session: &WorkspaceSession,
    mut it: wire::RenewClaimRequest,
) -> Result<wire::TaskResponse, Status> {
    let token = token(&mut it.claim_token);
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let (issue, task) = of(&it.issue_id, &it.task_id)?;
    let ask = CommandKind::RenewClaim { issue, task, token, extend_ms: parse::lease(it.for_ms)? };
    let done = session.ask(role.clone(), Some(key), ask).await?;
    // Nodes ask again and again, and have its words: none are read for it.
    let shown = session.task(Some(role), (issue, task)).await?;
    Ok(wire::TaskResponse {
        task: Some(shown.wire),
        repeated: done.is_repeat,
        sequence: done.sequence.get(),
        now_ms: shown.now.as_millis(),
    })
}

pub(super) async fn reset(
    session: &WorkspaceSession,
    mut it: wire::ResetTaskRequest,
) -> Result<wire::TaskResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let (issue, task) = of(&it.issue_id, &it.task_id)?;
    let reason = parse::why("reason", it.reason)?;
    let ask = CommandKind::ResetTask { issue, task, reason };
    let done = session.ask(role.clone(), Some(key), ask).await?;
    session.task_response(Some(role), (issue, task), done.is_repeat, done.sequence).await
}

pub(super) async fn cancel(
    session: &WorkspaceSession,
    mut it: wire::CancelTaskRequest,
) -> Result<wire::TaskResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let (issue, task) = of(&it.issue_id, &it.task_id)?;
    let reason = parse::why("reason", it.reason)?;
    let ask = CommandKind::CancelTask { issue, task, reason };
    let done = session.ask(role.clone(), Some(key), ask).await?;
    session.task_response(Some(role), (issue, task), done.is_repeat, done.sequence).await
}

pub(super) async fn get(
    session: &WorkspaceSession,
    it: wire::GetTaskRequest,
) -> Result<wire::TaskResponse, Status> {
    let asker = optional("role", &it.role)?;
    let task = of(&it.issue_id, &it.task_id)?;
    if let Some(role) = &asker {
        // Its tokens are told.
        session.look_as(role, |_| Ok(())).await?;
    }
    session.task_response(asker, task, false, Sequence::default()).await
}

pub(super) async fn list(
    session: &WorkspaceSession,
    it: wire::ListTasksRequest,
) -> Result<wire::ListTasksResponse, Status> {
    let asker: Option<RoleId> = optional("role", &it.role)?;
    let issue = parse::named("issue_id", &it.issue_id)?;
    let (limit, offset) = (parse::limit(it.limit), it.offset as usize);
    let (stage, sort_by, is_ascending) = (it.stage(), it.sort_by(), it.ascending);
    let is_any_stage = stage == wire::TaskStage::Unspecified;
    let order: fn(&Task) -> (u64, String) = match sort_by {
        wire::SortBy::Unspecified | wire::SortBy::Created => |_| Default::default(),
        wire::SortBy::Updated => |it| (it.updated.as_millis(), String::new()),
        wire::SortBy::Subject => |it| (0, it.subject.clone()),
        wire::SortBy::Points => |it| (it.points.into(), String::new()),
    };
    let filter = ListFilter {
        task_state: if is_any_stage { state(it.status()) } else { state_of_stage(stage) },
        claimed_by: optional("claimed_by", &it.claimed_by)?,
        submitter: optional("submitter", &it.submitter)?,
        subject_contains: issues::wanted(&it.subject_contains),
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
    let shown_to = asker.clone();
    let first = filter.clone();
    // A page costs what is before its end, where it is known how many there are.
    let look = move |view: &View<'_>| {
        let state = view.workspace.swarm.issue(issue)?;
        let counts = state.counts();
        let total = match (stage, first.task_state) {
            _ if !is_plain => None,
            (wire::TaskStage::Ready, _) => Some(counts.ready),
            (wire::TaskStage::Unspecified, Some(wanted)) => Some(counts.tasks[wanted as usize]),
            (wire::TaskStage::Unspecified, None) => Some(state.tasks.len()),
            (_, _) => None,
        };
        let Some(total) = total else { return Ok(None) };
        let page = state.list(&first).skip(offset).take(limit);
        let tasks = page.map(|it| render::task(state, it, shown_to.as_ref())).collect();
        let (total, now_ms) = (total as u64, view.now.as_millis());
        Ok(Some(wire::ListTasksResponse { tasks, total, now_ms }))
    };
    if let Some(page) = session.look_for(asker.as_ref(), look).await? {
        return Ok(page);
    }
    let part = move |view: &View<'_>, before: Option<TaskNumber>| {
        let state = view.workspace.swarm.issue(issue)?;
        let fits = |it: &Task| {
            let is_of_stage = is_any_stage || render::stage(state.task_standing(it)) == stage;
            (is_of_stage && filter.fits(it)).then(|| (order(it), it.number))
        };
        let tasks = state.candidates(&filter, before);
        Ok(Part::of(tasks, usize::MAX, |it| (it.number, 1), fits))
    };
    let (numbers, total) = session.page(Page::new(is_ascending, limit, offset), part).await?;
    let shown_to = asker.clone();
    let look = move |view: &View<'_>| {
        let state = view.workspace.swarm.issue(issue)?;
        let tasks = numbers.iter().filter_map(|it| state.tasks.get(it.index()));
        let tasks = tasks.map(|it| render::task(state, it, shown_to.as_ref())).collect();
        Ok(wire::ListTasksResponse { tasks, total, now_ms: view.now.as_millis() })
    };
    session.look_for(asker.as_ref(), look).await
}

/// A task of an issue, by their names.
pub(super) fn of(issue: &str, task: &str) -> Result<(IssueId, TaskNumber), Status> {
    Ok((parse::named("issue_id", issue)?, parse::named("task_id", task)?))
}

fn state(status: wire::TaskStatus) -> Option<TaskState> {
    match status {
        wire::TaskStatus::Unspecified => None,
        wire::TaskStatus::Open => Some(TaskState::Open),
        wire::TaskStatus::InProgress => Some(TaskState::InProgress),
        wire::TaskStatus::Blocked => Some(TaskState::Blocked),
        wire::TaskStatus::Done => Some(TaskState::Done),
        wire::TaskStatus::Canceled => Some(TaskState::Canceled),
    }
}

/// The state that all tasks of a stage are in.
fn state_of_stage(stage: wire::TaskStage) -> Option<TaskState> {
    match stage {
        wire::TaskStage::Unspecified => None,
        wire::TaskStage::Ready | wire::TaskStage::Waiting | wire::TaskStage::Reserved => {
            Some(TaskState::Open)
        }
        wire::TaskStage::Working | wire::TaskStage::Submitted | wire::TaskStage::InReview => {
            Some(TaskState::InProgress)
        }
        wire::TaskStage::Asking => Some(TaskState::Blocked),
        wire::TaskStage::Done => Some(TaskState::Done),
        wire::TaskStage::Canceled => Some(TaskState::Canceled),
    }
}

/// A task as one role may see it, and which words of it there are.
pub(super) struct Shown {
    pub wire: wire::Task,
    pub now: Timestamp,
    pub sequence: Sequence,
    submission: Option<Submitted>,
    messages: Vec<(wire::TaskMessage, Posted)>,
}

impl WorkspaceSession {
    /// A task as it stands, with all that was said about it.
    pub(super) async fn task_response(
        &self,
        asker: Option<RoleId>,
        of: (IssueId, TaskNumber),
        repeated: bool,
        sequence: Sequence,
    ) -> Result<wire::TaskResponse, Status> {
        let shown = self.task(asker, of).await?;
        let now_ms = shown.now.as_millis();
        let seen = shown.sequence;
        let sequence = if sequence == Sequence::default() { seen } else { sequence }.get();
        let task = Some(self.task_with_words(of, shown)?);
        Ok(wire::TaskResponse { task, repeated, sequence, now_ms })
    }

    /// A task as `asker`, whom somebody looked at before, may see it.
    pub(super) async fn task(
        &self,
        asker: Option<RoleId>,
        (issue, number): (IssueId, TaskNumber),
    ) -> Result<Shown, Status> {
        let look = move |view: &View<'_>| {
            let (state, task) = view.workspace.swarm.task(issue, number)?;
            let messages = task.messages.iter().rev().take(MESSAGES_MAX);
            Ok(Shown {
                wire: render::task(state, task, asker.as_ref()),
                now: view.now,
                sequence: view.workspace.sequence,
                submission: task.submissions.last().map(Submitted::of),
                messages: messages.map(|it| (render::message(task, it), Posted::of(it))).collect(),
            })
        };
        self.look_for(None, look).await
    }

    pub(super) fn task_with_words(
        &self,
        (issue, number): (IssueId, TaskNumber),
        it: Shown,
    ) -> Result<wire::Task, Status> {
        let mut task = it.wire;
        task.words = Some(self.task_words(issue, number)?);
        if let (Some(shown), Some(submitted)) = (&mut task.submission, it.submission) {
            self.add_submission_words(shown, issue, submitted)?;
        }
        let mut bytes = 0;
        for (mut message, posted) in it.messages {
            self.add_message_words(&mut message, issue, posted)?;
            bytes += message.encoded_len();
            if MESSAGES_BYTES_MAX < bytes {
                break;
            }
            task.messages.push(message);
        }
        task.messages.reverse();
        Ok(task)
    }
}
