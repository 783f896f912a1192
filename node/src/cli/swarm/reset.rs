//! `tasuki swarm reset` and `tasuki swarm cancel`.

use serde_json::json;
use tasuki_proto::wire;

use super::{
    Failure, Output, json as as_json,
    names::TaskName,
    who::{Who, client},
};
use crate::{
    cli::{
        loops::words::{HELP, Words},
        text::line,
    },
    config::Config,
};

/// Which task, and why.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Which task
    #[arg(value_name = "ISSUE/TASK")]
    task: TaskName,
    /// Why; kept in the history
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    pub(super) who: Who,
}

pub(super) async fn reset(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.acting(config).await?;
    let ids = args.task.find(&acting).await?;
    let request = wire::ResetTaskRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        issue_id: ids.issue,
        task_id: ids.task,
        reason: Words::default().read("--reason", &args.reason)?,
    };
    let done = acting
        .broker
        .tell(async |channel, key| {
            let request = wire::ResetTaskRequest { key: Some(key), ..request.clone() };
            client(channel).reset_task(request).await
        })
        .await?;
    tell(&done, "open", output)
}

pub(super) async fn cancel(
    args: Args,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let acting = args.who.acting(config).await?;
    let ids = args.task.find(&acting).await?;
    let request = wire::CancelTaskRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        issue_id: ids.issue,
        task_id: ids.task,
        reason: Words::default().read("--reason", &args.reason)?,
    };
    let done = acting
        .broker
        .tell(async |channel, key| {
            let request = wire::CancelTaskRequest { key: Some(key), ..request.clone() };
            client(channel).cancel_task(request).await
        })
        .await?;
    tell(&done, "canceled", output)
}

fn tell(done: &wire::TaskResponse, state: &str, output: &mut Output) -> Result<(), Failure> {
    let of = done.task.clone().unwrap_or_default();
    output.answer(
        || {
            json!({
                "task": as_json::task(&of),
                "repeated": done.repeated,
                "sequence": done.sequence,
            })
        },
        || {
            let (task, issue) = (line(&of.task_id), line(&of.issue_id));
            let already = if done.repeated { " already; nothing changed" } else { "" };
            format!("{task} of {issue} is {state}{already}.\n")
        },
    )
}
