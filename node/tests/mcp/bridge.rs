//! `tasuki mcp` against a real server, and a server that goes away and comes back.

use serde_json::{Value, json};
use tasuki_node::mcp::{
    Settings, TaskKey,
    bridge::{Error, Options, bridge},
    dial::NodeAt,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf},
    task::JoinHandle,
};

use crate::{
    http::{call, initialize, with_progress},
    tasks::{about, taking},
    world::{Loop, World, soon},
};

pub(crate) struct Agent {
    reader: BufReader<ReadHalf<DuplexStream>>,
    pub(crate) writer: Option<WriteHalf<DuplexStream>>,
    pub(crate) bridge: JoinHandle<Result<(), Error>>,
}

impl Agent {
    pub(crate) fn new(world: &World, role: Option<&'static str>, hold: Option<u64>) -> Self {
        let url = format!("http://{}", world.addr);
        let role = role.map(|role| role.parse().unwrap());
        Self::with(move || url.clone(), Options { role, hold, ..Options::default() })
    }

    pub(crate) fn with<N: Into<NodeAt> + 'static>(
        node: impl Fn() -> N + Send + Sync + 'static,
        options: Options,
    ) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (stdin, stdout) = tokio::io::split(theirs);
        let bridge = tokio::spawn(async move { bridge(node, &options, stdin, stdout).await });
        let (reader, writer) = tokio::io::split(ours);
        Self { reader: BufReader::new(reader), writer: Some(writer), bridge }
    }

    pub(crate) async fn say(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.writer.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    pub(crate) async fn hear(&mut self) -> Value {
        let mut line = String::new();
        soon(self.reader.read_line(&mut line)).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line:?}"))
    }

    pub(crate) async fn begin(&mut self) {
        self.say(&initialize("2025-06-18", "junie").to_string()).await;
        assert_eq!(self.hear().await["result"]["serverInfo"]["name"], "tasuki");
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    }
}

#[tokio::test]
async fn an_agent_on_stdio_plays_its_turn() {
    let world = World::new().await;
    let mut a = Agent::new(&world, Some("A"), Some(600));
    a.begin().await;
    world.shared.until("connected", |state| state.connected == 1).await;
    a.say(&call(1, "await_my_turn", json!({})).to_string()).await;
    assert_eq!(a.hear().await["result"]["structuredContent"]["can_start"], true);
    world.shared.until("handed", |state| state.handed == [1]).await;
    assert_eq!(world.shared.0.borrow().holds, [600.0]);
    // When it was introduced, and when it called.
    assert_eq!(world.shared.0.borrow().clients, ["junie 9.9"; 2]);
    a.writer = None;
    drop(a.reader);
    soon(a.bridge).await.unwrap().unwrap();
    world.shared.until("gone", |state| state.connected == 0).await;
}

/// Holds B2.
#[tokio::test]
async fn a_call_that_is_said_again_is_held_for_what_its_client_has_left() {
    let world = World::new().await;
    let mut a = Agent::new(&world, Some("A"), Some(600));
    a.begin().await;
    for (id, age_ms) in [(1, 590_000), (2, 700_000)] {
        let mut ask = call(id, "await_my_turn", json!({}));
        ask["params"]["_meta"]["tasuki/age_ms"] = json!(age_ms);
        a.say(&ask.to_string()).await;
        assert_eq!(a.hear().await["result"]["structuredContent"]["can_start"], true);
    }
    assert_eq!(world.shared.0.borrow().holds, [10.0, 0.0]);
}

/// Holds B1.
#[tokio::test]
async fn garbage_and_huge_lines_are_answered_and_the_conversation_goes_on() {
    let world = World::new().await;
    let mut all = Agent::new(&world, None, None);
    all.begin().await;
    all.say("garbage").await;
    assert_eq!(all.hear().await["error"]["code"], -32700);
    all.say(r#"{"jsonrpc":"2.0","id":9,"method":7}"#).await;
    let told = all.hear().await;
    assert_eq!((&told["error"]["code"], &told["id"]), (&json!(-32600), &json!(9)));
    all.say(&"x".repeat(17 * 1024 * 1024)).await;
    assert_eq!(all.hear().await["error"]["code"], -32600);
    all.say(&call(1, "loop_status", json!({ "agent_id": "B" })).to_string()).await;
    assert_eq!(all.hear().await["result"]["structuredContent"]["holder"], "A");
}

/// Holds B2.
#[tokio::test]
async fn an_agent_does_not_notice_that_the_node_restarts() {
    let shared = Loop::new();
    let world = World::start("127.0.0.1:0", shared.clone(), None).await;
    let addr = world.addr.to_string();
    let mut b = Agent::new(&world, Some("B"), None);
    b.begin().await;
    b.say(&with_progress(call(1, "await_my_turn", json!({}))).to_string()).await;
    assert_eq!(b.hear().await["method"], "notifications/progress");
    // Answered by the node that stops; the call after it waits for the next node.
    world.stopped().await;
    let told = b.hear().await;
    assert_eq!(told["result"]["structuredContent"]["still_waiting"], true, "{told}");
    b.say(&call(2, "await_my_turn", json!({})).to_string()).await;
    let world = World::start(&addr, shared, None).await;
    world.shared.until("parked again", |state| state.waiting == 1).await;
    world.shared.give_to("B", Default::default());
    let told = b.hear().await;
    assert_eq!(told["id"], 2, "the second handshake is not the agent's business: {told}");
    assert_eq!(told["result"]["structuredContent"]["turn"], 2);
    b.say(&call(3, "loop_status", json!({})).to_string()).await;
    assert_eq!(b.hear().await["id"], 3);
}

/// Holds B3.
#[tokio::test]
async fn a_node_that_stays_away_is_answered_for_and_found_where_it_comes_back() {
    let shared = Loop::new();
    let world = World::start("127.0.0.1:0", shared.clone(), None).await;
    let (moved, place) = tokio::sync::watch::channel(format!("http://{}", world.addr));
    let role = Some("A".parse().unwrap());
    let options = Options { role, away_answer_ms: 300, ..Options::default() };
    let mut a = Agent::with(move || place.borrow().clone(), options);
    a.begin().await;
    a.say(&call(1, "loop_status", json!({})).to_string()).await;
    assert_eq!(a.hear().await["result"]["structuredContent"]["turn"], 1);
    world.stopped().await;
    let over = json!({ "work_summary": "s", "next_instruction": "i", "is_task_complete": false });
    for (id, tool, code) in
        [(2, "handover_work", "outcome_unknown"), (3, "await_my_turn", "unavailable")]
    {
        a.say(&call(id, tool, over.clone()).to_string()).await;
        let told = a.hear().await;
        assert_eq!((&told["id"], &told["result"]["isError"]), (&json!(id), &json!(true)), "{told}");
        assert_eq!(told["result"]["structuredContent"]["error"]["code"], code, "{told}");
    }
    a.say(r#"{"jsonrpc":"2.0","id":4,"method":"tools/list"}"#).await;
    assert_eq!(a.hear().await["error"]["code"], -32603);
    // The bridge looks again where the node says it is, and repeats nothing it has answered.
    let world = World::start("127.0.0.1:0", shared, None).await;
    moved.send(format!("http://{}", world.addr)).unwrap();
    a.say(&call(5, "loop_status", json!({})).to_string()).await;
    let told = a.hear().await;
    assert_eq!(told["id"], 5, "{told}");
    assert_eq!(told["result"]["structuredContent"]["turn"], 1, "looked for when asked: {told}");
}

/// As clients do that take a long silence for a lost message.
#[tokio::test]
async fn a_request_said_twice_under_one_id_is_answered_with_the_turn() {
    let world = World::new().await;
    let mut b = Agent::new(&world, Some("B"), None);
    b.begin().await;
    b.say(&call(1, "await_my_turn", json!({})).to_string()).await;
    world.shared.until("parked", |state| state.waiting == 1).await;
    b.say(&call(1, "await_my_turn", json!({})).to_string()).await;
    b.say(&call(2, "loop_status", json!({})).to_string()).await;
    assert_eq!(b.hear().await["id"], 2, "the first goes on waiting");
    world.shared.give_to("B", Default::default());
    let told = b.hear().await;
    assert_eq!((&told["id"], &told["result"]["structuredContent"]["turn"]), (&json!(1), &json!(2)));
    world.shared.until("handed", |state| state.handed == [2]).await;
    b.say(&call(1, "loop_status", json!({})).to_string()).await;
    assert_eq!(b.hear().await["id"], 1, "an id that was answered is free");
}

#[tokio::test]
async fn an_agent_on_stdio_is_woken_by_a_task_though_its_node_restarts() {
    let data = tempfile::tempdir().unwrap();
    let settings = || Settings {
        task_key: Some(TaskKey::open(data.path(), &"default".parse().unwrap()).unwrap()),
        ..Settings::default()
    };
    let shared = Loop::new();
    let world = World::with("127.0.0.1:0", shared.clone(), settings()).await;
    let addr = world.addr.to_string();
    let mut b = Agent::new(&world, Some("B"), None);
    b.say(&taking(call(1, "await_my_turn", json!({}))).to_string()).await;
    let task = b.hear().await["result"].clone();
    assert_eq!(task["resultType"], "task", "{task}");
    let id = task["taskId"].as_str().unwrap();
    b.say(&about("tasks/get", id).to_string()).await;
    assert_eq!(b.hear().await["result"]["status"], "working");
    world.stopped().await;
    b.say(&about("tasks/get", id).to_string()).await;
    shared.give_to("B", Default::default());
    let world = World::with(&addr, shared, settings()).await;
    let told = b.hear().await["result"].clone();
    assert_eq!(told["status"], "completed", "{told}");
    assert_eq!(told["result"]["structuredContent"]["turn"], 2);
    world.shared.until("handed", |state| state.handed == [2]).await;
}

#[tokio::test]
async fn a_wait_on_stdio_is_cancelled_or_ends_with_its_agent() {
    let world = World::new().await;
    let mut b = Agent::new(&world, Some("B"), None);
    b.begin().await;
    b.say(&call(1, "await_my_turn", json!({})).to_string()).await;
    world.shared.until("parked", |state| state.waiting == 1).await;
    b.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    world.shared.until("cancelled", |state| state.waiting == 0).await;
    b.say(&call(2, "await_my_turn", json!({})).to_string()).await;
    world.shared.until("parked again", |state| state.waiting == 1).await;
    b.bridge.abort();
    world.shared.until("gone", |state| state.waiting == 0).await;
}

#[tokio::test]
async fn without_a_node_the_error_says_what_starts_one() {
    let world = World::new().await;
    let nobody = Agent::new(&world, Some("C"), None).bridge;
    let told = soon(nobody).await.unwrap().unwrap_err().to_string();
    assert!(told.contains("it hosts: A, B"), "{told}");
    let addr = world.addr;
    world.stopped().await;
    let (theirs, _ours) = tokio::io::duplex(64);
    let (stdin, stdout) = tokio::io::split(theirs);
    let told = bridge(move || format!("http://{addr}"), &Options::default(), stdin, stdout)
        .await
        .unwrap_err();
    assert!(told.to_string().contains("start one with `tasuki up`"), "{told}");
    let (theirs, _ours) = tokio::io::duplex(64);
    let (stdin, stdout) = tokio::io::split(theirs);
    let told =
        bridge(|| "localhost".to_owned(), &Options::default(), stdin, stdout).await.unwrap_err();
    assert!(told.to_string().contains("not a node's address"), "{told}");
}
