//! How a step ended, as the broker is told. Pure.

use tasuki_proto::{
    limits::{OUTPUT_PARTS_MAX, STEP_ERROR_BYTES_MAX, TEXT_BYTES_MAX},
    visible::is_visible,
    wire::{EndStepRequest, RunText, StepFailure, StepStatus},
};

use crate::{
    runner::outcome::{Exit, FailureKind, Outcome},
    runs::convert,
};

/// What is said of a step that ends because its node does.
pub(super) const NODE_STOPPED: &str = "The node was stopped.";

/// A name that the broker takes, in bytes.
const LABEL_BYTES_MAX: usize = 200;

/// How a process ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending<'a> {
    pub(super) outcome: &'a Outcome,
    pub(super) is_sandboxed: bool,
    /// The node ends, and so ended what ran.
    pub(super) is_node_stopping: bool,
}

impl Ending<'_> {
    /// What the broker is told. Which step it was is still to be filled in.
    pub(super) fn to_request(self) -> EndStepRequest {
        let Outcome { failure, output, usage, model, stop_reason, exit, .. } = self.outcome;
        let (status, failure, error) = match failure {
            None => (StepStatus::Succeeded, StepFailure::Unspecified, None),
            Some(failure) if failure.kind == FailureKind::Cancelled => {
                let own = failure.text.as_str();
                let text = if self.is_node_stopping { NODE_STOPPED } else { own };
                (StepStatus::Canceled, StepFailure::Unspecified, Some(text))
            }
            Some(failure) => {
                let text = Some(failure.text.as_str());
                (StepStatus::Failed, self.failure_to_wire(failure.kind), text)
            }
        };
        let parts = parts(&output.text);
        let kept: usize = parts.iter().map(|part| part.len()).sum();
        EndStepRequest {
            status: status.into(),
            failure: failure.into(),
            error: error.map(error_text),
            output: parts.into_iter().map(convert::text).collect(),
            output_bytes: output.bytes,
            output_kept: kept as u64,
            usage: Some(convert::usage_to_wire(usage)),
            model: label(model.as_deref().unwrap_or_default()),
            stop_reason: label(stop_reason.as_deref().unwrap_or_default()),
            exit_code: match exit {
                Exit::Code(code) => Some(*code),
                Exit::Signal(_) | Exit::NotFound { .. } | Exit::NotStarted { .. } => None,
            },
            ..Default::default()
        }
    }

    fn failure_to_wire(self, kind: FailureKind) -> StepFailure {
        // It was not put into a sandbox, so it was not run.
        let is_refused = self.is_sandboxed && matches!(self.outcome.exit, Exit::NotStarted { .. });
        if is_refused { StepFailure::Refused } else { convert::failure_to_wire(kind) }
    }
}

/// What the broker is told of a step that this node does not run.
pub(super) fn refused(why: &str) -> EndStepRequest {
    EndStepRequest {
        status: StepStatus::Failed.into(),
        failure: StepFailure::Refused.into(),
        error: Some(error_text(why)),
        ..Default::default()
    }
}

/// What the broker is told of a step that was to be stopped before it began.
pub(super) fn canceled(why: &str) -> EndStepRequest {
    EndStepRequest {
        status: StepStatus::Canceled.into(),
        error: Some(error_text(why)),
        ..Default::default()
    }
}

/// The same end for a broker that does not take its words. Without its output nothing succeeded.
pub(super) fn without_words(end: EndStepRequest) -> EndStepRequest {
    let (status, failure) = match end.status() {
        StepStatus::Succeeded => (StepStatus::Failed, StepFailure::Refused),
        StepStatus::Unspecified
        | StepStatus::Waiting
        | StepStatus::Ready
        | StepStatus::Running
        | StepStatus::Failed
        | StepStatus::Canceled
        | StepStatus::Lost => (end.status(), end.failure()),
    };
    EndStepRequest {
        status: status.into(),
        failure: failure.into(),
        error: None,
        output: Vec::new(),
        output_kept: 0,
        model: String::new(),
        stop_reason: String::new(),
        ..end
    }
}

/// A name as the broker takes it.
pub(super) fn label(name: &str) -> String {
    let mut visible: String = name.chars().filter(|it| is_visible(*it)).collect();
    visible.truncate(visible.floor_char_boundary(LABEL_BYTES_MAX));
    visible
}

fn error_text(text: &str) -> RunText {
    convert::text(&text[..text.floor_char_boundary(STEP_ERROR_BYTES_MAX)])
}

/// An output in parts, each cut at a character.
fn parts(output: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), output);
    while !rest.is_empty() && parts.len() < OUTPUT_PARTS_MAX {
        let (part, after) = rest.split_at(rest.floor_char_boundary(TEXT_BYTES_MAX));
        parts.push(part);
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use tasuki_proto::limits::OUTPUT_BYTES_MAX;

    use super::*;
    use crate::runner::{
        outcome::Failure,
        stream::{Output, Usage},
    };

    fn outcome(failure: Option<(FailureKind, &str)>, exit: Exit) -> Outcome {
        Outcome {
            failure: failure.map(|(kind, text)| Failure::new(kind, text)),
            output: Output { text: "done".to_owned(), bytes: 4 },
            usage: Usage { turns: 2, ..Usage::default() },
            session: None,
            model: Some("m\n1".to_owned()),
            stop_reason: Some("x".repeat(300)),
            exit,
            retries: 0,
        }
    }

    fn end(outcome: &Outcome) -> EndStepRequest {
        Ending { outcome, is_sandboxed: false, is_node_stopping: false }.to_request()
    }

    #[test]
    fn a_success_has_its_output_and_what_it_used() {
        let end = end(&outcome(None, Exit::Code(0)));
        assert_eq!(
            (end.status(), end.failure()),
            (StepStatus::Succeeded, StepFailure::Unspecified)
        );
        assert_eq!((end.error, end.exit_code), (None, Some(0)));
        assert_eq!((end.output_bytes, end.output_kept), (4, 4));
        assert_eq!(end.output, [convert::text("done")]);
        assert_eq!(end.usage.unwrap().turns, 2);
        assert_eq!((end.model.as_str(), end.stop_reason.len()), ("m1", LABEL_BYTES_MAX));
    }

    #[test]
    fn a_failure_is_told_by_kind_and_in_words_and_keeps_its_output() {
        let killed = outcome(Some((FailureKind::Killed, "Killed.")), Exit::Signal(9));
        let end = end(&killed);
        assert_eq!((end.status(), end.failure()), (StepStatus::Failed, StepFailure::Killed));
        assert_eq!((end.error, end.exit_code), (Some(convert::text("Killed.")), None));
        assert_eq!(end.output_kept, 4);
    }

    #[test]
    fn a_step_that_was_stopped_is_canceled_and_says_by_whom() {
        let stopped = outcome(Some((FailureKind::Cancelled, "Cancelled.")), Exit::Signal(15));
        for (is_node_stopping, text) in [(false, "Cancelled."), (true, NODE_STOPPED)] {
            let ending = Ending { outcome: &stopped, is_sandboxed: false, is_node_stopping };
            let end = ending.to_request();
            assert_eq!(
                (end.status(), end.failure()),
                (StepStatus::Canceled, StepFailure::Unspecified)
            );
            assert_eq!(end.error, Some(convert::text(text)));
        }
        // What had ended before the node did is told as it was.
        let answered = outcome(None, Exit::Code(0));
        let ending = Ending { outcome: &answered, is_sandboxed: false, is_node_stopping: true };
        assert_eq!(ending.to_request().status(), StepStatus::Succeeded);
    }

    #[test]
    fn without_a_sandbox_that_was_asked_for_a_step_is_refused() {
        let exit = Exit::NotStarted { program: "pi".to_owned(), why: "no Landlock".to_owned() };
        let unstarted = outcome(Some((FailureKind::NotInstalled, "Cannot start.")), exit);
        for (is_sandboxed, failure) in
            [(true, StepFailure::Refused), (false, StepFailure::NotInstalled)]
        {
            let ending = Ending { outcome: &unstarted, is_sandboxed, is_node_stopping: false };
            assert_eq!(ending.to_request().failure(), failure);
        }
    }

    #[test]
    fn a_long_output_comes_in_parts_that_are_whole_texts() {
        assert!(parts("").is_empty());
        let exact = "x".repeat(OUTPUT_BYTES_MAX);
        assert_eq!(parts(&exact).concat(), exact);
        let odd = format!("x{}", "é".repeat(OUTPUT_BYTES_MAX / 2 - 1));
        let cut = parts(&odd);
        assert_eq!(cut.len(), OUTPUT_PARTS_MAX);
        assert!(cut.iter().all(|part| part.len() <= TEXT_BYTES_MAX));
        assert!(odd.starts_with(&cut.concat()));
    }

    #[test]
    fn an_end_without_words_is_no_success() {
        let success = without_words(end(&outcome(None, Exit::Code(0))));
        assert_eq!(
            (success.status(), success.failure()),
            (StepStatus::Failed, StepFailure::Refused)
        );
        assert!(success.output.is_empty() && success.output_bytes == 4);
        let failure = outcome(Some((FailureKind::CutOff, "Cut.")), Exit::Code(0));
        let failure = without_words(end(&failure));
        assert_eq!(
            (failure.status(), failure.failure()),
            (StepStatus::Failed, StepFailure::CutOff)
        );
        assert_eq!(failure.error, None);
    }
}
