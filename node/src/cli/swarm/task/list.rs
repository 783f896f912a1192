//! `tasuki task list`.

use tasuki_proto::{
    id::RoleId,
    wire::{self, TaskStage, TaskStatus},
};

use crate::{
    cli::{
        role_args::{OptionalRoleArgs, RoleClient},
        swarm::{
            Failure, Output,
            labels::{task_stages, task_statuses},
            names::IssueName,
            pages::{self, Page, Wanted},
        },
    },
    config::Config,
};

/// List the tasks of an issue, oldest first.
///
/// With --json each task is one line.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
ready: can be claimed. blocked: other tasks have to be done first. reserved: kept for one worker.
waiting for an answer: its worker asked. submitted: the lead was not notified yet.
in review: the lead was notified.
LEFT is the time until the claim or the reservation expires unless it is renewed.")]
pub struct Args {
    /// Issue whose tasks to list
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    /// Only tasks with this status
    #[arg(long, value_name = "STATUS", value_parser = task_statuses())]
    status: Option<TaskStatus>,
    /// Only tasks in this stage
    #[arg(long, value_name = "STAGE", value_parser = task_stages(), conflicts_with = "status")]
    stage: Option<TaskStage>,
    /// Only tasks claimed by this role
    #[arg(long, value_name = "ROLE")]
    claimed_by: Option<RoleId>,
    /// Only tasks whose newest submission is from this role
    #[arg(long, value_name = "ROLE")]
    submitter: Option<RoleId>,
    /// Only tasks whose subject contains this text
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    role: OptionalRoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config);
    let wanted = wire::ListTasksRequest {
        issue_id: args.issue.find(&acting).await?,
        status: args.status.unwrap_or_default().into(),
        stage: args.stage.unwrap_or_default().into(),
        subject_contains: args.contains.clone().unwrap_or_default(),
        claimed_by: args.claimed_by.as_ref().map(ToString::to_string).unwrap_or_default(),
        submitter: args.submitter.as_ref().map(ToString::to_string).unwrap_or_default(),
        ..Default::default()
    };
    let ask = async |limit, offset| list_tasks(&acting, &wanted, limit, offset).await;
    let is_all = args.status.is_none()
        && args.stage.is_none()
        && args.contains.is_none()
        && args.claimed_by.is_none()
        && args.submitter.is_none();
    let nothing = match is_all {
        true => "No tasks. Create them with `tasuki task create` or `tasuki task plan`.",
        false => "No matching tasks.",
    };
    pages::print(args.wanted, ask, nothing, output).await
}

/// One page of an issue's tasks, oldest first: later pages do not shift.
pub(in crate::cli::swarm) async fn list_tasks(
    acting: &RoleClient,
    wanted: &wire::ListTasksRequest,
    limit: u32,
    offset: u32,
) -> Result<Page<wire::Task>, Failure> {
    let request = wire::ListTasksRequest {
        role: acting.role.clone(),
        ascending: true,
        limit,
        offset,
        ..wanted.clone()
    };
    let page = acting.broker.call(&request).await?;
    Ok(Page { things: page.tasks, total: page.total, now_ms: page.now_ms })
}
