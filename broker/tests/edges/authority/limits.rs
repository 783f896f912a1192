//! What one token, or somebody without one, may use up of what all share.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use tasuki_broker::access::{
    CALLS_PER_TOKEN_MAX, HELD_PER_TOKEN_MAX, PAGES_PER_TOKEN_MAX, STREAMS_PER_TOKEN_MAX,
    WAITS_PER_TOKEN_MAX,
};
use tasuki_proto::{
    limits::PARTICIPANTS_MAX,
    token::Right,
    wire::{self, park_request::Ask, park_response::Outcome, waits_client::WaitsClient},
};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;

use super::named;
use crate::{
    guarded::Guarded,
    support::{caller, key, soon},
};

#[tokio::test]
async fn streams_of_a_token_are_bounded_and_anothers_are_not_touched() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let greedy = broker.token("w", &["A"], Right::ALL).await;
    let greedy = broker.bearer(Some(&greedy.expose()));
    let ask = || -> Bytes {
        let ask =
            wire::SubscribeRequest { caller: caller("w"), from_sequence: 0, ..Default::default() };
        ask.encode_to_vec().into()
    };
    let mut open = Vec::new();
    for _ in 0..STREAMS_PER_TOKEN_MAX {
        open.push(greedy.open("/tasuki.v1.Feed/Subscribe", ask()).await.unwrap());
    }
    let over = greedy.open("/tasuki.v1.Feed/Subscribe", ask()).await.unwrap_err();
    assert_eq!(named(&over), "overloaded");
    let other = broker.token("w", &["A"], Right::ALL).await;
    broker.bearer(Some(&other.expose())).open("/tasuki.v1.Feed/Subscribe", ask()).await.unwrap();

    drop(open);
    let again = async {
        while greedy.open("/tasuki.v1.Feed/Subscribe", ask()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    soon("places are given back", again).await;
}

#[tokio::test]
async fn waits_of_a_token_are_bounded_over_all_its_streams() {
    /// All but the first of a loop's participants have to wait.
    const WAITING: usize = PARTICIPANTS_MAX - 1;
    const LOOPS: usize = WAITS_PER_TOKEN_MAX / WAITING + 1;
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let token = broker.token("w", &["*"], Right::ALL).await;
    let bearer = broker.bearer(Some(&token.expose()));
    for i in 0..LOOPS {
        let create = wire::CreateLoopRequest {
            caller: caller("w"),
            key: key("c", i as u64 + 1),
            r#loop: format!("l{i}"),
            participants: (0..PARTICIPANTS_MAX).map(|role| format!("r{role}")).collect(),
            allow_new_roles: true,
        };
        bearer
            .unary("/tasuki.v1.TurnLoop/CreateLoop", create.encode_to_vec().into())
            .await
            .unwrap();
    }
    let (refused, mut refusals) = mpsc::channel(LOOPS * WAITING);
    let mut streams = Vec::new();
    for half in 0..2 {
        let mut waits = WaitsClient::new(broker.channel());
        let (asks, asked) = mpsc::channel(64);
        let refused = refused.clone();
        let request = bearer.show(Request::new(ReceiverStream::new(asked)));
        let reading = tokio::spawn(async move {
            let mut answers = waits.park(request).await.unwrap().into_inner();
            while let Ok(Some(answer)) = answers.message().await {
                let Some(Outcome::Refusal(it)) = answer.outcome else { panic!("{answer:?}") };
                refused.send(it.reason).await.unwrap();
            }
        });
        for i in (0..LOOPS).filter(|i| i % 2 == half) {
            for role in 1..PARTICIPANTS_MAX {
                let turn = wire::TurnQuestion {
                    caller: caller("w"),
                    r#loop: format!("l{i}"),
                    role: format!("r{role}"),
                    hold_ms: 1_000_000,
                };
                let wait = (i * PARTICIPANTS_MAX + role) as u64;
                asks.send(wire::ParkRequest { wait, ask: Some(Ask::Turn(turn)) }).await.unwrap();
            }
        }
        streams.push((asks, reading));
    }
    for _ in 0..LOOPS * WAITING - WAITS_PER_TOKEN_MAX {
        assert_eq!(soon("a refusal", refusals.recv()).await.unwrap(), "overloaded");
    }
    let ask = wire::ListRolesRequest { caller: caller("w"), ..Default::default() };
    let roles = bearer.unary("/tasuki.v1.Directory/ListRoles", ask.encode_to_vec().into()).await;
    let roles = wire::ListRolesResponse::decode(roles.unwrap()).unwrap().roles;
    assert_eq!(roles.iter().map(|it| it.waits.len()).sum::<usize>(), WAITS_PER_TOKEN_MAX);
    assert!(refusals.try_recv().is_err());
}

/// Calls whose message never comes: each holds its place.
/// Holds E2.
#[tokio::test]
async fn calls_and_large_reads_of_a_token_are_bounded_and_anothers_are_not_touched() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let other = broker.token("w", &["A"], Right::ALL).await;
    let other = broker.bearer(Some(&other.expose()));
    for (path, limit) in [
        ("/tasuki.v1.TurnLoop/GetLoop", CALLS_PER_TOKEN_MAX),
        ("/tasuki.v1.TurnLoop/History", PAGES_PER_TOKEN_MAX),
        ("/tasuki.v1.TurnLoop/AwaitTurn", HELD_PER_TOKEN_MAX),
    ] {
        let greedy = broker.token("w", &["A"], Right::ALL).await;
        let greedy = broker.bearer(Some(&greedy.expose()));
        let mut held = JoinSet::new();
        for _ in 0..limit {
            let greedy = greedy.clone();
            held.spawn(async move { greedy.begin(path).await });
        }
        let ask: Bytes = if path.ends_with("/AwaitTurn") {
            let (caller, role) = (caller("w"), "A".to_owned());
            wire::AwaitTurnRequest { caller, role, ..Default::default() }.encode_to_vec().into()
        } else {
            wire::GetLoopRequest { caller: caller("w"), ..Default::default() }
                .encode_to_vec()
                .into()
        };
        let refused = async {
            loop {
                match greedy.unary(path, ask.clone()).await {
                    Ok(_) => tokio::task::yield_now().await,
                    Err(status) => return named(&status),
                }
            }
        };
        assert_eq!(soon("all places are taken", refused).await, "overloaded", "{path}");
        other.unary(path, ask.clone()).await.unwrap();
        held.shutdown().await;
        let again = async {
            while greedy.unary(path, ask.clone()).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        soon("places are given back", again).await;
    }
}

/// Holds E3.
#[tokio::test]
async fn who_shows_no_good_token_is_answered_later_each_time_and_then_cut_and_others_are_not() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let token = broker.token("w", &["A"], Right::ALL).await;
    let stranger = broker.bearer(Some("garbage"));
    let mut took = Vec::new();
    for _ in 0..6 {
        let began = Instant::now();
        let refused = stranger.unary("/tasuki.v1.Access/WhoAmI", Bytes::new()).await.unwrap_err();
        assert_eq!(named(&refused), "unauthenticated");
        took.push(began.elapsed());
    }
    assert!(Duration::from_millis(800) < took[5] && took[0] < took[5], "{took:?}");
    let began = Instant::now();
    broker
        .bearer(Some(&token.expose()))
        .unary("/tasuki.v1.Access/WhoAmI", Bytes::new())
        .await
        .unwrap();
    assert!(began.elapsed() < took[5], "a good token is not slowed down");
}
