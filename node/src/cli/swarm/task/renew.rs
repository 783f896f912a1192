//! `tasuki task renew`.

use serde_json::json;
use tasuki_proto::wire;

use crate::{
    cli::{
        role_args::RoleArgs,
        swarm::{
            Failure, Output,
            lease::{LeaseArgs, report_renewal},
            names::TaskName,
        },
    },
    config::Config,
};

/// Renew the claim of a task.
///
/// A claim that lasts longer already is not cut short.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Task whose claim to renew
    #[arg(value_name = "ISSUE/TASK")]
    task: TaskName,
    #[command(flatten)]
    lease: LeaseArgs,
    /// Token of the claim; refused if it is not the current one
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    token: u64,
    #[command(flatten)]
    role: RoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let ids = args.task.find(&acting).await?;
    let request = wire::RenewClaimRequest {
        role: acting.role.clone(),
        issue_id: ids.issue,
        task_id: ids.task,
        claim_token: args.token,
        for_ms: args.lease.ms(),
        ..Default::default()
    };
    let done = acting.broker.call(&request).await?;
    let value = json!(done);
    let task = done.task.unwrap_or_default();
    let subject = format!("{} of {}", task.task_id, task.issue_id);
    report_renewal(output, &subject, value, task.lease_expires_ms, done.now_ms)
}
