//! Letters and waits that are taken back in mid-flight, while nodes are killed or stand still.
//!
//! Over each transport one role writes to another one that waits. Each third call is taken back
//! with `notifications/cancelled`, sooner or later, and some clients stand still meanwhile. A letter
//! with a name is said again until it is acknowledged, one without is said once. In the end what
//! was acknowledged is there once and was shown, and nothing is there twice.
//!
//! `TASUKI_ROUNDS` says how many troubles (a third of it; 20), `TASUKI_SEED` which and when.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
};

use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};

use super::{letter, until_sent};
use crate::{
    agents::Transport,
    book::{Book, Thread},
    chance::Chance,
    crash::{Nothing, accepted},
    process::{Process, soon},
    stored::back,
    storm::{
        StandsStill,
        connection::{Freezer, Wire},
    },
    strikes::{Processes, rounds},
    swarm::cancelled::round_trips,
};

/// Who writes, who waits for it, and how both are connected.
const PAIRS: [(&str, &str, Transport); 3] = [
    ("a1", "b1", Transport::Session),
    ("a2", "b2", Transport::Sse),
    ("a3", "b3", Transport::Stdio),
];

/// Of `TASUKI_ROUNDS`, for one trouble.
const ROUNDS_EACH: u64 = 3;

/// Letters between two troubles, at most.
const LETTERS_MAX: u64 = 30;

/// How much later than it is made a call is taken back at most, in round trips.
const TRIPS_MAX: u64 = 12;

/// For how long a node stands still, in round trips.
const STILL_TRIPS: u64 = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Letters,
    LastLetters,
    LastLooks,
}

#[derive(Debug, Default)]
struct Seen {
    /// Letters by their words, and whether each was acknowledged.
    letters: BTreeMap<String, bool>,
    shown: BTreeSet<String>,
    taken_back: u64,
}

struct Player {
    transport: Transport,
    role: &'static str,
    node: (SocketAddr, PathBuf),
    /// Answers whatever becomes of the nodes.
    broker: SocketAddr,
    chance: Chance,
    ids: u64,
    wire: Option<Wire>,
    seen: Arc<watch::Sender<Seen>>,
    is_up: watch::Receiver<bool>,
    stage: watch::Receiver<Stage>,
}

impl Player {
    async fn until_up(&mut self) {
        soon(self.is_up.wait_for(|is_up| *is_up)).await.unwrap();
    }

    async fn wire(&mut self) -> Wire {
        loop {
            match &self.wire {
                Some(wire) if !wire.is_over() => return wire.clone(),
                _ => self.wire = None,
            }
            let (address, data) = self.node.clone();
            match soon(Wire::open(self.transport, self.role, address, data)).await {
                Ok(wire) => self.wire = Some(wire),
                Err(_) => self.until_up().await,
            }
        }
    }

    /// What a tool says; `None`: it was taken back, or no answer came.
    async fn call(
        &mut self,
        tool: &'static str,
        arguments: Value,
    ) -> Option<Result<Value, Nothing>> {
        let wire = self.wire().await;
        self.ids += 1;
        let (id, asked) = (self.ids, wire.clone());
        let still = if id % 8 == 1 { wire.freezer() } else { None };
        still.iter().for_each(Freezer::freeze);
        let asking = tokio::spawn(async move { asked.ask(id, tool, arguments).await });
        let tires = id.is_multiple_of(3) && *self.stage.borrow() != Stage::LastLooks;
        if tires || still.is_some() {
            round_trips(self.broker, self.chance.below(TRIPS_MAX + 1)).await;
        }
        if tires {
            // Its node may be down.
            soon(wire.cancel(id)).await.ok();
            self.seen.send_modify(|it| it.taken_back += 1);
        }
        still.iter().for_each(Freezer::thaw);
        if tires && !asking.is_finished() {
            asking.abort();
            return None;
        }
        let answer = soon(asking).await.unwrap();
        answer.ok().map(|result| accepted(Ok(result)))
    }

    async fn write(mut self, to: &'static str) {
        for number in 1_u64.. {
            if *self.stage.borrow() != Stage::Letters {
                return;
            }
            let text = format!("{number} of {}", self.role);
            let name = number.is_multiple_of(2).then_some(text.as_str());
            let request = letter(&[to.to_owned()], &text, None, name);
            let is_told = loop {
                match self.call("filebox_send_message", request.clone()).await {
                    Some(Ok(_)) => break true,
                    Some(Err(why)) => assert!(!why.is_refusal, "{text:?}: {why}"),
                    None => {}
                }
                if name.is_none() {
                    break false;
                }
                self.until_up().await;
            };
            self.seen.send_modify(|it| {
                it.letters.insert(text, is_told);
            });
        }
    }

    async fn read(mut self) {
        let mut after = Value::Null;
        loop {
            let is_over = *self.stage.borrow() == Stage::LastLooks;
            let mut wait = json!({ "timeout_sec": if is_over { 0 } else { self.chance.below(2) } });
            if after.is_string() {
                wait["after"] = after.clone();
            }
            match self.call("filebox_wait_for_message", wait).await {
                Some(Ok(mail)) if mail["has_mail"] == true => {
                    after = mail["message_id"].clone();
                    let texts = mail["entries"].as_array().unwrap().iter();
                    let texts = texts.map(|it| it["text"].as_str().unwrap().to_owned());
                    self.seen.send_modify(|it| it.shown.extend(texts));
                }
                // A call that was taken back may come late, and end a newer one.
                Some(Ok(mail)) if is_over && mail["superseded"] != true => return,
                Some(Err(why)) => assert!(!why.is_refusal, "{} may not wait: {why}", self.role),
                Some(Ok(_)) | None => {}
            }
            self.until_up().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_is_sent_once_or_not_at_all() {
    let mut chance = Chance::new(8);
    let dir = tempfile::tempdir().unwrap();
    let lines = ["--role a1 --role a2 --role a3", "--role b1 --role b2 --role b3"];
    let mut world = Processes::three(dir.path(), lines).await;
    let (up, is_up) = watch::channel(true);
    let (stages, stage) = watch::channel(Stage::Letters);
    let seen = Arc::new(watch::Sender::new(Seen::default()));
    let clock = world.broker().mcp;
    let (mut writers, mut readers) = (JoinSet::new(), JoinSet::new());
    for (from, to, transport) in PAIRS {
        let mut player = |role, node: &Process| Player {
            transport,
            role,
            node: (node.mcp, node.data.clone()),
            broker: clock,
            chance: Chance(chance.below(u64::MAX)),
            ids: 100,
            wire: None,
            seen: Arc::clone(&seen),
            is_up: is_up.clone(),
            stage: stage.clone(),
        };
        writers.spawn(player(from, &world.nodes[0]).write(to));
        readers.spawn(player(to, &world.nodes[1]).read());
    }
    let rounds = rounds(ROUNDS_EACH);
    for round in 0..rounds {
        let until = seen.borrow().letters.len() as u64 + 1 + chance.below(LETTERS_MAX);
        let mut letters = seen.subscribe();
        tokio::select! {
            reached = soon(letters.wait_for(|it| until <= it.letters.len() as u64)) => {
                drop(reached.unwrap());
            }
            Some(ended) = writers.join_next() => panic!("it ended: {:?}", ended.err()),
            Some(ended) = readers.join_next() => panic!("it ended: {:?}", ended.err()),
        }
        let [one, other] = &mut world.nodes[..] else { unreachable!("there are two") };
        let (one, other) = if chance.below(2) == 0 { (one, other) } else { (other, one) };
        let _other = (chance.below(2) == 0).then(|| StandsStill::begin(other));
        if round.is_multiple_of(2) {
            up.send_replace(false);
            one.kill().await;
            one.start().await;
            up.send_replace(true);
        } else {
            let _one = StandsStill::begin(one);
            round_trips(clock, STILL_TRIPS).await;
        }
    }
    stages.send_replace(Stage::LastLetters);
    while let Some(ended) = soon(writers.join_next()).await {
        ended.unwrap();
    }
    soon(until_sent(&world.nodes[0])).await;
    back(&world.nodes[1]).await;
    stages.send_replace(Stage::LastLooks);
    while let Some(ended) = soon(readers.join_next()).await {
        ended.unwrap();
    }
    let book = Book::open(world.broker().broker.unwrap()).await;
    let all = book.all(&PAIRS.map(|(from, to, _)| [from, to]).concat()).await;
    let mut there = BTreeSet::new();
    for text in all.values().flat_map(Thread::texts) {
        assert!(there.insert(text), "{text:?} is there twice");
    }
    let seen = seen.borrow();
    for (text, is_told) in &seen.letters {
        let arrived = (there.contains(text.as_str()), seen.shown.contains(text));
        assert!(!is_told || arrived == (true, true), "{text:?} is (there, shown): {arrived:?}");
    }
    let (letters, taken_back) = (seen.letters.len(), seen.taken_back);
    assert_ne!(taken_back, 0);
    anstream::println!("{rounds} troubles, {letters} letters, {taken_back} calls taken back");
}
