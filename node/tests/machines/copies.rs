//! A laptop that wakes with an old process beside a new one: one node, two processes.

use std::{fs, path::Path};

use rustix::process::Signal;

use crate::{
    agents::Transport,
    process::{Desk, until},
    seat::{Seat, Told},
    world::{World, soon},
};

/// Where the second process of a machine serves its agents.
const SECOND_MCP: ([u8; 4], u16) = ([127, 0, 0, 1], 7431);

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            fs::copy(&path, &copied).unwrap();
        }
    }
}

#[tokio::test]
#[ignore = "needs network namespaces"]
async fn an_old_process_that_wakes_beside_a_new_one_does_not_act() {
    let world = World::new(&["A", "B"]).await;
    let old = world.seat(0, "A", Transport::Session).await;
    let b = world.seat(1, "B", Transport::Stdio).await;
    assert_eq!(old.turn().await, 1);
    let desk = &world.nodes[0].desk;
    let beside = Desk { place: desk.place.clone(), home: desk.home.with_extension("copy") };
    copy(&desk.home, &beside.home);

    // Its agent's words are on their way when the laptop falls asleep.
    world.nodes[0].signal(Signal::STOP);
    let asleep = old.hand_over(1, "the old process said so");
    let line = "tasuki node --role A --listen 127.0.0.1:7431";
    let _second = beside.start(line, "(MCP)").await;
    let new = Seat::at(&beside, SECOND_MCP.into(), "A", Transport::Session).await;
    until(async || matches!(new.look().await, Told::Facts(it) if it["can_start"] == true)).await;
    new.pass(1).await;
    assert!(!asleep.is_finished());
    world.nodes[0].signal(Signal::CONT);

    let told = soon(asleep).await.unwrap();
    assert!(matches!(told, Told::Refused(..)), "{told:?}");
    assert_eq!(b.turn().await, 2);
    b.pass(2).await;
    // The turn is A's again, and both would like it.
    assert_eq!(new.turn().await, 3);
    let second = old.hand_over(3, "the old process said so again");
    let told = soon(second).await.unwrap();
    assert!(matches!(told, Told::Refused(..)), "{told:?}");
    new.pass(3).await;
    world.check(3).await;
    // What it was refused, it does not do later either.
    let told = old.look().await;
    assert!(matches!(told, Told::Refused(..)), "{told:?}");
    assert_eq!(world.history(1).await.len(), 3);
}
