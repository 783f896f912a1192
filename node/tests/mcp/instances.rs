//! One agent at a time plays a role, whichever way it is connected.

use serde_json::{Value, json};
use tasuki_node::mcp::{Settings, bridge::Options};

use crate::{
    bridge::Agent,
    http::{BOTH, Client, Http, JSON, call, initialize, modern, text},
    sse::Sse,
    world::{Loop, Time, World, soon},
};

fn wait(id: u64) -> Value {
    call(id, "await_my_turn", json!({ "agent_id": "B" }))
}

fn words() -> Value {
    json!({
        "current_agent_id": "B",
        "work_summary": "s",
        "next_instruction": "i",
        "is_task_complete": false,
    })
}

fn code(result: &Value) -> &str {
    result["structuredContent"]["error"]["code"].as_str().unwrap_or_default()
}

async fn take_over(world: &World, role_and_query: &str) -> (u16, Value) {
    let mut http = Http::connect(world.addr).await;
    http.send(&format!("POST /take-over/{role_and_query}"), &[JSON], b"").await;
    (http.status, serde_json::from_str(&http.text().await).unwrap())
}

/// An agent on stdio that plays B as `id`, and has played already.
async fn on_stdio(world: &World, id: &str) -> Agent {
    let url = format!("http://{}", world.addr);
    let options = Options {
        role: Some("B".parse().unwrap()),
        instance: Some(id.parse().unwrap()),
        ..Options::default()
    };
    let mut agent = Agent::with(move || url.clone(), options);
    agent.begin().await;
    agent.say(&call(1, "await_my_turn", json!({ "timeout_sec": 0 })).to_string()).await;
    let told = agent.hear().await;
    assert_eq!(told["result"]["structuredContent"]["still_waiting"], true, "{told}");
    agent
}

/// Holds IN2.
#[tokio::test]
async fn another_agent_may_look_but_neither_act_nor_wait() {
    let world = World::new().await;
    let x = Client::of(world.addr, "/mcp/B?as=x", "codex-mcp-client").await;
    let mut parked = x.post(&wait(1)).await;
    world.shared.until("parked", |state| state.waiting == 1).await;

    let refused = |result: &Value| {
        assert_eq!(code(result), "role_in_use", "{result}");
        assert_eq!(
            text(result),
            "Another agent plays B: codex-mcp-client 9.9 (instance x), which is connected. \
             No change was made. Stop and tell your user: to let you play B instead, run \
             `tasuki take-over --role B --as y`. Then call again."
        );
    };
    // A session at the role's address, and one at the address of all roles.
    for path in ["/mcp/B?as=y", "/mcp?as=y"] {
        let y = Client::of(world.addr, path, "claude-code").await;
        refused(&y.call("await_my_turn", json!({ "agent_id": "B" })).await);
        refused(&y.call("handover_work", words()).await);
        let seen = y.call("loop_status", json!({ "agent_id": "B" })).await;
        assert_eq!(seen["structuredContent"]["holder"], "A");
    }
    // Without a session, with the header.
    let mut y = Client::modern(world.addr, "/mcp/B", "await_my_turn");
    y.headers.push(("Tasuki-As".to_owned(), "y".to_owned()));
    refused(&y.post(&modern(wait(1), "claude-code")).await.answer_or_body().await["result"]);
    // The older transport.
    let mut y = Sse::new(&world, "/sse/B?as=y").await;
    y.post(&world, &wait(1)).await;
    refused(&y.stream.answer().await["result"]);
    // None of it came to the role's actor, or changed who is said to play it.
    let state = world.shared.0.borrow().clone();
    assert_eq!((state.waiting, state.holder.as_str()), (1, "A"));
    assert!(state.clients.iter().all(|client| client == "codex-mcp-client 9.9 as x"));
    // The other role is free, and whoever plays B goes on.
    let y = Client::of(world.addr, "/mcp?as=y", "claude-code").await;
    let turn = y.call("await_my_turn", json!({ "agent_id": "A" })).await;
    assert_eq!(turn["structuredContent"]["can_start"], true);
    world.shared.give_to("B", Default::default());
    assert_eq!(parked.answer().await["result"]["structuredContent"]["can_start"], true);
}

#[tokio::test]
async fn agents_without_an_id_are_one() {
    let world = World::new().await;
    let first = Client::new(world.addr, "/mcp/A").await;
    let second = Client::new(world.addr, "/mcp").await;
    for client in [&first, &second, &first] {
        let turn = client.call("await_my_turn", json!({ "agent_id": "A" })).await;
        assert_eq!(turn["structuredContent"]["can_start"], true);
    }
    let named = Client::new(world.addr, "/mcp/A?as=x").await;
    let told = named.call("await_my_turn", json!({})).await;
    assert!(text(&told).contains("test 9.9 (the instance without an id)"), "{told}");
}

/// Holds IN1.
#[tokio::test]
async fn a_role_that_was_taken_over_is_the_others() {
    let world = World::new().await;
    let x = Client::of(world.addr, "/mcp/B?as=x", "codex-mcp-client").await;
    let y = Client::of(world.addr, "/mcp/B?as=y", "claude-code").await;
    let mut older = x.post(&wait(1)).await;
    world.shared.until("parked", |state| state.waiting == 1).await;

    let (status, told) = take_over(&world, "B?as=y").await;
    let from = json!({ "instance": "x", "client": "codex-mcp-client 9.9" });
    assert_eq!(status, 200);
    assert_eq!(told, json!({ "role": "B", "instance": "y", "from": from }));
    let ended = older.answer().await["result"]["structuredContent"].clone();
    assert_eq!((&ended["superseded"], &ended["can_start"]), (&json!(true), &json!(false)));
    assert!(ended["hint"].as_str().unwrap().ends_with("Do not call again."), "{ended}");
    world.shared.until("its wait is gone", |state| state.waiting == 0).await;
    assert_eq!(code(&x.call("await_my_turn", json!({})).await), "role_in_use");

    // The turn is the role's: whoever plays it now has it, and the other cannot end it.
    world.shared.give_to("B", Default::default());
    let turn = y.call("await_my_turn", json!({})).await;
    assert_eq!(turn["structuredContent"]["turn"], 2);
    assert_eq!(code(&x.call("handover_work", words()).await), "role_in_use");
    assert_eq!(take_over(&world, "B?as=x").await.1["from"]["instance"], "y");
    assert_eq!(code(&y.call("handover_work", words()).await), "role_in_use");
    let done = x.call(
        "handover_work",
        json!({ "to": "A", "work_summary": "s",
        "next_instruction": "i", "is_task_complete": false }),
    );
    assert_eq!(done.await["structuredContent"]["ended_turn"], 2);

    // Whoever has it loses nothing by taking it, and an agent without an id may have it.
    assert_eq!(take_over(&world, "B?as=x").await.1["from"], Value::Null);
    let (status, told) = take_over(&world, "B").await;
    assert_eq!((status, &told["error"]), (400, &json!("invalid_argument")), "{told}");
    let agents = told["agents"].as_array().unwrap().iter();
    let agents: Vec<_> = agents.map(|it| (&it["instance"], &it["plays"])).collect();
    assert_eq!(agents, [(&json!("x"), &json!(true)), (&json!("y"), &json!(false))], "{told}");
    assert_eq!(code(&y.call("await_my_turn", json!({})).await), "role_in_use");
    let (_, told) = take_over(&world, "B?no-id").await;
    assert_eq!((&told["instance"], &told["from"]["instance"]), (&Value::Null, &json!("x")));
    let none = Client::new(world.addr, "/mcp/B").await;
    let told = none.call("await_my_turn", json!({ "timeout_sec": 0 })).await;
    assert_eq!(told["structuredContent"]["still_waiting"], true);

    assert_eq!(take_over(&world, "C?as=x").await.0, 404);
    assert_eq!(take_over(&world, "B?as=a%20b").await.0, 400);
}

#[tokio::test]
async fn an_agent_whose_process_ends_gives_its_role_up() {
    let world = World::new().await;
    let x = on_stdio(&world, "x").await;
    let y = Client::new(world.addr, "/mcp/B?as=y").await;
    assert_eq!(code(&y.call("await_my_turn", json!({})).await), "role_in_use");
    x.bridge.abort();
    world.shared.until("gone", |state| state.connected == 0).await;
    let told = until_admitted(&y).await;
    assert_eq!(told["structuredContent"]["still_waiting"], true, "{told}");
}

#[tokio::test]
async fn a_session_that_its_client_closes_gives_its_role_up() {
    let world = World::new().await;
    let y = Client::new(world.addr, "/mcp/B?as=y").await;
    for path in ["/mcp/B?as=x", "/mcp?as=x"] {
        let x = Client::new(world.addr, path).await;
        let stream = x.get(None).await;
        x.call("await_my_turn", json!({ "agent_id": "B", "timeout_sec": 0 })).await;
        assert_eq!(code(&y.call("await_my_turn", json!({})).await), "role_in_use");
        let mut http = Http::connect(world.addr).await;
        let session = [("Mcp-Session-Id", x.session.as_str())];
        http.send(&format!("DELETE {path}"), &session, b"").await;
        assert_eq!(http.status, 204);
        let told = until_admitted(&y).await;
        assert_eq!(told["structuredContent"]["still_waiting"], true, "{told}");
        drop(stream);
        take_over(&world, "B?as=x").await;
    }
}

/// What an agent is told once the one before it has given the role up.
async fn until_admitted(agent: &Client) -> Value {
    soon(async {
        loop {
            let told = agent.call("await_my_turn", json!({ "timeout_sec": 0 })).await;
            if code(&told) != "role_in_use" {
                return told;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

#[tokio::test]
async fn several_agents_may_play_a_shared_role() {
    let shared = ["B".parse().unwrap()].into();
    let settings = Settings { shared, ..Settings::default() };
    let world = World::with("127.0.0.1:0", Loop::new(), settings).await;
    for id in ["x", "y", "x"] {
        let agent = Client::new(world.addr, &format!("/mcp/B?as={id}")).await;
        let told = agent.call("await_my_turn", json!({ "timeout_sec": 0 })).await;
        assert_eq!(told["structuredContent"]["still_waiting"], true, "{told}");
    }
    let (status, told) = take_over(&world, "B?as=x").await;
    assert_eq!(status, 409);
    assert!(told["message"].as_str().unwrap().contains("several agents may play B"), "{told}");
    let x = Client::new(world.addr, "/mcp/A?as=x").await;
    x.call("await_my_turn", json!({})).await;
    let y = Client::new(world.addr, "/mcp/A?as=y").await;
    assert_eq!(code(&y.call("await_my_turn", json!({})).await), "role_in_use");
}

#[tokio::test]
async fn an_id_that_is_none_is_refused_everywhere() {
    let world = World::new().await;
    for (request, body) in [
        ("POST /mcp/B?as=a%20b", initialize("2025-06-18", "x").to_string()),
        ("GET /sse/B?as=", String::new()),
        ("GET /stdio/B?as=-x", String::new()),
    ] {
        let mut http = Http::connect(world.addr).await;
        http.send(request, &[BOTH, JSON], body.as_bytes()).await;
        assert_eq!(http.status, 400, "{request}");
        let told = http.text().await;
        assert!(told.contains("`as` in the address is"), "{told}");
    }
    let mut http = Http::connect(world.addr).await;
    http.send("GET /sse/B", &[("Tasuki-As", "a b")], b"").await;
    assert_eq!(http.status, 400);
}

#[tokio::test]
async fn an_agent_is_waited_for_by_what_of_it_ended_last() {
    // It called; it has a session's stream open; that ended.
    for (has_stream, is_closed, still, gone) in
        [(false, false, 899, 901), (true, false, 9_000, 0), (true, true, 29, 31)]
    {
        let time = Time::default();
        let settings = Settings { clock: time.clock(), ..Settings::default() };
        let world = World::with("127.0.0.1:0", Loop::new(), settings).await;
        let x = Client::new(world.addr, "/mcp/B?as=x").await;
        let y = Client::new(world.addr, "/mcp/B?as=y").await;
        let look = json!({ "timeout_sec": 0 });
        let opened = if has_stream { Some(x.get(None).await) } else { None };
        x.call("await_my_turn", look.clone()).await;
        if is_closed {
            drop(opened);
            // Until the server knows, the agent is connected.
            soon(async {
                loop {
                    let told = y.call("await_my_turn", look.clone()).await;
                    assert_eq!(code(&told), "role_in_use");
                    if !text(&told).contains("is connected") {
                        break;
                    }
                }
            })
            .await;
        }
        time.pass(still);
        assert_eq!(code(&y.call("await_my_turn", look.clone()).await), "role_in_use");
        if gone != 0 {
            time.pass(gone - still);
            let told = y.call("await_my_turn", look.clone()).await;
            assert_eq!(told["structuredContent"]["still_waiting"], true, "{told}");
        }
    }
}
