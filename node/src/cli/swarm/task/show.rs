//! `tasuki task show`.

use serde_json::json;
use tasuki_proto::wire::{self, TaskStage};

use super::get_task;
use crate::{
    cli::{
        role_args::{OptionalRoleArgs, RoleClient},
        swarm::{
            Failure, Output, details,
            labels::task_stage,
            names::{TaskIds, TaskName},
            with_now,
        },
    },
    config::Config,
};

/// Show a task, with its submission and its messages.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Task to show
    #[arg(value_name = "ISSUE/TASK")]
    task: TaskName,
    #[command(flatten)]
    role: OptionalRoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config);
    let ids = args.task.find(&acting).await?;
    let told = get_task(&acting, &ids).await?;
    let task = told.task.unwrap_or_default();
    let blockers = blockers(&acting, &ids.issue, &task).await?;
    let stages =
        blockers.iter().map(|(task, stage)| json!({"task_id": task, "stage": task_stage(*stage)}));
    let stages: Vec<_> = stages.collect();
    output.answer(
        || {
            let mut value = with_now(json!(task), told.now_ms);
            value["blockers"] = stages.into();
            value
        },
        || details::task(&task, &blockers, told.now_ms),
    )
}

/// The tasks that block `task`, each with its stage. They are few: what may block one task is
/// bounded.
async fn blockers(
    acting: &RoleClient,
    issue: &str,
    task: &wire::Task,
) -> Result<Vec<(String, TaskStage)>, Failure> {
    let mut found = Vec::new();
    for blocker in &task.blocked_by {
        let ids = TaskIds { issue: issue.to_owned(), task: blocker.clone() };
        let stage = get_task(acting, &ids).await?.task.unwrap_or_default().stage();
        found.push((blocker.clone(), stage));
    }
    Ok(found)
}
