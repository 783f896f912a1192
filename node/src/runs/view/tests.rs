//! Runs of all kinds, as they are told.

use tasuki_proto::wire::StepStatus;

use super::*;
use crate::runs::convert::text;

/// A step that ended, and its words.
#[derive(Clone)]
struct Told {
    step: wire::RunStep,
    output: Vec<&'static str>,
    error: &'static str,
}

fn step(agent: &str, status: StepStatus) -> Told {
    let step = wire::RunStep {
        agent: agent.to_owned(),
        status: status.into(),
        started_ms: 1_000,
        ended_ms: 3_500,
        ..Default::default()
    };
    Told { step, output: Vec::new(), error: "" }
}

fn answered(agent: &str, output: &'static str) -> Told {
    Told { output: vec![output], ..step(agent, Succeeded) }
}

fn failed(agent: &str, failure: StepFailure, error: &'static str) -> Told {
    let mut told = step(agent, Failed);
    told.step.set_failure(failure);
    Told { error, ..told }
}

/// It never ran.
fn unbegun(agent: &str, status: StepStatus) -> Told {
    let mut told = step(agent, status);
    (told.step.started_ms, told.step.ended_ms) = (0, 0);
    told
}

fn view(mode: RunMode, status: RunStatus, told: Vec<Told>) -> RunView {
    let mut view = RunView {
        run: wire::Run {
            run_id: "run_1_00af".to_owned(),
            mode: mode.into(),
            status: status.into(),
            ..Default::default()
        },
        steps: Vec::new(),
    };
    for (number, Told { mut step, output, error }) in (1..).zip(told) {
        step.step = number;
        let bytes: usize = output.iter().map(|part| part.len()).sum();
        step.output_bytes = step.output_bytes.max(bytes as u64);
        view.run.steps.push(step.clone());
        view.steps.push(wire::GetStepResponse {
            step: Some(step),
            output: output.into_iter().map(text).collect(),
            error: (!error.is_empty()).then(|| text(error)),
            now_ms: 9_000,
            ..Default::default()
        });
    }
    view
}

#[test]
fn a_single_run_is_its_output_or_why_there_is_none() {
    for (status, told, said) in [
        (RunStatus::Succeeded, answered("scout", "out[auth]"), "out[auth]"),
        (RunStatus::Succeeded, answered("scout", " \n"), "(no output)"),
        (
            RunStatus::Failed,
            failed("scout", StepFailure::ModelError, "401 bad key"),
            "Agent error: 401 bad key",
        ),
        (
            RunStatus::Failed,
            failed("scout", StepFailure::Refused, "The directory is not in the project."),
            "Agent failed: The directory is not in the project.",
        ),
        (
            RunStatus::Failed,
            failed("scout", StepFailure::ExitCode, " "),
            "Agent failed: No reason is known.",
        ),
        (
            RunStatus::Lost,
            step("scout", Lost),
            "Agent failed: The node that ran it is gone; it was not run again.",
        ),
        (RunStatus::Canceled, step("scout", Canceled), "Agent aborted: Canceled."),
        (
            RunStatus::Canceled,
            unbegun("scout", Canceled),
            "Agent aborted: Canceled before it began.",
        ),
        // Of a newer broker.
        (
            RunStatus::Unspecified,
            step("scout", Unspecified),
            "Agent failed: How it ended is not known.",
        ),
    ] {
        let view = view(RunMode::Single, status, vec![told]);
        assert_eq!(view.text(), said);
        assert_eq!(view.is_failure(), status != RunStatus::Succeeded, "{said}");
    }
}

#[test]
fn an_output_in_parts_is_one_and_what_is_missing_is_counted() {
    let mut told = Told { output: vec!["first, ", "second"], ..step("scout", Succeeded) };
    assert_eq!(
        view(RunMode::Single, RunStatus::Succeeded, vec![told.clone()]).text(),
        "first, second"
    );
    told.step.output_bytes = 100;
    assert_eq!(
        view(RunMode::Single, RunStatus::Succeeded, vec![told]).text(),
        "first, second\n\n[Output truncated: 87 bytes omitted. Call run_output with run run_1_00af \
         for all of it.]"
    );
}

#[test]
fn a_parallel_run_tells_all_steps_and_fails_with_any() {
    let one = || answered("scout", "out[t1]");
    let all = view(RunMode::Parallel, RunStatus::Succeeded, vec![one(), one()]);
    assert!(all.text().starts_with("Parallel: 2/2 succeeded\n\n### [scout] completed\n\nout[t1]"));
    assert!(!all.is_failure());
    let some = view(
        RunMode::Parallel,
        RunStatus::Failed,
        vec![one(), failed("writer", StepFailure::TimedOut, "Timed out after 60 s."), one()],
    );
    assert_eq!(
        some.text(),
        "Parallel: 2/3 succeeded\n\n### [scout] completed\n\nout[t1]\n\n---\n\n### [writer] failed \
         (timed_out)\n\nError: Timed out after 60 s.\n\n---\n\n### [scout] completed\n\nout[t1]"
    );
    assert!(some.is_failure());
    // A step decides, whatever is said of the run.
    let odd = view(RunMode::Parallel, RunStatus::Succeeded, vec![one(), step("writer", Lost)]);
    assert!(odd.is_failure());
}

#[test]
fn a_chain_is_its_last_output_or_the_step_that_stopped_it() {
    let first = || answered("scout", "out[a]");
    let chain = |status, rest: Vec<Told>| {
        let told = [vec![first()], rest].concat();
        view(RunMode::Chain, status, told)
    };
    let done = chain(RunStatus::Succeeded, vec![answered("writer", "out[b]")]);
    assert_eq!((done.text(), done.is_failure()), ("out[b]".to_owned(), false));
    for (status, rest, said) in [
        (
            RunStatus::Failed,
            vec![failed("writer", StepFailure::ModelError, "429"), unbegun("tester", Canceled)],
            "Chain stopped at step 2 (writer): 429",
        ),
        (
            RunStatus::Lost,
            vec![step("writer", Lost), unbegun("tester", Canceled)],
            "Chain stopped at step 2 (writer): The node that ran it is gone; it was not run again.",
        ),
        (
            RunStatus::Canceled,
            vec![unbegun("writer", Canceled), unbegun("tester", Canceled)],
            "Chain stopped at step 2 (writer): Canceled before it began.",
        ),
    ] {
        let stopped = chain(status, rest);
        assert_eq!((stopped.text(), stopped.is_failure()), (said.to_owned(), true));
    }
}

#[test]
fn a_run_without_budget_says_which_limit_is_reached() {
    let told = vec![
        failed("scout", StepFailure::Budget, ""),
        unbegun("writer", Canceled),
        failed("tester", StepFailure::Budget, "Stopped: the budget is used up (max_turns)."),
    ];
    let mut view = view(RunMode::Parallel, RunStatus::OutOfBudget, told);
    view.run.budget =
        Some(wire::RunBudget { max_cost_microusd: 500_000, max_turns: 20, ..Default::default() });
    view.run.usage =
        Some(wire::RunUsage { cost_microusd: 500_001, turns: 19, ..Default::default() });
    assert_eq!(
        view.text(),
        "Parallel: 0/3 succeeded\n\n### [scout] failed (budget)\n\nError: Stopped: the budget is \
         used up (max_cost 0.5 USD).\n\n---\n\n### [writer] failed (budget)\n\nError: Not started: \
         the budget is used up (max_cost 0.5 USD).\n\n---\n\n### [tester] failed (budget)\n\n\
         Error: Stopped: the budget is used up (max_turns)."
    );
    assert!(view.is_failure());
    // A limit of a run above it is not seen here.
    view.run.budget = None;
    assert!(view.text().contains("Not started: the budget is used up.\n"), "{}", view.text());
}

#[test]
fn progress_is_said_in_fixed_words_until_it_is_over() {
    let done = || answered("scout", "secret words");
    let open = |agent, status| unbegun(agent, status);
    for (mode, told, said) in [
        (RunMode::Single, vec![step("scout", Running)], "(running...)"),
        (
            RunMode::Parallel,
            vec![done(), failed("scout", StepFailure::Killed, "words"), step("writer", Running)],
            "Parallel: 2/3 done, 1 running...",
        ),
        (
            RunMode::Parallel,
            vec![step("writer", Running), open("scout", Ready), open("scout", Waiting)],
            "Parallel: 0/3 done, 1 running, 2 pending...",
        ),
        (
            RunMode::Chain,
            vec![done(), step("planner", Running), open("writer", Waiting)],
            "Chain: Step 2/3 (planner) running...",
        ),
        (
            RunMode::Chain,
            vec![done(), open("writer", Ready)],
            "Chain: Step 2/2 (writer) running...",
        ),
        (RunMode::Chain, vec![done()], "Chain: Step 1/1 (scout) running..."),
    ] {
        let view = view(mode, RunStatus::Running, told);
        assert_eq!((view.progress(), view.text()), (said.to_owned(), said.to_owned()));
        assert!(!view.is_failure());
    }
}

#[test]
fn a_program_is_told_the_output_first_then_all_of_the_run() {
    let mut told = failed("scout", StepFailure::OutputInvalid, "It is no JSON.");
    let usage = wire::RunUsage {
        input_tokens: 1000,
        output_tokens: 20,
        cache_read_tokens: 200,
        cache_write_tokens: 3,
        cost_microusd: 1_040,
        turns: 2,
        context_tokens: 1242,
    };
    told.step.usage = Some(usage);
    told.step.exit_code = Some(0);
    told.step.stop_reason = "stop".to_owned();
    (told.step.model, told.step.node) = ("opus".to_owned(), "laptop".to_owned());
    told.step.output_bytes = 7;
    let mut open = step("writer", Running);
    open.step.ended_ms = 0;
    let mut view =
        view(RunMode::Parallel, RunStatus::Failed, vec![told, open, unbegun("scout", Canceled)]);
    view.run.usage = Some(wire::RunUsage { cost_microusd: 2_500_000, ..usage });
    let text = serde_json::to_string(&view.report()).unwrap();
    let fields = ["output", "run_id", "run_mode", "status", "steps"].map(|it| format!("\"{it}\":"));
    let places: Vec<_> = fields.iter().map(|field| text.find(field).unwrap()).collect();
    assert!(places.is_sorted() && places[0] == 1, "{text}");
    let value = view.value();
    assert_eq!(value["output"], view.text());
    assert_eq!(
        json!([value["run_id"], value["run_mode"], value["status"], value["usage"]["cost_usd"]]),
        json!(["run_1_00af", "parallel", "failed", 2.5])
    );
    assert_eq!(
        value["steps"][0],
        json!({
            "step": 1, "agent": "scout", "status": "failed", "failure": "output_invalid",
            "error": "It is no JSON.", "stop_reason": "stop", "exit_code": 0, "model": "opus",
            "node": "laptop", "duration_ms": 2500, "output_bytes": 7,
            "usage": {
                "input_tokens": 1000, "output_tokens": 20, "cache_read_tokens": 200,
                "cache_write_tokens": 3, "context_tokens": 1242, "turns": 2, "cost_usd": 0.00104,
            },
        })
    );
    // So far; and nothing of one that never ran.
    assert_eq!(value["steps"][1]["duration_ms"], 8_000);
    assert_eq!(
        json!([value["steps"][2]["status"], value["steps"][2]["error"]]),
        json!(["canceled", "Canceled before it began."])
    );
    assert!(value["steps"][2].get("duration_ms").is_none(), "{value}");
}

#[test]
fn failures_are_called_as_their_kinds() {
    for kind in FailureKind::ALL {
        let failure = crate::runs::convert::failure_to_wire(kind);
        if failure != StepFailure::Unspecified {
            assert_eq!(name(failure.as_str_name(), "STEP_FAILURE_"), kind.as_str());
        }
    }
}

#[test]
fn dollars_are_exact() {
    for (micros, said) in [
        (0, "0"),
        (1, "0.000001"),
        (500_000, "0.5"),
        (10_000_000, "10"),
        (u64::MAX, "18446744073709.551615"),
    ] {
        assert_eq!(dollars(micros), said);
    }
}

/// Holds RV1.
#[test]
fn a_status_that_is_not_known_is_no_success() {
    let mut told = view(RunMode::Single, RunStatus::Succeeded, vec![answered("scout", "out")]);
    assert!(!told.is_failure());
    told.run.status = 99;
    assert!(told.is_failure(), "the run's");
    let mut told = view(RunMode::Single, RunStatus::Succeeded, vec![answered("scout", "out")]);
    told.run.steps[0].status = 99;
    assert!(told.is_failure(), "a step's");
}
