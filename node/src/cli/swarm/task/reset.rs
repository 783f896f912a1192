//! `tasuki task reset` and `tasuki task cancel`.

use serde_json::json;
use tasuki_proto::wire;

use crate::{
    cli::{
        loops::text_args::{HELP, TextArgs},
        role_args::RoleArgs,
        swarm::{Failure, Output, names::TaskName},
        text::line,
    },
    config::Config,
};

/// Which task, and why.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Task to reset or cancel
    #[arg(value_name = "ISSUE/TASK")]
    task: TaskName,
    /// Why; kept in the history
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    role: RoleArgs,
}

pub(super) async fn reset(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let ids = args.task.find(&acting).await?;
    let request = wire::ResetTaskRequest {
        role: acting.role.clone(),
        issue_id: ids.issue,
        task_id: ids.task,
        reason: TextArgs::default().read("--reason", &args.reason)?,
        ..Default::default()
    };
    let done = acting.broker.call(&request).await?;
    tell(&done, "open", output)
}

pub(super) async fn cancel(
    args: Args,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let ids = args.task.find(&acting).await?;
    let request = wire::CancelTaskRequest {
        role: acting.role.clone(),
        issue_id: ids.issue,
        task_id: ids.task,
        reason: TextArgs::default().read("--reason", &args.reason)?,
        ..Default::default()
    };
    let done = acting.broker.call(&request).await?;
    tell(&done, "canceled", output)
}

fn tell(done: &wire::TaskResponse, state: &str, output: &mut Output) -> Result<(), Failure> {
    let of = done.task.clone().unwrap_or_default();
    output.answer(
        || json!(done),
        || {
            let (task, issue) = (line(&of.task_id), line(&of.issue_id));
            let already = if done.repeated { " already; nothing changed" } else { "" };
            format!("{task} of {issue} is {state}{already}.\n")
        },
    )
}
