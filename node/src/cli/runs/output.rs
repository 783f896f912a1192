//! `tasuki runs output`, and what a step wrote as `tasuki run` prints it.
//!
//! The broker keeps the beginning of a long output. The rest is a file of the node that ran the step:
//! of this machine's it is read at once, of another's by way of the broker.

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
};

use serde_json::json;
use tasuki_proto::{
    counted::counted,
    limits::OUTPUT_READ_BYTES_MAX,
    reason::Reason,
    wire::{self, RunMode},
};

use super::{Failure, Output, client, file, labels, list::RunName};
use crate::{
    cli::{
        broker::Broker,
        text::{block, is_terminal, line},
    },
    config::Config,
    identity::Identity,
    runs::{convert::joined, output::Rest},
};

/// Read at once.
const CHUNK_BYTES: u64 = 64 * 1024;

/// The longest output that is one JSON text, in bytes; of a longer one programs get the beginning.
const JSON_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Print all that a step wrote, or a file that it handed over.
///
/// Of what is longer than 1 MiB the rest is on the node that ran the step. While that node is not
/// connected, other machines print the beginning and where the rest is. With --json each step is one
/// line.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run whose output to print
    #[arg(value_name = "RUN")]
    run: RunName,
    /// Number of a step, from 1 [default: the last that began; in a parallel run all]
    #[arg(value_name = "STEP", value_parser = clap::value_parser!(u32).range(1..))]
    step: Option<u32>,
    /// Print the file of this message; `tasuki runs show` lists them
    #[arg(
        long,
        value_name = "NUMBER",
        conflicts_with = "step",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    message: Option<u32>,
    /// Write the file here instead; existing files are not overwritten
    #[arg(long, value_name = "FILE", requires = "message")]
    out: Option<PathBuf>,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let run_id = args.run.find(&broker).await?;
    if let Some(message) = args.message {
        return file::hand_out(&broker, &run_id, message, args.out.as_deref(), output).await;
    }
    let numbers = match args.step {
        Some(step) => vec![step],
        None => usual_steps(&client::get(&broker, &run_id).await?.0),
    };
    for number in &numbers {
        let step = client::step(&broker, &run_id, *number).await?;
        if let (Some(known), true) = (&step.step, 1 < numbers.len()) {
            output.guide(|| format!("==> {number} {} <==\n", line(&known.agent)))?;
        }
        print_output(&broker, config, &run_id, &step, output).await?;
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
pub(in crate::cli) async fn print_output(
    broker: &Broker,
    config: &Config,
    run_id: &str,
    words: &wire::GetStepResponse,
    output: &mut Output,
) -> Result<(), Failure> {
    let step = words.step.clone().unwrap_or_default();
    let kept = joined(&words.output);
    let from = Source { broker, config, run_id, step: &step, kept: &kept };
    if output.is_json() {
        let mut text = String::new();
        let mut whole = Characters::new(|part: &str| {
            text.push_str(part);
            Ok(())
        });
        from.read(JSON_BYTES_MAX, &mut whole).await?;
        let mut value = json!(step);
        value["run_id"] = run_id.into();
        value["is_whole"] = (step.output_bytes <= text.len() as u64).into();
        value["output"] = text.into();
        return output.answer(|| value, String::new);
    }
    let mut printer = Printer::new(output);
    let mut whole = Characters::new(|part: &str| printer.print(part));
    let is_away = from.read(u64::MAX, &mut whole).await?;
    let shown = printer.end()?;
    let (run_id, number) = (line(run_id), step.step);
    if shown < step.output_bytes {
        let (node, all) = (line(&step.node), counted(step.output_bytes, "byte"));
        let these = format!("These are the first {shown} of {all}.");
        // Programs are not to take a part for the whole.
        if is_away {
            return Err(Failure::reason(
                Reason::Unavailable,
                format!(
                    "{these} The rest is on {node}: `tasuki runs output {run_id} {number}` prints \
                     all of it while that node is connected."
                ),
            ));
        }
        output.note(&format!("{these} The rest was not kept."));
    } else if step.ended_ms == 0 {
        output.note(&format!(
            "Step {number} is {}; its output is there once it has ended. `tasuki runs watch \
             {run_id}` follows it.",
            labels::step_status(&step)
        ));
    }
    Ok(())
}

/// All that there is of an output.
struct Source<'a> {
    broker: &'a Broker,
    config: &'a Config,
    run_id: &'a str,
    step: &'a wire::RunStep,
    /// By the broker.
    kept: &'a str,
}

impl Source<'_> {
    /// Hands on up to so many bytes. Says whether the rest is on a node that is away.
    async fn read<W>(&self, most: u64, to: &mut Characters<W>) -> Result<bool, Failure>
    where
        W: FnMut(&str) -> Result<(), Failure>,
    {
        let step = self.step;
        let is_cut = step.output_kept < step.output_bytes;
        let own = whole_output(self.config, self.run_id, step).filter(|_| is_cut);
        if let Some(file) = own {
            copy(file.take(most), to)?;
            to.end()?;
            return Ok(false);
        }
        to.take(self.kept.as_bytes())?;
        let (mut is_away, mut offset) = (false, self.kept.len() as u64);
        let is_elsewhere = is_cut && !is_own(self.config, step);
        while is_elsewhere && offset < step.output_bytes.min(most) {
            match self.rest(offset).await? {
                Rest::Part(part) => {
                    offset += part.len() as u64;
                    to.take(&part)?;
                }
                Rest::Gone => break,
                Rest::Away => {
                    is_away = true;
                    break;
                }
            }
        }
        to.end()?;
        Ok(is_away)
    }

    async fn rest(&self, offset: u64) -> Result<Rest, Failure> {
        let (run_id, step) = (self.run_id.to_owned(), self.step.step);
        let limit = OUTPUT_READ_BYTES_MAX;
        let request = wire::ReadOutputRequest { caller: None, run_id, step, offset, limit };
        self.broker.call(&request).await.map(Rest::answered)
    }
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
/// cannot harm it.
pub(in crate::cli) fn print(from: impl Read, output: &mut Output) -> Result<(), Failure> {
    let mut printer = Printer::new(output);
    let mut whole = Characters::new(|part: &str| printer.print(part));
    copy(from, &mut whole)?;
    whole.end()?;
    printer.end().map(drop)
}

/// The same of parts as they come.
struct Printer<'a> {
    output: &'a mut Output,
    for_people: bool,
    bytes: u64,
    is_ended: bool,
}

impl<'a> Printer<'a> {
    fn new(output: &'a mut Output) -> Self {
        Self { output, for_people: is_terminal(), bytes: 0, is_ended: true }
    }

    fn print(&mut self, part: &str) -> Result<(), Failure> {
        self.bytes += part.len() as u64;
        self.is_ended = part.ends_with('\n');
        if self.for_people { self.output.raw(&block(part)) } else { self.output.raw(part) }
    }

    /// Returns how many bytes there were.
    fn end(self) -> Result<u64, Failure> {
        if !self.is_ended {
            self.output.raw("\n")?;
        }
        Ok(self.bytes)
    }
}

/// Hands on a text that comes in parts, as whole characters. What is no UTF-8 is replaced.
struct Characters<W> {
    /// Of a character whose rest may follow.
    cut: Vec<u8>,
    write: W,
}

impl<W: FnMut(&str) -> Result<(), Failure>> Characters<W> {
    fn new(write: W) -> Self {
        Self { cut: Vec::new(), write }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.cut.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.cut) {
            Err(why) if why.error_len().is_none() => why.valid_up_to(),
            Ok(_) | Err(_) => self.cut.len(),
        };
        self.hand_on(whole)
    }

    /// Nothing follows.
    fn end(&mut self) -> Result<(), Failure> {
        self.hand_on(self.cut.len())
    }

    fn hand_on(&mut self, bytes: usize) -> Result<(), Failure> {
        let rest = self.cut.split_off(bytes);
        let whole = std::mem::replace(&mut self.cut, rest);
        if whole.is_empty() { Ok(()) } else { (self.write)(&String::from_utf8_lossy(&whole)) }
    }
}

fn copy<W>(mut from: impl Read, to: &mut Characters<W>) -> Result<(), Failure>
where
    W: FnMut(&str) -> Result<(), Failure>,
{
    let unread = |why: io::Error| Failure::local(format!("The output cannot be read: {why}."));
    let mut bytes = Vec::new();
    while from.by_ref().take(CHUNK_BYTES).read_to_end(&mut bytes).map_err(unread)? != 0 {
        to.take(&bytes)?;
        bytes.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_read_in_parts_of_whole_characters() {
        let mut text = "日本語".repeat(20_000);
        let mut parts = Vec::new();
        let mut whole = Characters::new(|part: &str| {
            parts.push(part.to_owned());
            Ok(())
        });
        copy(text.as_bytes(), &mut whole).unwrap();
        whole.end().unwrap();
        assert!(parts.len() > 1 && parts.concat() == text, "{} parts", parts.len());
        text.truncate(3);
        let broken = [text.as_bytes(), b"\xff", b"ok", &"ü".as_bytes()[..1]].concat();
        let mut all = String::new();
        let mut whole = Characters::new(|part: &str| {
            all.push_str(part);
            Ok(())
        });
        copy(broken.as_slice(), &mut whole).unwrap();
        whole.end().unwrap();
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
