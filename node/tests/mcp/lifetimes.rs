//! Waits, receipts and presence live exactly as long as they should.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    http::{Client, Http, call, modern, with_progress},
    world::World,
};

fn wait(id: u64) -> Value {
    call(id, "await_my_turn", json!({}))
}

#[tokio::test]
async fn the_response_opens_at_once() {
    let world = World::new().await;
    // `post` returns when the head of the answer is there; nothing has been answered yet.
    let b = Client::new(world.addr, "/mcp/B").await;
    let http = b.post(&wait(1)).await;
    assert_eq!(http.headers["content-type"], "text/event-stream");
    let b = Client::modern(world.addr, "/mcp/B", "await_my_turn");
    for held in [with_progress(modern(wait(1), "claude-code")), modern(wait(2), "someone")] {
        let http = b.post(&held).await;
        assert_eq!(http.headers["content-type"], "text/event-stream");
        assert_eq!(http.status, 200);
    }
}

/// Holds C3.
#[tokio::test]
async fn a_turn_is_handed_when_its_answer_is_written() {
    let world = World::new().await;
    let b = Client::new(world.addr, "/mcp/B").await;
    let mut http = b.post(&wait(1)).await;
    world.shared.until("parked", |state| state.waiting == 1).await;
    assert!(world.shared.0.borrow().handed.is_empty());
    world.shared.give_to("B", Default::default());
    http.answer().await;
    world.shared.until("handed", |state| state.handed == [2]).await;
    let b = Client::modern(world.addr, "/mcp/B", "await_my_turn");
    b.post(&modern(wait(1), "x")).await.answer().await;
    world.shared.until("handed again", |state| state.handed == [2, 2]).await;
}

/// Holds C3.
#[tokio::test]
async fn a_turn_is_not_handed_to_a_client_that_left() {
    let world = World::new().await;
    let b = Client::new(world.addr, "/mcp/B").await;
    let http = b.post(&wait(1)).await;
    world.shared.until("parked", |state| state.waiting == 1).await;
    drop(http);
    // The server has noticed when it answers another request of a later connection; a session
    // keeps the wait, as its client may come back for the answer.
    b.call("loop_status", json!({})).await;
    world.shared.give_to("B", Default::default());
    world.shared.until("answered", |state| state.waiting == 0).await;
    b.call("loop_status", json!({})).await;
    assert!(world.shared.0.borrow().handed.is_empty());
}

#[tokio::test]
async fn a_cancelled_wait_is_gone() {
    let world = World::new().await;
    let b = Client::new(world.addr, "/mcp/B").await;
    let _http = b.post(&wait(5)).await;
    world.shared.until("parked", |state| state.waiting == 1).await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 5, "reason": "user" } });
    assert_eq!(b.post(&cancel).await.status, 202);
    world.shared.until("cancelled", |state| state.waiting == 0).await;
}

#[tokio::test]
async fn a_wait_without_a_session_ends_with_its_connection() {
    let world = World::new().await;
    let b = Client::modern(world.addr, "/mcp/B", "await_my_turn");
    // With progress the response has begun, without it has not: both are cancelled.
    let mut http = b.post(&with_progress(modern(wait(1), "claude-code"))).await;
    http.event().await;
    world.shared.until("parked", |state| state.waiting == 1).await;
    drop(http);
    world.shared.until("gone", |state| state.waiting == 0).await;
    let silent = tokio::spawn(async move { b.post(&modern(wait(1), "claude-code")).await });
    world.shared.until("parked again", |state| state.waiting == 1).await;
    silent.abort();
    world.shared.until("gone again", |state| state.waiting == 0).await;
    world.shared.until("nobody there", |state| state.connected == 0).await;
}

#[tokio::test]
async fn a_newer_wait_takes_over() {
    let world = World::new().await;
    let b = Client::new(world.addr, "/mcp/B").await;
    let mut older = b.post(&wait(1)).await;
    world.shared.until("parked", |state| state.waiting == 1).await;
    let _newer = b.post(&wait(2)).await;
    let told = older.answer().await["result"]["structuredContent"].clone();
    assert_eq!((&told["superseded"], &told["can_start"]), (&json!(true), &json!(false)));
    assert!(told["hint"].as_str().unwrap().ends_with("Do not call again."));
}

#[tokio::test]
async fn the_hold_is_the_clients_own() {
    let world = World::new().await;
    let look = |id| with_progress(call(id, "await_my_turn", json!({ "agent_id": "A" })));
    let mut expected = Vec::new();
    for (client, path, header, secs) in [
        ("claude-code", "/mcp/A", None, 1500.0),
        ("codex-mcp-client", "/mcp", None, 240.0),
        ("someone", "/mcp/A", None, 45.0),
        ("someone", "/mcp/A?hold=600", None, 600.0),
        ("someone", "/mcp/A", Some("77"), 77.0),
        ("someone", "/mcp/A", Some("86400"), 1800.0),
    ] {
        let mut it = Client::of(world.addr, path, client).await;
        it.headers.extend(header.map(|secs| ("Tasuki-Hold".to_owned(), secs.to_owned())));
        it.post(&look(1)).await.answer().await;
        expected.push(secs);
        assert_eq!(world.shared.0.borrow().holds, expected, "{client}");
    }
    let short = Client::of(world.addr, "/mcp/A", "claude-code").await;
    short.call("await_my_turn", json!({ "timeout_sec": 3 })).await;
    assert_eq!(world.shared.0.borrow().holds.last(), Some(&3.0));
}

#[tokio::test]
async fn an_open_stream_is_a_sign_of_life() {
    let world = World::new().await;
    let a = Client::new(world.addr, "/mcp/A").await;
    assert_eq!(world.shared.0.borrow().connected, 0);
    let stream = a.get(None).await;
    world.shared.until("connected", |state| state.connected == 1).await;
    drop(stream);
    world.shared.until("gone", |state| state.connected == 0).await;
}

#[tokio::test]
async fn a_stopping_server_answers_its_waits() {
    let world = World::new().await;
    let b = Client::new(world.addr, "/mcp/B").await;
    let mut standalone = b.get(None).await;
    let mut in_session = b.post(&wait(1)).await;
    let modern_b = Client::modern(world.addr, "/mcp/B", "await_my_turn");
    let mut without = modern_b.post(&with_progress(modern(wait(1), "claude-code"))).await;
    let mut idle = Http::connect(world.addr).await;
    idle.send("GET /healthz", &[], b"").await;
    let shared = world.shared.clone();
    shared.until("parked", |state| !state.holds.is_empty()).await;
    let stopping = tokio::spawn(world.stopped());
    for http in [&mut in_session, &mut without] {
        let told = http.answer().await["result"]["structuredContent"].clone();
        assert!(told["still_waiting"] == true || told["superseded"] == true, "{told}");
    }
    assert!(standalone.next_event().await.is_none());
    assert!(stopping.await.unwrap() < Duration::from_secs(5));
}
