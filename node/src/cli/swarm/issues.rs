//! `tasuki swarm issues`.

use tasuki_proto::wire::{self, IssueStatus};

use super::{
    Failure, Output, Target, json,
    pages::{self, Page, Wanted},
    rows,
    who::{Acting, client},
    words::issue_statuses,
};
use crate::{cli::broker::Broker, config::Config};

/// Show issues, the newest first.
///
/// With --json each issue is a line of its own.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only issues in this state; those in progress are open, too
    #[arg(long, value_name = "STATUS", value_parser = issue_statuses())]
    status: Option<IssueStatus>,
    /// Only issues whose subject has this in it
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    pub(super) target: Target,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = Acting { broker: Broker::new(config), role: String::new() };
    let ask = async |limit, offset| {
        let request = wire::ListIssuesRequest {
            caller: acting.broker.caller(),
            status: args.status.unwrap_or_default().into(),
            subject_contains: args.contains.clone().unwrap_or_default(),
            limit,
            offset,
            ..Default::default()
        };
        let page = acting
            .broker
            .ask(async |channel| client(channel).list_issues(request.clone()).await)
            .await?;
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
            output.answer(|| json::issue(it), || rows::issue(it))
        },
    )
    .await?;
    shown.tell(output, "issues", || match (args.status, &args.contains) {
        (None, None) => "There is no issue; `tasuki swarm new SUBJECT` opens one.\n".to_owned(),
        (_, _) => "No issue is so.\n".to_owned(),
    })
}
