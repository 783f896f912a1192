//! `tasuki swarm show`.

use tasuki_proto::wire::{self, TaskStage};

use super::{
    Failure, Output,
    at::At,
    json,
    names::{TaskIds, What},
    who::{Acting, Looker, client},
    whole,
    words::task_stage,
};
use crate::config::Config;

/// Show an issue, a task or a delivery, with all that was said.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which one
    #[arg(value_name = "ISSUE[/TASK]|DELIVERY")]
    what: What,
    #[command(flatten)]
    pub(super) who: Looker,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.looking(config);
    match &args.what {
        What::Issue(issue) => {
            let told = issue_of(&acting, &issue.find(&acting).await?).await?;
            let of = told.issue.unwrap_or_default();
            output.answer(
                || json::at(json::issue(&of), told.now_ms),
                || whole::issue(&of, told.now_ms),
            )
        }
        What::Task(task) => {
            let ids = task.find(&acting).await?;
            let told = task_of(&acting, &ids).await?;
            let of = told.task.unwrap_or_default();
            let blockers = blockers(&acting, &ids.issue, &of).await?;
            let stages = blockers.iter().map(
                |(task, stage)| serde_json::json!({"task_id": task, "stage": task_stage(*stage)}),
            );
            let stages: Vec<_> = stages.collect();
            output.answer(
                || {
                    let mut value = json::at(json::task(&of), told.now_ms);
                    value["blockers"] = stages.into();
                    value
                },
                || whole::task(&of, &blockers, told.now_ms),
            )
        }
        What::Delivery(id) => {
            let told = At { acting: &acting, delivery: id.to_string() }.get().await?;
            let of = told.delivery.unwrap_or_default();
            output.answer(
                || json::at(json::delivery(&of), told.now_ms),
                || whole::delivery(&of, told.now_ms),
            )
        }
        What::Lock(id) => Err(Failure::usage(format!(
            "{id} is a lock; `tasuki swarm locks` shows them. Nothing was asked."
        ))),
    }
}

pub(super) async fn issue_of(acting: &Acting, issue: &str) -> Result<wire::IssueResponse, Failure> {
    let request =
        wire::GetIssueRequest { caller: acting.broker.caller(), issue_id: issue.to_owned() };
    acting.broker.ask(async |channel| client(channel).get_issue(request.clone()).await).await
}

pub(in crate::cli) async fn task_of(
    acting: &Acting,
    ids: &TaskIds,
) -> Result<wire::TaskResponse, Failure> {
    let request = wire::GetTaskRequest {
        caller: acting.broker.caller(),
        role: acting.role.clone(),
        issue_id: ids.issue.clone(),
        task_id: ids.task.clone(),
    };
    acting.broker.ask(async |channel| client(channel).get_task(request.clone()).await).await
}

/// The tasks that have to be done before, each with how far it is. They are few: what may block
/// one task is bounded.
async fn blockers(
    acting: &Acting,
    issue: &str,
    of: &wire::Task,
) -> Result<Vec<(String, TaskStage)>, Failure> {
    let mut found = Vec::new();
    for task in &of.blocked_by {
        let ids = TaskIds { issue: issue.to_owned(), task: task.clone() };
        let stage = task_of(acting, &ids).await?.task.unwrap_or_default().stage();
        found.push((task.clone(), stage));
    }
    Ok(found)
}
