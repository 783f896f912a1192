//! Two nodes on two machines take turns, while broker, node or what is between them fails.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    agents::Transport,
    net::{Trouble, Way},
    process::until,
    seat::{Seat, Told, turn_in, words},
    world::{World, soon},
};

/// What a node says once it misses its broker.
pub(crate) const MISSES_BROKER: &str = "the broker is out of reach";

/// How soon either side misses the other.
const MISSED_WITHIN: Duration = Duration::from_secs(15);

/// For a busy machine to say it.
const SLACK: Duration = Duration::from_secs(2);

/// How soon a node says that the broker is out of reach, if it knows.
const REFUSED_WITHIN: Duration = Duration::from_secs(4);

/// A and B play on until these turns have ended.
pub(crate) async fn play(a: &Seat, b: &Seat, turns: std::ops::RangeInclusive<u64>) {
    for turn in turns {
        let seat = if turn % 2 == 1 { a } else { b };
        assert_eq!(seat.turn().await, turn);
        seat.pass(turn).await;
    }
}

#[tokio::test]
#[ignore = "needs network namespaces"]
async fn twenty_turns_go_from_machine_to_machine() {
    let world = World::new(&["A", "B"]).await;
    let a = world.seat(0, "A", Transport::Session).await;
    let b = world.seat(1, "B", Transport::Stdio).await;
    play(&a, &b, 1..=20).await;
    world.check(20).await;
}

#[tokio::test]
#[ignore = "needs network namespaces"]
async fn a_killed_broker_or_node_comes_back_and_the_turns_go_on() {
    let mut world = World::new(&["A", "B"]).await;
    let a = world.seat(0, "A", Transport::Session).await;
    let b = world.seat(1, "B", Transport::Stdio).await;
    play(&a, &b, 1..=3).await;
    // A waits over all of it: neither the broker's end nor that of B's node is A's to notice.
    let wait = a.wait();
    until(async || world.is_waiting("A", 1).await).await;
    world.broker.kill().await;
    world.broker.start().await;
    world.nodes[1].kill().await;
    world.nodes[1].start().await;
    assert_eq!(b.turn().await, 4);
    b.pass(4).await;
    assert_eq!(turn_in(&soon(wait).await.unwrap().facts()), 5);
    a.pass(5).await;
    play(&a, &b, 6..=8).await;
    world.check(8).await;
}

/// Also tells that a peer that vanished without a word is missed in time.
#[tokio::test]
#[ignore = "needs network namespaces"]
async fn a_wait_goes_on_over_a_partition_that_both_sides_noticed() {
    let world = World::new(&["A", "B"]).await;
    let a = world.seat(0, "A", Transport::Session).await;
    let b = world.seat(1, "B", Transport::Stdio).await;
    play(&a, &b, 1..=1).await;
    let wait = a.wait();
    until(async || world.is_waiting("A", 1).await).await;
    let from = world.nodes[0].log_end();
    world.net.trouble(world.place(0), Way::Both, Trouble::Silence).await;
    let cut = Instant::now();
    let node = async {
        world.nodes[0].until_says(MISSES_BROKER, from).await;
        cut.elapsed()
    };
    let broker = async {
        until(async || !world.is_waiting("A", 1).await).await;
        cut.elapsed()
    };
    let (node, broker) = tokio::join!(node, broker);
    anstream::println!("missed by the node after {node:.1?}, by the broker after {broker:.1?}");
    assert!(node <= MISSED_WITHIN + SLACK, "{node:?}");
    assert!(broker <= MISSED_WITHIN + SLACK, "{broker:?}");

    assert_eq!(b.turn().await, 2);
    b.pass(2).await;
    assert!(!wait.is_finished());
    world.net.heal_all().await;
    assert_eq!(turn_in(&soon(wait).await.unwrap().facts()), 3);
    a.pass(3).await;
    world.check(3).await;
}

#[tokio::test]
#[ignore = "needs network namespaces"]
async fn a_handover_out_of_reach_is_refused_quickly_and_works_once_healed() {
    let world = World::new(&["A", "B"]).await;
    let a = world.seat(0, "A", Transport::Session).await;
    let b = world.seat(1, "B", Transport::Stdio).await;
    assert_eq!(a.turn().await, 1);
    let from = world.nodes[0].log_end();
    world.net.trouble(world.place(0), Way::Both, Trouble::Silence).await;
    world.nodes[0].until_says(MISSES_BROKER, from).await;
    let began = Instant::now();
    let told = soon(a.hand_over(1, &words("A", 1))).await.unwrap();
    let took = began.elapsed();
    anstream::println!("refused after {took:.1?}");
    let Told::Refused(code, result) = told else { panic!("{told:?}") };
    assert_eq!(code, "unavailable", "{result}");
    let error = &result["structuredContent"]["error"];
    assert_eq!((&error["retryable"], &error["maybe_applied"]), (&true.into(), &false.into()));
    assert!(took <= REFUSED_WITHIN, "{took:?}");
    world.net.heal_all().await;
    hand_over_until_done(&a, 1).await;
    play(&a, &b, 2..=3).await;
    world.check(3).await;
}

/// As agents do that are told to try again; how often that was.
pub(crate) async fn hand_over_until_done(seat: &Seat, turn: u64) -> usize {
    let mut again = 0;
    until(async || {
        let told = seat.hand_over(turn, &words(&seat.role, turn)).await.unwrap();
        match told {
            Told::Facts(done) => {
                assert_eq!(done["ended_turn"], turn, "{done}");
                return true;
            }
            Told::Refused(code, _) if code == "unavailable" || code == "outcome_unknown" => {}
            Told::Refused(..) | Told::Nothing(_) => panic!("{told:?}"),
        }
        again += 1;
        false
    })
    .await;
    again
}

#[tokio::test]
#[ignore = "needs network namespaces"]
async fn a_handover_whose_answer_is_cut_off_is_one_handover() {
    let world = World::new(&["A", "B"]).await;
    let a = world.seat(0, "A", Transport::Session).await;
    let b = world.seat(1, "B", Transport::Stdio).await;
    assert_eq!(a.turn().await, 1);
    // The node still reaches the broker, and hears nothing any more.
    world.net.trouble(world.place(0), Way::In, Trouble::Silence).await;
    let handing = a.hand_over(1, &words("A", 1));
    // B tells that it was done.
    assert_eq!(b.turn().await, 2);
    assert!(!handing.is_finished());
    world.net.heal_all().await;
    let done = soon(handing).await.unwrap().facts();
    assert_eq!((&done["ended_turn"], &done["repeated"]), (&1.into(), &false.into()), "{done}");
    b.pass(2).await;
    play(&a, &b, 3..=3).await;
    world.check(3).await;
}

#[tokio::test]
#[ignore = "needs network namespaces"]
async fn a_handover_that_does_not_get_out_is_carried_out_once_it_does() {
    let world = World::new(&["A", "B"]).await;
    let a = world.seat(0, "A", Transport::Session).await;
    let b = world.seat(1, "B", Transport::Stdio).await;
    assert_eq!(a.turn().await, 1);
    let wait = b.wait();
    // The node still hears the broker, and says nothing that arrives.
    let from = world.nodes[0].log_end();
    world.net.trouble(world.place(0), Way::Out, Trouble::Silence).await;
    let handing = a.hand_over(1, &words("A", 1));
    world.nodes[0].until_says(MISSES_BROKER, from).await;
    assert!(!handing.is_finished() && !wait.is_finished());
    world.net.heal_all().await;
    assert_eq!(soon(handing).await.unwrap().facts()["ended_turn"], 1);
    assert_eq!(turn_in(&soon(wait).await.unwrap().facts()), 2);
    b.pass(2).await;
    play(&a, &b, 3..=3).await;
    world.check(3).await;
}

#[tokio::test]
#[ignore = "needs network namespaces"]
async fn an_outcome_that_stays_unknown_is_told_so_and_the_repeat_is_recognised() {
    let world = World::new(&["A", "B"]).await;
    let a = world.seat(0, "A", Transport::Session).await;
    let b = world.seat(1, "B", Transport::Stdio).await;
    assert_eq!(a.turn().await, 1);
    world.net.trouble(world.place(0), Way::In, Trouble::Silence).await;
    let told = soon(a.hand_over(1, &words("A", 1))).await.unwrap();
    let Told::Refused(code, result) = told else { panic!("{told:?}") };
    assert_eq!(code, "outcome_unknown", "{result}");
    assert_eq!(result["structuredContent"]["error"]["maybe_applied"], true);
    assert_eq!(b.turn().await, 2);
    world.net.heal_all().await;
    hand_over_until_done(&a, 1).await;
    let again = soon(a.hand_over(1, &words("A", 1))).await.unwrap().facts();
    assert_eq!(again["repeated"], true, "{again}");
    b.pass(2).await;
    play(&a, &b, 3..=3).await;
    world.check(3).await;
}

#[tokio::test]
#[ignore = "needs network namespaces"]
async fn resets_in_mid_call_cost_nothing_but_time() {
    let world = World::new(&["A", "B"]).await;
    let a = world.seat(0, "A", Transport::Session).await;
    let b = world.seat(1, "B", Transport::Stdio).await;
    assert_eq!(a.turn().await, 1);
    let wait = b.wait();
    until(async || world.is_waiting("B", 0).await).await;
    let from = world.nodes[0].log_end();
    world.net.trouble(world.host(), Way::Both, Trouble::Reset).await;
    let handing = a.hand_over(1, &words("A", 1));
    world.nodes[0].until_says(MISSES_BROKER, from).await;
    assert!(!handing.is_finished() && !wait.is_finished());
    world.net.heal_all().await;
    assert_eq!(soon(handing).await.unwrap().facts()["ended_turn"], 1);
    assert_eq!(turn_in(&soon(wait).await.unwrap().facts()), 2);
    b.pass(2).await;
    play(&a, &b, 3..=3).await;
    world.check(3).await;
}
