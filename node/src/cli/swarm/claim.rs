//! `tasuki swarm claim`.

use serde_json::json;
use tasuki_proto::{
    reason::Reason,
    wire::{self, TaskStage},
};

use super::{
    Failure, Output, again,
    at::At,
    json as as_json,
    names::{IssueName, TaskIds, What},
    pages::PAGE,
    tasks,
    who::{Acting, Who, client},
    words::has_left,
};
use crate::{
    cli::{
        Exit,
        text::{line, time},
    },
    config::Config,
};

/// Take charge of a task, or of a delivery.
///
/// A role that claims its first task becomes a worker by that. A claim is a lease: submit, ask or
/// `tasuki swarm renew` before it is over. Claimed again by the same role it is the same claim.
/// With --next the role's reserved task is claimed, else the first that is ready; exits with 7 when
/// there is none.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("which").args(["what", "next"]).required(true)))]
pub struct Args {
    /// Which one
    #[arg(value_name = "ISSUE/TASK|DELIVERY")]
    what: Option<What>,
    /// The next task of this issue
    #[arg(long, value_name = "ISSUE")]
    next: Option<IssueName>,
    /// The token of the next step that leads to the task
    #[arg(long, value_name = "TOKEN", conflicts_with = "next")]
    next_step: Option<String>,
    #[command(flatten)]
    pub(super) who: Who,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.acting(config).await?;
    if let Some(issue) = &args.next {
        let issue = issue.find(&acting).await?;
        return next(&acting, issue, output).await;
    }
    match &args.what {
        Some(What::Task(task)) => {
            let ids = task.find(&acting).await?;
            let token = args.next_step.unwrap_or_default();
            told(&claim(&acting, &ids, &token).await?, output)
        }
        Some(What::Delivery(id)) => delivery(&acting, &id.to_string(), output).await,
        Some(What::Issue(_)) | None => Err(Failure::usage(
            "An issue has no claim; its tasks have: give ISSUE/TASK, or --next ISSUE. Nothing was \
             claimed.",
        )),
        Some(What::Lock(id)) => Err(Failure::usage(format!(
            "{id} is a lock, and locks are made with `tasuki swarm lock`. Nothing was claimed."
        ))),
    }
}

async fn claim(
    acting: &Acting,
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
    acting: &Acting,
    ids: &TaskIds,
    next_step: &str,
) -> Result<wire::TaskResponse, Failure> {
    let request = wire::ClaimTaskRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        issue_id: ids.issue.clone(),
        task_id: ids.task.clone(),
        next_step_token: next_step.to_owned(),
    };
    acting
        .broker
        .tell(async |channel, key| {
            let request = wire::ClaimTaskRequest { key: Some(key), ..request.clone() };
            client(channel).claim_task(request).await
        })
        .await
}

/// Makes the role a worker; again it is the same.
async fn register(acting: &Acting) -> Result<(), Failure> {
    let request = wire::RegisterWorkerRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
    };
    acting
        .broker
        .tell(async |channel, key| {
            let request = wire::RegisterWorkerRequest { key: Some(key), ..request.clone() };
            client(channel).register_worker(request).await
        })
        .await
        .map(drop)
}

/// Claims the first task that this role may: what is reserved for it, else what is ready.
async fn next(acting: &Acting, issue: String, output: &mut Output) -> Result<(), Failure> {
    for stage in [TaskStage::Reserved, TaskStage::Ready] {
        let wanted = wire::ListTasksRequest {
            issue_id: issue.clone(),
            stage: stage.into(),
            ..Default::default()
        };
        let page = tasks::page(acting, &wanted, PAGE, 0).await?;
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
                claimed => return told(&claimed?, output),
            }
        }
    }
    output.answer(
        || json!({"task": null}),
        || format!("No task of {} can be claimed now.\n", line(&issue)),
    )?;
    Err(Failure::told(Exit::Nothing))
}

fn told(done: &wire::TaskResponse, output: &mut Output) -> Result<(), Failure> {
    let of = done.task.clone().unwrap_or_default();
    output.answer(
        || {
            let value = json!({
                "task": as_json::task(&of),
                "repeated": done.repeated,
                "sequence": done.sequence,
            });
            as_json::at(value, done.now_ms)
        },
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

async fn delivery(acting: &Acting, id: &str, output: &mut Output) -> Result<(), Failure> {
    let done = At { acting, delivery: id.to_owned() }.claim().await?;
    let of = done.delivery.unwrap_or_default();
    output.answer(
        || {
            let value = as_json::delivery_done(&of, done.repeated, done.sequence);
            as_json::at(value, done.now_ms)
        },
        || {
            let (id, who) = (line(&of.delivery_id), line(&of.claimed_by));
            let (until, token) = (time(of.lease_expires_ms), of.claim_token);
            let left = has_left(of.lease_expires_ms, done.now_ms);
            let again = again(done.repeated);
            format!("{who} has {id} until {until} ({left}). Its token is {token}.{again}\n")
        },
    )
}
