//! `tasuki board …`: shared state with checkpoints.
//!
//! `read` shows boards, `write` changes them, `watch` follows one. What was written by others is
//! sanitized before it is printed.

mod read;
mod watch;
mod write;

use tasuki_proto::wire;

pub(super) use self::write::Assignment;
use super::{
    labels::author,
    subcommands::subcommands,
    text::{line, time},
};

/// How values are given, for `--help`.
const VALUES: &str = "\
A value is JSON. A text that is no JSON is taken as it is: current_phase=code.
Lists are added to messages and review_comments, and keys are set in artifacts; any other value
replaces the one before. `tasuki board list` shows what each channel does.";

subcommands! {
    /// Read and write boards: shared state with checkpoints.
    #[derive(Debug, clap::Subcommand)]
    pub enum Command {
        List(read::ListArgs) => read::list,
        Show(read::ShowArgs) => read::show,
        Update(write::UpdateArgs) => write::update,
        History(read::HistoryArgs) => read::history,
        Diff(read::DiffArgs) => read::diff,
        Fork(write::ForkArgs) => write::fork,
        Watch(watch::Args) => watch::run,
        Prune(write::PruneArgs) => write::prune,
        Delete(write::DeleteArgs) => write::delete,
    }
}

/// One checkpoint as a line.
fn checkpoint_line(it: &wire::BoardCheckpoint) -> String {
    let channels: Vec<String> = it.channels.iter().map(|it| line(it)).collect();
    let channels = if channels.is_empty() { "-".to_owned() } else { channels.join(", ") };
    let from = if it.is_fork { format!("  continues from {}", it.parent) } else { String::new() };
    let by = author(&it.by_role, &it.by_person);
    format!("{:>6}  {}  {by:<12}  {channels}{from}\n", it.checkpoint, time(it.at_ms))
}
