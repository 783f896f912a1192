//! Runs as callers see them. Fencing tokens are told to their bearers alone.

use std::collections::BTreeSet;

use tasuki_proto::{
    run::StepId,
    wire::{self, run_event::Kind},
};

use super::super::render::{ms, text as name};
use crate::{
    rules::run::{
        Asker, Budget, Event, Failure, FileFacts, MessageKind, Mode, Offer, Outcome, Run,
        RunOutcome, Step, StepSpec, StepState, StepWords, StopReason, Text, Usage,
    },
    workspace::View,
};

pub(super) fn run(view: &View<'_>, it: &Run) -> wire::Run {
    let runs = &view.workspace.runs;
    let ready: BTreeSet<StepId> = it.ready().collect();
    let steps = it.numbered().map(|(id, step)| render_step(view, id, step, ready.contains(&id)));
    let questions = (1..).zip(&it.messages).filter(|(_, it)| it.is_open_question());
    let mut shown = wire::Run {
        run_id: it.id.to_string(),
        mode: mode(it.mode).into(),
        status: run_status(it.ended.map(|(_, outcome)| outcome)).into(),
        node: name(it.origin.node.as_ref()),
        root_id: runs.root(it.id).to_string(),
        depth: u32::try_from(runs.depth(it.id)).unwrap_or(u32::MAX),
        concurrency: it.concurrency,
        steps: steps.collect(),
        usage: Some(usage(runs.used(it.id, &view.context.reports))),
        budget: Some(budget(it.budget)),
        is_stopping: it.is_open() && it.stopped.is_some(),
        messages: u32::try_from(it.messages.len()).unwrap_or(u32::MAX),
        open_questions: questions.map(|(number, _)| number).collect(),
        started_ms: it.started.as_millis(),
        ended_ms: ms(it.ended.map(|(at, _)| at)),
        ..Default::default()
    };
    match &it.asker {
        Asker::Role(role) => shown.role = role.to_string(),
        Asker::Person(person) => shown.person = person.to_string(),
        Asker::Step(step) => shown.parent = Some(step_ref(*step)),
    }
    shown
}

pub(super) fn step(view: &View<'_>, of: &Run, id: StepId, it: &Step) -> wire::RunStep {
    render_step(view, id, it, of.ready().any(|ready| ready == id))
}

fn render_step(view: &View<'_>, id: StepId, it: &Step, is_ready: bool) -> wire::RunStep {
    let mut shown = wire::RunStep {
        step: id.number,
        agent: it.spec.agent.clone(),
        runner: it.spec.runner.to_string(),
        model: it.spec.model.clone(),
        on: name(it.spec.on.as_ref()),
        timeout_ms: it.spec.timeout_ms,
        usage: Some(usage(it.usage)),
        ..Default::default()
    };
    let status = match &it.state {
        StepState::Waiting if is_ready => wire::StepStatus::Ready,
        StepState::Waiting => wire::StepStatus::Waiting,
        StepState::Running(claim) => {
            shown.node = claim.node.to_string();
            shown.started_ms = claim.claimed.as_millis();
            if let Some(report) = view.context.reports.get(&id) {
                shown.usage = Some(usage(report.usage));
                shown.last_tool.clone_from(&report.last_tool);
            }
            wire::StepStatus::Running
        }
        StepState::Ended(ended) => {
            let (node, began) = ended.ran.clone().unzip();
            (shown.node, shown.started_ms) = (name(node.as_ref()), ms(began));
            shown.ended_ms = ended.at.as_millis();
            shown.set_failure(failure(ended.outcome));
            let result = &ended.result;
            if !result.model.is_empty() {
                shown.model.clone_from(&result.model);
            }
            shown.stop_reason.clone_from(&result.stop_reason);
            shown.exit_code = result.exit_code;
            (shown.output_bytes, shown.output_kept) = (result.output_bytes, result.output_kept);
            outcome(ended.outcome)
        }
    };
    shown.set_status(status);
    shown
}

pub(super) fn step_ref(it: StepId) -> wire::StepRef {
    wire::StepRef { run_id: it.run.to_string(), step: it.number }
}

/// `None` for what says nothing.
pub(super) fn text(it: Text) -> Option<wire::RunText> {
    match it {
        Text::Plain(text) if text.is_empty() => None,
        Text::Plain(text) => Some(wire::RunText { text, sealed: None }),
        Text::Sealed { envelope, .. } => {
            let sealed = wire::Sealed { envelope: envelope.to_vec(), same: Vec::new() };
            Some(wire::RunText { text: String::new(), sealed: Some(sealed) })
        }
    }
}

pub(super) fn file(it: FileFacts) -> wire::RunFile {
    wire::RunFile { name: it.name, media_type: it.media_type, size: it.size }
}

pub(super) fn new_step(it: &StepSpec, words: StepWords) -> wire::NewStep {
    wire::NewStep {
        agent: it.agent.clone(),
        runner: it.runner.to_string(),
        model: it.model.clone(),
        on: name(it.on.as_ref()),
        timeout_ms: it.timeout_ms,
        task: text(words.task),
        system: text(words.system),
        spec: text(words.spec),
    }
}

pub(super) fn usage(it: Usage) -> wire::RunUsage {
    wire::RunUsage {
        input_tokens: it.input_tokens,
        output_tokens: it.output_tokens,
        cache_read_tokens: it.cache_read_tokens,
        cache_write_tokens: it.cache_write_tokens,
        cost_microusd: it.cost_microusd,
        turns: it.turns,
        context_tokens: it.context_tokens,
    }
}

pub(super) fn budget(it: Budget) -> wire::RunBudget {
    wire::RunBudget {
        max_cost_microusd: it.cost_microusd.unwrap_or_default(),
        max_turns: it.turns.unwrap_or_default(),
        max_depth: it.depth,
        max_runs: it.steps,
    }
}

pub(super) fn offer(it: &Offer) -> wire::RunnerOffer {
    wire::RunnerOffer {
        node: it.node.to_string(),
        runners: it.runners.iter().map(ToString::to_string).collect(),
        labels: it.labels.iter().map(ToString::to_string).collect(),
        places: it.places,
        accepts_elsewhere: it.accepts_elsewhere,
        stopping: it.stopping.iter().copied().map(step_ref).collect(),
    }
}

pub(super) fn stop(why: Option<StopReason>) -> wire::StepStop {
    match why {
        None => wire::StepStop::Unspecified,
        Some(StopReason::Canceled) => wire::StepStop::Canceled,
        Some(StopReason::Budget) => wire::StepStop::Budget,
    }
}

fn mode(it: Mode) -> wire::RunMode {
    match it {
        Mode::Single => wire::RunMode::Single,
        Mode::Parallel => wire::RunMode::Parallel,
        Mode::Chain => wire::RunMode::Chain,
    }
}

fn run_status(it: Option<RunOutcome>) -> wire::RunStatus {
    match it {
        None => wire::RunStatus::Running,
        Some(RunOutcome::Succeeded) => wire::RunStatus::Succeeded,
        Some(RunOutcome::Failed) => wire::RunStatus::Failed,
        Some(RunOutcome::Canceled) => wire::RunStatus::Canceled,
        Some(RunOutcome::Lost) => wire::RunStatus::Lost,
        Some(RunOutcome::OutOfBudget) => wire::RunStatus::OutOfBudget,
    }
}

fn outcome(it: Outcome) -> wire::StepStatus {
    match it {
        Outcome::Succeeded => wire::StepStatus::Succeeded,
        Outcome::Failed(_) => wire::StepStatus::Failed,
        Outcome::Canceled => wire::StepStatus::Canceled,
        Outcome::Lost => wire::StepStatus::Lost,
    }
}

fn failure(it: Outcome) -> wire::StepFailure {
    match it {
        Outcome::Succeeded | Outcome::Canceled | Outcome::Lost => wire::StepFailure::Unspecified,
        Outcome::Failed(Failure::ModelError) => wire::StepFailure::ModelError,
        Outcome::Failed(Failure::RateLimited) => wire::StepFailure::RateLimited,
        Outcome::Failed(Failure::CutOff) => wire::StepFailure::CutOff,
        Outcome::Failed(Failure::Killed) => wire::StepFailure::Killed,
        Outcome::Failed(Failure::TimedOut) => wire::StepFailure::TimedOut,
        Outcome::Failed(Failure::BadFlag) => wire::StepFailure::BadFlag,
        Outcome::Failed(Failure::NotInstalled) => wire::StepFailure::NotInstalled,
        Outcome::Failed(Failure::ExitCode) => wire::StepFailure::ExitCode,
        Outcome::Failed(Failure::NoOutput) => wire::StepFailure::NoOutput,
        Outcome::Failed(Failure::MalformedStream) => wire::StepFailure::MalformedStream,
        Outcome::Failed(Failure::Budget) => wire::StepFailure::Budget,
        Outcome::Failed(Failure::OutputInvalid) => wire::StepFailure::OutputInvalid,
        Outcome::Failed(Failure::Refused) => wire::StepFailure::Refused,
    }
}

/// What the feed tells of runs: no words. `None` for what is no news to anybody.
pub(in crate::grpc) fn event(event: &Event) -> Option<Kind> {
    Some(match event {
        Event::Started(it) => Kind::RunStarted(wire::RunStarted {
            run_id: it.run.to_string(),
            mode: mode(it.mode).into(),
            agents: it.steps.iter().map(|step| step.agent.clone()).collect(),
            parent: match it.asker {
                Asker::Step(step) => Some(step_ref(step)),
                Asker::Role(_) | Asker::Person(_) => None,
            },
        }),
        Event::StepStarted(it) => {
            let wire::StepRef { run_id, step } = step_ref(it.step);
            Kind::StepStarted(wire::StepStarted { run_id, step, node: it.node.to_string() })
        }
        Event::StepEnded(it) => {
            let wire::StepRef { run_id, step } = step_ref(it.step);
            Kind::StepEnded(wire::StepEnded {
                run_id,
                step,
                status: outcome(it.outcome).into(),
                failure: failure(it.outcome).into(),
                usage: Some(usage(it.usage)),
            })
        }
        Event::Stopped { run, why } => Kind::RunStopped(wire::RunStopped {
            run_id: run.to_string(),
            why: stop(Some(*why)).into(),
        }),
        Event::Ended { run, outcome } => Kind::RunEnded(wire::RunEnded {
            run_id: run.to_string(),
            status: run_status(Some(*outcome)).into(),
        }),
        Event::ParentTold { step, number, kind, .. } => {
            let wire::StepRef { run_id, step } = step_ref(*step);
            let is_question = *kind == MessageKind::Question;
            Kind::ParentTold(wire::ParentTold { run_id, step, message: *number, is_question })
        }
        Event::Replied { run, number, .. } => {
            Kind::RunReplied(wire::RunReplied { run_id: run.to_string(), message: *number })
        }
        Event::Forgotten { runs } => Kind::RunsForgotten(wire::RunsForgotten {
            run_ids: runs.iter().map(ToString::to_string).collect(),
        }),
        Event::LeaseRenewed { .. } => return None,
    })
}
