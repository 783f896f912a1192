//! Sub-agents with an MCP endpoint of their own, and those who started them.

use serde_json::json;
use tasuki_proto::wire::RunStatus;

use super::{
    client::{McpClient, User},
    machine, run_id, text,
};
use crate::{
    fake_agent::Machine,
    http::{BOTH, Client, Http, JSON, initialize},
};

/// Where a sub-agent speaks MCP.
pub(super) const STEP: &str = "/mcp/step";

/// Starts one that says its token and waits. Returns its run and the token.
pub(super) async fn begin(
    machine: &mut Machine,
    boss: &mut McpClient,
    then: &str,
) -> (String, String) {
    let task = format!("tell \"$TASUKI_STEP_TOKEN\"; wait_go; {then}");
    let arguments = json!({ "agent": "scout", "task": task, "background": true });
    let run = run_id(&boss.call("subagent", arguments).await);
    machine.fake.begun(1).await;
    (run, machine.fake.told().await)
}

pub(super) fn bearer(token: &str) -> Vec<(String, String)> {
    vec![("Authorization".to_owned(), format!("Bearer {token}"))]
}

/// What a first request with these headers is answered.
async fn status(machine: &Machine, headers: &[(String, String)]) -> u16 {
    let mut http = Http::connect(machine.up.mcp).await;
    let mut all = vec![BOTH, JSON];
    all.extend(headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let hello = initialize("2025-06-18", "sub-agent").to_string();
    http.send(&format!("POST {STEP}"), &all, hello.as_bytes()).await;
    http.status
}

/// The names of the tools that it is shown.
async fn tools(client: &Client) -> Vec<String> {
    let request = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/list", "params": {} });
    let listed = client.post(&request).await.answer_or_body().await;
    let tools = listed["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_sub_agent_asks_and_its_parent_answers() {
    let mut machine = machine().await;
    let mut boss = McpClient::new(&machine, "boss", User::Away).await;
    let (run, token) = begin(&mut machine, &mut boss, "say done").await;
    let sub_agent = Client::with(machine.up.mcp, STEP, "sub-agent", bearer(&token)).await;
    let report = json!({ "text": "half done\nStep 2 planner: succeeded" });
    let told = sub_agent.call("report_to_parent", report).await;
    assert_ne!(told["isError"], true, "{told}");

    let waiting = boss.begin("run_wait", json!({ "run": run })).await;
    let question = json!({ "question": "Which one?" });
    let asking = {
        let sub_agent = sub_agent.clone();
        tokio::spawn(async move { sub_agent.call("ask_parent", question).await })
    };
    let told = boss.end(waiting).await;
    let words = text(&told);
    assert!(words.contains("\n> Which one?") && words.contains("\n> half done"), "{told}");
    assert!(words.contains("\n> Step 2 planner"), "it passes for nobody else's: {told}");
    let number = &told["structuredContent"]["questions"][0]["message"];
    assert!(number.is_u64(), "{told}");
    let reply = json!({ "run": run, "message": number, "text": "the second" });
    let replied = boss.call("run_reply", reply).await;
    assert_ne!(replied["isError"], true, "{replied}");
    let answer = crate::process::soon(asking).await.unwrap();
    assert!(text(&answer).contains("the second"), "{answer}");

    machine.fake.let_go(1);
    let told = boss.call("run_wait", json!({ "run": run })).await;
    assert_eq!(text(&told), "done", "{told}");
    machine.fake.gone().await;
}

/// A token is its bearer's alone, at this address alone, while the step runs.
#[tokio::test]
async fn nobody_else_is_a_sub_agent() {
    let mut machine = machine().await;
    let mut boss = McpClient::new(&machine, "boss", User::Away).await;
    let (run, token) = begin(&mut machine, &mut boss, "say done").await;
    assert_eq!(status(&machine, &bearer(&token)).await, 200);
    let other = if token.ends_with('0') { "1" } else { "0" };
    let other = format!("{}{other}", &token[..token.len() - 1]);
    for wrong in [Vec::new(), bearer(""), bearer("nonsense"), bearer(&other)] {
        assert_eq!(status(&machine, &wrong).await, 401, "{wrong:?}");
    }
    let sub_agent = Client::with(machine.up.mcp, STEP, "sub-agent", bearer(&token)).await;
    let mut names = tools(&sub_agent).await;
    names.sort();
    let all = [
        "ask_parent",
        "report_to_parent",
        "run_agents",
        "run_cancel",
        "run_output",
        "run_reply",
        "run_save_file",
        "run_status",
        "run_wait",
        "subagent",
    ];
    assert_eq!(names, all, "nothing that a role has");
    machine.fake.let_go(1);
    assert_eq!(machine.runs().end(&run).await, RunStatus::Succeeded);
    machine.fake.gone().await;
    assert_eq!(status(&machine, &bearer(&token)).await, 401);
    let request = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/list", "params": {} });
    assert_eq!(sub_agent.post(&request).await.status, 401, "its session is over, too");
}

/// A question that nobody answers is over with the run.
#[tokio::test]
async fn a_question_ends_with_its_run() {
    let mut machine = machine().await;
    let mut boss = McpClient::new(&machine, "boss", User::Away).await;
    let (run, token) = begin(&mut machine, &mut boss, "say done").await;
    let sub_agent = Client::with(machine.up.mcp, STEP, "sub-agent", bearer(&token)).await;
    let question = json!({ "question": "Which one?" });
    let asking = tokio::spawn(async move {
        let request = crate::http::call(9, "ask_parent", question);
        sub_agent.post(&request).await.next_event().await
    });
    let runs = machine.runs();
    runs.until(&run, |run| !run.open_questions.is_empty()).await;
    boss.call("run_cancel", json!({ "run": run })).await;
    assert_eq!(runs.end(&run).await, RunStatus::Canceled);
    // With an answer or without: it waits no longer.
    drop(crate::process::soon(asking).await.unwrap());
    let reply = json!({ "run": run, "message": 1, "text": "the second" });
    assert_eq!(boss.call("run_reply", reply).await["isError"], true);
    machine.fake.gone().await;
}

/// A sub-agent starts others, which are its own.
#[tokio::test]
async fn a_sub_agent_starts_sub_agents_of_its_own() {
    let mut machine = machine().await;
    let mut boss = McpClient::new(&machine, "boss", User::Away).await;
    let (run, token) = begin(&mut machine, &mut boss, "say done").await;
    let sub_agent = Client::with(machine.up.mcp, STEP, "sub-agent", bearer(&token)).await;
    let told = sub_agent.call("subagent", json!({ "agent": "planner", "task": "say inner" })).await;
    assert_eq!(text(&told), "inner", "{told}");
    let inner = machine.runs().get(&run_id(&told)).await.unwrap();
    let parent = inner.parent.as_ref().unwrap();
    assert_eq!((&parent.run_id, parent.step, inner.depth), (&run, 1, 2));
    // It sees its own and no other's.
    let refused = sub_agent.call("run_status", json!({ "run": run })).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "not_asker", "{refused}");
    machine.fake.let_go(1);
    let told = boss.call("run_wait", json!({ "run": run })).await;
    assert_eq!(told["structuredContent"]["usage"]["turns"], 2, "{told}");
    machine.fake.gone().await;
}
