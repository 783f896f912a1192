//! Mail while the broker is away: real programs, killed at any time.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    http::{Client, text},
    process::{Process, soon},
};

const SEND: &str = "filebox_send_message";
const LIST: &str = "filebox_list_messages";
const THREAD: &str = "filebox_thread";

async fn session(of: &Process, role: &str) -> Client {
    Client::new(of.mcp, &format!("/mcp/{role}")).await
}

async fn ask(client: &Client, tool: &str, arguments: Value) -> Value {
    let result = soon(client.call(tool, arguments)).await;
    assert_ne!(result["isError"], true, "{result}");
    result["structuredContent"].clone()
}

fn letter(to: &str, said: &str) -> Value {
    json!({ "receiver_id": to, "msg_type": "BR", "title": said, "content": said })
}

async fn outbox(of: &Process) -> Vec<Value> {
    of.json("outbox").await[0]["entries"].as_array().unwrap().clone()
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    soon(async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Its node has found the broker again.
async fn back(client: &Client) {
    let list = json!({ "box_type": "inbox" });
    until(async || {
        let listed = soon(client.call(LIST, list.clone())).await;
        listed["isError"] != true && listed["structuredContent"]["seen_ms_ago"].is_null()
    })
    .await;
}

/// Texts of a box's threads, as the subjects say them, in the order of their arrival.
async fn subjects(client: &Client, place: &str) -> Vec<String> {
    let listed = ask(client, LIST, json!({ "box_type": place })).await;
    let threads = listed["messages"].as_array().unwrap_or_else(|| panic!("{listed}"));
    threads.iter().map(|it| it["subject"].as_str().unwrap().to_owned()).collect()
}

/// Holds O1.
#[tokio::test]
async fn what_was_called_queued_arrives_once_and_in_order_whoever_was_killed() {
    let place = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&place.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let mut of_a = Process::node(&place.path().join("a"), address, "--role A").await;
    let of_b = Process::node(&place.path().join("b"), address, "--role B").await;
    // Both are known to the broker.
    let (a, b) = (session(&of_a, "A").await, session(&of_b, "B").await);
    ask(&a, SEND, letter("B", "zero")).await;
    broker.kill().await;
    let one = ask(&a, SEND, letter("B", "one")).await;
    assert_eq!((&one["queued"], &one["receipts"][0]["receipt"]), (&json!(1), &json!("queued")));
    let id = &one["message_id"];
    let more = json!({ "receiver_id": "B", "msg_type": "INFO", "title": "", "content": "one more",
        "original_message_id": id });
    assert_eq!(ask(&a, SEND, more).await["message_id"], *id);
    ask(&a, SEND, letter("ghost", "to nobody")).await;
    of_a.kill().await;
    assert_eq!(outbox(&of_a).await.len(), 3, "also while no node runs");
    of_a.start().await;
    let a = session(&of_a, "A").await;
    assert_eq!(ask(&a, SEND, letter("B", "two")).await["queued"], 4);
    of_a.kill().await;
    broker.start().await;
    of_a.start().await;
    until(async || outbox(&of_a).await.iter().all(|it| it["state"] == "failed")).await;
    back(&b).await;
    assert_eq!(subjects(&b, "inbox").await, ["zero", "one", "two"]);
    let thread = ask(&b, THREAD, json!({ "message_id": id })).await;
    let entries = thread["entries"].as_array().unwrap().iter();
    assert_eq!(entries.map(|it| &it["text"]).collect::<Vec<_>>(), ["one", "one more"]);

    // Nobody was told before the node was killed; then the agent is, once, with whatever it asks.
    of_a.kill().await;
    of_a.start().await;
    let a = session(&of_a, "A").await;
    let nothing = json!({ "box_type": "inbox", "filename": "beef" });
    let told = soon(a.call("filebox_read_message", nothing.clone())).await;
    let failed = &told["structuredContent"]["failed"][0];
    assert_eq!((&failed["queued"], &failed["reason"]), (&json!(3), &json!("unknown_role")));
    let said = told["content"].to_string();
    assert!(said.contains("BR to ghost") && said.contains("Send it again"), "{told}");
    until(async || outbox(&of_a).await[0]["failed"]["is_told"] == true).await;
    let again = soon(a.call("filebox_read_message", nothing)).await;
    assert!(again["structuredContent"].get("failed").is_none(), "{again}");
    // Whoever asks for it is told what became of it.
    let ghost = json!({ "message_id": failed["message_id"] });
    let asked = soon(a.call(THREAD, ghost)).await;
    assert!(text(&asked).contains("number 3 (BR to ghost"), "{asked}");

    let receipt = async || {
        let thread = ask(&a, THREAD, json!({ "message_id": id })).await;
        thread["entries"][0]["receipts"]["B"].clone()
    };
    let is_seen = async || receipt().await == "seen";
    until(is_seen).await;

    let status = &of_a.json("status").await[0]["outbox"];
    assert_eq!((&status["queued"], &status["failed"]), (&json!(0), &json!(1)));
    let failed = &outbox(&of_a).await[0];
    assert_eq!(
        (&failed["number"], &failed["failed"]["reason"]),
        (&json!(3), &json!("unknown_role"))
    );
    let retried = of_a.run("outbox retry 3").await;
    assert!(retried.status.success(), "{retried:?}");
    until(async || {
        let failed = &outbox(&of_a).await[0]["failed"];
        failed["is_told"] == false
    })
    .await;
    of_a.json("outbox drop 3").await;
    assert_eq!(outbox(&of_a).await, [] as [Value; 0]);
    let refused = of_a.run("outbox drop 3").await;
    let said: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(said["error"]["code"], "unknown_message", "{refused:?}");
}

#[tokio::test]
async fn letters_are_dropped_and_retried_where_no_node_runs() {
    let place = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&place.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let mut of_a = Process::node(&place.path().join("a"), address, "--role A --role B").await;
    let a = session(&of_a, "A").await;
    ask(&a, SEND, letter("B", "zero")).await;
    broker.kill().await;
    for said in ["one", "two"] {
        ask(&a, SEND, letter("B", said)).await;
    }
    of_a.kill().await;
    of_a.json("outbox drop 1").await;
    let told = of_a.run("outbox retry 2").await;
    assert!(!told.status.success(), "it has not failed: {told:?}");
    of_a.start().await;
    broker.start().await;
    until(async || outbox(&of_a).await.is_empty()).await;
    let b = session(&of_a, "B").await;
    assert_eq!(subjects(&b, "inbox").await, ["zero", "two"]);
    let told = soon(b.call(LIST, json!({ "box_type": "inbox" }))).await;
    assert!(!text(&told).contains("one"), "{told}");
}

/// What a person sends waits as what an agent sends does.
#[tokio::test]
async fn a_persons_letter_waits_in_the_node_here_while_the_broker_is_away() {
    let place = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&place.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let mut of_a = Process::node(&place.path().join("a"), address, "--role A").await;
    let of_b = Process::node(&place.path().join("b"), address, "--role B").await;
    let (a, b) = (session(&of_a, "A").await, session(&of_b, "B").await);
    back(&a).await;
    back(&b).await;
    let send = |more: &str| format!("mail send --role A --to B --subject {more}");
    of_a.json(&send("zero words")).await;
    broker.kill().await;

    let queued = of_a.json(&send("one words")).await.remove(0);
    assert_eq!(
        (&queued["queued"], &queued["receipts"][0]["receipt"]),
        (&json!(1), &json!("queued"))
    );
    // Under the same name it waits once.
    for _ in 0..2 {
        assert_eq!(of_a.json(&send("two --ref mine words")).await[0]["queued"], 2);
    }
    let output = of_a.run("status").await;
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &told["error"]["code"]), (Some(3), &json!("unavailable")));
    assert_eq!(told["outbox"]["queued"], 2, "{told}");
    let refused = async |of: &Process, line: &str| {
        let output = of.run(line).await;
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(3), "{said}");
        said
    };
    let file = place.path().join("log.txt");
    std::fs::write(&file, "a log").unwrap();
    let said = refused(&of_a, &send(&format!("x --attach {} words", file.display()))).await;
    assert!(said.contains("Nothing was sent: files do not wait in a node's outbox"), "{said}");
    let said = refused(&of_a, &send("x --workspace typo words")).await;
    assert!(said.contains("The node here keeps mail for workspace default of"), "{said}");
    assert!(said.contains("If you meant the node's, send with `--workspace default`."), "{said}");
    let name = format!("--ref {}", "x".repeat(2_000));
    let output = of_a.run(&send(&format!("x {name} words"))).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = refused(&of_a, "mail send --role C --to B words").await;
    assert!(said.contains("The node here does not host C"), "{said}");
    assert_eq!(outbox(&of_a).await.len(), 2);

    // Without a node nothing keeps it, and that is said.
    of_a.kill().await;
    let said = refused(&of_a, &send("three words")).await;
    let next = "Nothing was sent. A running node keeps mail until the broker is back: `tasuki node";
    let away = format!("No broker answers at http://{address}.");
    assert!(said.contains(&away) && said.contains(next), "{said}");
    assert!(said.contains(&format!("--broker http://{address} --role A --data")), "{said}");

    of_a.start().await;
    broker.start().await;
    // Though the broker is back, it goes past nothing that waits.
    of_a.json(&send("three words")).await;
    until(async || outbox(&of_a).await.is_empty()).await;
    back(&b).await;
    assert_eq!(subjects(&b, "inbox").await, ["zero", "one", "two", "three"]);
}

/// Its answer waits in the node, which is not yet through with it when the broker is back.
#[tokio::test]
async fn a_person_moves_nothing_past_a_letter_that_waits() {
    let place = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&place.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let of_a = Process::node(&place.path().join("a"), address, "--role A").await;
    let of_b = Process::node(&place.path().join("b"), address, "--role B").await;
    let (a, b) = (session(&of_a, "A").await, session(&of_b, "B").await);
    back(&a).await;
    back(&b).await;
    let asked = of_b.json("mail send --role B --to A --subject question words").await.remove(0);
    let id = asked["message_id"].as_str().unwrap();
    of_a.json(&format!("mail read --role A {id}")).await;
    broker.kill().await;
    ask(&a, SEND, letter("B", "one")).await;
    let node = i32::try_from(of_a.pid()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(node, Signal::STOP).unwrap();
    broker.start().await;
    for verb in ["resolve", "reject"] {
        let output = of_a.run(&format!("mail {verb} --role A {id}")).await;
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("Mail of A waits in the outbox of the node here"), "{said}");
        assert!(said.contains("Nothing was moved. Run it again once `tasuki outbox`"), "{said}");
    }
    kill_process(node, Signal::CONT).unwrap();
    until(async || outbox(&of_a).await.is_empty()).await;
    let moved = of_a.json(&format!("mail resolve --role A {id}")).await.remove(0);
    assert_eq!(moved["moved"][0]["refusal"], Value::Null, "{moved}");
    back(&b).await;
    assert_eq!(subjects(&b, "inbox").await, ["one"]);
}
