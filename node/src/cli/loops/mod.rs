//! `tasuki loop …`: one file per command.

mod handover;
mod history;
mod list;
mod pause;
mod reclaim;
mod resume;
mod start;
mod status;
pub(super) mod text_args;

use tasuki_proto::{
    id::{LoopId, PersonId},
    limits::LOOP_DEFAULT,
};

use super::{Failure, Output, broker::Broker};
use crate::{config::Config, os_user};

/// Start and steer loops: who has the turn, what was handed over.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum Command {
    Status(status::Args),
    Start(start::Args),
    Handover(handover::Args),
    Reclaim(reclaim::Args),
    Pause(pause::Args),
    Resume(resume::Args),
    History(history::Args),
    /// List all loops of the workspace
    List,
}

/// Which loop.
#[derive(Debug, clap::Args)]
pub(super) struct Which {
    /// Loop
    #[arg(value_name = "LOOP", default_value = LOOP_DEFAULT)]
    r#loop: LoopId,
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let broker = Broker::new(config);
    match command {
        Command::Status(args) => status::run(args, &broker, output).await,
        Command::Start(args) => start::run(args, &broker, config, output).await,
        Command::Handover(args) => handover::run(args, &broker, output).await,
        Command::Reclaim(args) => reclaim::run(args, &broker, output).await,
        Command::Pause(args) => pause::run(args, &broker, output).await,
        Command::Resume(args) => resume::run(args, &broker, output).await,
        Command::History(args) => history::run(args, &broker, output).await,
        Command::List => list::run(&broker, output).await,
    }
}

/// The person who acts: `named`, else the logged-in user.
pub(super) fn person(named: Option<PersonId>) -> Result<PersonId, Failure> {
    let person = named.map_or_else(os_user::person, Ok);
    person.map_err(|why| Failure::usage(format!("Specify --by NAME: $USER {why}.")))
}
