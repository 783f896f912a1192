//! A token that was rotated: what it opened ends, and what finds the new one goes on.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::{
    bridge::Agent,
    guard::Guarded,
    http::{Http, call, with_progress},
    world::soon,
};
use tasuki_node::mcp::bridge::Options;

/// From the rotation on, for everything to have ended.
const WITHIN: Duration = Duration::from_secs(1);

/// Holds G2.
#[tokio::test]
async fn what_a_rotated_token_opened_ends_within_a_second_and_others_go_on() {
    let guarded = Guarded::new().await;
    let b = guarded.client("/mcp/B", "B").await;
    let node = guarded.client("/mcp/B", "").await;
    let mut own = b.get(None).await;
    let mut theirs = node.get(None).await;
    let mut wait = b.post(&with_progress(call(1, "await_my_turn", json!({})))).await;
    assert!(wait.event().await.json()["params"]["progress"].is_number());
    let token = guarded.token("B");
    let mut sse = Http::connect(guarded.door).await;
    sse.send("GET /sse/B", &[("Authorization", &token)], b"").await;
    sse.event().await;
    guarded.world.shared.until("a wait", |state| state.waiting == 1).await;

    let began = Instant::now();
    guarded.rotate("B");
    assert!(soon(own.next_event()).await.is_none());
    assert!(soon(wait.next_event()).await.is_none());
    assert!(soon(sse.next_event()).await.is_none());
    guarded.world.shared.until("no wait", |state| state.waiting == 0).await;
    let took = began.elapsed();
    assert!(took < WITHIN, "{took:?}");

    assert_eq!(b.post(&call(2, "loop_status", json!({}))).await.status, 401);
    let mut anew = b.clone();
    anew.headers[0].1 = guarded.token("B");
    // The session went with its token.
    assert_eq!(anew.post(&call(2, "loop_status", json!({}))).await.status, 404);
    guarded.client("/mcp/B", "B").await.call("loop_status", json!({})).await;
    node.call("loop_status", json!({})).await;
    let still = tokio::time::timeout(Duration::ZERO, theirs.next_event()).await;
    assert!(still.is_err(), "the other token's stream is open: {still:?}");
}

#[tokio::test]
async fn an_agent_on_stdio_does_not_notice_that_its_token_was_rotated() {
    let guarded = Guarded::new().await;
    let role = Some("B".parse().unwrap());
    let mut b = Agent::with(guarded.at("B"), Options { role, ..Options::default() });
    b.begin().await;
    b.say(&call(1, "await_my_turn", json!({})).to_string()).await;
    guarded.world.shared.until("a wait", |state| state.waiting == 1).await;
    guarded.rotate("B");
    guarded.world.shared.until("it is cut off", |state| state.waiting == 0).await;
    guarded.world.shared.until("it is back", |state| state.waiting == 1).await;
    guarded.world.shared.give_to("B", Default::default());
    assert_eq!(b.hear().await["result"]["structuredContent"]["can_start"], true);
}

#[tokio::test]
async fn an_agent_without_a_good_token_is_told_why() {
    let guarded = Guarded::new().await;
    let (at, role) = (guarded.at("A"), "B".parse().unwrap());
    let b = Agent::with(at, Options { role: Some(role), ..Options::default() });
    let refused = soon(b.bridge).await.unwrap().unwrap_err().to_string();
    assert!(refused.contains("not valid for the role"), "{refused}");
    let (at, role) = (guarded.at("A"), "A".parse().unwrap());
    let none = move || tasuki_node::mcp::dial::NodeAt { token: None, ..at() };
    let a = Agent::with(none, Options { role: Some(role), ..Options::default() });
    let refused = soon(a.bridge).await.unwrap().unwrap_err().to_string();
    assert!(refused.contains("tasuki agent-token"), "{refused}");
}
