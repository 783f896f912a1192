//! Calls about mail that do not fit: each a result to read, in words that prompts know.

use serde_json::json;
use tasuki_node::mcp::Settings;
use tasuki_proto::mail::BoxKind;

use crate::{
    http::{Client, text},
    post::{Post, id},
};

#[tokio::test]
async fn a_refusal_is_a_result_that_says_what_to_do() {
    let post = Post::new();
    let world = post.world("mail:full", Settings::default()).await;
    let a = Client::new(world.addr, "/mcp/A").await;
    let all = Client::new(world.addr, "/mcp").await;
    post.begin(1, "B", &["A"], "BR", ["one", "1"]);
    post.begin(2, "B", &["A"], "BR", ["two", "2"]);
    post.0.send_modify(|it| it.threads[1].copies.get_mut("A").unwrap().place = Some(BoxKind::Done));
    let (long, title) = ("x".repeat(256 * 1024 + 1), "t".repeat(5_000));
    let message = |field: &str, value: serde_json::Value| {
        let mut message =
            json!({ "receiver_id": "B", "msg_type": "BR", "title": "t", "content": "c" });
        message[field] = value;
        message
    };
    let send = "filebox_send_message";
    let many: Vec<String> = (0..33).map(|it| format!("r{it}")).collect();
    let files: Vec<String> = (0..101).map(|it| format!("{it:08x}")).collect();
    for (client, tool, arguments, code, told) in [
        (&all, send, message("x", json!(1)), "role_required", "roles with mail: A, B"),
        (&a, send, message("receiver_id", json!("")), "invalid_argument", "receiver_id"),
        (&a, send, message("receiver_id", json!("../x")), "invalid_argument", "receiver_id"),
        (&a, send, message("receiver_id", json!({})), "invalid_argument", "receiver_id"),
        (&a, send, message("receiver_id", json!("[\"B\"")), "invalid_argument", "receiver_id"),
        (&a, send, message("receiver_id", json!(many)), "too_large", "the limit is 32"),
        (&a, send, message("receiver_id", json!("D")), "unknown_role", "Known: A, B, C"),
        (
            &a,
            send,
            message("receiver_id", json!(null)),
            "invalid_argument",
            "`receiver_id` is missing",
        ),
        (&a, send, message("msg_type", json!("bug/../x")), "invalid_argument", "BR, ACK, ER, INFO"),
        (&a, send, message("msg_type", json!("TODO")), "invalid_argument", "is \"TODO\""),
        (&a, send, message("title", json!(" ")), "invalid_argument", "`title` is empty"),
        (&a, send, message("title", json!(title)), "too_large", "`title` is 5000 bytes long"),
        (&a, send, message("content", json!("")), "invalid_argument", "`content` is empty"),
        (&a, send, message("content", json!(long)), "too_large", "`content` is 262145 bytes"),
        (&a, send, message("client_ref", json!("r".repeat(65))), "too_large", "client_ref"),
        (&a, send, message("expires_sec", json!(0)), "invalid_argument", "expires_sec"),
        (&a, send, message("expires_sec", json!(1e9)), "invalid_argument", "365 days"),
        (
            &a,
            "filebox_list_messages",
            json!({ "box_type": "trash" }),
            "invalid_argument",
            "inbox, outbox",
        ),
        (&a, "filebox_list_messages", json!({ "limit": 0 }), "invalid_argument", "limit"),
        (
            &a,
            "filebox_read_message",
            json!({ "box_type": "inbox" }),
            "invalid_argument",
            "filename",
        ),
        (
            &a,
            "filebox_read_message",
            json!({ "filename": "0000" }),
            "ambiguous_message",
            "say more of it",
        ),
        (&a, "filebox_resolve_message", json!({}), "invalid_argument", "filename"),
        (
            &a,
            "filebox_resolve_message",
            json!({ "filename": files }),
            "too_large",
            "the limit is 100",
        ),
        (
            &a,
            "filebox_resolve_message",
            json!({ "filename": "00000002" }),
            "ok",
            "Message resolved",
        ),
        (
            &a,
            "filebox_reject_message",
            json!({ "filename": "00000002" }),
            "not_in_inbox",
            "not in the inbox",
        ),
        (&a, "filebox_thread", json!({}), "invalid_argument", "message_id"),
        (
            &a,
            "filebox_thread",
            json!({ "message_id": "00000001", "last": 1, "from": 1 }),
            "invalid_argument",
            "`last`",
        ),
        (&a, "filebox_thread", json!({ "message_id": "ffff" }), "unknown_message", "ffff"),
        (
            &a,
            "filebox_wait_for_message",
            json!({ "msg_type": "x" }),
            "invalid_argument",
            "msg_type",
        ),
        (&a, "filebox_wait_for_message", json!({ "sender": "a b" }), "invalid_argument", "sender"),
        (&a, "filebox_wait_for_message", json!({ "after": "../x" }), "unknown_message", "../x"),
        (&a, "filebox_search_messages", json!({}), "invalid_argument", "query"),
        (
            &a,
            "filebox_search_messages",
            json!({ "query": "x", "since": "soon" }),
            "invalid_argument",
            "2h, 7d",
        ),
        (
            &a,
            "filebox_search_messages",
            json!({ "query": "x", "limit": 0 }),
            "invalid_argument",
            "limit",
        ),
        (&a, "filebox_register_agent", json!({}), "invalid_argument", "agent_name"),
        (
            &a,
            "filebox_register_agent",
            json!({ "agent_name": "x", "directory": "rel" }),
            "invalid_argument",
            "absolute",
        ),
        (
            &a,
            "filebox_register_agent",
            json!({ "agent_name": "x", "directory": "/no/such" }),
            "invalid_argument",
            "not a directory",
        ),
    ] {
        let result = client.call(tool, arguments.clone()).await;
        assert!(text(&result).contains(told), "{tool} {told}: {result}");
        if code == "ok" {
            assert_eq!(result["isError"], false, "{result}");
            continue;
        }
        let error = &result["structuredContent"]["error"];
        assert_eq!((&result["isError"], &error["code"]), (&json!(true), &json!(code)), "{result}");
        assert_eq!(error["message"], text(&result));
        assert_eq!(error["maybe_applied"], false);
    }
    let state = post.0.borrow().clone();
    assert_eq!(state.threads.len(), 2, "nothing was sent");
    assert_eq!(state.marks, []);
}

/// These words came from the tools people have prompts for; what they add stands beside them.
#[tokio::test]
async fn known_words_stay_recognisable() {
    let post = Post::new();
    let world = post.world("mail:full", Settings::default()).await;
    let a = Client::new(world.addr, "/mcp/A").await;
    post.begin(1, "B", &["A"], "BR", ["one", "1"]);
    let id = id(9).to_string();
    let send = "filebox_send_message";
    let read = "filebox_read_message";
    let answer = |to: &str| {
        json!({ "receiver_id": "B", "msg_type": "BR", "title": "t", "content": "c",
            "original_message_id": to })
    };
    for (tool, arguments, code, words) in [
        (send, answer(&id), "unknown_message", format!("Original message {id} not found")),
        (send, answer("../x"), "unknown_message", "Original message ../x not found".to_owned()),
        (
            read,
            json!({ "box_type": "inbox", "filename": "ffff.md" }),
            "unknown_message",
            "Message not found".to_owned(),
        ),
        (
            read,
            json!({ "box_type": "inbox", "filename": "../../../.filebox" }),
            "unknown_message",
            "Message not found".to_owned(),
        ),
        (
            read,
            json!({ "box_type": "done", "filename": "00000001" }),
            "unknown_message",
            "Message not found".to_owned(),
        ),
        (
            "filebox_resolve_message",
            json!({ "filename": "../../x-00000001.md" }),
            "unknown_message",
            "Message not found".to_owned(),
        ),
        (
            "filebox_reject_message",
            json!({ "filename": "ffff" }),
            "unknown_message",
            "Message not found".to_owned(),
        ),
        (
            "filebox_list_messages",
            json!({ "box_type": "inbox", "runAs": "ghost" }),
            "unknown_role",
            "Invalid runAs agent 'ghost'. Available agents: A, B".to_owned(),
        ),
        (
            "filebox_list_messages",
            json!({ "runAs": "g\u{202e}h" }),
            "unknown_role",
            "Invalid runAs agent 'gh'. Available agents: A, B".to_owned(),
        ),
    ] {
        let result = a.call(tool, arguments.clone()).await;
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(text(&result), words, "{tool} {arguments}");
        let error = &result["structuredContent"]["error"];
        assert_eq!(error["code"], code);
        if let Some(more) = result["content"][1]["text"].as_str() {
            assert_eq!(error["message"], format!("{words}. {more}"));
        }
    }
}

#[tokio::test]
async fn an_address_speaks_for_the_roles_of_its_node() {
    let post = Post::new();
    let world = post.world("mail", Settings::default()).await;
    post.begin(1, "A", &["B"], "BR", ["one", "1"]);
    let a = Client::new(world.addr, "/mcp/A").await;
    let all = Client::new(world.addr, "/mcp").await;
    for client in [&a, &all] {
        let listed = client
            .call("filebox_list_messages", json!({ "box_type": "inbox", "runAs": "B" }))
            .await;
        assert!(text(&listed).contains("00000001"), "{listed}");
    }
    let own = a.call("filebox_list_messages", json!({ "box_type": "inbox" })).await;
    assert_eq!(text(&own), "[]");
    // What one agent plays another one does not read away, nor speak for.
    let played = Client::new(world.addr, "/mcp/B?as=b-1").await;
    played.call("filebox_wait_for_message", json!({ "timeout_sec": 0 })).await;
    let spying = Client::new(world.addr, "/mcp/A?as=a-1").await;
    let read = json!({ "box_type": "inbox", "filename": "00000001", "runAs": "B" });
    let shown = spying.call("filebox_read_message", read).await;
    assert!(text(&shown).starts_with("# BR: one"), "{shown}");
    let taken = json!({ "filename": "00000001", "runAs": "B" });
    let refused = spying.call("filebox_resolve_message", taken).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "role_in_use", "{refused}");
    let read = json!({ "box_type": "inbox", "filename": "00000001" });
    played.call("filebox_read_message", read).await;
    let marks = post.until("seen", |it| it.threads[0].copies["B"].seen == 1).await.marks;
    assert_eq!(marks.len(), 2, "handed by the wait, seen by its reader: {marks:?}");
}

#[tokio::test]
async fn what_a_call_names_is_said_back_in_short() {
    let post = Post::new();
    let world = post.world("mail", Settings::default()).await;
    let b = Client::new(world.addr, "/mcp/B").await;
    let resolve = "filebox_resolve_message";
    let names = |end: &str| {
        let name = |it| format!("{it}{}{end}", "x".repeat(30_000));
        json!({ "filename": (0..10).map(name).collect::<Vec<_>>() })
    };
    for end in ["", "-0000000f.md"] {
        let refused = b.call(resolve, names(end)).await;
        assert_eq!(refused["structuredContent"]["refused"], 10);
        let asked = refused["structuredContent"]["results"][1]["asked"].as_str().unwrap();
        assert!(asked.starts_with("\"1xxx") && asked.len() < 100, "{asked}");
        let bytes = refused.to_string().len();
        assert!(bytes < 100_000, "{bytes}");
    }
    post.0.send_modify(|it| it.is_away = true);
    let queued = b.call(resolve, names("-0000000f.md")).await;
    assert_eq!(queued["structuredContent"]["queued"], 8);
    let bytes = queued.to_string().len();
    assert!(bytes < 10_000, "{bytes}");
}

#[tokio::test]
async fn names_that_hide_something_are_shown_without_it() {
    let post = Post::new();
    let world = post.world("mail", Settings::default()).await;
    let b = Client::new(world.addr, "/mcp/B").await;
    post.begin(1, "A", &["B"], "BR", ["one", "1"]);
    post.0.send_modify(|it| it.threads[0].file_name = "a\u{202e}b-00000001.md".to_owned());
    let moved = b.call("filebox_resolve_message", json!({ "filename": "00000001" })).await;
    assert_eq!(moved["structuredContent"]["file_name"], "ab-00000001.md", "{moved}");
    let answer = json!({ "receiver_id": "A", "msg_type": "ACK", "title": "t", "content": "c",
        "original_message_id": "00000001" });
    let sent = b.call("filebox_send_message", answer).await;
    assert_eq!(sent["structuredContent"]["file_name"], "ab-00000001.md", "{sent}");
    let unknown = format!("{}\u{202e}-0000000f.md", "x".repeat(10_000));
    let refused = b.call("filebox_resolve_message", json!({ "filename": [unknown] })).await;
    assert_eq!(text(&refused), "Message not found");
    let said = refused["structuredContent"]["error"]["message"].as_str().unwrap();
    let beside = refused["content"][1]["text"].as_str().unwrap();
    for told in [said, beside] {
        assert!(told.len() <= 4096 && !told.contains('\u{202e}'), "{}", told.len());
    }
}
