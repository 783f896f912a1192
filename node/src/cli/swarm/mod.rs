//! `tasuki issue`, `task`, `delivery`, `lock`, `doc`, `worker`, `settings` and `board`: a folder or a
//! file a noun, a file a verb where there are many.
//!
//! A command that changes something acts as one role (`who`) and asks the broker itself, with what
//! this machine joined it with; no node has to run. Things are called as in `names`. What came from
//! others is sanitized (`rows` for lists, `whole` for one thing). Lists and their JSON go page by
//! page, one line a thing (`pages`).
//!
//! Not here: renewing a claim while somebody works. A running node does that for agents; a person
//! claims for as long as the settings say, and `renew`s.

pub(super) mod at;
mod awaited;
mod board;
mod commit;
mod delivery;
mod details;
mod doc;
mod files;
pub(super) mod hints;
mod issue;
mod labels;
mod lease;
mod lock;
pub(super) mod names;
mod pages;
pub(super) mod role_check;
mod rows;
mod settings;
pub(super) mod task;
pub(super) mod who;
mod worker;

use serde_json::Value;

use super::{Failure, Output, target};
use crate::config::Config;

/// How things are called, for `--help`.
const IDS: &str = "\
An issue is named by its id, or by the last part of it: issue_1700000000000_00af or 00af.
A task is named ISSUE/task-3 or ISSUE/3, a delivery and a lock by their ids.";

/// The commands about issues and what belongs to them.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    #[command(args(target()))]
    Board(board::Args),
    #[command(subcommand, args(target()))]
    Issue(issue::Command),
    #[command(subcommand, args(target()))]
    Task(task::Command),
    #[command(subcommand, args(target()))]
    Delivery(delivery::Command),
    #[command(subcommand, args(target()))]
    Lock(lock::Command),
    #[command(subcommand, args(target()))]
    Doc(doc::Command),
    #[command(subcommand, args(target()))]
    Worker(worker::Command),
    #[command(args(target()))]
    Settings(settings::Args),
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let done = match command {
        Command::Board(args) => Box::pin(board::run(args, config, output)).await,
        Command::Issue(command) => Box::pin(issue::run(command, config, output)).await,
        Command::Task(command) => Box::pin(task::run(command, config, output)).await,
        Command::Delivery(command) => Box::pin(delivery::run(command, config, output)).await,
        Command::Lock(command) => Box::pin(lock::run(command, config, output)).await,
        Command::Doc(command) => Box::pin(doc::run(command, config, output)).await,
        Command::Worker(command) => Box::pin(worker::run(command, config, output)).await,
        Command::Settings(args) => Box::pin(settings::run(args, config, output)).await,
    };
    done.map_err(hints::with_hint)
}

/// What an answer that was repeated says to people.
fn again(repeated: bool) -> &'static str {
    if repeated { " That had been done before." } else { "" }
}

/// `value` with the broker's time, by which what is left of a lease is counted.
fn with_now(mut value: Value, now_ms: u64) -> Value {
    value["now_ms"] = now_ms.into();
    value
}
