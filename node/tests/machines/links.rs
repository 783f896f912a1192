//! Networks that are bad rather than gone, and machines that change theirs.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    agents::Transport,
    net::{Trouble, Way},
    process::until,
    seat::turn_in,
    turns::{MISSES_BROKER, hand_over_until_done, play},
    world::{World, soon},
};

/// How long the network is bad.
const BAD_FOR: Duration = Duration::from_secs(20);

/// How soon a node is back once its machine is.
const BACK_WITHIN: Duration = Duration::from_secs(2);

#[tokio::test]
#[ignore = "needs network namespaces"]
async fn turns_go_on_where_three_packets_in_ten_are_lost() {
    let world = World::new(&["A", "B"]).await;
    let seats =
        [world.seat(0, "A", Transport::Session).await, world.seat(1, "B", Transport::Stdio).await];
    world.net.trouble(world.host(), Way::Both, Trouble::Loss(30)).await;
    let bad_until = Instant::now() + BAD_FOR;
    let (mut turn, mut again) = (1, 0);
    while Instant::now() < bad_until {
        let seat = &seats[usize::from(turn % 2 == 0)];
        // The wait is the node's to keep, whatever happens to its connections.
        assert_eq!(seat.turn().await, turn);
        again += hand_over_until_done(seat, turn).await;
        turn += 1;
    }
    world.net.heal_all().await;
    anstream::println!("{} turns, {again} calls made again", turn - 1);
    let seat = &seats[usize::from(turn % 2 == 0)];
    assert_eq!(seat.turn().await, turn);
    // What was cut is noticed with the first call at the latest.
    hand_over_until_done(seat, turn).await;
    world.check(turn).await;
}

/// A waits while its machine is away; how long after `comes_back` it has its turn.
async fn back_after(world: &World, comes_back: impl AsyncFnOnce()) -> Duration {
    let a = world.seat(0, "A", Transport::Session).await;
    let b = world.seat(1, "B", Transport::Stdio).await;
    play(&a, &b, 1..=1).await;
    let wait = a.wait();
    until(async || world.is_waiting("A", 1).await).await;
    let from = world.nodes[0].log_end();
    world.place(0).link(false).await;
    world.nodes[0].until_says(MISSES_BROKER, from).await;
    assert_eq!(b.turn().await, 2);
    b.pass(2).await;
    assert!(!wait.is_finished());
    comes_back().await;
    let back = Instant::now();
    let answer = soon(wait).await.unwrap().facts();
    let took = back.elapsed();
    assert_eq!(turn_in(&answer), 3);
    a.pass(3).await;
    world.check(3).await;
    took
}

#[tokio::test]
#[ignore = "needs network namespaces"]
async fn a_node_is_back_with_its_link() {
    let world = World::new(&["A", "B"]).await;
    let took = back_after(&world, async || world.place(0).link(true).await).await;
    anstream::println!("back {took:.1?} after the link");
    assert!(took <= BACK_WITHIN, "{took:?}");
}

#[tokio::test]
#[ignore = "needs network namespaces"]
async fn a_node_is_back_when_its_machine_has_another_address() {
    let world = World::new(&["A", "B"]).await;
    let a = world.seat(0, "A", Transport::Session).await;
    let b = world.seat(1, "B", Transport::Stdio).await;
    play(&a, &b, 1..=1).await;
    let wait = a.wait();
    until(async || world.is_waiting("A", 1).await).await;
    // The old connections are dead, and nothing says so.
    world.place(0).roam().await;
    let back = Instant::now();
    assert_eq!(b.turn().await, 2);
    b.pass(2).await;
    let answer = soon(wait).await.unwrap().facts();
    let took = back.elapsed();
    anstream::println!("back {took:.1?} after the address");
    assert_eq!(turn_in(&answer), 3);
    a.pass(3).await;
    world.check(3).await;
    assert!(took <= BACK_WITHIN, "{took:?}");
}

/// The broker's end of a connection is reset, and nobody tells the watcher's.
#[tokio::test]
#[ignore = "needs network namespaces"]
async fn whoever_watches_is_not_left_on_a_dead_connection() {
    let world = World::new(&["A", "B"]).await;
    let a = world.seat(0, "A", Transport::Session).await;
    let desk = &world.nodes[1].desk;
    let (_watch, path) = desk.watch().await;
    let handovers = || std::fs::read_to_string(&path).unwrap().matches("handed_over").count();
    let from = world.nodes[1].log_end();
    world.net.trouble(world.place(1), Way::In, Trouble::Reset).await;
    assert_eq!(a.turn().await, 1);
    a.pass(1).await;
    world.nodes[1].until_says(MISSES_BROKER, from).await;
    assert_eq!(handovers(), 0);
    world.net.heal_all().await;
    until(async || handovers() == 1).await;
}
