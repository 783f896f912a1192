//! `tasuki task …`: one file a command.

mod answer;
mod ask;
mod claim;
mod create;
mod graph;
pub(super) mod list;
mod plan;
mod renew;
mod reset;
mod review;
mod show;
mod submit;

use tasuki_proto::wire;

use super::{Failure, IDS, Output, names::TaskIds, who::Acting};
use crate::config::Config;

/// Create, claim, submit and review tasks.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = IDS)]
pub enum Command {
    Create(create::Args),
    Plan(plan::Args),
    List(list::Args),
    Show(show::Args),
    Claim(claim::Args),
    Renew(renew::Args),
    Ask(ask::Args),
    Answer(answer::Args),
    Submit(submit::Args),
    Review(review::Args),
    /// Reset a task to open, whoever has claimed it
    ///
    /// Its claim, reservation, open submission and open questions end; whoever waits for one of them
    /// is told why.
    Reset(reset::Args),
    /// Cancel a task; it no longer blocks others
    ///
    /// Its claim, reservation, open submission and open questions end; whoever waits for one of them
    /// is told why.
    Cancel(reset::Args),
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        Command::Create(args) => create::run(args, config, output).await,
        Command::Plan(args) => plan::run(args, config, output).await,
        Command::List(args) => list::run(args, config, output).await,
        Command::Show(args) => show::run(args, config, output).await,
        Command::Claim(args) => claim::run(args, config, output).await,
        Command::Renew(args) => renew::run(args, config, output).await,
        Command::Ask(args) => Box::pin(ask::run(args, config, output)).await,
        Command::Answer(args) => answer::run(args, config, output).await,
        Command::Submit(args) => Box::pin(submit::run(args, config, output)).await,
        Command::Review(args) => Box::pin(review::run(args, config, output)).await,
        Command::Reset(args) => reset::reset(args, config, output).await,
        Command::Cancel(args) => reset::cancel(args, config, output).await,
    }
}

/// Asks the broker for a task.
pub(in crate::cli) async fn get_task(
    acting: &Acting,
    ids: &TaskIds,
) -> Result<wire::TaskResponse, Failure> {
    let request = wire::GetTaskRequest {
        role: acting.role.clone(),
        issue_id: ids.issue.clone(),
        task_id: ids.task.clone(),
        ..Default::default()
    };
    acting.broker.call(&request).await
}
