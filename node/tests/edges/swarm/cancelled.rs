//! Calls for locks that are taken back in the moment the files come free: the lock is told to its
//! agent, or it is free. None is kept for nobody.

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{held, leaving::until_waiting, node, ok};
use crate::{
    agents::Transport,
    http::Http,
    process::{Process, soon},
    storm::connection::Wire,
};

/// Of each transport.
const ROUNDS: u64 = 200;

/// Much less than a lock lasts.
const AT_ONCE: Duration = Duration::from_secs(15);

/// How much later than the files come free a call is taken back at most, in round trips.
const TRIPS_MAX: u64 = 12;

fn files() -> Value {
    json!({ "files": ["a.rs"], "repository": "git.example/shop", "wait_sec": 50 })
}

/// Lets some time pass that is as long as it takes.
pub(crate) async fn round_trips(of: SocketAddr, count: u64) {
    let mut http = Http::connect(of).await;
    for _ in 0..count {
        http.send("GET /healthz", &[], b"").await;
        http.text().await;
    }
}

async fn race(transport: Transport) {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let broker = up.broker.unwrap();
    let (stays, tires) =
        tokio::join!(node(place.path(), broker, "worker1"), node(place.path(), broker, "worker2"));
    let mut stayer = held(Transport::Session, "worker1", &stays, 50).await;
    let wire = Wire::open(transport, "worker2", tires.mcp, tires.data.clone()).await.unwrap();
    let mut has = ok(&mut stayer, "lockFiles", files()).await;
    let mut told = 0;
    for round in 0..ROUNDS {
        let id = 1_000 + round;
        let asking = wire.clone();
        let mut asking =
            tokio::spawn(async move { asking.ask(id, "lockFiles", files()).await.ok() });
        until_waiting(&tires).await;
        let lease = json!({ "lease_id": has["lease_id"] });
        let taking_back = async {
            round_trips(tires.mcp, round % (TRIPS_MAX + 1)).await;
            soon(wire.cancel(id)).await.unwrap();
        };
        tokio::join!(ok(&mut stayer, "unlock", lease), taking_back);
        let free = ok(&mut stayer, "lockFiles", files());
        let mut free = Box::pin(timeout(AT_ONCE, free));
        has = tokio::select! {
            answer = &mut asking => {
                let lock = answer.unwrap().filter(|it| it["isError"] != true);
                if let Some(lock) = lock {
                    told += 1;
                    let lease = json!({ "lease_id": lock["structuredContent"]["lease_id"] });
                    let back = soon(wire.ask(5_000 + round, "unlock", lease)).await.unwrap();
                    let back = &back["structuredContent"];
                    assert!(back["unlocked"].is_object() && back["repeated"] != true, "{back}");
                }
                free.await
            }
            has = &mut free => has,
        }
        .unwrap_or_else(|_| panic!("{transport:?}, round {round}: the lock is kept for nobody"));
        asking.abort();
    }
    assert!(told < ROUNDS, "none was taken back in time");
}

/// Holds LK1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_session_a_lock_is_told_or_free() {
    race(Transport::Session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_stdio_a_lock_is_told_or_free() {
    race(Transport::Stdio).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_older_sse_a_lock_is_told_or_free() {
    race(Transport::Sse).await;
}
