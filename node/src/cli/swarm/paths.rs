//! `tasuki swarm paths`.

use tasuki_proto::wire;

use super::{
    Failure, Output,
    names::IssueName,
    new::{Docs, told},
    who::{Who, client},
};
use crate::config::Config;

/// Say anew what is to be read before an issue is worked on.
///
/// What is given takes the place of all that was said so of that kind; the other kind stays.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("said").required(true).multiple(true)
    .args(["shared_doc", "project_doc", "no_shared_docs", "no_project_docs"]))]
pub struct Args {
    /// Which issue
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    #[command(flatten)]
    docs: Docs,
    /// No document that all issues share
    #[arg(long, conflicts_with = "shared_doc")]
    no_shared_docs: bool,
    /// No file of the project
    #[arg(long, conflicts_with = "project_doc")]
    no_project_docs: bool,
    #[command(flatten)]
    pub(super) who: Who,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let project = args.docs.of_project()?;
    let acting = args.who.acting(config).await?;
    let issue_id = args.issue.find(&acting).await?;
    let request = wire::UpdateIssueDocPathsRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        issue_id,
        keep_shared_docs: args.docs.shared_doc.is_empty() && !args.no_shared_docs,
        keep_project_docs: project.is_empty() && !args.no_project_docs,
        shared_doc_paths: args.docs.shared_doc,
        project_doc_paths: project,
    };
    let done = acting
        .broker
        .tell(async |channel, key| {
            let request = wire::UpdateIssueDocPathsRequest { key: Some(key), ..request.clone() };
            client(channel).update_issue_doc_paths(request).await
        })
        .await?;
    told(&done, "names what is to be read first", output)
}
