//! The older HTTP+SSE transport.

use serde_json::{Value, json};

use crate::{
    http::{Http, JSON, call, initialize, with_progress},
    world::World,
};

pub(crate) struct Sse {
    pub(crate) stream: Http,
    endpoint: String,
}

impl Sse {
    pub(crate) async fn new(world: &World, path: &str) -> Self {
        Self::of(world, path, "cursor").await
    }

    pub(crate) async fn of(world: &World, path: &str, client: &str) -> Self {
        let mut stream = Http::connect(world.addr).await;
        stream.send(&format!("GET {path}"), &[("Accept", "text/event-stream")], b"").await;
        assert_eq!(stream.headers["content-type"], "text/event-stream");
        let first = stream.event().await;
        assert_eq!(first.name, "endpoint");
        assert!(first.data.starts_with("/message?sessionId="), "{first:?}");
        let mut it = Self { stream, endpoint: first.data };
        it.post(world, &initialize("2024-11-05", client)).await;
        assert_eq!(it.stream.answer().await["result"]["protocolVersion"], "2024-11-05");
        it.post(world, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        it
    }

    pub(crate) async fn post(&self, world: &World, message: &Value) {
        let mut http = Http::connect(world.addr).await;
        let request = format!("POST {}", self.endpoint);
        http.send(&request, &[JSON], message.to_string().as_bytes()).await;
        assert_eq!(http.status, 202);
    }
}

#[tokio::test]
async fn two_clients_at_once_each_get_their_own_answers() {
    let world = World::new().await;
    let mut a = Sse::new(&world, "/sse/A").await;
    let mut b = Sse::new(&world, "/sse").await;
    world.shared.until("both there", |state| state.connected == 1).await;
    b.post(&world, &with_progress(call(1, "await_my_turn", json!({ "agent_id": "B" })))).await;
    let sign = b.stream.event().await.json();
    assert_eq!(sign["params"]["progress"], 1.0);
    a.post(&world, &call(1, "await_my_turn", json!({ "agent_id": "A" }))).await;
    assert_eq!(a.stream.answer().await["result"]["structuredContent"]["turn"], 1);
    world.shared.until("handed to A", |state| state.handed == [1]).await;
    let words = json!({ "work_summary": "s", "next_instruction": "i", "is_task_complete": false });
    a.post(&world, &call(2, "handover_work", words)).await;
    assert_eq!(b.stream.answer().await["result"]["structuredContent"]["turn"], 2);
    assert_eq!(a.stream.answer().await["id"], 2);
    world.shared.until("handed to B", |state| state.handed == [1, 2]).await;
}

#[tokio::test]
async fn a_wait_ends_with_its_stream() {
    let world = World::new().await;
    let b = Sse::new(&world, "/sse/B?hold=900").await;
    b.post(&world, &call(1, "await_my_turn", json!({}))).await;
    world.shared.until("parked", |state| state.waiting == 1 && state.connected == 2).await;
    assert_eq!(world.shared.0.borrow().holds, [900.0]);
    let endpoint = b.endpoint.clone();
    drop(b);
    world.shared.until("gone", |state| state.waiting == 0 && state.connected == 0).await;
    let mut http = Http::connect(world.addr).await;
    http.send(&format!("POST {endpoint}"), &[JSON], b"{}").await;
    assert!(http.status == 404 || http.status == 400, "{}", http.status);
}

#[tokio::test]
async fn garbage_and_huge_bodies_are_refused_and_the_stream_goes_on() {
    let world = World::new().await;
    let mut a = Sse::new(&world, "/sse/A").await;
    let mut http = Http::connect(world.addr).await;
    let request = format!("POST {}", a.endpoint);
    http.send(&request, &[JSON], b"garbage").await;
    assert_eq!(http.status, 400);
    let mut http = Http::connect(world.addr).await;
    http.send(&request, &[JSON, ("Content-Length", "104857600")], b"{").await;
    assert_eq!(http.status, 413);
    let cancelled = call(3, "await_my_turn", json!({ "agent_id": "B" }));
    a.post(&world, &cancelled).await;
    assert_eq!(a.stream.answer().await["result"]["isError"], true);
}

#[tokio::test]
async fn a_stopping_server_answers_and_ends_its_streams() {
    let world = World::new().await;
    let mut b = Sse::new(&world, "/sse/B").await;
    b.post(&world, &call(1, "await_my_turn", json!({}))).await;
    world.shared.until("parked", |state| state.waiting == 1).await;
    let stopping = tokio::spawn(world.stopped());
    let told = b.stream.answer().await;
    assert_eq!(told["result"]["structuredContent"]["still_waiting"], true);
    assert!(b.stream.next_event().await.is_none());
    assert!(stopping.await.unwrap() < std::time::Duration::from_secs(5));
}
