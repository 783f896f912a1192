//! `tasuki issue list`.

use tasuki_proto::wire::{self, IssueStatus};

use crate::{
    cli::{
        role_args::RoleClient,
        swarm::{
            Failure, Output,
            labels::issue_statuses,
            pages::{self, Page, Wanted},
        },
    },
    config::Config,
};

/// List issues, newest first.
///
/// With --json each issue is one line.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only issues with this status; open includes those in progress
    #[arg(long, value_name = "STATUS", value_parser = issue_statuses())]
    status: Option<IssueStatus>,
    /// Only issues whose subject contains this text
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    #[command(flatten)]
    wanted: Wanted,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = RoleClient::anonymous(config);
    let ask = async |limit, offset| {
        let request = wire::ListIssuesRequest {
            status: args.status.unwrap_or_default().into(),
            subject_contains: args.contains.clone().unwrap_or_default(),
            limit,
            offset,
            ..Default::default()
        };
        let page = acting.broker.call(&request).await?;
        Ok(Page { things: page.issues, total: page.total, now_ms: page.now_ms })
    };
    let nothing = match (args.status, &args.contains) {
        (None, None) => "No issues. Create one with `tasuki issue create SUBJECT`.",
        (_, _) => "No matching issues.",
    };
    pages::print(args.wanted, ask, nothing, output).await
}
