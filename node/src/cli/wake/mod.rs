//! `tasuki wake`: clients that are to go on by themselves when something comes for their role.
//!
//! `setup` and `remove` write hooks and ways to push, `status` and `probe` look at them, `hook` is what
//! clients call. What they are told is decided in the node ([`crate::wake`]).

mod hook;
mod probe;
mod setup;
mod status;

use super::{Failure, Output};
use crate::config::Config;

/// Wake idle agents when something comes for their role
///
/// Claude Code, Codex and Cursor are woken by hooks, Codex also through its queue, opencode through
/// its server, and any client in tmux by typing into its pane as the last resort.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Set up a client so that what comes for a role wakes it
    Setup(setup::SetupArgs),
    /// Undo what `tasuki wake setup` did
    Remove(setup::RemoveArgs),
    /// Show how each role's agent can be woken, and how it last was
    Status(status::Args),
    /// Send a role a test message, and wait until its agent has seen it
    ///
    /// Prints how long that took. Exit code 7: it was not seen in time.
    Test(probe::Args),
    /// Called by a client, which describes what happened on standard input
    #[command(hide = true)]
    Hook(hook::Args),
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        Command::Setup(args) => setup::setup(&args, config, output).await,
        Command::Remove(args) => setup::remove(&args, config, output).await,
        Command::Status(args) => status::run(&args, config, output).await,
        Command::Test(args) => probe::run(&args, config, output).await,
        Command::Hook(args) => hook::run(&args, config, output).await,
    }
}
