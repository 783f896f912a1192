//! Calls that do not fit: each a result to read, that names what is wrong.

use serde_json::json;
use tasuki_node::{
    mcp::Settings,
    toolset::{LOOP, MAIL},
};

use crate::{
    http::{BOTH, Client, Http, JSON, call, initialize, modern, text},
    world::{Loop, World},
};

#[tokio::test]
async fn a_refusal_is_a_result_that_says_what_to_do() {
    let world = World::new().await;
    let a = Client::new(world.addr, "/mcp/A").await;
    let all = Client::new(world.addr, "/mcp").await;
    let long = "x".repeat(256 * 1024 + 1);
    for (client, tool, arguments, code, told) in [
        (&a, "await_my_turn", json!({ "agent_id": "B" }), "role_forbidden", "for role A"),
        (&all, "await_my_turn", json!({}), "role_required", "A, B"),
        (&all, "await_my_turn", json!({ "agent_id": "C" }), "unknown_role", "It hosts: A, B"),
        (&all, "await_my_turn", json!({ "agent_id": "a b" }), "invalid_argument", "agent_id"),
        (&all, "await_my_turn", json!({ "agent_id": ["A"] }), "invalid_argument", "agent_id"),
        (&a, "await_my_turn", json!({ "timeout_sec": -1 }), "invalid_argument", "timeout_sec"),
        (&a, "await_my_turn", json!({ "loop": "no" }), "unknown_loop", "no loop no"),
        (&a, "handover_work", json!({}), "invalid_argument", "`work_summary` is missing"),
        (
            &a,
            "handover_work",
            json!({ "is_task_complete": "perhaps" }),
            "invalid_argument",
            "is_task_complete",
        ),
        (
            &a,
            "handover_work",
            json!({ "is_task_complete": false, "work_summary": "s" }),
            "invalid_argument",
            "next_instruction",
        ),
        (
            &a,
            "handover_work",
            json!({ "is_task_complete": false, "work_summary": 5, "next_instruction": "i" }),
            "invalid_argument",
            "work_summary",
        ),
        (
            &a,
            "handover_work",
            json!({ "is_task_complete": true, "work_summary": " ", "next_instruction": "" }),
            "invalid_argument",
            "`work_summary` is empty",
        ),
        (
            &a,
            "handover_work",
            json!({ "is_task_complete": false, "work_summary": "s", "next_instruction": "\n" }),
            "invalid_argument",
            "`next_instruction` is empty",
        ),
        (
            &a,
            "handover_work",
            json!({ "is_task_complete": true, "work_summary": "s", "next_instruction": long }),
            "too_large",
            "`next_instruction` is 262145",
        ),
        (
            &a,
            "handover_work",
            json!({ "is_task_complete": false, "work_summary": "s", "next_instruction": "i",
                "turn": "soon" }),
            "invalid_argument",
            "turn",
        ),
        (
            &a,
            "handover_work",
            json!({ "is_task_complete": false, "work_summary": long, "next_instruction": "i" }),
            "too_large",
            "262145",
        ),
        (
            &all,
            "handover_work",
            json!({ "current_agent_id": "B", "is_task_complete": false, "work_summary": "s",
                "next_instruction": "i" }),
            "not_your_turn",
            "A's turn",
        ),
    ] {
        let result = client.call(tool, arguments).await;
        let error = &result["structuredContent"]["error"];
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(error["code"], code, "{result}");
        assert_eq!(error["message"], text(&result));
        assert_eq!(error["retryable"], code == "not_your_turn");
        assert_eq!(error["maybe_applied"], false);
        assert!(text(&result).contains(told), "{told}: {result}");
    }
    assert_eq!(world.shared.0.borrow().turn, 1);
}

#[tokio::test]
async fn a_completing_handover_needs_no_instruction() {
    let world = World::new().await;
    let a = Client::new(world.addr, "/mcp/A").await;
    let words = json!({ "work_summary": "s", "next_instruction": "", "is_task_complete": true });
    let done = a.call("handover_work", words).await;
    assert_eq!(done["structuredContent"]["is_finished"], true, "{done}");
}

#[tokio::test]
async fn a_hold_that_is_no_number_is_refused_and_says_so() {
    let world = World::new().await;
    for (path, header) in [
        ("/mcp/A?hold=abc", "5"),
        ("/mcp/A?hold=-1", "5"),
        ("/sse/A?hold=", "5"),
        ("/stdio/A?hold=1.5", "5"),
        ("/mcp/A?hold=5", "soon"),
    ] {
        let mut http = Http::connect(world.addr).await;
        let method = if path.starts_with("/mcp") { "POST" } else { "GET" };
        let body = initialize("2025-06-18", "test").to_string();
        let headers = [BOTH, JSON, ("Tasuki-Hold", header)];
        let body = if method == "POST" { body.as_bytes() } else { b"" };
        http.send(&format!("{method} {path}"), &headers, body).await;
        assert_eq!(http.status, 400, "{path} {header}");
        let told = http.text().await;
        assert!(told.contains("a whole number of seconds"), "{told}");
    }
    let b = Client::new(world.addr, "/mcp/B?hold=99999999999999999999").await;
    let mut http = b.post(&call(1, "await_my_turn", json!({}))).await;
    world.shared.until("cut", |state| state.holds == [1800.0]).await;
    world.shared.give_to("B", Default::default());
    assert_eq!(http.answer().await["result"]["structuredContent"]["can_start"], true);
}

#[tokio::test]
async fn what_is_no_message_gets_the_protocols_own_error() {
    let world = World::new().await;
    for (body, code, id) in [
        (&b"garbage"[..], -32700, json!(null)),
        (b"{\"jsonrpc\"", -32700, json!(null)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":7}", -32600, json!(9)),
    ] {
        let mut http = Http::connect(world.addr).await;
        http.send("POST /mcp/A", &[BOTH, JSON], body).await;
        assert_eq!((http.status, http.headers["content-type"].as_str()), (400, JSON.1));
        let told: serde_json::Value = serde_json::from_str(&http.text().await).unwrap();
        assert_eq!((&told["error"]["code"], &told["id"]), (&json!(code), &id), "{told}");
    }
    let mut http = Http::connect(world.addr).await;
    http.send("POST /mcp/A", &[BOTH, ("Content-Type", "text/plain")], b"{}").await;
    assert!((400..500).contains(&http.status));
}

#[tokio::test]
async fn what_models_get_slightly_wrong_is_understood() {
    let world = World::new().await;
    let all = Client::new(world.addr, "/mcp").await;
    let handed = all
        .call(
            "handover_work",
            json!({ "current_agent_id": " A ", "work_summary": "s", "next_instruction": "i",
                "is_task_complete": "False", "turn": "1", "to": "", "loop": null }),
        )
        .await;
    assert_eq!(handed["structuredContent"]["turn"], 2, "{handed}");
    let turn = all.call("await_my_turn", json!({ "agent_id": "B", "timeout_sec": "0.5" })).await;
    assert_eq!(turn["structuredContent"]["can_start"], true);
}

#[tokio::test]
async fn garbage_is_refused_and_the_next_call_works() {
    let world = World::new().await;
    let a = Client::new(world.addr, "/mcp/A").await;
    for body in [&b"garbage"[..], b"\xff\xfe", b"[]", b"{}", b"{\"jsonrpc\":\"1.0\"}"] {
        let mut http = Http::connect(world.addr).await;
        let session = ("Mcp-Session-Id", a.session.as_str());
        http.send("POST /mcp/A", &[BOTH, JSON, session], body).await;
        assert!((400..500).contains(&http.status), "{body:?} {}", http.status);
    }
    let mut http = Http::connect(world.addr).await;
    let mut unknown = a.post(&call(1, "no_such_tool", json!({}))).await;
    assert_eq!(unknown.answer().await["error"]["code"], -32602);
    tokio::io::AsyncWriteExt::write_all(&mut http.stream, b"\x16\x03\x01 not http\r\n\r\n")
        .await
        .unwrap();
    http.head().await;
    assert_eq!(http.status, 400);
    a.call("loop_status", json!({})).await;
}

/// Holds C2.
#[tokio::test]
async fn a_body_over_the_limit_is_refused_unread() {
    let world = World::new().await;
    let a = Client::new(world.addr, "/mcp/A").await;
    for path in ["POST /mcp/A", "POST /mcp"] {
        let mut http = Http::connect(world.addr).await;
        let huge = (100 * 1024 * 1024).to_string();
        http.send(path, &[BOTH, JSON, ("Content-Length", &huge)], b"{").await;
        assert_eq!(http.status, 413);
    }
    // Without a length told: as much as the limit is read, no more.
    let http = Http::connect(world.addr).await;
    let chunk = vec![b' '; 1024 * 1024];
    let mut chunked = Vec::new();
    for _ in 0..5 {
        chunked.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunked.extend_from_slice(&chunk);
        chunked.extend_from_slice(b"\r\n");
    }
    let head = "POST /mcp/A HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, \
                text/event-stream\r\nContent-Type: application/json\r\nTransfer-Encoding: \
                chunked\r\n\r\n";
    let all = [head.as_bytes(), &chunked].concat();
    let (reader, mut writer) = tokio::io::split(http.stream.into_inner());
    let writing = tokio::spawn(async move {
        tokio::io::AsyncWriteExt::write_all(&mut writer, &all).await.ok();
        writer
    });
    let mut line = String::new();
    let mut reader = tokio::io::BufReader::new(reader);
    crate::world::soon(tokio::io::AsyncBufReadExt::read_line(&mut reader, &mut line))
        .await
        .unwrap();
    assert!(line.contains("413"), "{line}");
    writing.abort();
    a.call("loop_status", json!({})).await;
}

#[tokio::test]
async fn a_call_at_which_the_node_fails_is_answered() {
    let sets = [LOOP, MAIL].map(|it| it.parse().unwrap()).to_vec();
    let toolsets = ["A", "B"].map(|role| (role.parse().unwrap(), sets.clone())).into();
    let settings = Settings { toolsets, ..Settings::default() };
    // These roles have tools for mail, and panic when they are asked for it.
    let world = World::with("127.0.0.1:0", Loop::new(), settings).await;
    let tool = "filebox_list_messages";
    let session = Client::new(world.addr, "/mcp/A").await;
    let stateless = Client::modern(world.addr, "/mcp/A", tool);
    let asked = call(7, tool, json!({}));
    for (client, asked) in [(&session, asked.clone()), (&stateless, modern(asked, "claude-code"))] {
        let told = client.post(&asked).await.answer_or_body().await;
        let error = &told["error"];
        assert_eq!((&told["id"], &error["code"]), (&json!(7), &json!(-32603)), "{told}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("may or may not have taken effect"), "{told}");
        assert!(!message.contains("nothing here asks for mail"), "{told}");
    }
    let turn = session.call("await_my_turn", json!({})).await;
    assert_eq!(turn["structuredContent"]["can_start"], true, "{turn}");
}
