//! `tasuki delivery …`: one file a command.

mod claim;
mod create;
mod list;
mod renew;
mod review;
mod show;

use super::{Failure, IDS, Output};
use crate::config::Config;

/// Deliver finished issues, and review deliveries.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = IDS)]
pub enum Command {
    Create(Box<create::Args>),
    List(list::Args),
    Show(show::Args),
    Claim(claim::Args),
    Renew(renew::Args),
    Review(review::Args),
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        Command::Create(args) => Box::pin(create::run(*args, config, output)).await,
        Command::List(args) => list::run(args, config, output).await,
        Command::Show(args) => show::run(args, config, output).await,
        Command::Claim(args) => claim::run(args, config, output).await,
        Command::Renew(args) => renew::run(args, config, output).await,
        Command::Review(args) => Box::pin(review::run(args, config, output)).await,
    }
}
