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

use super::{Failure, IDS, Output, again, who::Acting};
use crate::{cli::text::line, config::Config};

/// Create, follow and close issues.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = IDS)]
pub enum Command {
    Create(create::Args),
    List(list::Args),
    Show(show::Args),
    History(history::Args),
    SetDocs(set_docs::Args),
    Close(close::Args),
    Reopen(close::ReopenArgs),
    Extend(extend::Args),
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        Command::Create(args) => create::run(args, config, output).await,
        Command::List(args) => list::run(args, config, output).await,
        Command::Show(args) => show::run(args, config, output).await,
        Command::History(args) => history::run(args, config, output).await,
        Command::SetDocs(args) => set_docs::run(args, config, output).await,
        Command::Close(args) => close::close(args, config, output).await,
        Command::Reopen(args) => close::reopen(args, config, output).await,
        Command::Extend(args) => extend::run(args, config, output).await,
    }
}

/// Asks the broker for an issue.
pub(super) async fn get_issue(
    acting: &Acting,
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
