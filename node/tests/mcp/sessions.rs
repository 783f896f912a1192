//! Sessions: what breaks clients when a server gets it wrong.

use std::time::Duration;

use serde_json::{Value, json};
use tasuki_node::mcp::Settings;

use crate::{
    http::{Client, Http, call, initialize, with_progress},
    world::{Loop, World, soon},
};

fn wait(id: u64) -> Value {
    with_progress(call(id, "await_my_turn", json!({})))
}

#[tokio::test]
async fn no_stream_begins_with_an_empty_event() {
    let world = World::new().await;
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut a = Client::new(world.addr, "/mcp/A").await;
        a.headers.clear();
        let mut http = a.post(&initialize(version, "gemini-cli-mcp-client")).await;
        let first = http.event().await;
        assert!(!first.data.is_empty(), "{first:?}");
        let session = http.headers["mcp-session-id"].clone();
        a.headers.push(("Mcp-Session-Id".to_owned(), session));
        a.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        let mut http = a.post(&call(1, "await_my_turn", json!({}))).await;
        assert!(!http.event().await.data.is_empty());
        let mut standalone = a.get(None).await;
        let mut ended = Http::connect(world.addr).await;
        let session = a.headers[0].1.as_str();
        ended.send("DELETE /mcp/A", &[("Mcp-Session-Id", session)], b"").await;
        assert_eq!(ended.status, 204);
        assert!(soon(standalone.next_event()).await.is_none());
    }
}

#[tokio::test]
async fn a_wait_whose_client_does_not_come_back_ends() {
    let settings = Settings { resume_within: Duration::ZERO, ..Settings::default() };
    let world = World::with("127.0.0.1:0", Loop::new(), settings).await;
    let b = Client::new(world.addr, "/mcp/B").await;
    let mut http = b.post(&wait(1)).await;
    let progress = http.event().await;
    world.shared.until("waiting", |state| state.waiting == 1).await;
    drop(http);
    world.shared.until("given up", |state| state.waiting == 0).await;
    let answer = b.get(Some(&progress.id)).await.event().await;
    let told = &answer.json()["result"]["structuredContent"];
    assert_eq!((&told["still_waiting"], &told["can_start"]), (&json!(true), &json!(false)));
}

#[tokio::test]
async fn a_stream_can_be_resumed_before_and_after_the_answer() {
    let world = World::new().await;
    let b = Client::new(world.addr, "/mcp/B").await;
    let mut http = b.post(&wait(1)).await;
    let progress = http.event().await;
    assert_eq!(progress.json()["method"], "notifications/progress");
    assert_eq!(progress.json()["params"]["message"], "waiting for the turn");
    drop(http);
    let mut before = b.get(Some(&progress.id)).await;
    world.shared.give_to("B", Default::default());
    let answer = before.event().await;
    assert_eq!(answer.json()["id"], 1, "the last event is not sent again");
    assert!(soon(before.next_event()).await.is_none());
    let turn = world.shared.0.borrow().turn;
    world.shared.until("handed", |state| state.handed.last() == Some(&turn)).await;
    let mut after = b.get(Some(&progress.id)).await;
    assert_eq!(after.event().await, answer);
    assert!(soon(after.next_event()).await.is_none());
    let nothing = b.get(Some(&answer.id)).await;
    assert_eq!(nothing.status, 204, "an empty stream would be asked for again, and for ever");
    let mut unknown = b.get(Some("no-such/1")).await;
    assert!(soon(unknown.next_event()).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_restored_once_for_all_that_ask_at_once() {
    const CLIENTS: usize = 10;
    let dir = tempfile::tempdir().unwrap();
    let shared = Loop::new();
    let first = World::start("127.0.0.1:0", shared.clone(), Some(dir.path())).await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Client::new(first.addr, "/mcp/A").await);
    }
    first.stopped().await;
    let second = World::start("127.0.0.1:0", shared, Some(dir.path())).await;
    let mut asking = tokio::task::JoinSet::new();
    for mut client in clients {
        client.addr = second.addr;
        for id in 1..=20 {
            let client = client.clone();
            asking.spawn(async move {
                let mut http = client.post(&call(id, "loop_status", json!({}))).await;
                assert_eq!(http.status, 200);
                assert_eq!(http.answer().await["id"], id);
            });
        }
    }
    asking.join_all().await;
}

#[tokio::test]
async fn a_session_outlives_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let shared = Loop::new();
    let first = World::start("127.0.0.1:0", shared.clone(), Some(dir.path())).await;
    let mut a = Client::of(first.addr, "/mcp/A", "codex-mcp-client").await;
    first.stopped().await;
    let second = World::start("127.0.0.1:0", shared, Some(dir.path())).await;
    a.addr = second.addr;
    let turn = a.call("await_my_turn", json!({})).await;
    assert_eq!(turn["structuredContent"]["can_start"], true);
    assert_eq!(second.shared.0.borrow().clients.last().unwrap(), "codex-mcp-client 9.9");

    let mut http = Http::connect(second.addr).await;
    http.send("DELETE /mcp/A", &[("Mcp-Session-Id", &a.session)], b"").await;
    assert_eq!(http.status, 204);
    assert_eq!(a.post(&call(1, "loop_status", json!({}))).await.status, 404);
    a.headers[0].1 = "../../../../etc/passwd".to_owned();
    assert_eq!(a.post(&call(1, "loop_status", json!({}))).await.status, 404);
}

/// Holds C2.
#[tokio::test]
async fn the_idlest_session_gives_way_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start("127.0.0.1:0", Loop::new(), Some(dir.path())).await;
    let first = Client::new(world.addr, "/mcp/A").await;
    let second = Client::new(world.addr, "/mcp/A").await;
    let mut stream = second.get(None).await;
    for _ in 0..256 {
        Client::new(world.addr, "/mcp/A").await;
    }
    first.call("loop_status", json!({})).await;
    second.call("loop_status", json!({})).await;
    // The one with an open stream was not idle, so its stream is still the same.
    let more = tokio::time::timeout(Duration::from_millis(50), stream.next_event()).await;
    assert!(more.is_err(), "{more:?}");
}

#[tokio::test]
async fn answers_are_not_held_back() {
    let world = World::new().await;
    let a = Client::new(world.addr, "/mcp/A").await;
    let mut http = Http::connect(world.addr).await;
    let mut took = Vec::new();
    for _ in 0..30 {
        let began = tokio::time::Instant::now();
        a.post_on(&mut http, &call(1, "loop_status", json!({}))).await;
        http.answer().await;
        took.push(began.elapsed());
        http.text().await;
    }
    // Nagle's algorithm and delayed acknowledgements together cost 40 ms, nearly each time.
    took.sort();
    assert!(took[took.len() / 4] < Duration::from_millis(20), "{took:?}");
}

/// An answered stream read again says nothing of a request that is pending, though that has the
/// same id: its answer was once taken for read, and never told.
#[tokio::test]
async fn what_is_resumed_takes_no_answer_of_another_request() {
    let world = World::new().await;
    let b = Client::new(world.addr, "/mcp/B").await;
    let other = Client::new(world.addr, "/mcp/B").await;
    for asking in [&other, &b] {
        let answered = asking.post(&call(1, "loop_status", json!({}))).await.event().await;
        let (stream, _) = answered.id.rsplit_once('/').unwrap();
        let begun = format!("{stream}/0");
        let mut pending = b.post(&wait(1)).await;
        pending.event().await;
        let again = soon(b.get(Some(&begun)).await.next_event()).await;
        assert_eq!(again.is_some(), std::ptr::eq(asking, &b), "{again:?}");
        assert_eq!(soon(asking.get(Some(&begun)).await.next_event()).await.unwrap(), answered);
        assert!(world.shared.0.borrow().handed.len() <= 1);
        world.shared.give_to("B", Default::default());
        let turn = pending.event().await.json();
        assert_eq!(turn["result"]["structuredContent"]["can_start"], true, "{turn}");
        let told = world.shared.0.borrow().turn;
        world.shared.until("handed", |state| state.handed.last() == Some(&told)).await;
        world.shared.give_to("A", Default::default());
    }
}

/// An answer once went to the stream of another request, whose own was then dropped.
#[tokio::test]
async fn an_id_that_is_used_again_after_its_stream_broke_has_two_answers() {
    let world = World::new().await;
    let b = Client::new(world.addr, "/mcp/B").await;
    let mut http = b.post(&wait(1)).await;
    let first = http.event().await;
    world.shared.until("waiting", |state| state.waiting == 1).await;
    drop(http);
    let mut second = loop {
        let mut http = b.post(&wait(1)).await;
        let event = http.event().await.json();
        // It is not known yet that the first stream broke.
        if event["method"] == "notifications/progress" {
            break http;
        }
        assert!(event["error"].is_object(), "{event}");
    };
    let answer = b.get(Some(&first.id)).await.answer().await;
    let told = &answer["result"]["structuredContent"];
    assert_eq!((&answer["id"], &told["superseded"]), (&json!(1), &json!(true)), "{answer}");
    world.shared.give_to("B", Default::default());
    let turn = second.answer().await;
    let told = &turn["result"]["structuredContent"];
    assert_eq!((&turn["id"], &told["can_start"]), (&json!(1), &json!(true)), "{turn}");
}
