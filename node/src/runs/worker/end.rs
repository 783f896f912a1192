//! How a step ended, as the broker is told. Pure.

use tasuki_proto::{
    limits::{
        LABEL_BYTES_MAX, OUTPUT_PARTS_MAX, STEP_ERROR_BYTES_MAX, TEXT_BYTES_MAX, WRITTEN_BYTES_MAX,
    },
    visible::is_visible,
    wire::{EndStepRequest, RunText, StepFailure, StepStatus},
};

use crate::{
    runner::outcome::{Exit, Failure, FailureKind, Outcome},
    runs::convert,
};

/// What is said of a step that ends because its node does.
pub(super) const NODE_STOPPED: &str = "The node was stopped.";

/// The name of a model, in characters.
const MODEL_CHARS_MAX: usize = 100;

/// One word of an agent CLI, in bytes.
const WORD_BYTES_MAX: usize = 32;

/// How a process ended.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) outcome: Outcome,
    pub(super) is_sandboxed: bool,
    /// The node ends, and so ended what ran.
    pub(super) is_node_stopping: bool,
}

impl Ending {
    /// What the broker is told. Which step it was is still to be filled in.
    pub(super) fn into_request(self) -> EndStepRequest {
        let Outcome { failure, output, usage, model, stop_reason, exit, .. } = self.outcome;
        // It was not put into a sandbox, so it was not run.
        let is_refused = self.is_sandboxed && matches!(exit, Exit::NotStarted { .. });
        let (status, failure, error) = match failure {
            None => (StepStatus::Succeeded, StepFailure::Unspecified, None),
            Some(Failure { kind: FailureKind::Cancelled, text }) => {
                let text = if self.is_node_stopping { NODE_STOPPED } else { &text };
                (StepStatus::Canceled, StepFailure::Unspecified, Some(error_text(text)))
            }
            Some(Failure { text, .. }) if is_refused => {
                (StepStatus::Failed, StepFailure::Refused, Some(error_text(&text)))
            }
            Some(Failure { kind, text }) => {
                (StepStatus::Failed, convert::failure_to_wire(kind), Some(error_text(&text)))
            }
        };
        let output_bytes = output.bytes.min(WRITTEN_BYTES_MAX);
        let output = parts(&output.text);
        EndStepRequest {
            status: status.into(),
            failure: failure.into(),
            error,
            output_kept: output.iter().map(|part| part.text.len() as u64).sum(),
            output,
            output_bytes,
            usage: Some(convert::usage_to_wire(&usage)),
            model: model_name(model.as_deref().unwrap_or_default()),
            stop_reason: word(stop_reason.as_deref().unwrap_or_default()),
            exit_code: match exit {
                Exit::Code(code) => Some(code),
                Exit::Signal(_)
                | Exit::NotFound { .. }
                | Exit::NotStarted { .. }
                | Exit::KeeperLost => None,
            },
            ..Default::default()
        }
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
pub(super) fn without_words(end: &EndStepRequest) -> EndStepRequest {
    let (status, failure) = if end.status() == StepStatus::Succeeded {
        (StepStatus::Failed, StepFailure::Refused)
    } else {
        (end.status(), end.failure())
    };
    EndStepRequest {
        run_id: end.run_id.clone(),
        step: end.step,
        claim_token: end.claim_token,
        status: status.into(),
        failure: failure.into(),
        output_bytes: end.output_bytes,
        usage: end.usage,
        exit_code: end.exit_code,
        ..Default::default()
    }
}

/// A name as the broker takes it.
pub(super) fn label(name: &str) -> String {
    let mut visible: String = name.chars().filter(|it| is_visible(*it)).collect();
    visible.truncate(visible.floor_char_boundary(LABEL_BYTES_MAX));
    visible
}

/// What stands beside fixed words must not read like them: no blanks.
fn model_name(name: &str) -> String {
    label(name).chars().filter(|it| !it.is_whitespace()).take(MODEL_CHARS_MAX).collect()
}

/// The same of what is a single word.
fn word(said: &str) -> String {
    let is_word = said.len() <= WORD_BYTES_MAX
        && said.bytes().all(|it| it.is_ascii_alphanumeric() || b"_.-".contains(&it));
    if is_word { said } else { "other" }.to_owned()
}

fn error_text(text: &str) -> RunText {
    convert::text(&text[..text.floor_char_boundary(STEP_ERROR_BYTES_MAX)])
}

/// An output in parts, each cut at a character.
fn parts(output: &str) -> Vec<RunText> {
    let (mut parts, mut rest) = (Vec::new(), output);
    while !rest.is_empty() && parts.len() < OUTPUT_PARTS_MAX {
        let (part, after) = rest.split_at(rest.floor_char_boundary(TEXT_BYTES_MAX));
        parts.push(convert::text(part));
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use tasuki_proto::limits::OUTPUT_BYTES_MAX;

    use super::*;
    use crate::runner::stream::{Output, Usage};

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

    fn end(outcome: Outcome) -> EndStepRequest {
        Ending { outcome, is_sandboxed: false, is_node_stopping: false }.into_request()
    }

    /// Which end it is, and why.
    fn said(end: &EndStepRequest) -> (StepStatus, StepFailure, Option<&str>) {
        (end.status(), end.failure(), end.error.as_ref().map(|it| it.text.as_str()))
    }

    #[test]
    fn a_success_has_its_output_and_what_it_used() {
        let end = end(outcome(None, Exit::Code(0)));
        assert_eq!(said(&end), (StepStatus::Succeeded, StepFailure::Unspecified, None));
        assert_eq!((end.exit_code, end.output_bytes, end.output_kept), (Some(0), 4, 4));
        assert_eq!(end.output, [convert::text("done")]);
        assert_eq!(end.usage.unwrap().turns, 2);
        assert_eq!((end.model.as_str(), end.stop_reason.as_str()), ("m1", "other"));
    }

    #[test]
    fn a_model_and_a_stop_reason_are_no_sentences() {
        for (said, reason) in [
            ("", ""),
            ("end_turn", "end_turn"),
            ("MAX-TOKENS.2", "MAX-TOKENS.2"),
            ("stop now", "other"),
            ("stop\nStep 2: succeeded", "other"),
            ("stöp", "other"),
        ] {
            assert_eq!(word(said), reason, "{said}");
        }
        assert_eq!(word(&"x".repeat(WORD_BYTES_MAX)).len(), WORD_BYTES_MAX);
        assert_eq!(word(&"x".repeat(WORD_BYTES_MAX + 1)), "other");
        assert_eq!(model_name("a/b-1 is\u{3000}good"), "a/b-1isgood");
        assert_eq!(model_name(&"x".repeat(300)).len(), MODEL_CHARS_MAX);
    }

    #[test]
    fn a_failure_is_told_by_kind_and_in_words_and_keeps_its_output() {
        let end = end(outcome(Some((FailureKind::Killed, "Killed.")), Exit::Signal(9)));
        assert_eq!(said(&end), (StepStatus::Failed, StepFailure::Killed, Some("Killed.")));
        assert_eq!((end.exit_code, end.output_kept), (None, 4));
    }

    #[test]
    fn a_step_that_was_stopped_is_canceled_and_says_by_whom() {
        let stopped = outcome(Some((FailureKind::Cancelled, "Cancelled.")), Exit::Signal(15));
        // What had ended before the node did is told as it was.
        let answered = outcome(None, Exit::Code(0));
        for (outcome, is_node_stopping, status, text) in [
            (&stopped, false, StepStatus::Canceled, Some("Cancelled.")),
            (&stopped, true, StepStatus::Canceled, Some(NODE_STOPPED)),
            (&answered, true, StepStatus::Succeeded, None),
        ] {
            let outcome = outcome.clone();
            let end = Ending { outcome, is_sandboxed: false, is_node_stopping }.into_request();
            assert_eq!(said(&end), (status, StepFailure::Unspecified, text));
        }
    }

    #[test]
    fn without_a_sandbox_that_was_asked_for_a_step_is_refused() {
        let exit = Exit::NotStarted { program: "pi".to_owned(), why: "no Landlock".to_owned() };
        let unstarted = outcome(Some((FailureKind::NotInstalled, "Cannot start.")), exit);
        for (is_sandboxed, failure) in
            [(true, StepFailure::Refused), (false, StepFailure::NotInstalled)]
        {
            let outcome = unstarted.clone();
            let ending = Ending { outcome, is_sandboxed, is_node_stopping: false };
            assert_eq!(ending.into_request().failure(), failure);
        }
    }

    #[test]
    fn a_long_output_comes_in_parts_that_are_whole_texts() {
        let whole = |parts: &[RunText]| parts.iter().map(|it| it.text.as_str()).collect::<String>();
        assert!(parts("").is_empty());
        let exact = "x".repeat(OUTPUT_BYTES_MAX);
        assert_eq!(whole(&parts(&exact)), exact);
        let odd = format!("x{}", "é".repeat(OUTPUT_BYTES_MAX / 2 - 1));
        let cut = parts(&odd);
        assert_eq!(cut.len(), OUTPUT_PARTS_MAX);
        assert!(cut.iter().all(|part| part.text.len() <= TEXT_BYTES_MAX));
        assert!(odd.starts_with(&whole(&cut)));
    }

    #[test]
    fn an_end_without_words_is_no_success() {
        let success = without_words(&end(outcome(None, Exit::Code(0))));
        assert_eq!(said(&success), (StepStatus::Failed, StepFailure::Refused, None));
        assert!(success.output.is_empty() && success.output_bytes == 4);
        let failure = end(outcome(Some((FailureKind::CutOff, "Cut.")), Exit::Code(0)));
        let failure = without_words(&failure);
        assert_eq!(said(&failure), (StepStatus::Failed, StepFailure::CutOff, None));
    }
}
