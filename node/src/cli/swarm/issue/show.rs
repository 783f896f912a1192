//! `tasuki issue show`.

use serde_json::json;

use super::get_issue;
use crate::{
    cli::{
        role_args::RoleClient,
        swarm::{Failure, Output, details, names::IssueName, with_now},
    },
    config::Config,
};

/// Show an issue.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Issue to show
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = RoleClient::anonymous(config);
    let issue_id = args.issue.find(&acting).await?;
    let told = get_issue(&acting, &issue_id).await?;
    let issue = told.issue.unwrap_or_default();
    output.answer(|| with_now(json!(issue), told.now_ms), || details::issue(&issue, told.now_ms))
}
