//! A lead, workers on five nodes and an acceptor finish issues while all of them are killed.
//!
//! Workers claim, lock, ask, write, submit and go on with what is kept for them; each may be killed
//! at any call and then knows nothing but its name. Nodes and the broker are killed as well, some
//! for longer than the leases last. What everybody was told is kept, and at the end compared with
//! what the broker says and with the history of each issue.
//!
//! `TASUKI_TASKS` says how many tasks (120; from 1,000 on fifty workers do them), `TASUKI_ROUNDS`
//! how many kills (half of it; 20), `TASUKI_SEED` which ones.

mod audit;
mod history;
mod lead;
mod player;
mod worker;

use std::{path::Path, sync::Arc};

use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
    time::timeout,
};

use self::{
    audit::Broker,
    history::History,
    lead::{Acceptor, Lead},
    player::Player,
    worker::Worker,
};
use crate::{
    agents::Transport,
    book::Book,
    chance::Chance,
    process::{PATIENCE, Process, soon},
    strikes::rounds,
    swarm,
};

const NODES: usize = 5;

/// Of `TASUKI_ROUNDS`, for one kill.
const ROUNDS_EACH: u64 = 2;

/// From so many tasks on, it is a big game.
const MANY: usize = 1000;

/// Workers of each node, in a small game and in a big one.
const WORKERS_EACH: [usize; 2] = [3, 10];

/// Players killed between two kills of processes, at most.
const DEATHS_MAX: u64 = 4;

/// Leases in milliseconds: the shortest that outlast a busy machine's pauses most of the time.
const CLAIM_MS: u64 = 4_000;
const LOCK_MS: u64 = 2_000;
const RESERVATION_MS: u64 = 2_000;
const AGAIN_MS: u64 = 1_500;

const TRANSPORTS: [Transport; 4] =
    [Transport::Session, Transport::Stateless, Transport::Sse, Transport::Stdio];

/// What everybody knows.
#[derive(Clone)]
struct Game {
    history: Arc<watch::Sender<History>>,
    /// Issues and the tasks of each.
    issues: usize,
    tasks_each: usize,
    workers: usize,
}

impl Game {
    fn change<T>(&self, change: impl FnOnce(&mut History) -> T) -> T {
        let mut out = None;
        self.history.send_modify(|it| out = Some(change(it)));
        out.unwrap()
    }

    fn is_over(&self) -> bool {
        self.history.borrow().closed.len() == self.issues
    }
}

struct World {
    broker: Process,
    nodes: Vec<Process>,
    /// Which nodes are up, for those who play there.
    up: Vec<watch::Sender<bool>>,
    game: Game,
    /// By whom it is looked on.
    asked: Broker,
    players: JoinSet<()>,
    /// Deaths of each player.
    deaths: Vec<watch::Sender<u64>>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_task_is_done_once_whoever_is_killed() {
    let mut chance = Chance::new(7);
    let tasks = std::env::var("TASUKI_TASKS").map_or(120, |it| it.parse::<usize>().unwrap());
    let place = tempfile::tempdir().unwrap();
    let mut world = World::begin(place.path(), tasks, &mut chance).await;
    let rounds = rounds(ROUNDS_EACH);
    for round in 1..=rounds {
        let due = tasks * usize::try_from(round).unwrap() / usize::try_from(rounds + 1).unwrap();
        world.until(due).await;
        for _ in 0..chance.below(DEATHS_MAX + 1) {
            let whom = usize::try_from(chance.below(world.deaths.len() as u64)).unwrap();
            world.deaths[whom].send_modify(|it| *it += 1);
        }
        world.strike(&mut chance).await;
    }
    world.until(usize::MAX).await;
    world.end().await;
    // On a connection that nothing was killed under.
    let asked = Broker::new(world.broker.broker.unwrap());
    asked.check(&world.game).await;
    soon(asked.until_unlocked()).await;
    let book = Book::open(world.broker.broker.unwrap()).await;
    soon(async { while book.waits().await != 0 {} }).await;
    let (stale, told) = (world.asked.stale, world.game.history.borrow().summary());
    anstream::println!("{rounds} kills, {stale} writes from beyond the grave, {told}");
}

impl World {
    async fn begin(place: &Path, tasks: usize, chance: &mut Chance) -> Self {
        let broker = Process::broker(&place.join("broker"), "").await;
        let address = broker.broker.unwrap();
        let set = swarm::set(address, 1, |it| {
            (it.task_claim_ms, it.delivery_claim_ms) = (CLAIM_MS, CLAIM_MS);
            (it.lock_ms, it.heartbeat_ms) = (LOCK_MS, 1_000);
            (it.reservation_ms, it.item_again_ms) = (RESERVATION_MS, AGAIN_MS);
            it.issue_ttl_ms = 0;
        });
        set.await;
        let each = WORKERS_EACH[usize::from(MANY <= tasks)];
        let issues = if MANY <= tasks { 4 } else { 2 };
        let history = Arc::new(watch::Sender::new(History::default()));
        let game = Game { history, issues, tasks_each: tasks / issues, workers: NODES * each };
        assert_eq!(game.tasks_each * issues, tasks, "as many tasks for each issue");
        let mut world = Self {
            broker,
            nodes: Vec::new(),
            up: Vec::new(),
            game,
            asked: Broker::new(address),
            players: JoinSet::new(),
            deaths: Vec::new(),
        };
        let turn = usize::try_from(chance.below(4)).unwrap();
        for number in 0..NODES {
            let mut roles: Vec<String> =
                (0..each).map(|it| format!("w{}", number * each + it)).collect();
            match number {
                0 => roles.push("lead".to_owned()),
                1 => roles.push("acceptor".to_owned()),
                _ => {}
            }
            let tools = |role: &str| if role.starts_with('w') { "worker" } else { role }.to_owned();
            let line = roles.iter().map(|it| format!("--role {it}=swarm-{}:full ", tools(it)));
            let line: String = line.collect();
            let data = place.join(format!("node-{number}"));
            let node = Process::node(&data, address, &line).await;
            let up = watch::Sender::new(true);
            for role in roles {
                let transport = TRANSPORTS[(world.deaths.len() + turn) % 4];
                let death = watch::Sender::new(0);
                let chance = Chance(chance.below(u64::MAX));
                let deaths = death.subscribe();
                let game = world.game.clone();
                let player =
                    Player::new(&role, transport, &node, up.subscribe(), deaths, chance, game);
                match role.as_str() {
                    "lead" => drop(world.players.spawn(Lead::new(player).play())),
                    "acceptor" => drop(world.players.spawn(Acceptor(player).play())),
                    _ => drop(world.players.spawn(Worker(player).play())),
                }
                world.deaths.push(death);
            }
            world.nodes.push(node);
            world.up.push(up);
        }
        world
    }

    /// Until so many tasks are done, or all are; what the broker says meanwhile must hold.
    async fn until(&mut self, due: usize) {
        let mut history = self.game.history.subscribe();
        while !self.game.is_over() {
            let before = history.borrow_and_update().progress();
            if due <= before.0 {
                return;
            }
            let next = history.wait_for(|it| before != it.progress());
            let ended = tokio::select! {
                more = timeout(PATIENCE, next) => match more {
                    Ok(more) => { drop(more.unwrap()); None }
                    Err(_) => Some("nothing was done for long".to_owned()),
                },
                Some(ended) = self.players.join_next() => ended.err().map(said),
            };
            if let Some(why) = ended {
                self.fail(&why).await;
            }
            self.asked.look().await;
            for worker in 0..self.game.workers {
                self.asked.look_at(&format!("w{worker}")).await;
            }
        }
    }

    /// Until everybody has left.
    async fn end(&mut self) {
        loop {
            match timeout(PATIENCE, self.players.join_next()).await {
                Ok(None) => return,
                Ok(Some(Ok(()))) => {}
                Ok(Some(Err(why))) => self.fail(&said(why)).await,
                Err(_) => self.fail("somebody waits still").await,
            }
        }
    }

    async fn fail(&self, why: &str) -> ! {
        let stuck = self.asked.stuck(&self.game).await;
        panic!("{why}\n{stuck}");
    }

    /// Kills some of the processes and starts them again, nodes perhaps a good while later.
    async fn strike(&mut self, chance: &mut Chance) {
        // One bit for each node, one for the broker; never none.
        let whom = chance.below((1 << (NODES + 1)) - 1) + 1;
        let is_hit = |bit: usize| whom & (1 << bit) != 0;
        let hit: Vec<usize> = (0..NODES).filter(|it| is_hit(*it)).collect();
        for it in &hit {
            self.up[*it].send_replace(false);
            self.nodes[*it].kill().await;
        }
        if is_hit(NODES) {
            self.broker.kill().await;
            self.broker.start().await;
        }
        // Those who cannot come back lose what they hold: others must have it.
        let is_long = chance.below(4) == 0 && hit.len() < NODES && !hit.contains(&0);
        if is_long {
            let lapsed = self.game.history.borrow().lapsed;
            let mut history = self.game.history.subscribe();
            let seen = history.wait_for(|it| lapsed < it.lapsed || !it.closed.is_empty());
            // Perhaps none of them had anything.
            drop(timeout(std::time::Duration::from_millis(2 * CLAIM_MS), seen).await);
        }
        for it in hit {
            self.nodes[it].start().await;
            self.up[it].send_replace(true);
        }
    }
}

fn said(why: JoinError) -> String {
    match why.try_into_panic() {
        Ok(it) => match it.downcast::<String>() {
            Ok(text) => *text,
            Err(it) => format!("{:?}", it.downcast_ref::<&str>()),
        },
        Err(why) => why.to_string(),
    }
}
