//! Boards through real programs: two machines share one, writers race, everything is there after a
//! kill.

use std::{pin::pin, process::Stdio};

use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{
    http::{self, Client, text},
    process::{Process, soon, tasuki},
};

async fn call(client: &Client, tool: &str, arguments: Value) -> Value {
    let told = soon(client.call(tool, arguments)).await;
    assert_eq!(told["isError"], false, "{told}");
    told["structuredContent"].clone()
}

async fn refused(client: &Client, tool: &str, arguments: Value) -> (String, String) {
    let told = soon(client.call(tool, arguments)).await;
    assert_eq!(told["isError"], true, "{told}");
    let code = told["structuredContent"]["error"]["code"].as_str().unwrap().to_owned();
    (code, text(&told).to_owned())
}

#[tokio::test]
async fn two_machines_share_a_board_that_outlives_a_kill() {
    let place = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&place.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let one = Process::node(&place.path().join("one"), address, "--role pm=board").await;
    let two = Process::node(&place.path().join("two"), address, "--role dev=board:full").await;
    let pm = Client::new(one.mcp, "/mcp/pm").await;
    let dev = Client::new(two.mcp, "/mcp/dev").await;
    assert_eq!(call(&pm, "board_read", json!({})).await["boards"], json!([]));
    let (code, why) = refused(&dev, "board_read", json!({ "board": "plan" })).await;
    assert_eq!(code, "unknown_board", "{why}");

    // Who waits for it is woken by its first checkpoint, and then by what it asks for alone.
    let asks =
        |after: u64| json!({ "board": "plan", "channels": "messages", "after_checkpoint": after });
    let waiting = http::call(1, "board_wait", asks(0));
    let mut woken = soon(dev.post(&waiting)).await;
    let phase = json!({ "board": "plan", "updates": { "current_phase": "plan" } });
    assert_eq!(call(&pm, "board_update", phase).await["checkpoint"], 1);
    let message = json!({ "board": "plan", "expected_checkpoint": 1,
        "updates": { "messages": [{ "role": "user", "content": "Rewrite it\u{202e}" }], "artifacts": "{\"a\":\"1\"}" } });
    let (code, why) = refused(&pm, "board_update", message.clone()).await;
    assert_eq!(code, "invalid_argument");
    assert!(why.contains("updates.artifacts takes an object"), "{why}");
    let mut message = message;
    message["updates"]["artifacts"] = json!({ "a": "1" });
    assert_eq!(call(&pm, "board_update", message.clone()).await["checkpoint"], 2);
    let told = soon(woken.event()).await.json();
    let told = &told["result"]["structuredContent"];
    assert_eq!(told["changed"], true, "{told}");
    assert_eq!((&told["checkpoint"], &told["channels"]), (&json!(2), &json!(["messages"])));
    let (code, why) = refused(&pm, "board_update", message).await;
    assert_eq!(code, "stale_checkpoint");
    assert!(why.contains("artifacts, messages changed"), "{why}");

    // Nothing is lost with the broker.
    broker.kill().await;
    broker.start().await;
    let read = call(&dev, "board_read", json!({ "board": "plan" })).await;
    assert_eq!((&read["checkpoint"], &read["by"]), (&json!(2), &json!("pm")));
    assert_eq!(
        read["values"]["messages"][0]["content"], "Rewrite it",
        "hidden characters are not shown"
    );
    assert_eq!(read["values"]["artifacts"], json!({ "a": "1" }));
    let before = call(&dev, "board_read", json!({ "board": "plan", "checkpoint": 1 })).await;
    assert_eq!(before["values"], json!({ "current_phase": "plan" }));
    assert_eq!(before["newest_checkpoint"], 2);

    // A fork goes its own way.
    let fork = json!({ "board": "plan", "checkpoint": 1, "to": "try" });
    assert_eq!(call(&dev, "board_fork", fork.clone()).await["board"], "try");
    assert_eq!(call(&dev, "board_fork", fork).await["repeated"], true);
    let update =
        json!({ "board": "try", "updates": { "current_phase": "code" }, "write_key": "k" });
    assert_eq!(call(&dev, "board_update", update.clone()).await["checkpoint"], 2);
    assert_eq!(call(&dev, "board_update", update).await["repeated"], true);
    let history = call(&dev, "board_history", json!({ "board": "try" })).await;
    assert_eq!(history["checkpoints"].as_array().map(Vec::len), Some(2), "{history}");
    let back = json!({ "board": "plan", "checkpoint": 1, "to": "plan" });
    assert_eq!(call(&dev, "board_fork", back).await["checkpoint"], 3);
    let newest = call(&pm, "board_read", json!({ "board": "plan" })).await;
    assert_eq!(newest["values"], json!({ "current_phase": "plan" }));
}

/// 50 writers of five roles, each with what it read: each update is there once, whoever is refused is
/// told what changed. A role may have fewer calls under way than there are writers.
#[tokio::test]
async fn writers_that_race_lose_nothing() {
    const WRITERS: usize = 50;
    const ROLES: [&str; 5] = ["pm", "dev", "qa", "arch", "ops"];
    let place = tempfile::tempdir().unwrap();
    let roles = ROLES.map(|role| format!("--role {role}=board")).join(" ");
    let up = Process::up(&place.path().join("up"), &roles).await;
    let pm = Client::new(up.mcp, "/mcp/pm").await;
    let first = json!({ "board": "race", "updates": { "retry_count": 0 } });
    call(&pm, "board_update", first).await;
    let write = async |number: usize| {
        let path = format!("/mcp/{}", ROLES[number % ROLES.len()]);
        let client = Client::new(up.mcp, &path).await;
        let mut refusals = 0;
        loop {
            let read = call(&client, "board_read", json!({ "board": "race" })).await;
            let count = read["values"]["retry_count"].as_u64().unwrap();
            let update = json!({ "board": "race", "expected_checkpoint": read["checkpoint"],
                "updates": { "retry_count": count + 1, "review_comments": [number.to_string()] } });
            let told = soon(client.call("board_update", update)).await;
            if told["isError"] != true {
                return refusals;
            }
            let error = &told["structuredContent"]["error"];
            assert_eq!(error["code"], "stale_checkpoint", "{told}");
            assert!(error["message"].as_str().unwrap().contains("retry_count"), "{told}");
            refusals += 1;
        }
    };
    let all = futures::future::join_all((0..WRITERS).map(write)).await;
    assert!(0 < all.iter().sum::<usize>(), "nobody raced");
    let read = call(&pm, "board_read", json!({ "board": "race" })).await;
    assert_eq!(read["values"]["retry_count"], WRITERS);
    let comments = read["values"]["review_comments"].as_array().unwrap();
    let mut comments: Vec<usize> =
        comments.iter().map(|it| it.as_str().unwrap().parse().unwrap()).collect();
    comments.sort_unstable();
    assert_eq!(comments, (0..WRITERS).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_person_reads_and_writes_boards() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::up(&place.path().join("up"), "--role pm").await;
    let schema = place.path().join("schema.json");
    let own = json!({ "properties": { "notes": { "reducer": "append", "items": { "type": "string" } },
        "phase": { "enum": ["a", "b"] } }, "additionalProperties": false });
    std::fs::write(&schema, own.to_string()).unwrap();
    let run = async |line: &str| {
        let mut command = tasuki(&up.data);
        command.args(line.split_whitespace()).arg("--data").arg(&up.data);
        let done = soon(command.output()).await.unwrap();
        let text = String::from_utf8(if done.status.success() { done.stdout } else { done.stderr });
        (done.status.code().unwrap(), text.unwrap())
    };
    let line =
        format!("board update own phase=a notes=[\"x\"] --schema {} --as pm", schema.display());
    assert_eq!(run(&line).await, (0, "Wrote checkpoint 1 of board own.\n".to_owned()));
    for (line, why) in [
        ("board update own phase=c --as pm", "updates.phase does not match the board's schema"),
        ("board update own notes=y --as pm", "updates.notes takes a list"),
        (
            "board update own notes=[1] --as pm",
            "updates.notes does not match the board's schema: /0",
        ),
        (
            "board update own note=[] --as pm",
            "has no channel note; channels: notes, phase (did you mean notes?)",
        ),
        ("board update own phase=a --schema any --as pm", "exists with the schema"),
        ("board update own phase=b --expect 7 --as pm", "has no checkpoint 7; the newest is 1"),
        ("board show nowhere", "there is no board nowhere in this workspace; boards: own"),
        ("board show own --checkpoint 9", "has no checkpoint 9; the newest is 1"),
    ] {
        let (code, said) = run(line).await;
        assert!(code != 0 && said.contains(why), "{line}: {said}");
    }
    assert_eq!(run("board update own phase=b notes=[\"y\"] --expect 1 --as pm").await.0, 0);
    let (_, shown) = run("board show own").await;
    assert!(shown.starts_with("own  checkpoint 2 by pm at "), "{shown}");
    assert!(shown.contains("\nnotes\n  [\n    \"x\",\n    \"y\"\n  ]\n\nphase\n  b\n"), "{shown}");
    let (_, diff) = run("board diff own 1").await;
    assert_eq!(diff, "own  1 → 2\n\nnotes\n-   \"x\"\n+   \"x\",\n+   \"y\"\n\nphase\n- a\n+ b\n");
    let (_, history) = run("board history own").await;
    assert_eq!(history.lines().count(), 2, "{history}");
    assert_eq!(run("board fork own other --as pm").await.1, "Wrote checkpoint 1 of board other.\n");
    let listed = up.json("board list").await;
    let names: Vec<_> = listed.iter().map(|it| it["board"].as_str().unwrap()).collect();
    assert_eq!(names, ["other", "own"]);
    assert_eq!(listed[0]["from_board"], "own");
    let pruned = "Forgot 1 checkpoints of board own; the oldest is 2.\n";
    assert_eq!(run("board prune own --keep 1 --by ann").await, (0, pruned.to_owned()));
    let (_, shown) = run("board show own").await;
    assert!(shown.contains("\nnotes\n  [\n    \"x\",\n    \"y\"\n  ]\n\nphase\n  b\n"), "{shown}");
    let (_, history) = run("board history own").await;
    assert!(history.lines().count() == 1 && !history.contains("continues"), "{history}");
    assert_eq!(run("board delete other --by ann").await.1, "Deleted board other.\n");
    assert_eq!(up.json("board list").await.len(), 1);
}

/// What is replaced, or removed, does not count for ever.
#[tokio::test]
async fn a_board_is_as_large_as_its_values_are() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::up(&place.path().join("up"), "--role pm=board").await;
    let pm = Client::new(up.mcp, "/mcp/pm").await;
    let file = "x".repeat(100_000);
    let update = json!({ "board": "b", "updates": { "artifacts": { "f": file } } });
    for number in 1..=14 {
        assert_eq!(call(&pm, "board_update", update.clone()).await["checkpoint"], number);
    }
    let other = json!({ "board": "b", "updates": { "artifacts": { "g": "y".repeat(1_000_000) } } });
    let (code, why) = refused(&pm, "board_update", other).await;
    assert_eq!(code, "too_large", "{why}");
    let asks = json!({ "board": "b", "channels": "artifacts" });
    let read = call(&pm, "board_read", asks).await;
    assert_eq!(read["values"]["artifacts"], json!({ "f": file }));
}

#[tokio::test]
async fn no_number_means_two_checkpoints_of_one_name() {
    let place = tempfile::tempdir().unwrap();
    let mut up = Process::up(&place.path().join("up"), "--role pm=board").await;
    let update = |phase: &str, expected: Option<u64>| json!({ "board": "b", "updates": { "current_phase": phase }, "expected_checkpoint": expected });
    let pm = Client::new(up.mcp, "/mcp/pm").await;
    assert_eq!(call(&pm, "board_update", update("plan", Some(0))).await["checkpoint"], 1);
    let (code, why) = refused(&pm, "board_update", update("code", Some(u64::MAX))).await;
    assert_eq!(code, "unknown_checkpoint", "{why}");
    up.json("board delete b --by ann").await;
    up.kill().await;
    up.start().await;
    let pm = Client::new(up.mcp, "/mcp/pm").await;
    let (code, why) = refused(&pm, "board_update", update("code", Some(1))).await;
    assert_eq!(code, "stale_checkpoint", "{why}");
    assert_eq!(call(&pm, "board_update", update("plan", None)).await["checkpoint"], 2);
    let (code, why) = refused(&pm, "board_update", update("code", Some(1))).await;
    assert_eq!(code, "stale_checkpoint", "{why}");
    assert_eq!(call(&pm, "board_update", update("code", Some(2))).await["checkpoint"], 3);
}

#[tokio::test]
async fn whoever_watches_a_board_sees_each_checkpoint() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::up(&place.path().join("up"), "--role pm=board").await;
    let pm = Client::new(up.mcp, "/mcp/pm").await;
    let mut watching = tasuki(&up.data);
    watching.args(["board", "watch", "b", "--json"]).arg("--data").arg(&up.data);
    let mut watching = watching.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = async || -> Value {
        let Some(line) = soon(lines.next_line()).await.unwrap() else {
            panic!("it ended: {:?}", soon(watching.wait()).await);
        };
        serde_json::from_str(&line).unwrap()
    };
    // It begins at some checkpoint, once it is connected.
    let write = async || {
        let update = json!({ "board": "b", "updates": { "current_phase": "plan" } });
        call(&pm, "board_update", update).await["checkpoint"].as_u64().unwrap()
    };
    let first = {
        let mut first = pin!(next());
        loop {
            write().await;
            if let Some(line) = first.as_mut().now_or_never() {
                break line;
            }
        }
    };
    assert_eq!(first["by_role"], "pm", "{first}");
    let last = write().await;
    for number in first["checkpoint"].as_u64().unwrap() + 1..=last {
        let line = next().await;
        assert_eq!(line["checkpoint"], number, "{line}");
        assert_eq!(
            (&line["channels"], &line["is_fork"]),
            (&json!(["current_phase"]), &json!(false))
        );
    }
}
