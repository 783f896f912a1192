//! Agents on three machines play on while networks break and processes die at random.
//!
//! Every intent has words of its own, so the broker's history tells what became of it: what was
//! acknowledged is there once, what was refused is not, what nobody knows is there once at most.
//!
//! `TASUKI_CHAOS_SECS` says for how long (120), `TASUKI_SEED` what breaks when.

mod ledger;
mod player;
mod weather;

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout},
};

use self::{
    ledger::{Histories, Ledger},
    player::{Game, Player, reclaim},
    weather::{Diary, Spell},
};
use crate::{
    agents::Transport,
    chance::Chance,
    process::{Desk, until},
    world::{World, soon},
};

const ROLES: &[&str] = &["A", "B", "C"];

/// Each with all roles. In the last a person takes turns away.
const LOOPS: [&str; 3] = ["main", "second", "contested"];

/// Times that every loop goes round between two troubles, at most.
const ROUNDS_MAX: u64 = 6;

/// How soon after the network is well again every loop has gone round.
const GOES_ON_WITHIN: Duration = Duration::from_secs(25);

/// How soon whoever follows the feed has seen all of it.
const FEED_WITHIN: Duration = Duration::from_secs(45);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs network namespaces"]
async fn nothing_is_lost_doubled_or_done_against_its_refusal() {
    let mut world = World::new(ROLES).await;
    let mut chance = Chance::new(6);
    let diary = Diary::new();
    let desks: Vec<Desk> = world.nodes.iter().map(|it| it.desk.clone()).collect();
    for of in &LOOPS[1..] {
        desks[0].says(&format!("tasuki loop start {of} --participants {}", ROLES.join(","))).await;
    }
    // No person acts in the first two for as long as it goes on.
    desks[0].says("tasuki budget limits --turns 0").await;
    let feeds = follow(&desks).await;

    let ledger = Arc::new(watch::Sender::new(Ledger::default()));
    let (last, is_last) = watch::channel(false);
    let game = Game { ledger: Arc::clone(&ledger), is_last };
    let mut players = JoinSet::new();
    let transports = [Transport::Session, Transport::Stdio, Transport::Stateless, Transport::Sse];
    for (number, of) in LOOPS.into_iter().enumerate() {
        for (node, role) in ROLES.iter().enumerate() {
            let transport = transports[(number + node) % transports.len()];
            let seat = world.seat(node, role, transport).await;
            let chance = Chance(chance.below(u64::MAX));
            players.spawn(Player { seat, of, chance, game: game.clone() }.play());
        }
    }
    let of = LOOPS[LOOPS.len() - 1];
    players.spawn(reclaim(desks.clone(), of, ROLES, Chance(chance.below(u64::MAX)), game));

    let end = Instant::now() + lasts();
    let mut slowest = Duration::ZERO;
    while Instant::now() < end {
        let spell = Spell::new(&mut chance, desks.len());
        spell.begin(&mut world, &diary).await;
        if let Ok(Some(ended)) = timeout(spell.lasts, players.join_next()).await {
            ended.unwrap();
        }
        spell.end(&mut world, &diary).await;
        // Some troubles come before all are over the last one.
        for _ in 0..chance.below(ROUNDS_MAX) {
            slowest = slowest.max(go_round(&ledger, &mut players, &diary).await);
        }
    }
    slowest = slowest.max(go_round(&ledger, &mut players, &diary).await);
    last.send_replace(true);
    while let Some(ended) = soon(players.join_next()).await {
        ended.unwrap();
    }

    desks[0].says("tasuki loop start end --participants A,B").await;
    let histories = histories(&desks[0]).await;
    ledger.borrow().check(&histories);
    for desk in &desks[1..] {
        assert_eq!(self::histories(desk).await, histories);
    }
    let feed = the_same_feed(&feeds).await;
    check_feed(&feed, &histories);
    world.broker.kill().await;
    world.broker.start().await;
    until(async || world.status(0).await["broker"]["health"] == "serving").await;
    assert_eq!(self::histories(&desks[0]).await, histories);
    let summary = ledger.borrow().summary();
    anstream::println!("{summary}; all loops went round {slowest:.1?} after a heal at the latest");
}

fn lasts() -> Duration {
    let secs = std::env::var("TASUKI_CHAOS_SECS").map_or(120, |it| it.parse().unwrap());
    Duration::from_secs(secs)
}

/// How long it took until everybody has had a turn in every loop.
async fn go_round(
    ledger: &watch::Sender<Ledger>,
    players: &mut JoinSet<()>,
    diary: &Diary,
) -> Duration {
    let began = Instant::now();
    let before = ledger.borrow().turns.clone();
    let mut seen = ledger.subscribe();
    let round = ROLES.len() as u64;
    let gone = seen.wait_for(|it| {
        let is_past = |of: &&str| {
            before.get(*of).copied().unwrap_or(0) + round <= it.turns.get(*of).copied().unwrap_or(0)
        };
        LOOPS.iter().all(is_past)
    });
    let gone = async { drop(gone.await.unwrap()) };
    tokio::select! {
        gone = timeout(GOES_ON_WITHIN, gone) => {
            let now = ledger.borrow().turns.clone();
            assert!(gone.is_ok(), "it does not go on: {before:?} {now:?}");
        }
        Some(ended) = players.join_next() => {
            ended.unwrap();
            panic!("an agent ended");
        }
    }
    let took = began.elapsed();
    diary.say(&format!("went round after {took:.1?}"));
    took
}

async fn histories(desk: &Desk) -> Histories {
    let mut all = Histories::new();
    for of in LOOPS {
        let line = format!("tasuki loop history {of} --from 1 --limit 1000000");
        all.insert(of.to_owned(), desk.json(&line).await);
    }
    all
}

/// Follows the feed at each desk.
async fn follow(desks: &[Desk]) -> Vec<(tokio::process::Child, PathBuf)> {
    let mut all = Vec::new();
    for desk in desks {
        all.push(desk.watch().await);
    }
    all
}

/// What all desks were told in the end.
async fn the_same_feed(feeds: &[(tokio::process::Child, PathBuf)]) -> Vec<Value> {
    let mut all = Vec::new();
    for (_, path) in feeds {
        let mut feed = Vec::new();
        let whole = until(async || {
            feed = read(path);
            let opened = |it: &Value| it["kind"] == "loop_opened" && it["loop"] == "end";
            let events = feed.last().and_then(|it: &Value| it["events"].as_array());
            events.is_some_and(|events| events.iter().any(opened))
        });
        if timeout(FEED_WITHIN, whole).await.is_err() {
            let log = std::fs::read_to_string(path.with_extension("log")).unwrap();
            panic!("a feed stands still at {:?}; it said: {log}", feed.last());
        }
        all.push(feed);
    }
    let first = all.remove(0);
    for other in all {
        assert_eq!(other, first);
    }
    first
}

fn read(path: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    // The last line may be half there.
    text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()
}

/// Each record once and in order, and in them what the histories say.
fn check_feed(feed: &[Value], histories: &Histories) {
    for (item, sequence) in feed.iter().zip(1_u64..) {
        assert_eq!(item["sequence"], sequence);
    }
    for (of, history) in histories {
        let events = feed.iter().flat_map(|it| it["events"].as_array().unwrap());
        let ends = events.filter(|it| {
            it["loop"] == of.as_str()
                && (it["kind"] == "handed_over" || it["kind"] == "turn_reclaimed")
        });
        let told: Vec<_> = ends.map(|it| (&it["ended_turn"], &it["from"], &it["to"])).collect();
        let kept: Vec<_> =
            history.iter().map(|it| (&it["ended_turn"], &it["from"], &it["to"])).collect();
        assert_eq!(told, kept, "{of}");
    }
}
