//! `tasuki mail …`: one file per command.

mod private;

use super::{Failure, Output, Target};
use crate::config::Config;

/// See to mail between roles.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// See to who can read mail: end-to-end encryption between nodes, off unless turned on
    #[command(subcommand)]
    Private(private::Command),
}

impl Command {
    pub(super) fn target(&self) -> &Target {
        match self {
            Self::Private(command) => command.target(),
        }
    }
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        Command::Private(command) => private::run(command, config, output).await,
    }
}
