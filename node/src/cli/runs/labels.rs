//! States of runs and steps, what they used, and lengths of time, as people read them.

use tasuki_proto::wire::{self, RunMode, RunStatus, StepStatus};

use crate::{
    cli::text::{line, short},
    runs::convert,
};

/// Millionths of a dollar in a dollar, and in the smallest part that is shown.
const MICROS_PER_USD: u64 = 1_000_000;
const MICROS_PER_SHOWN: u64 = 100;

pub(super) fn mode(of: RunMode) -> &'static str {
    match of {
        RunMode::Unspecified => "unknown",
        RunMode::Single => "single",
        RunMode::Parallel => "parallel",
        RunMode::Chain => "chain",
    }
}

pub(in crate::cli) fn run_status(of: &wire::Run) -> &'static str {
    match of.status() {
        RunStatus::Unspecified => "unknown",
        RunStatus::Running if of.is_stopping => "stopping",
        RunStatus::Running => "running",
        RunStatus::Succeeded => "succeeded",
        RunStatus::Failed => "failed",
        RunStatus::Canceled => "canceled",
        RunStatus::Lost => "lost",
        RunStatus::OutOfBudget => "out of budget",
    }
}

pub(super) fn is_over(of: &wire::Run) -> bool {
    match of.status() {
        RunStatus::Running => false,
        // A newer broker may know other ends.
        RunStatus::Unspecified => of.ended_ms != 0,
        RunStatus::Succeeded
        | RunStatus::Failed
        | RunStatus::Canceled
        | RunStatus::Lost
        | RunStatus::OutOfBudget => true,
    }
}

/// How a step stands, with the kind of its failure: `failed (rate_limited)`.
pub(super) fn step_status(of: &wire::RunStep) -> String {
    match of.status() {
        StepStatus::Unspecified => "unknown".to_owned(),
        StepStatus::Waiting | StepStatus::Ready => "waiting".to_owned(),
        StepStatus::Running => "running".to_owned(),
        StepStatus::Succeeded => "succeeded".to_owned(),
        StepStatus::Failed => {
            let kind = convert::failure_of(of).map_or("refused", |kind| kind.as_str());
            format!("failed ({kind})")
        }
        // One that never began has nothing to be ended.
        StepStatus::Canceled if of.started_ms == 0 => "not started".to_owned(),
        StepStatus::Canceled => "canceled".to_owned(),
        StepStatus::Lost => "lost".to_owned(),
    }
}

pub(super) fn is_step_over(of: &wire::RunStep) -> bool {
    match of.status() {
        StepStatus::Unspecified | StepStatus::Waiting | StepStatus::Ready | StepStatus::Running => {
            false
        }
        StepStatus::Succeeded | StepStatus::Failed | StepStatus::Canceled | StepStatus::Lost => {
            true
        }
    }
}

/// How long a step runs, or ran, in milliseconds; nothing for one that never began.
pub(super) fn elapsed_ms(of: &wire::RunStep, now_ms: u64) -> Option<u64> {
    let until = if of.ended_ms == 0 { now_ms } else { of.ended_ms };
    (of.started_ms != 0).then(|| until.saturating_sub(of.started_ms))
}

/// `0:12`, `1:02:03`.
pub(super) fn watch_time(ms: u64) -> String {
    let seconds = ms / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// One unit, for a column of ages: `12s`, `3m`, `2h`, `5d`.
pub(super) fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    match (seconds / 86_400, seconds / 3600, seconds / 60) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m"),
        (0, hours, _) => format!("{hours}h"),
        (days, ..) => format!("{days}d"),
    }
}

/// Everything that was read and written.
fn all_tokens(of: &wire::RunUsage) -> u64 {
    let kinds = [of.input_tokens, of.output_tokens, of.cache_read_tokens, of.cache_write_tokens];
    kinds.into_iter().fold(0, u64::saturating_add)
}

/// `999`, `1.2k`, `12k`, `1.2M`.
fn rounded(number: u64) -> String {
    let of = |unit: u64, name: &str| match number / unit {
        whole @ 0..=9 => format!("{whole}.{}{name}", number % unit * 10 / unit),
        whole => format!("{whole}{name}"),
    };
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => of(1_000, "k"),
        _ => of(1_000_000, "M"),
    }
}

/// `1 turn`, `3 turns`; nothing for none.
pub(super) fn turns(of: &wire::RunUsage) -> String {
    match of.turns {
        0 => String::new(),
        1 => "1 turn".to_owned(),
        many => format!("{many} turns"),
    }
}

/// `1.2k tokens`; nothing for none.
pub(super) fn tokens(of: &wire::RunUsage) -> String {
    match all_tokens(of) {
        0 => String::new(),
        many => format!("{} tokens", rounded(many)),
    }
}

/// `$0.0123`; nothing where nobody said what it costs.
pub(super) fn cost(of: &wire::RunUsage) -> String {
    match of.cost_microusd {
        0 => String::new(),
        micros => usd(micros),
    }
}

/// What a budget allows, or what was used: rounded up, for it is not to look like less.
pub(super) fn usd(micros: u64) -> String {
    let shown = micros.div_ceil(MICROS_PER_SHOWN);
    let parts = MICROS_PER_USD / MICROS_PER_SHOWN;
    format!("${}.{:04}", shown / parts, shown % parts)
}

/// All of it in a sentence: `0:12, 3 turns, 1.2k tokens, $0.0123`.
pub(super) fn used(elapsed_ms: Option<u64>, of: &wire::RunUsage) -> String {
    let elapsed = elapsed_ms.map(watch_time).unwrap_or_default();
    let parts = [elapsed, turns(of), tokens(of), cost(of)];
    let parts: Vec<String> = parts.into_iter().filter(|it| !it.is_empty()).collect();
    parts.join(", ")
}

/// The agents of a run in its order, each with how often it runs one after the other.
pub(super) fn agents(of: &wire::Run) -> String {
    let mut named: Vec<(&str, u32)> = Vec::new();
    for step in &of.steps {
        match named.last_mut() {
            Some((name, count)) if *name == step.agent => *count += 1,
            Some(_) | None => named.push((&step.agent, 1)),
        }
    }
    let named = named.into_iter().map(|(name, count)| match count {
        1 => line(name),
        many => format!("{} ×{many}", line(name)),
    });
    named.collect::<Vec<_>>().join(", ")
}

/// The nodes on which its steps run or ran, each once.
pub(super) fn nodes(of: &wire::Run) -> String {
    let mut nodes: Vec<&str> = Vec::new();
    for step in of.steps.iter().filter(|it| !it.node.is_empty()) {
        if !nodes.contains(&step.node.as_str()) {
            nodes.push(&step.node);
        }
    }
    nodes.into_iter().map(line).collect::<Vec<_>>().join(", ")
}

/// Who asked for a run.
pub(super) fn asker(of: &wire::Run) -> String {
    match &of.parent {
        Some(parent) => format!("step {} of {}", parent.step, line(&parent.run_id)),
        None if of.role.is_empty() => line(&of.person),
        None => line(&of.role),
    }
}

/// The first line of a text that says something, cut.
pub(super) fn first_line(text: &str, cells_max: usize) -> String {
    let first = text.lines().find(|it| !it.trim().is_empty()).unwrap_or_default();
    let has_more = text.trim_end().lines().filter(|it| !it.trim().is_empty()).count() > 1;
    let first = short(first, cells_max);
    if has_more && !first.ends_with('…') { format!("{first} …") } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_too_small() {
        let tokens = |many| tokens(&wire::RunUsage { input_tokens: many, ..Default::default() });
        for (many, expected) in [
            (0, ""),
            (999, "999 tokens"),
            (1_000, "1.0k tokens"),
            (1_299, "1.2k tokens"),
            (12_345, "12k tokens"),
            (999_999, "999k tokens"),
            (1_250_000, "1.2M tokens"),
            (12_500_000, "12M tokens"),
        ] {
            assert_eq!(tokens(many), expected);
        }
        let most =
            wire::RunUsage { input_tokens: u64::MAX, output_tokens: 1, ..Default::default() };
        assert!(super::tokens(&most).ends_with("M tokens"));
        for (micros, expected) in
            [(1, "$0.0001"), (12_300, "$0.0123"), (12_301, "$0.0124"), (2_500_000, "$2.5000")]
        {
            assert_eq!(usd(micros), expected);
        }
    }

    #[test]
    fn times_are_read_as_on_a_clock() {
        for (ms, expected) in
            [(0, "0:00"), (12_999, "0:12"), (61_000, "1:01"), (3_723_000, "1:02:03")]
        {
            assert_eq!(watch_time(ms), expected);
        }
        for (ms, expected) in
            [(0, "0s"), (59_000, "59s"), (60_000, "1m"), (7_200_000, "2h"), (172_800_000, "2d")]
        {
            assert_eq!(age(ms), expected);
        }
        let step =
            |started_ms, ended_ms| wire::RunStep { started_ms, ended_ms, ..Default::default() };
        assert_eq!(elapsed_ms(&step(0, 5), 9), None);
        assert_eq!(elapsed_ms(&step(2, 0), 9), Some(7));
        assert_eq!(elapsed_ms(&step(2, 5), 9), Some(3));
    }

    #[test]
    fn a_step_says_how_it_failed() {
        let step = |status: StepStatus, failure: wire::StepFailure| {
            let (status, failure) = (status.into(), failure.into());
            step_status(&wire::RunStep { status, failure, ..Default::default() })
        };
        let none = wire::StepFailure::Unspecified;
        assert_eq!(step(StepStatus::Ready, none), "waiting");
        assert_eq!(step(StepStatus::Canceled, none), "not started");
        let limited = wire::StepFailure::RateLimited;
        assert_eq!(step(StepStatus::Failed, limited), "failed (rate_limited)");
        assert_eq!(step(StepStatus::Failed, wire::StepFailure::Refused), "failed (refused)");
    }

    #[test]
    fn a_runs_agents_and_nodes_are_named_once() {
        let step = |agent: &str, node: &str| wire::RunStep {
            agent: agent.to_owned(),
            node: node.to_owned(),
            ..Default::default()
        };
        let steps = vec![
            step("scout", "n1"),
            step("scout", ""),
            step("\u{1b}[31mplanner", "n2"),
            step("scout", "n1"),
        ];
        let run = wire::Run { steps, ..Default::default() };
        assert_eq!(agents(&run), "scout ×2, planner, scout");
        assert_eq!(nodes(&run), "n1, n2");
    }

    #[test]
    fn a_task_is_told_by_its_first_line() {
        assert_eq!(first_line("\n  Find it\n", 20), "Find it");
        assert_eq!(first_line("Find it\nthen more", 20), "Find it …");
        assert_eq!(first_line("Find all of the files", 10), "Find all…");
    }
}
