//! Agents that leave in good order, or take a call back: what they waited for is the next one's at
//! once, and what is granted to them in that moment is given back.

use std::{path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{agent, held, issue, node, of, ok};
use crate::{
    agents::{Agent, Bridge, Manner, Transport},
    http::{Client, Http, call},
    process::{Process, soon},
    stored::status,
};

/// Much less than an offer stands and a lease lasts.
const AT_ONCE: Duration = Duration::from_secs(15);

const REPOSITORY: &str = "git.example/shop";

#[derive(Debug, Clone, Copy)]
enum Leaving {
    /// It closes its session.
    Delete,
    /// It takes its call back.
    Cancel,
    CancelOnStdio,
    /// Its bridge ends.
    End,
}

const ALL: [Leaving; 4] = [Leaving::Delete, Leaving::Cancel, Leaving::CancelOnStdio, Leaving::End];

/// An agent with one call under way.
enum Waiting {
    Session(Client, Http),
    Stdio(Bridge),
}

impl Waiting {
    async fn begin(how: Leaving, of: &Process, tool: &str, arguments: Value) -> Self {
        let ask = call(5, tool, arguments);
        let it = match how {
            Leaving::Delete | Leaving::Cancel => {
                let client = Client::new(of.mcp, "/mcp/worker2?hold=50").await;
                let stream = client.post(&ask).await;
                Self::Session(client, stream)
            }
            Leaving::CancelOnStdio | Leaving::End => {
                let manner = Manner { hold: Some(50), ..Manner::default() };
                let started = Bridge::start(&["--role", "worker2"], of.data.clone(), manner);
                let mut bridge = soon(started).await.unwrap();
                bridge.say(&ask).await.unwrap();
                Self::Stdio(bridge)
            }
        };
        until_calls(of, 1).await;
        it
    }

    async fn leave(self, how: Leaving, of: &Process) {
        let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": 5 } });
        match (self, how) {
            (Self::Session(client, _stream), Leaving::Delete) => delete(&client).await,
            (Self::Session(client, _stream), _) => {
                assert_eq!(client.post(&cancelled).await.status, 202);
            }
            (Self::Stdio(mut bridge), Leaving::CancelOnStdio) => {
                soon(bridge.say(&cancelled)).await.unwrap();
                until_calls(of, 0).await;
            }
            (Self::Stdio(mut bridge), _) => soon(bridge.process.kill()).await.unwrap(),
        }
        // It ends then, and not after a while.
        timeout(AT_ONCE / 5, until_calls(of, 0)).await.expect("at once");
    }
}

/// Until so many calls are under way at a node.
async fn until_calls(of: &Process, count: usize) {
    soon(async {
        while status(of).await["calls"] != count {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Until the only role of a node waits, or is on its way to the broker for it.
pub(super) async fn until_waiting(of: &Process) {
    soon(async {
        while status(of).await["roles"][0]["waits"] != 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn delete(client: &Client) {
    let mut http = Http::connect(client.addr).await;
    let session = [("Mcp-Session-Id", client.session.as_str())];
    http.send(&format!("DELETE {}", client.path), &session, b"").await;
    assert_eq!(http.status, 204);
}

fn files(file: &str) -> Value {
    json!({ "files": [file], "repository": REPOSITORY, "wait_sec": 50 })
}

/// Locks a file and gives it back, neither of which takes long.
async fn lock(agent: &mut Agent, file: &str) {
    let locked = timeout(AT_ONCE, ok(agent, "lockFiles", files(file))).await.expect("at once");
    ok(agent, "unlock", json!({ "lease_id": locked["lease_id"] })).await;
}

/// Two workers at nodes of their own, the one that stays and the one that leaves.
async fn workers(place: &Path, broker: &Process) -> (Process, Process) {
    let broker = broker.broker.unwrap();
    tokio::join!(node(place, broker, "worker1"), node(place, broker, "worker2"))
}

#[tokio::test]
async fn whoever_left_waits_for_no_files() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let (stays, leaves) = workers(place.path(), &up).await;
    let mut stayer = held(Transport::Session, "worker1", &stays, 50).await;
    for how in ALL {
        let has = ok(&mut stayer, "lockFiles", files("a.rs")).await;
        let leaver = Waiting::begin(how, &leaves, "lockFiles", files("a.rs")).await;
        leaver.leave(how, &leaves).await;
        ok(&mut stayer, "unlock", json!({ "lease_id": has["lease_id"] })).await;
        for _ in 0..10 {
            lock(&mut stayer, "a.rs").await;
        }
    }
}

#[tokio::test]
async fn a_lock_whose_agent_left_before_it_heard_of_it_is_given_back() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let (stays, leaves) = workers(place.path(), &up).await;
    let mut stayer = held(Transport::Session, "worker1", &stays, 50).await;
    let broker = Pid::from_raw(up.pid().cast_signed()).unwrap();
    for (round, how) in ALL.into_iter().cycle().take(2 * ALL.len()).enumerate() {
        let file = format!("{round}.rs");
        kill_process(broker, Signal::STOP).unwrap();
        let leaver = Waiting::begin(how, &leaves, "lockFiles", files(&file)).await;
        leaver.leave(how, &leaves).await;
        kill_process(broker, Signal::CONT).unwrap();
        lock(&mut stayer, &file).await;
    }
}

#[tokio::test]
async fn a_task_offered_to_whoever_left_is_the_next_ones_at_once() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let (stays, leaves) = workers(place.path(), &up).await;
    let lead = node(place.path(), up.broker.unwrap(), "lead").await;
    let mut leads = agent(Transport::Session, "lead", &lead).await;
    let mut stayer = held(Transport::Session, "worker1", &stays, 50).await;
    ok(&mut stayer, "registerWorker", json!({})).await;
    let id = issue(&mut leads, &[]).await;
    let wait = json!({ "issue_id": id });
    let plan = json!({ "issue_id": id, "subject": "part", "difficulty": "easy",
        "spec": super::spec("faster") });
    for (round, how) in ALL.into_iter().enumerate() {
        let leaver = Waiting::begin(how, &leaves, "waitIssueTasks", wait.clone()).await;
        leaver.leave(how, &leaves).await;
        let mut plan = plan.clone();
        plan["subject"] = format!("part {round}").into();
        let task = ok(&mut leads, "createIssueTask", plan).await;
        let told = timeout(AT_ONCE, ok(&mut stayer, "waitIssueTasks", wait.clone())).await;
        let told = told.expect("at once");
        assert_eq!(told["tasks"][0]["id"], task["id"], "{how:?}: {told}");
        let task = task["id"].as_str().unwrap().to_owned();
        ok(&mut stayer, "claimIssueTask", of(&id, &task, "worker1")).await;
    }

    // It was told, and left with that.
    let task = ok(&mut leads, "createIssueTask", plan).await;
    let client = Client::new(leaves.mcp, "/mcp/worker2").await;
    let told = client.call("waitIssueTasks", wait.clone()).await;
    assert_eq!(told["structuredContent"]["tasks"][0]["id"], task["id"], "{told}");
    delete(&client).await;
    let told = timeout(AT_ONCE, ok(&mut stayer, "waitIssueTasks", wait)).await.expect("at once");
    assert_eq!(told["tasks"][0]["id"], task["id"], "{told}");
}
