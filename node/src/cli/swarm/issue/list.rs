//! `tasuki issue list`.

use serde_json::json;
use tasuki_proto::wire::{self, IssueStatus};

use crate::{
    cli::{
        broker::Broker,
        swarm::{
            Failure, Output,
            labels::issue_statuses,
            pages::{self, Page, Wanted},
            rows,
            who::Acting,
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
    let acting = Acting { broker: Broker::new(config), role: String::new() };
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
    let mut is_first = true;
    let shown = pages::all(
        args.wanted,
        ask,
        |it: &wire::Issue| &it.issue_id,
        |it, _| {
            if std::mem::take(&mut is_first) {
                output.guide(rows::issue_head)?;
            }
            output.answer(|| json!(it), || rows::issue(it))
        },
    )
    .await?;
    shown.tell(output, "issues", || match (args.status, &args.contains) {
        (None, None) => "No issues. Create one with `tasuki issue create SUBJECT`.\n".to_owned(),
        (_, _) => "No matching issues.\n".to_owned(),
    })
}
