//! `tasuki pipeline …`: phases that roles do one after another on a board.
//!
//! `run` starts one and follows it, `show` shows what there is, `watch` follows one, `decide` ends,
//! resumes, approves and rejects, `check` reads a file and starts nothing.

mod check;
mod decide;
mod run;
mod show;
mod watch;

use std::path::Path;

use tasuki_proto::{host::config::read_settings, wire};

use super::{Failure, subcommands::subcommands};
use crate::pipeline::file::{self, Problem};

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
fn definition(
    file: Option<&Path>,
    read: fn(&str) -> Result<wire::PipelineDefinition, Vec<Problem>>,
) -> Result<wire::PipelineDefinition, Failure> {
    let Some(path) = file else {
        return read(file::DEFAULT).map_err(|all| problems(Path::new("default"), &all));
    };
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("{} cannot be read: {why}.", path.display()))
    };
    let (bytes, _) = read_settings(path).map_err(|why| cannot(&why))?;
    let text = String::from_utf8(bytes).map_err(|why| cannot(&why))?;
    read(&text).map_err(|all| problems(path, &all))
}

fn problems(path: &Path, all: &[Problem]) -> Failure {
    let lines = all.iter().map(|it| format!("{}:{}: {}.", path.display(), it.line, it.what));
    Failure::usage(lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn only_a_plain_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            let why = definition(Some(path), file::read).unwrap_err();
            assert!(format!("{why:?}").contains("it is no plain file"), "{why:?}");
        }
    }
}
