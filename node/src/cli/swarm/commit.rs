//! The commit that work was done at, by its full hash: a branch is another one tomorrow, and a short
//! hash may be another one elsewhere.

use tasuki_proto::{swarm::CommitHash, wire};

use super::{Failure, Output};
use crate::{cli::text::line, repository};

/// What can be run again to see for oneself.
#[derive(Debug, clap::Args)]
pub(super) struct Rerun {
    /// Commit to run tests on again: its hash, or a name that Git knows here, such as HEAD
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
    /// Command to run again there; repeatable
    #[arg(long, value_name = "COMMAND", requires = "commit")]
    command: Vec<String>,
}

impl Rerun {
    /// With the commit's full hash, which is told where another name was given.
    pub(super) fn named(self, output: &mut Output) -> Result<Option<wire::Rerun>, Failure> {
        let Some(given) = self.commit else { return Ok(None) };
        // A full one is asked of nobody.
        let commit = given.parse().or_else(|_| look_up(&given, output))?;
        Ok(Some(wire::Rerun { commit: commit.to_string(), commands: self.command }))
    }
}

fn look_up(name: &str, output: &mut Output) -> Result<CommitHash, Failure> {
    let no = |why: &str| {
        Failure::usage(format!(
            "--commit {name:?} cannot be looked up: {why}. Give the full hash, which `git \
             rev-parse HEAD` prints in the repository. Nothing was sent."
        ))
    };
    let here = std::env::current_dir()
        .map_err(|why| Failure::local(format!("Cannot find the current directory: {why}.")))?;
    let found = repository::commit(&here, name)
        .map_err(|why| no(line(&why.to_string()).trim_end_matches('.')))?;
    let Some(hash) = found.and_then(|it| it.parse().ok()) else {
        return Err(no("the repository of this directory has no such commit, or several"));
    };
    output.note(&format!("{} is commit {hash}.", line(name)));
    Ok(hash)
}
