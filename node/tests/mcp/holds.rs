//! What calls that clients gave up teach of how long they wait.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tasuki_node::mcp::{Settings, bridge::Options};

use crate::{
    bridge::Agent,
    http::{Client, Http, call, initialize, modern, with_progress},
    sse::Sse,
    world::{Loop, Time, World, soon},
};

async fn world(time: &Time, file: &Path) -> World {
    let holds_file = Some(file.to_owned());
    let settings = Settings { holds_file, clock: time.clock(), ..Settings::default() };
    World::with("127.0.0.1:0", Loop::new(), settings).await
}

/// A place for the file, and the place of the file.
fn file() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("holds.json");
    (dir, file)
}

/// What the file says of the one client there is, once it says so.
async fn until_written(file: &Path, cut_ms: u64) -> Value {
    soon(async {
        loop {
            let written = std::fs::read(file).ok();
            let written: Option<Value> = written.and_then(|it| serde_json::from_slice(&it).ok());
            if let Some(written) = written.filter(|it| it["clients"][0]["cut_ms"] == cut_ms) {
                assert_eq!(written["clients"].as_array().unwrap().len(), 1, "{written}");
                return written["clients"][0].clone();
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

fn wait(id: u64) -> Value {
    call(id, "await_my_turn", json!({}))
}

fn cancel(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

/// A parked wait of goose, which waits for 300 s by itself.
enum Parked {
    /// In a session, to be cancelled.
    Session(Client, Http),
    /// In a session, whose stream breaks.
    Broken(Http),
    Stateless(Http),
    /// Without a session and without progress.
    Silent(Http),
    Sse(Sse),
    Stdio(Agent),
}

const KINDS: [&str; 6] = ["session", "broken", "stateless", "silent", "sse", "stdio"];

impl Parked {
    async fn new(world: &World, kind: &str) -> Self {
        let before = world.shared.0.borrow().holds.len();
        let it = match kind {
            "session" | "broken" => {
                let client = Client::of(world.addr, "/mcp/B", "goose").await;
                let http = client.post(&with_progress(wait(1))).await;
                if kind == "broken" { Self::Broken(http) } else { Self::Session(client, http) }
            }
            "stateless" | "silent" => {
                let client = Client::modern(world.addr, "/mcp/B", "await_my_turn");
                let call = modern(wait(1), "goose");
                if kind == "silent" {
                    Self::Silent(client.post(&call).await)
                } else {
                    Self::Stateless(client.post(&with_progress(call)).await)
                }
            }
            "sse" => {
                let it = Sse::of(world, "/sse/B", "goose").await;
                it.post(world, &wait(1)).await;
                Self::Sse(it)
            }
            "stdio" => {
                let url = format!("http://{}", world.addr);
                let role = Some("B".parse().unwrap());
                let mut it =
                    Agent::with(move || url.clone(), Options { role, ..Options::default() });
                it.say(&initialize("2025-06-18", "goose").to_string()).await;
                it.hear().await;
                it.say(&wait(1).to_string()).await;
                Self::Stdio(it)
            }
            other => panic!("{other}"),
        };
        world.shared.until("parked", |state| before < state.holds.len()).await;
        it
    }

    /// The client gives its wait up.
    async fn give_up(&mut self, world: &World) {
        match self {
            Self::Session(client, _) => {
                assert_eq!(client.post(&cancel(1)).await.status, 202);
            }
            Self::Broken(http) | Self::Stateless(http) | Self::Silent(http) => {
                *http = Http::connect(world.addr).await;
            }
            Self::Sse(it) => it.post(world, &cancel(1)).await,
            Self::Stdio(it) => it.say(&cancel(1).to_string()).await,
        }
    }
}

#[tokio::test]
async fn two_cuts_teach_how_long_a_client_waits_whatever_it_is_connected_by() {
    for kind in KINDS {
        let (_dir, file) = file();
        let time = Time::default();
        let world = world(&time, &file).await;
        for (secs, held, hold_ms) in [(100, 240.0, None), (104, 240.0, Some(80_000))] {
            let mut parked = Parked::new(&world, kind).await;
            assert_eq!(world.shared.0.borrow().holds.last(), Some(&held), "{kind}");
            time.pass(secs);
            parked.give_up(&world).await;
            let written = until_written(&file, secs * 1000).await;
            assert_eq!(written["name"], "goose");
            assert_eq!(written["version"], "9.9");
            assert_eq!(written.get("hold_ms").and_then(Value::as_u64), hold_ms, "{kind}");
        }
        Parked::new(&world, kind).await;
        assert_eq!(world.shared.0.borrow().holds.last(), Some(&80.0), "{kind}");
    }
}

#[tokio::test]
async fn what_was_learnt_outlives_the_node_and_a_broken_file_does_not_stop_it() {
    let (_dir, file) = file();
    let time = Time::default();
    let learnt = json!({ "clients": [
        { "name": "goose", "version": "9.9", "cut_ms": 100_000, "hold_ms": 80_000 } ] });
    for (content, hold) in [(learnt.to_string(), 80.0), ("{".to_owned(), 240.0)] {
        std::fs::write(&file, content).unwrap();
        let world = world(&time, &file).await;
        let mut parked = Parked::new(&world, "session").await;
        assert_eq!(world.shared.0.borrow().holds, [hold]);
        time.pass(50);
        parked.give_up(&world).await;
        until_written(&file, 50_000).await;
        world.stopped().await;
    }
}

#[tokio::test]
async fn an_end_that_says_nothing_of_patience_teaches_nothing() {
    let (_dir, file) = file();
    let time = Time::default();
    let world = world(&time, &file).await;
    // The agent's process ends; an answer comes; a person presses Esc at once; a newer wait
    // takes the place of this one; the role is given to another agent.
    let parked = Parked::new(&world, "stdio").await;
    time.pass(100);
    let Parked::Stdio(it) = parked else { panic!() };
    it.bridge.abort();
    world.shared.until("gone", |state| state.waiting == 0).await;

    let mut answered = Parked::new(&world, "sse").await;
    time.pass(100);
    world.shared.give_to("B", Default::default());
    let Parked::Sse(it) = &mut answered else { panic!() };
    assert_eq!(it.stream.answer().await["result"]["structuredContent"]["turn"], 2);
    world.shared.give_to("A", Default::default());

    let mut quick = Parked::new(&world, "session").await;
    time.pass(5);
    quick.give_up(&world).await;
    world.shared.until("gone", |state| state.waiting == 0).await;

    let mut older = Parked::new(&world, "session").await;
    time.pass(100);
    let newer = Parked::new(&world, "session").await;
    let Parked::Session(_, http) = &mut older else { panic!() };
    assert_eq!(http.answer().await["result"]["structuredContent"]["superseded"], true);
    drop(older);
    // Nor is it one when the node stops.
    let mut stopping = newer;
    time.pass(100);
    let Parked::Session(_, http) = &mut stopping else { panic!() };
    let (_, told) = tokio::join!(world.stopped(), http.answer());
    assert_eq!(told["result"]["structuredContent"]["still_waiting"], true);
    drop(stopping);
    assert!(!file.exists(), "{:?}", std::fs::read_to_string(&file));
}

#[tokio::test]
async fn a_configured_hold_is_kept_though_it_is_too_long() {
    let (_dir, file) = file();
    let time = Time::default();
    let world = world(&time, &file).await;
    for (secs, held) in [(100, 600.0), (101, 600.0), (102, 600.0)] {
        let client = Client::of(world.addr, "/mcp/B?hold=600", "goose").await;
        let before = world.shared.0.borrow().holds.len();
        let _http = client.post(&with_progress(wait(1))).await;
        let state = world.shared.until("parked", |state| before < state.holds.len()).await;
        assert_eq!(state.holds.last(), Some(&held));
        time.pass(secs);
        client.post(&cancel(1)).await;
        until_written(&file, secs * 1000).await;
    }
}

#[tokio::test]
async fn who_was_cut_off_gets_the_answer_at_its_next_call() {
    for kind in KINDS {
        let (_dir, file) = file();
        let time = Time::default();
        let world = world(&time, &file).await;
        let mut parked = Parked::new(&world, kind).await;
        time.pass(100);
        parked.give_up(&world).await;
        // From here on the server knows.
        until_written(&file, 100_000).await;
        // The wait of a broken session goes on, and its answer is written to nobody.
        world.shared.give_to("B", Default::default());
        world.shared.until("over", |state| state.waiting == 0).await;
        assert!(world.shared.0.borrow().handed.is_empty(), "{kind}");
        let told = match parked {
            Parked::Session(client, _) => client.post(&wait(2)).await.answer().await,
            Parked::Broken(_) => {
                let client = Client::of(world.addr, "/mcp/B", "goose").await;
                client.post(&wait(2)).await.answer().await
            }
            Parked::Stateless(_) | Parked::Silent(_) => {
                let client = Client::modern(world.addr, "/mcp/B", "await_my_turn");
                client.post(&modern(wait(2), "goose")).await.answer_or_body().await
            }
            Parked::Sse(mut it) => {
                it.post(&world, &wait(2)).await;
                it.stream.answer().await
            }
            Parked::Stdio(mut it) => {
                it.say(&wait(2).to_string()).await;
                it.hear().await
            }
        };
        assert_eq!(told["id"], 2, "{kind}");
        let turn = told["result"]["structuredContent"].clone();
        assert_eq!((&turn["can_start"], &turn["turn"]), (&json!(true), &json!(2)), "{kind}");
        world.shared.until("handed", |state| state.handed == [2]).await;
    }
}
