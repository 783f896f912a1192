//! What the agent CLIs tell, as the broker keeps it, and back.

use tasuki_proto::{
    limits::STEP_USAGE_MAX,
    wire::{self, RunText, StepFailure, StepStatus},
};

use crate::runner::{outcome::FailureKind, stream::Usage};

/// Billionths of a dollar in a millionth.
const NANOS_PER_MICRO: u64 = 1_000;

/// Money is rounded up: a budget is not passed by rounding. What a CLI tells may be any number, and
/// the broker does not take them all.
pub fn usage_to_wire(usage: &Usage) -> wire::RunUsage {
    let told = |number: u64| number.min(STEP_USAGE_MAX);
    wire::RunUsage {
        input_tokens: told(usage.input),
        output_tokens: told(usage.output),
        cache_read_tokens: told(usage.cache_read),
        cache_write_tokens: told(usage.cache_write),
        cost_microusd: told(usage.cost_nanos.unwrap_or(0).div_ceil(NANOS_PER_MICRO)),
        turns: told(usage.turns),
        context_tokens: told(usage.context_tokens),
    }
}

/// Each kind with how the broker calls it. Cancelled and lost are no failures there but statuses.
const FAILURES: [(FailureKind, StepFailure); 12] = [
    (FailureKind::ModelError, StepFailure::ModelError),
    (FailureKind::RateLimited, StepFailure::RateLimited),
    (FailureKind::CutOff, StepFailure::CutOff),
    (FailureKind::Killed, StepFailure::Killed),
    (FailureKind::TimedOut, StepFailure::TimedOut),
    (FailureKind::BadFlag, StepFailure::BadFlag),
    (FailureKind::NotInstalled, StepFailure::NotInstalled),
    (FailureKind::ExitCode, StepFailure::ExitCode),
    (FailureKind::NoOutput, StepFailure::NoOutput),
    (FailureKind::MalformedStream, StepFailure::MalformedStream),
    (FailureKind::Budget, StepFailure::Budget),
    (FailureKind::OutputInvalid, StepFailure::OutputInvalid),
];

/// `Unspecified` for what is a status.
pub fn failure_to_wire(kind: FailureKind) -> StepFailure {
    let found = FAILURES.iter().find(|(known, _)| *known == kind);
    found.map_or(StepFailure::Unspecified, |(_, failure)| *failure)
}

/// Why a step did not succeed. `None`: it did, or has not ended, or the node refused it, which has a
/// text alone.
pub fn failure_of(step: &wire::RunStep) -> Option<FailureKind> {
    match step.status() {
        StepStatus::Canceled => Some(FailureKind::Cancelled),
        StepStatus::Lost => Some(FailureKind::Lost),
        StepStatus::Failed => {
            let found = FAILURES.iter().find(|(_, failure)| *failure == step.failure());
            found.map(|(kind, _)| *kind)
        }
        StepStatus::Unspecified
        | StepStatus::Waiting
        | StepStatus::Ready
        | StepStatus::Running
        | StepStatus::Succeeded => None,
    }
}

/// Words in the open.
pub fn text(text: impl Into<String>) -> RunText {
    RunText { text: text.into(), sealed: None }
}

/// What words say; nothing where they are sealed or not there.
pub fn plain(text: Option<&RunText>) -> &str {
    text.map_or("", |text| text.text.as_str())
}

/// The same of words in parts.
pub fn joined(parts: &[RunText]) -> String {
    parts.iter().map(|part| plain(Some(part))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_comes_back_as_it_went() {
        for kind in FailureKind::ALL {
            let (failure, mut step) = (failure_to_wire(kind), wire::RunStep::default());
            step.set_failure(failure);
            let is_status = failure == StepFailure::Unspecified;
            step.set_status(match (is_status, kind == FailureKind::Cancelled) {
                (true, true) => StepStatus::Canceled,
                (true, false) => StepStatus::Lost,
                (false, _) => StepStatus::Failed,
            });
            assert_eq!(failure_of(&step), Some(kind));
        }
    }

    #[test]
    fn the_broker_is_told_no_number_that_it_refuses() {
        let usage = Usage {
            input: u64::MAX,
            output: STEP_USAGE_MAX + 1,
            cache_read: STEP_USAGE_MAX,
            cost_nanos: Some(u64::MAX),
            ..Usage::default()
        };
        let told = usage_to_wire(&usage);
        assert_eq!([told.input_tokens, told.output_tokens], [STEP_USAGE_MAX; 2]);
        assert_eq!([told.cache_read_tokens, told.cost_microusd], [STEP_USAGE_MAX; 2]);
    }

    #[test]
    fn a_part_of_a_millionth_counts_whole() {
        for (nanos, micros) in [(None, 0), (Some(0), 0), (Some(1), 1), (Some(1_000), 1)] {
            let usage = Usage { cost_nanos: nanos, ..Usage::default() };
            assert_eq!(usage_to_wire(&usage).cost_microusd, micros, "{nanos:?}");
        }
    }
}
