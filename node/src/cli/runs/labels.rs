//! States of runs and steps, and what they used, as people read them.

use std::collections::BTreeSet;

use tasuki_proto::{
    counted::counted,
    wire::{self, StepStatus},
};

use crate::cli::{
    labels::{enum_name, long, spaced},
    text::line,
};

/// Millionths of a dollar in the smallest part that is shown, and how many of these a dollar has.
const MICROS_PER_SHOWN: u64 = 100;
const SHOWN_PER_USD: u64 = 10_000;

pub(super) fn mode(of: &wire::Run) -> String {
    enum_name(of.mode().as_str_name(), "RUN_MODE_")
}

pub(super) fn run_status(of: &wire::Run) -> String {
    match of.is_stopping {
        true => "stopping".to_owned(),
        false => spaced(&enum_name(of.status().as_str_name(), "RUN_STATUS_"), " "),
    }
}

/// How a step stands, with the kind of its failure: `failed (rate_limited)`.
pub(super) fn step_status(of: &wire::RunStep) -> String {
    match of.status() {
        StepStatus::Failed => {
            format!("failed ({})", enum_name(of.failure().as_str_name(), "STEP_FAILURE_"))
        }
        // No node has it yet.
        StepStatus::Ready => "waiting".to_owned(),
        // One that never began has nothing to be ended.
        StepStatus::Canceled if of.started_ms == 0 => "not started".to_owned(),
        other @ (StepStatus::Unspecified
        | StepStatus::Waiting
        | StepStatus::Running
        | StepStatus::Succeeded
        | StepStatus::Canceled
        | StepStatus::Lost) => enum_name(other.as_str_name(), "STEP_STATUS_"),
    }
}

/// How long a step runs, or ran; nothing for one that never began.
pub(super) fn elapsed(of: &wire::RunStep, now_ms: u64) -> Option<String> {
    let until = if of.ended_ms == 0 { now_ms } else { of.ended_ms };
    (of.started_ms != 0).then(|| long(until.saturating_sub(of.started_ms)))
}

/// A file of a message, and how it is had.
pub(super) fn file(run_id: &str, message: u32, of: &wire::RunFile) -> String {
    let (run_id, name, size) = (line(run_id), line(&of.name), counted(of.size, "byte"));
    format!("{name}, {size}: tasuki runs output {run_id} --message {message}")
}

/// Turns, tokens and cost, as far as there are any.
pub(super) fn usage(of: Option<wire::RunUsage>) -> [Option<String>; 3] {
    let of = of.unwrap_or_default();
    let tokens = [of.input_tokens, of.output_tokens, of.cache_read_tokens, of.cache_write_tokens];
    let tokens = tokens.into_iter().fold(0, u64::saturating_add);
    [
        unless_0(of.turns, |it| counted(it, "turn")),
        unless_0(tokens, |it| format!("{} tokens", rounded(it))),
        unless_0(of.cost_microusd, usd),
    ]
}

/// What a run may use: the limits that it has.
pub(super) fn budget(of: Option<wire::RunBudget>) -> String {
    let of = of.unwrap_or_default();
    listed([
        unless_0(of.max_cost_microusd, usd),
        unless_0(of.max_turns, |it| counted(it, "turn")),
        unless_0(of.max_depth.into(), |it| format!("{} of runs", counted(it, "level"))),
        unless_0(of.max_runs.into(), |it| counted(it, "step")),
    ])
}

fn unless_0(number: u64, text: impl Fn(u64) -> String) -> Option<String> {
    (number != 0).then(|| text(number))
}

/// Those that there are: `12s, 3 turns, 1.2k tokens, $0.0123`.
pub(super) fn listed(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// `999`, `1.2k`, `12.5M`.
fn rounded(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}.{}k", number / 1_000, number % 1_000 / 100),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

/// Rounded up, for it is not to look like less.
fn usd(micros: u64) -> String {
    let shown = micros.div_ceil(MICROS_PER_SHOWN);
    format!("${}.{:04}", shown / SHOWN_PER_USD, shown % SHOWN_PER_USD)
}

/// The agents of a run in its order, each with how often it runs one after the other.
pub(super) fn agents(of: &wire::Run) -> String {
    let named = of.steps.chunk_by(|one, next| one.agent == next.agent).map(|same| match same {
        [] => String::new(),
        [one] => line(&one.agent),
        [first, ..] => format!("{} ×{}", line(&first.agent), same.len()),
    });
    named.collect::<Vec<_>>().join(", ")
}

/// The nodes on which its steps run or ran.
pub(super) fn nodes(of: &wire::Run) -> String {
    let nodes = of.steps.iter().map(|it| it.node.as_str()).filter(|it| !it.is_empty());
    let nodes: BTreeSet<&str> = nodes.collect();
    line(&nodes.into_iter().collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_costs_never_too_small() {
        for (input_tokens, cost_microusd, expected) in [
            (0, 0, ""),
            (999, 1, "999 tokens, $0.0001"),
            (1_000, 12_300, "1.0k tokens, $0.0123"),
            (999_999, 12_301, "999.9k tokens, $0.0124"),
            (12_550_000, 2_500_000, "12.5M tokens, $2.5000"),
        ] {
            let used = wire::RunUsage { input_tokens, cost_microusd, ..Default::default() };
            assert_eq!(listed(usage(Some(used))), expected);
        }
    }

    #[test]
    fn a_step_says_how_it_failed_and_how_long_it_ran() {
        let step = |status: StepStatus, started_ms, ended_ms| {
            let failure = wire::StepFailure::RateLimited.into();
            let status = status.into();
            wire::RunStep { status, failure, started_ms, ended_ms, ..Default::default() }
        };
        for (status, started_ms, ended_ms, expected, ran) in [
            (StepStatus::Ready, 0, 0, "waiting", None),
            (StepStatus::Canceled, 0, 5_000, "not started", None),
            (StepStatus::Running, 2_000, 0, "running", Some("7s")),
            (StepStatus::Failed, 2_000, 5_000, "failed (rate_limited)", Some("3s")),
        ] {
            let step = step(status, started_ms, ended_ms);
            assert_eq!((&*step_status(&step), elapsed(&step, 9_000).as_deref()), (expected, ran));
        }
    }
}
