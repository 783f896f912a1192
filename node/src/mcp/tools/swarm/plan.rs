//! The tasks of an issue: added one by one or as a graph, listed, looked at, opened again.

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    limits::{SUBJECT_BYTES_MAX, SWARM_PAGE_MAX, TASKS_PER_CALL_MAX, WHY_BYTES_MAX},
    swarm::IssueId,
    wire,
};

use super::{
    super::{
        arguments::{invalid, missing},
        field_types::{Id, Name, Text, Word},
        sanitizer::Sanitizer,
        tool::ToolInfo,
    },
    ACCEPTOR_FULL, LEAD_CORE, LEAD_FULL, SwarmTool, WORKER_CORE, WORKER_FULL,
    answer::{Made, Page, answer},
    args::{Ascending, TaskOrder, TasksIn},
    caller::Caller,
    graph,
    next::{self, Asker},
    views,
};
use crate::role::Refusal;

/// Declares arguments with the fields of a new task.
macro_rules! new_task {
    ($(#[$meta:meta])* $name:ident { $($own:ident: $type:ty)? } blocked_by: $blocked_by:literal) => {
        $(#[$meta])*
        #[derive(Debug, Deserialize, JsonSchema)]
        pub(super) struct $name {
            $($own: $type,)?
            subject: Text<SUBJECT_BYTES_MAX>,
            description: Option<String>,
            /// Default medium.
            difficulty: Option<Word<wire::Difficulty>>,
            /// Points granted on approval. Default 0.
            points: Option<u32>,
            spec: Option<Spec>,
            context_task_ids: Option<Vec<String>>,
            suggested_files: Option<Vec<String>>,
            labels: Option<Vec<String>>,
            doc_paths: Option<Vec<String>>,
            #[doc = $blocked_by]
            blocked_by: Option<Vec<String>>,
        }

        impl From<$name> for wire::NewTask {
            fn from(it: $name) -> Self {
                Self {
                    subject: it.subject.0,
                    difficulty: it.difficulty.map_or(wire::Difficulty::Medium, |it| it.0).into(),
                    points: it.points.unwrap_or_default(),
                    words: Some(wire::TaskWords {
                        description: it.description.unwrap_or_default(),
                        context_task_ids: it.context_task_ids.unwrap_or_default(),
                        suggested_files: it.suggested_files.unwrap_or_default(),
                        labels: it.labels.unwrap_or_default(),
                        doc_paths: it.doc_paths.unwrap_or_default(),
                        spec: it.spec.map(Into::into),
                        ..wire::TaskWords::default()
                    }),
                    blocked_by: it.blocked_by.unwrap_or_default(),
                    blocked_by_new: Vec::new(),
                }
            }
        }
    };
}

new_task! {
    /// Adds a task to an issue.
    CreateTask { issue_id: Id<IssueId> } blocked_by: "Ids of tasks to finish first, such as task-1."
}

new_task! {
    PlannedTask {} blocked_by: "Task ids, or names of other tasks in this plan."
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Spec {
    name: Option<Text>,
    /// Parent of this task.
    split_from: Option<Text>,
    split_reason: Option<Text>,
    impact_scope: Option<Text>,
    context_task_ids: Option<Vec<String>>,
    goal: Option<Text>,
    rules: Option<Text>,
    constraints: Option<Text>,
    conventions: Option<Text>,
    /// How to check that it is done.
    acceptance: Option<Text>,
}

impl From<Spec> for wire::TaskSpec {
    fn from(it: Spec) -> Self {
        let said = |text: Option<Text>| text.unwrap_or_default().0;
        Self {
            name: said(it.name),
            split_from: said(it.split_from),
            split_reason: said(it.split_reason),
            impact_scope: said(it.impact_scope),
            context_task_ids: it.context_task_ids.unwrap_or_default(),
            goal: said(it.goal),
            rules: said(it.rules),
            constraints: said(it.constraints),
            conventions: said(it.conventions),
            acceptance: said(it.acceptance),
        }
    }
}

impl SwarmTool for CreateTask {
    const INFO: ToolInfo = ToolInfo::write("createIssueTask", &[LEAD_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::CreateTasksRequest {
            issue_id: self.issue_id.0.to_string(),
            tasks: vec![self.into()],
            ..wire::CreateTasksRequest::default()
        };
        let made = caller.execute(request).await?;
        let mut others = Sanitizer::default();
        let task = made.tasks.first().cloned().unwrap_or_default();
        let task = views::Task::new(&task, &mut others);
        let (repeated, next) = (made.repeated, again(made.repeated));
        Ok(answer(Made { what: task, repeated }, made.now_ms, &others, next).into())
    }
}

/// What is said of tasks that were there.
fn again(repeated: bool) -> Vec<String> {
    let words = "No task was created: this repeats an earlier plan, which is returned. To add more \
                 tasks, change the arguments, such as a subject.";
    if repeated { vec![words.to_owned()] } else { Vec::new() }
}

#[derive(Debug, Serialize)]
struct Planned {
    tasks: Vec<Line>,
}

/// A task that was just made.
#[derive(Debug, Serialize)]
struct Line {
    id: String,
    subject: String,
    stage: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    blocked_by: Vec<String>,
}

/// Adds several tasks to an issue, all or none, with their dependencies.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct PlanTasks {
    issue_id: Id<IssueId>,
    tasks: Vec<PlannedTask>,
}

impl SwarmTool for PlanTasks {
    const INFO: ToolInfo = ToolInfo::write("planIssueTasks", &[LEAD_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let issue_id = self.issue_id.0.to_string();
        if self.tasks.is_empty() {
            return Err(missing("tasks", "give at least one"));
        }
        if TASKS_PER_CALL_MAX < self.tasks.len() {
            let why = format!("are {}; the limit is {TASKS_PER_CALL_MAX}", self.tasks.len());
            return Err(invalid("tasks", &why));
        }
        let mut tasks: Vec<wire::NewTask> = self.tasks.into_iter().map(Into::into).collect();
        graph::connect(&mut tasks)?;
        let request = wire::CreateTasksRequest { issue_id, tasks, ..Default::default() };
        let made = caller.execute(request).await?;
        let mut others = Sanitizer::default();
        let line = |it: &wire::Task| Line {
            id: it.task_id.clone(),
            subject: others.line(&it.subject),
            stage: views::stage(it.stage()),
            blocked_by: it.blocked_by.clone(),
        };
        let tasks = made.tasks.iter().map(line).collect();
        let repeated = made.repeated;
        let mut next = again(repeated);
        next.push("Workers can claim the ready tasks. Call waitIssueTaskEvents.".to_owned());
        let made_tasks = Made { what: Planned { tasks }, repeated };
        Ok(answer(made_tasks, made.now_ms, &others, next).into())
    }
}

/// Returns a task with its spec, messages and submissions.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct GetTask {
    issue_id: Id<IssueId>,
    task_id: Name,
}

impl SwarmTool for GetTask {
    const INFO: ToolInfo = ToolInfo::read("getIssueTask", &[LEAD_CORE, WORKER_CORE, ACCEPTOR_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::GetTaskRequest {
            issue_id: self.issue_id.0.to_string(),
            task_id: self.task_id.0,
            ..wire::GetTaskRequest::default()
        };
        let found = caller.query(request).await?;
        Ok(task_result(caller, &found))
    }
}

fn task_result(caller: &Caller<'_>, it: &wire::TaskResponse) -> CallToolResponse {
    let task = it.task.clone().unwrap_or_default();
    let mut others = Sanitizer::default();
    let next = next::of_task(&task, &Asker::of(caller));
    let task = views::Task::new(&task, &mut others);
    answer(task, it.now_ms, &others, next).into()
}

/// Takes a task from its worker and opens it again.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ResetTask {
    issue_id: Id<IssueId>,
    task_id: Name,
    reason: Option<Text<WHY_BYTES_MAX>>,
}

impl SwarmTool for ResetTask {
    const INFO: ToolInfo = ToolInfo::destroy("resetIssueTask", &[LEAD_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::ResetTaskRequest {
            issue_id: self.issue_id.0.to_string(),
            task_id: self.task_id.0,
            reason: self.reason.unwrap_or_default().0,
            ..wire::ResetTaskRequest::default()
        };
        let reset = caller.execute(request).await?;
        Ok(task_result(caller, &reset))
    }
}

#[derive(Debug, Serialize)]
struct Tasks {
    tasks: Vec<views::Task>,
    #[serde(flatten)]
    page: Page,
}

/// Lists tasks of an issue, newest first.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListTasks {
    issue_id: Id<IssueId>,
    /// open, in_progress, waiting_for_answer, done or canceled; or a stage: ready, blocked (by
    /// other tasks), reserved, working, submitted, in_review.
    status: Option<Word<TasksIn>>,
    claimed_by: Option<Name>,
    submitter: Option<Name>,
    /// created_at, updated_at, subject or points.
    sort_by: Option<Word<TaskOrder>>,
    /// desc or asc.
    sort_order: Option<Word<Ascending>>,
    subject_contains: Option<String>,
    /// 1–200. Default 50.
    limit: Option<u32>,
    offset: Option<u32>,
}

impl SwarmTool for ListTasks {
    const INFO: ToolInfo = ToolInfo::read("listIssueTasks", &[LEAD_CORE, WORKER_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let TasksIn { status, stage } = self.status.map(|it| it.0).unwrap_or_default();
        let offset = self.offset.unwrap_or_default();
        let request = wire::ListTasksRequest {
            issue_id: self.issue_id.0.to_string(),
            status: status.into(),
            stage: stage.into(),
            subject_contains: self.subject_contains.unwrap_or_default(),
            claimed_by: self.claimed_by.unwrap_or_default().0,
            submitter: self.submitter.unwrap_or_default().0,
            sort_by: self.sort_by.map_or(0, |it| it.0.0.into()),
            ascending: Ascending::asked(self.sort_order),
            limit: self.limit.unwrap_or_default(),
            offset,
            ..wire::ListTasksRequest::default()
        };
        let found = caller.query(request).await?;
        let mut others = Sanitizer::default();
        let tasks: Vec<views::Task> =
            found.tasks.iter().map(|it| views::Task::new(it, &mut others)).collect();
        let page = Page::new(offset, tasks.len(), found.total);
        let next = next::of_list(&found.tasks, found.total, &Asker::of(caller));
        Ok(answer(Tasks { tasks, page }, found.now_ms, &others, next).into())
    }
}

#[derive(Debug, Serialize)]
struct OpenTasks {
    tasks: Vec<views::Task>,
    /// How many are ready, and how many open in all.
    ready: u64,
    total: u64,
}

/// Lists open tasks of an issue, ready tasks first.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListOpenTasks {
    issue_id: Id<IssueId>,
}

impl SwarmTool for ListOpenTasks {
    const INFO: ToolInfo = ToolInfo::read("listIssueOpenedTasks", &[LEAD_FULL, WORKER_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let issue_id = self.issue_id.0.to_string();
        // The ready ones as next steps are chosen, then those that wait or are kept for a worker.
        let open = wire::ListTasksRequest {
            issue_id,
            status: wire::TaskStatus::Open.into(),
            limit: SWARM_PAGE_MAX,
            ..wire::ListTasksRequest::default()
        };
        let ready = wire::ListTasksRequest {
            stage: wire::TaskStage::Ready.into(),
            sort_by: wire::SortBy::Points.into(),
            ..open.clone()
        };
        let ready = caller.query(ready).await?;
        let open = caller.query(open).await?;
        let mut found = ready.tasks;
        found.sort_by_cached_key(|it| (std::cmp::Reverse(it.points), it.task_id.clone()));
        let others = open.tasks.into_iter().filter(|it| it.stage() != wire::TaskStage::Ready);
        found.extend(others);
        found.truncate(SWARM_PAGE_MAX as usize);
        let mut others = Sanitizer::default();
        let tasks: Vec<views::Task> =
            found.iter().map(|it| views::Task::new(it, &mut others)).collect();
        let is_cut = (tasks.len() as u64) < open.total;
        let next = is_cut.then(|| "For the others, call listIssueTasks with an offset.".to_owned());
        let open_tasks = OpenTasks { tasks, ready: ready.total, total: open.total };
        Ok(answer(open_tasks, open.now_ms, &others, next.into_iter().collect()).into())
    }
}
