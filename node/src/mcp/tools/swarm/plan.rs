//! The tasks of an issue: adding them.

use rmcp::model::CallToolResult;
use serde::Serialize;
use tasuki_proto::wire;

use super::{
    super::{
        arguments::Arguments,
        others::{FRAME, Others},
        result::shown,
    },
    caller::Caller,
    facts::{self, is_nothing},
    said,
};
use crate::role::Refusal;

#[derive(Debug, Serialize)]
struct Answer {
    #[serde(flatten)]
    task: facts::Task,
    server_now_ms: u64,
    note: &'static str,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
}

pub(super) async fn create_task(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::CreateTasksRequest {
        issue_id: said::issue(arguments)?.to_string(),
        tasks: vec![new_task(arguments)?],
        ..wire::CreateTasksRequest::default()
    };
    let answer = caller.tell(request).await?;
    let mut others = Others::default();
    let task = answer.tasks.first().cloned().unwrap_or_default();
    let task = facts::Task::new(&task, &mut others);
    let (now, stripped) = (answer.now_ms, others.stripped);
    Ok(shown(&Answer { task, server_now_ms: now, note: FRAME, stripped }))
}

fn new_task(it: Arguments<'_>) -> Result<wire::NewTask, Refusal> {
    let spec = it.required_object("spec", "say what is to be done, and how to see that it is")?;
    Ok(wire::NewTask {
        subject: it.words("subject", "say what it is about")?,
        difficulty: said::difficulty(it)?.into(),
        points: said::count(it, "points")?,
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
    let required = |field| it.words(field, "it is required; `none` says that there is none");
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
