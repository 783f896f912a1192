//! Callers that mean harm, or know no better. After each, a good call works.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    agents::{Agent, Transport},
    http::{BOTH, Client, Http, JSON, call, initialize},
    process::{Process, soon},
};

/// A text of a handover, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// What the process may use more at its worst, in KiB.
const GROWTH_KIB_MAX: u64 = 192 * 1024;

/// A `tasuki up` under attack, and a caller it must go on to serve.
struct Target {
    up: Process,
    good: Client,
    _dir: tempfile::TempDir,
}

impl Target {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let up = Process::up(&dir.path().join("up"), "").await;
        let good = Client::new(up.mcp, "/mcp/A").await;
        Self { up, good, _dir: dir }
    }

    async fn works(&self) {
        let status = soon(self.good.call("loop_status", json!({}))).await;
        assert_eq!(status["structuredContent"]["loop"], "main", "{status}");
        let fresh = Client::modern(self.up.mcp, "/mcp/B", "loop_status");
        let call = crate::http::modern(call(7, "loop_status", json!({})), "good");
        assert_eq!(soon(fresh.post(&call)).await.status, 200);
    }

    async fn refused(&self, tool: &str, arguments: Value) -> String {
        let result = soon(self.good.call(tool, arguments)).await;
        assert_eq!(result["isError"], true, "{result}");
        result["structuredContent"]["error"]["code"].as_str().unwrap().to_owned()
    }

    /// Sends bytes and reads what comes until the server hangs up.
    async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.up.mcp).await.unwrap();
        // A server that hangs up early is within its rights.
        stream.write_all(bytes).await.ok();
        let mut heard = Vec::new();
        soon(stream.read_to_end(&mut heard)).await.ok();
        String::from_utf8_lossy(&heard).into_owned()
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Http {
        let mut http = Http::connect(self.up.mcp).await;
        let session = [("Mcp-Session-Id", self.good.session.as_str())];
        let headers = [&[BOTH, JSON], &session[..], headers].concat();
        http.send(&format!("POST {path}"), &headers, body).await;
        http
    }
}

fn words(summary: &str) -> Value {
    json!({ "work_summary": summary, "next_instruction": "go on", "is_task_complete": false })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_that_say_nothing_are_closed() {
    const SILENT: u64 = 5_000;
    /// Ten seconds by the server's clock, and what a busy machine adds.
    const CLOSED_WITHIN: Duration = Duration::from_secs(15);
    let mut files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    files.current = files.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, files).unwrap();
    let target = Target::new().await;
    let possible = files.maximum.map_or(SILENT, |files| files.saturating_sub(200).min(SILENT));
    let mut silent = JoinSet::new();
    for number in 0..possible {
        let mut stream = TcpStream::connect(target.up.mcp).await.unwrap();
        silent.spawn(async move {
            let began = Instant::now();
            if number % 2 == 0 {
                stream.write_all(b"POST /mcp/A HTTP/1.1\r\nHost: local").await.ok();
            }
            let _ = timeout(Duration::from_secs(30), stream.read_to_end(&mut Vec::new()))
                .await
                .expect("closed");
            began.elapsed()
        });
    }
    timeout(Duration::from_secs(5), target.works()).await.expect("served meanwhile");
    let open_for = silent.join_all().await.into_iter().max().unwrap();
    assert!(open_for < CLOSED_WITHIN, "{open_for:?}");
    target.works().await;
}

#[tokio::test]
async fn garbage_is_refused_in_bounded_memory() {
    let target = Target::new().await;
    let before = target.up.peak_kib();
    for garbage in [&b"\x16\x03\x01\x02\x00\x01\x00\x01"[..], b"\0\0\0\0\n\n\n\n", b"GET\r\n\r\n"] {
        let heard = target.raw(garbage).await;
        assert!(heard.is_empty() || heard.starts_with("HTTP/1.1 400"), "{heard}");
    }
    let endless =
        [b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ".as_slice(), &[b'x'; 1 << 20]].concat();
    let heard = target.raw(&endless).await;
    assert!(heard.is_empty() || heard.starts_with("HTTP/1.1 4"), "{heard}");

    let told = ("Content-Length", "104857600");
    let http = target.post("/mcp/A", &[told], b"{").await;
    assert_eq!(http.status, 413);
    // 100 MiB that nobody announced.
    let head = "POST /mcp/A HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Accept: application/json, text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut stream = TcpStream::connect(target.up.mcp).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = [b"100000\r\n".as_slice(), &[b' '; 1 << 20], b"\r\n"].concat();
    let sending = async {
        for _ in 0..100 {
            if stream.write_all(&chunk).await.is_err() {
                return true;
            }
        }
        false
    };
    assert!(soon(sending).await, "all of it was taken");
    target.works().await;
    let grown = target.up.peak_kib() - before;
    assert!(grown < GROWTH_KIB_MAX, "{grown} KiB");
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let target = Target::new().await;
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let nested = |inner: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"loop_status","arguments":{{"loop":{inner}}}}}}}"#
        )
    };
    for body in [
        b"\xff\xfe\xfd".to_vec(),
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\xff\"}".to_vec(),
        b"{\"jsonrpc\"".to_vec(),
        b"".to_vec(),
        b"[]".to_vec(),
        b"null".to_vec(),
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}".to_vec(),
        deep(100_000).into_bytes(),
        nested(&deep(100_000)).into_bytes(),
    ] {
        for path in ["/mcp/A", "/mcp"] {
            let status = target.post(path, &[], &body).await.status;
            assert!((400..500).contains(&status), "{status} for {:?}", body.get(..40));
        }
        target.works().await;
    }
    let mut http = target.post("/mcp/A", &[], nested(&deep(100)).as_bytes()).await;
    assert_eq!(http.answer().await["result"]["isError"], true);
    target.works().await;
}

#[tokio::test]
async fn arguments_of_the_wrong_kind_are_named() {
    let target = Target::new().await;
    let wrong = [json!([1]), json!({ "a": 1 }), json!(true), json!("\u{0}"), json!(-1)];
    let fits = |field: &str, value: &Value| match field {
        "is_task_complete" => value.is_boolean(),
        "work_summary" | "next_instruction" => value.is_string(),
        _ => false,
    };
    for (tool, field) in [
        ("await_my_turn", "agent_id"),
        ("await_my_turn", "loop"),
        ("await_my_turn", "timeout_sec"),
        ("handover_work", "current_agent_id"),
        ("handover_work", "work_summary"),
        ("handover_work", "next_instruction"),
        ("handover_work", "is_task_complete"),
        ("handover_work", "loop"),
        ("handover_work", "to"),
        ("handover_work", "turn"),
        ("loop_status", "agent_id"),
        ("loop_status", "loop"),
    ] {
        for value in wrong.iter().filter(|value| !fits(field, value)) {
            let mut arguments = if tool == "handover_work" { words("s") } else { json!({}) };
            arguments[field] = value.clone();
            let code = target.refused(tool, arguments).await;
            let expected = ["invalid_argument", "unknown_loop", "unknown_role", "role_forbidden"];
            assert!(expected.contains(&code.as_str()), "{tool} {field} {value}: {code}");
        }
    }
    let nobody = json!({ "loop": "nowhere" });
    assert_eq!(target.refused("await_my_turn", nobody).await, "unknown_loop");
    assert_eq!(target.refused("loop_status", json!({ "agent_id": "B" })).await, "role_forbidden");
    for field in ["work_summary", "next_instruction"] {
        let mut arguments = words("s");
        arguments[field] = Value::Null;
        assert_eq!(target.refused("handover_work", arguments).await, "invalid_argument");
    }
    let mut http = target.good.post(&call(1, "no_such_tool", json!({}))).await;
    assert_eq!(http.answer().await["error"]["code"], -32602);
    assert_eq!(target.post("/mcp/nobody", &[], b"{}").await.status, 404);
    assert!(target.up.json("loop history").await.is_empty(), "nothing happened");
    target.works().await;
}

#[tokio::test]
async fn texts_are_taken_whole_or_not_at_all() {
    let target = Target::new().await;
    for field in ["work_summary", "next_instruction"] {
        let mut arguments = words("s");
        arguments[field] = "x".repeat(TEXT_BYTES_MAX + 1).into();
        assert_eq!(target.refused("handover_work", arguments).await, "too_large");
    }
    assert!(target.up.json("loop history").await.is_empty(), "nothing happened");
    // Every byte needs six to be escaped in JSON, the most there is.
    let summary = "\u{1}".repeat(TEXT_BYTES_MAX);
    let instruction = "ü".repeat(TEXT_BYTES_MAX / 2);
    let arguments = json!({ "work_summary": summary, "next_instruction": instruction,
        "is_task_complete": false });
    let done = soon(target.good.call("handover_work", arguments)).await;
    assert_ne!(done["isError"], true, "{done}");
    for transport in [Transport::Session, Transport::Stateless, Transport::Sse, Transport::Stdio] {
        let mut b = Agent::new(transport, "B", target.up.mcp, target.up.data.clone()).await;
        let turn = soon(b.call("await_my_turn", json!({}))).await.unwrap();
        let turn = &turn["structuredContent"];
        // None of it can be seen, so none of it is shown; what is kept stays as it was sent.
        assert!(turn["summary"] == "" && turn["stripped"] == TEXT_BYTES_MAX);
        assert!(turn["instruction"] == *instruction);
    }
    let mut b = Agent::new(Transport::Stdio, "B", target.up.mcp, target.up.data.clone()).await;
    let empty = json!({ "work_summary": "", "next_instruction": "", "is_task_complete": false });
    let told = soon(b.call("handover_work", empty)).await.unwrap();
    anstream::println!("empty texts: {}", told["structuredContent"]);
    let history = target.up.json("loop history").await;
    assert!(history[0]["summary"] == *summary && history[0]["instruction"] == *instruction);
    target.works().await;
}

#[tokio::test]
async fn a_thousand_sessions_begun_and_left_harm_nobody() {
    let target = Target::new().await;
    let before = target.up.peak_kib();
    for number in 0..1_000 {
        let abandoned = Client::new(target.up.mcp, "/mcp/A").await;
        if number % 10 == 0 {
            drop(abandoned.get(None).await);
        }
    }
    let grown = target.up.peak_kib() - before;
    assert!(grown < GROWTH_KIB_MAX, "{grown} KiB");
    target.works().await;
}

#[tokio::test]
async fn of_many_waits_of_one_role_the_newest_stays() {
    const WAITS: usize = 300;
    let target = Target::new().await;
    let mut waits = JoinSet::new();
    for _ in 0..WAITS {
        let mut b =
            Agent::new(Transport::Stateless, "B", target.up.mcp, target.up.data.clone()).await;
        waits.spawn(async move { b.call("await_my_turn", json!({})).await.unwrap() });
    }
    for _ in 1..WAITS {
        let ended = soon(waits.join_next()).await.unwrap().unwrap();
        assert_eq!(ended["structuredContent"]["superseded"], true, "{ended}");
    }
    target.works().await;
    let stays = async {
        loop {
            let status = target.good.call("loop_status", json!({})).await;
            if status["structuredContent"]["waiting"] == json!(["B"]) {
                return;
            }
        }
    };
    soon(stays).await;
    target.good.call("handover_work", words("done")).await;
    let woken = soon(waits.join_next()).await.unwrap().unwrap();
    assert_eq!(woken["structuredContent"]["turn"], 2, "{woken}");
}

#[tokio::test]
async fn an_id_that_is_not_answered_yet_is_refused() {
    let target = Target::new().await;
    let b = Client::new(target.up.mcp, "/mcp/B").await;
    let mut first = b.post(&call(5, "await_my_turn", json!({}))).await;
    let mut second = b.post(&call(5, "loop_status", json!({}))).await;
    let refused = second.answer().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(5), &json!(-32600)));
    target.good.call("handover_work", words("done")).await;
    let answer = first.answer().await;
    assert_eq!(answer["result"]["structuredContent"]["turn"], 2, "{answer}");
    assert!(first.next_event().await.is_none());
    let mut again = b.post(&call(5, "loop_status", json!({}))).await;
    assert_eq!(again.answer().await["result"]["structuredContent"]["turn"], 2);
    target.works().await;
}

#[tokio::test]
async fn pages_from_elsewhere_are_refused_everywhere() {
    let target = Target::new().await;
    let hello = initialize("2025-06-18", "page").to_string();
    for (request, body) in [
        ("POST /mcp/A", hello.as_str()),
        ("POST /mcp", &hello),
        ("GET /mcp/A", ""),
        ("DELETE /mcp/A", ""),
        ("GET /sse", ""),
        ("GET /sse/A", ""),
        ("POST /message?sessionId=1", "{}"),
        ("GET /stdio/A", ""),
        ("OPTIONS /mcp/A", ""),
        ("GET /status", ""),
    ] {
        for forged in [
            ("Host", "evil.example"),
            ("Host", "localhost.evil.example:7421"),
            ("Origin", "https://evil.example"),
            ("Origin", "null"),
        ] {
            let upgrade = [("Connection", "Upgrade"), ("Upgrade", "tasuki-stdio")];
            let headers = [&[BOTH, JSON, forged][..], &upgrade].concat();
            let mut http = Http::connect(target.up.mcp).await;
            http.send(request, &headers, body.as_bytes()).await;
            assert_eq!(http.status, 403, "{request} {forged:?}");
            let cors = http.headers.keys().find(|name| name.starts_with("access-control"));
            assert_eq!(cors, None);
        }
    }
    target.works().await;
}

#[tokio::test]
async fn of_two_agents_that_race_as_one_role_one_hands_over() {
    let target = Target::new().await;
    let mut racing = JoinSet::new();
    for (number, transport) in [Transport::Session, Transport::Stdio].into_iter().enumerate() {
        let (addr, data) = (target.up.mcp, target.up.data.clone());
        let mut a = Agent::new(transport, "A", addr, data).await;
        let mut own = words(&format!("of {number}"));
        own["turn"] = 1.into();
        racing.spawn(async move { a.call("handover_work", own).await.unwrap() });
    }
    let ended = soon(racing.join_all()).await;
    let refused: Vec<_> = ended.iter().filter(|result| result["isError"] == true).collect();
    assert_eq!(refused.len(), 1, "{ended:?}");
    assert_eq!(refused[0]["structuredContent"]["error"]["code"], "stale_token");
    assert_eq!(target.up.json("loop history").await.len(), 1);
    // The same words from both are one intent.
    let mut b = JoinSet::new();
    for transport in [Transport::Sse, Transport::Stateless] {
        let mut agent = Agent::new(transport, "B", target.up.mcp, target.up.data.clone()).await;
        b.spawn(async move { agent.call("handover_work", words("same")).await.unwrap() });
    }
    for result in soon(b.join_all()).await {
        assert_eq!(result["structuredContent"]["turn"], 3, "{result}");
    }
    assert_eq!(target.up.json("loop history").await.len(), 2);
    target.works().await;
}
