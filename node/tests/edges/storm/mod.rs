//! A thousand questions open on fifty connections, while clients vanish and processes are killed.
//!
//! Fifty roles wait in twenty loops each, over all transports. A loop goes from one of its roles
//! to the next, each time with words that are meant for nobody else, so an answer that is lost,
//! or given to another, stops its loop or fails its check. At the end the waits left in node and
//! broker are counted.
//!
//! What is not killed may stand still meanwhile (SIGSTOP), and goes on as if nothing had been.
//!
//! `TASUKI_ROUNDS` says how many kills (a seventh of it; 20), `TASUKI_SEED` which and when.

pub(crate) mod connection;
mod player;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::PathBuf,
    pin::pin,
    sync::{Arc, Mutex},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tasuki_proto::wire::{
    self, directory_client::DirectoryClient, turn_loop_client::TurnLoopClient,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};
use tonic::transport::Channel;

use self::{
    connection::{Freezer, Wire},
    player::{Order, Player, handover},
};
use crate::{
    agents::Transport,
    chance::Chance,
    crash::accepted,
    http::Http,
    process::{PATIENCE, Process, soon},
};

const CONNECTIONS: usize = 50;

const LOOPS: usize = 100;

/// Roles are grouped, and each loop is one group's: ten roles a loop, twenty loops a role.
const GROUPS: usize = 5;

const QUESTIONS: usize = CONNECTIONS * LOOPS / GROUPS;

const TRANSPORTS: [Transport; 4] =
    [Transport::Session, Transport::Stateless, Transport::Sse, Transport::Stdio];

/// Kills in `TASUKI_ROUNDS`: each takes some seconds.
const ROUNDS_EACH: u64 = 7;

/// Orders to clients between two kills, at most.
const ORDERS_MAX: u64 = 20;

/// Clients that stand still during a kill, at most.
const FROZEN_MAX: usize = 12;

/// Clients that are away during a kill, at most.
const AWAY_MAX: usize = 8;

/// Orders on their way to a client.
const ORDERS_KEPT: usize = 16;

/// What all clients saw.
#[derive(Debug, Default)]
struct Seen {
    answered: usize,
    /// Answers that say to ask again.
    unanswered: usize,
    superseded: usize,
    /// What had to be tried again.
    again: usize,
    /// The latest reason for that.
    latest: String,
}

/// What everybody knows.
#[derive(Clone)]
struct World {
    mcp: SocketAddr,
    data: PathBuf,
    seen: Arc<watch::Sender<Seen>>,
    is_up: watch::Receiver<bool>,
    /// What stops each client that can be stopped, by its number.
    freezers: Arc<Mutex<BTreeMap<usize, Freezer>>>,
}

fn role(number: usize) -> String {
    format!("r{number}")
}

fn loop_name(of: usize) -> String {
    format!("l{of}")
}

/// Who waits in a loop, in the order of their turns.
fn waiters(of: usize) -> impl Iterator<Item = usize> {
    (of % GROUPS..CONNECTIONS).step_by(GROUPS)
}

/// Who comes after `number`; `None` comes before all.
fn next_of(of: usize, number: Option<usize>) -> String {
    let next = waiters(of).find(|it| number.is_none_or(|number| number < *it));
    next.map_or_else(|| "A".to_owned(), role)
}

/// The turn that a role is given. The first is A's.
fn turn_of(of: usize, number: usize) -> u64 {
    waiters(of).position(|it| it == number).unwrap() as u64 + 2
}

/// What nobody is told but `role`, and only in this loop.
fn words(of: usize, role: &str) -> String {
    format!("{role} goes on with {}", loop_name(of))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waits_survive_clients_that_vanish_and_processes_that_die() {
    let mut chance = Chance::new(5);
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&dir.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let roles: String = (0..CONNECTIONS).map(|it| format!(" --role {}", role(it))).collect();
    let line = format!("--role A{roles}");
    let mut node = Process::node(&dir.path().join("node"), address, &line).await;
    let asked = Broker::new(address);
    asked.open_loops().await;

    let (up, is_up) = watch::channel(true);
    let seen = Arc::new(watch::Sender::new(Seen::default()));
    let data = node.data.clone();
    let freezers = Arc::default();
    let world = World { mcp: node.mcp, data, seen: Arc::clone(&seen), is_up, freezers };
    let (mut players, mut orders) = (JoinSet::new(), Vec::new());
    for number in 0..CONNECTIONS {
        let (order, ordered) = mpsc::channel(ORDERS_KEPT);
        let open: BTreeSet<usize> =
            (0..LOOPS).filter(|of| waiters(*of).any(|it| it == number)).collect();
        let transport = TRANSPORTS[number % TRANSPORTS.len()];
        players.spawn(Player::new(number, transport, world.clone(), open, ordered).play());
        orders.push(order);
    }
    soon(asked.until_waiting(node.mcp, QUESTIONS)).await;

    let rounds = rounds();
    let (mut begun, mut stops) = (0, 0);
    for round in 0..rounds {
        let before = QUESTIONS * begun / LOOPS;
        let end = LOOPS * (round + 1) / rounds;
        let starting = tokio::spawn(begin(world.clone(), begun..end));
        begun = end;
        let due = QUESTIONS * begun / LOOPS;
        // Somewhere between the first and the last answer of this round.
        let until = before + below(&mut chance, due - before);
        disturb(&mut chance, &orders);
        until_answered(&seen, until, &mut players, &node, &asked).await;
        // Their turns come while they are away, and are kept for them.
        let away: BTreeSet<usize> =
            (0..AWAY_MAX).map(|_| below(&mut chance, CONNECTIONS)).collect();
        for number in &away {
            orders[*number].try_send(Order::StayAway).ok();
        }
        let frozen = world.freeze(&mut chance);
        up.send_replace(false);
        // Half of the time the other one stands still meanwhile.
        let stands_still = chance.below(2) == 0;
        match (round + 1) % 3 {
            1 => {
                let still = stands_still.then(|| StandsStill::begin(&broker));
                node.kill().await;
                node.start().await;
                drop(still);
            }
            2 => {
                let still = stands_still.then(|| StandsStill::begin(&node));
                broker.kill().await;
                broker.start().await;
                drop(still);
            }
            _ => {
                stops += 1;
                assert_eq!(node.stop().await.code(), Some(0), "{}", node.log());
                node.start().await;
            }
        }
        up.send_replace(true);
        frozen.iter().for_each(Freezer::thaw);
        disturb(&mut chance, &orders);
        for number in away {
            // Who has left for good no longer listens.
            orders[number].send(Order::ComeBack).await.ok();
        }
        soon(starting).await.unwrap();
        until_answered(&seen, due, &mut players, &node, &asked).await;
        soon(asked.until_waiting(node.mcp, QUESTIONS - due)).await;
    }
    while let Some(ended) = soon(players.join_next()).await {
        ended.unwrap();
    }
    asked.check_loops().await;
    soon(until_left(&node, &asked)).await;
    let seen = seen.borrow();
    assert_eq!(seen.answered, QUESTIONS);
    // A node that stops says so once to each.
    assert!(seen.unanswered - seen.superseded <= stops * QUESTIONS, "{seen:?}");
    anstream::println!("{rounds} kills, {seen:?}");
}

impl World {
    /// Stops some clients, which go on once they are thawed.
    fn freeze(&self, chance: &mut Chance) -> Vec<Freezer> {
        let all = self.freezers.lock().unwrap();
        let some = (0..chance.below(FROZEN_MAX as u64 + 1)).map(|_| below(chance, CONNECTIONS));
        let some: Vec<Freezer> = some.filter_map(|it| all.get(&it).cloned()).collect();
        some.iter().for_each(Freezer::freeze);
        some
    }
}

/// A process that does nothing until this is dropped.
pub(crate) struct StandsStill(Pid);

impl StandsStill {
    pub(crate) fn begin(process: &Process) -> Self {
        let pid = Pid::from_raw(process.pid().cast_signed()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for StandsStill {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

fn rounds() -> usize {
    let rounds = std::env::var("TASUKI_ROUNDS").map_or(20, |it| it.parse::<u64>().unwrap());
    usize::try_from(rounds.div_ceil(ROUNDS_EACH)).unwrap().min(LOOPS)
}

fn below(chance: &mut Chance, bound: usize) -> usize {
    usize::try_from(chance.below(bound as u64)).unwrap()
}

/// Tells some clients to vanish in one way or another.
fn disturb(chance: &mut Chance, orders: &[mpsc::Sender<Order>]) {
    for _ in 0..=chance.below(ORDERS_MAX) {
        let order = match chance.below(4) {
            0 => Order::HangUp,
            1 => Order::Cancel,
            2 => Order::Leave,
            _ => Order::Vanish,
        };
        // Who is done no longer listens, and who is busy has had enough of it.
        orders[below(chance, CONNECTIONS)].try_send(order).ok();
    }
}

/// A gives its first turns away.
async fn begin(world: World, loops: std::ops::Range<usize>) {
    let mut ids = 0;
    for of in loops {
        loop {
            ids += 1;
            world.is_up.clone().wait_for(|is_up| *is_up).await.unwrap();
            let wire =
                Wire::open(Transport::Stateless, "A", world.mcp, world.data.clone()).await.unwrap();
            let words = handover(of, 1, &next_of(of, None));
            match accepted(wire.ask(ids, "handover_work", words).await) {
                Ok(done) => break assert_eq!(done["ended_turn"], 1, "{done}"),
                Err(why) => assert!(!why.is_refusal, "{}: {why}", loop_name(of)),
            }
        }
    }
}

/// Until so many questions are answered; players that are done leave meanwhile.
async fn until_answered(
    seen: &watch::Sender<Seen>,
    count: usize,
    players: &mut JoinSet<()>,
    node: &Process,
    broker: &Broker,
) {
    let mut answers = seen.subscribe();
    let mut answered = pin!(answers.wait_for(|seen| count <= seen.answered));
    let answering = async {
        loop {
            tokio::select! {
                reached = &mut answered => return drop(reached.unwrap()),
                Some(ended) = players.join_next() => ended.unwrap(),
            }
        }
    };
    if timeout(PATIENCE, answering).await.is_err() {
        let seen = format!("{:?}", *seen.borrow());
        let (stuck, status, log) = (broker.stuck().await, status(node.mcp).await, node.log());
        panic!("{count} answers expected; {seen}\n{stuck:?}\n{status}\n{log}");
    }
}

/// What the broker says.
struct Broker(Channel);

impl Broker {
    fn new(address: SocketAddr) -> Self {
        Self(Channel::from_shared(format!("http://{address}")).unwrap().connect_lazy())
    }

    async fn open_loops(&self) {
        let mut turns = TurnLoopClient::new(self.0.clone());
        for of in 0..LOOPS {
            let roles = waiters(of).map(role);
            let key = wire::IdempotencyKey { client_id: "storm".into(), counter: of as u64 + 1 };
            let request = wire::CreateLoopRequest {
                caller: Some(wire::Caller::default()),
                key: Some(key),
                r#loop: loop_name(of),
                participants: std::iter::once("A".to_owned()).chain(roles).collect(),
                allow_new_roles: true,
            };
            turns.create_loop(request).await.unwrap();
        }
    }

    /// Waits parked, or `None` while it cannot be asked.
    async fn waits(&self) -> Option<usize> {
        let caller = Some(wire::Caller::default());
        let mut directory = DirectoryClient::new(self.0.clone());
        let roles =
            directory.list_roles(wire::ListRolesRequest { caller, ..Default::default() }).await;
        let roles = roles.ok()?.into_inner().roles;
        Some(roles.iter().map(|role| role.waits.len()).sum())
    }

    /// Until node and broker both have just so many waits.
    async fn until_waiting(&self, node: SocketAddr, count: usize) {
        let mut said = (None, None);
        while said != (Some(count), Some(count)) {
            said = (self.waits().await, waits(&status(node).await));
            tokio::task::yield_now().await;
        }
    }

    /// Who has the turn in each loop that is under way, and who waits there.
    async fn stuck(&self) -> Vec<(String, String, Vec<String>)> {
        let loops = self.loops().await.into_iter();
        let under_way = loops.filter(|it| it.holder != "A");
        under_way.map(|it| (it.r#loop, it.holder, it.waiting)).collect()
    }

    async fn loops(&self) -> Vec<wire::Loop> {
        let request = wire::ListLoopsRequest::default();
        let mut turns = TurnLoopClient::new(self.0.clone());
        turns.list_loops(request).await.unwrap().into_inner().loops
    }

    /// Every loop has gone all the way round, and nobody waits in it.
    async fn check_loops(&self) {
        let loops = self.loops().await.into_iter();
        let loops: Vec<_> = loops.filter(|it| it.r#loop != "main").collect();
        assert_eq!(loops.len(), LOOPS);
        for it in loops {
            let turns = (CONNECTIONS / GROUPS) as u64 + 1;
            assert_eq!((it.turn, it.entries, it.holder.as_str()), (turns + 1, turns, "A"));
        }
    }
}

async fn status(node: SocketAddr) -> Value {
    let mut http = Http::connect(node).await;
    http.send("GET /status", &[], b"").await;
    serde_json::from_str(&http.text().await).unwrap()
}

/// Of all roles together.
fn waits(status: &Value) -> Option<usize> {
    let waits = status["roles"].as_array()?.iter().map(|role| role["waits"].as_u64());
    usize::try_from(waits.sum::<Option<u64>>()?).ok()
}

/// Until nothing is left of all that was asked.
async fn until_left(node: &Process, broker: &Broker) {
    loop {
        let (said, parked) = (status(node.mcp).await, broker.waits().await);
        let open = ["calls", "streams", "bridges"].map(|what| said[what].as_u64());
        // The connection that asks is one.
        let is_left = waits(&said) == Some(0) && open == [Some(0); 3] && said["connections"] == 1;
        if is_left && parked == Some(0) {
            return;
        }
        tokio::task::yield_now().await;
    }
}
