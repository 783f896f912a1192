//! Agents write to each other while their nodes and their broker are killed and started again.
//!
//! Four roles on two nodes, each over another transport, begin threads, wait, read, answer one or
//! several, resolve and reject, and say the same again when an answer was lost. What they were told
//! is kept, and at the end compared with what a client finds that has seen nothing of it.
//!
//! `TASUKI_ROUNDS` says how many kills (a third of it; 20), `TASUKI_SEED` which ones.

mod cancelled;
mod history;
mod writer;

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};

use self::{
    history::History,
    writer::{Game, Writer},
};
use crate::{
    agents::Transport,
    book::Book,
    chance::Chance,
    process::{PATIENCE, Process, soon},
    stored::{outbox, queued, status},
    strikes::{Processes, Trouble, rounds},
};

/// Of `TASUKI_ROUNDS`, for one kill.
const ROUNDS_EACH: u64 = 3;

/// Answers between two kills, at most.
const STEPS_MAX: u64 = 40;

/// Letters that a broker is missing for, at most.
const QUEUED_MAX: u64 = 6;

const ROLES: [&str; 4] = ["a1", "a2", "b1", "b2"];

const TRANSPORTS: [Transport; 4] =
    [Transport::Session, Transport::Stateless, Transport::Sse, Transport::Stdio];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_outlives_whoever_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let lines = ["--role a1 --role a2", "--role b1 --role b2"];
    outlives(Processes::three(dir.path(), lines).await).await;
}

/// The node reaches its broker without a socket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_of_one_process_outlives_whoever_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    outlives(Processes::one(dir.path(), "--role a1 --role a2 --role b1 --role b2").await).await;
}

async fn outlives(mut world: Processes) {
    let mut chance = Chance::new(6);
    let (troubles, trouble) = watch::channel(Trouble::default());
    let history = Arc::new(watch::Sender::new(History::default()));
    let game = Game { history: Arc::clone(&history), trouble };
    let mut writers = JoinSet::new();
    let turn = chance.below(4);
    for (number, role) in (0..).zip(ROLES) {
        let node = &world.nodes[usize::from(role.starts_with('b')).min(world.nodes.len() - 1)];
        let at = usize::try_from((number + turn) % 4).unwrap();
        let agent =
            crate::agents::Agent::new(TRANSPORTS[at], role, node.mcp, node.data.clone()).await;
        // Half of them name what they send.
        let writer = Writer::new(agent, Chance(chance.below(u64::MAX)), number % 2 == 0, &game);
        writers.spawn(writer.write());
    }
    let rounds = rounds(ROUNDS_EACH);
    for _ in 0..rounds {
        let until = history.borrow().steps + 1 + chance.below(STEPS_MAX);
        let mut steps = history.subscribe();
        tokio::select! {
            reached = soon(steps.wait_for(|it| until <= it.steps)) => drop(reached.unwrap()),
            Some(ended) = writers.join_next() => panic!("it ended: {:?}", ended.err()),
        }
        if chance.below(4) == 0 && world.is_broker_apart() {
            keep_away(&mut world, &mut chance, &troubles, &history).await;
        } else {
            world.strike(&mut chance, &troubles).await;
        }
    }
    troubles.send_modify(|it| it.is_last = true);
    while let Some(ended) = soon(writers.join_next()).await {
        ended.unwrap();
    }
    for node in &world.nodes {
        soon(until_sent(node)).await;
        for failed in outbox(node).await {
            // What was put away may have got an answer meanwhile, or be answered before.
            let why = failed["failed"]["reason"].as_str().unwrap();
            assert!(["unseen_entries", "not_in_inbox"].contains(&why), "{failed}");
        }
    }
    let book = Book::open(world.broker().broker.unwrap()).await;
    let all = book.all(&ROLES).await;
    history.borrow().check(&all);
    soon(until_nobody_waits(&book)).await;

    world.broker_mut().kill().await;
    world.broker_mut().start().await;
    let book = Book::open(world.broker().broker.unwrap()).await;
    let mut again = book.all(&ROLES).await;
    // A node may have told only since then that it handed a letter.
    for (id, thread) in &mut again {
        let Some(before) = all.get(id) else { continue };
        for (entry, before) in thread.entries.iter_mut().zip(&before.entries) {
            for (receipt, before) in entry.receipts.iter_mut().zip(&before.receipts) {
                if before.handed_ms == 0 {
                    receipt.handed_ms = 0;
                }
            }
        }
    }
    assert_eq!(again, all);
    let history = history.borrow();
    anstream::println!("{rounds} kills, {} threads, {}", all.len(), history.summary());
}

/// Kills the broker until some letters wait for it, and nodes meanwhile.
async fn keep_away(
    world: &mut Processes,
    chance: &mut Chance,
    troubles: &watch::Sender<Trouble>,
    history: &watch::Sender<History>,
) {
    let whom = chance.below(4);
    let until = history.borrow().queued + 1 + chance.below(QUEUED_MAX);
    troubles.send_modify(|it| it.comes(true, false));
    world.broker_mut().kill().await;
    let mut queued = history.subscribe();
    if tokio::time::timeout(PATIENCE, queued.wait_for(|it| until <= it.queued)).await.is_err() {
        let (said, log) = (history.borrow().summary(), world.nodes[0].log());
        panic!("{until} queued ones expected: {said}\n{}\n{log}", status(&world.nodes[0]).await);
    }
    troubles.send_modify(|it| it.comes(true, whom != 0));
    for (bit, node) in world.nodes.iter_mut().enumerate() {
        if whom & (1 << bit) != 0 {
            node.kill().await;
            node.start().await;
        }
    }
    troubles.send_modify(|it| it.comes(true, false));
    world.broker_mut().start().await;
    troubles.send_modify(Trouble::goes);
}

async fn until_sent(node: &Process) {
    while queued(node).await != 0 {
        tokio::task::yield_now().await;
    }
}

async fn until_nobody_waits(book: &Book) {
    while book.waits().await != 0 {
        tokio::task::yield_now().await;
    }
}

/// Arguments of a letter.
fn letter(to: &[String], text: &str, answered: Option<&str>, name: Option<&str>) -> Value {
    let mut letter =
        json!({ "receiver_id": to, "msg_type": "INFO", "title": text, "content": text });
    if let Some(id) = answered {
        letter["original_message_id"] = id.into();
    }
    if let Some(name) = name {
        letter["client_ref"] = name.into();
    }
    letter
}
