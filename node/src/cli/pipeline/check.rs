//! `tasuki pipeline check`.

use std::{path::PathBuf, time::Duration};

use serde_json::json;
use tasuki_proto::{pipeline::Definition, wire};

use super::definition;
use crate::{
    cli::{Failure, Output},
    config::{Config, duration_text},
    pipeline::{PhaseSpec, file},
};

/// Check a pipeline's file: print what it would do, or what is wrong, by line.
///
/// Starts nothing and asks no broker: channels are those of the file's schema, or of a new board.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct Args {
    /// File of the pipeline [default: plan, code, test, review]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

pub(super) async fn run(args: Args, _: &Config, output: &mut Output) -> Result<(), Failure> {
    let read = definition(args.file.as_deref(), file::read_for_new_board)?;
    let whole = Definition::read(&read).map_err(|_| Failure::usage("The file does not work."))?;
    let whole = whole.write(&read.schema);
    output.answer(|| json!(whole), || described(&whole))
}

/// What a pipeline does, for people: a line for each phase.
pub(super) fn described(it: &wire::PipelineDefinition) -> String {
    let phases = it.phases.iter().map(|phase| {
        let mut line = format!("{:<12} {}: {}", phase.name, phase.role, does(&phase.spec));
        if !phase.approves.is_empty() {
            line += &format!(", approves {}", phase.approves);
        }
        if phase.approval_ms != 0 {
            let within = duration_text(Duration::from_millis(phase.approval_ms));
            line += &format!(", then a person approves within {within}");
        }
        let next = if phase.next.is_empty() { "end" } else { &phase.next };
        let timeout = duration_text(Duration::from_millis(phase.timeout_ms));
        format!("{line}; at most {timeout}; then {next}, on failure {}\n", phase.on_failure)
    });
    let phases: String = phases.collect();
    format!("{phases}At most {} times back.\n", it.max_retries)
}

fn does(work: &str) -> String {
    match PhaseSpec::read(work) {
        Ok(PhaseSpec { service: Some(name), .. }) => format!("service {name}"),
        Ok(PhaseSpec { agent: Some(name), .. }) => format!("agent {name}"),
        Ok(_) | Err(_) => "something that this release does not know".to_owned(),
    }
}
