//! Waits that answer with a task, as a client of 2026-07-28 meets them.

use serde_json::{Value, json};
use tasuki_node::mcp::{Settings, TaskKey};
use tasuki_proto::wire;

use crate::{
    http::{Client, Http, JSON, call, modern, text, with_progress},
    world::{Loop, World},
};

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The request of a client that takes tasks.
pub(crate) fn taking(request: Value) -> Value {
    let mut request = modern(request, "claude-code");
    let declared = json!({ "extensions": { TASKS: {} } });
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared;
    request
}

pub(crate) fn about(method: &str, id: &str) -> Value {
    let params = json!({ "taskId": id, "inputResponses": {} });
    taking(json!({ "jsonrpc": "2.0", "id": 3, "method": method, "params": params }))
}

/// One address, asked without a session.
struct Asker<'a> {
    world: &'a World,
    path: &'a str,
}

impl<'a> Asker<'a> {
    fn new(world: &'a World, path: &'a str) -> Self {
        Self { world, path }
    }

    async fn post(&self, method: &str, name: &str, request: &Value) -> Http {
        let mut client = Client::modern(self.world.addr, self.path, name);
        client.headers[1].1 = method.to_owned();
        client.post(request).await
    }

    async fn tool(&self, arguments: Value) -> Value {
        let request = taking(call(1, "await_my_turn", arguments));
        let mut http = self.post("tools/call", "await_my_turn", &request).await;
        assert_eq!(http.status, 200);
        http.answer().await["result"].clone()
    }

    /// The id of the task that a wait answers with.
    async fn wait(&self) -> String {
        let task = self.tool(json!({ "agent_id": "B" })).await;
        assert_eq!(task["resultType"], "task", "{task}");
        task["taskId"].as_str().unwrap().to_owned()
    }

    /// The whole answer.
    async fn ask(&self, method: &str, id: &str) -> Value {
        self.post(method, id, &about(method, id)).await.answer().await
    }

    async fn get(&self, id: &str) -> Value {
        let answer = self.ask("tasks/get", id).await;
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        answer["result"].clone()
    }

    async fn stands(&self, id: &str) -> String {
        self.get(id).await["status"].as_str().unwrap().to_owned()
    }
}

fn words(summary: &str) -> wire::Entry {
    wire::Entry {
        kind: wire::EntryKind::Handover.into(),
        from: "A".to_owned(),
        to: "B".to_owned(),
        summary: summary.to_owned(),
        ..Default::default()
    }
}

/// Holds TK3.
#[tokio::test]
async fn a_wait_answers_with_a_task_and_the_task_with_the_turn() {
    let world = World::new().await;
    let b = Asker::new(&world, "/mcp/B");
    let task = b.tool(json!({})).await;
    assert_eq!(task["resultType"], "task");
    let told = |task: &Value| {
        ["status", "statusMessage", "ttlMs", "pollIntervalMs"].map(|field| task[field].clone())
    };
    let working =
        [json!("working"), json!("Waiting for the turn."), json!(86_400_000_u64), json!(1_000)];
    assert_eq!(told(&task), working);
    let id = task["taskId"].as_str().unwrap();
    world.shared.until("parked", |state| state.waiting == 1).await;
    assert_eq!(told(&b.get(id).await), working);
    world.shared.give_to("B", words("a secret"));
    let done = b.get(id).await;
    assert_eq!(
        (&done["status"], &done["statusMessage"]),
        (&json!("completed"), &json!("The wait is over."))
    );
    assert!(text(&done["result"]).contains("a secret"));
    assert_eq!(done["result"]["structuredContent"]["turn"], 2);
    world.shared.until("handed", |state| state.handed == [2]).await;
    // A call that holds would have had the same answer.
    let request = modern(call(1, "await_my_turn", json!({})), "x");
    let held = b.post("tools/call", "await_my_turn", &request).await.answer().await;
    assert_eq!(held["result"], done["result"]);
    // The end stays the end, also when the turn is over.
    world.shared.give_to("A", words("later"));
    assert_eq!(b.get(id).await, done);
    world.shared.until("no wait is left", |state| state.waiting == 0).await;
}

#[tokio::test]
async fn what_is_answered_at_once_needs_no_task() {
    let world = World::new().await;
    let a = Asker::new(&world, "/mcp/A");
    let begin = a.tool(json!({})).await;
    assert_eq!(begin["structuredContent"]["can_start"], true, "{begin}");
    world.shared.until("handed", |state| state.handed == [1]).await;
    let b = Asker::new(&world, "/mcp/B");
    let look = b.tool(json!({ "timeout_sec": 0 })).await;
    assert_eq!(look["structuredContent"]["still_waiting"], true, "{look}");
    let refused = b.tool(json!({ "loop": "none" })).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "unknown_loop", "{refused}");
    world.shared.0.send_modify(|state| state.is_finished = true);
    let finished = b.tool(json!({})).await;
    assert_eq!(finished["structuredContent"]["is_finished"], true, "{finished}");
}

#[tokio::test]
async fn a_client_that_declares_no_tasks_is_held() {
    let world = World::new().await;
    let b = Asker::new(&world, "/mcp/B");
    let old = json!({ "tasks": { "requests": { "tools": { "call": {} } } } });
    let mut waiting = Vec::new();
    for (count, declared) in [json!({}), old].into_iter().enumerate() {
        let mut request = with_progress(modern(call(1, "await_my_turn", json!({})), "x"));
        request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared;
        let mut http = b.post("tools/call", "await_my_turn", &request).await;
        assert_eq!(http.event().await.json()["method"], "notifications/progress");
        world.shared.until("held", |state| state.holds.len() == count + 1).await;
        waiting.push(http);
    }
    let mut hello = crate::http::initialize("2025-11-25", "claude-code");
    hello["params"]["capabilities"] = json!({ "extensions": { TASKS: {} } });
    let mut session = Client::modern(world.addr, "/mcp/B", "");
    session.headers.clear();
    let mut http = session.post(&hello).await;
    session.headers.push(("Mcp-Session-Id".to_owned(), http.headers["mcp-session-id"].clone()));
    let told = http.answer().await;
    let declared = &told["result"]["capabilities"];
    assert!(declared.get("tools").is_some() && declared.get("extensions").is_none(), "{told}");
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(session.post(&ready).await.status, 202);
    let _http = session.post(&call(1, "await_my_turn", json!({}))).await;
    world.shared.until("held", |state| state.holds.len() == 3 && state.waiting == 1).await;
    for (method, name) in [("tasks/get", "x"), ("tasks/cancel", "x"), ("tasks/update", "x")] {
        let params = json!({ "taskId": name, "inputResponses": {} });
        let request = json!({ "jsonrpc": "2.0", "id": 3, "method": method, "params": params });
        let request = modern(request, "x");
        let answer = b.post(method, name, &request).await.text().await;
        assert!(answer.contains("-32021"), "{answer}");
    }
}

#[tokio::test]
async fn discovery_declares_the_extension() {
    let world = World::new().await;
    let b = Asker::new(&world, "/mcp/B");
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {} });
    let mut http = b.post("server/discover", "", &modern(request, "x")).await;
    let told = http.answer().await;
    assert_eq!(told["result"]["capabilities"]["extensions"], json!({ TASKS: {} }), "{told}");
}

/// Holds TK5.
#[tokio::test]
async fn of_a_roles_waits_the_newest_counts() {
    let world = World::new().await;
    let b = Asker::new(&world, "/mcp/B");
    let request = with_progress(modern(call(1, "await_my_turn", json!({})), "x"));
    let mut held = b.post("tools/call", "await_my_turn", &request).await;
    held.event().await;
    // A newer task ends a held call and an older task; a look ends nothing.
    let first = b.wait().await;
    assert_eq!(held.answer().await["result"]["structuredContent"]["superseded"], true);
    let second = b.wait().await;
    assert_ne!(first, second);
    b.tool(json!({ "timeout_sec": 0 })).await;
    let ended = b.get(&first).await;
    assert_eq!(ended["status"], "cancelled");
    assert_eq!(
        ended["statusMessage"],
        "A newer await_my_turn of this role superseded this call. No action is needed."
    );
    assert_eq!(b.stands(&second).await, "working");
    // So does a newer call that holds.
    let mut held = b.post("tools/call", "await_my_turn", &request).await;
    held.event().await;
    world.shared.give_to("B", words("x"));
    assert_eq!(b.stands(&second).await, "cancelled");
    assert_eq!(held.answer().await["result"]["structuredContent"]["turn"], 2);
    // And one that is answered at once.
    world.shared.give_to("A", words("x"));
    let third = b.wait().await;
    world.shared.give_to("B", words("x"));
    assert_eq!(b.tool(json!({})).await["structuredContent"]["turn"], 4);
    assert_eq!(b.stands(&third).await, "cancelled");
    assert_eq!(b.get(&first).await, ended);
}

/// Holds TK4.
#[tokio::test]
async fn a_turn_that_went_by_unnoticed_does_not_end_the_wait() {
    let world = World::new().await;
    let b = Asker::new(&world, "/mcp/B");
    let id = b.wait().await;
    world.shared.give_to("B", words("first"));
    world.shared.give_to("A", words("taken back"));
    assert_eq!(b.stands(&id).await, "working");
    world.shared.give_to("B", words("second"));
    let done = b.get(&id).await;
    assert!(text(&done["result"]).contains("second"), "{done}");
}

#[tokio::test]
async fn a_cancelled_task_waits_no_more() {
    let world = World::new().await;
    let b = Asker::new(&world, "/mcp/B");
    let id = b.wait().await;
    world.shared.until("parked", |state| state.waiting == 1).await;
    for _ in 0..2 {
        let ack = b.ask("tasks/cancel", &id).await;
        assert_eq!(ack["result"]["resultType"], "complete", "{ack}");
        world.shared.until("gone", |state| state.waiting == 0).await;
        world.shared.give_to("B", words("x"));
        let ended = b.get(&id).await;
        assert_eq!(ended["status"], "cancelled");
        assert_eq!(ended["statusMessage"], "Cancelled by its client.");
    }
    // One that has ended stays as it is, and what it is told changes nothing.
    world.shared.give_to("A", words("x"));
    let id = b.wait().await;
    let ack = b.ask("tasks/update", &id).await;
    assert_eq!(ack["result"]["resultType"], "complete", "{ack}");
    assert_eq!(b.stands(&id).await, "working");
    world.shared.give_to("B", words("x"));
    let done = b.get(&id).await;
    assert_eq!(done["status"], "completed");
    world.shared.until("handed", |state| !state.handed.is_empty()).await;
    assert!(b.ask("tasks/cancel", &id).await.get("result").is_some());
    assert_eq!(b.get(&id).await, done);
}

/// Holds TK2.
#[tokio::test]
async fn a_task_is_known_to_its_own_role_alone() {
    let (world, other) = (World::new().await, World::new().await);
    let id = Asker::new(&world, "/mcp/B").wait().await;
    let of_other = Asker::new(&other, "/mcp/B").wait().await;
    let changed = if id.ends_with('A') { "B" } else { "A" };
    let changed = format!("{}{changed}", &id[..id.len() - 1]);
    let huge = "A".repeat(4_000);
    let mut answers = Vec::new();
    for (path, id) in [
        ("/mcp/A", id.as_str()),
        ("/mcp/B?as=another", &id),
        ("/mcp/B", &of_other),
        ("/mcp/B", &changed),
        ("/mcp/B", &id[..id.len() / 2]),
        ("/mcp/B", &huge),
        ("/mcp/B", "none"),
        ("/mcp", &of_other),
    ] {
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let answer = Asker::new(&world, path).ask(method, id).await;
            assert_eq!(answer["error"]["code"], -32602, "{path} {method} {id}: {answer}");
            answers.push(answer);
        }
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "all alike: {answers:?}");
    assert_eq!(Asker::new(&world, "/mcp/B").stands(&id).await, "working");
    assert_eq!(Asker::new(&world, "/mcp").stands(&id).await, "working");
}

/// An agent that polls does not keep a role that a person gave to another, nor is it woken by
/// the other's turn.
#[tokio::test]
async fn a_task_of_an_agent_that_lost_its_role_is_cancelled_for_good() {
    let world = World::new().await;
    let (old, new) = (Asker::new(&world, "/mcp/B?as=old"), Asker::new(&world, "/mcp/B?as=new"));
    let take_over = async |who: &str| {
        let mut http = Http::connect(world.addr).await;
        http.send(&format!("POST /take-over/B?as={who}"), &[JSON], b"").await;
        assert_eq!(http.status, 200);
    };
    let polled = old.wait().await;
    assert_eq!(old.stands(&polled).await, "working");
    world.shared.until("parked", |state| state.waiting == 1).await;
    take_over("new").await;
    world.shared.until("its wait ends", |state| state.waiting == 0).await;
    let lost = old.get(&polled).await;
    assert_eq!(lost["status"], "cancelled");
    let why = "Another agent plays this role now. No action is needed.";
    assert_eq!(lost["statusMessage"], why);
    world.shared.give_to("B", words("a secret"));
    assert_eq!(old.get(&polled).await, lost, "not woken by the other's turn");
    let refused = old.tool(json!({})).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "role_in_use", "{refused}");
    let begun = new.tool(json!({})).await;
    assert_eq!(begun["structuredContent"]["can_start"], true, "{begun}");

    // One that did not ask meanwhile, and whose successor waits too.
    world.shared.give_to("A", words("x"));
    let theirs = new.wait().await;
    take_over("old").await;
    let mine = old.wait().await;
    world.shared.give_to("B", words("y"));
    assert_eq!(new.stands(&theirs).await, "cancelled");
    assert_eq!(old.stands(&mine).await, "completed");
    // Who gets the role back gets nothing of what was cancelled.
    take_over("new").await;
    assert_eq!(new.stands(&theirs).await, "cancelled");
    assert_eq!(old.get(&polled).await, lost);
    world.shared.until("no wait is left", |state| state.waiting == 0).await;
}

/// Holds TK6.
#[tokio::test]
async fn a_task_outlives_its_node_and_a_broker_that_is_away() {
    let data = tempfile::tempdir().unwrap();
    let settings = || Settings {
        task_key: Some(TaskKey::open(data.path(), &"default".parse().unwrap()).unwrap()),
        ..Settings::default()
    };
    let shared = Loop::new();
    let world = World::with("127.0.0.1:0", shared.clone(), settings()).await;
    let id = Asker::new(&world, "/mcp/B").wait().await;
    let newer = Asker::new(&world, "/mcp/B").wait().await;
    world.stopped().await;
    let world = World::with("127.0.0.1:0", shared.clone(), settings()).await;
    let b = Asker::new(&world, "/mcp/B");
    shared.0.send_modify(|state| state.is_away = true);
    assert_eq!(b.stands(&id).await, "working", "nothing newer was heard of");
    assert_eq!(b.stands(&newer).await, "working");
    assert_eq!(b.stands(&id).await, "cancelled");
    let made_without = b.wait().await;
    shared.0.send_modify(|state| state.is_away = false);
    shared.give_to("B", words("x"));
    assert_eq!(b.stands(&newer).await, "cancelled");
    assert_eq!(b.get(&made_without).await["result"]["structuredContent"]["turn"], 2);
}

#[tokio::test]
async fn a_role_waits_for_as_long_as_its_task_is_polled() {
    let world = World::new().await;
    let b = Asker::new(&world, "/mcp/B");
    let id = b.wait().await;
    world.shared.until("parked", |state| state.waiting == 1).await;
    let looks = world.shared.0.borrow().looks;
    for _ in 0..20 {
        assert_eq!(b.stands(&id).await, "working");
    }
    let state = world.shared.0.borrow().clone();
    assert_eq!((state.waiting, state.looks), (1, looks), "a poll costs the broker nothing");
    world.shared.until("silence ends it", |state| state.waiting == 0).await;
    assert_eq!(b.stands(&id).await, "working");
    world.shared.until("parked again", |state| state.waiting == 1).await;
}

#[tokio::test]
async fn a_wait_of_limited_length_ends_with_a_task_too() {
    let world = World::new().await;
    let b = Asker::new(&world, "/mcp/B");
    let task = b.tool(json!({ "timeout_sec": 0.2 })).await;
    let id = task["taskId"].as_str().unwrap();
    let done = loop {
        let told = b.get(id).await;
        if told["status"] != "working" {
            break told;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(done["result"]["structuredContent"]["still_waiting"], true, "{done}");
    assert_eq!(done["result"]["structuredContent"]["holder"], "A");
    assert!(world.shared.0.borrow().handed.is_empty());
}
