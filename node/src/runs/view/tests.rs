//! Runs of all kinds, as they are told.

use tasuki_proto::wire::StepStatus;

use super::*;
use crate::runs::convert::text;

/// A run as `MODE STATUS`, and its steps as `AGENT STATUS FAILURE|WORDS`, with a `-` before the status
/// of one that never began. The words are its output, or why it failed.
fn view(run: &str, steps: &[&str]) -> RunView {
    let named = |prefix: &str, name: &str| format!("{prefix}{}", name.to_uppercase());
    let (mode, status) = run.split_once(' ').unwrap();
    let mut view = RunView {
        run: wire::Run {
            run_id: "run_1_00af".to_owned(),
            mode: RunMode::from_str_name(&named("RUN_MODE_", mode)).unwrap().into(),
            status: RunStatus::from_str_name(&named("RUN_STATUS_", status)).unwrap().into(),
            ..Default::default()
        },
        steps: Vec::new(),
    };
    for (number, line) in (1..).zip(steps) {
        let (how, words) = line.split_once('|').unwrap_or((line, ""));
        let mut how = how.split(' ');
        let (agent, status) = (how.next().unwrap(), how.next().unwrap());
        let ran = u64::from(!status.starts_with('-'));
        let status = named("STEP_STATUS_", status.trim_start_matches('-'));
        let status = StepStatus::from_str_name(&status).unwrap();
        let failure = how.next().map(|it| named("STEP_FAILURE_", it));
        let failure = failure.map(|it| StepFailure::from_str_name(&it).unwrap());
        let (output, error) = if status == Succeeded { (words, "") } else { ("", words) };
        let step = wire::RunStep {
            step: number,
            agent: agent.to_owned(),
            runner: "pi".to_owned(),
            status: status.into(),
            failure: failure.unwrap_or_default().into(),
            started_ms: ran * 1_000,
            ended_ms: if status == Running { 0 } else { ran * 3_500 },
            output_bytes: output.len() as u64,
            ..Default::default()
        };
        view.run.steps.push(step.clone());
        view.steps.push(wire::GetStepResponse {
            step: Some(step),
            output: vec![text(output)],
            error: Some(text(error)),
            now_ms: 9_000,
            ..Default::default()
        });
    }
    view
}

#[test]
fn a_single_run_is_its_output_or_why_there_is_none() {
    for (run, step, said) in [
        ("single succeeded", "scout succeeded|out[auth]", "out[auth]"),
        ("single succeeded", "scout succeeded| \n", "(no output)"),
        ("single failed", "scout failed model_error|401 bad key", "Agent error: 401 bad key"),
        ("single failed", "scout failed refused|It is not here.", "Agent failed: It is not here."),
        (
            "single failed",
            "scout failed refused",
            "Agent failed: The node could not deliver what it wrote: the workspace takes no plain \
             texts.",
        ),
        ("single failed", "scout failed exit_code| ", "Agent failed: No reason is known."),
        (
            "single lost",
            "scout lost",
            "Agent failed: The node that ran it is gone; it was not run again.",
        ),
        ("single canceled", "scout canceled", "Agent aborted: Canceled."),
        ("single canceled", "scout -canceled", "Agent aborted: Canceled before it began."),
        // Of a newer broker.
        ("single unspecified", "scout unspecified", "Agent failed: How it ended is not known."),
    ] {
        let view = view(run, &[step]);
        assert_eq!(view.text(), said);
        assert_eq!(view.is_failure(), run != "single succeeded", "{said}");
    }
}

#[test]
fn an_output_in_parts_is_one_and_what_is_missing_is_counted() {
    let mut view = view("single succeeded", &["scout succeeded|first, "]);
    view.steps[0].output.push(text("second"));
    assert_eq!(view.text(), "first, second");
    view.run.steps[0].output_bytes = 100;
    assert_eq!(
        view.text(),
        "first, second\n\n[Output truncated: 87 bytes omitted. Call run_output with run run_1_00af \
         and step 1 for all of it.]"
    );
}

#[test]
fn what_is_missing_of_an_output_is_that_of_its_step() {
    const ONE: &str = "scout succeeded|out";
    for mode in ["chain", "parallel"] {
        let mut view = view(&format!("{mode} succeeded"), &[ONE, ONE]);
        view.run.steps[1].output_bytes = 100;
        let text = view.text();
        let rest = "[Output truncated: 97 bytes omitted. Call run_output with run run_1_00af and \
                    step 2 for all of it.]";
        assert!(text.ends_with(rest), "{text}");
        assert_eq!(text.matches("run_output").count(), 1, "{text}");
    }
}

#[test]
fn a_parallel_run_tells_all_steps_and_fails_with_any() {
    const ONE: &str = "scout succeeded|out[t1]";
    let all = view("parallel succeeded", &[ONE, ONE]);
    let begin = "Parallel: 2/2 succeeded\n\n### 1/2 [scout] completed\n\nout[t1]";
    assert!(all.text().starts_with(begin), "{}", all.text());
    assert!(!all.is_failure());
    let late = "writer failed timed_out|Timed out after 60 s.";
    let some = view("parallel failed", &[ONE, late, ONE]);
    assert_eq!(
        some.text(),
        "Parallel: 2/3 succeeded\n\n### 1/3 [scout] completed\n\nout[t1]\n\n---\n\n### 2/3 [writer] \
         failed (timed_out)\n\nError: Timed out after 60 s.\n\n---\n\n### 3/3 [scout] \
         completed\n\nout[t1]"
    );
    assert!(some.is_failure());
    // A step decides, whatever is said of the run.
    assert!(view("parallel succeeded", &[ONE, "writer lost"]).is_failure());
}

#[test]
fn a_chain_is_its_last_output_or_the_step_that_stopped_it() {
    const FIRST: &str = "scout succeeded|out[a]";
    let done = view("chain succeeded", &[FIRST, "writer succeeded|out[b]"]);
    assert_eq!((done.text(), done.is_failure()), ("out[b]".to_owned(), false));
    for (run, second, why) in [
        ("chain failed", "writer failed model_error|429", "429"),
        ("chain lost", "writer lost", "The node that ran it is gone; it was not run again."),
        ("chain canceled", "writer -canceled", "Canceled before it began."),
    ] {
        let stopped = view(run, &[FIRST, second, "tester -canceled"]);
        let said = format!("Chain stopped at step 2 (writer): {why}");
        assert_eq!((stopped.text(), stopped.is_failure()), (said, true));
    }
}

#[test]
fn a_run_without_budget_says_which_limit_is_reached() {
    let steps = [
        "scout failed budget",
        "writer -canceled",
        "tester failed budget|Stopped: the budget is used up (max_turns).",
    ];
    let mut view = view("parallel out_of_budget", &steps);
    view.run.budget =
        Some(wire::RunBudget { max_cost_microusd: 500_000, max_turns: 20, ..Default::default() });
    view.run.usage =
        Some(wire::RunUsage { cost_microusd: 500_001, turns: 19, ..Default::default() });
    assert_eq!(
        view.text(),
        "Parallel: 0/3 succeeded\n\n### 1/3 [scout] failed (budget)\n\nError: Stopped: the budget is \
         used up (max_cost 0.5 USD).\n\n---\n\n### 2/3 [writer] failed (budget)\n\nError: Not \
         started: the budget is used up (max_cost 0.5 USD).\n\n---\n\n### 3/3 [tester] failed \
         (budget)\n\nError: Stopped: the budget is used up (max_turns)."
    );
    assert!(view.is_failure());
    // A limit of a run above it is not seen here.
    view.run.budget = None;
    assert!(view.text().contains("Not started: the budget is used up.\n"), "{}", view.text());
}

/// Holds RV2.
#[test]
fn progress_is_said_in_fixed_words_until_it_is_over() {
    const DONE: &str = "scout succeeded|secret words";
    for (mode, steps, said) in [
        ("single", vec!["scout running"], "(running...)"),
        (
            "parallel",
            vec![DONE, "scout failed killed|words", "writer running"],
            "Parallel: 2/3 done, 1 running...",
        ),
        (
            "parallel",
            vec!["writer running", "scout -ready", "scout -waiting"],
            "Parallel: 0/3 done, 1 running, 2 pending...",
        ),
        (
            "chain",
            vec![DONE, "planner running", "writer -waiting"],
            "Chain: Step 2/3 (planner) running...",
        ),
        (
            "chain",
            vec![DONE, "writer -ready"],
            "Chain: Step 2/2 (writer) waiting for a free place on a node that runs pi...",
        ),
        ("single", vec!["scout -ready"], "(waiting for a free place on a node that runs pi...)"),
        (
            "parallel",
            vec![DONE, "scout -ready", "writer -waiting"],
            "Parallel: 1/3 done, 0 running, 2 pending... Waiting for a free place on a node that runs pi.",
        ),
        ("chain", vec![DONE], "Chain: Step 1/1 (scout) running..."),
    ] {
        let view = view(&format!("{mode} running"), &steps);
        assert_eq!((view.progress(), view.text()), (said.to_owned(), said.to_owned()));
        assert!(!view.is_failure());
    }
}

#[test]
fn a_step_that_no_node_has_taken_names_the_node_it_waits_for() {
    let mut view = view("parallel running", &["scout running", "writer -ready", "tester -waiting"]);
    let waits_for = |view: &RunView| {
        let steps = view.value()["steps"].take();
        [0, 1, 2].map(|step| steps[step]["waits_for"].as_str().map(str::to_owned))
    };
    let writer = |words: &str| [None, Some(words.to_owned()), None];
    view.run.node = "desk".to_owned();
    assert_eq!(waits_for(&view), writer("a free place on a node that runs pi and is desk"));
    view.run.steps[1].on = "gpu".to_owned();
    let words = "a free place on a node that runs pi and is, or has the label, gpu";
    assert_eq!(waits_for(&view), writer(words));
    assert_eq!(awaited_node(&view.run), None, "another runs");
    view.run.steps[0].set_status(Succeeded);
    assert_eq!(awaited_node(&view.run).as_deref(), Some(words));
}

#[test]
fn a_program_is_told_the_output_first_then_all_of_the_run() {
    let steps = ["scout failed output_invalid|It is no JSON.", "writer running", "scout -canceled"];
    let mut view = view("parallel failed", &steps);
    let usage = wire::RunUsage {
        input_tokens: 1000,
        output_tokens: 20,
        cache_read_tokens: 200,
        cache_write_tokens: 3,
        cost_microusd: 1_040,
        turns: 2,
        context_tokens: 1242,
    };
    let step = &mut view.run.steps[0];
    (step.usage, step.exit_code, step.output_bytes) = (Some(usage), Some(0), 7);
    step.stop_reason = "stop".to_owned();
    (step.model, step.node) = ("opus".to_owned(), "laptop".to_owned());
    view.run.usage = Some(wire::RunUsage { cost_microusd: 2_500_000, ..usage });
    let value = view.value();
    let text = value.to_string();
    let fields = ["output", "run_id", "run_mode", "status", "steps"].map(|it| format!("\"{it}\":"));
    let places: Vec<_> = fields.iter().map(|field| text.find(field).unwrap()).collect();
    assert!(places.is_sorted() && places[0] == 1, "{text}");
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
            assert_eq!(enum_name(failure.as_str_name(), "STEP_FAILURE_"), kind.as_str());
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
    let known = view("single succeeded", &["scout succeeded|out"]);
    assert!(!known.is_failure());
    let (mut run, mut step) = (known.clone(), known);
    run.run.status = 99;
    step.run.steps[0].status = 99;
    assert!(run.is_failure() && step.is_failure());
}
