//! `tasuki completions`: what a shell has to know to complete these commands.

use clap_complete::Shell;

use super::{Failure, Output};

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "For bash: source <(tasuki completions bash)")]
pub struct Args {
    /// Shell
    shell: Shell,
}

pub(crate) fn run(
    args: &Args,
    command: &mut clap::Command,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "tasuki", &mut script);
    output.raw(&String::from_utf8_lossy(&script))
}
