//! What the agent CLIs tell, as the broker keeps it, and back.

use tasuki_proto::wire::{self, RunText, StepFailure, StepStatus};

use crate::runner::{outcome::FailureKind, stream::Usage};

/// Billionths of a dollar in a millionth.
const NANOS_PER_MICRO: u64 = 1_000;

/// Money is rounded up: a budget is not passed by rounding.
pub fn usage_to_wire(usage: &Usage) -> wire::RunUsage {
    wire::RunUsage {
        input_tokens: usage.input,
        output_tokens: usage.output,
        cache_read_tokens: usage.cache_read,
        cache_write_tokens: usage.cache_write,
        cost_microusd: usage.cost_nanos.unwrap_or(0).div_ceil(NANOS_PER_MICRO),
        turns: usage.turns,
        context_tokens: usage.context_tokens,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_comes_back_as_it_went() {
        for kind in FailureKind::ALL {
            let failure = failure_to_wire(kind);
            let status = if kind == FailureKind::Cancelled {
                StepStatus::Canceled
            } else if kind == FailureKind::Lost {
                StepStatus::Lost
            } else {
                StepStatus::Failed
            };
            assert_eq!(status == StepStatus::Failed, failure != StepFailure::Unspecified);
            let step = wire::RunStep {
                status: status.into(),
                failure: failure.into(),
                ..Default::default()
            };
            assert_eq!(failure_of(&step), Some(kind));
        }
    }

    #[test]
    fn a_part_of_a_millionth_counts_whole() {
        for (nanos, micros) in [(None, 0), (Some(0), 0), (Some(1), 1), (Some(1_000), 1)] {
            let usage = Usage { cost_nanos: nanos, ..Usage::default() };
            assert_eq!(usage_to_wire(&usage).cost_microusd, micros, "{nanos:?}");
        }
    }
}
