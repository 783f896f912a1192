//! What callers say of runs, as values that are already valid.

use std::{collections::BTreeSet, ops::RangeInclusive};

use prost::Message;
use tasuki_proto::{
    id::NodeId,
    limits::{
        OUTPUT_BYTES_MAX, OUTPUT_PARTS_MAX, REPORT_BYTES_MAX, RUN_CONCURRENCY, RUN_DEPTH_MAX,
        RUN_FILE_BYTES_MAX, RUN_STEPS_MAX, RUN_TREE_STEPS_MAX, RUNNERS_MAX, SEALED_BYTES_MAX,
        STEP_ERROR_BYTES_MAX, STEP_USAGE_MAX, SYSTEM_PROMPT_BYTES_MAX, TEXT_BYTES_MAX,
        WRITTEN_BYTES_MAX,
    },
    run::{RunId, StepId},
    token::{SECRET_BYTES, SecretHash},
    wire,
};
use tonic::Status;

use super::super::{
    parse::{SAME_BYTES, actor, check_count, check_file_name, check_size, id, label, optional},
    status::{file_too_large, invalid},
};
use crate::{
    hash::Hash,
    rules::{
        run::{
            Bearer, End, Failure, File, FileFacts, Mode, Offer, Outcome, OutputWords, Speaker,
            Start, StepResult, StepSpec, StepWords, Text, Usage, WantedBudget,
        },
        turn::Actor,
    },
};

pub(super) fn text(field: &str, it: Option<wire::RunText>, limit: usize) -> Result<Text, Status> {
    let wire::RunText { text, sealed } = it.unwrap_or_default();
    let Some(wire::Sealed { envelope, same }) = sealed else {
        check_size(field, text.len(), limit)?;
        return Ok(Text::Plain(text));
    };
    if !text.is_empty() || envelope.is_empty() {
        return Err(invalid(field, &"is either a text or sealed"));
    }
    if ![0, SAME_BYTES].contains(&same.len()) {
        return Err(invalid(field, &format!("has a mark that is not {SAME_BYTES} bytes long")));
    }
    check_size(field, envelope.len(), limit + SEALED_BYTES_MAX - TEXT_BYTES_MAX)?;
    Ok(Text::Sealed { envelope: envelope.into(), same: same.try_into().ok().map(Hash) })
}

/// A text that says something.
pub(super) fn words(field: &str, it: Option<wire::RunText>, limit: usize) -> Result<Text, Status> {
    match text(field, it, limit)? {
        Text::Plain(text) if text.trim().is_empty() => Err(invalid(field, &"is empty")),
        text @ (Text::Plain(_) | Text::Sealed { .. }) => Ok(text),
    }
}

/// What a sub-agent reports: a text, a file, or both.
pub(super) fn report(
    it: Option<wire::RunText>,
    file: Option<wire::RunFile>,
    content: Vec<u8>,
) -> Result<(Text, Option<Box<File>>), Status> {
    let Some(wire::RunFile { name, media_type, size }) = file else {
        if !content.is_empty() {
            return Err(invalid("content", &"is of no file; say in `file` which it is"));
        }
        return Ok((words("text", it, REPORT_BYTES_MAX)?, None));
    };
    let text = text("text", it, REPORT_BYTES_MAX)?;
    check_file_name("file", &name, &media_type)?;
    let bytes = content.len() as u64;
    if RUN_FILE_BYTES_MAX < content.len() {
        return Err(file_too_large("content", bytes, RUN_FILE_BYTES_MAX as u64));
    }
    if size != bytes {
        return Err(invalid("file.size", &format!("is {size}, and the content has {bytes} bytes")));
    }
    let facts = FileFacts { name, media_type, size };
    Ok((text, Some(Box::new(File { facts, content: content.into() }))))
}

/// What a repeat must have in common with the first: everything but the envelopes of these texts,
/// since the same words are sealed to other bytes each time.
pub(super) fn intent<R: Message + Clone>(
    request: &R,
    texts: impl FnOnce(&mut R) -> Vec<&mut wire::RunText>,
) -> Vec<u8> {
    let mut same = request.clone();
    let sealed = texts(&mut same).into_iter().filter_map(|it| it.sealed.as_mut());
    for sealed in sealed.filter(|it| it.same.len() == SAME_BYTES) {
        sealed.envelope.clear();
    }
    same.encode_to_vec()
}

pub(super) fn step_id(run_id: &str, step: u32) -> Result<StepId, Status> {
    Ok(StepId { run: run("run_id", run_id)?, number: step })
}

pub(super) fn run(field: &str, text: &str) -> Result<RunId, Status> {
    id(field, text)
}

/// A sub-agent by what it shows.
pub(super) fn bearer(field: &str, it: &wire::StepKey) -> Result<Bearer, Status> {
    let step = step_id(&it.run_id, it.step)?;
    if it.secret.len() != SECRET_BYTES {
        return Err(invalid(field, &format!("has a secret that is not {SECRET_BYTES} bytes long")));
    }
    Ok(Bearer { step, secret: *SecretHash::of(&it.secret).as_bytes() })
}

pub(super) fn secret_hash(hash: &[u8]) -> Result<SecretHash, Status> {
    let hash = hash.try_into().map_err(|_| invalid("secret_hash", &"is not 32 bytes long"))?;
    Ok(SecretHash::from_bytes(hash))
}

/// Who asks: a role, a person or a sub-agent, exactly one of them.
pub(super) fn speaker(
    role: &str,
    person: &str,
    parent: Option<&wire::StepKey>,
) -> Result<Speaker, Status> {
    let Some(parent) = parent else {
        return Ok(match actor(role, person)? {
            Actor::Role(role) => Speaker::Role(role),
            Actor::Person(person) => Speaker::Person(person),
        });
    };
    if !role.is_empty() || !person.is_empty() {
        return Err(invalid("parent", &"is given beside a role or a person; only one can ask"));
    }
    bearer("parent", parent).map(Speaker::Step)
}

pub(super) fn start(it: wire::StartRunRequest, may_elsewhere: bool) -> Result<Start, Status> {
    let by = speaker(&it.role, &it.person, it.parent.as_ref())?;
    let count = it.steps.len();
    let mode = match it.mode() {
        wire::RunMode::Unspecified => return Err(invalid("mode", &"is missing")),
        wire::RunMode::Single => Mode::Single,
        wire::RunMode::Parallel => Mode::Parallel,
        wire::RunMode::Chain => Mode::Chain,
    };
    let most = if mode == Mode::Single { 1 } else { RUN_STEPS_MAX };
    check_count("steps", count, 1..=most)?;
    check_count("concurrency", it.concurrency as usize, 0..=RUN_STEPS_MAX)?;
    let concurrency = if it.concurrency == 0 { RUN_CONCURRENCY } else { it.concurrency };
    let budget = budget(it.budget.unwrap_or_default())?;
    let steps = it.steps.into_iter().map(new_step).collect::<Result<_, _>>()?;
    Ok(Start { by, mode, steps, concurrency, budget, may_elsewhere })
}

fn new_step(it: wire::NewStep) -> Result<(StepSpec, StepWords), Status> {
    let spec = StepSpec {
        agent: label("agent", &it.agent)?,
        runner: id("runner", &it.runner)?,
        model: label("model", &it.model)?,
        on: optional("on", &it.on)?,
        timeout_ms: it.timeout_ms,
    };
    let words = StepWords {
        task: words("task", it.task, TEXT_BYTES_MAX)?,
        system: text("system", it.system, SYSTEM_PROMPT_BYTES_MAX)?,
        spec: text("spec", it.spec, SYSTEM_PROMPT_BYTES_MAX)?,
    };
    Ok((spec, words))
}

fn budget(it: wire::RunBudget) -> Result<WantedBudget, Status> {
    check_count("max_depth", it.max_depth as usize, 0..=RUN_DEPTH_MAX as usize)?;
    check_count("max_runs", it.max_runs as usize, 0..=RUN_TREE_STEPS_MAX as usize)?;
    let said = |number: u32| (number != 0).then_some(number);
    Ok(WantedBudget {
        cost_microusd: (it.max_cost_microusd != 0).then_some(it.max_cost_microusd),
        turns: (it.max_turns != 0).then_some(it.max_turns),
        depth: said(it.max_depth),
        steps: said(it.max_runs),
    })
}

pub(super) fn usage(it: Option<wire::RunUsage>) -> Result<Usage, Status> {
    let it = it.unwrap_or_default();
    let used = |field: &str, count: u64| number(field, count, 0..=STEP_USAGE_MAX);
    Ok(Usage {
        input_tokens: used("usage.input_tokens", it.input_tokens)?,
        output_tokens: used("usage.output_tokens", it.output_tokens)?,
        cache_read_tokens: used("usage.cache_read_tokens", it.cache_read_tokens)?,
        cache_write_tokens: used("usage.cache_write_tokens", it.cache_write_tokens)?,
        cost_microusd: used("usage.cost_microusd", it.cost_microusd)?,
        turns: used("usage.turns", it.turns)?,
        context_tokens: used("usage.context_tokens", it.context_tokens)?,
    })
}

pub(super) fn number(
    field: &str,
    number: u64,
    possible: RangeInclusive<u64>,
) -> Result<u64, Status> {
    if possible.contains(&number) {
        return Ok(number);
    }
    let (min, max) = possible.into_inner();
    Err(invalid(field, &format!("is {number}; {min} to {max} are possible")))
}

pub(super) fn end(it: wire::EndStepRequest) -> Result<End, Status> {
    let failure = failure(it.failure());
    let outcome = match it.status() {
        wire::StepStatus::Succeeded if failure.is_none() => Some(Outcome::Succeeded),
        wire::StepStatus::Canceled if failure.is_none() => Some(Outcome::Canceled),
        wire::StepStatus::Failed => failure.map(Outcome::Failed),
        wire::StepStatus::Unspecified
        | wire::StepStatus::Waiting
        | wire::StepStatus::Ready
        | wire::StepStatus::Running
        | wire::StepStatus::Succeeded
        | wire::StepStatus::Canceled
        | wire::StepStatus::Lost => None,
    };
    let why = "is succeeded, canceled, or failed with a failure, which the others do not have";
    let outcome = outcome.ok_or_else(|| invalid("status", &why))?;
    let odd = it.exit_code.filter(|code| outcome == Outcome::Succeeded && *code != 0);
    if let Some(code) = odd {
        let why = format!("is {code}; a step that succeeded has 0, or none");
        return Err(invalid("exit_code", &why));
    }
    check_count("output", it.output.len(), 0..=OUTPUT_PARTS_MAX)?;
    let plain: usize = it.output.iter().map(|part| part.text.len()).sum();
    check_size("output", plain, OUTPUT_BYTES_MAX)?;
    // How much was sealed only its node knows.
    let is_sealed = it.output.iter().any(|part| part.sealed.is_some());
    let kept = if is_sealed { it.output_kept } else { plain as u64 };
    let output_kept = number("output_kept", kept, 0..=OUTPUT_BYTES_MAX as u64)?;
    let output_bytes = number("output_bytes", it.output_bytes, output_kept..=WRITTEN_BYTES_MAX)?;
    let parts = it.output.into_iter().map(|part| text("output", Some(part), TEXT_BYTES_MAX));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let error = text("error", it.error, STEP_ERROR_BYTES_MAX)?;
    let words = OutputWords { parts, error };
    let result = StepResult {
        model: label("model", &it.model)?,
        stop_reason: label("stop_reason", &it.stop_reason)?,
        exit_code: it.exit_code,
        output_bytes,
        output_kept,
        has_words: words != OutputWords::default(),
    };
    let (step, token) = (step_id(&it.run_id, it.step)?, it.claim_token.into());
    Ok(End { step, token, outcome, usage: usage(it.usage)?, result, words })
}

fn failure(it: wire::StepFailure) -> Option<Failure> {
    Some(match it {
        wire::StepFailure::Unspecified => return None,
        wire::StepFailure::ModelError => Failure::ModelError,
        wire::StepFailure::RateLimited => Failure::RateLimited,
        wire::StepFailure::CutOff => Failure::CutOff,
        wire::StepFailure::Killed => Failure::Killed,
        wire::StepFailure::TimedOut => Failure::TimedOut,
        wire::StepFailure::BadFlag => Failure::BadFlag,
        wire::StepFailure::NotInstalled => Failure::NotInstalled,
        wire::StepFailure::ExitCode => Failure::ExitCode,
        wire::StepFailure::NoOutput => Failure::NoOutput,
        wire::StepFailure::MalformedStream => Failure::MalformedStream,
        wire::StepFailure::Budget => Failure::Budget,
        wire::StepFailure::OutputInvalid => Failure::OutputInvalid,
        wire::StepFailure::Refused => Failure::Refused,
    })
}

/// What a node runs.
pub(super) fn offer(node: NodeId, it: &wire::RunnerOffer) -> Result<Offer, Status> {
    check_count("runners", it.runners.len(), 0..=RUNNERS_MAX)?;
    check_count("labels", it.labels.len(), 0..=RUNNERS_MAX)?;
    check_count("stopping", it.stopping.len(), 0..=RUN_TREE_STEPS_MAX as usize)?;
    let runners = it.runners.iter().map(|name| id("runners", name));
    let labels = it.labels.iter().map(|name| id("labels", name));
    let stopping = it.stopping.iter().map(|it| step_id(&it.run_id, it.step));
    Ok(Offer {
        node,
        runners: runners.collect::<Result<BTreeSet<_>, _>>()?,
        labels: labels.collect::<Result<BTreeSet<_>, _>>()?,
        places: it.places,
        accepts_elsewhere: it.accepts_elsewhere,
        stopping: stopping.collect::<Result<_, _>>()?,
    })
}

/// `None` for an empty field.
pub(super) fn maybe_run(field: &str, text: &str) -> Result<Option<RunId>, Status> {
    optional(field, text)
}

#[cfg(test)]
mod tests {
    use tasuki_proto::reason::Reason;
    use tonic::Code;

    use super::*;

    /// A step that ended well and wrote "done".
    fn done() -> wire::EndStepRequest {
        wire::EndStepRequest {
            run_id: "run_1700000000000_00af".to_owned(),
            step: 1,
            status: wire::StepStatus::Succeeded.into(),
            output: vec![wire::RunText { text: "done".to_owned(), sealed: None }],
            output_bytes: 4,
            exit_code: Some(0),
            ..Default::default()
        }
    }

    fn sealed(output_bytes: u64, output_kept: u64) -> wire::EndStepRequest {
        let sealed = wire::Sealed { envelope: vec![1; 100], same: Vec::new() };
        let output = vec![wire::RunText { text: String::new(), sealed: Some(sealed) }];
        wire::EndStepRequest { output, output_bytes, output_kept, ..done() }
    }

    fn using(usage: wire::RunUsage) -> wire::EndStepRequest {
        wire::EndStepRequest { usage: Some(usage), ..done() }
    }

    #[test]
    fn a_report_has_a_text_or_a_file_that_is_what_it_says() {
        let said = |text: &str| Some(wire::RunText { text: text.to_owned(), sealed: None });
        let file = |name: &str, size| {
            let (name, media_type) = (name.to_owned(), "text/plain".to_owned());
            Some(wire::RunFile { name, media_type, size })
        };
        let (text, none) = report(said("t"), None, Vec::new()).unwrap();
        assert_eq!((text, none), (Text::Plain("t".to_owned()), None));
        for text in [said("t"), said(""), None] {
            let (_, taken) = report(text, file("é 1.txt", 2), b"ab".to_vec()).unwrap();
            assert_eq!(taken.unwrap().content, "ab");
        }
        assert!(report(None, file("empty", 0), Vec::new()).unwrap().1.is_some());
        let most = vec![0; RUN_FILE_BYTES_MAX];
        assert!(report(None, file("a", most.len() as u64), most.clone()).is_ok());
        let over = [most, vec![0]].concat();
        let refused = report(None, file("a", over.len() as u64), over).unwrap_err();
        assert_eq!(Reason::of(&refused), Some(Reason::TooLarge));
        assert!(refused.message().ends_with("compress the file or split it"), "{refused}");
        let long = "x".repeat(256);
        for (field, text, file, content) in [
            ("text", said(" \n"), None, ""),
            ("content", said("t"), None, "ab"),
            ("file.size", None, file("a", 3), "ab"),
            ("file.size", None, file("a", 1), ""),
            ("file.name", None, file("", 2), "ab"),
            ("file.name", None, file("a/b", 2), "ab"),
            ("file.name", None, file("..", 2), "ab"),
            ("file.name", None, file("gpj.\u{202e}exe", 2), "ab"),
            ("file.name", None, file(&long, 2), "ab"),
        ] {
            let refused = report(text, file, content.into()).unwrap_err();
            assert!(refused.message().starts_with(&format!("{field} ")), "{refused}");
        }
    }

    #[test]
    fn the_broker_counts_what_it_keeps_of_a_plain_output() {
        for output_kept in [0, 4, u64::MAX] {
            let said = wire::EndStepRequest { output_kept, ..done() };
            assert_eq!(end(said).unwrap().result.output_kept, 4);
        }
        assert_eq!(end(sealed(9, 7)).unwrap().result.output_kept, 7);
    }

    #[test]
    fn an_end_that_contradicts_itself_is_refused() {
        let failed = wire::StepStatus::Failed.into();
        let good = [
            done(),
            wire::EndStepRequest { exit_code: None, ..done() },
            wire::EndStepRequest { output_bytes: WRITTEN_BYTES_MAX, ..done() },
            wire::EndStepRequest {
                status: failed,
                failure: wire::StepFailure::ExitCode.into(),
                exit_code: Some(1),
                ..done()
            },
            using(wire::RunUsage { cost_microusd: STEP_USAGE_MAX, ..Default::default() }),
        ];
        for request in good {
            assert!(end(request.clone()).is_ok(), "{request:?}");
        }
        let many = STEP_USAGE_MAX + 1;
        let bad = [
            ("status", wire::EndStepRequest { status: failed, ..done() }),
            (
                "status",
                wire::EndStepRequest { failure: wire::StepFailure::Killed.into(), ..done() },
            ),
            ("exit_code", wire::EndStepRequest { exit_code: Some(1), ..done() }),
            ("exit_code", wire::EndStepRequest { exit_code: Some(-1), ..done() }),
            ("output_bytes", wire::EndStepRequest { output_bytes: 3, ..done() }),
            ("output_bytes", wire::EndStepRequest { output_bytes: u64::MAX, ..done() }),
            ("output_bytes", sealed(6, 7)),
            ("output_kept", sealed(u64::MAX, u64::MAX)),
            ("usage.turns", using(wire::RunUsage { turns: many, ..Default::default() })),
            (
                "usage.cost_microusd",
                using(wire::RunUsage { cost_microusd: many, ..Default::default() }),
            ),
        ];
        for (field, request) in bad {
            let refused = end(request).unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
            assert!(refused.message().starts_with(&format!("{field} ")), "{refused}");
        }
    }
}
