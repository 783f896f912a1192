//! `tasuki issue close` and `tasuki issue reopen`.

use tasuki_proto::wire;

use super::report_issue;
use crate::{
    cli::{
        loops::text_args::{HELP, TextArgs},
        role_args::RoleArgs,
        swarm::{Failure, Output, names::IssueName},
    },
    config::Config,
};

/// Close an issue.
///
/// All its tasks must be done and a delivery of it approved. Without an approved delivery a reason
/// is required, and the issue shows as closed without an approved delivery.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Issue to close
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    /// What came of it; required if no delivery was approved
    #[arg(long, visible_alias = "summary", value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    role: RoleArgs,
}

/// Reopen a closed issue.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct ReopenArgs {
    /// Issue to reopen
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    /// Why; kept in the history
    #[arg(long, visible_alias = "summary", value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    role: RoleArgs,
}

pub(super) async fn close(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let request = wire::CloseIssueRequest {
        role: acting.role.clone(),
        issue_id: args.issue.find(&acting).await?,
        summary: TextArgs::default().read_if("--reason", args.reason.as_deref())?,
        ..Default::default()
    };
    let done = acting.broker.call(&request).await?;
    let is_unaccepted = done.issue.as_ref().is_some_and(|it| it.is_unaccepted);
    let how = if is_unaccepted { "is closed without an approved delivery" } else { "is closed" };
    report_issue(&done, how, output)
}

pub(super) async fn reopen(
    args: ReopenArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let request = wire::ReopenIssueRequest {
        role: acting.role.clone(),
        issue_id: args.issue.find(&acting).await?,
        summary: TextArgs::default().read_if("--reason", args.reason.as_deref())?,
        ..Default::default()
    };
    let done = acting.broker.call(&request).await?;
    report_issue(&done, "is open again", output)
}
