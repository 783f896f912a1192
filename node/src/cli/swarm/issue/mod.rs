//! `tasuki issue …`: one file a command.

mod close;
mod create;
mod extend;
mod history;
mod list;
mod set_docs;
mod show;

use serde_json::json;
use tasuki_proto::wire;

use super::{Failure, IDS, Output, again};
use crate::cli::{role_args::RoleClient, subcommands::subcommands, text::line};

subcommands! {
    /// Create, follow and close issues.
    #[derive(Debug, clap::Subcommand)]
    #[command(after_help = IDS)]
    pub enum Command {
        Create(create::Args) => create::run,
        List(list::Args) => list::run,
        Show(show::Args) => show::run,
        History(history::Args) => history::run,
        SetDocs(set_docs::Args) => set_docs::run,
        Close(close::Args) => close::close,
        Reopen(close::ReopenArgs) => close::reopen,
        Extend(extend::Args) => extend::run,
    }
}

/// Asks the broker for an issue.
pub(super) async fn get_issue(
    acting: &RoleClient,
    issue_id: &str,
) -> Result<wire::IssueResponse, Failure> {
    let request = wire::GetIssueRequest { issue_id: issue_id.to_owned(), ..Default::default() };
    acting.broker.call(&request).await
}

/// Reports what became of an issue; `outcome` goes on behind its id.
fn report_issue(
    done: &wire::IssueResponse,
    outcome: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    let issue = done.issue.clone().unwrap_or_default();
    output.answer(
        || json!(done),
        || {
            let (id, subject) = (line(&issue.issue_id), line(&issue.subject));
            format!("{id} {outcome}: {subject}.{}\n", again(done.repeated))
        },
    )
}
