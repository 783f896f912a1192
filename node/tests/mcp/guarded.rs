//! Who is let in at a guarded server, and as whom.

use std::{net::Ipv4Addr, time::Duration};

use serde_json::{Value, json};
use tasuki_node::{
    mcp::{Settings, TaskKey, ask, dial::NodeAt, tool_names},
    toolset::NAMES,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{
    guard::{Guarded, come_from, shake},
    http::{BOTH, Client, Http, JSON, call, initialize, modern, text},
    tasks::{about, taking},
    world::{Loop, soon},
};

/// Every address, and what it says to whoever has the token of A, of B, of the node.
const ADDRESSES: [(&str, [u16; 3]); 23] = [
    ("POST /mcp", [406, 406, 406]),
    ("GET /mcp", [406, 406, 406]),
    ("DELETE /mcp", [400, 400, 400]),
    ("POST /mcp/A", [406, 403, 406]),
    ("GET /mcp/A", [406, 403, 406]),
    ("DELETE /mcp/A", [400, 403, 400]),
    ("PUT /mcp/A", [405, 403, 405]),
    ("POST /mcp/nobody", [403, 403, 404]),
    ("GET /sse", [200, 200, 200]),
    ("GET /sse/A", [200, 403, 200]),
    ("GET /sse/nobody", [403, 403, 404]),
    ("POST /message?sessionId=x", [404, 404, 404]),
    ("GET /stdio", [426, 426, 426]),
    ("GET /stdio/A", [426, 403, 426]),
    ("GET /status", [403, 403, 200]),
    ("POST /take-over/A", [403, 403, 400]),
    ("POST /take-over/A?no-id", [403, 403, 200]),
    ("POST /outbox/1/drop", [403, 403, 200]),
    ("POST /outbox/2/retry", [403, 403, 404]),
    ("POST /mail/nobody", [403, 403, 404]),
    ("GET /healthz", [200, 200, 200]),
    ("GET /nothing", [404, 404, 404]),
    ("POST /message", [400, 400, 400]),
];

/// Holds G3.
#[tokio::test]
async fn every_address_wants_a_token_that_is_good_for_it() {
    let guarded = Guarded::new().await;
    let rotated = guarded.rotate("A");
    let (a, b, node) = (guarded.token("A"), guarded.token("B"), guarded.token(""));
    // Until the server knows.
    while guarded.ask("GET /healthz", &[("Authorization", &rotated)]).await.0 == 200 {
        tokio::task::yield_now().await;
    }
    let cut = &a[..a.len() - 1];
    let part = |token: &str, at| token.splitn(3, '_').nth(at).unwrap().to_owned();
    let swapped = format!("{}_{}_{}", part(&a, 0), part(&a, 1), part(&b, 2));
    for (request, told) in ADDRESSES {
        let (none, challenge) = guarded.ask(request, &[]).await;
        assert_eq!((none, challenge.as_str()), (401, "Bearer"), "{request}");
        for bad in [&rotated, cut, &swapped, "Bearer x", "Bearer", "Basic QTpB", &a[7..]] {
            let (status, challenge) = guarded.ask(request, &[("Authorization", bad)]).await;
            assert_eq!(status, 401, "{request} {bad}");
            assert_eq!(challenge, "Bearer error=\"invalid_token\"", "{request} {bad}");
        }
        let twice = [("Authorization", &a[..]), ("Authorization", &a)];
        assert_eq!(guarded.ask(request, &twice).await.0, 401, "{request}");
        let and = if request.contains('?') { '&' } else { '?' };
        for name in ["access_token", "token", "anything"] {
            let request = format!("{request}{and}{name}={}", &a[7..]);
            assert_eq!(guarded.ask(&request, &[]).await.0, 401, "{request}");
            let also = guarded.ask(&request, &[("Authorization", &a)]).await;
            assert_eq!(also, (401, "Bearer error=\"invalid_request\"".into()), "{request}");
        }
        for (token, told) in [&a, &b, &node].into_iter().zip(told) {
            let (status, challenge) = guarded.ask(request, &[("Authorization", token)]).await;
            assert_eq!(status, told, "{request}");
            let scope = if told == 403 { "Bearer error=\"insufficient_scope\"" } else { "" };
            assert_eq!(challenge, scope, "{request}");
        }
    }
}

/// Holds G1.
#[tokio::test]
async fn no_tool_does_anything_for_a_wrong_token() {
    let guarded = Guarded::new().await;
    let before = guarded.world.shared.0.borrow().clone();
    let b = guarded.token("B");
    let wrong = [
        (Vec::new(), 401),
        (vec![("Authorization".to_owned(), "Bearer x".to_owned())], 401),
        (vec![("Authorization".to_owned(), b)], 403),
    ];
    for tool in tool_names(&NAMES.map(|set| format!("{set}:full").parse().unwrap())) {
        for (headers, status) in &wrong {
            let mut client = Client::modern(guarded.door, "/mcp/A", &tool);
            client.headers.extend(headers.clone());
            let words = json!({ "work_summary": "s", "next_instruction": "i",
                "is_task_complete": false, "agent_id": "A" });
            let http = client.post(&modern(call(1, &tool, words.clone()), "test")).await;
            assert_eq!(http.status, *status, "{tool}");
            client.headers = headers.clone();
            let http = client.post(&call(1, &tool, words)).await;
            assert_eq!(http.status, *status, "{tool}");
        }
    }
    let after = guarded.world.shared.0.borrow().clone();
    assert_eq!((after.turn, after.looks, after.waiting), (before.turn, 0, 0));
    assert!(after.clients.is_empty() && after.holds.is_empty() && after.handed.is_empty());
}

#[tokio::test]
async fn an_address_of_all_roles_is_the_tokens_own() {
    let guarded = Guarded::new().await;
    let b = guarded.client("/mcp", "B").await;
    let other = b.call("loop_status", json!({ "agent_id": "A" })).await;
    assert_eq!(other["structuredContent"]["error"]["code"], "role_forbidden", "{other}");
    assert!(text(&other).contains("this connection is for role B"), "{other}");
    for mine in [json!({}), json!({ "agent_id": "B" })] {
        let seen = b.call("loop_status", mine).await;
        assert_eq!(seen["structuredContent"]["holder"], "A", "{seen}");
    }
    let node = guarded.client("/mcp", "").await;
    for role in ["A", "B"] {
        let seen = node.call("loop_status", json!({ "agent_id": role })).await;
        assert_eq!(seen["structuredContent"]["holder"], "A", "{seen}");
    }
}

/// Holds G4.
#[tokio::test]
async fn a_session_is_its_tokens_before_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let settings = || Settings { sessions_dir: Some(dir.path().to_owned()), ..Settings::default() };
    let shared = Loop::new();
    let mut guarded = Guarded::start("127.0.0.1:0", shared.clone(), settings()).await;
    let mut a = guarded.client("/mcp/A", "A").await;
    for is_restarted in [false, true] {
        if is_restarted {
            let data = guarded.stopped().await;
            guarded = Guarded::again("127.0.0.1:0", shared.clone(), settings(), data).await;
            a.addr = guarded.door;
        }
        let mut thief = a.clone();
        thief.headers[0].1 = guarded.token("");
        assert_eq!(thief.post(&call(1, "loop_status", json!({}))).await.status, 404);
        assert_eq!(thief.get(None).await.status, 404);
        assert_eq!(thief.get(Some("1/0")).await.status, 404);
        let mut http = Http::connect(guarded.door).await;
        let (name, session) = ("Mcp-Session-Id", a.session.as_str());
        let token = guarded.token("");
        http.send("DELETE /mcp/A", &[(name, session), ("Authorization", &token)], b"").await;
        assert_eq!(http.status, 404);
        a.call("loop_status", json!({})).await;
    }
}

/// Holds G4.
#[tokio::test]
async fn a_stream_takes_messages_with_its_own_token_alone() {
    let guarded = Guarded::new().await;
    let (a, node) = (guarded.token("A"), guarded.token(""));
    let mut stream = Http::connect(guarded.door).await;
    stream.send("GET /sse/A", &[("Authorization", &a)], b"").await;
    let endpoint = format!("POST {}", stream.event().await.data);
    let hello = initialize("2024-11-05", "cursor").to_string();
    for (token, status) in [(&node, 404), (&guarded.token("B"), 404), (&a, 202)] {
        let mut http = Http::connect(guarded.door).await;
        http.send(&endpoint, &[JSON, ("Authorization", token)], hello.as_bytes()).await;
        assert_eq!(http.status, status);
    }
    assert_eq!(stream.answer().await["result"]["protocolVersion"], "2024-11-05");
}

/// Holds TK2.
#[tokio::test]
async fn a_task_is_known_to_its_token_alone() {
    let key = TaskKey::open(tempfile::tempdir().unwrap().path(), &"w".parse().unwrap()).unwrap();
    let settings = Settings { task_key: Some(key), ..Settings::default() };
    let guarded = Guarded::start("127.0.0.1:0", Loop::new(), settings).await;
    let post = async |role: &str, method: &str, name: &str, message: &Value| {
        let mut client = Client::modern(guarded.door, "/mcp/B", name);
        client.headers[1].1 = method.to_owned();
        client.headers.extend(guarded.headers(role));
        client.post(message).await.answer_or_body().await
    };
    let wait = taking(call(1, "await_my_turn", json!({})));
    let made = post("B", "tools/call", "await_my_turn", &wait).await;
    let id = made["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let told = post("", method, &id, &about(method, &id)).await;
        assert_eq!(told["error"]["message"], "there is no such task", "{method} {told}");
    }
    let told = post("B", "tasks/get", &id, &about("tasks/get", &id)).await;
    assert_eq!(told["result"]["status"], "working", "{told}");
}

#[tokio::test]
async fn an_agents_name_is_worth_nothing_with_another_token_until_a_person_gives_it_the_role() {
    let guarded = Guarded::new().await;
    let x = guarded.client("/mcp/A?as=x", "A").await;
    let turn = x.call("await_my_turn", json!({})).await;
    assert_eq!(turn["structuredContent"]["can_start"], true);
    let thief = guarded.client("/mcp/A?as=x", "").await;
    let refused = thief.call("await_my_turn", json!({})).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "role_in_use", "{refused}");
    let node = guarded.at("");
    let told = soon(ask::post(&node(), "/take-over/A?as=y")).await.unwrap();
    assert_eq!(told["from"]["instance"], "x");
    // Given by name, to whichever token it has; from then on with that one alone.
    let y = guarded.client("/mcp/A?as=y", "A").await;
    let turn = y.call("await_my_turn", json!({})).await;
    assert_eq!(turn["structuredContent"]["can_start"], true, "{turn}");
    let thief = guarded.client("/mcp/A?as=y", "").await;
    let refused = thief.call("await_my_turn", json!({})).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "role_in_use", "{refused}");
    let refused = soon(ask::post(&guarded.at("A")(), "/take-over/A?as=x")).await.unwrap_err();
    assert!(refused.to_string().contains("the token of the whole node"), "{refused}");
}

#[tokio::test]
async fn a_guarded_server_is_called_by_its_names_and_by_where_it_was_reached() {
    let guarded = Guarded::start("0.0.0.0:0", Loop::new(), Settings::default()).await;
    let token = guarded.token("A");
    for (host, is_good) in [
        ("localhost", true),
        ("box.example:7421", true),
        ("127.0.0.1", true),
        ("127.0.0.9", false),
        ("evil.example", false),
        ("box.example.evil", false),
        ("0.0.0.0", false),
    ] {
        let headers = [("Host", host), ("Authorization", &token[..])];
        let (status, _) = guarded.ask("GET /healthz", &headers).await;
        assert_eq!(status == 200, is_good, "{host}: {status}");
        assert_eq!(status == 403, !is_good, "{host}: {status}");
    }
    let evil = [("Origin", "https://evil.example"), ("Authorization", &token[..])];
    assert_eq!(guarded.ask("GET /healthz", &evil).await.0, 403);
    // Where it was reached, which its certificate does not name.
    let port = guarded.world.addr.port();
    let stream = come_from([127, 9, 0, 1].into(), ([127, 0, 0, 9], port).into()).await;
    let mut stream = shake(stream, guarded.fingerprint).await;
    let request = format!(
        "GET /healthz HTTP/1.1\r\nHost: 127.0.0.9\r\nAuthorization: {token}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.ok();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn who_does_not_speak_tls_is_told_so_and_nothing_else() {
    let guarded = Guarded::new().await;
    for request in ["GET /mcp/A HTTP/1.1\r\nHost: localhost\r\n\r\n", "{}\n", "x"] {
        let mut stream = come_from([127, 9, 1, 1].into(), guarded.world.addr).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        soon(stream.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.ends_with("\r\n\r\nthis address takes https alone\n"), "{answer:?}");
    }
    let plain = NodeAt::from(format!("http://{}", guarded.world.addr));
    let refused = soon(ask::post(&plain, "/take-over/A")).await.unwrap_err();
    assert!(matches!(refused, ask::Error::Unreadable { .. }), "{refused}");
    let mut other = guarded.at("")();
    other.fingerprint.as_mut().unwrap().0[0] ^= 1;
    let refused = soon(ask::post(&other, "/take-over/A")).await.unwrap_err();
    assert!(matches!(refused, ask::Error::Unsafe { .. }), "{refused}");
}

#[tokio::test]
async fn who_keeps_failing_waits_longer_and_nobody_else_does() {
    let guarded = Guarded::new().await;
    let from = Ipv4Addr::new(127, 9, 2, 1);
    let fail = async |from: Ipv4Addr| {
        let stream = come_from(from, guarded.world.addr).await;
        let mut stream = shake(stream, guarded.fingerprint).await;
        let began = tokio::time::Instant::now();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        // The connection is closed after it.
        soon(stream.read_to_string(&mut answer)).await.ok();
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
        began.elapsed()
    };
    for _ in 0..6 {
        fail(from).await;
    }
    assert!(Duration::from_millis(200) <= fail(from).await);
    assert!(Duration::from_millis(400) <= fail(from).await);
    // Its good requests are not held up by its bad ones.
    let token = guarded.token("A");
    let stream = come_from(from, guarded.world.addr).await;
    let mut stream = shake(stream, guarded.fingerprint).await;
    let good =
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n\r\n");
    stream.write_all(good.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    soon(stream.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    // What the others wait for is not told here: nothing of it is in any clock of theirs.
    let mut http = Http::connect(guarded.door).await;
    http.send("POST /mcp/A", &[BOTH, JSON], b"{}").await;
    assert_eq!(http.status, 401);
}
