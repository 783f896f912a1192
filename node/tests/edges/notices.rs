//! Real processes: who subscribes is told of a real handover, whatever restarts meanwhile.

use serde_json::{Value, json};

use crate::{
    http::{Client, Http, modern},
    process::{Process, soon},
};

const MAIN: &str = "tasuki://loop/main";

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A stream of `subscriptions/listen`, acknowledged.
async fn listen(node: &Process) -> Http {
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "subscriptions/listen")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let (path, session) = ("/mcp/B".to_owned(), String::new());
    let client = Client { addr: node.mcp, path, session, headers };
    let filter = json!({ "resourcesListChanged": true, "resourceSubscriptions": [MAIN] });
    let ask = request(1, "subscriptions/listen", json!({ "notifications": filter }));
    let mut http = client.post(&modern(ask, "edges")).await;
    let told = http.event().await.json();
    assert_eq!(told["method"], "notifications/subscriptions/acknowledged", "{told}");
    http
}

async fn session(node: &Process) -> (Client, Http) {
    let client = Client::new(node.mcp, "/mcp/B").await;
    let stream = client.get(None).await;
    let ask = request(1, "resources/subscribe", json!({ "uri": MAIN }));
    let answer = client.post(&ask).await.answer().await;
    assert!(answer.get("result").is_some(), "{answer}");
    (client, stream)
}

async fn holder(client: &Client) -> String {
    let ask = request(2, "resources/read", json!({ "uri": MAIN }));
    let answer = soon(async { client.post(&ask).await.answer().await }).await;
    let Some(text) = answer["result"]["contents"][0]["text"].as_str() else {
        return String::new();
    };
    let shown: Value = serde_json::from_str(text).unwrap();
    assert_eq!(shown["is_my_turn"], shown["holder"] == "B", "{shown}");
    shown["holder"].as_str().unwrap().to_owned()
}

/// Reads what is told until a read of the resource then shows `expected`.
async fn told_of(stream: &mut Http, client: &Client, expected: &str) {
    let reading = async {
        loop {
            let told = stream.next_event().await.expect("a stream that goes on").json();
            if told["params"]["uri"] == MAIN && holder(client).await == expected {
                return;
            }
        }
    };
    soon(reading).await;
}

async fn hand_over(node: &Process, role: &str, words: &str) {
    let client = Client::new(node.mcp, &format!("/mcp/{role}")).await;
    let over = json!({ "work_summary": words, "next_instruction": "go on",
        "is_task_complete": false });
    let handing =
        async { while client.call("handover_work", over.clone()).await["isError"] == true {} };
    soon(handing).await;
}

#[tokio::test]
async fn a_handover_is_told_on_both_planes_also_after_the_broker_restarted() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&dir.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let node = Process::node(&dir.path().join("node"), address, "").await;
    let (reader, mut stream) = session(&node).await;
    let mut listening = listen(&node).await;
    hand_over(&node, "A", "one").await;
    told_of(&mut listening, &reader, "B").await;
    told_of(&mut stream, &reader, "B").await;
    broker.kill().await;
    broker.start().await;
    hand_over(&node, "B", "two").await;
    told_of(&mut listening, &reader, "A").await;
    told_of(&mut stream, &reader, "A").await;
    // One that was opened here is told to whoever takes part.
    let opened = broker.run("loop start side --participants B --workspace default").await;
    assert!(opened.status.success(), "{opened:?}");
    let list = async {
        while listening.event().await.json()["method"] != "notifications/resources/list_changed" {}
    };
    soon(list).await;
}

#[tokio::test]
async fn a_session_is_told_by_the_node_that_comes_back_and_listeners_listen_again() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::broker(&dir.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let mut node = Process::node(&dir.path().join("node"), address, "").await;
    let (reader, stream) = session(&node).await;
    let listening = listen(&node).await;
    node.kill().await;
    for mut http in [stream, listening] {
        assert!(soon(http.next_event()).await.is_none());
    }
    node.start().await;
    let mut stream = reader.get(None).await;
    let mut listening = listen(&node).await;
    hand_over(&node, "A", "one").await;
    told_of(&mut stream, &reader, "B").await;
    told_of(&mut listening, &reader, "B").await;
}

#[tokio::test]
async fn a_prompt_is_that_of_the_tools_and_the_place_that_the_node_gives() {
    let dir = tempfile::tempdir().unwrap();
    let it = Process::up(&dir.path().join("data"), "--role qa --role dev=mail").await;
    let prompt = async |role: &str| {
        it.json(&format!("prompt {role}")).await[0]["prompt"].as_str().unwrap().to_owned()
    };
    let (qa, dev) = (prompt("qa").await, prompt("dev").await);
    assert!(qa.contains("You begin: you have the first turn."), "{qa}");
    assert!(!dev.contains("await_my_turn") && dev.contains("filebox_"), "{dev}");
    assert!(prompt("dev=loop").await.contains("await_my_turn"));
    let refused = it.run("prompt Z").await;
    let said = String::from_utf8(refused.stdout).unwrap();
    assert!(!refused.status.success() && said.contains("It hosts: qa, dev."), "{said}");
    // The node's own prompt is the same.
    let agent = Client::new(it.mcp, "/mcp/qa").await;
    let ask = request(7, "prompts/get", json!({ "name": "play_qa" }));
    let got = agent.post(&ask).await.answer().await;
    assert_eq!(got["result"]["messages"][0]["content"]["text"], qa, "{got}");
}

#[tokio::test]
async fn a_loop_says_which_participants_nobody_knows() {
    let dir = tempfile::tempdir().unwrap();
    let it = Process::up(&dir.path().join("data"), "").await;
    let refused = it.run("loop start one --participants A,typo2").await;
    let said = String::from_utf8(refused.stdout).unwrap();
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("unknown participants: typo2") && said.contains("--new-role"), "{said}");
    let opened = it.run("loop start one --participants A,typo2 --new-role").await;
    let (told, said) = (opened.stdout, String::from_utf8(opened.stderr).unwrap());
    let told: Value = serde_json::from_slice(&told).unwrap();
    assert_eq!(told["unknown_participants"], json!(["typo2"]));
    assert!(said.contains("No node hosts typo2"), "{said}");
    let opened = it.run("loop start two --participants A,B").await;
    let told: Value = serde_json::from_slice(&opened.stdout).unwrap();
    assert_eq!(told["unknown_participants"], json!([]));
    assert!(!String::from_utf8(opened.stderr).unwrap().contains("No node hosts"));
}

#[tokio::test]
async fn a_prompt_is_printed_without_any_node_and_status_says_what_tools_cost() {
    let dir = tempfile::tempdir().unwrap();
    let it = Process::up(&dir.path().join("data"), "--role A --role B=loop").await;
    let told = it.json("prompt A --goal mend").await;
    assert_eq!(told[0]["role"], "A");
    let prompt = told[0]["prompt"].as_str().unwrap();
    assert!(prompt.starts_with("You are agent A.") && prompt.contains("The goal: mend"));
    let status = soon(async {
        loop {
            let status = it.json("status").await.remove(0);
            if status["roles"].as_array().is_some_and(|roles| roles.len() == 2) {
                return status;
            }
        }
    })
    .await;
    let bytes = |at: usize| status["roles"][at]["tools_bytes"].as_u64().unwrap();
    assert!((1..=12 * 1024).contains(&bytes(0)), "{status}");
    assert!((1..bytes(0)).contains(&bytes(1)), "{status}");
}
