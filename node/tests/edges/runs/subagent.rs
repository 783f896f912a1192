//! `subagent` and the tools that look at runs: what a model is told.

use serde_json::json;
use tasuki_proto::wire::{RunStatus, StepStatus};

use super::{
    client::{McpClient, User},
    machine, run_id, text,
};
use crate::fake_agent::Machine;

async fn boss(machine: &Machine) -> McpClient {
    McpClient::new(machine, "boss", User::Away).await
}

/// An agent with tools to start others can spend money and change files: it is given to none that
/// did not ask for it.
#[tokio::test]
async fn only_a_role_with_the_toolset_starts_sub_agents() {
    let machine = machine().await;
    let ours = |name: &String| name == "subagent" || name.starts_with("run_");
    let mut a = McpClient::new(&machine, "A", User::Away).await;
    assert!(!a.tools().await.iter().any(ours));
    let arguments = json!({ "agent": "scout", "task": "say x" });
    let refused = a.refused("subagent", arguments).await;
    assert!(refused["message"].as_str().unwrap().contains("subagent"), "{refused}");
    let mut names: Vec<String> = boss(&machine).await.tools().await;
    names.retain(ours);
    names.sort();
    let all = [
        "run_agents",
        "run_cancel",
        "run_output",
        "run_reply",
        "run_save_file",
        "run_status",
        "run_wait",
        "subagent",
    ];
    assert_eq!(names, all);
    assert!(machine.runs().all().await.unwrap().is_empty());
}

#[tokio::test]
async fn an_output_comes_first_in_text_and_in_structured_content() {
    let mut machine = machine().await;
    let mut boss = boss(&machine).await;
    let told =
        boss.call("subagent", json!({ "agent": "scout", "task": "turn x; say hello" })).await;
    assert_eq!((text(&told), &told["isError"]), ("hello", &json!(false)), "{told}");
    let facts = &told["structuredContent"];
    assert_eq!((&facts["output"], &facts["status"]), (&json!("hello"), &json!("succeeded")));
    assert_eq!((&facts["run_mode"], &facts["usage"]["turns"]), (&json!("single"), &json!(2)));
    let step = &facts["steps"][0];
    assert_eq!((&step["agent"], &step["exit_code"]), (&json!("scout"), &json!(0)));
    assert_eq!((&step["model"], &step["stop_reason"]), (&json!("fake/m"), &json!("stop")));
    // Clients show as little as the first 2 KB of it.
    let begins = r#""structuredContent":{"output":"hello""#;
    assert!(boss.raw.contains(begins), "{}", boss.raw);
    assert!(machine.runs().only().await.role == "boss");
    machine.fake.gone().await;
}

#[tokio::test]
async fn parallel_tasks_and_chains_say_what_the_original_says() {
    let mut machine = machine().await;
    let mut boss = boss(&machine).await;
    let tasks = json!([
        { "agent": "scout", "task": "say one" },
        { "agent": "planner", "task": "fail '401 bad key'" },
        { "agent": "scout", "task": "say three" },
    ]);
    let told = boss.call("subagent", json!({ "tasks": tasks })).await;
    assert_eq!(
        text(&told),
        "Parallel: 2/3 succeeded\n\n### 1/3 [scout] completed\n\none\n\n---\n\n\
         ### 2/3 [planner] failed (error)\n\nError: 401 bad key\n\n---\n\n\
         ### 3/3 [scout] completed\n\nthree"
    );
    assert_eq!(
        (&told["isError"], told["structuredContent"]["steps"].as_array().unwrap().len()),
        (&json!(true), 3)
    );
    let chain = json!([
        { "agent": "scout", "task": "say '$& $$'" },
        { "agent": "planner", "task": "say \"<$rest>\"\n{previous}" },
    ]);
    let told = boss.call("subagent", json!({ "chain": chain })).await;
    assert_eq!((text(&told), &told["isError"]), ("<$& $$>", &json!(false)));
    let chain = json!([
        { "agent": "scout", "task": "say one" },
        { "agent": "planner", "task": "fail '401 bad key'" },
        { "agent": "scout", "task": "say '{previous}'" },
    ]);
    let told = boss.call("subagent", json!({ "chain": chain })).await;
    let words = ("Chain stopped at step 2 (planner): 401 bad key", &json!(true));
    assert_eq!((text(&told), &told["isError"]), words);
    let run = machine.runs().get(&run_id(&told)).await.unwrap();
    assert_eq!(run.steps[2].status(), StepStatus::Canceled);
    machine.fake.gone().await;
}

#[tokio::test]
async fn a_failure_is_never_told_as_a_success() {
    let mut machine = machine().await;
    let mut boss = boss(&machine).await;
    for (task, kind, words) in [
        ("fail '401 bad key'", "model_error", "Agent error: 401 bad key"),
        ("exit 0", "no_output", "Agent failed: The agent exited without an answer."),
        ("say done; kill -9 $$", "killed", "Agent failed: Killed by SIGKILL after its answer."),
    ] {
        let told = boss.call("subagent", json!({ "agent": "scout", "task": task })).await;
        assert_eq!((text(&told), &told["isError"]), (words, &json!(true)), "{told}");
        assert_eq!(told["structuredContent"]["steps"][0]["failure"], kind, "{told}");
    }
    machine.fake.gone().await;
}

#[tokio::test]
async fn what_asks_for_nothing_that_can_be_done_is_refused_before_it_starts() {
    let machine = machine().await;
    let mut boss = boss(&machine).await;
    let one = json!({ "agent": "scout", "task": "say x" });
    let nine = vec![one.clone(); 9];
    let none = "Invalid parameters. Provide exactly one mode.\n\
                Available agents: planner (user), scout (user)";
    for (arguments, words) in [
        (json!({}), none),
        (json!({ "agent": "scout" }), none),
        (json!({ "agent": "scout", "task": "say x", "chain": [one] }), none),
        (json!({ "tasks": nine }), "Too many parallel tasks (9). Max is 8."),
        (
            json!({ "agent": "ghost", "task": "say x" }),
            "Unknown agent: \"ghost\". Available agents: \"planner\", \"scout\".",
        ),
        (json!({ "tasks": [one, { "agent": "ghost", "task": "x" }] }), "Unknown agent: \"ghost\"."),
        (json!({ "agent": "scout", "task": "say x", "cwd": ".." }), "leaves the project"),
        (json!({ "agent": "scout", "task": "say x", "on": "nowhere" }), "nowhere"),
        (json!({ "agent": "scout", "task": "say x", "output_schema": { "type": 7 } }), "schema"),
    ] {
        let told = boss.call("subagent", arguments.clone()).await;
        assert_eq!(told["isError"], true, "{arguments}: {told}");
        assert!(text(&told).contains(words), "{arguments}: {told}");
    }
    assert!(machine.runs().all().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_call_may_limit_what_it_starts() {
    let mut machine = machine().await;
    let mut boss = boss(&machine).await;
    let schema = json!({ "type": "object", "required": ["n"] });
    for (task, is_error) in [("say '{\"n\":1}'", false), ("say '{}'", true)] {
        let arguments = json!({ "agent": "scout", "task": task, "output_schema": schema });
        let told = boss.call("subagent", arguments).await;
        assert_eq!(told["isError"], is_error, "{told}");
        let failure = &told["structuredContent"]["steps"][0]["failure"];
        assert_eq!(*failure == "output_invalid", is_error, "{told}");
    }
    let arguments = json!({ "agent": "scout", "task": "hang", "timeout_sec": 1 });
    let told = boss.call("subagent", arguments).await;
    assert_eq!(text(&told), "Agent failed: Timed out after 1 s.");
    machine.fake.gone().await;
}

#[tokio::test]
async fn whoever_calls_sees_which_agents_there_are_and_where_they_run() {
    let machine = machine().await;
    machine.fake.add("expert", "model: best\n");
    let mut boss = boss(&machine).await;
    let told = boss.call("run_agents", json!({})).await;
    assert_ne!(told["isError"], true, "{told}");
    let all = told.to_string();
    for name in ["scout", "planner", "expert", "Does what its task says.", "fake", "best"] {
        assert!(all.contains(name), "{name}: {told}");
    }
    assert!(!all.contains("Be brief."), "a prompt is for its agent: {told}");
}

#[tokio::test]
async fn a_run_in_the_background_is_looked_at_waited_for_and_read() {
    let mut machine = machine().await;
    let mut boss = boss(&machine).await;
    let arguments =
        json!({ "agent": "scout", "task": "turn x; wait_go; say all", "background": true });
    let run = run_id(&boss.call("subagent", arguments).await);
    machine.fake.begun(1).await;
    let told = boss.call("run_status", json!({ "run": run })).await;
    assert_eq!(told["structuredContent"]["status"], "running", "{told}");
    let waiting = boss.begin("run_wait", json!({ "run": run })).await;
    machine.fake.let_go(1);
    let told = boss.end(waiting).await;
    assert_eq!((text(&told), run_id(&told)), ("all", run.clone()));
    for tool in ["run_wait", "run_output", "run_status"] {
        let told = boss.call(tool, json!({ "run": run })).await;
        assert_ne!(told["isError"], true, "{tool}: {told}");
        assert!(tool == "run_status" || text(&told).contains("all"), "{tool}: {told}");
    }
    let unknown = boss.call("run_wait", json!({ "run": "run_1700000000000_00af" })).await;
    assert_eq!(unknown["structuredContent"]["error"]["code"], "unknown_run", "{unknown}");
    machine.fake.gone().await;
}

#[tokio::test]
async fn a_long_output_is_read_in_parts() {
    const BYTES: usize = 3 << 20;
    let mut machine = machine().await;
    let mut boss = boss(&machine).await;
    let arguments = json!({ "agent": "scout", "task": format!("big {BYTES}") });
    let told = boss.call("subagent", arguments).await;
    assert_eq!(told["structuredContent"]["steps"][0]["output_bytes"], BYTES);
    let run = run_id(&told);
    assert!(text(&told).contains("[Output truncated: ") && text(&told).contains(&run));
    // What the broker has, and what only the node has.
    let (mut offset, mut bytes) = (json!(0), 0);
    while !offset.is_null() {
        let arguments = json!({ "run": run, "offset": offset, "limit": 262_144 });
        let told = boss.call("run_output", arguments).await;
        let part = told["structuredContent"]["output"].as_str().unwrap();
        assert!(!part.is_empty() && part.bytes().all(|byte| byte == b'x'), "{offset}");
        bytes += part.len();
        offset = told["structuredContent"]["next_offset"].clone();
    }
    assert_eq!(bytes, BYTES);
    machine.fake.gone().await;
}

/// Holds RT1.
#[tokio::test]
async fn a_call_that_is_taken_back_ends_its_run() {
    let mut machine = machine().await;
    let mut boss = boss(&machine).await;
    let chain = json!([
        { "agent": "scout", "task": "stubborn; daemon; hang" },
        { "agent": "scout", "task": "say x" },
    ]);
    let id = boss.begin("subagent", json!({ "chain": chain })).await;
    machine.fake.begun(1).await;
    boss.cancel(id).await;
    machine.fake.gone().await;
    let runs = machine.runs();
    assert_eq!(runs.end(&runs.only().await.run_id).await, RunStatus::Canceled);
    // A wait that is taken back ends nothing.
    let arguments = json!({ "agent": "scout", "task": "wait_go; say x", "background": true });
    let run = run_id(&boss.call("subagent", arguments).await);
    machine.fake.begun(1).await;
    let id = boss.begin("run_wait", json!({ "run": run })).await;
    boss.cancel(id).await;
    assert_eq!(
        boss.call("run_status", json!({ "run": run })).await["structuredContent"]["status"],
        "running"
    );
    let told = boss.call("run_cancel", json!({ "run": run })).await;
    assert_ne!(told["isError"], true, "{told}");
    assert_eq!(runs.end(&run).await, RunStatus::Canceled);
    machine.fake.gone().await;
}

/// Holds RT1.
#[tokio::test]
async fn a_run_outlives_a_client_that_vanishes() {
    let mut machine = machine().await;
    let mut boss = boss(&machine).await;
    boss.begin("subagent", json!({ "agent": "scout", "task": "wait_go; say done" })).await;
    machine.fake.begun(1).await;
    boss.vanish().await;
    machine.fake.let_go(1);
    let runs = machine.runs();
    let run = runs.only().await.run_id;
    assert_eq!(runs.end(&run).await, RunStatus::Succeeded);
    let mut again = McpClient::new(&machine, "boss", User::Away).await;
    assert_eq!(text(&again.call("run_wait", json!({})).await), "done", "its newest");
    machine.fake.gone().await;
}

#[tokio::test]
async fn a_private_workspace_starts_nothing() {
    let machine = machine().await;
    machine.up.json("mail private on").await;
    let mut boss = boss(&machine).await;
    let told = boss.call("subagent", json!({ "agent": "scout", "task": "say secret" })).await;
    assert_eq!(told["structuredContent"]["error"]["code"], "private_workspace", "{told}");
    assert!(machine.runs().all().await.unwrap().is_empty());
}
