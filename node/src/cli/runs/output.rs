//! `tasuki runs output`, and what a step wrote as `tasuki run` prints it.
//!
//! The broker keeps the beginning of a long output. The rest is a file of the node that ran the step,
//! which is read where that is this machine's.

use std::{
    fs::File,
    io::{self, Read},
};

use serde_json::json;
use tasuki_proto::wire::{self, RunMode};

use super::{Failure, Output, client, labels, list::RunName};
use crate::{
    cli::{
        broker::Broker,
        text::{block, is_terminal, line},
    },
    config::Config,
    counted::counted,
    identity::Identity,
    runs::convert,
};

/// Read at once.
const CHUNK_BYTES: u64 = 64 * 1024;

/// The longest output that is one JSON text, in bytes; of a longer one programs get the beginning.
const JSON_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Print all that a step wrote.
///
/// A node that ran a step keeps what is longer than 1 MiB. From other machines the beginning can be
/// read, and it is said where the rest is. With --json each step is one line.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run whose output to print
    #[arg(value_name = "RUN")]
    run: RunName,
    /// Number of a step, from 1 [default: the last that began; in a parallel run all]
    #[arg(value_name = "STEP", value_parser = clap::value_parser!(u32).range(1..))]
    step: Option<u32>,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let run_id = args.run.find(&broker).await?;
    let numbers = match args.step {
        Some(step) => vec![step],
        None => usual_steps(&client::get(&broker, &run_id).await?.0),
    };
    for number in &numbers {
        let step = client::step(&broker, &run_id, *number).await?;
        if let (Some(known), true) = (&step.step, 1 < numbers.len()) {
            output.guide(|| format!("==> {number} {} <==\n", line(&known.agent)))?;
        }
        print_output(config, &run_id, &step, output)?;
    }
    Ok(())
}

/// The steps whose output is that of the run.
fn usual_steps(run: &wire::Run) -> Vec<u32> {
    match run.mode() {
        RunMode::Parallel | RunMode::Unspecified => run.steps.iter().map(|it| it.step).collect(),
        RunMode::Single | RunMode::Chain => {
            let began = run.steps.iter().rev().find(|it| it.started_ms != 0);
            began.or_else(|| run.steps.first()).map(|it| it.step).into_iter().collect()
        }
    }
}

/// Prints what a step wrote, as far as it can be read from here, and says where the rest is.
pub(in crate::cli) fn print_output(
    config: &Config,
    run_id: &str,
    words: &wire::GetStepResponse,
    output: &mut Output,
) -> Result<(), Failure> {
    let step = words.step.clone().unwrap_or_default();
    let is_cut = step.output_kept < step.output_bytes;
    let from: Box<dyn Read> = match whole_output(config, run_id, &step).filter(|_| is_cut) {
        Some(file) => Box::new(file),
        None => {
            let kept = words.output.iter().map(|part| convert::plain(Some(part)));
            Box::new(io::Cursor::new(kept.collect::<String>()))
        }
    };
    if output.is_json() {
        let mut text = String::new();
        copy(from.take(JSON_BYTES_MAX), |part| {
            text.push_str(part);
            Ok(())
        })?;
        let mut value = json!(step);
        value["run_id"] = run_id.into();
        value["is_whole"] = (step.output_bytes <= text.len() as u64).into();
        value["output"] = text.into();
        return output.answer(|| value, String::new);
    }
    let shown = print(from, output)?;
    let (run_id, number) = (line(run_id), step.step);
    if shown < step.output_bytes {
        let (node, all) = (line(&step.node), counted(step.output_bytes, "byte"));
        let rest = match is_own(config, &step) {
            true => "The rest was not kept.".to_owned(),
            false => format!(
                "The rest is on {node}, if it is still there: `tasuki runs output {run_id} \
                 {number}` prints it on that machine."
            ),
        };
        output.note(&format!("These are the first {shown} of {all}. {rest}"));
    } else if step.ended_ms == 0 {
        output.note(&format!(
            "Step {number} is {}; its output is there once it has ended. `tasuki runs watch \
             {run_id}` follows it.",
            labels::step_status(&step)
        ));
    }
    Ok(())
}

/// Whether this machine's node ran it.
fn is_own(config: &Config, step: &wire::RunStep) -> bool {
    let own = Identity::known(&config.data.value).ok().flatten();
    own.is_some_and(|own| own.to_string() == step.node)
}

/// The file with all that a step wrote, if its node is this machine's and it is still there.
#[cfg(unix)]
fn whole_output(config: &Config, run_id: &str, step: &wire::RunStep) -> Option<File> {
    use tasuki_proto::run::StepId;

    use crate::{cli::runs_setup::RUNS_FOLDER, runs::worker::output_file};

    if !is_own(config, step) {
        return None;
    }
    let data = &config.data.value;
    let id = StepId { run: run_id.parse().ok()?, number: step.step };
    File::open(output_file(&data.join(RUNS_FOLDER), id)).ok()
}

/// Steps run on Unix alone.
#[cfg(not(unix))]
fn whole_output(_config: &Config, _run_id: &str, _step: &wire::RunStep) -> Option<File> {
    None
}

/// Prints an output; it ends with a line break. Programs and files get it as it is, a terminal what
/// cannot harm it. Returns its length in bytes.
pub(in crate::cli) fn print(from: impl Read, output: &mut Output) -> Result<u64, Failure> {
    let for_people = is_terminal();
    let (mut bytes, mut is_ended) = (0, true);
    copy(from, |part| {
        bytes += part.len() as u64;
        is_ended = part.ends_with('\n');
        if for_people { output.raw(&block(part)) } else { output.raw(part) }
    })?;
    if !is_ended {
        output.raw("\n")?;
    }
    Ok(bytes)
}

/// Hands on a text in parts, each of whole characters. What is no UTF-8 is replaced.
fn copy(
    mut from: impl Read,
    mut write: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let unread = |why: io::Error| Failure::local(format!("The output cannot be read: {why}."));
    let mut bytes = Vec::new();
    loop {
        let read = from.by_ref().take(CHUNK_BYTES).read_to_end(&mut bytes).map_err(unread)?;
        let end = match std::str::from_utf8(&bytes) {
            // The rest of a character may follow.
            Err(why) if why.error_len().is_none() && read != 0 => why.valid_up_to(),
            Ok(_) | Err(_) => bytes.len(),
        };
        let rest = bytes.split_off(end);
        if !bytes.is_empty() {
            write(&String::from_utf8_lossy(&bytes))?;
        }
        if read == 0 {
            return Ok(());
        }
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_read_in_parts_of_whole_characters() {
        let mut text = "日本語".repeat(20_000);
        let mut parts = Vec::new();
        let mut keep = |part: &str| {
            parts.push(part.to_owned());
            Ok(())
        };
        copy(text.as_bytes(), &mut keep).unwrap();
        assert!(parts.len() > 1 && parts.concat() == text, "{} parts", parts.len());
        text.truncate(3);
        let broken = [text.as_bytes(), b"\xff", b"ok", &"ü".as_bytes()[..1]].concat();
        let mut all = String::new();
        copy(broken.as_slice(), |part| {
            all.push_str(part);
            Ok(())
        })
        .unwrap();
        assert_eq!(all, "日\u{fffd}ok\u{fffd}");
    }

    #[test]
    fn the_output_of_a_run_is_that_of_its_last_step_or_of_all() {
        let step =
            |number, started_ms| wire::RunStep { step: number, started_ms, ..Default::default() };
        let of = |mode: RunMode, steps: &[(u32, u64)]| {
            let steps = steps.iter().map(|(number, at)| step(*number, *at)).collect();
            usual_steps(&wire::Run { mode: mode.into(), steps, ..Default::default() })
        };
        assert_eq!(of(RunMode::Single, &[(1, 0)]), [1]);
        assert_eq!(of(RunMode::Chain, &[(1, 5), (2, 6), (3, 0)]), [2]);
        assert_eq!(of(RunMode::Parallel, &[(1, 5), (2, 0)]), [1, 2]);
    }
}
