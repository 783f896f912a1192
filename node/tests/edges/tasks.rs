//! An agent that sleeps on a task while its node and the broker are killed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    agents::{Agent, Transport},
    http::{Client, Http, call, modern},
    process::{Process, soon},
};

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Between two polls: often enough to meet a node that is just starting.
const PAUSE: Duration = Duration::from_millis(20);

/// A client that takes tasks, at B's address.
struct Sleeper<'a> {
    node: &'a Process,
}

impl Sleeper<'_> {
    /// The result; `None` while no node answers.
    async fn ask(&self, method: &str, name: &str, request: Value) -> Option<Value> {
        let mut request = modern(request, "claude-code");
        let declared = json!({ "extensions": { TASKS: {} } });
        request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared;
        let mut client = Client::modern(self.node.mcp, "/mcp/B", name);
        client.headers[1].1 = method.to_owned();
        let mut http = Http::try_connect(client.addr).await.ok()?;
        client.post_on(&mut http, &request).await;
        Some(http.answer().await["result"].clone())
    }

    async fn wait(&self) -> String {
        let request = call(1, "await_my_turn", json!({}));
        let task = self.ask("tools/call", "await_my_turn", request).await.unwrap();
        assert_eq!(task["resultType"], "task", "{task}");
        task["taskId"].as_str().unwrap().to_owned()
    }

    async fn get(&self, id: &str) -> Option<Value> {
        let params = json!({ "taskId": id });
        let request = json!({ "jsonrpc": "2.0", "id": 2, "method": "tasks/get", "params": params });
        self.ask("tasks/get", id, request).await
    }

    /// Polls until the task has ended.
    async fn woken(&self, id: &str) -> Value {
        let polls = async {
            loop {
                match self.get(id).await {
                    Some(told) if told["status"] == "working" => {}
                    Some(told) => return told,
                    None => {}
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        soon(polls).await
    }
}

/// Polls until the broker counts B among those that wait, or no longer.
async fn until_waiting(node: &Process, sleeper: Option<(&Sleeper<'_>, &str)>, is_waiting: bool) {
    let polls = async {
        loop {
            if let Some((sleeper, id)) = sleeper {
                assert_eq!(sleeper.get(id).await.unwrap()["status"], "working");
            }
            let told = node.json("loop status").await.remove(0);
            let waiting = told["loop"]["waiting"].as_array().is_some_and(|it| it == &[json!("B")]);
            if waiting == is_waiting {
                return;
            }
        }
    };
    soon(polls).await;
}

async fn hand_over(a: &mut Agent, summary: &str, to: &str) {
    let words = json!({
        "work_summary": summary, "next_instruction": "go on", "is_task_complete": false, "to": to
    });
    let told = a.call("handover_work", words).await.unwrap();
    assert_ne!(told["isError"], true, "{told}");
}

#[tokio::test]
async fn a_task_outlives_the_node_and_the_broker_and_wakes_its_agent() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&dir.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let of_a = Process::node(&dir.path().join("a"), address, "--role A").await;
    let mut of_b = Process::node(&dir.path().join("b"), address, "--role B").await;
    let mut a = Agent::new(Transport::Stateless, "A", of_a.mcp, of_a.data.clone()).await;
    let older = Sleeper { node: &of_b }.wait().await;
    let id = Sleeper { node: &of_b }.wait().await;
    until_waiting(&of_b, Some((&Sleeper { node: &of_b }, &id)), true).await;

    of_b.kill().await;
    of_b.start().await;
    let sleeper = Sleeper { node: &of_b };
    assert_eq!(sleeper.get(&id).await.unwrap()["status"], "working");
    assert_eq!(sleeper.get(&older).await.unwrap()["status"], "cancelled");
    until_waiting(&of_b, Some((&sleeper, &id)), true).await;

    broker.kill().await;
    assert_eq!(sleeper.get(&id).await.unwrap()["status"], "working");
    broker.start().await;
    until_waiting(&of_b, Some((&sleeper, &id)), true).await;

    // The turn comes while the node is away.
    of_b.kill().await;
    hand_over(&mut a, "done while you slept", "B").await;
    of_b.start().await;
    let sleeper = Sleeper { node: &of_b };
    let woken = sleeper.woken(&id).await;
    assert_eq!(woken["status"], "completed", "{woken}");
    let told = &woken["result"]["structuredContent"];
    assert_eq!((&told["can_start"], &told["turn"]), (&json!(true), &json!(2)));
    assert_eq!(told["summary"], "done while you slept");
    let handed = async {
        loop {
            let told = of_b.json("loop status").await.remove(0);
            if told["loop"]["receipts"]["handed_ms"].as_u64().is_some_and(|it| it != 0) {
                return;
            }
        }
    };
    soon(handed).await;
}

#[tokio::test]
async fn a_role_waits_while_its_task_is_polled_and_not_longer() {
    let dir = tempfile::tempdir().unwrap();
    let up = Process::up(&dir.path().join("up"), "--role A --role B").await;
    let sleeper = Sleeper { node: &up };
    let id = sleeper.wait().await;
    until_waiting(&up, Some((&sleeper, &id)), true).await;
    until_waiting(&up, None, false).await;
    until_waiting(&up, Some((&sleeper, &id)), true).await;
}

#[tokio::test]
async fn a_look_ends_no_wait_and_a_task_does() {
    let dir = tempfile::tempdir().unwrap();
    let up = Process::up(&dir.path().join("up"), "--role A --role B").await;
    let agent = |role| Agent::new(Transport::Stateless, role, up.mcp, up.data.clone());
    let (mut a, mut b, mut other) = (agent("A").await, agent("B").await, agent("B").await);
    let held = tokio::spawn(async move { b.call("await_my_turn", json!({})).await });
    until_waiting(&up, None, true).await;
    let look = other.call("await_my_turn", json!({ "timeout_sec": 0 })).await.unwrap();
    assert_eq!(look["structuredContent"]["still_waiting"], true, "{look}");
    let sleeper = Sleeper { node: &up };
    let id = sleeper.wait().await;
    let told = soon(held).await.unwrap().unwrap();
    assert_eq!(told["structuredContent"]["superseded"], true, "ended by the task: {told}");
    let held = tokio::spawn(async move { other.call("await_my_turn", json!({})).await });
    let ended = sleeper.woken(&id).await;
    assert_eq!(ended["status"], "cancelled", "ended by a call that holds");
    let mut another = agent("B").await;
    another.call("await_my_turn", json!({ "timeout_sec": 0 })).await.unwrap();
    hand_over(&mut a, "done", "B").await;
    let told = soon(held).await.unwrap().unwrap();
    assert_eq!(told["structuredContent"]["can_start"], true, "not ended by a look: {told}");
}
