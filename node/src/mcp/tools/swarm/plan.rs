//! The tasks of an issue: added one by one or as a graph, listed, looked at, opened again.

use rmcp::model::CallToolResult;
use serde::Serialize;
use tasuki_proto::{
    limits::{SWARM_PAGE_MAX, TASKS_PER_CALL_MAX},
    wire,
};

use super::{
    super::{
        arguments::{Arguments, invalid, missing},
        sanitizer::Sanitizer,
    },
    answer::{Made, Page, answer},
    args,
    caller::Caller,
    graph,
    next::{self, Asker},
    views,
};
use crate::role::Refusal;

pub(super) async fn create_task(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::CreateTasksRequest {
        issue_id: args::issue(arguments)?.to_string(),
        tasks: vec![new_task(arguments)?],
        ..wire::CreateTasksRequest::default()
    };
    let made = caller.tell(request).await?;
    let mut others = Sanitizer::default();
    let task = made.tasks.first().cloned().unwrap_or_default();
    let task = views::Task::new(&task, &mut others);
    let (repeated, next) = (made.repeated, again(made.repeated));
    Ok(answer(Made { what: task, repeated }, made.now_ms, &others, next))
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

pub(super) async fn plan(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    const TASKS: &str = "tasks";
    let issue_id = args::issue(arguments)?.to_string();
    let planned = arguments.objects(TASKS)?;
    if planned.is_empty() {
        return Err(missing(TASKS, "give at least one"));
    }
    if TASKS_PER_CALL_MAX < planned.len() {
        let why = format!("are {}; the limit is {TASKS_PER_CALL_MAX}", planned.len());
        return Err(invalid(TASKS, &why));
    }
    let mut tasks = Vec::new();
    for (place, it) in planned.into_iter().enumerate() {
        tasks.push(new_task(it).map_err(|why| args::of(TASKS, place, why))?);
    }
    graph::connect(&mut tasks)?;
    let request = wire::CreateTasksRequest { issue_id, tasks, ..Default::default() };
    let made = caller.tell(request).await?;
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
    Ok(answer(Made { what: Planned { tasks }, repeated }, made.now_ms, &others, next))
}

fn new_task(it: Arguments<'_>) -> Result<wire::NewTask, Refusal> {
    let spec = it.required_object("spec", "give what to do and how to check that it is done")?;
    Ok(wire::NewTask {
        subject: args::subject(it)?,
        difficulty: args::difficulty(it)?.into(),
        points: args::count(it, "points")?,
        words: Some(wire::TaskWords {
            description: it.text("description")?.unwrap_or_default(),
            context_task_ids: it.texts("context_task_ids")?,
            suggested_files: it.texts("suggested_files")?,
            labels: it.texts("labels")?,
            doc_paths: it.texts("doc_paths")?,
            spec: Some(new_spec(spec)?),
            ..wire::TaskWords::default()
        }),
        blocked_by: it.texts("blocked_by")?,
        blocked_by_new: Vec::new(),
    })
}

fn new_spec(it: Arguments<'_>) -> Result<wire::TaskSpec, Refusal> {
    let required = |field| it.words(field, "it is required; use `none` if there is none");
    Ok(wire::TaskSpec {
        name: required("name")?,
        split_from: required("split_from")?,
        split_reason: required("split_reason")?,
        impact_scope: required("impact_scope")?,
        context_task_ids: it.texts("context_task_ids")?,
        goal: required("goal")?,
        rules: required("rules")?,
        constraints: required("constraints")?,
        conventions: required("conventions")?,
        acceptance: required("acceptance")?,
    })
}

pub(super) async fn get(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::GetTaskRequest {
        issue_id: args::issue(arguments)?.to_string(),
        task_id: args::required(arguments, args::TASK)?,
        ..wire::GetTaskRequest::default()
    };
    let found = caller.ask(request).await?;
    Ok(told(caller, &found))
}

fn told(caller: &Caller<'_>, it: &wire::TaskResponse) -> CallToolResult {
    let task = it.task.clone().unwrap_or_default();
    let mut others = Sanitizer::default();
    let next = next::of_task(&task, &Asker::of(caller));
    let task = views::Task::new(&task, &mut others);
    answer(task, it.now_ms, &others, next)
}

pub(super) async fn reset(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::ResetTaskRequest {
        issue_id: args::issue(arguments)?.to_string(),
        task_id: args::required(arguments, args::TASK)?,
        reason: args::why(arguments, "reason")?,
        ..wire::ResetTaskRequest::default()
    };
    let reset = caller.tell(request).await?;
    Ok(told(caller, &reset))
}

#[derive(Debug, Serialize)]
struct Tasks {
    tasks: Vec<views::Task>,
    #[serde(flatten)]
    page: Page,
}

pub(super) async fn list(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let (status, stage) = args::task_status(arguments)?;
    let (sort_by, ascending) = args::order(arguments, args::TASK_ORDERS)?;
    let offset = args::count(arguments, "offset")?;
    let request = wire::ListTasksRequest {
        issue_id: args::issue(arguments)?.to_string(),
        status: status.into(),
        stage: stage.into(),
        subject_contains: arguments.text("subject_contains")?.unwrap_or_default(),
        claimed_by: arguments.name("claimed_by")?.unwrap_or_default(),
        submitter: arguments.name("submitter")?.unwrap_or_default(),
        sort_by: sort_by.into(),
        ascending,
        limit: args::count(arguments, "limit")?,
        offset,
        ..wire::ListTasksRequest::default()
    };
    let found = caller.ask(request).await?;
    let mut others = Sanitizer::default();
    let tasks: Vec<views::Task> =
        found.tasks.iter().map(|it| views::Task::new(it, &mut others)).collect();
    let page = Page::new(offset, tasks.len(), found.total);
    let next = next::of_list(&found.tasks, found.total, &Asker::of(caller));
    Ok(answer(Tasks { tasks, page }, found.now_ms, &others, next))
}

#[derive(Debug, Serialize)]
struct OpenTasks {
    tasks: Vec<views::Task>,
    /// How many are ready, and how many open in all.
    ready: u64,
    total: u64,
}

/// The ready ones as next steps are chosen, then those that wait or are kept for a worker.
pub(super) async fn list_open(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let issue_id = args::issue(arguments)?.to_string();
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
    let ready = caller.ask(ready).await?;
    let open = caller.ask(open).await?;
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
    Ok(answer(open_tasks, open.now_ms, &others, next.into_iter().collect()))
}
