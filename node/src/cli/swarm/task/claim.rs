//! `tasuki task claim`.

use serde_json::json;
use tasuki_proto::{
    reason::Reason,
    wire::{self, TaskStage},
};

use super::list::list_tasks;
use crate::{
    cli::{
        Exit,
        role_args::{RoleArgs, RoleClient},
        swarm::{
            Failure, Output, again,
            labels::has_left,
            names::{IssueName, TaskIds, TaskName},
            pages::PAGE,
        },
        text::{line, time},
    },
    config::Config,
};

/// Claim a task.
///
/// A role becomes a worker with its first claim. A claim is a lease: submit, ask or `tasuki task
/// renew` before it expires. Claiming again as the same role keeps the same claim. --next claims
/// the task reserved for the role, else the first that is ready; exits with 7 when there is none.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("which").args(["task", "next"]).required(true)))]
pub struct Args {
    /// Task to claim
    #[arg(value_name = "ISSUE/TASK")]
    task: Option<TaskName>,
    /// Claim the next task of this issue
    #[arg(long, value_name = "ISSUE")]
    next: Option<IssueName>,
    /// Token of the next step that reserves the task
    #[arg(long, value_name = "TOKEN", conflicts_with = "next")]
    next_step: Option<String>,
    #[command(flatten)]
    role: RoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    match (&args.task, &args.next) {
        (Some(task), _) => {
            let ids = task.find(&acting).await?;
            let token = args.next_step.unwrap_or_default();
            report_claim(&claim(&acting, &ids, &token).await?, output)
        }
        (None, Some(issue)) => {
            let issue = issue.find(&acting).await?;
            claim_next(&acting, issue, output).await
        }
        (None, None) => {
            Err(Failure::usage("Give ISSUE/TASK or --next ISSUE. Nothing was claimed."))
        }
    }
}

async fn claim(
    acting: &RoleClient,
    ids: &TaskIds,
    next_step: &str,
) -> Result<wire::TaskResponse, Failure> {
    match claim_once(acting, ids, next_step).await {
        Err(why) if why.as_reason() == Some(Reason::UnknownWorker) => {
            register(acting).await?;
            claim_once(acting, ids, next_step).await
        }
        told => told,
    }
}

async fn claim_once(
    acting: &RoleClient,
    ids: &TaskIds,
    next_step: &str,
) -> Result<wire::TaskResponse, Failure> {
    let request = wire::ClaimTaskRequest {
        role: acting.role.clone(),
        issue_id: ids.issue.clone(),
        task_id: ids.task.clone(),
        next_step_token: next_step.to_owned(),
        ..Default::default()
    };
    acting.broker.call(&request).await
}

/// Makes the role a worker; again it is the same.
async fn register(acting: &RoleClient) -> Result<(), Failure> {
    let request = wire::RegisterWorkerRequest { role: acting.role.clone(), ..Default::default() };
    acting.broker.call(&request).await.map(drop)
}

/// Claims the first task that this role may: what is reserved for it, else what is ready.
async fn claim_next(
    acting: &RoleClient,
    issue: String,
    output: &mut Output,
) -> Result<(), Failure> {
    for stage in [TaskStage::Reserved, TaskStage::Ready] {
        let wanted = wire::ListTasksRequest {
            issue_id: issue.clone(),
            stage: stage.into(),
            ..Default::default()
        };
        let page = list_tasks(acting, &wanted, PAGE, 0).await?;
        let is_for_us =
            |it: &&wire::Task| stage == TaskStage::Ready || it.reserved_for == acting.role;
        for task in page.things.iter().filter(is_for_us) {
            let ids = TaskIds { issue: issue.clone(), task: task.task_id.clone() };
            match claim(acting, &ids, &task.reserved_token).await {
                // Another one was quicker, or it is not to be had yet.
                Err(why)
                    if matches!(
                        why.as_reason(),
                        Some(
                            Reason::TaskAlreadyClaimed | Reason::TaskReserved | Reason::TaskBlocked
                        )
                    ) => {}
                claimed => return report_claim(&claimed?, output),
            }
        }
    }
    output.answer(
        || json!({"task": null}),
        || format!("No task of {} can be claimed now.\n", line(&issue)),
    )?;
    Err(Failure::told(Exit::Nothing))
}

fn report_claim(done: &wire::TaskResponse, output: &mut Output) -> Result<(), Failure> {
    let of = done.task.clone().unwrap_or_default();
    output.answer(
        || json!(done),
        || {
            let (task, issue) = (line(&of.task_id), line(&of.issue_id));
            let (who, subject) = (line(&of.claimed_by), line(&of.subject));
            let (until, token) = (time(of.lease_expires_ms), of.claim_token);
            let left = has_left(of.lease_expires_ms, done.now_ms);
            let again = again(done.repeated);
            format!(
                "{who} has {task} of {issue} until {until} ({left}): {subject}. Its token is \
                 {token}.{again}\n"
            )
        },
    )
}
