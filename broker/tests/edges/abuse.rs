//! Callers that break the rules of the wire, ask too much, or do not listen.

use std::collections::BTreeMap;

use tasuki_proto::{
    limits::{PARTICIPANTS_MAX, WAITS_PER_STREAM_MAX},
    wire::{
        self, feed_client::FeedClient, park_request::Ask, park_response::Outcome,
        waits_client::WaitsClient,
    },
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, client::Grpc, codegen::http::uri::PathAndQuery, transport::Endpoint};
use tonic_prost::ProstCodec;

use crate::support::{Player, Process, caller, channel, history, key, reason, soon, turns};

/// How much more memory the broker may take for a refused message, in KiB.
const REFUSAL_KIB_MAX: u64 = 32 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_100_mib_is_refused_without_taking_it_in() {
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let mut turns = turns(address);
    turns.get_loop(wire::GetLoopRequest::default()).await.unwrap();
    let before = broker.memory_kib("VmHWM");
    let request = wire::HandOverRequest {
        key: key("a", 1),
        role: "A".to_owned(),
        summary: "x".repeat(100 * 1024 * 1024),
        instruction: "i".to_owned(),
        ..wire::HandOverRequest::default()
    };
    let refused = soon("a refusal", turns.hand_over(request)).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused:?}");
    let more = broker.memory_kib("VmHWM") - before;
    assert!(more < REFUSAL_KIB_MAX, "it took {more} KiB more");
    turns.get_loop(wire::GetLoopRequest::default()).await.unwrap();
    broker.kill().await;
}

/// `GetLoopRequest` as somebody sends it who does not know that names are text.
#[derive(Clone, PartialEq, prost::Message)]
struct RawLoopRequest {
    #[prost(bytes = "vec", tag = "2")]
    name: Vec<u8>,
}

#[tokio::test]
async fn broken_text_and_unknown_calls_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let table = [
        ("/tasuki.v1.TurnLoop/GetLoop", Code::Internal),
        ("/tasuki.v1.TurnLoop/Nope", Code::Unimplemented),
        ("/nope.Nope/GetLoop", Code::Unimplemented),
        ("/", Code::Unimplemented),
    ];
    for (path, expected) in table {
        let mut grpc = Grpc::new(channel(address));
        grpc.ready().await.unwrap();
        let request = Request::new(RawLoopRequest { name: b"main\xff\xfe".to_vec() });
        let codec = ProstCodec::<RawLoopRequest, wire::GetLoopResponse>::default();
        let called = grpc.unary(request, PathAndQuery::from_static(path), codec);
        let refused = soon("a refusal", called).await.unwrap_err();
        assert_eq!(refused.code(), expected, "{path}: {refused:?}");
    }
    turns(address).get_loop(wire::GetLoopRequest::default()).await.unwrap();
    broker.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_wait_too_many_is_refused_and_the_others_stay() {
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let mut turns = turns(address);
    let roles: Vec<String> = (0..PARTICIPANTS_MAX).map(|it| format!("R{it}")).collect();
    // All but the holder wait.
    let loops = WAITS_PER_STREAM_MAX / (PARTICIPANTS_MAX - 1) + 1;
    let mut questions = Vec::new();
    for number in 0..loops {
        let request = wire::CreateLoopRequest {
            key: key("a", number as u64 + 1),
            r#loop: format!("loop-{number}"),
            participants: roles.clone(),
            allow_new_roles: true,
            ..wire::CreateLoopRequest::default()
        };
        turns.create_loop(request).await.unwrap();
        questions.extend(roles[1..].iter().map(|role| wire::TurnQuestion {
            r#loop: format!("loop-{number}"),
            role: role.clone(),
            hold_ms: 600_000,
            ..wire::TurnQuestion::default()
        }));
    }
    let (asks, requests) = mpsc::channel(64);
    let mut waits = WaitsClient::new(channel(address));
    let mut answers = waits.park(ReceiverStream::new(requests)).await.unwrap().into_inner();
    for (wait, question) in (0..).zip(questions).take(WAITS_PER_STREAM_MAX + 1) {
        let ask = Some(Ask::Turn(question));
        asks.send(wire::ParkRequest { wait, ask }).await.unwrap();
    }
    let extra = soon("a refusal", answers.message()).await.unwrap().unwrap();
    assert_eq!(extra.wait, WAITS_PER_STREAM_MAX as u64);
    match extra.outcome.unwrap() {
        Outcome::Mail(mail) => panic!("{mail:?}"),
        Outcome::Swarm(other) => panic!("{other:?}"),
        Outcome::Board(other) => panic!("{other:?}"),
        Outcome::Run(other) => panic!("{other:?}"),
        Outcome::Refusal(refusal) => assert_eq!(refusal.reason, "overloaded"),
        Outcome::Turn(turn) => panic!("{turn:?}"),
    }
    let request = wire::HandOverRequest {
        key: key("a", loops as u64 + 1),
        r#loop: "loop-0".to_owned(),
        role: "R0".to_owned(),
        summary: "s".to_owned(),
        instruction: "i".to_owned(),
        ..wire::HandOverRequest::default()
    };
    turns.hand_over(request).await.unwrap();
    let woken = soon("the next role wakes", answers.message()).await.unwrap().unwrap();
    assert_eq!(woken.wait, 0);
    assert!(matches!(woken.outcome, Some(Outcome::Turn(turn)) if turn.can_start));
    broker.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_that_never_reads_slows_nobody() {
    const HANDOVERS: u64 = 3000;
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let subscribe = wire::SubscribeRequest {
        from_sequence: 1,
        caller: caller("default"),
        ..Default::default()
    };
    let mut deaf = FeedClient::new(channel(address)).subscribe(subscribe.clone()).await.unwrap();
    let mut feed = FeedClient::new(channel(address)).subscribe(subscribe).await.unwrap();
    let before = broker.memory_kib("VmRSS");
    let mut playing = JoinSet::new();
    for number in 0..6 {
        playing.spawn(async move {
            let mut turns = turns(address);
            let mut player = Player::new("default", &format!("loop-{number}"));
            player.create(channel(address)).await.unwrap();
            while player.acknowledged < HANDOVERS / 6 {
                player.play(&mut turns).await.unwrap();
            }
        });
    }
    for sequence in 1..=HANDOVERS + 6 {
        let item = soon("an item", feed.get_mut().message()).await.unwrap().unwrap();
        assert_eq!(item.sequence, sequence);
    }
    while let Some(played) = soon("all are done", playing.join_next()).await {
        played.unwrap();
    }
    let more = broker.memory_kib("VmRSS").saturating_sub(before);
    assert!(more < 128 * 1024, "{more} KiB more for one that does not read");
    // Once it reads it gets what it missed, in order.
    for sequence in 1..=HANDOVERS + 6 {
        let item = soon("an item", deaf.get_mut().message()).await.unwrap().unwrap();
        assert_eq!(item.sequence, sequence);
    }
    broker.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_that_is_stuck_is_cut_off_and_goes_on_without_a_gap() {
    const HANDOVERS: u64 = 600;
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let from = |from_sequence| wire::SubscribeRequest {
        from_sequence,
        caller: caller("default"),
        ..Default::default()
    };
    // It takes in next to nothing, so what it does not read stays at the broker.
    let narrow = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let narrow = narrow.initial_stream_window_size(Some(1024)).connect_lazy();
    let mut stuck = FeedClient::new(narrow).subscribe(from(1)).await.unwrap().into_inner();
    let mut feed = FeedClient::new(channel(address)).subscribe(from(1)).await.unwrap();
    let mut turns = turns(address);
    let mut player = Player::new("default", "loop");
    player.create(channel(address)).await.unwrap();
    for sequence in 1..=HANDOVERS {
        let item = soon("an item", feed.get_mut().message()).await.unwrap().unwrap();
        assert_eq!(item.sequence, sequence);
        player.play(&mut turns).await.unwrap();
    }
    let is_cut = async {
        while !broker.log().contains("does not read and is cut off") {
            player.play(&mut turns).await.unwrap();
        }
    };
    soon("it is cut off", is_cut).await;
    let mut next = 1;
    let lagged = loop {
        match soon("an item", stuck.message()).await {
            Ok(item) => assert_eq!(item.expect("a word at the end").sequence, next),
            Err(status) => break status,
        }
        next += 1;
    };
    assert_eq!(reason(&lagged), "lagged", "{lagged:?}");
    assert!((2..HANDOVERS).contains(&next), "{next}: bounded");
    let resumed = FeedClient::new(channel(address)).subscribe(from(next)).await.unwrap();
    let mut resumed = resumed.into_inner();
    for sequence in next..=player.acknowledged + 1 {
        let item = soon("an item", resumed.message()).await.unwrap().unwrap();
        assert_eq!(item.sequence, sequence);
    }
    broker.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_race_for_one_handover_are_told_the_same_story() {
    const TURNS: u64 = 60;
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let mut won = BTreeMap::new();
    for turn in 1..=TURNS {
        let mut race = JoinSet::new();
        // Every third race is one of the same words.
        let is_same = turn % 3 == 0;
        for runner in ["x", "y"] {
            let summary = if is_same { format!("{turn}") } else { format!("{turn} {runner}") };
            let request = wire::HandOverRequest {
                key: key(runner, turn),
                role: Player::role(turn).to_owned(),
                summary,
                instruction: "i".to_owned(),
                turn,
                ..wire::HandOverRequest::default()
            };
            race.spawn(async move {
                let summary = request.summary.clone();
                (turns(address).hand_over(request).await, summary)
            });
        }
        let mut told = Vec::new();
        while let Some(ran) = soon("an answer", race.join_next()).await {
            match ran.unwrap() {
                (Ok(handed), summary) => {
                    let handed = handed.into_inner();
                    assert_eq!((handed.ended_turn, handed.turn), (turn, turn + 1));
                    told.push(handed.repeated);
                    won.insert(turn, summary);
                }
                (Err(status), _) => assert_eq!(reason(&status), "stale_token", "{status:?}"),
            }
        }
        told.sort_unstable();
        let expected: &[bool] = if is_same { &[false, true] } else { &[false] };
        assert_eq!(told, expected, "turn {turn}");
    }
    let main = (String::new(), "main".to_owned());
    let entries = history(&mut turns(address), &main).await.unwrap();
    assert_eq!(entries.len() as u64, TURNS);
    for (turn, entry) in (1..).zip(entries) {
        assert_eq!((entry.ended_turn, Some(&entry.summary)), (turn, won.get(&turn)));
    }
    broker.kill().await;
}

#[tokio::test]
async fn the_largest_numbers_are_answered_too() {
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let mut turns = turns(address);
    let handover = |counter, turn| wire::HandOverRequest {
        key: key("a", counter),
        role: "A".to_owned(),
        summary: "s".to_owned(),
        instruction: "i".to_owned(),
        turn,
        ..wire::HandOverRequest::default()
    };
    let refused = turns.hand_over(handover(1, u64::MAX)).await.unwrap_err();
    assert_eq!(reason(&refused), "invalid_argument");
    turns.hand_over(handover(1, 0)).await.unwrap();
    let handed = turns.hand_over(handover(u64::MAX - 1, 0)).await.unwrap().into_inner();
    assert!(handed.repeated);
    let refused = turns.hand_over(handover(u64::MAX, 0)).await.unwrap_err();
    assert_eq!(reason(&refused), "invalid_argument");
    for from in [2, u64::MAX - 1, u64::MAX] {
        let request = wire::HistoryRequest { from, ..wire::HistoryRequest::default() };
        let page = turns.history(request).await.unwrap().into_inner();
        assert_eq!((page.entries.len(), page.next), (0, 0));
    }
    let request = wire::AwaitTurnRequest {
        role: "B".to_owned(),
        hold_ms: u64::MAX,
        ..wire::AwaitTurnRequest::default()
    };
    let answer = turns.await_turn(request).await.unwrap().into_inner().answer.unwrap();
    assert!(answer.can_start && answer.turn == 2);
    broker.kill().await;
}
