//! `tasuki swarm …`: issues, tasks, reviews, deliveries and locks for people, one file per command.
//!
//! A command that changes something acts as one role (`who`) and asks the broker itself, with what
//! this machine joined it with; no node has to run. Things are called as in `names`. What came from
//! others is shown harmless (`rows` for lists, `whole` for one thing), lists and their JSON go page
//! by page, one line a thing (`pages`).
//!
//! Not here: renewing a claim while somebody works. A running node does that for agents; a person
//! claims for as long as the settings say, and `renew`s.

mod answer;
mod ask;
pub(super) mod at;
mod awaited;
mod board;
mod claim;
mod close;
mod commit;
mod deliver;
mod deliveries;
mod doc;
mod files;
mod graph;
mod history;
mod issues;
mod json;
pub(super) mod known;
mod lock;
pub(super) mod names;
mod new;
mod pages;
mod paths;
mod plan;
mod renew;
mod reset;
mod review;
mod rows;
mod settings;
pub(super) mod show;
mod submit;
mod task;
mod tasks;
mod verdict;
pub(super) mod ways;
pub(super) mod who;
mod whole;
mod words;
mod workers;

use super::{Failure, Output, Target};
use crate::config::Config;

/// How things are called, for `--help`.
const HELP: &str = "\
An issue is called by its id, or by the last part of that: issue_1700000000000_00af, 00af.
A task is called ISSUE/task-3 or ISSUE/3, a delivery and a lock by their ids.

A lead:      new, plan or task, then review, answer, reset and cancel, then deliver and close;
             paths, reopen
A worker:    claim, lock, ask, submit, unlock, renew
An acceptor: claim and review, both with a delivery, or `tasuki accept`
Everybody:   board, issues, tasks, show, history, workers, locks, deliveries, doc, settings";

/// See and steer issues: what is to be done, who does it, what came of it.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = HELP)]
pub enum Command {
    Board(board::Args),
    Issues(issues::Args),
    Tasks(tasks::Args),
    Show(show::Args),
    History(history::Args),
    Workers(workers::Args),
    Deliveries(deliveries::Args),
    New(new::Args),
    Paths(paths::Args),
    Plan(plan::Args),
    Task(task::Args),
    Review(review::Args),
    Answer(answer::Args),
    /// Make a task open again, whoever has it
    ///
    /// Its claim, reservation, open submission and open questions end, and whoever waits for one of
    /// them is told why.
    Reset(reset::Args),
    /// End a task that is not to be done; what it blocked is free
    ///
    /// Its claim, reservation, open submission and open questions end, and whoever waits for one of
    /// them is told why.
    Cancel(reset::Args),
    Deliver(deliver::Args),
    Close(close::Args),
    Reopen(close::ReopenArgs),
    Claim(claim::Args),
    Renew(renew::Args),
    Submit(submit::Args),
    Ask(ask::Args),
    Lock(lock::LockArgs),
    Unlock(lock::UnlockArgs),
    Locks(lock::ListArgs),
    /// Read and write documents: of all issues, of one, of a task
    #[command(subcommand)]
    Doc(doc::Command),
    Settings(settings::Args),
}

impl Command {
    pub(super) fn target(&self) -> &Target {
        match self {
            Self::Board(args) => &args.target,
            Self::Issues(args) => &args.target,
            Self::Tasks(args) => &args.who.target,
            Self::Show(args) => &args.who.target,
            Self::History(args) => &args.target,
            Self::Workers(args) => &args.who.target,
            Self::Deliveries(args) => &args.who.target,
            Self::New(args) => &args.who.target,
            Self::Paths(args) => &args.who.target,
            Self::Plan(args) => &args.who.target,
            Self::Task(args) => &args.who.target,
            Self::Review(args) => &args.who.target,
            Self::Answer(args) => &args.who.target,
            Self::Reset(args) | Self::Cancel(args) => &args.who.target,
            Self::Deliver(args) => &args.who.target,
            Self::Close(args) => &args.who.target,
            Self::Reopen(args) => &args.who.target,
            Self::Claim(args) => &args.who.target,
            Self::Renew(args) => &args.who.target,
            Self::Submit(args) => &args.who.target,
            Self::Ask(args) => &args.who.target,
            Self::Lock(args) => &args.who.target,
            Self::Unlock(args) => &args.who.target,
            Self::Locks(args) => &args.who.target,
            Self::Doc(command) => command.target(),
            Self::Settings(args) => &args.target,
        }
    }
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    carry_out(command, config, output).await.map_err(ways::with_way)
}

async fn carry_out(command: Command, config: &Config, output: &mut Output) -> Result<(), Failure> {
    match command {
        Command::Board(args) => board::run(args, config, output).await,
        Command::Issues(args) => issues::run(args, config, output).await,
        Command::Tasks(args) => tasks::run(args, config, output).await,
        Command::Show(args) => show::run(args, config, output).await,
        Command::History(args) => history::run(args, config, output).await,
        Command::Workers(args) => workers::run(args, config, output).await,
        Command::Deliveries(args) => deliveries::run(args, config, output).await,
        Command::New(args) => new::run(args, config, output).await,
        Command::Paths(args) => paths::run(args, config, output).await,
        Command::Plan(args) => plan::run(args, config, output).await,
        Command::Task(args) => task::run(args, config, output).await,
        Command::Review(args) => review::run(args, config, output).await,
        Command::Answer(args) => answer::run(args, config, output).await,
        Command::Reset(args) => reset::reset(args, config, output).await,
        Command::Cancel(args) => reset::cancel(args, config, output).await,
        Command::Deliver(args) => Box::pin(deliver::run(args, config, output)).await,
        Command::Close(args) => close::close(args, config, output).await,
        Command::Reopen(args) => close::reopen(args, config, output).await,
        Command::Claim(args) => claim::run(args, config, output).await,
        Command::Renew(args) => renew::run(args, config, output).await,
        Command::Submit(args) => Box::pin(submit::run(args, config, output)).await,
        Command::Ask(args) => Box::pin(ask::run(args, config, output)).await,
        Command::Lock(args) => lock::lock(args, config, output).await,
        Command::Unlock(args) => lock::unlock(args, config, output).await,
        Command::Locks(args) => lock::list(args, config, output).await,
        Command::Doc(command) => doc::run(command, config, output).await,
        Command::Settings(args) => settings::run(args, config, output).await,
    }
}

/// What an answer said again, for people.
fn again(repeated: bool) -> &'static str {
    if repeated { " That had been done before." } else { "" }
}
