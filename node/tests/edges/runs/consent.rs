//! Agents that came with a project: their files are somebody else's words until the user agrees.

use serde_json::{Value, json};

use super::{
    client::{McpClient, User},
    machine, text,
};
use crate::{
    fake_agent::{Machine, write_agent},
    http::{Client, call, modern},
    process::soon,
};

/// A machine with an agent of its project.
async fn with_project() -> Machine {
    let machine = machine().await;
    write_agent(&machine.path(""), "local", "");
    machine
}

fn task(agent: &str, more: &Value) -> Value {
    let mut arguments = json!({ "agent": agent, "task": "say done", "agentScope": "both" });
    for (name, value) in more.as_object().unwrap() {
        arguments[name] = value.clone();
    }
    arguments
}

/// Holds RT2.
#[tokio::test]
async fn a_user_who_agrees_has_it_run_and_is_asked_each_time() {
    let mut machine = with_project().await;
    let mut boss = McpClient::new(&machine, "boss", User::Accepts).await;
    for asked in 1..=2 {
        let told = boss.call("subagent", task("local", &json!({}))).await;
        assert_eq!(text(&told), "done", "{told}");
        assert_eq!(boss.questions.len(), asked);
        let question = boss.questions[0]["message"].as_str().unwrap();
        assert!(question.contains("local") && question.contains(".tasuki/agents/local.md"));
    }
    // Nobody is asked for what the user put there.
    let told = boss.call("subagent", task("scout", &json!({}))).await;
    assert_eq!((text(&told), boss.questions.len()), ("done", 2));
    machine.fake.gone().await;
}

/// Holds RT2.
#[tokio::test]
async fn a_user_who_does_not_agree_has_nothing_run() {
    let mut machine = with_project().await;
    let mut boss = McpClient::new(&machine, "boss", User::Declines).await;
    // A model cannot agree for its user.
    for more in [json!({}), json!({ "confirmProjectAgents": false })] {
        let told = boss.call("subagent", task("local", &more)).await;
        assert_eq!(told["isError"], true, "{told}");
        assert_eq!(text(&told), "Canceled: project-local agents not approved.");
    }
    let chain = json!({ "agentScope": "project", "chain": [
        { "agent": "local", "task": "say x" }, { "agent": "local", "task": "say y" },
    ]});
    assert_eq!(boss.call("subagent", chain).await["isError"], true);
    assert_eq!(boss.questions.len(), 3, "once for all of a call");
    assert!(machine.runs().all().await.unwrap().is_empty());
    machine.fake.gone().await;
}

/// Holds RT2.
#[tokio::test]
async fn where_no_user_can_be_asked_it_is_said_how_to_allow_it() {
    let mut machine = with_project().await;
    let mut boss = McpClient::new(&machine, "boss", User::Away).await;
    // As it is, the scope is the user's alone.
    let unknown = boss.call("subagent", json!({ "agent": "local", "task": "say done" })).await;
    assert!(text(&unknown).contains("Unknown agent: \"local\"."), "{unknown}");
    let told = boss.call("subagent", task("local", &json!({}))).await;
    assert_eq!(told["isError"], true, "{told}");
    let words = text(&told);
    assert!(words.contains("local.md") && words.contains("tasuki trust "), "{told}");
    assert!(machine.runs().all().await.unwrap().is_empty());
    machine.fake.gone().await;
    // What it says helps.
    let line = words.split('`').nth(1).unwrap().to_owned();
    let args: Vec<&str> = line.strip_prefix("tasuki ").unwrap().split(' ').collect();
    let trusted = soon(machine.command(&args).output()).await.unwrap();
    assert!(trusted.status.success(), "{trusted:?}");
    let told = boss.call("subagent", task("local", &json!({}))).await;
    assert_eq!(text(&told), "done", "{told}");
    // Only these files as they are.
    write_agent(&machine.path(""), "local", "model: another\n");
    let told = boss.call("subagent", task("local", &json!({}))).await;
    assert_eq!(told["isError"], true, "{told}");
}

/// Holds RT2: from 2026-07-28 on a client is answered with the question, and calls again.
#[tokio::test]
async fn a_client_without_a_session_is_asked_between_two_calls() {
    let mut machine = with_project().await;
    let client = Client::modern(machine.up.mcp, "/mcp/boss", "subagent");
    let ask = async |more: Value| {
        let mut request = modern(call(1, "subagent", task("local", &json!({}))), "edges");
        let able = json!({ "elicitation": {} });
        request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = able;
        for (name, value) in more.as_object().unwrap() {
            request["params"][name] = value.clone();
        }
        client.post(&request).await.answer_or_body().await["result"].clone()
    };
    let asked = ask(json!({})).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let questions = asked["inputRequests"].as_object().unwrap();
    let (name, question) = questions.iter().next().unwrap();
    assert_eq!((questions.len(), &question["method"]), (1, &json!("elicitation/create")));
    assert!(question.to_string().contains("local.md"), "{question}");
    let answers = |answer: Value| {
        let mut more = json!({ "inputResponses": {} });
        more["inputResponses"][name] = answer;
        if let Some(state) = asked.get("requestState") {
            more["requestState"] = state.clone();
        }
        more
    };
    let told = ask(answers(json!({ "action": "decline" }))).await;
    assert_eq!(text(&told), "Canceled: project-local agents not approved.");
    assert!(machine.runs().all().await.unwrap().is_empty());
    let told = ask(answers(json!({ "action": "accept", "content": {} }))).await;
    assert_eq!(text(&told), "done", "{told}");
    // It was said of that file.
    write_agent(&machine.path(""), "local", "model: another\n");
    let told = ask(answers(json!({ "action": "accept", "content": {} }))).await;
    assert_eq!(told["resultType"], "input_required", "{told}");
    machine.fake.gone().await;
}
