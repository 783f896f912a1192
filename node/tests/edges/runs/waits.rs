//! Waiting for a run: progress in fixed words, holds, tasks, and what can be read meanwhile.

use std::process::Stdio;

use serde_json::{Value, json};
use tasuki_proto::wire::{self, RunStatus};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{
    client::{McpClient, User},
    machine, run_id, text,
};
use crate::{
    agents::{Agent, Manner, Transport},
    fake_agent::Machine,
    process::soon,
};

/// Holds RT4.
#[tokio::test]
async fn progress_is_said_in_fixed_words_and_never_in_an_agents() {
    let mut machine = machine().await;
    let mut boss = McpClient::new(&machine, "boss", User::Away).await;
    let task = "turn secret-words; tool secret-tool; wait_go; say secret-end";
    let tasks = json!([
        { "agent": "scout", "task": task },
        { "agent": "planner", "task": task },
        { "agent": "scout", "task": task },
    ]);
    let id = boss.begin("subagent", json!({ "tasks": tasks })).await;
    boss.told("Parallel: 0/3 done, 3 running...").await;
    for words in ["Parallel: 1/3 done, 2 running...", "Parallel: 2/3 done, 1 running..."] {
        machine.fake.let_go(1);
        boss.told(words).await;
    }
    machine.fake.let_go(1);
    assert!(text(&boss.end(id).await).starts_with("Parallel: 3/3 succeeded\n"));
    let chain = json!([
        { "agent": "scout", "task": task },
        { "agent": "planner", "task": task },
    ]);
    let id = boss.begin("subagent", json!({ "chain": chain })).await;
    boss.told("Chain: Step 1/2 (scout) running...").await;
    machine.fake.let_go(1);
    boss.told("Chain: Step 2/2 (planner) running...").await;
    machine.fake.let_go(1);
    assert_eq!(text(&boss.end(id).await), "secret-end");
    let id = boss.begin("subagent", json!({ "agent": "scout", "task": task })).await;
    boss.told("(running...)").await;
    machine.fake.let_go(1);
    boss.end(id).await;
    assert!(boss.progress.iter().all(|words| !words.contains("secret")), "{:?}", boss.progress);
    machine.fake.gone().await;
}

#[tokio::test]
async fn a_client_that_waits_no_longer_is_told_to_wait_again() {
    let mut machine = machine().await;
    let args = ["--role", "boss", "--hold", "1"];
    let mut boss = McpClient::with(&machine, &args, User::Away).await;
    let arguments = json!({ "agent": "scout", "task": "wait_go; say done" });
    let told = boss.call("subagent", arguments).await;
    let run = run_id(&told);
    assert_ne!(told["isError"], true, "it goes on: {told}");
    assert!(text(&told).contains(&run) && text(&told).contains("run_wait"), "{told}");
    let again = boss.call("run_wait", json!({ "run": run })).await;
    assert!(text(&again).contains("Still running"), "{again}");
    machine.fake.let_go(1);
    let waiting = async {
        loop {
            let told = boss.call("run_wait", json!({})).await;
            if told["structuredContent"]["status"] != "running" {
                return told;
            }
        }
    };
    assert_eq!(text(&soon(waiting).await), "done");
    let arguments = json!({ "agent": "scout", "task": "wait_go; say done", "background": true });
    let run = run_id(&boss.call("subagent", arguments).await);
    let told = boss.call("run_wait", json!({ "run": run, "timeout_sec": 0 })).await;
    assert_eq!(told["structuredContent"]["status"], "running", "a look: {told}");
    machine.fake.let_go(1);
    machine.runs().end(&run).await;
    machine.fake.gone().await;
}

/// A run that is waited for by a task of MCP.
#[tokio::test]
async fn a_client_that_takes_tasks_is_woken_by_one() {
    let mut machine = machine().await;
    let mut boss = McpClient::new(&machine, "boss", User::Away).await;
    let arguments = json!({ "agent": "scout", "task": "wait_go; say done", "background": true });
    let run = run_id(&boss.call("subagent", arguments).await);
    boss.vanish().await;
    let mut sleeper = sleeper(&machine).await;
    let task = soon(sleeper.begin("run_wait", json!({ "run": run }))).await.unwrap();
    assert_eq!(task["resultType"], "task", "{task}");
    machine.fake.let_go(1);
    let told = soon(sleeper.awoken(task)).await.unwrap();
    assert_eq!((text(&told), &told["structuredContent"]["status"]), ("done", &json!("succeeded")));
    machine.fake.gone().await;
}

/// An agent that takes tasks for answers.
async fn sleeper(machine: &Machine) -> Agent {
    let manner = Manner { takes_tasks: true, ..Manner::default() };
    let (mcp, data) = (machine.up.mcp, machine.up.data.clone());
    Agent::with(Transport::Stateless, "boss", mcp, data, manner).await
}

/// Cancels the task that a call was answered with; what it says then.
async fn cancel(sleeper: &mut Agent, task: &Value) -> String {
    let id = task["taskId"].as_str().unwrap_or_else(|| panic!("no task: {task}"));
    let about_it =
        |method: &str| json!({ "jsonrpc": "2.0", "method": method, "params": { "taskId": id } });
    soon(sleeper.ask(id, about_it("tasks/cancel"))).await.unwrap();
    let told = soon(sleeper.ask(id, about_it("tasks/get"))).await.unwrap();
    assert_eq!(told["status"], "cancelled", "{told}");
    told["statusMessage"].as_str().unwrap().to_owned()
}

/// Holds RT1.
#[tokio::test]
async fn a_task_of_the_call_that_started_a_run_ends_it_when_it_is_cancelled() {
    let mut machine = machine().await;
    let mut sleeper = sleeper(&machine).await;
    let arguments = json!({ "agent": "scout", "task": "stubborn; daemon; hang" });
    let task = soon(sleeper.begin("subagent", arguments)).await.unwrap();
    machine.fake.begun(1).await;
    let told = cancel(&mut sleeper, &task).await;
    let run = machine.runs().only().await.run_id;
    assert_eq!(told, format!("Cancelled by its client. Run {run} is being canceled."));
    machine.fake.gone().await;
    assert_eq!(machine.runs().end(&run).await, RunStatus::Canceled);
}

/// What a newer wait took the place of is over; whoever calls it off ends nothing.
#[tokio::test]
async fn a_task_of_a_wait_ends_the_wait_alone_when_it_is_cancelled() {
    let mut machine = machine().await;
    let mut sleeper = sleeper(&machine).await;
    let arguments = json!({ "agent": "scout", "task": "wait_go; say done" });
    let started = soon(sleeper.begin("subagent", arguments)).await.unwrap();
    let run = machine.runs().only().await.run_id;
    let waiting = soon(sleeper.begin("run_wait", json!({ "run": run }))).await.unwrap();
    let words = format!("Cancelled by its client. The run goes on; run_cancel {run} ends it.");
    for task in [&started, &waiting] {
        assert_eq!(cancel(&mut sleeper, task).await, words);
    }
    machine.fake.let_go(1);
    assert_eq!(machine.runs().end(&run).await, RunStatus::Succeeded);
    machine.fake.gone().await;
}

/// The broker dies while a call is held: it is answered all the same.
#[tokio::test]
async fn a_call_that_is_held_hears_that_its_run_was_lost() {
    let mut machine = machine().await;
    let mut boss = McpClient::new(&machine, "boss", User::Away).await;
    let arguments = json!({ "agent": "scout", "task": "daemon; hang", "background": true });
    let run = run_id(&boss.call("subagent", arguments).await);
    machine.fake.begun(1).await;
    machine.up.kill().await;
    machine.fake.gone().await;
    machine.up.start().await;
    // The bridge says what it was asked to the node that is there.
    let waiting = async {
        loop {
            let told = boss.call("run_wait", json!({ "run": run })).await;
            if told["structuredContent"]["status"] == "lost" {
                return told;
            }
            let code = &told["structuredContent"]["error"]["code"];
            let is_away = *code == "unavailable" || *code == "outcome_unknown";
            assert!(is_away || told["structuredContent"]["status"] == "running", "{told}");
        }
    };
    let told = soon(waiting).await;
    assert_eq!(told["isError"], true, "{told}");
    assert!(text(&told).contains("is gone"), "{told}");
}

/// What an agent wrote so far is a resource, not progress.
#[tokio::test]
async fn the_output_so_far_can_be_read_and_subscribed_to() {
    let mut machine = machine().await;
    let mut boss = McpClient::new(&machine, "boss", User::Away).await;
    let task = "turn first-words; wait_go; turn other-words; wait_go; say done";
    let arguments = json!({ "agent": "scout", "task": task, "background": true });
    let run = run_id(&boss.call("subagent", arguments).await);
    let uri = format!("tasuki://run/{run}");
    boss.request("resources/subscribe", json!({ "uri": uri })).await;
    machine.fake.begun(1).await;
    for words in ["first-words", "other-words", "done"] {
        let reading = async {
            loop {
                let read = boss.request("resources/read", json!({ "uri": uri })).await;
                let text: &Value = &read["contents"][0]["text"];
                if text.as_str().is_some_and(|text| text.contains(words)) {
                    return;
                }
            }
        };
        soon(reading).await;
        machine.fake.let_go(1);
    }
    machine.runs().end(&run).await;
    machine.fake.gone().await;
}

/// Starts a run of a role that no node takes. Returns its id.
async fn start_nowhere(machine: &Machine, role: &str, counter: u64) -> String {
    let step = wire::NewStep {
        agent: "scout".to_owned(),
        runner: "fake".to_owned(),
        on: "nowhere".to_owned(),
        task: Some(wire::RunText { text: "say other".to_owned(), sealed: None }),
        ..Default::default()
    };
    let request = wire::StartRunRequest {
        key: Some(wire::IdempotencyKey { client_id: "others".to_owned(), counter }),
        role: role.to_owned(),
        mode: wire::RunMode::Single.into(),
        steps: vec![step],
        ..Default::default()
    };
    let started = soon(machine.runs().client().start_run(request)).await.unwrap();
    started.into_inner().run.unwrap().run_id
}

#[tokio::test]
async fn a_run_that_no_node_takes_says_what_it_waits_for() {
    const NODE: &str = "a free place on a node that runs fake and is, or has the label, nowhere";
    let mut machine = machine().await;
    let mut boss = McpClient::new(&machine, "boss", User::Away).await;
    let run = start_nowhere(&machine, "boss", 1).await;
    for (tool, arguments) in [
        ("run_status", json!({ "run": run })),
        ("run_wait", json!({ "run": run, "timeout_sec": 0 })),
    ] {
        let told = boss.call(tool, arguments).await;
        assert!(text(&told).contains(&format!("waiting for {NODE}")), "{tool}: {told}");
        assert_eq!(told["structuredContent"]["steps"][0]["waits_for"], NODE, "{tool}: {told}");
    }
    let waiting = boss.begin("run_wait", json!({ "run": run })).await;
    boss.told(&format!("(waiting for {NODE}...)")).await;
    let shown = soon(machine.command(&["runs", "show", &run]).output()).await.unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("waits for") && shown.contains(NODE), "{shown}");
    let mut command = machine.command(&["runs", "watch", &run]);
    let mut watch = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stderr.take().unwrap()).lines();
    while !soon(lines.next_line()).await.unwrap().unwrap().contains(NODE) {}
    boss.call("run_cancel", json!({ "run": run })).await;
    assert_eq!(run_id(&boss.end(waiting).await), run);
    soon(watch.wait()).await.unwrap();
    machine.fake.gone().await;
}

#[tokio::test]
async fn runs_of_others_hide_none_of_the_callers() {
    /// As many as a node looks through.
    const OTHERS: u64 = 200;
    let mut machine = machine().await;
    let mut boss = McpClient::new(&machine, "boss", User::Away).await;
    boss.call("subagent", json!({ "agent": "scout", "task": "say done" })).await;
    for counter in 1..=OTHERS {
        start_nowhere(&machine, "other", counter).await;
    }
    assert_eq!(text(&boss.call("run_wait", json!({})).await), "done", "its newest");
    machine.fake.gone().await;
}
