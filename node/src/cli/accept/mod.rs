//! `tasuki accept`: a delivery's commit and commands, run again here, and what came of it attached.
//!
//! Everything that can be refused is refused before the delivery is claimed and before anything
//! runs. The verdict is the acceptor's: given with the run or after it, never by it.

mod plan;
mod rerun;
mod verdict;
mod words;

use std::path::PathBuf;

use tasuki_broker::dial::Channel;
use tasuki_proto::{
    id::{PersonId, RoleId},
    reason::Reason,
    swarm::{DeliveryId, IssueId, TaskNumber},
    wire::{self, swarm_client::SwarmClient},
};

use super::{
    Exit, Failure, Output, Target,
    acting::{self, Unsaid},
    broker::Broker,
};
use crate::config::Config;

/// What is said where nothing says as which role to act.
const WHO: Unsaid =
    Unsaid { asked: "who accepts", shown_by: "`tasuki status` shows which roles there are" };

/// Run a delivery's commands again, on a clean checkout of its commit, and attach what came of it.
///
/// What may run is the operator's to say, in `[accept]` of the configuration: it runs without a
/// shell, in a sandbox, and only if all commands are allowed. The delivery is claimed for that. It
/// is not approved by it; --approve or --reject says the verdict, with the run or after it.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("verdict").args(["approve", "reject"])))]
#[command(group(clap::ArgGroup::new("what").args(["delivery", "task"]).required(true)))]
pub struct Args {
    /// The delivery
    #[arg(value_name = "DELIVERY")]
    delivery: Option<DeliveryId>,
    /// Try what was last submitted for a task instead; nothing is claimed or attached
    #[arg(long, value_name = "ISSUE/TASK", value_parser = task, conflicts_with_all = ["verdict", "no_run"])]
    task: Option<(IssueId, TaskNumber)>,
    /// Who accepts [default: the only role in the settings, else `current_agent` of `.filebox`,
    /// else the only role of the running node]
    #[arg(long, visible_alias = "as", value_name = "ROLE")]
    role: Option<RoleId>,
    /// Where the commit is
    #[arg(long, value_name = "DIR", default_value = ".")]
    repository: PathBuf,
    /// Fetch from this remote of the repository first, under its settings
    #[arg(long, value_name = "REMOTE")]
    fetch: Option<String>,
    /// Only give the verdict, on the evidence that is there
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
    /// What of the delivery's steps was checked otherwise, and how: those that were not run again
    /// count as passed then
    #[arg(long, value_name = "TEXT", requires = "approve")]
    by_hand: Option<String>,
    /// The person who approves in spite of failed evidence; takes the right to steer
    #[arg(long, value_name = "NAME", requires_all = ["approve", "reason"])]
    person: Option<PersonId>,
    /// Why that person does
    #[arg(long, value_name = "TEXT", requires = "person")]
    reason: Option<String>,
    #[command(flatten)]
    pub(super) target: Target,
}

fn task(text: &str) -> Result<(IssueId, TaskNumber), String> {
    let Some((issue, task)) = text.split_once('/') else {
        return Err("it takes an issue and a task, such as issue_…/task-1".to_owned());
    };
    let issue = issue.parse().map_err(|why| format!("{why}"))?;
    Ok((issue, task.parse().map_err(|why| format!("{why}"))?))
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    if let Some((issue, task)) = args.task {
        return try_submission(&args, issue, task, &broker, config, output).await;
    }
    let delivery = args.delivery.ok_or_else(|| Failure::usage("Name a delivery."))?;
    let role = acting::role(args.role.as_ref(), config, WHO)?;
    let at = At { broker, role, delivery };
    let seen = at.get().await?;
    if args.no_run {
        let judged = verdict::give(&at, &args, &seen).await?;
        return output.answer(|| words::judged_json(&judged), || words::judged(&judged));
    }
    let rerun = seen.test_evidence.unwrap_or_default().rerun.unwrap_or_default();
    let plan = plan::make(&args, &rerun, config, output).await?;
    let claimed = at.claim().await?;
    let stop = rerun::stopping();
    let ran = rerun::claimed(&at, &claimed, &plan, &stop, output).await?;
    let attached = match at.attach(claimed.delivery.claim_token, &plan, &ran).await {
        Ok(attached) => attached,
        Err(why) => {
            // What was seen is not lost with it.
            words::answer(output, &plan, &ran, words::Of::Nothing)?;
            return Err(why);
        }
    };
    let judged = match args.approve || args.reject {
        true => Some(verdict::give(&at, &args, &attached).await),
        false => None,
    };
    let verdict = judged.as_ref().and_then(|it| it.as_ref().ok());
    words::answer(output, &plan, &ran, words::Of::Delivery { of: &attached, verdict })?;
    match judged {
        Some(Err(why)) => Err(why),
        Some(Ok(_)) | None if ran.is_passed() => Ok(()),
        Some(Ok(_)) | None => Err(Failure::told(Exit::Failed)),
    }
}

/// The same of a submission, of which nothing is kept.
async fn try_submission(
    args: &Args,
    issue: IssueId,
    task: TaskNumber,
    broker: &Broker,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let request = wire::GetTaskRequest {
        caller: broker.caller(),
        role: args.role.as_ref().map(ToString::to_string).unwrap_or_default(),
        issue_id: issue.to_string(),
        task_id: task.to_string(),
    };
    let found = broker.ask(async |channel| client(channel).get_task(request.clone()).await).await?;
    let submission = found.task.unwrap_or_default().submission;
    let submission = submission.ok_or_else(|| {
        let text = format!("Nothing was submitted for {task} of {issue}, so nothing was run.");
        Failure::reason(Reason::NoOpenSubmission, text)
    })?;
    let rerun = submission.words.unwrap_or_default().rerun.unwrap_or_default();
    let plan = plan::make(args, &rerun, config, output).await?;
    let stop = rerun::stopping();
    let ran = rerun::all(&plan, &stop, output).await?;
    words::answer(output, &plan, &ran, words::Of::Submission(&submission.submission_id))?;
    if ran.is_passed() { Ok(()) } else { Err(Failure::told(Exit::Failed)) }
}

/// A delivery as one role has to do with it.
struct At {
    broker: Broker,
    role: RoleId,
    delivery: DeliveryId,
}

/// A claim on it, and how long it is good.
struct Claimed {
    delivery: wire::Delivery,
    lease_ms: u64,
}

impl At {
    async fn get(&self) -> Result<wire::Delivery, Failure> {
        let request = wire::GetDeliveryRequest {
            caller: self.broker.caller(),
            role: self.role.to_string(),
            delivery_id: self.delivery.to_string(),
        };
        let ask = async |channel| client(channel).get_delivery(request.clone()).await;
        Ok(self.broker.ask(ask).await?.delivery.unwrap_or_default())
    }

    /// Claims it, or goes on with the claim that the role has.
    async fn claim(&self) -> Result<Claimed, Failure> {
        let request = wire::ClaimDeliveryRequest {
            caller: self.broker.caller(),
            key: None,
            role: self.role.to_string(),
            delivery_id: self.delivery.to_string(),
            for_ms: 0,
        };
        let claimed = self
            .broker
            .tell(async |channel, key| {
                let request = wire::ClaimDeliveryRequest { key: Some(key), ..request.clone() };
                client(channel).claim_delivery(request).await
            })
            .await?;
        let delivery = claimed.delivery.unwrap_or_default();
        let lease_ms = delivery.lease_expires_ms.saturating_sub(claimed.now_ms);
        Ok(Claimed { delivery, lease_ms })
    }

    async fn renew(&self, claim_token: u64) -> Result<(), Failure> {
        let request = wire::RenewDeliveryRequest {
            caller: self.broker.caller(),
            key: None,
            role: self.role.to_string(),
            delivery_id: self.delivery.to_string(),
            claim_token,
            for_ms: 0,
        };
        let tell = async |channel, key| {
            let request = wire::RenewDeliveryRequest { key: Some(key), ..request.clone() };
            client(channel).renew_delivery(request).await
        };
        self.broker.tell(tell).await.map(drop)
    }

    async fn attach(
        &self,
        claim_token: u64,
        plan: &plan::Plan,
        ran: &rerun::Ran,
    ) -> Result<wire::Delivery, Failure> {
        let request = wire::AttachEvidenceRequest {
            caller: self.broker.caller(),
            key: None,
            role: self.role.to_string(),
            delivery_id: self.delivery.to_string(),
            claim_token,
            evidence: Some(ran.evidence(&plan.commit)),
        };
        let tell = async |channel, key| {
            let request = wire::AttachEvidenceRequest { key: Some(key), ..request.clone() };
            client(channel).attach_evidence(request).await
        };
        Ok(self.broker.tell(tell).await?.delivery.unwrap_or_default())
    }
}

fn client(channel: Channel) -> SwarmClient<Channel> {
    SwarmClient::new(channel)
}
