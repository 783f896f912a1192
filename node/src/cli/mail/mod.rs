//! `tasuki mail …`: one file per command.
//!
//! Every command acts as one role (`who`) and asks the broker itself, with what this machine joined
//! it with; no node has to run. What came from others is shown harmless (`show`, `markdown`), and
//! counts as seen only once it was printed. Lists, threads and their JSON go page by page, one line
//! a thing, so that no box is in memory whole.
//!
//! Not here: keeping mail while the broker is out of reach. That is a running node's.

mod attach;
mod body_args;
mod dead_letters;
mod editor;
mod json;
mod list;
mod mailboxes;
mod markdown;
mod private;
mod queue;
mod read;
mod receipts;
mod reply;
mod resolve;
mod search;
mod send;
mod show;
mod wait;
mod who;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tasuki_proto::mail::{BoxKind, MessageType};

use super::{Failure, Output};
use crate::config::Config;

/// Types as people type them; shells complete them.
fn kinds() -> impl TypedValueParser<Value = MessageType> {
    PossibleValuesParser::new(MessageType::ALL.map(MessageType::as_str))
        .map(|it| it.to_uppercase().parse().expect("it is one of them"))
}

/// The same of boxes.
fn places() -> impl TypedValueParser<Value = BoxKind> {
    PossibleValuesParser::new(BoxKind::ALL.map(BoxKind::as_str))
        .map(|it| it.to_lowercase().parse().expect("it is one of them"))
}

/// Send, read and resolve mail between roles.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Send(send::Args),
    /// Show a thread, oldest entry first
    Read(read::ReadArgs),
    Reply(reply::Args),
    List(list::Args),
    /// Show a thread, or its newest entries, with delivery receipts
    Thread(read::ThreadArgs),
    Wait(wait::Args),
    Search(search::Args),
    /// Move threads from the inbox to done
    Resolve(resolve::Args),
    /// Move threads from the inbox to cancel
    Reject(resolve::Args),
    Receipts(receipts::Args),
    /// Show the mailboxes of the workspace, with counts by box
    Mailboxes,
    Dead(dead_letters::Args),
    /// Manage private mail: end-to-end encryption between nodes, off by default
    #[command(subcommand)]
    Private(private::Command),
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        Command::Send(args) => send::run(args, config, output).await,
        Command::Read(args) => read::read(args, config, output).await,
        Command::Reply(args) => reply::run(args, config, output).await,
        Command::List(args) => list::run(args, config, output).await,
        Command::Thread(args) => read::thread(args, config, output).await,
        Command::Wait(args) => wait::run(args, config, output).await,
        Command::Search(args) => search::run(args, config, output).await,
        Command::Resolve(args) => resolve::resolve(args, config, output).await,
        Command::Reject(args) => resolve::reject(args, config, output).await,
        Command::Receipts(args) => receipts::run(args, config, output).await,
        Command::Mailboxes => mailboxes::run(config, output).await,
        Command::Dead(args) => dead_letters::run(args, config, output).await,
        Command::Private(command) => private::run(command, config, output).await,
    }
}
