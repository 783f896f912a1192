//! Store and forward where it is hardest: many letters, kills while they are kept and while they
//! go out, letters that were to be seen by a time, a full outbox.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tasuki_node::outbox::{self, Entry, What};
use tasuki_proto::{mail::MessageId, wire};

use crate::{
    agents::{Agent, Transport},
    book::Book,
    crash::accepted,
    http::{Client, Http, text},
    process::{Process, soon},
};

const SEND: &str = "filebox_send_message";

/// Of each of two nodes.
const LETTERS: usize = 100;

pub(crate) async fn status(of: &Process) -> Value {
    let mut http = Http::connect(of.mcp).await;
    http.send("GET /status", &[], b"").await;
    serde_json::from_str(&http.text().await).unwrap()
}

/// How many letters wait at a node.
pub(crate) async fn queued(of: &Process) -> u64 {
    status(of).await["outbox"]["queued"].as_u64().unwrap()
}

/// What is in a node's outbox.
pub(crate) async fn outbox(of: &Process) -> Vec<Value> {
    of.json("outbox").await[0]["entries"].as_array().unwrap().clone()
}

async fn session(of: &Process, role: &str) -> Client {
    Client::new(of.mcp, &format!("/mcp/{role}")).await
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    soon(async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Until the broker is there again for this node.
pub(crate) async fn back(of: &Process) {
    until(async || status(of).await["broker"]["state"] == "connected").await;
}

async fn ask(client: &Client, arguments: Value) -> Value {
    let result = soon(client.call(SEND, arguments)).await;
    assert_ne!(result["isError"], true, "{result}");
    result["structuredContent"].clone()
}

async fn refused(client: &Client, arguments: Value) -> (String, String) {
    let result = soon(client.call(SEND, arguments)).await;
    let code = result["structuredContent"]["error"]["code"].as_str();
    (code.unwrap_or_else(|| panic!("{result}")).to_owned(), text(&result).to_owned())
}

fn letter(said: &str) -> Value {
    json!({ "receiver_id": "C", "msg_type": "BR", "title": said, "content": said })
}

/// Sends a role's letters, each until it is told what became of it; gives the threads.
async fn send_all(mut agent: Agent, tell: tokio::sync::mpsc::Sender<usize>) -> Vec<String> {
    let mut threads = Vec::new();
    for number in 0..LETTERS {
        let letter = letter(&format!("{} {number}", agent.role));
        let done = loop {
            match accepted(agent.call(SEND, letter.clone()).await) {
                Ok(done) => break done,
                Err(why) => assert!(!why.is_refusal, "{why}"),
            }
            tokio::task::yield_now().await;
        };
        assert!(done["queued"].is_number(), "{done}");
        threads.push(done["message_id"].as_str().unwrap().to_owned());
        tell.send(number).await.ok();
    }
    threads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_letters_outlive_kills_of_whoever_keeps_or_takes_them() {
    let place = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&place.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let mut of_a = Process::node(&place.path().join("a"), address, "--role A").await;
    let of_b = Process::node(&place.path().join("b"), address, "--role B --role C").await;
    for node in [&of_a, &of_b] {
        back(node).await;
    }
    broker.kill().await;
    // B's agent has its node all the time, A's loses it in the middle.
    let a = Agent::new(Transport::Session, "A", of_a.mcp, of_a.data.clone()).await;
    let b = Agent::new(Transport::Stdio, "B", of_b.mcp, of_b.data.clone()).await;
    let (tell_a, mut told) = tokio::sync::mpsc::channel(LETTERS);
    let (tell_b, _of_b) = tokio::sync::mpsc::channel(LETTERS);
    let writing = tokio::spawn(send_all(a, tell_a));
    let writing_too = tokio::spawn(send_all(b, tell_b));
    while soon(told.recv()).await.unwrap() < LETTERS / 2 {}
    of_a.kill().await;
    of_a.start().await;
    let threads = [soon(writing).await.unwrap(), soon(writing_too).await.unwrap()];
    let kept = [queued(&of_a).await, queued(&of_b).await];
    assert_eq!(kept, [LETTERS as u64; 2], "what is said again while it waits is one letter");

    // It is killed when some have gone out, and again when more have.
    for left in [160, 80] {
        broker.start().await;
        until(async || queued(&of_a).await + queued(&of_b).await <= left).await;
        broker.kill().await;
    }
    broker.start().await;
    until(async || queued(&of_a).await + queued(&of_b).await == 0).await;
    let book = Book::open(address).await;
    let inbox = book.listed("C", wire::Box::Inbox).await;
    for (role, threads) in ["A", "B"].into_iter().zip(threads) {
        let of_role = inbox.iter().filter(|it| it.original_sender == role);
        let arrived: Vec<_> = of_role.map(|it| (&it.subject, &it.message_id)).collect();
        let subjects: Vec<_> = (0..LETTERS).map(|number| format!("{role} {number}")).collect();
        let said: Vec<_> = subjects.iter().zip(&threads).collect();
        assert_eq!(arrived, said);
    }
    for node in [&of_a, &of_b] {
        assert_eq!(outbox(node).await, [] as [Value; 0]);
    }
}

/// The time a letter has is counted from when it was said.
#[tokio::test]
async fn a_letter_that_waited_for_too_long_is_not_sent() {
    let place = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&place.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let node = Process::node(&place.path().join("a"), address, "--role A --role C").await;
    back(&node).await;
    broker.kill().await;
    let a = session(&node, "A").await;
    let until_seen = |said: &str, secs: f64| {
        let mut letter = letter(said);
        letter["expires_sec"] = json!(secs);
        letter
    };
    ask(&a, until_seen("too late", 0.2)).await;
    let hour = ask(&a, until_seen("in time", 3600.0)).await;
    ask(&a, letter("whenever")).await;
    // Its time is over before the broker is there.
    let said = tokio::time::Instant::now();
    until(async || 200 < said.elapsed().as_millis()).await;
    broker.start().await;
    until(async || queued(&node).await == 0).await;
    let book = Book::open(address).await;
    let inbox = book.listed("C", wire::Box::Inbox).await;
    let subjects: Vec<_> = inbox.iter().map(|it| it.subject.as_str()).collect();
    assert_eq!(subjects, ["in time", "whenever"]);
    let entry = book.read("C", hour["message_id"].as_str().unwrap()).await.remove(0);
    let has_ms = entry.expires_ms - entry.at_ms;
    assert!((3_000_000..3_599_800).contains(&has_ms), "it is not given another hour: {has_ms}");
    // Its sender is told, once.
    let list = json!({ "box_type": "outbox" });
    let told = soon(a.call("filebox_list_messages", list.clone())).await;
    let failed = told["structuredContent"]["failed"].as_array().unwrap();
    assert_eq!((failed.len(), &failed[0]["reason"]), (1, &json!("lapsed")), "{told}");
    let words = failed[0]["message"].as_str().unwrap();
    assert!(words.contains("was not sent"), "{words}");
    until(async || outbox(&node).await[0]["failed"]["is_told"] == true).await;
}

fn entry(number: u64, text: &str) -> Entry {
    let request = wire::SendRequest {
        role: "A".to_owned(),
        to: vec!["C".to_owned()],
        r#type: "INFO".to_owned(),
        subject: format!("number {number}"),
        text: text.to_owned(),
        message_id: MessageId::from_bits(number.into()).to_string(),
        ..wire::SendRequest::default()
    };
    Entry {
        number,
        workspace: "default".parse().unwrap(),
        role: "A".parse().unwrap(),
        key: tasuki_proto::id::IdempotencyKey {
            client: "mail-0".parse().unwrap(),
            counter: number,
        },
        may_have_reached: false,
        queued_ms: 1,
        tried_ms: None,
        what: What::Send(Box::new(request)),
        failed: None,
    }
}

/// A node whose broker is away and whose outbox has these letters.
async fn with_letters(place: &std::path::Path, count: u64, text: &str) -> Process {
    let kept = place.join("a/outbox");
    std::fs::create_dir_all(&kept).unwrap();
    for number in 1..=count {
        let file = kept.join(format!("{number:020}.entry"));
        std::fs::write(file, entry(number, text).encode()).unwrap();
    }
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    Process::node(&place.join("a"), nowhere, "--role A --role C").await
}

#[tokio::test]
async fn a_full_outbox_refuses_in_words_and_keeps_what_it_has() {
    let place = tempfile::tempdir().unwrap();
    let most = outbox::ENTRIES_MAX as u64;
    let node = with_letters(place.path(), most - 1, "x").await;
    let a = session(&node, "A").await;
    assert_eq!(ask(&a, letter("the last")).await["queued"], most);
    let (code, words) = refused(&a, letter("one more")).await;
    assert_eq!(code, "overloaded");
    assert!(words.contains("No change was made") && words.contains("4096"), "{words}");
    let numbers: BTreeSet<u64> =
        outbox(&node).await.iter().map(|it| it["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=most).collect());
    node.json("outbox drop 1").await;
    ask(&a, letter("one more")).await;
    assert_eq!(queued(&node).await, most);
}

#[tokio::test]
async fn an_outbox_that_is_full_of_bytes_refuses_in_words_and_keeps_what_it_has() {
    let place = tempfile::tempdir().unwrap();
    let long = "x".repeat(256 * 1024);
    let size = entry(1, &long).encode().len() as u64;
    let fit = outbox::BYTES_MAX / size;
    let node = with_letters(place.path(), fit, &long).await;
    let a = session(&node, "A").await;
    let mut letter = letter("one more");
    letter["content"] = long.into();
    let (code, words) = refused(&a, letter.clone()).await;
    assert_eq!(code, "overloaded");
    assert!(words.contains("No change was made") && words.contains("bytes"), "{words}");
    assert_eq!(queued(&node).await, fit);
    node.json("outbox drop 7").await;
    ask(&a, letter).await;
    assert_eq!(queued(&node).await, fit);
}
