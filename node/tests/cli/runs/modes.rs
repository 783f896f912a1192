//! What comes out of one task, several, and a chain of them.

use serde_json::json;
use tasuki_proto::wire::StepStatus;

use super::{FAILED, Running, lines, machine, only_run, parsed, printed, result, said, steps};
use crate::fake_agent::{Machine, write_agent};

#[tokio::test]
async fn a_run_prints_its_output_alone() {
    let mut machine = machine().await;
    let told = said(&machine, &["run", "scout", "say 'hello  there'"]).await;
    assert_eq!((told.code, told.out.as_str()), (0, "hello  there\n"), "{told:?}");
    // A word of a file, a line break and a quote mean nothing on the way.
    let task = "say \"$rest\"\n'one' \"two\"\t$HOME `id` \\n\n-x {model} ü\u{2028}end";
    let told = printed(&machine, &["run", "scout", task]).await;
    assert_eq!(told, "'one' \"two\"\t$HOME `id` \\n\n-x {model} ü\u{2028}end\n");
    machine.fake.gone().await;
}

#[tokio::test]
async fn programs_are_told_all_of_it_in_lines() {
    let machine = machine().await;
    let task = "turn 'let me look'; tool bash; say done";
    let all = lines(&machine, 0, &["run", "scout", task]).await;
    let told = all.last().unwrap();
    assert_eq!((&told["output"], &told["status"]), (&json!("done"), &json!("succeeded")), "{told}");
    assert_eq!((&told["event"], &told["run_mode"]), (&json!("end"), &json!("single")), "{told}");
    let usage = json!({
        "input_tokens": 20, "output_tokens": 10, "cache_read_tokens": 6, "cache_write_tokens": 4,
        "context_tokens": 20, "turns": 2, "cost_usd": 0.002,
    });
    assert_eq!(told["usage"], usage);
    let step = &told["steps"][0];
    assert_eq!((&step["agent"], &step["usage"]), (&json!("scout"), &usage));
    assert_eq!((&step["model"], &step["stop_reason"]), (&json!("fake/m"), &json!("stop")));
    assert_eq!((&step["exit_code"], &step["output_bytes"]), (&json!(0), &json!(4)));
    assert!(step["duration_ms"].is_u64() && step["node"].is_string(), "{step}");
    assert!(step.get("failure").is_none() && step.get("error").is_none(), "{step}");
    let run = machine.runs().only().await;
    assert!(all.iter().all(|line| line.to_string().contains(&run.run_id)), "{all:?}");
}

/// Holds RN1.
#[tokio::test]
async fn each_way_to_fail_is_told_apart() {
    let mut machine = machine().await;
    let table = [
        ("fail '401 bad key'", "model_error", "401 bad key"),
        ("fail '429 slow down'", "rate_limited", "429 slow down"),
        ("message half length; settle", "cut_off", "output limit.\n\nhalf"),
        ("exit 7", "exit_code", "exited with code 7"),
        ("say done; exit 7", "exit_code", "answered, then exited with code 7"),
        ("kill -9 $$", "killed", "Killed by SIGKILL"),
        ("kill -TERM $$", "killed", "Killed by SIGTERM"),
        ("exec no-such-program-at-all", "exit_code", "not found"),
        ("exit 0", "no_output", "without an answer"),
        ("turn 'let me look'", "malformed_stream", "ended before the final answer"),
    ];
    for (task, kind, words) in table {
        let told = result(&machine, FAILED, &["scout", task]).await;
        let step = &told["steps"][0];
        assert_eq!((&told["status"], &step["status"]), (&json!("failed"), &json!("failed")));
        assert_eq!(step["failure"], kind, "{task}: {told}");
        let output = told["output"].as_str().unwrap();
        assert!(output.starts_with("Agent ") && output.contains(words), "{task}: {output}");
    }
    let told = said(&machine, &["run", "scout", "fail '401 bad key'"]).await;
    assert_eq!(told.code, FAILED, "{told:?}");
    let words = "Agent error: 401 bad key. `tasuki runs ";
    assert!(told.out.is_empty() && told.err.contains(words), "{told:?}");
    // A retry inside of the agent that goes well is a success.
    let recovered = "play pi-1.5.2/llm-429-then-ok.jsonl";
    assert_eq!(result(&machine, 0, &["scout", recovered]).await["status"], "succeeded");
    machine.fake.gone().await;
}

#[tokio::test]
async fn parallel_tasks_answer_in_their_order_whoever_is_first() {
    let mut machine = machine().await;
    let tasks = [
        ("scout", "wait_go; say one"),
        ("planner", "say \"$rest\"\ntwo\nthree"),
        ("scout", "fail '401 bad key'"),
    ];
    let running = Running::run(&machine, &["--parallel", &steps(&machine, &tasks)]);
    machine.fake.begun(3).await;
    let runs = machine.runs();
    let run_id = only_run(&runs).await;
    let is_over = |status| matches!(status, StepStatus::Succeeded | StepStatus::Failed);
    let run = runs
        .until(&run_id, |run| run.steps.iter().filter(|it| is_over(it.status())).count() == 2)
        .await;
    assert_eq!(run.steps[0].status(), StepStatus::Running);
    machine.fake.let_go(1);
    let told = running.result(FAILED).await;
    assert_eq!(
        told["output"],
        "Parallel: 2/3 succeeded\n\n### 1/3 [scout] completed\n\none\n\n---\n\n\
         ### 2/3 [planner] completed\n\ntwo\nthree\n\n---\n\n\
         ### 3/3 [scout] failed (error)\n\nError: 401 bad key"
    );
    let statuses = told["steps"].as_array().unwrap().iter().map(|step| &step["status"]);
    assert_eq!(statuses.collect::<Vec<_>>(), ["succeeded", "succeeded", "failed"]);
    assert_eq!(told["usage"]["turns"], 3, "what failed was asked for, too: {told}");
    machine.fake.gone().await;
}

/// Four run at once, as in the original.
#[tokio::test]
async fn of_many_tasks_some_wait_for_others() {
    let mut machine = machine().await;
    let tasks: Vec<(&str, String)> =
        (0..8).map(|number| ("scout", format!("wait_go; say {number}"))).collect();
    let tasks: Vec<(&str, &str)> = tasks.iter().map(|(agent, task)| (*agent, &**task)).collect();
    let running = Running::run(&machine, &["--parallel", &steps(&machine, &tasks)]);
    machine.fake.begun(4).await;
    let runs = machine.runs();
    let run = runs.get(&only_run(&runs).await).await.unwrap();
    let is_running = |status| status == StepStatus::Running;
    assert_eq!(run.steps.iter().filter(|it| is_running(it.status())).count(), 4, "{run:?}");
    for _ in 0..4 {
        machine.fake.let_go(1);
        machine.fake.begun(1).await;
    }
    machine.fake.let_go(4);
    let told = running.result(0).await;
    let output = told["output"].as_str().unwrap();
    let numbers: Vec<&str> = output.lines().filter(|line| line.parse::<u8>().is_ok()).collect();
    assert_eq!(numbers, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    let nine: Vec<(&str, &str)> = vec![("scout", "say x"); 9];
    let told = said(&machine, &["run", "--parallel", &steps(&machine, &nine)]).await;
    assert!(told.err.contains("Too many parallel tasks (9). Max is 8."), "{told:?}");
    machine.fake.gone().await;
}

#[tokio::test]
async fn a_chain_hands_on_what_was_said_literally_everywhere_and_once() {
    let machine = machine().await;
    let said = "cost $& and $1 $$ \\1 \"q\"";
    let first = format!("say \"$rest {{prev\"'ious}}'\n{said}");
    let second = "say \"$rest\"\n<{previous}|{previous}>";
    let chain = [("scout", first.as_str()), ("planner", second), ("scout", "say \"[$rest]\"\nx")];
    let told = result(&machine, 0, &["--chain", &steps(&machine, &chain[..2])]).await;
    let previous = format!("{said} {{previous}}");
    assert_eq!(told["output"], format!("<{previous}|{previous}>"));
    let out = printed(&machine, &["run", "--chain", &steps(&machine, &chain)]).await;
    assert_eq!(out, "[x]\n", "without the placeholder nothing is added");
}

#[tokio::test]
async fn a_chain_ends_at_the_first_that_fails() {
    let mut machine = machine().await;
    let chain =
        [("scout", "say one"), ("planner", "fail '401 bad key'"), ("scout", "say '{previous}'")];
    let file = steps(&machine, &chain);
    let told = result(&machine, FAILED, &["--chain", &file]).await;
    assert_eq!(told["output"], "Chain stopped at step 2 (planner): 401 bad key");
    let run = machine.runs().only().await;
    let statuses: Vec<_> = run.steps.iter().map(|step| step.status()).collect();
    assert_eq!(statuses, [StepStatus::Succeeded, StepStatus::Failed, StepStatus::Canceled]);
    assert_eq!(run.steps[2].started_ms, 0, "it never began");
    let told = said(&machine, &["run", "--chain", &file]).await;
    assert_eq!(told.code, FAILED);
    let words = "Chain stopped at step 2 (planner): 401 bad key";
    assert!(format!("{}{}", told.out, told.err).contains(words), "{told:?}");
    machine.fake.gone().await;
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_before_anything_starts() {
    let absent = "[runner.absent]\nstream = \"pi\"\ncommand = [\"no-such-program-at-all\"]\n";
    let mut machine = Machine::up("", absent).await;
    machine.fake.add("lost", "cwd: ..\n");
    let with_ghost = steps(&machine, &[("scout", "say one"), ("ghost", "say two")]);
    let unknown = "Unknown agent: \"ghost\". Available agents: \"lost\", \"planner\", \"scout\".";
    for (args, words) in [
        (&["ghost", "say x"][..], unknown),
        (&["--chain", &with_ghost], unknown),
        (&["--parallel", &with_ghost], unknown),
        (&["lost", "say x"], "leaves the project"),
        (&["scout", ""], "empty"),
        (&["scout", "say x", "--on", "nowhere"], "nowhere"),
        (&["scout", "say x", "--runner", "absent"], "absent"),
    ] {
        let told = said(&machine, &[&["run"][..], args].concat()).await;
        assert!(told.code != 0 && told.out.is_empty(), "{args:?}: {told:?}");
        assert!(told.err.contains(words), "{args:?}: {told:?}");
        let told = said(&machine, &[&["run"][..], args, &["--json"]].concat()).await;
        assert!(parsed(&told.out).pop().unwrap()["error"]["message"].is_string(), "{told:?}");
    }
    assert!(machine.runs().all().await.unwrap().is_empty());
    machine.fake.gone().await;
}

/// Who types its name has agreed to it, and is told which file that is.
#[tokio::test]
async fn an_agent_of_the_project_goes_before_the_users_and_is_named() {
    let machine = machine().await;
    let project = machine.path("");
    write_agent(&project, "local", "");
    write_agent(&project, "scout", "model: theirs\n");
    for (agent, answer) in [("local", "m"), ("scout", "theirs")] {
        let told = said(&machine, &["run", agent, "say \"$model\""]).await;
        assert_eq!((told.code, told.out.trim_end()), (0, answer), "{told:?}");
        let file = format!(".tasuki/agents/{agent}.md");
        assert!(told.err.contains(&file), "{told:?}");
    }
    let told = said(&machine, &["run", "planner", "say mine"]).await;
    assert_eq!((told.code, told.out.as_str()), (0, "mine\n"), "{told:?}");
}
