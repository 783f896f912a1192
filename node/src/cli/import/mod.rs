//! `tasuki import …`: takes over what was written elsewhere.

mod filebox;
mod refusals;
mod report;
mod roles;
mod stored_thread;
mod swarm;

use super::{Failure, Output, broker::Broker};
use crate::config::Config;

/// Import mail, issues and tasks from other tools.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum Command {
    Filebox(filebox::Args),
    Swarm(swarm::Args),
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let broker = Broker::new(config);
    match command {
        Command::Filebox(args) => filebox::run(args, &broker, &config.data.value, output).await,
        Command::Swarm(args) => swarm::run(args, &broker, output).await,
    }
}
