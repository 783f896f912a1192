//! `tasuki delivery …`: one file a command.

mod claim;
mod create;
mod list;
mod renew;
mod review;
mod show;

use super::IDS;
use crate::cli::subcommands::subcommands;

subcommands! {
    /// Deliver finished issues, and review deliveries.
    #[derive(Debug, clap::Subcommand)]
    #[command(after_help = IDS)]
    pub enum Command {
        Create(Box<create::Args>) => create::run,
        List(list::Args) => list::run,
        Show(show::Args) => show::run,
        Claim(claim::Args) => claim::run,
        Renew(renew::Args) => renew::run,
        Review(review::Args) => review::run,
    }
}
