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
mod top;

use tasuki_proto::wire;

use super::{Failure, IDS, names::TaskIds};
use crate::cli::{role_args::RoleClient, subcommands::subcommands};

subcommands! {
    /// Create, claim, submit and review tasks.
    #[derive(Debug, clap::Subcommand)]
    #[command(after_help = IDS)]
    pub enum Command {
        Create(create::Args) => create::run,
        Plan(plan::Args) => plan::run,
        List(list::Args) => list::run,
        Top(top::Args) => top::run,
        Show(show::Args) => show::run,
        Claim(claim::Args) => claim::run,
        Renew(renew::Args) => renew::run,
        Ask(ask::Args) => ask::run,
        Answer(answer::Args) => answer::run,
        Submit(submit::Args) => submit::run,
        Review(review::Args) => review::run,
        /// Reset a task to open, whoever has claimed it
        ///
        /// Its claim, reservation, open submission and open questions end; whoever waits for one of
        /// them is told why.
        Reset(reset::Args) => reset::reset,
        /// Cancel a task; it no longer blocks others
        ///
        /// Its claim, reservation, open submission and open questions end; whoever waits for one of
        /// them is told why.
        Cancel(reset::Args) => reset::cancel,
    }
}

/// Asks the broker for a task.
pub(in crate::cli) async fn get_task(
    acting: &RoleClient,
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
