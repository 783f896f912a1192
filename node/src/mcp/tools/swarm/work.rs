//! What a worker does: registers, waits for a task, claims it.

use rmcp::model::{CallToolResponse, CallToolResult};
use serde::Serialize;
use tasuki_proto::{reason::Reason, wire};

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
use crate::role::{Refusal, swarm::Awaited};

#[derive(Debug, Serialize)]
struct Registered {
    worker_id: String,
    joined_at: facts::Time,
    next_actions: [&'static str; 1],
}

pub(super) async fn register(caller: &Caller<'_>) -> Result<CallToolResult, Refusal> {
    let it = caller.tell(wire::RegisterWorkerRequest::default()).await?;
    Ok(shown(&Registered {
        worker_id: it.worker,
        joined_at: facts::Time(it.joined_ms),
        next_actions: ["Call waitIssues or waitIssueTasks to find work."],
    }))
}

/// The role's id as a worker is its name; the call's own `worker_id` was judged already.
pub(super) async fn claim(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::ClaimTaskRequest {
        issue_id: said::issue(arguments)?.to_string(),
        task_id: said::required(arguments, said::TASK)?,
        next_step_token: arguments.name("next_step_token")?.unwrap_or_default(),
        ..wire::ClaimTaskRequest::default()
    };
    let answer = caller.tell(request).await?;
    let task = answer.task.unwrap_or_default();
    caller.granted(claim_of(&task.issue_id, &task.task_id), task.claim_token);
    Ok(shown(&Claimed::new(&task, answer.now_ms)))
}

/// What a claim's token is kept under.
fn claim_of(issue: &str, task: &str) -> String {
    format!("{issue}/{task}")
}

#[derive(Debug, Serialize)]
struct Claimed {
    #[serde(flatten)]
    task: facts::Task,
    server_now_ms: u64,
    note: &'static str,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
    next_actions: [&'static str; 3],
}

impl Claimed {
    fn new(task: &wire::Task, now_ms: u64) -> Self {
        let mut others = Others::default();
        Self {
            task: facts::Task::new(task, &mut others),
            server_now_ms: now_ms,
            note: FRAME,
            stripped: others.stripped,
            next_actions: [
                "Lock what you are about to edit with lockFiles.",
                "Ask with askIssueTask rather than guess.",
                "When it is done and tested, submitIssueTask, then unlock.",
            ],
        }
    }
}

pub(super) async fn wait_tasks(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResponse, Refusal> {
    let status = arguments.name("status")?;
    if status.is_some_and(|it| it != "open") {
        return Err(Refusal {
            reason: Reason::InvalidArgument,
            message: "only status 'open' is supported; leave `status` out.".to_owned(),
        });
    }
    let issue = said::issue(arguments)?;
    caller.wait(Awaited::Tasks(issue), arguments).await
}
