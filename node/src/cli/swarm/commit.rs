//! The commit that work was done at, by its full hash: a branch is another one tomorrow, and a short
//! hash may be another one elsewhere.

use tasuki_proto::wire;

use super::{Failure, Output};
use crate::{cli::text::line, repository};

/// Digits of a commit's full hash: SHA-1 and SHA-256.
const DIGITS: [usize; 2] = [40, 64];

/// What can be run again to see for oneself.
#[derive(Debug, clap::Args)]
pub(super) struct Rerun {
    /// The commit to run tests on again: its hash, or what Git calls it here, such as HEAD
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
    /// A command to run again there; repeat for each
    #[arg(long, value_name = "COMMAND", requires = "commit")]
    command: Vec<String>,
}

impl Rerun {
    /// With the commit's full hash, which is told where another name was given.
    pub(super) fn named(self, output: &mut Output) -> Result<Option<wire::Rerun>, Failure> {
        let Some(given) = self.commit else { return Ok(None) };
        let commit = if is_full(&given) { given } else { look_up(&given, output)? };
        Ok(Some(wire::Rerun { commit, commands: self.command }))
    }
}

fn is_full(text: &str) -> bool {
    let is_digit = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
    DIGITS.contains(&text.len()) && text.bytes().all(is_digit)
}

fn look_up(name: &str, output: &mut Output) -> Result<String, Failure> {
    let no = |why: &str| {
        Failure::usage(format!(
            "--commit {name:?} cannot be looked up: {why}. Give the full hash, which `git \
             rev-parse HEAD` prints in the repository. Nothing was sent."
        ))
    };
    let here = std::env::current_dir()
        .map_err(|why| Failure::local(format!("This directory cannot be told: {why}.")))?;
    match repository::commit(&here, name) {
        Ok(Some(hash)) if is_full(&hash) => {
            output.note(&format!("{} is commit {hash}.", line(name)));
            Ok(hash)
        }
        Ok(_) => Err(no("the repository of this directory has no such commit, or several")),
        Err(why) => Err(no(line(&why.to_string()).trim_end_matches('.'))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_hash_is_asked_of_nobody() {
        let (short, long) = ("0123456789abcdef0123456789abcdef01234567", "ab".repeat(32));
        assert!(is_full(short) && is_full(&long));
        for it in ["HEAD", "", "0123456", &short[..39], &short.to_uppercase(), "-x", "main~1"] {
            assert!(!is_full(it), "{it}");
        }
    }
}
