//! Wall clocks that jump by an hour or by ten years, at the broker or at a node: nothing ends before its time, and
//! nothing lives for ever.
//!
//! libfaketime moves a program's wall clock and leaves the clocks that only go forward alone, as
//! setting a machine's clock does.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde_json::json;
use tokio::time::Instant;

use crate::{
    agents::Transport,
    process::{Process, until},
    turns::hand_over_until_done,
    world::World,
};

/// How long a turn may be held without a sign of life.
const LEASE: Duration = Duration::from_secs(8);

/// How much earlier than a test's own clock a program may have begun to count.
const BEFORE: Duration = Duration::from_millis(500);

/// How much later a busy machine may tell.
const AFTER: Duration = Duration::from_secs(6);

/// How far a clock jumps, less what a slow test takes.
const JUMP_MIN: Duration = Duration::from_secs(55 * 60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Broker,
    /// It has jumped when it starts again.
    RestartedBroker,
    NodeOfHolder,
}

fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").unwrap();
    let mut found = folders.map(|it| it.unwrap().path().join("faketime/libfaketimeMT.so.1"));
    found.find(|it| it.is_file()).expect("libfaketime; Debian has it in faketime")
}

/// Starts a program again with a wall clock that `file` moves.
async fn give_clock(process: &mut Process, library: &Path, file: &Path) {
    fs::write(file, "+0").unwrap();
    for (name, value) in [
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("FAKETIME_TIMESTAMP_FILE", file.to_str().unwrap()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("FAKETIME_NO_CACHE", "1"),
        // It says something every few seconds, and when.
        ("RUST_LOG", "info,h2=debug"),
    ] {
        process.with.insert(name.to_owned(), value.to_owned());
    }
    process.kill().await;
    process.start().await;
}

/// Whether what a program says now has a time that is an hour off.
fn has_jumped(process: &Process, jump: &str) -> bool {
    let log = process.log();
    let stamps = log.lines().filter_map(|line| line.split_once(' '));
    let mut times = stamps.filter_map(|(stamp, _)| humantime::parse_rfc3339(stamp).ok());
    let latest = times.next_back();
    let written = process.log_path().metadata().unwrap().modified().unwrap();
    let off = |a: SystemTime, b: SystemTime| a.duration_since(b).is_ok_and(|it| JUMP_MIN < it);
    latest.is_some_and(
        |said| {
            if jump.starts_with('+') { off(said, written) } else { off(written, said) }
        },
    )
}

async fn a_lease_lapses_in_its_time(library: &Path, whose: Whose, jump: &str) {
    let mut world = World::with(&["A", "B"], "--lease 8s").await;
    let file = world.host_home().join("clock");
    let process = match whose {
        Whose::Broker | Whose::RestartedBroker => &mut world.broker,
        Whose::NodeOfHolder => &mut world.nodes[0],
    };
    give_clock(process, library, &file).await;
    let (_watch, feed) = world.nodes[1].desk.watch().await;
    // Its calls are its only signs of life.
    let a = world.seat(0, "A", Transport::Stateless).await;
    let b = world.seat(1, "B", Transport::Session).await;
    until(async || matches!(a.look().await, crate::seat::Told::Facts(it) if it["turn"] == 1)).await;
    let mut from = Instant::now();
    if whose == Whose::RestartedBroker {
        world.broker.kill().await;
        fs::write(&file, jump).unwrap();
        from = Instant::now();
        world.broker.start().await;
    } else {
        fs::write(&file, jump).unwrap();
    }
    until(async || fs::read_to_string(&feed).unwrap().contains("turn_lapsed")).await;
    let took = from.elapsed();
    anstream::println!("{whose:?} {jump}: a lease of {LEASE:?} lapsed after {took:.1?}");
    // A restarted broker may count from before it was away, or give a grace.
    let least = if whose == Whose::RestartedBroker { LEASE - AFTER } else { LEASE - BEFORE };
    assert!(least <= took && took <= LEASE + AFTER, "{whose:?} {jump}: {took:?}");
    let process = if whose == Whose::NodeOfHolder { &world.nodes[0] } else { &world.broker };
    until(async || has_jumped(process, jump)).await;
    // Nobody took the turn, so it is still A's.
    hand_over_until_done(&a, 1).await;
    assert_eq!(b.turn().await, 2);
}

async fn both_ways(whose: Whose) {
    let library = library();
    let lapses = |jump| Box::pin(a_lease_lapses_in_its_time(&library, whose, jump));
    tokio::join!(lapses("+1h"), lapses("-1h"), lapses("+10y"), lapses("-10y"));
}

#[tokio::test]
#[ignore = "needs network namespaces and libfaketime"]
async fn a_brokers_clock_that_jumps_moves_no_lease() {
    both_ways(Whose::Broker).await;
}

#[tokio::test]
#[ignore = "needs network namespaces and libfaketime"]
async fn a_broker_that_starts_at_another_hour_gives_leases_their_time() {
    both_ways(Whose::RestartedBroker).await;
}

#[tokio::test]
#[ignore = "needs network namespaces and libfaketime"]
async fn a_nodes_clock_that_jumps_moves_no_lease() {
    both_ways(Whose::NodeOfHolder).await;
}

/// How long a token is good.
const TOKEN: Duration = Duration::from_secs(8);

async fn a_token_ends_in_its_time(library: &Path, jump: &str, is_restarted: bool) {
    let mut world = World::new(&["A"]).await;
    let file = world.host_home().join("clock");
    give_clock(&mut world.broker, library, &file).await;
    let host = &world.broker.desk;
    let spent = host.says("tasuki-broker invite --role B --expires 8s").await;
    let line = host.says("tasuki-broker invite --role B --expires 1m --token-expires 8s").await;
    if is_restarted {
        world.broker.kill().await;
    }
    fs::write(&file, jump).unwrap();
    if is_restarted {
        world.broker.start().await;
    }
    let guest = world.guest("guest").await;
    let from = Instant::now();
    // What the clock says is no reason to refuse it.
    guest.says(line.trim()).await;
    guest.says("tasuki status").await;
    until(async || !guest.run("tasuki status").await.status.success()).await;
    let took = from.elapsed();
    anstream::println!("{jump}: a token of {TOKEN:?} ended after {took:.1?}");
    assert!(TOKEN - BEFORE <= took && took <= TOKEN + AFTER, "{jump}: {took:?}");
    // Nor a reason to take it.
    let late = world.guest("late").await;
    let refused = late.run(spent.trim()).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    until(async || has_jumped(&world.broker, jump)).await;
}

#[tokio::test]
#[ignore = "needs network namespaces and libfaketime"]
async fn a_brokers_clock_that_jumps_ends_no_token_and_keeps_none() {
    let library = library();
    tokio::join!(
        a_token_ends_in_its_time(&library, "+1h", false),
        a_token_ends_in_its_time(&library, "-1h", false),
        a_token_ends_in_its_time(&library, "+10y", false),
        a_token_ends_in_its_time(&library, "-10y", false),
    );
}

/// A clock that was set forward meanwhile may have been right: it ends what it says is over.
#[tokio::test]
#[ignore = "needs network namespaces and libfaketime"]
async fn a_broker_that_starts_with_an_older_clock_keeps_no_token() {
    let library = library();
    tokio::join!(
        a_token_ends_in_its_time(&library, "-1h", true),
        a_token_ends_in_its_time(&library, "-10y", true),
    );
}

/// A letter that waits for the broker has an hour, however far the clock is moved meanwhile.
#[tokio::test]
#[ignore = "needs network namespaces and libfaketime"]
async fn a_nodes_clock_that_jumps_lapses_no_letter() {
    let library = library();
    let mut world = World::new(&["A", "B"]).await;
    let file = world.host_home().join("clock");
    give_clock(&mut world.nodes[0], &library, &file).await;
    let a = world.seat(0, "A", Transport::Stateless).await;
    until(async || matches!(a.look().await, crate::seat::Told::Facts(it) if it["turn"] == 1)).await;
    world.broker.kill().await;
    let letter = json!({ "receiver_id": "B", "msg_type": "BR", "title": "in time", "content": "x",
        "expires_sec": 3600.0 });
    let told = a.call("filebox_send_message", letter).await.facts();
    assert!(told["queued"].is_number(), "{told}");
    fs::write(&file, "+10y").unwrap();
    world.broker.start().await;
    until(async || has_jumped(&world.nodes[0], "+10y")).await;
    let node = &world.nodes[0].desk;
    until(async || node.says("tasuki outbox --json").await.contains("\"entries\":[]")).await;
    let inbox = world.nodes[1].desk.says("tasuki mail list inbox --role B --json").await;
    assert!(inbox.contains("in time"), "{inbox}");
}
