//! `tasuki swarm tasks`.

use tasuki_proto::{
    id::RoleId,
    wire::{self, TaskStage, TaskStatus},
};

use super::{
    Failure, Output, json,
    names::IssueName,
    pages::{self, Page, Wanted},
    rows,
    who::{Acting, Looker, client},
    words::{task_stages, task_statuses},
};
use crate::config::Config;

/// Show the tasks of an issue, in the order they were made.
///
/// With --json each task is a line of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
ready: can be claimed. waiting: others have to be done first. reserved: kept for one worker.
asking: a question of its worker is open. submitted: the lead was not told yet; in review: it was.
LEFT is how long the claim or the reservation goes on unless it is renewed.")]
pub struct Args {
    /// Which issue
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    /// Only tasks in this state
    #[arg(long, value_name = "STATUS", value_parser = task_statuses())]
    status: Option<TaskStatus>,
    /// Only tasks that are so far
    #[arg(long, value_name = "STAGE", value_parser = task_stages(), conflicts_with = "status")]
    stage: Option<TaskStage>,
    /// Only tasks that this role has
    #[arg(long, value_name = "ROLE")]
    claimed_by: Option<RoleId>,
    /// Only tasks whose newest submission is of this role
    #[arg(long, value_name = "ROLE")]
    submitter: Option<RoleId>,
    /// Only tasks whose subject has this in it
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    pub(super) who: Looker,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.looking(config);
    let wanted = wire::ListTasksRequest {
        issue_id: args.issue.find(&acting).await?,
        status: args.status.unwrap_or_default().into(),
        stage: args.stage.unwrap_or_default().into(),
        subject_contains: args.contains.clone().unwrap_or_default(),
        claimed_by: args.claimed_by.as_ref().map(ToString::to_string).unwrap_or_default(),
        submitter: args.submitter.as_ref().map(ToString::to_string).unwrap_or_default(),
        ..Default::default()
    };
    let ask = async |limit, offset| page(&acting, &wanted, limit, offset).await;
    let mut is_first = true;
    let shown = pages::all(
        args.wanted,
        ask,
        |it: &wire::Task| &it.task_id,
        |it, now_ms| {
            if std::mem::take(&mut is_first) {
                output.guide(rows::task_head)?;
            }
            output.answer(|| json::task(it), || rows::task(it, now_ms))
        },
    )
    .await?;
    let is_all = args.status.is_none()
        && args.stage.is_none()
        && args.contains.is_none()
        && args.claimed_by.is_none()
        && args.submitter.is_none();
    shown.tell(output, "tasks", || match is_all {
        true => "The issue has no task yet; `tasuki swarm plan` makes some.\n".to_owned(),
        false => "No task of the issue is so.\n".to_owned(),
    })
}

/// Some tasks of an issue, in the order they were made, which pages keep.
pub(super) async fn page(
    acting: &Acting,
    wanted: &wire::ListTasksRequest,
    limit: u32,
    offset: u32,
) -> Result<Page<wire::Task>, Failure> {
    let request = wire::ListTasksRequest {
        caller: acting.broker.caller(),
        role: acting.role.clone(),
        ascending: true,
        limit,
        offset,
        ..wanted.clone()
    };
    let page = acting
        .broker
        .ask(async |channel| client(channel).list_tasks(request.clone()).await)
        .await?;
    Ok(Page { things: page.tasks, total: page.total, now_ms: page.now_ms })
}
