//! How a run stands, or what came of it, as people, models and programs are told.
//!
//! - **RV1** What has not succeeded is never told as a success, whatever a newer broker calls it.
//! - **RV2** While a run goes on only fixed words, counts and names of agents are said of it.
//!
//! Outputs and errors stand as the agents wrote them.
//!
//! Not here: which of their characters may be shown, where it is said.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};
use tasuki_proto::wire::{
    self, RunMode, RunStatus, StepFailure,
    StepStatus::{Canceled, Failed, Lost, Ready, Running, Succeeded, Unspecified, Waiting},
};

use super::convert::{failure_of, plain};
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

/// Of a step whose node was not heard of any more.
const LOST: &str = "The node that ran it is gone; it was not run again.";

/// A run, and the words of its steps as far as they are known.
#[derive(Debug, Clone, PartialEq)]
pub struct RunView {
    pub run: wire::Run,
    pub steps: Vec<wire::GetStepResponse>,
}

/// What a program is told of a run. The output is the first field.
#[derive(Debug, Serialize)]
pub struct RunReport<'a> {
    output: String,
    run_id: &'a str,
    run_mode: String,
    status: String,
    steps: Vec<StepReport<'a>>,
    /// Of the run and all below it.
    usage: UsageReport,
}

#[derive(Debug, Serialize)]
struct StepReport<'a> {
    step: u32,
    agent: &'a str,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    stop_reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    node: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    output_bytes: u64,
    usage: UsageReport,
}

#[derive(Debug, Serialize)]
struct UsageReport {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    context_tokens: u64,
    turns: u64,
    cost_usd: f64,
}

impl From<wire::RunUsage> for UsageReport {
    fn from(usage: wire::RunUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            context_tokens: usage.context_tokens,
            turns: usage.turns,
            cost_usd: dollars(usage.cost_microusd).parse().unwrap_or_default(),
        }
    }
}

/// Why a step did not succeed.
struct Failure<'a> {
    kind: Option<FailureKind>,
    text: Cow<'a, str>,
}

/// A step that is over, or will never begin.
struct FinishedStep<'a> {
    agent: &'a str,
    output: Output,
    failure: Option<Failure<'a>>,
}

impl RunView {
    /// The result of a run that is over; of another how far it is.
    pub fn text(&self) -> String {
        if self.run.status() == RunStatus::Running {
            return self.progress();
        }
        let steps = self.finished();
        let runs: Vec<_> = steps.iter().map(|step| step.shown(&self.run.run_id)).collect();
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
        match self.run.mode() {
            RunMode::Single => RUNNING.to_owned(),
            RunMode::Chain => {
                let current = steps.iter().position(|step| !is_over(step));
                let at = current.unwrap_or_else(|| total.saturating_sub(1));
                let agent = steps.get(at).map_or("", |step| step.agent.as_str());
                chain_progress(at + 1, total, agent)
            }
            RunMode::Parallel | RunMode::Unspecified => {
                let running = steps.iter().filter(|step| step.status() == Running).count();
                parallel_progress(done, running, total)
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

    /// All of it, for a program that reads the fields in their order.
    pub fn report(&self) -> RunReport<'_> {
        RunReport {
            output: self.text(),
            run_id: &self.run.run_id,
            run_mode: name(self.run.mode().as_str_name(), "RUN_MODE_"),
            status: name(self.run.status().as_str_name(), "RUN_STATUS_"),
            steps: self.run.steps.iter().map(|step| self.report_step(step)).collect(),
            usage: self.run.usage.unwrap_or_default().into(),
        }
    }

    /// The same as a value, whose fields have no order of their own.
    pub fn value(&self) -> Value {
        serde_json::to_value(self.report())
            .unwrap_or_else(|error| json!({"unreadable": error.to_string()}))
    }

    fn report_step<'a>(&'a self, step: &'a wire::RunStep) -> StepReport<'a> {
        let failure = step.failure();
        let is_named = failure != StepFailure::Unspecified;
        StepReport {
            step: step.step,
            agent: &step.agent,
            status: name(step.status().as_str_name(), "STEP_STATUS_"),
            failure: is_named.then(|| name(failure.as_str_name(), "STEP_FAILURE_")),
            error: self.failure(step).map(|failure| failure.text),
            stop_reason: &step.stop_reason,
            exit_code: step.exit_code,
            model: &step.model,
            node: &step.node,
            duration_ms: self.duration_ms(step),
            output_bytes: step.output_bytes,
            usage: step.usage.unwrap_or_default().into(),
        }
    }

    /// Its steps that have something to tell: of a chain those up to the first that failed.
    fn finished(&self) -> Vec<FinishedStep<'_>> {
        let steps = &self.run.steps;
        let told = match self.run.mode() {
            RunMode::Chain => {
                steps.iter().take_while(|step| step.status() == Succeeded).count() + 1
            }
            RunMode::Single | RunMode::Parallel | RunMode::Unspecified => steps.len(),
        };
        steps.iter().take(told).map(|step| self.finish(step)).collect()
    }

    fn finish<'a>(&'a self, step: &'a wire::RunStep) -> FinishedStep<'a> {
        let parts = self.words(step).map(|words| words.output.as_slice()).unwrap_or_default();
        let text: String = parts.iter().map(|part| plain(Some(part))).collect();
        let bytes = step.output_bytes.max(text.len() as u64);
        FinishedStep {
            agent: &step.agent,
            output: Output { text, bytes },
            failure: self.failure(step),
        }
    }

    fn words(&self, step: &wire::RunStep) -> Option<&wire::GetStepResponse> {
        let is_its = |words: &&wire::GetStepResponse| {
            words.step.as_ref().is_some_and(|other| other.step == step.step)
        };
        self.steps.iter().find(is_its)
    }

    /// `None`: it succeeded, or goes on.
    fn failure(&self, step: &wire::RunStep) -> Option<Failure<'_>> {
        let kind = failure_of(step);
        let is_open = self.run.status() == RunStatus::Running;
        match step.status() {
            Succeeded => None,
            Lost => Some(Failure { kind, text: LOST.into() }),
            Canceled if step.started_ms != 0 => Some(Failure { kind, text: "Canceled.".into() }),
            Canceled if self.run.status() == RunStatus::OutOfBudget => {
                let text = format!("Not started: the budget is used up{}.", self.spent());
                Some(Failure { kind: Some(FailureKind::Budget), text: text.into() })
            }
            Canceled => Some(Failure { kind, text: "Canceled before it began.".into() }),
            Failed => {
                let said = self.words(step).map_or("", |words| plain(words.error.as_ref()));
                let text = match (said.trim(), kind) {
                    ("", Some(FailureKind::Budget)) => {
                        format!("Stopped: the budget is used up{}.", self.spent()).into()
                    }
                    ("", Some(_) | None) => "No reason is known.".into(),
                    (said, _) => said.into(),
                };
                Some(Failure { kind, text })
            }
            Waiting | Ready | Running | Unspecified if is_open => None,
            Waiting | Ready | Running | Unspecified => {
                let text = "How it ended is not known.".into();
                Some(Failure { kind, text })
            }
        }
    }

    /// The run's own limits that are reached, for a sentence: a limit of a run above it is not
    /// known here.
    fn spent(&self) -> String {
        let budget = self.run.budget.unwrap_or_default();
        let usage = self.run.usage.unwrap_or_default();
        let is_reached = |used: u64, limit: u64| limit != 0 && limit <= used;
        let mut limits = Vec::new();
        if is_reached(usage.cost_microusd, budget.max_cost_microusd) {
            limits.push(format!("max_cost {} USD", dollars(budget.max_cost_microusd)));
        }
        if is_reached(usage.turns, budget.max_turns) {
            limits.push(format!("max_turns {}", budget.max_turns));
        }
        if limits.is_empty() { String::new() } else { format!(" ({})", limits.join(", ")) }
    }

    /// How long it ran; so far, if it still does.
    fn duration_ms(&self, step: &wire::RunStep) -> Option<u64> {
        let end = match step.ended_ms {
            0 => self.words(step)?.now_ms,
            ended => ended,
        };
        let is_known = step.started_ms != 0 && step.started_ms <= end;
        is_known.then(|| end.saturating_sub(step.started_ms))
    }
}

impl FinishedStep<'_> {
    fn shown<'a>(&'a self, run: &'a str) -> FinishedRun<'a> {
        let failed = self.failure.as_ref();
        FinishedRun {
            agent: self.agent,
            output: &self.output,
            failed: failed.map(|failure| RunFailure { kind: failure.kind, text: &failure.text }),
            run,
        }
    }
}

fn is_over(step: &wire::RunStep) -> bool {
    match step.status() {
        Succeeded | Failed | Canceled | Lost => true,
        Unspecified | Waiting | Ready | Running => false,
    }
}

/// The name of a value of an enum of the API, as programs read it.
fn name(value: &str, prefix: &str) -> String {
    value.strip_prefix(prefix).unwrap_or(value).to_ascii_lowercase()
}

/// Dollars as a decimal number without zeros at its end.
fn dollars(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / MICROS, micros % MICROS);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
