//! How a run stands, or what came of it, as people, models and programs are told.
//!
//! - **RV1** What has not succeeded is never told as a success, whatever a newer broker calls it.
//! - **RV2** While a run goes on only fixed words, counts and names of agents, runners and nodes are
//!   said of it.
//!
//! Outputs and errors stand as the agents wrote them.
//!
//! Not here: which of their characters may be shown, where it is said.

use std::{borrow::Cow, time::Duration};

use serde_json::{Value, json};
use tasuki_proto::{
    enum_name::enum_name,
    wire::{
        self, RunMode, RunStatus, StepFailure,
        StepStatus::{Canceled, Failed, Lost, Ready, Running, Succeeded, Unspecified, Waiting},
    },
};

use super::convert::{failure_of, joined, plain};
use crate::runner::{
    modes::{
        FinishedRun, RUNNING, RunFailure, chain_progress, chain_text, parallel_progress,
        parallel_text, single_text,
    },
    outcome::FailureKind,
    stream::Output,
};

/// Millionths of a dollar in one.
const MICROS: u64 = 1_000_000;

/// Dollars in millionths, the smallest part of one that counts; `None`: it is no amount.
pub(crate) fn micro_usd(dollars: f64) -> Option<u64> {
    // What a microsecond is to a second, its smallest part is to a dollar.
    let amount = Duration::try_from_secs_f64(dollars).ok()?;
    u64::try_from(amount.as_micros()).ok()
}

/// Of a step whose node was not heard of any more.
const LOST: &str = "The node that ran it is gone; it was not run again.";

/// Of a step whose words the broker did not take.
const WITHOUT_WORDS: &str =
    "The node could not deliver what it wrote: the workspace takes no plain texts.";

/// A run, and the words of its steps as far as they are known.
#[derive(Debug, Clone, PartialEq)]
pub struct RunView {
    pub run: wire::Run,
    pub steps: Vec<wire::GetStepResponse>,
}

/// Why a step did not succeed: of which kind it is, where it has one, and a sentence.
type Failure<'a> = (Option<FailureKind>, Cow<'a, str>);

impl RunView {
    /// The result of a run that is over; of another how far it is.
    pub fn text(&self) -> String {
        if self.run.status() == RunStatus::Running {
            return self.progress();
        }
        let steps = self.run.steps.iter();
        let told = match self.run.mode() {
            // Up to the first that failed.
            RunMode::Chain => {
                steps.clone().take_while(|step| step.status() == Succeeded).count() + 1
            }
            RunMode::Single | RunMode::Parallel | RunMode::Unspecified => steps.len(),
        };
        let steps = steps.take(told).map(|step| (step, self.output(step), self.failure(step)));
        let steps: Vec<_> = steps.collect();
        let runs = steps.iter().map(|(step, output, failure)| FinishedRun {
            agent: &step.agent,
            output,
            failed: failure.as_ref().map(|(kind, text)| RunFailure { kind: *kind, text }),
            run: &self.run.run_id,
            step: step.step,
        });
        let runs: Vec<_> = runs.collect();
        match (self.run.mode(), runs.as_slice()) {
            (RunMode::Single, [run]) => single_text(run),
            (RunMode::Chain, runs) => chain_text(runs),
            (RunMode::Single | RunMode::Parallel | RunMode::Unspecified, runs) => {
                parallel_text(runs)
            }
        }
    }

    /// How far it is, in fixed words.
    pub fn progress(&self) -> String {
        let steps = &self.run.steps;
        let total = steps.len();
        let done = steps.iter().filter(|step| is_over(step)).count();
        let awaited = awaited_node(&self.run);
        match (self.run.mode(), awaited) {
            (RunMode::Single, None) => RUNNING.to_owned(),
            (RunMode::Single, Some(node)) => format!("(waiting for {node}...)"),
            (RunMode::Chain, awaited) => {
                let current = steps.iter().position(|step| !is_over(step));
                let at = current.unwrap_or_else(|| total.saturating_sub(1));
                let agent = steps.get(at).map_or("", |step| step.agent.as_str());
                match awaited {
                    None => chain_progress(at + 1, total, agent),
                    Some(node) => {
                        format!("Chain: Step {}/{total} ({agent}) waiting for {node}...", at + 1)
                    }
                }
            }
            (RunMode::Parallel | RunMode::Unspecified, awaited) => {
                let running = steps.iter().filter(|step| step.status() == Running).count();
                let waiting = awaited.map(|node| format!(" Waiting for {node}."));
                parallel_progress(done, running, total) + &waiting.unwrap_or_default()
            }
        }
    }

    /// Whether it is over and did not succeed: a chain or a single run as a whole, a parallel one
    /// with any of its steps.
    pub fn is_failure(&self) -> bool {
        match self.run.status() {
            RunStatus::Running => false,
            RunStatus::Succeeded => self.run.steps.iter().any(|step| step.status() != Succeeded),
            RunStatus::Failed
            | RunStatus::Canceled
            | RunStatus::Lost
            | RunStatus::OutOfBudget
            | RunStatus::Unspecified => true,
        }
    }

    /// All of it, for a program.
    pub fn value(&self) -> Value {
        json!({
            "output": self.text(),
            "run_id": self.run.run_id,
            "run_mode": enum_name(self.run.mode().as_str_name(), "RUN_MODE_"),
            "status": enum_name(self.run.status().as_str_name(), "RUN_STATUS_"),
            "steps": self.run.steps.iter().map(|step| self.step_value(step)).collect::<Vec<_>>(),
            // Of the run and all below it.
            "usage": usage_value(self.run.usage),
        })
    }

    fn step_value(&self, step: &wire::RunStep) -> Value {
        let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let failure = enum_name(step.failure().as_str_name(), "STEP_FAILURE_");
        let mut value = json!({
            "step": step.step,
            "agent": step.agent,
            "status": enum_name(step.status().as_str_name(), "STEP_STATUS_"),
            "failure": (step.failure() != StepFailure::Unspecified).then_some(failure),
            "error": self.failure(step).map(|(_, text)| text),
            "stop_reason": said(&step.stop_reason),
            "exit_code": step.exit_code,
            "model": said(&step.model),
            "node": said(&step.node),
            "waits_for": step_awaits(&self.run, step),
            "duration_ms": self.duration_ms(step),
            "output_bytes": step.output_bytes,
            "usage": usage_value(step.usage),
        });
        if let Value::Object(fields) = &mut value {
            fields.retain(|_, field| !field.is_null());
        }
        value
    }

    fn output(&self, step: &wire::RunStep) -> Output {
        let parts = self.words(step).map(|words| words.output.as_slice()).unwrap_or_default();
        let text = joined(parts);
        Output { bytes: step.output_bytes.max(text.len() as u64), text }
    }

    fn words(&self, step: &wire::RunStep) -> Option<&wire::GetStepResponse> {
        let is_its = |words: &&wire::GetStepResponse| {
            words.step.as_ref().is_some_and(|other| other.step == step.step)
        };
        self.steps.iter().find(is_its)
    }

    /// `None`: it succeeded, or goes on.
    fn failure(&self, step: &wire::RunStep) -> Option<Failure<'_>> {
        let said = self.words(step).map_or("", |words| plain(words.error.as_ref())).trim();
        let (kind, status) = (failure_of(step), self.run.status());
        Some(match step.status() {
            Succeeded => return None,
            Waiting | Ready | Running | Unspecified if status == RunStatus::Running => return None,
            Waiting | Ready | Running | Unspecified => (kind, "How it ended is not known.".into()),
            Lost => (kind, LOST.into()),
            Canceled if step.started_ms != 0 => (kind, "Canceled.".into()),
            Canceled if status == RunStatus::OutOfBudget => {
                let text = format!("Not started: the budget is used up{}.", self.spent());
                (Some(FailureKind::Budget), text.into())
            }
            Canceled => (kind, "Canceled before it began.".into()),
            Failed if !said.is_empty() => (kind, said.into()),
            Failed if kind == Some(FailureKind::Budget) => {
                (kind, format!("Stopped: the budget is used up{}.", self.spent()).into())
            }
            // A node says why it refuses, if it can.
            Failed if step.failure() == StepFailure::Refused && self.words(step).is_some() => {
                (kind, WITHOUT_WORDS.into())
            }
            Failed => (kind, "No reason is known.".into()),
        })
    }

    /// The run's own limits that are reached, for a sentence: a limit of a run above it is not
    /// known here.
    fn spent(&self) -> String {
        let usage = self.run.usage.unwrap_or_default();
        let wire::RunBudget { max_cost_microusd: cost, max_turns: turns, .. } =
            self.run.budget.unwrap_or_default();
        let is_reached = |limit: u64, used: u64| limit != 0 && limit <= used;
        let cost = is_reached(cost, usage.cost_microusd)
            .then(|| format!("max_cost {} USD", dollars(cost)));
        let turns = is_reached(turns, usage.turns).then(|| format!("max_turns {turns}"));
        let limits: Vec<String> = cost.into_iter().chain(turns).collect();
        if limits.is_empty() { String::new() } else { format!(" ({})", limits.join(", ")) }
    }

    /// How long it ran; so far, if it still does.
    fn duration_ms(&self, step: &wire::RunStep) -> Option<u64> {
        let end = if step.ended_ms == 0 { self.words(step)?.now_ms } else { step.ended_ms };
        end.checked_sub(step.started_ms).filter(|_| step.started_ms != 0)
    }
}

/// The node that a run waits for while none of its steps runs: see [`step_awaits`].
pub fn awaited_node(run: &wire::Run) -> Option<String> {
    let is_idle = run.steps.iter().all(|step| step.status() != Running);
    run.steps.iter().filter(|_| is_idle).find_map(|step| step_awaits(run, step))
}

/// The node that a step waits for whose turn has come, for a sentence: `a free place on a node that
/// runs pi and is, or has the label, gpu`. It may be away, busy, or not there at all. `None`: it waits
/// for no node.
pub fn step_awaits(run: &wire::Run, step: &wire::RunStep) -> Option<String> {
    if step.status() != Ready {
        return None;
    }
    let place = match (step.on.as_str(), run.node.as_str()) {
        ("", "") => String::new(),
        // Of whoever asked for it.
        ("", own) => format!(" and is {own}"),
        (on, _) => format!(" and is, or has the label, {on}"),
    };
    Some(format!("a free place on a node that runs {}{place}", step.runner))
}

fn usage_value(usage: Option<wire::RunUsage>) -> Value {
    let usage = usage.unwrap_or_default();
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "context_tokens": usage.context_tokens,
        "turns": usage.turns,
        "cost_usd": dollars(usage.cost_microusd).parse::<f64>().unwrap_or_default(),
    })
}

fn is_over(step: &wire::RunStep) -> bool {
    match step.status() {
        Succeeded | Failed | Canceled | Lost => true,
        Unspecified | Waiting | Ready | Running => false,
    }
}

/// Dollars as a decimal number without zeros at its end.
fn dollars(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / MICROS, micros % MICROS);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
