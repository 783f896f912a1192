//! `tasuki pipeline …`: phases that roles do one after another on a board.
//!
//! `run` starts one and follows it, `show` shows what there is, `watch` follows one, `decide` ends,
//! resumes, approves and rejects, `check` reads a file and starts nothing.

mod check;
mod decide;
mod run;
mod show;
mod watch;

use std::{fs, path::Path};

use tasuki_proto::wire;

use super::{Failure, subcommands::subcommands};
use crate::pipeline::file::{self, Problem};

/// A pipeline's file, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

subcommands! {
    /// Have roles do phases one after another: plan, code, test, review.
    #[derive(Debug, clap::Subcommand)]
    pub enum Command {
        Run(run::Args) => run::run,
        List(show::ListArgs) => show::list,
        Status(show::StatusArgs) => show::status,
        Watch(watch::Args) => watch::run,
        Approve(decide::ApproveArgs) => decide::approve,
        Reject(decide::RejectArgs) => decide::reject,
        Cancel(decide::CancelArgs) => decide::cancel,
        Resume(decide::ResumeArgs) => decide::resume,
        Check(check::Args) => check::run,
    }
}

/// The definition in a file, or the one that needs none.
fn definition(file: Option<&Path>) -> Result<wire::PipelineDefinition, Failure> {
    let Some(path) = file else {
        return file::read(file::DEFAULT).map_err(|all| problems(Path::new("default"), &all));
    };
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("{} cannot be read: {why}.", path.display()))
    };
    let size = fs::metadata(path).map_err(|why| cannot(&why))?.len();
    if FILE_BYTES_MAX < size {
        return Err(cannot(&format!("it has {size} bytes; the limit is {FILE_BYTES_MAX}")));
    }
    let text = fs::read_to_string(path).map_err(|why| cannot(&why))?;
    file::read(&text).map_err(|all| problems(path, &all))
}

fn problems(path: &Path, all: &[Problem]) -> Failure {
    let lines = all.iter().map(|it| format!("{}:{}: {}.", path.display(), it.line, it.what));
    Failure::usage(lines.collect::<Vec<_>>().join("\n"))
}
