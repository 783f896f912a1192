//! `tasuki runs …`. `tasuki run` follows the run that it started in the same way.
//!
//! - `client`: the calls, and who makes them. `list`: what there is, and which run is meant.
//! - `follow`: a run until it is over. `display`: how it is shown. `labels`: states and numbers.
//! - `ask`: what a sub-agent says. `file`: what one handed over.
//!
//! What agents and other people wrote is made safe for a terminal where it is printed.
//!
//! Not here: starting a run (`cli/run`).

mod ask;
pub(super) mod client;
pub(super) mod display;
mod file;
pub(super) mod follow;
mod labels;
pub(super) mod list;
pub(super) mod output;
mod show;

use self::list::HELP;
use super::{Exit, Failure, Output, subcommands::subcommands};

subcommands! {
    /// Show, follow and cancel runs of agents, and answer questions.
    #[derive(Debug, clap::Subcommand)]
    #[command(after_help = HELP)]
    pub enum Command {
        List(list::ListArgs) => list::list,
        Show(show::Args) => show::run,
        Watch(follow::Args) => follow::run,
        Cancel(client::CancelArgs) => client::cancel,
        Output(output::Args) => output::run,
        Reply(client::ReplyArgs) => client::reply,
        Runners(list::RunnersArgs) => list::runners,
        Ask(ask::AskArgs) => ask::ask,
        Report(ask::ReportArgs) => ask::report,
    }
}
