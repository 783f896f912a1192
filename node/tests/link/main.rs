//! A node against a broker that dies, loses answers and forgets who is who.

mod asking;
mod fake;
mod killed;
mod known;
mod lost;
mod mail;
mod outbox;
mod private;

use std::{path::Path, sync::Arc, time::Duration};

use futures::FutureExt as _;
use tasuki_node::{
    identity::Identity,
    link::{self, CALLS_MAX, Link, Phase},
    node::{Node, RoleSpec, Settings},
    role::{Actions, HandOver, player::Instance},
};
use tasuki_proto::{
    id::{LoopId, RoleId},
    limits::WAITS_PER_STREAM_MAX,
    reason::Reason,
    wire::mark_turn_request::Mark,
};
use tokio::task::unconstrained;

use self::{
    asking::{AskLink as _, Await as _},
    fake::Fake,
};

const LONG: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_secs(20);

fn main_loop() -> LoopId {
    "main".parse().expect("an id")
}

fn named(loop_id: &str) -> LoopId {
    loop_id.parse().expect("an id")
}

fn to(role: &str) -> HandOver {
    HandOver {
        loop_id: main_loop(),
        summary: "did".to_owned(),
        instruction: "do".to_owned(),
        is_task_complete: false,
        to: Some(role.parse().expect("an id")),
        turn: None,
        key: None,
    }
}

struct Bench {
    fake: Fake,
    node: Node,
    data: tempfile::TempDir,
}

fn settings(fake: &Fake, data: &Path) -> Settings {
    let role = |name: &str| RoleSpec {
        role: name.parse().expect("an id"),
        toolsets: vec!["loop".parse().expect("an id")],
        is_standby: false,
    };
    Settings {
        broker: fake.url(),
        carrier: None,
        workspace: "default".parse().expect("an id"),
        roles: vec![role("A"), role("B")],
        data: data.to_owned(),
        take_over: false,
        is_moved: false,
    }
}

async fn start(mut fake: Fake) -> Bench {
    fake.serve();
    let data = tempfile::tempdir().expect("a directory");
    let node = Node::start(settings(&fake, data.path())).await.expect("started");
    connected(&node).await;
    Bench { fake, node, data }
}

async fn connected(node: &Node) {
    until(node, "connected", |phase| *phase == Phase::Connected).await;
}

async fn until(node: &Node, what: &str, holds: impl Fn(&Phase) -> bool) {
    let mut link = node.watch_link();
    let changed = tokio::time::timeout(SOON, link.wait_for(|state| holds(&state.phase))).await;
    changed.unwrap_or_else(|_| panic!("not {what}: {:?}", node.link_state())).expect("watched");
}

impl Bench {
    fn role(&self, name: &str) -> Arc<dyn Actions> {
        let role: RoleId = name.parse().expect("an id");
        self.node.actions(&role).expect("hosted here")
    }

    fn awaiting(
        &self,
        name: &str,
    ) -> tokio::task::JoinHandle<Result<tasuki_proto::wire::TurnAnswer, tasuki_node::role::Refusal>>
    {
        let role = self.role(name);
        tokio::spawn(async move { role.await_turn(&main_loop(), LONG).await })
    }

    async fn parked(&self, count: usize) {
        self.fake.until("parked", |world| world.parked.len() == count).await;
    }
}

#[tokio::test]
async fn a_handover_wakes_who_waits_for_it() {
    let bench = start(Fake::new()).await;
    let waiting = bench.awaiting("B");
    bench.parked(1).await;
    let done = bench.role("A").hand_over(to("B")).await.expect("A holds the turn");
    assert_eq!((done.ended_turn, done.turn, done.to.as_str()), (1, 2, "B"));
    let answer = waiting.await.expect("ran").expect("answered");
    assert!(answer.can_start && answer.turn == 2, "{answer:?}");
    let refusal = bench.role("A").hand_over(to("B")).await.expect_err("B holds the turn");
    assert_eq!(refusal.reason, Reason::NotYourTurn);
    let status = bench.role("A").loop_status(&main_loop()).await.expect("there");
    assert_eq!(status.ago, None);
    assert_eq!(status.what.r#loop.expect("a loop").holder, "B");
}

#[tokio::test]
async fn a_wait_outlives_the_broker() {
    let mut bench = start(Fake::new()).await;
    let waiting = bench.awaiting("B");
    bench.parked(1).await;
    bench.fake.kill().await;
    bench.fake.serve();
    bench.parked(1).await;
    let world = bench.fake.world.borrow().clone();
    assert_eq!((world.streams, world.registrations.len()), (2, 1), "parked again, known still");
    assert!(world.parked.values().all(|question| question.hold_ms <= 600_000));
    bench.fake.change(|world| world.holder = "B".to_owned());
    assert!(waiting.await.expect("ran").expect("answered").can_start);
}

#[tokio::test]
async fn a_wait_that_a_stopping_broker_lets_go_is_parked_again() {
    let bench = start(Fake::new()).await;
    let waiting = bench.awaiting("B");
    bench.parked(1).await;
    bench.fake.change(|world| world.is_stopping = true);
    bench.fake.until("asked again", |world| 2 <= world.streams).await;
    bench.fake.change(|world| {
        world.is_stopping = false;
        world.holder = "B".to_owned();
    });
    assert!(waiting.await.expect("ran").expect("answered").can_start);
}

#[tokio::test]
async fn a_command_whose_answer_was_lost_is_sent_again_under_its_key() {
    let mut bench = start(Fake::new()).await;
    bench.fake.change(|world| world.is_mute = true);
    let role = bench.role("A");
    let handing = tokio::spawn(async move { role.hand_over(to("B")).await });
    bench.fake.until("carried out", |world| world.turn == 2).await;
    bench.fake.kill().await;
    bench.fake.change(|world| world.is_mute = false);
    bench.fake.serve();
    let done = handing.await.expect("ran").expect("answered");
    assert_eq!((done.turn, done.to.as_str()), (2, "B"));
    let world = bench.fake.world.borrow().clone();
    assert_eq!(world.turn, 2, "once");
    assert!(2 <= world.keys.len() && world.keys.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn a_handover_is_carried_through_though_its_caller_left() {
    let mut bench = start(Fake::new()).await;
    bench.fake.change(|world| world.is_mute = true);
    let role = bench.role("A");
    let handing = tokio::spawn(async move { role.hand_over(to("B")).await });
    bench.fake.until("carried out", |world| world.keys.len() == 1).await;
    handing.abort();
    bench.fake.kill().await;
    bench.fake.change(|world| {
        world.is_mute = false;
        // As if the broker had died before it wrote anything down.
        (world.turn, world.holder) = (1, "A".to_owned());
        world.answers.clear();
    });
    bench.fake.serve();
    bench.fake.until("sent again", |world| world.keys.len() == 2 && world.turn == 2).await;
}

#[tokio::test]
async fn a_newer_wait_supersedes_the_older() {
    let bench = start(Fake::new()).await;
    let older = bench.awaiting("B");
    bench.parked(1).await;
    let newer = bench.awaiting("B");
    let answer = older.await.expect("ran").expect("answered");
    assert!(answer.superseded && !answer.can_start, "{answer:?}");
    bench.fake.until("one left", |world| world.parks == 2 && world.parked.len() == 1).await;
    bench.fake.change(|world| world.holder = "B".to_owned());
    assert!(newer.await.expect("ran").expect("answered").can_start);
}

#[tokio::test]
async fn a_wait_that_the_broker_calls_superseded_ends_alone() {
    let bench = start(Fake::new()).await;
    let role = bench.role("B");
    let elsewhere = tokio::spawn(async move { role.await_turn(&named("side"), LONG).await });
    bench.parked(1).await;
    let waiting = bench.awaiting("B");
    bench.parked(2).await;
    bench.fake.change(|world| world.superseded = vec![2]);
    let answer = waiting.await.expect("ran").expect("answered");
    assert!(answer.superseded && !answer.can_start, "{answer:?}");
    bench.fake.change(|world| world.holder = "B".to_owned());
    assert!(elsewhere.await.expect("ran").expect("answered").can_start);
    let world = bench.fake.world.borrow();
    assert_eq!((world.streams, world.parks), (1, 2), "the other wait stayed where it was");
}

#[tokio::test]
async fn a_wait_that_is_dropped_before_it_was_taken_up_is_not_parked() {
    const DROPPED: usize = 50;
    let mut fake = Fake::new();
    fake.serve();
    let data = tempfile::tempdir().expect("a directory");
    let identity = Arc::new(Identity::open(data.path()).expect("a directory of its own"));
    let settings = link::Settings {
        broker: fake.url(),
        carrier: None,
        workspace: "default".parse().expect("an id"),
        node: identity.node().clone(),
        roles: Vec::new(),
        take_over: false,
    };
    let link = Link::start(settings, identity).expect("an address");
    let role: RoleId = "B".parse().expect("an id");
    let (live, last) = (named("live"), named("last"));
    let mut live = Box::pin(link.await_turn(&role, &live, LONG));
    assert!(live.as_mut().now_or_never().is_none());
    fake.until("parked", |world| world.parked.len() == 1).await;
    for number in 0..DROPPED {
        // It asks, and is gone before anybody else on this thread hears of it.
        let name = named(&format!("l{number}"));
        let asked = unconstrained(link.await_turn(&role, &name, LONG)).now_or_never();
        assert!(asked.is_none());
    }
    // Whatever was asked before it has been heard when it is parked.
    let mut last = Box::pin(unconstrained(link.await_turn(&role, &last, LONG)));
    assert!(last.as_mut().now_or_never().is_none());
    let is_last = |question: &tasuki_proto::wire::TurnQuestion| question.r#loop == "last";
    let parked = |world: &fake::World| world.parked.values().any(is_last);
    fake.until("the last is parked", parked).await;
    fake.until("no other is", |world| world.parked.len() == 2).await;
    link.abandon();
}

#[tokio::test]
async fn a_wait_that_was_dropped_is_removed_at_the_broker() {
    let bench = start(Fake::new()).await;
    let waiting = bench.awaiting("B");
    bench.parked(1).await;
    waiting.abort();
    bench.parked(0).await;
    assert_eq!(bench.fake.world.borrow().streams, 1, "by a cancel, not by hanging up");
}

#[tokio::test]
async fn a_node_whose_epoch_is_stale_registers_again_and_goes_on() {
    let bench = start(Fake::new()).await;
    let waiting = bench.awaiting("B");
    bench.parked(1).await;
    bench.fake.change(|world| world.epoch = 1_000);
    bench.role("A").hand_over(to("B")).await.expect("registered again, then carried out");
    let world = bench.fake.until("twice", |world| world.registrations.len() == 2).await;
    assert_eq!(world.turn, 2);
    let keys: Vec<_> = world.registrations.iter().filter_map(|r| r.key.clone()).collect();
    assert!(keys[0].counter < keys[1].counter, "another intent: {keys:?}");
    assert!(waiting.await.expect("ran").expect("answered").can_start);
}

#[tokio::test]
async fn a_node_that_another_process_took_over_says_so_and_does_not_fight() {
    let bench = start(Fake::new()).await;
    bench.fake.change(|world| (world.epoch, world.rival) = (1_000, Some(1_000)));
    until(&bench.node, "fenced", |phase| matches!(phase, Phase::Refused(_))).await;
    let refusal = bench.role("A").hand_over(to("B")).await.expect_err("fenced");
    assert_eq!(refusal.reason, Reason::StaleEpoch);
    let refusal = bench.role("B").await_turn(&main_loop(), LONG).await.expect_err("fenced");
    assert_eq!(refusal.reason, Reason::StaleEpoch);
    assert_eq!(bench.fake.world.borrow().registrations.len(), 1);
    bench.fake.change(|world| world.rival = None);
    connected(&bench.node).await;
    bench.role("A").hand_over(to("B")).await.expect("the rival is gone");
}

#[tokio::test]
async fn roles_in_use_elsewhere_are_reported_until_they_are_free() {
    let mut fake = Fake::new();
    fake.change(|world| world.refuse_roles = true);
    fake.serve();
    let data = tempfile::tempdir().expect("a directory");
    let node = Node::start(settings(&fake, data.path())).await.expect("started");
    until(&node, "refused", |phase| matches!(phase, Phase::Refused(_))).await;
    let role = node.actions(&"A".parse().expect("an id")).expect("hosted");
    let refusal = role.hand_over(to("B")).await.expect_err("not registered");
    assert_eq!(refusal.reason, Reason::RoleInUse);
    assert!(refusal.message.contains("take-over"), "{refusal}");
    fake.change(|world| world.refuse_roles = false);
    connected(&node).await;
    node.shutdown(SOON).await;
    let taking = Settings { take_over: true, ..settings(&fake, data.path()) };
    fake.change(|world| world.refuse_roles = true);
    let node = Node::start(taking).await.expect("started");
    connected(&node).await;
}

#[tokio::test]
async fn heartbeats_tell_who_is_there() {
    let bench = start(Fake::new()).await;
    let heard = |role: &'static str, client: &'static str| {
        move |world: &fake::World| {
            let last = world.heartbeats.back().map(|beat| beat.roles.as_slice());
            last.unwrap_or_default().iter().any(|r| r.role == role && r.client == client)
        }
    };
    assert!(bench.fake.world.borrow().heartbeats.iter().all(|beat| beat.roles.is_empty()));
    bench.role("A").called("codex 1", None);
    bench.fake.until("A called", heard("A", "codex 1")).await;
    let zed = Instance::new(Some("zed".parse().unwrap()), None);
    let open = bench.role("B").connected(&zed);
    bench.role("B").called("zed 2", Some(&zed));
    let world = bench.fake.until("B connected", heard("B", "zed 2")).await;
    let quiet = |world: &fake::World, role: &str| {
        let last = world.heartbeats.back().expect("one");
        last.roles.iter().find(|r| r.role == role).expect("told").quiet_ms
    };
    assert_eq!(quiet(&world, "B"), 0);
    bench.fake.until("A is quiet", move |world| 0 < quiet(world, "A")).await;
    drop(open);
    bench.fake.until("B is quiet", move |world| 0 < quiet(world, "B")).await;
    let waiting = bench.awaiting("B");
    bench.fake.until("B waits", move |world| quiet(world, "B") == 0).await;
    waiting.abort();
    bench.fake.until("B left", move |world| 0 < quiet(world, "B")).await;
}

/// Leases that are shorter now take signs of life that come sooner.
#[tokio::test]
async fn heartbeats_come_as_often_as_the_last_answer_says() {
    const NEVER_MS: u64 = 60_000;
    let fake = Fake::new();
    fake.change(|world| (world.heartbeat_ms, world.next_heartbeat_ms) = (NEVER_MS, 20));
    let bench = start(fake).await;
    bench.fake.until("several", |world| 3 <= world.heartbeats.len()).await;
}

#[tokio::test]
async fn receipts_are_reported_once_each() {
    let bench = start(Fake::new()).await;
    let role = bench.role("A");
    for turn in [1, 1, 2] {
        role.mark_handed(&main_loop(), turn.into());
        role.mark_seen(&main_loop(), turn.into());
    }
    let world = bench.fake.until("reported", |world| 4 <= world.marks.len()).await;
    let marks: Vec<_> = world.marks.iter().map(|mark| (mark.turn, mark.mark())).collect();
    let expected = [(1, Mark::Handed), (1, Mark::Seen), (2, Mark::Handed), (2, Mark::Seen)];
    assert_eq!(marks, expected);
}

#[tokio::test]
async fn no_key_is_used_twice_over_a_restart() {
    let Bench { fake, node, data } = start(Fake::new()).await;
    let hand_over = async |node: &Node, from: &str, next: &str| {
        let role = node.actions(&from.parse().expect("an id")).expect("hosted");
        role.hand_over(to(next)).await.expect("carried out");
    };
    hand_over(&node, "A", "B").await;
    let id = node.id().clone();
    node.shutdown(SOON).await;
    let node = Node::start(settings(&fake, data.path())).await.expect("the directory is free");
    assert_eq!(node.id(), &id);
    connected(&node).await;
    hand_over(&node, "B", "A").await;
    let keys = fake.world.borrow().keys.clone();
    assert!(keys[0].0 == keys[1].0 && keys[0].1 < keys[1].1, "{keys:?}");
}

#[tokio::test]
async fn a_node_on_a_restored_data_directory_becomes_a_new_client() {
    let Bench { fake, node, data } = start(Fake::new()).await;
    let id = node.id().clone();
    node.shutdown(SOON).await;
    fake.change(|world| world.counters.values_mut().for_each(|newest| *newest += 1_000_000));
    let node = Node::start(settings(&fake, data.path())).await.expect("started");
    connected(&node).await;
    assert_eq!(node.id(), &id);
    assert_eq!(fake.world.borrow().counters.len(), 2);
}

#[tokio::test]
async fn calls_under_way_are_bounded() {
    let bench = start(Fake::new()).await;
    bench.fake.change(|world| world.is_mute = true);
    let role = bench.role("A");
    let call = || {
        let role = role.clone();
        tokio::spawn(async move { role.hand_over(to("A")).await })
    };
    let mut calls: Vec<_> = (0..16).map(|_| call()).collect();
    bench.fake.until("all there", |world| world.turn == 17).await;
    let refusal = call().await.expect("ran").expect_err("too many");
    assert_eq!(refusal.reason, Reason::Overloaded);
    calls.drain(..).for_each(|call| call.abort());
}

/// Holds L3.
#[tokio::test]
async fn waits_are_bounded() {
    let fake = Fake::new();
    let data = tempfile::tempdir().expect("a directory");
    let identity = Arc::new(Identity::open(data.path()).expect("free"));
    let settings = link::Settings {
        broker: fake.url(),
        carrier: None,
        workspace: "default".parse().expect("an id"),
        node: identity.node().clone(),
        roles: Vec::new(),
        take_over: false,
    };
    let link = Link::start(settings, identity).expect("an address");
    let role = |number: usize| -> RoleId { format!("r{number}").parse().expect("an id") };
    let (roles, main): (Vec<_>, _) = ((0..=WAITS_PER_STREAM_MAX).map(role).collect(), main_loop());
    let mut open = Vec::new();
    // A place is left for each look there may be.
    for role in &roles[..WAITS_PER_STREAM_MAX - CALLS_MAX] {
        let mut wait = Box::pin(unconstrained(link.await_turn(role, &main, LONG)));
        assert!(wait.as_mut().now_or_never().is_none(), "nobody answers yet");
        open.push(wait);
    }
    let role = &roles[WAITS_PER_STREAM_MAX];
    let refusal = link.await_turn(role, &main, LONG).await.expect_err("too many");
    assert_eq!(refusal.reason, Reason::Overloaded);
    let mut look = Box::pin(unconstrained(link.await_turn(role, &main, Duration::ZERO)));
    assert!(look.as_mut().now_or_never().is_none(), "it has a place of its own");
    drop(open.pop());
    let mut wait = Box::pin(unconstrained(link.await_turn(role, &main, LONG)));
    assert!(wait.as_mut().now_or_never().is_none(), "there is room again");
    drop((open, look, wait));
    link.shutdown(SOON).await;
}

#[tokio::test]
async fn a_broker_that_is_not_there_is_named_soon_and_found_when_it_comes() {
    let mut fake = Fake::new();
    let data = tempfile::tempdir().expect("a directory");
    let node = Node::start(settings(&fake, data.path())).await.expect("started all the same");
    until(&node, "down", |phase| matches!(phase, Phase::Down(_))).await;
    let role = node.actions(&"A".parse().expect("an id")).expect("hosted");
    let main = main_loop();
    let (handed, turn) =
        tokio::join!(role.hand_over(to("B")), role.await_turn(&main, Duration::ZERO));
    for refusal in [handed.expect_err("nobody there"), turn.expect_err("nobody there")] {
        assert_eq!(refusal.reason, Reason::Unavailable);
        assert!(refusal.message.contains(&fake.url()), "{refusal}");
    }
    fake.serve();
    role.await_turn(&main_loop(), LONG).await.expect("answered");
    role.hand_over(to("B")).await.expect("carried out");
}

/// Holds L3.
#[tokio::test]
async fn a_node_that_stops_answers_its_waits() {
    let bench = start(Fake::new()).await;
    let waiting = bench.awaiting("B");
    bench.parked(1).await;
    let role = bench.role("B");
    let Bench { node, data, fake } = bench;
    role.mark_seen(&main_loop(), 1.into());
    node.shutdown(SOON).await;
    let answer = waiting.await.expect("ran").expect("answered");
    assert!(answer.still_waiting, "{answer:?}");
    assert_eq!(fake.world.borrow().marks.len(), 1, "what was to be told was told");
    let refusal = role.hand_over(to("B")).await.expect_err("stopped");
    assert_eq!(refusal.reason, Reason::Unavailable);
    Node::start(settings(&fake, data.path())).await.expect("the directory is free");
}

/// Holds L1.
#[tokio::test]
async fn a_command_that_outlasts_the_node_is_not_called_undone() {
    let bench = start(Fake::new()).await;
    bench.fake.change(|world| world.is_mute = true);
    let role = bench.role("A");
    let handing = tokio::spawn(async move { role.hand_over(to("B")).await });
    bench.fake.until("carried out", |world| world.turn == 2).await;
    bench.node.shutdown(Duration::from_millis(1)).await;
    let refusal = handing.await.expect("ran").expect_err("nobody answered");
    assert_eq!(refusal.reason, Reason::OutcomeUnknown);
}
