//! `tasuki swarm close` and `tasuki swarm reopen`.

use tasuki_proto::wire;

use super::{
    Failure, Output,
    names::IssueName,
    new::told,
    who::{Who, client},
};
use crate::{
    cli::loops::words::{HELP, Words},
    config::Config,
};

/// End an issue.
///
/// Its tasks have to be done, and a delivery of it approved; without one it takes a reason, and the
/// issue shows as closed without an approved delivery.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Which issue
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    /// What came of it; why it ends, where no delivery was approved
    #[arg(long, visible_alias = "summary", value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    pub(super) who: Who,
}

/// Open an issue again.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct ReopenArgs {
    /// Which issue
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    /// Why
    #[arg(long, visible_alias = "summary", value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    pub(super) who: Who,
}

pub(super) async fn close(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.acting(config).await?;
    let request = wire::CloseIssueRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        issue_id: args.issue.find(&acting).await?,
        summary: Words::default().read_if("--reason", args.reason.as_deref())?,
    };
    let done = acting
        .broker
        .tell(async |channel, key| {
            let request = wire::CloseIssueRequest { key: Some(key), ..request.clone() };
            client(channel).close_issue(request).await
        })
        .await?;
    let is_unaccepted = done.issue.as_ref().is_some_and(|it| it.is_unaccepted);
    let how = if is_unaccepted { "is closed without an approved delivery" } else { "is closed" };
    told(&done, how, output)
}

pub(super) async fn reopen(
    args: ReopenArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let acting = args.who.acting(config).await?;
    let request = wire::ReopenIssueRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        issue_id: args.issue.find(&acting).await?,
        summary: Words::default().read_if("--reason", args.reason.as_deref())?,
    };
    let done = acting
        .broker
        .tell(async |channel, key| {
            let request = wire::ReopenIssueRequest { key: Some(key), ..request.clone() };
            client(channel).reopen_issue(request).await
        })
        .await?;
    told(&done, "is open again", output)
}
