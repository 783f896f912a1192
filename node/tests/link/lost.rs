//! Networks that lose what is sent, and machines that move.

use std::{sync::Arc, time::Duration};

use tasuki_node::{
    identity::Identity,
    link::{self, Link, LinkState, Phase},
};
use tasuki_proto::{id::RoleId, reason::Reason, wire};
use tokio::time::Instant;

use crate::{
    LONG, SOON,
    asking::AskLink as _,
    fake::{Fake, World, proxy::Proxy},
    main_loop, to,
};

/// What keep-alives promise.
const MISSED: Duration = Duration::from_secs(15);

/// Longer than any test: heartbeats find nothing out.
const NEVER_MS: u64 = 60_000;

struct Line {
    fake: Fake,
    proxy: Proxy,
    link: Link,
    _data: tempfile::TempDir,
}

impl Line {
    async fn new() -> Self {
        let mut fake = Fake::new();
        fake.change(|world| world.heartbeat_ms = NEVER_MS);
        fake.serve();
        let proxy = Proxy::new(fake.address, None).await;
        let data = tempfile::tempdir().expect("a directory");
        let link = start(&format!("http://{}", proxy.address), data.path());
        let line = Self { fake, proxy, link, _data: data };
        line.until("connected", SOON, LinkState::is_connected).await;
        line
    }

    async fn until(&self, what: &str, within: Duration, holds: impl Fn(&LinkState) -> bool) {
        until(&self.link, what, within, holds).await;
    }

    /// A wait of B, parked.
    async fn waiting(
        &self,
    ) -> tokio::task::JoinHandle<Result<wire::TurnAnswer, tasuki_node::role::Refusal>> {
        let link = self.link.clone();
        let waiting =
            tokio::spawn(async move { link.await_turn(&role("B"), &main_loop(), LONG).await });
        self.fake.until("parked", is_parked_on(1)).await;
        // What comes back over the stream says that the node knows it is open.
        let looked = self.link.await_turn(&role("C"), &main_loop(), Duration::ZERO).await;
        assert!(looked.expect("answered").still_waiting);
        waiting
    }
}

/// Whether B's wait is parked on the stream with this number.
fn is_parked_on(stream: u64) -> impl Fn(&World) -> bool {
    move |world| world.parked.iter().any(|((on, _), asked)| *on == stream && asked.role == "B")
}

pub(crate) fn role(name: &str) -> RoleId {
    name.parse().expect("an id")
}

pub(crate) fn start(broker: &str, data: &std::path::Path) -> Link {
    let identity = Arc::new(Identity::open(data).expect("a directory of its own"));
    let settings = link::Settings {
        broker: broker.to_owned(),
        carrier: None,
        workspace: "default".parse().expect("an id"),
        node: identity.node().clone(),
        roles: Vec::new(),
        take_over: false,
    };
    Link::start(settings, identity).expect("a link")
}

pub(crate) async fn until(
    link: &Link,
    what: &str,
    within: Duration,
    holds: impl Fn(&LinkState) -> bool,
) {
    let mut state = link.state();
    let changed = tokio::time::timeout(within, state.wait_for(|state| holds(state))).await;
    let held = changed.map(|state| state.is_ok());
    assert_eq!(held, Ok(true), "not {what}: {:?}", link.state().borrow());
}

fn is_down(state: &LinkState) -> bool {
    matches!(state.phase, Phase::Down(_))
}

#[tokio::test]
async fn a_look_leaves_a_connection_that_stands() {
    let line = Line::new().await;
    let waiting = line.waiting().await;
    let (made, before) = (line.proxy.made(), line.fake.world.borrow().heartbeats.len());
    let looking = async {
        while line.fake.world.borrow().heartbeats.len() < before + 3 {
            line.link.look();
            line.link.loop_status(&main_loop()).await.expect("told");
        }
    };
    tokio::time::timeout(SOON, looking).await.expect("asked");
    let world = line.fake.world.borrow().clone();
    assert_eq!((line.proxy.made(), world.streams), (made, 1));
    assert!(is_parked_on(1)(&world));
    line.fake.change(|world| world.holder = "B".to_owned());
    assert!(waiting.await.expect("ran").expect("answered").can_start);
}

#[tokio::test]
async fn a_connection_that_did_not_live_through_a_move_is_made_anew_at_once() {
    let line = Line::new().await;
    let waiting = line.waiting().await;
    line.proxy.swallow();
    let moved = Instant::now();
    line.link.look();
    line.fake.until("parked again", is_parked_on(2)).await;
    assert!(moved.elapsed() < Duration::from_secs(4), "{:?}", moved.elapsed());
    // Where cores are busy the new one may be doubted once, too.
    let made = line.proxy.made();
    assert!((2..=3).contains(&made), "{made}");
    line.fake.change(|world| world.holder = "B".to_owned());
    assert!(waiting.await.expect("ran").expect("answered").can_start);
    assert_eq!(line.fake.world.borrow().registrations.len(), 1, "the registration held");
}

#[tokio::test]
async fn a_connection_that_died_before_the_first_wait_is_made_anew_and_the_wait_asked_at_once() {
    let line = Line::new().await;
    line.proxy.swallow();
    let (link, began) = (line.link.clone(), Instant::now());
    let waiting =
        tokio::spawn(async move { link.await_turn(&role("B"), &main_loop(), LONG).await });
    line.fake.until("parked", is_parked_on(1)).await;
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    line.fake.change(|world| world.holder = "B".to_owned());
    assert!(waiting.await.expect("ran").expect("answered").can_start);
}

#[tokio::test]
async fn a_wait_that_the_broker_may_have_been_asked_is_asked_again_however_long_it_is_away() {
    let mut line = Line::new().await;
    line.fake.change(|world| world.opens_no_stream = true);
    let link = line.link.clone();
    let waiting =
        tokio::spawn(async move { link.await_turn(&role("B"), &main_loop(), LONG).await });
    line.fake.until("parked", is_parked_on(1)).await;
    line.fake.kill().await;
    line.until("down", SOON, is_down).await;
    // What was never asked is given up meanwhile.
    let never = line.link.await_turn(&role("C"), &main_loop(), LONG).await;
    let never = never.expect_err("nobody there");
    assert!(never.message.contains("so there is no answer"), "{never}");
    assert!(!never.message.contains("Nothing was sent"), "{never}");
    let search = line.link.ask(&role("C"), wire::SearchMailRequest::default()).await;
    let search = search.expect_err("nobody there");
    assert!(search.message.contains("nothing was changed, and what is there stays"), "{search}");
    assert!(!waiting.is_finished(), "{:?}", waiting.await);
    line.fake.change(|world| world.opens_no_stream = false);
    line.fake.serve();
    line.fake.until("parked again", is_parked_on(2)).await;
    line.fake.change(|world| world.holder = "B".to_owned());
    assert!(waiting.await.expect("ran").expect("answered").can_start);
}

/// Holds L1.
#[tokio::test]
async fn what_may_have_been_asked_is_not_called_unsent() {
    let line = Line::new().await;
    line.proxy.swallow_all();
    let (main, a) = (main_loop(), role("A"));
    let (look, read) = tokio::join!(
        line.link.await_turn(&a, &main, Duration::ZERO),
        line.link.ask(&a, wire::SearchMailRequest::default()),
    );
    for refusal in [look.expect_err("nobody answers"), read.expect_err("nobody answers")] {
        assert_eq!(refusal.reason, Reason::Unavailable);
        assert!(refusal.message.contains("nothing was changed"), "{refusal}");
        assert!(!refusal.message.contains("Nothing was sent"), "{refusal}");
    }
}

#[tokio::test]
async fn a_command_on_a_connection_that_died_is_carried_out_once_over_the_next() {
    let line = Line::new().await;
    line.fake.change(|world| world.is_mute = true);
    let link = line.link.clone();
    let handing = tokio::spawn(async move { link.hand_over(&role("A"), &to("B")).await });
    line.fake.until("carried out", |world| world.turn == 2).await;
    line.fake.change(|world| world.is_mute = false);
    line.proxy.swallow();
    line.link.look();
    let done = handing.await.expect("ran").expect("answered");
    assert_eq!((done.turn, done.to.as_str()), (2, "B"));
    let world = line.fake.world.borrow().clone();
    assert_eq!(world.turn, 2);
    assert!(2 <= world.keys.len() && world.keys.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn a_peer_that_vanished_is_missed_whether_or_not_something_is_under_way() {
    let (idle, waits, calls) = tokio::join!(Line::new(), Line::new(), Line::new());
    let waiting = waits.waiting().await;
    calls.fake.change(|world| world.is_mute = true);
    let link = calls.link.clone();
    let handing = tokio::spawn(async move { link.hand_over(&role("A"), &to("B")).await });
    calls.fake.until("carried out", |world| world.turn == 2).await;
    for line in [&idle, &waits, &calls] {
        line.proxy.swallow_all();
    }
    tokio::join!(
        idle.until("idle: down", MISSED, is_down),
        waits.until("waiting: down", MISSED, is_down),
        calls.until("calling: down", MISSED, is_down),
    );
    assert!(!waiting.is_finished(), "it is kept: {:?}", waiting.await);
    assert!(!handing.is_finished(), "it is tried on: {:?}", handing.await);
    calls.fake.change(|world| world.is_mute = false);
    for line in [&waits, &calls] {
        line.proxy.heal();
        line.link.look();
    }
    let done = handing.await.expect("ran").expect("answered");
    assert_eq!((done.turn, calls.fake.world.borrow().turn), (2, 2), "once");
    waits.fake.until("parked again", |world| (2..99).any(|it| is_parked_on(it)(world))).await;
    waits.fake.change(|world| world.holder = "B".to_owned());
    assert!(waiting.await.expect("ran").expect("answered").can_start);
}

#[tokio::test]
async fn what_needs_the_broker_is_refused_soon_and_then_at_once() {
    let mut fake = Fake::new();
    fake.serve();
    let data = tempfile::tempdir().expect("a directory");
    let (link, main) = (start(&fake.url(), data.path()), main_loop());
    until(&link, "connected", SOON, LinkState::is_connected).await;
    fake.kill().await;
    until(&link, "down", SOON, is_down).await;
    let refused = async || {
        let began = Instant::now();
        let refusal = link.hand_over(&role("A"), &to("B")).await.expect_err("nobody there");
        assert_eq!(refusal.reason, Reason::Unavailable, "{refusal}");
        assert!(refusal.reason.is_retryable() && !refusal.reason.is_maybe_applied());
        began.elapsed()
    };
    let first = refused().await;
    assert!(first < Duration::from_secs(4), "{first:?}");
    refused().await;
    // The least of some: the machine may be busy.
    let mut least = Duration::MAX;
    for _ in 0..5 {
        least = least.min(refused().await);
    }
    assert!(least < Duration::from_millis(100), "{least:?}");
    let began = Instant::now();
    let look = link.await_turn(&role("A"), &main, Duration::ZERO).await;
    assert_eq!(look.expect_err("nobody there").reason, Reason::Unavailable);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    fake.serve();
    until(&link, "back", SOON, LinkState::is_connected).await;
    link.hand_over(&role("A"), &to("B")).await.expect("carried out");
}

#[tokio::test]
async fn the_state_is_told_from_memory_with_its_age_and_nobody_is_told_to_start() {
    let mut fake = Fake::new();
    fake.serve();
    let data = tempfile::tempdir().expect("a directory");
    let (link, main) = (start(&fake.url(), data.path()), main_loop());
    until(&link, "connected", SOON, LinkState::is_connected).await;
    let seen = link.loop_status(&main).await.expect("told");
    assert_eq!(seen.ago, None);
    fake.kill().await;
    fake.change(|world| world.holder = "B".to_owned());
    let first = link.loop_status(&main).await.expect("remembered");
    assert_eq!(first.what, seen.what);
    let later = link.loop_status(&main).await.expect("remembered");
    assert!(first.ago.expect("an age") < later.ago.expect("an age"));
    let unknown = link.loop_status(&crate::named("other")).await.expect_err("never seen");
    assert_eq!(unknown.reason, Reason::Unavailable);
    let turn = link.await_turn(&role("A"), &main, Duration::ZERO).await;
    assert_eq!(turn.expect_err("the broker's to say").reason, Reason::Unavailable);
    fake.serve();
    until(&link, "back", SOON, LinkState::is_connected).await;
    let seen = link.loop_status(&main).await.expect("told");
    assert_eq!((seen.ago, seen.what.r#loop.expect("a loop").holder.as_str()), (None, "B"));
}
