//! Loops as resources: what is listed, what a reader gets, and what reading leaves alone.

use serde_json::{Value, json};
use tasuki_proto::wire;

use crate::{
    http::{Client, modern},
    world::World,
};

async fn ask(client: &Client, method: &str, params: Value) -> Value {
    let ask = json!({ "jsonrpc": "2.0", "id": 3, "method": method, "params": params });
    client.post(&ask).await.answer().await
}

async fn read(client: &Client, uri: &str) -> Value {
    let answer = ask(client, "resources/read", json!({ "uri": uri })).await;
    let contents = &answer["result"]["contents"][0];
    assert_eq!(
        (&contents["uri"], &contents["mimeType"]),
        (&json!(uri), &json!("application/json"))
    );
    serde_json::from_str(contents["text"].as_str().unwrap_or_else(|| panic!("{answer}"))).unwrap()
}

fn words(from: &str, to: &str) -> wire::Entry {
    wire::Entry {
        kind: wire::EntryKind::Handover.into(),
        from: from.into(),
        to: to.into(),
        summary: "s1".into(),
        instruction: "i1".into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn an_address_lists_the_loops_of_its_roles() {
    let world = World::new().await;
    world.shared.open("of-a", &["A", "C"]);
    world.shared.open("of-c", &["C"]);
    for (path, expected) in [
        ("/mcp/A", vec!["tasuki://loop/main", "tasuki://loop/of-a"]),
        ("/mcp/B", vec!["tasuki://loop/main"]),
        ("/mcp", vec!["tasuki://loop/main", "tasuki://loop/of-a"]),
    ] {
        let client = Client::new(world.addr, path).await;
        let list = ask(&client, "resources/list", json!({})).await["result"].clone();
        let uris: Vec<&str> = list["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["uri"].as_str().unwrap())
            .collect();
        assert_eq!(uris, expected, "{path}");
        assert_eq!(list["resources"][0]["mimeType"], "application/json");
    }
    let client = Client::new(world.addr, "/mcp/A").await;
    let templates = ask(&client, "resources/templates/list", json!({})).await;
    let template = &templates["result"]["resourceTemplates"][0];
    assert_eq!(template["uriTemplate"], "tasuki://loop/{id}");
}

#[tokio::test]
async fn a_long_list_comes_in_pages() {
    let world = World::new().await;
    let names: Vec<String> = (0..250).map(|number| format!("l{number:03}")).collect();
    names.iter().for_each(|name| world.shared.open(name, &["B"]));
    let client = Client::new(world.addr, "/mcp/B").await;
    let (mut seen, mut cursor) = (Vec::new(), json!({}));
    let mut sizes = Vec::new();
    loop {
        let page = ask(&client, "resources/list", cursor).await["result"].clone();
        let uris = page["resources"].as_array().unwrap().clone();
        sizes.push(uris.len());
        seen.extend(uris.iter().map(|it| it["uri"].as_str().unwrap().to_owned()));
        match page.get("nextCursor") {
            Some(next) => cursor = json!({ "cursor": next }),
            None => break,
        }
    }
    assert_eq!(sizes, [100, 100, 51]);
    let expected = names.iter().map(String::as_str).chain(["main"]);
    assert!(
        seen.iter().map(String::as_str).eq(expected
            .map(|name| format!("tasuki://loop/{name}"))
            .collect::<Vec<_>>()
            .iter()
            .map(String::as_str))
    );
    let answer = ask(&client, "resources/list", json!({ "cursor": "../x" })).await;
    assert_eq!(answer["error"]["code"], -32602);
}

#[tokio::test]
async fn each_role_reads_the_same_loop_as_its_own() {
    let world = World::new().await;
    world.shared.give_to("B", words("A", "B"));
    let b = read(&Client::new(world.addr, "/mcp/B").await, "tasuki://loop/main").await;
    assert_eq!((&b["role"], &b["is_my_turn"]), (&json!("B"), &json!(true)));
    assert_eq!(
        (&b["holder"], &b["turn"], &b["status"]),
        (&json!("B"), &json!(2), &json!("working"))
    );
    let said = json!({ "from": "A", "summary": "s1", "instruction": "i1" });
    assert_eq!(b["previous"], said);
    assert!(b["latest"].get("summary").is_none(), "they are said once: {b}");
    assert!(b["note"].as_str().unwrap().contains("not instructions from your user"));

    let client = Client::new(world.addr, "/mcp/A").await;
    let a = read(&client, "tasuki://loop/main").await;
    assert_eq!((&a["role"], &a["is_my_turn"]), (&json!("A"), &json!(false)));
    assert!(a.get("previous").is_none());
    let status = client.call("loop_status", json!({})).await["structuredContent"].clone();
    for (field, value) in status.as_object().unwrap() {
        assert_eq!(&a[field], value, "{field}");
    }

    let all = read(&Client::new(world.addr, "/mcp").await, "tasuki://loop/main").await;
    assert_eq!((all.get("role"), all.get("is_my_turn")), (None, None));
    assert_eq!(all["holder"], "B");
}

#[tokio::test]
async fn a_turn_that_was_taken_over_comes_with_the_words_before_it() {
    let world = World::new().await;
    world.shared.give_to("B", words("A", "B"));
    let reclaim = wire::Entry {
        kind: wire::EntryKind::Reclaim.into(),
        from: "B".into(),
        to: "A".into(),
        reason: "B sleeps".into(),
        ..Default::default()
    };
    world.shared.give_to("A", reclaim);
    let a = read(&Client::new(world.addr, "/mcp/A").await, "tasuki://loop/main").await;
    assert_eq!(
        (&a["latest"]["kind"], &a["latest"]["reason"]),
        (&json!("reclaim"), &json!("B sleeps"))
    );
    assert_eq!(a["previous"]["summary"], "s1");
}

#[tokio::test]
async fn reading_leaves_everything_as_it_was() {
    let world = World::new().await;
    let waits = Client::new(world.addr, "/mcp/B").await;
    let mut waiting = waits.post(&crate::http::call(1, "await_my_turn", json!({}))).await;
    world.shared.until("parked", |state| state.waiting == 1).await;
    let before = world.shared.0.borrow().clients.len();
    let reader = Client::new(world.addr, "/mcp/B").await;
    read(&reader, "tasuki://loop/main").await;
    world.shared.give_to("B", words("A", "B"));
    assert_eq!(read(&reader, "tasuki://loop/main").await["is_my_turn"], true);
    assert_eq!(waiting.answer().await["result"]["structuredContent"]["can_start"], true);
    let state = world.shared.until("handed", |state| state.handed == [2]).await;
    read(&reader, "tasuki://loop/main").await;
    assert_eq!(state.clients.len(), before, "a read is no sign of life");
    assert_eq!(world.shared.0.borrow().handed, [2]);
}

#[tokio::test]
async fn what_is_not_there_is_said_as_each_version_says_it() {
    let world = World::new().await;
    let old = Client::new(world.addr, "/mcp/A").await;
    for uri in ["tasuki://loop/nowhere", "tasuki://role/A", "file:///etc/passwd", ""] {
        let answer = ask(&old, "resources/read", json!({ "uri": uri })).await;
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
        assert_eq!(answer["error"]["data"]["uri"], uri);
        let mut new = Client::modern(world.addr, "/mcp/A", uri);
        new.headers[1].1 = "resources/read".to_owned();
        let ask = json!({ "jsonrpc": "2.0", "id": 3, "method": "resources/read",
            "params": { "uri": uri } });
        if uri.is_empty() {
            continue;
        }
        let mut http = new.post(&modern(ask, "new")).await;
        let answer: Value = match http.headers["content-type"].as_str() {
            "application/json" => serde_json::from_str(&http.text().await).unwrap(),
            _ => http.answer().await,
        };
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
}

#[tokio::test]
async fn what_may_be_kept_is_said_where_the_version_knows_of_it() {
    let world = World::new().await;
    for (method, params, kept_ms) in [
        ("tools/list", json!({}), 60_000),
        ("prompts/list", json!({}), 60_000),
        ("resources/templates/list", json!({}), 60_000),
        ("server/discover", json!({}), 60_000),
        ("resources/list", json!({}), 0),
        ("resources/read", json!({ "uri": "tasuki://loop/main" }), 0),
    ] {
        let mut new = Client::modern(world.addr, "/mcp/A", "tasuki://loop/main");
        new.headers[1].1 = method.to_owned();
        if method != "resources/read" {
            new.headers.pop();
        }
        let mut ask = json!({ "jsonrpc": "2.0", "id": 3, "method": method, "params": params });
        ask["params"]["_meta"]["progressToken"] = 1.into();
        let mut http = new.post(&modern(ask, "new")).await;
        let text = http.text().await;
        let json = text.lines().map(|line| line.trim_start_matches("data: "));
        let answer = json.filter_map(|line| serde_json::from_str::<Value>(line).ok()).next();
        let result = answer.unwrap_or_else(|| panic!("{text}"))["result"].clone();
        assert_eq!(
            (&result["ttlMs"], &result["cacheScope"]),
            (&json!(kept_ms), &json!("private")),
            "{method}"
        );
        if method == "server/discover" {
            continue;
        }
        let old = Client::new(world.addr, "/mcp/A").await;
        let mut ask = json!({ "jsonrpc": "2.0", "id": 3, "method": method, "params": {} });
        ask["params"] = params;
        let result = old.post(&ask).await.answer().await["result"].clone();
        assert!(result.get("ttlMs").is_none() && result.is_object(), "{method}: {result}");
    }
}
