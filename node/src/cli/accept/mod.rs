//! `tasuki accept`: a delivery's commit and commands, run again here, and what came of it attached.
//!
//! Everything that can be refused is refused before the delivery is claimed and before anything
//! runs. The verdict is the acceptor's: given with the run or after it, never by it.

mod plan;
mod render;
mod rerun;
mod verdict;

use std::path::PathBuf;

use tasuki_proto::{reason::Reason, swarm::DeliveryId, wire};

use super::{
    Exit, Failure, Output,
    role_args::{RoleArgs, RoleClient},
    swarm::{
        delivery_client::{self, DeliveryClient, Overriding},
        names::TaskName,
        task::get_task,
    },
};
use crate::config::Config;

/// Run a delivery's commands again and attach the results.
///
/// They run on a clean checkout of its commit, without a shell, in a sandbox, and only if `[accept]`
/// of the configuration allows all of them. The delivery is claimed for that, but not approved:
/// --approve or --reject gives the verdict, with the run or after it. A delivery that names nothing
/// to run, or was checked by hand, is reviewed with `tasuki delivery review`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("verdict").args(["approve", "reject"])))]
#[command(group(clap::ArgGroup::new("what").args(["delivery", "task"]).required(true)))]
pub struct Args {
    /// Delivery to accept
    #[arg(value_name = "DELIVERY")]
    delivery: Option<DeliveryId>,
    /// Try the newest submission of this task instead; nothing is claimed or attached
    #[arg(long, value_name = "ISSUE/TASK", conflicts_with_all = ["verdict", "no_run", "new_role"])]
    task: Option<TaskName>,
    #[command(flatten)]
    role: RoleArgs,
    /// Repository that has the commit [default: the current directory]
    #[arg(long, value_name = "DIR")]
    repository: Option<PathBuf>,
    /// Fetch from this remote first, with your own Git settings
    #[arg(long, value_name = "REMOTE")]
    fetch: Option<String>,
    /// Run nothing; review on the evidence that is attached
    #[arg(long, requires = "verdict")]
    no_run: bool,
    /// Approve the delivery; refused if evidence failed
    #[arg(long, requires = "feedback")]
    approve: bool,
    /// Reject it
    #[arg(long, requires = "feedback")]
    reject: bool,
    /// Why; kept in the history
    #[arg(long, value_name = "TEXT", requires = "verdict")]
    feedback: Option<String>,
    /// How the steps that were not run again were checked; they then count as passed
    #[arg(long, value_name = "TEXT", requires = "approve")]
    by_hand: Option<String>,
    #[command(flatten)]
    overriding: Overriding,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    if let Some(task) = &args.task {
        let acting = args.role.optional_client(config);
        return try_submission(&args, task, &acting, config, output).await;
    }
    let delivery = args.delivery.ok_or_else(|| Failure::usage("Name a delivery."))?;
    let acting = args.role.client(config).await?;
    let at = DeliveryClient { acting: &acting, delivery: delivery.to_string() };
    let seen = at.get().await?.delivery.unwrap_or_default();
    if args.no_run {
        let judged = verdict::give(&at, &args, &seen).await?;
        return output.answer(
            || render::judged_json(&judged),
            || format!("{}\n", delivery_client::judged(&judged)),
        );
    }
    let rerun = seen.test_evidence.unwrap_or_default().rerun.unwrap_or_default();
    let plan = plan::make(&args, &rerun, config, output).await?;
    let claimed = Claimed::new(at.claim().await?);
    let stop = rerun::stopping();
    let ran = rerun::claimed(&at, &claimed, &plan, &stop, output).await?;
    let evidence = ran.evidence(&plan.commit);
    let attached = match at.attach(claimed.delivery.claim_token, evidence).await {
        Ok(attached) => attached.delivery.unwrap_or_default(),
        Err(why) => {
            // What was seen is not lost with it.
            render::answer(output, &plan, &ran, render::Of::Nothing)?;
            return Err(why);
        }
    };
    let judged = match args.approve || args.reject {
        true => Some(verdict::give(&at, &args, &attached).await),
        false => None,
    };
    let verdict = judged.as_ref().and_then(|it| it.as_ref().ok());
    render::answer(output, &plan, &ran, render::Of::Delivery { of: &attached, verdict })?;
    match judged {
        Some(Err(why)) => Err(why),
        Some(Ok(_)) | None if ran.is_passed() => Ok(()),
        Some(Ok(_)) | None => Err(Failure::told(Exit::Failed)),
    }
}

/// The same of a submission, of which nothing is kept.
async fn try_submission(
    args: &Args,
    task: &TaskName,
    acting: &RoleClient,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let ids = task.find(acting).await?;
    let submission = get_task(acting, &ids).await?.task.unwrap_or_default().submission;
    let submission = submission.ok_or_else(|| {
        let text =
            format!("Nothing was submitted for {} of {}, so nothing was run.", ids.task, ids.issue);
        Failure::reason(Reason::NoOpenSubmission, text)
    })?;
    let rerun = submission.words.unwrap_or_default().rerun.unwrap_or_default();
    let plan = plan::make(args, &rerun, config, output).await?;
    let stop = rerun::stopping();
    let ran = rerun::all(&plan, &stop, output).await?;
    render::answer(output, &plan, &ran, render::Of::Submission(&submission.submission_id))?;
    if ran.is_passed() { Ok(()) } else { Err(Failure::told(Exit::Failed)) }
}

/// A claim on it, and how long it is good.
struct Claimed {
    delivery: wire::Delivery,
    lease_ms: u64,
}

impl Claimed {
    fn new(claimed: wire::DeliveryResponse) -> Self {
        let delivery = claimed.delivery.unwrap_or_default();
        let lease_ms = delivery.lease_expires_ms.saturating_sub(claimed.now_ms);
        Self { delivery, lease_ms }
    }
}
