//! `tasuki runs …`: a file for each verb. `tasuki run` uses the same to follow the run that it
//! started.
//!
//! - `client`: the calls, and who makes them. `names`: which run is meant. `pages`: lists.
//! - `watching`: a run over reconnects. `display`: how it is shown. `follow`: both until it is over.
//! - `labels`: states and numbers as people read them.
//!
//! What agents and other people wrote is made safe for a terminal where it is printed.
//!
//! Not here: starting a run (`cli/run`).

mod ask;
mod cancel;
pub(super) mod client;
pub(super) mod display;
pub(super) mod follow;
mod labels;
mod list;
mod names;
pub(super) mod output;
mod pages;
mod reply;
mod runners;
mod show;
mod watch;
mod watching;

use tasuki_proto::reason::Reason;

use self::names::HELP;
use super::{Exit, Failure, Output, subcommands::subcommands};

subcommands! {
    /// Show, follow and cancel runs of agents, and answer questions.
    #[derive(Debug, clap::Subcommand)]
    #[command(after_help = HELP)]
    pub enum Command {
        List(list::Args) => list::run,
        Show(show::Args) => show::run,
        Watch(watch::Args) => watch::run,
        Cancel(cancel::Args) => cancel::run,
        Output(output::Args) => output::run,
        Reply(reply::Args) => reply::run,
        Runners(runners::Args) => runners::run,
        Ask(ask::AskArgs) => ask::ask,
        Report(ask::ReportArgs) => ask::report,
    }
}

/// Adds the command to type to a refusal.
pub(super) fn with_hint(mut why: Failure) -> Failure {
    let hint = match why.as_reason() {
        Some(Reason::UnknownRun) => "`tasuki runs list` shows those there are",
        Some(Reason::UnknownStep | Reason::UnknownMessage) => {
            "`tasuki runs show RUN` shows those there are"
        }
        Some(_) | None => return why,
    };
    if !why.message.contains("`tasuki ") {
        why.message = format!("{}. {hint}.", why.message.trim_end_matches('.'));
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_command_to_type_once() {
        let said = |reason, text: &str| with_hint(Failure::reason(reason, text)).message;
        let unknown = "there is no run run_1_00af";
        assert_eq!(
            said(Reason::UnknownRun, unknown),
            "there is no run run_1_00af. `tasuki runs list` shows those there are."
        );
        let known = "Give the whole id; `tasuki runs list` shows them.";
        assert_eq!(said(Reason::UnknownRun, known), known);
        assert_eq!(said(Reason::Overloaded, "Too much to do."), "Too much to do.");
    }
}
