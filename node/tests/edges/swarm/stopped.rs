//! An agent whose process is stopped keeps its connection open, and nothing else.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{agent, held, issue, node, of, ok, set};
use crate::{
    agents::{Bridge, Manner, Transport},
    http::call,
    process::{Process, soon},
};

async fn asked(worker: &mut Bridge, tool: &str, arguments: Value) {
    let answer = soon(worker.ask(&call(1, tool, arguments), &mut 0)).await.unwrap();
    assert_eq!(answer["result"].get("isError").unwrap_or(&json!(false)), false, "{answer}");
}

#[tokio::test]
#[ignore = "needs a minute"]
async fn whoever_is_stopped_loses_its_claim() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let broker = up.broker.unwrap();
    // Before there is a node, which is told how often to speak when it registers.
    set(broker, 1, |it| it.task_claim_ms = 3_000).await;
    let others = place.path().join("other");
    let (lead, one, two) = tokio::join!(
        node(place.path(), broker, "lead"),
        node(place.path(), broker, "worker"),
        Process::node(&others, broker, "--role other=swarm-worker")
    );
    let mut leads = agent(Transport::Session, "lead", &lead).await;
    let mut other = held(Transport::Session, "other", &two, 100).await;
    ok(&mut other, "registerWorker", json!({})).await;
    let id = issue(&mut leads, &[1]).await;
    let started = Bridge::start(&["--role", "worker"], one.data.clone(), Manner::default());
    let mut worker = soon(started).await.unwrap();
    asked(&mut worker, "registerWorker", json!({})).await;
    asked(&mut worker, "claimIssueTask", of(&id, "task-1", "worker")).await;
    // It says nothing until it is asked whether it is there, and is asked in time.
    let line = soon(worker.lines.next_line()).await.unwrap().unwrap();
    let ping: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(ping["method"], "ping", "{ping}");
    let pong = json!({ "jsonrpc": "2.0", "id": ping["id"], "result": {} });
    soon(worker.say(&pong)).await.unwrap();
    // What it said before this was heard, then.
    asked(&mut worker, "getIssueTask", json!({ "issue_id": id, "task_id": "task-1" })).await;
    let pid = Pid::from_raw(worker.process.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let free = other.call("waitIssueTasks", json!({ "issue_id": id })).await.unwrap();
    assert_eq!(free["structuredContent"]["tasks"][0]["id"], "task-1", "{free}");
    kill_process(pid, Signal::CONT).unwrap();
    let submit = call(1, "submitIssueTask", super::result(&id, "task-1", "worker", "done"));
    let late = soon(worker.ask(&submit, &mut 0)).await.unwrap();
    let code = &late["result"]["structuredContent"]["error"]["code"];
    assert_eq!(code, "lease_lost", "{late}");
}
