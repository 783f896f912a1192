//! `tasuki man-pages`: the manual of every command, for packages.

use std::{fs, path::PathBuf};

use super::{Failure, Output};

/// Write a man page for every command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory for the pages; it is created if missing
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(args: &Args, command: clap::Command, output: &mut Output) -> Result<(), Failure> {
    let dir = &args.dir;
    let written = fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(command, dir));
    written.map_err(|why| Failure::local(format!("Cannot write to {}: {why}.", dir.display())))?;
    output.guide(|| format!("Man pages are in {}.\n", dir.display()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let args = Args { dir: dir.path().join("man1") };
        run(&args, Cli::command(), &mut Output::of_process(true)).unwrap();
        for page in ["tasuki", "tasuki-up", "tasuki-task-claim", "tasuki-mail-send"] {
            let text = fs::read_to_string(args.dir.join(format!("{page}.1"))).unwrap();
            assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
        }
    }
}
