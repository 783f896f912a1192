//! `tasuki issue extend`.

use serde_json::json;
use tasuki_proto::wire;

use crate::{
    cli::{
        role_args::RoleArgs,
        swarm::{
            Failure, Output,
            lease::{LeaseArgs, report_renewal},
            names::IssueName,
        },
    },
    config::Config,
};

/// Extend the lease of an idle issue.
///
/// An issue that lasts longer already is not cut short.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Issue to extend
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    role: RoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let issue_id = args.issue.find(&acting).await?;
    let request = wire::ExtendIssueRequest {
        role: acting.role.clone(),
        issue_id,
        for_ms: args.lease.ms(),
        ..Default::default()
    };
    let done = acting.broker.call(&request).await?;
    let value = json!(done);
    let issue = done.issue.unwrap_or_default();
    report_renewal(output, &issue.issue_id, value, issue.lease_expires_ms, done.now_ms)
}
