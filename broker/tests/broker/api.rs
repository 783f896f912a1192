//! Through gRPC, on a real sled.

use std::time::Duration;

use tasuki_proto::wire;
use tokio_stream::StreamExt as _;

use crate::support::{connect, reason, start};

#[tokio::test]
async fn a_turn_survives_the_broker_and_a_repeat_has_no_second_effect() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut a = connect(&broker, "client-a").await;

    let first = a.ask("A", 0).await;
    assert!(first.can_start && first.turn == 1 && first.latest.is_none());
    let request = a.handover("A", "s1");
    let handed = a.turns.hand_over(request.clone()).await.unwrap().into_inner();
    assert_eq!((handed.ended_turn, handed.turn, handed.to.as_str()), (1, 2, "B"));
    broker.stop().await.unwrap();

    let broker = start(data.path()).await;
    let mut a = connect(&broker, "client-a").await;
    let again = a.turns.hand_over(request.clone()).await.unwrap().into_inner();
    assert_eq!(again, handed, "the same key has the same answer, over a restart too");
    let reused = wire::HandOverRequest { summary: "other".to_owned(), ..request };
    assert_eq!(reason(&a.turns.hand_over(reused).await.unwrap_err()), "key_reused");
    a.counter = 1;
    let repeated = a.hand_over("A", "s1").await.unwrap();
    assert!(repeated.repeated && repeated.turn == 2, "a new call with the old intent");
    assert_eq!(reason(&a.hand_over("A", "s2").await.unwrap_err()), "not_your_turn");

    let told = a.ask("B", 0).await;
    let latest = told.latest.unwrap();
    assert_eq!((latest.from.as_str(), latest.summary.as_str()), ("A", "s1"));
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn a_wait_wakes_when_the_turn_comes_and_a_newer_one_supersedes_it() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut a = connect(&broker, "a").await;
    let mut b = connect(&broker, "b").await;

    let (asks, requests) = tokio::sync::mpsc::channel(8);
    let ask = |wait| wire::ParkRequest {
        wait,
        ask: Some(wire::park_request::Ask::Turn(wire::TurnQuestion {
            role: "B".to_owned(),
            hold_ms: 60_000,
            ..wire::TurnQuestion::default()
        })),
    };
    asks.send(ask(1)).await.unwrap();
    asks.send(ask(2)).await.unwrap();
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let mut answers = b.waits.park(requests).await.unwrap().into_inner();
    let turn = |answer: wire::ParkResponse| match answer.outcome.unwrap() {
        wire::park_response::Outcome::Turn(turn) => (answer.wait, turn),
        wire::park_response::Outcome::Mail(mail) => panic!("{mail:?}"),
        wire::park_response::Outcome::Swarm(swarm) => panic!("{swarm:?}"),
        wire::park_response::Outcome::Run(run) => panic!("{run:?}"),
        wire::park_response::Outcome::Board(board) => panic!("{board:?}"),
        wire::park_response::Outcome::Refusal(refusal) => panic!("{refusal:?}"),
    };
    let (wait, told) = turn(answers.next().await.unwrap().unwrap());
    assert!(wait == 1 && told.superseded && told.still_waiting);
    assert_eq!(a.state().await.r#loop.unwrap().waiting, ["B"]);

    a.hand_over("A", "over to you").await.unwrap();
    let (wait, told) = turn(answers.next().await.unwrap().unwrap());
    assert!(wait == 2 && told.can_start && told.turn == 2);
    assert_eq!(told.latest.unwrap().summary, "over to you");
    assert!(a.state().await.r#loop.unwrap().waiting.is_empty());
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn a_wait_whose_caller_is_gone_leaves_nothing_behind() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut a = connect(&broker, "a").await;
    let mut gone = connect(&broker, "gone").await;
    let waiting = tokio::spawn(async move { gone.ask("B", 600_000).await });
    until(&mut a, |waiting| waiting == ["B"]).await;
    waiting.abort();
    until(&mut a, <[String]>::is_empty).await;
    broker.stop().await.unwrap();
}

async fn until(client: &mut crate::support::Client, done: impl Fn(&[String]) -> bool) {
    let looking = async {
        while !done(&client.state().await.r#loop.unwrap().waiting) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking).await.unwrap();
}

#[tokio::test]
async fn bad_input_is_refused_by_name_and_the_next_good_call_works() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut a = connect(&broker, "a").await;

    let long = "x".repeat(256 * 1024 + 1);
    let table: [(wire::HandOverRequest, &str); 8] = [
        (a.handover("C", "s"), "unknown_role"),
        (a.handover("no such id", "s"), "invalid_argument"),
        (a.handover("A", ""), "invalid_argument"),
        (a.handover("A", &long), "too_large"),
        (
            wire::HandOverRequest { instruction: "  ".to_owned(), ..a.handover("A", "s") },
            "invalid_argument",
        ),
        (
            wire::HandOverRequest { r#loop: "none".to_owned(), ..a.handover("A", "s") },
            "unknown_loop",
        ),
        (wire::HandOverRequest { turn: 9, ..a.handover("A", "s") }, "invalid_argument"),
        (wire::HandOverRequest { key: None, ..a.handover("A", "s") }, "invalid_argument"),
    ];
    for (request, expected) in table {
        let refused = a.turns.hand_over(request).await.unwrap_err();
        assert_eq!(reason(&refused), expected, "{}", refused.message());
    }
    let full = "y".repeat(256 * 1024);
    a.hand_over("A", &full).await.unwrap();
    assert_eq!(a.ask("B", 0).await.latest.unwrap().summary, full, "whole, never cut");
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn history_and_feed_tell_the_whole_story() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut a = connect(&broker, "a").await;
    let subscribe = wire::SubscribeRequest { from_sequence: 1, caller: None, ..Default::default() };
    let mut feed = a.feed.subscribe(subscribe).await.unwrap().into_inner();
    for turn in 1..=5 {
        let role = if turn % 2 == 1 { "A" } else { "B" };
        a.hand_over(role, &format!("did {turn}")).await.unwrap();
    }
    for sequence in 1..=5 {
        assert_eq!(feed.next().await.unwrap().unwrap().sequence, sequence);
    }
    let request = wire::HistoryRequest { limit: 2, from: 2, ..wire::HistoryRequest::default() };
    let page = a.turns.history(request).await.unwrap().into_inner();
    let told: Vec<_> = page.entries.iter().map(|e| (e.number, e.summary.as_str())).collect();
    assert_eq!((told, page.next), (vec![(2, "did 2"), (3, "did 3")], 4));
    let receipts = page.entries[0].receipts.unwrap();
    assert!(receipts.stored_ms <= receipts.acted_ms && receipts.acted_ms != 0);

    let reclaim = wire::ReclaimRequest {
        key: a.key(),
        person: "ann".to_owned(),
        to: "A".to_owned(),
        reason: "B went home".to_owned(),
        ..wire::ReclaimRequest::default()
    };
    let taken = a.turns.reclaim(reclaim).await.unwrap().into_inner();
    assert_eq!((taken.from.as_str(), taken.turn), ("B", 7));
    let told = a.ask("A", 0).await;
    assert_eq!(told.latest.unwrap().summary, "did 5", "who takes over works from the same words");
    assert_eq!(told.reclaim.unwrap().reason, "B went home");
    assert_eq!(reason(&a.hand_over("B", "late").await.unwrap_err()), "stale_token");
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn a_second_broker_on_the_same_directory_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let settings = tasuki_broker::server::Settings::new(
        data.path().to_owned(),
        "127.0.0.1:0".parse().unwrap(),
    );
    let error = tasuki_broker::server::Broker::start(settings).await.unwrap_err();
    assert!(error.to_string().contains("in use by another broker"), "{error}");
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn roles_are_hosted_by_one_node_and_an_old_epoch_is_fenced() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut client = connect(&broker, "a").await;
    let register =
        |node: &str, take_over: bool, client: &mut crate::support::Client| wire::RegisterRequest {
            key: client.key(),
            node: node.to_owned(),
            roles: vec![wire::RoleSpec { role: "A".to_owned(), ..Default::default() }],
            take_over,
            ..wire::RegisterRequest::default()
        };
    let request = register("n1", false, &mut client);
    let first = client.directory.register(request).await.unwrap().into_inner();
    assert_eq!(first.epoch, 1);
    let request = register("n2", false, &mut client);
    let refused = client.directory.register(request).await.unwrap_err();
    assert_eq!(reason(&refused), "role_in_use");
    let request = register("n2", true, &mut client);
    client.directory.register(request).await.unwrap();

    let as_node = |node: &str, epoch| {
        Some(wire::Caller { workspace: String::new(), node: node.to_owned(), epoch })
    };
    let taken = wire::HandOverRequest { caller: as_node("n1", 1), ..client.handover("A", "s") };
    assert_eq!(reason(&client.turns.hand_over(taken).await.unwrap_err()), "role_forbidden");
    let request = register("n1", true, &mut client);
    assert_eq!(client.directory.register(request).await.unwrap().into_inner().epoch, 2);
    let fenced = wire::HandOverRequest { caller: as_node("n1", 1), ..client.handover("A", "s") };
    assert_eq!(reason(&client.turns.hand_over(fenced).await.unwrap_err()), "stale_epoch");
    let good = wire::HandOverRequest { caller: as_node("n1", 2), ..client.handover("A", "s") };
    client.turns.hand_over(good).await.unwrap();
    broker.stop().await.unwrap();
}
