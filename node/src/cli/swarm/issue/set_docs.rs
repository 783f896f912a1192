//! `tasuki issue set-docs`.

use tasuki_proto::wire;

use super::{create::Docs, report_issue};
use crate::{
    cli::{
        role_args::RoleArgs,
        swarm::{Failure, Output, names::IssueName},
    },
    config::Config,
};

/// Set which documents to read before work on an issue begins.
///
/// The documents given replace all others of their kind; the other kind stays.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("documents").required(true).multiple(true)
    .args(["shared_doc", "project_doc", "no_shared_docs", "no_project_docs"]))]
pub struct Args {
    /// Issue to change
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    #[command(flatten)]
    docs: Docs,
    /// No document of the workspace
    #[arg(long, conflicts_with = "shared_doc")]
    no_shared_docs: bool,
    /// No file of the project
    #[arg(long, conflicts_with = "project_doc")]
    no_project_docs: bool,
    #[command(flatten)]
    role: RoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let project = args.docs.of_project()?;
    let acting = args.role.client(config).await?;
    let issue_id = args.issue.find(&acting).await?;
    let request = wire::UpdateIssueDocPathsRequest {
        role: acting.role.clone(),
        issue_id,
        keep_shared_docs: args.docs.shared_doc.is_empty() && !args.no_shared_docs,
        keep_project_docs: project.is_empty() && !args.no_project_docs,
        shared_doc_paths: args.docs.shared_doc,
        project_doc_paths: project,
        ..Default::default()
    };
    let done = acting.broker.call(&request).await?;
    report_issue(&done, "has new documents to read first", output)
}
