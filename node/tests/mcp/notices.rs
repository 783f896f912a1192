//! Whoever subscribes is told what changed, on each way there is to be told.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    bridge,
    http::{Client, Http, modern},
    sse::Sse,
    world::{Loop, World, soon},
};

const MAIN: &str = "tasuki://loop/main";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A session of Streamable HTTP, and its stream.
    Session,
    Sse,
    Stdio,
    /// `subscriptions/listen` over HTTP.
    Listen,
    /// The same over stdio.
    ListenStdio,
}

const EVERY_WAY: [Way; 5] = [Way::Session, Way::Sse, Way::Stdio, Way::Listen, Way::ListenStdio];

/// One that is told.
enum Told {
    Session(Client, Http),
    Sse(Sse),
    Stdio(bridge::Agent),
    Listen(Http),
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Asks to be told of changes of lists of resources and of these.
fn listen(id: u64, uris: &[&str]) -> Value {
    let filter = json!({ "resourcesListChanged": true, "resourceSubscriptions": uris });
    modern(request(id, "subscriptions/listen", json!({ "notifications": filter })), "modern")
}

async fn post(client: &Client, method: &str, message: &Value) -> Http {
    let mut client = client.clone();
    client.headers[1].1 = method.to_owned();
    client.headers.truncate(2);
    client.post(message).await
}

impl Told {
    /// Subscribed to `main` and to the list, and told so.
    async fn new(world: &World, way: Way) -> Self {
        match way {
            Way::Session => {
                let client = Client::new(world.addr, "/mcp/B").await;
                let mut stream = client.get(None).await;
                assert_eq!(stream.status, 200);
                for message in asks() {
                    let mut http = client.post(&message).await;
                    assert!(http.answer().await.get("result").is_some());
                }
                stream.status = 0;
                Self::Session(client, stream)
            }
            Way::Sse => {
                let mut it = Sse::new(world, "/sse/B").await;
                for message in asks() {
                    it.post(world, &message).await;
                    assert!(it.stream.answer().await.get("result").is_some());
                }
                Self::Sse(it)
            }
            Way::Stdio => {
                let mut it = bridge::Agent::new(world, Some("B"), None);
                it.begin().await;
                for message in asks() {
                    it.say(&message.to_string()).await;
                    assert!(it.hear().await.get("result").is_some());
                }
                Self::Stdio(it)
            }
            Way::Listen => {
                let client = Client::modern(world.addr, "/mcp/B", "");
                let mut http = post(&client, "subscriptions/listen", &listen(5, &[MAIN])).await;
                let told = http.event().await.json();
                assert_eq!(told["method"], "notifications/subscriptions/acknowledged", "{told}");
                Self::Listen(http)
            }
            Way::ListenStdio => {
                let mut it = bridge::Agent::new(world, Some("B"), None);
                it.say(&listen(5, &[MAIN]).to_string()).await;
                let told = it.hear().await;
                assert_eq!(told["method"], "notifications/subscriptions/acknowledged", "{told}");
                assert_eq!(subscription(&told), 5);
                Self::Stdio(it)
            }
        }
    }

    async fn next(&mut self) -> Value {
        match self {
            Self::Session(_, stream) | Self::Listen(stream) => stream.event().await.json(),
            Self::Sse(it) => it.stream.event().await.json(),
            Self::Stdio(it) => it.hear().await,
        }
    }

    async fn expect(&mut self, expected: &[&str]) {
        for expected in expected {
            let told = self.next().await;
            let uri = told["params"]["uri"].as_str().unwrap_or_default();
            let method = told["method"].as_str().unwrap();
            let method = method.strip_prefix("notifications/").unwrap();
            assert_eq!(format!("{method} {uri}").trim(), *expected, "{told}");
        }
    }
}

fn asks() -> [Value; 2] {
    let subscribe = request(1, "resources/subscribe", json!({ "uri": MAIN }));
    [subscribe, request(2, "resources/list", json!({}))]
}

fn subscription(told: &Value) -> &Value {
    &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
}

const UPDATED: &str = "resources/updated tasuki://loop/main";
const LIST: &str = "resources/list_changed";

/// Holds C5.
#[tokio::test]
async fn each_change_is_told_on_every_way() {
    let world = World::new().await;
    let mut told = Vec::new();
    for way in EVERY_WAY {
        told.push(Told::new(&world, way).await);
    }
    world.shared.followed_by(EVERY_WAY.len()).await;
    world.shared.give_to("B", Default::default());
    for it in &mut told {
        it.expect(&[UPDATED]).await;
    }
    world.shared.open("not-for-b", &["A"]);
    world.shared.open("side", &["A", "B"]);
    world.shared.give_to("A", Default::default());
    for it in &mut told {
        it.expect(&[LIST, UPDATED]).await;
    }
}

#[tokio::test]
async fn every_notification_of_a_listener_names_its_subscription() {
    let world = World::new().await;
    let mut it = Told::new(&world, Way::Listen).await;
    world.shared.followed_by(1).await;
    world.shared.open("side", &["B"]);
    assert_eq!(subscription(&it.next().await), 5);
    world.shared.give_to("B", Default::default());
    assert_eq!(subscription(&it.next().await), 5);
    world.shared.until("a sign of life", |state| state.connected == 1).await;
    drop(it);
    world.shared.until("gone", |state| state.connected == 0).await;
}

#[tokio::test]
async fn a_filter_is_cut_to_what_there_is() {
    let world = World::new().await;
    let client = Client::modern(world.addr, "/mcp/B", "");
    let many: Vec<String> = (0..80).map(|number| format!("tasuki://loop/l{number}")).collect();
    // No role here starts sub-agents.
    let run = "tasuki://run/run_1700000000000_00af";
    let mut uris = vec!["file:///etc/passwd", "tasuki://loop/a/b", run];
    uris.extend(many.iter().map(String::as_str));
    let mut ask = listen(5, &uris);
    ask["params"]["notifications"]["toolsListChanged"] = true.into();
    let mut http = post(&client, "subscriptions/listen", &ask).await;
    let told = http.event().await.json();
    let accepted = &told["params"]["notifications"];
    assert_eq!(accepted["toolsListChanged"], true);
    assert!(accepted.get("promptsListChanged").is_none());
    assert_eq!(accepted["resourceSubscriptions"], json!(many[..64]));
}

/// Holds C2.
#[tokio::test]
async fn subscriptions_of_a_connection_are_bounded() {
    let world = World::new().await;
    let client = Client::new(world.addr, "/mcp/B").await;
    for number in 0..=64 {
        let uri = format!("tasuki://loop/l{number}");
        let ask = request(number, "resources/subscribe", json!({ "uri": uri }));
        let answer = client.post(&ask).await.answer().await;
        match number {
            64 => assert!(answer["error"]["message"].to_string().contains("64 subscriptions")),
            _ => assert!(answer.get("result").is_some(), "{answer}"),
        }
    }
    let ask = request(99, "resources/subscribe", json!({ "uri": "file:///x" }));
    assert_eq!(client.post(&ask).await.answer().await["error"]["code"], -32002);
}

#[tokio::test]
async fn a_burst_is_a_few_notifications_and_its_end_is_told() {
    let world = World::new().await;
    let mut it = Told::new(&world, Way::Listen).await;
    world.shared.followed_by(1).await;
    const CHANGES: usize = 2_000;
    for number in 0..CHANGES {
        let holder = if number % 2 == 0 { "A" } else { "B" };
        world.shared.give_to(holder, Default::default());
    }
    it.expect(&[UPDATED]).await;
    // Whatever else the burst was worth comes before what is opened after it.
    world.shared.open("side", &["B"]);
    let mut count = 1;
    while it.next().await["method"] != "notifications/resources/list_changed" {
        count += 1;
    }
    assert!(count <= 20, "{count} notifications of {CHANGES} changes");
}

#[tokio::test]
async fn what_is_unsubscribed_from_is_not_told() {
    let world = World::new().await;
    let client = Client::new(world.addr, "/mcp/B").await;
    let mut stream = client.get(None).await;
    for uri in [MAIN, "tasuki://loop/side"] {
        let ask = request(1, "resources/subscribe", json!({ "uri": uri }));
        client.post(&ask).await.answer().await;
    }
    let leave = |uri| request(2, "resources/unsubscribe", json!({ "uri": uri }));
    client.post(&leave(MAIN)).await.answer().await;
    world.shared.give_to("B", Default::default());
    world.shared.open("side", &["B"]);
    let told = stream.event().await.json();
    assert_eq!(told["params"]["uri"], "tasuki://loop/side", "{told}");
    client.post(&leave("tasuki://loop/side")).await.answer().await;
    world.shared.followed_by(0).await;
}

#[tokio::test]
async fn one_that_does_not_read_holds_up_nobody() {
    let world = World::new().await;
    let stuck = Told::new(&world, Way::Listen).await;
    let stuck_too = Told::new(&world, Way::Sse).await;
    let mut reads = Told::new(&world, Way::Session).await;
    world.shared.followed_by(3).await;
    for turn in 0..6 {
        let holder = if turn % 2 == 0 { "A" } else { "B" };
        world.shared.give_to(holder, Default::default());
        reads.expect(&[UPDATED]).await;
    }
    drop((stuck, stuck_too));
    world.shared.followed_by(1).await;
}

#[tokio::test]
async fn what_changed_while_no_stream_was_open_is_told_on_the_next() {
    let world = World::new().await;
    let client = Client::new(world.addr, "/mcp/B").await;
    let ask = request(1, "resources/subscribe", json!({ "uri": MAIN }));
    client.post(&ask).await.answer().await;
    world.shared.give_to("B", Default::default());
    let mut stream = client.get(None).await;
    let told = stream.event().await.json();
    assert_eq!(told["params"]["uri"], MAIN);
    drop(stream);
    // Whether that arrived nobody knows; a stream that replaces one begins with it again.
    world.shared.until("gone", |state| state.connected == 0).await;
    let mut stream = client.get(None).await;
    let told = stream.event().await.json();
    assert_eq!(told["params"]["uri"], MAIN);
}

/// Holds C5.
#[tokio::test]
async fn a_feed_that_missed_something_is_told_as_a_change_of_everything() {
    let world = World::new().await;
    let mut told = Vec::new();
    for way in EVERY_WAY {
        told.push(Told::new(&world, way).await);
    }
    world.shared.followed_by(EVERY_WAY.len()).await;
    world.shared.1.end();
    world.shared.1.begin(false);
    for it in &mut told {
        it.expect(&[LIST, UPDATED]).await;
    }
}

#[tokio::test]
async fn a_stopping_node_ends_its_subscriptions_at_once() {
    let world = World::new().await;
    let mut it = Told::new(&world, Way::Listen).await;
    let Told::Listen(http) = &mut it else { panic!() };
    world.shared.followed_by(1).await;
    let shared = world.shared.clone();
    let stopping = tokio::spawn(world.stopped());
    let end = http.answer().await;
    assert_eq!(end["id"], 5, "{end}");
    assert!(end.get("result").is_some(), "{end}");
    assert!(soon(stopping).await.unwrap() < Duration::from_secs(3));
    shared.followed_by(0).await;
}

#[tokio::test]
async fn nothing_is_left_of_clients_that_vanish() {
    let shared = Loop::new();
    let world = World::start("127.0.0.1:0", shared.clone(), None).await;
    for _ in 0..3 {
        let mut told = Vec::new();
        for way in EVERY_WAY {
            told.push(Told::new(&world, way).await);
        }
        shared.followed_by(EVERY_WAY.len()).await;
        for it in told {
            if let Told::Session(client, _) = &it {
                // A session outlives its connections, until its client ends it.
                let mut http = Http::connect(world.addr).await;
                let id = [("Mcp-Session-Id", client.session.as_str())];
                http.send("DELETE /mcp/B", &id, b"").await;
                assert_eq!(http.status, 204);
            }
        }
        shared.followed_by(0).await;
    }
}

#[tokio::test]
async fn what_a_client_subscribed_to_is_told_by_the_next_node_too() {
    let dir = tempfile::tempdir().unwrap();
    let shared = Loop::new();
    let world = World::start("127.0.0.1:0", shared.clone(), Some(dir.path())).await;
    let addr = world.addr.to_string();
    let mut stdio = Told::new(&world, Way::Stdio).await;
    let Told::Session(client, _) = Told::new(&world, Way::Session).await else { panic!() };
    world.stopped().await;
    shared.followed_by(0).await;
    let _world = World::start(&addr, shared.clone(), Some(dir.path())).await;
    // What was told before may be lost, so all that was asked for may have changed.
    stdio.expect(&[LIST, UPDATED]).await;
    let stream = client.get(None).await;
    let mut session = Told::Session(client, stream);
    session.expect(&["tools/list_changed", "prompts/list_changed", LIST, UPDATED]).await;
    shared.followed_by(2).await;
    shared.give_to("B", Default::default());
    stdio.expect(&[UPDATED]).await;
    session.expect(&[UPDATED]).await;
    let Told::Session(client, _) = session else { panic!() };
    let remembered = || {
        let files = std::fs::read_dir(dir.path().join("B")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".loops")).count()
    };
    assert_eq!(remembered(), 1);
    let leave = request(9, "resources/unsubscribe", json!({ "uri": MAIN }));
    client.post(&leave).await.answer().await;
    assert_eq!(remembered(), 0);
}
