//! kill -9 at random moments under load: every acknowledged handover is there exactly once, and
//! agents that wait resume by themselves.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tasuki_proto::wire::{
    self, park_request::Ask, park_response::Outcome, waits_client::WaitsClient,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    common::Dice,
    support::{
        Line, Process, arguments, assert_whole, caller, channel, history, is_broken, key, make,
        seed, setting, soon, turns, without_limits,
    },
};

const WORKSPACES: [&str; 2] = ["one", "two"];
const LOOPS: [&str; 3] = ["a", "b", "c"];

/// Nodes, each with one role that takes part in every loop.
const NODES: u64 = 3;

/// Acknowledgements between two kills, at most.
const ACKS_MAX: u64 = 120;

/// Log lines of a start-up that are waited for before a kill in the middle of it, at most: about
/// as many as there are.
const START_LINES_MAX: u64 = 150;

/// Kills while the data directory is being made.
const CREATIONS: u64 = 3;

/// Between two tries at a broker that does not answer and was not replaced.
const AGAIN: Duration = Duration::from_millis(20);

/// Of one wait: short, so that waits end by themselves too.
const HOLD_MS: u64 = 3000;

/// Where the broker is; `None` while it is down.
type Place = watch::Receiver<Option<SocketAddr>>;

/// Handovers that were acknowledged: where, which turn, and what was said.
type Ledger = Arc<Mutex<BTreeMap<(Line, u64), String>>>;

async fn up(place: &mut Place) -> SocketAddr {
    place.wait_for(Option::is_some).await.unwrap().unwrap()
}

/// Returns when the broker was replaced, or after a moment.
async fn replaced(place: &mut Place) {
    let _ = tokio::time::timeout(AGAIN, place.changed()).await;
}

struct Node {
    role: String,
    counter: AtomicU64,
    asks: mpsc::Sender<(wire::TurnQuestion, oneshot::Sender<wire::TurnAnswer>)>,
}

/// Holds all waits of a node on one stream, and asks again whenever that breaks.
async fn keep_waits(
    mut place: Place,
    mut asks: mpsc::Receiver<(wire::TurnQuestion, oneshot::Sender<wire::TurnAnswer>)>,
) {
    let mut open: BTreeMap<u64, (wire::TurnQuestion, oneshot::Sender<wire::TurnAnswer>)> =
        BTreeMap::new();
    let mut next = 0;
    loop {
        let address = up(&mut place).await;
        let (requests, stream) = mpsc::channel(64);
        let ask = |wait, question: &wire::TurnQuestion| wire::ParkRequest {
            wait,
            ask: Some(Ask::Turn(question.clone())),
        };
        for (wait, (question, _)) in &open {
            requests.try_send(ask(*wait, question)).unwrap();
        }
        let parked = WaitsClient::new(channel(address)).park(ReceiverStream::new(stream)).await;
        let Ok(answers) = parked else {
            replaced(&mut place).await;
            continue;
        };
        let mut answers = answers.into_inner();
        loop {
            tokio::select! {
                asked = asks.recv() => {
                    let Some((question, reply)) = asked else { return };
                    next += 1;
                    // A stream that is broken says so below, and asks again.
                    let _ = requests.try_send(ask(next, &question));
                    open.insert(next, (question, reply));
                }
                answer = answers.message() => {
                    let Ok(Some(answer)) = answer else { break };
                    match answer.outcome.unwrap() {
                        Outcome::Turn(turn) if turn.still_waiting => {
                            let (question, reply) = open.remove(&answer.wait).unwrap();
                            next += 1;
                            let _ = requests.try_send(ask(next, &question));
                            open.insert(next, (question, reply));
                        }
                        Outcome::Turn(turn) => {
                            let (_, reply) = open.remove(&answer.wait).unwrap();
                            // An agent that was told to stop asks no more.
                            let _ = reply.send(turn);
                        }
                        Outcome::Mail(mail) => panic!("{mail:?}"),
                        Outcome::Swarm(other) => panic!("{other:?}"),
                        Outcome::Board(other) => panic!("{other:?}"),
                        Outcome::Run(other) => panic!("{other:?}"),
                        Outcome::Refusal(refusal) => assert_eq!(refusal.reason, "unavailable"),
                    }
                }
            }
        }
    }
}

/// Plays one role in one loop until told to stop: waits for its turn, hands it over.
async fn play(
    node: Arc<Node>,
    line: Line,
    mut place: Place,
    ledger: Ledger,
    acks: watch::Sender<BTreeMap<(Line, String), u64>>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let question = wire::TurnQuestion {
            caller: caller(&line.0),
            r#loop: line.1.clone(),
            role: node.role.clone(),
            hold_ms: HOLD_MS,
        };
        let (reply, answer) = oneshot::channel();
        node.asks.send((question, reply)).await.unwrap();
        let turn = tokio::select! {
            answer = answer => answer.unwrap(),
            _ = stop.wait_for(|stop| *stop) => return,
        };
        assert!(turn.can_start && turn.turn != 0, "{line:?}: {turn:?}");
        assert_eq!(turn.holder, node.role);
        if let Some(latest) = &turn.latest {
            assert_eq!(latest.ended_turn + 1, turn.turn, "{line:?}");
            let told = ledger.lock().unwrap().get(&(line.clone(), latest.ended_turn)).cloned();
            // Without an entry its sender is still waiting for the acknowledgement.
            assert!(told.is_none_or(|told| told == latest.summary), "{line:?}: {latest:?}");
        }
        let counter = node.counter.fetch_add(1, Ordering::Relaxed);
        let said = format!("{} ended {} {} {counter}", node.role, line.1, turn.turn);
        let request = wire::HandOverRequest {
            caller: caller(&line.0),
            key: key(&node.role, counter),
            r#loop: line.1.clone(),
            role: node.role.clone(),
            summary: said.clone(),
            instruction: "go on".to_owned(),
            turn: turn.turn,
            ..wire::HandOverRequest::default()
        };
        let handed = loop {
            let address = up(&mut place).await;
            match turns(address).hand_over(request.clone()).await {
                Ok(handed) => break handed.into_inner(),
                Err(status) if is_broken(&status) => replaced(&mut place).await,
                Err(status) => panic!("{line:?}, {request:?}: {status:?}"),
            }
        };
        assert_eq!((handed.ended_turn, handed.turn), (turn.turn, turn.turn + 1), "{line:?}");
        let earlier = ledger.lock().unwrap().insert((line.clone(), turn.turn), said);
        assert_eq!(earlier, None, "{line:?}: turn {} was handed over twice", turn.turn);
        acks.send_modify(|acks| *acks.entry((line.clone(), node.role.clone())).or_default() += 1);
    }
}

async fn create_loops(address: SocketAddr, lines: &[Line]) {
    let mut turns = turns(address);
    for (counter, line) in (1..).zip(lines) {
        make(channel(address), &line.0, &line.1).await.unwrap();
        without_limits(address, &line.0).await;
        let request = wire::CreateLoopRequest {
            caller: caller(&line.0),
            key: key("setup", counter),
            r#loop: line.1.clone(),
            participants: (0..NODES).map(|node| format!("R{node}")).collect(),
            allow_new_roles: true,
        };
        turns.create_loop(request).await.unwrap();
    }
}

/// Waits, and fails at once when an agent did.
async fn unless_failed<T>(agents: &mut JoinSet<()>, it: impl Future<Output = T>) -> T {
    tokio::select! {
        it = soon("progress", it) => it,
        Some(failed) = agents.join_next() => panic!("an agent ended: {failed:?}"),
    }
}

/// Holds S2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_handover_survives_kill_9_exactly_once() {
    let rounds = setting("TASUKI_ROUNDS", 20);
    let mut dice = Dice::new(seed());
    let data = tempfile::tempdir().unwrap();
    let lines: Vec<Line> = WORKSPACES
        .iter()
        .flat_map(|workspace| LOOPS.map(|name| ((*workspace).to_owned(), name.to_owned())))
        .collect();

    for _ in 0..CREATIONS {
        kill_during_start(data.path(), dice.roll(START_LINES_MAX)).await;
    }
    let mut broker = Process::serve(data.path());
    create_loops(broker.address().await.unwrap(), &lines).await;
    broker.kill().await;

    let (set_place, place) = watch::channel(None);
    let (acks, mut acked) = watch::channel(BTreeMap::new());
    let (set_stop, stop) = watch::channel(false);
    let ledger = Ledger::default();
    let mut agents = JoinSet::new();
    let mut keepers = JoinSet::new();
    for number in 0..NODES {
        let (asks, asked) = mpsc::channel(64);
        keepers.spawn(keep_waits(place.clone(), asked));
        let role = format!("R{number}");
        let node = Arc::new(Node { role, counter: AtomicU64::new(1), asks });
        for line in &lines {
            let (node, line, place) = (node.clone(), line.clone(), place.clone());
            agents.spawn(play(node, line, place, ledger.clone(), acks.clone(), stop.clone()));
        }
    }

    for round in 0..rounds {
        if dice.roll(4) == 0 {
            kill_during_start(data.path(), dice.roll(START_LINES_MAX)).await;
        }
        if round % 5 == 4 {
            assert_whole(data.path()).await;
        }
        let mut broker = Process::serve(data.path());
        let Some(address) = broker.address().await else {
            panic!("round {round}: {:?}", broker.ended().await);
        };
        let total = |acks: &BTreeMap<_, u64>| acks.values().sum::<u64>();
        let enough = total(&acked.borrow()) + 1 + dice.roll(ACKS_MAX);
        set_place.send_replace(Some(address));
        let reached = acked.wait_for(|acks| enough <= total(acks));
        drop(unless_failed(&mut agents, reached).await.unwrap());
        broker.kill().await;
        set_place.send_replace(None);
    }

    // Everyone gets on once more, then stops.
    let mut broker = Process::serve(data.path());
    let address = broker.address().await.unwrap();
    let before = acked.borrow().clone();
    set_place.send_replace(Some(address));
    let all_move = acked.wait_for(|acks| {
        acks.len() == lines.len() * usize::try_from(NODES).unwrap()
            && acks.iter().all(|(who, count)| before.get(who).is_none_or(|it| it < count))
    });
    drop(unless_failed(&mut agents, all_move).await.unwrap());
    set_stop.send_replace(true);
    while let Some(ended) = soon("the agents stop", agents.join_next()).await {
        ended.unwrap();
    }
    keepers.shutdown().await;

    let ledger = ledger.lock().unwrap().clone();
    check(address, &lines, &ledger).await;
    broker.kill().await;
    assert_whole(data.path()).await;
}

async fn kill_during_start(data: &std::path::Path, lines: u64) {
    let words = arguments(&["serve", "--listen", "127.0.0.1:0"], data);
    let mut broker = Process::spawn(&words, &[("RUST_LOG", "trace".into())]);
    let mut logged = broker.logged.clone();
    let said = logged.wait_for(|count| usize::try_from(lines).unwrap() <= *count);
    // Whichever is first: it may be up before it has said so much.
    tokio::select! {
        _ = soon("log lines", said) => {}
        address = broker.address() => assert!(address.is_some(), "{}", broker.log()),
    }
    broker.kill().await;
}

async fn check(address: SocketAddr, lines: &[Line], ledger: &BTreeMap<(Line, u64), String>) {
    let mut turns = turns(address);
    for line in lines {
        let entries = history(&mut turns, line).await.unwrap();
        let mut said = BTreeSet::new();
        for (number, entry) in (1..).zip(&entries) {
            // Nothing but handovers happened: entry N is the end of turn N.
            let found = (entry.number, entry.ended_turn, entry.turn);
            assert_eq!(found, (number, number, number + 1), "{line:?}: {entry:?}");
            assert_eq!(entry.from, format!("R{}", (number - 1) % NODES), "{line:?}: {entry:?}");
            assert!(said.insert(&entry.summary), "{line:?} has it twice: {entry:?}");
            let acknowledged = ledger.get(&(line.clone(), number));
            assert_eq!(acknowledged, Some(&entry.summary), "{line:?}: every agent was answered");
        }
        let acknowledged = ledger.keys().filter(|(it, _)| it == line).count();
        assert_eq!(entries.len(), acknowledged, "{line:?}");
    }
}
