//! `tasuki mail …`: one file per command.
//!
//! Every command acts as one role (`mail_client`) and asks the broker itself, with what this machine
//! joined it with; no node has to run. What came from others is shown harmless (`show`, `markdown`),
//! and counts as seen only once it was printed. Lists, threads and their JSON go page by page, one
//! line a thing, so that no box is in memory whole.
//!
//! Not here: keeping mail while the broker is out of reach. That is a running node's.

mod attach;
mod body_args;
mod dead_letters;
mod editor;
mod json;
mod list;
mod mail_client;
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

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tasuki_proto::mail::{BoxKind, MessageType};

use super::{Failure, Output, subcommands::subcommands};

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

subcommands! {
    /// Send, read and resolve mail between roles.
    #[derive(Debug, clap::Subcommand)]
    pub enum Command {
        Send(send::Args) => send::run,
        /// Show a thread, oldest entry first
        Read(read::ReadArgs) => read::read,
        Reply(reply::Args) => reply::run,
        List(list::Args) => list::run,
        /// Show a thread, or its newest entries, with delivery receipts
        Thread(read::ThreadArgs) => read::thread,
        Wait(wait::Args) => wait::run,
        Search(search::Args) => search::run,
        /// Move threads from the inbox to done
        Resolve(resolve::Args) => resolve::resolve,
        /// Move threads from the inbox to cancel
        Reject(resolve::Args) => resolve::reject,
        Receipts(receipts::Args) => receipts::run,
        Mailboxes(mailboxes::Args) => mailboxes::run,
        Dead(dead_letters::Args) => dead_letters::run,
        /// Manage private mail: end-to-end encryption between nodes, off by default
        #[command(subcommand)]
        Private(private::Command) => private::run,
    }
}
