//! Copies of a data directory: what two nodes on them acknowledge is in the history, and who runs
//! on one is told so.

use std::{fs, path::Path};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{
    http::Client,
    process::{Process, soon},
};

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

/// Whether the handover was carried out, as its agent is told.
async fn hands_over(node: &Process, role: &str, what: &str) -> bool {
    let client = Client::new(node.mcp, &format!("/mcp/{role}")).await;
    let words =
        json!({ "work_summary": what, "next_instruction": "go", "is_task_complete": false });
    let told = soon(client.call("handover_work", words)).await;
    told["isError"] != true && told["structuredContent"]["repeated"] != true
}

#[tokio::test]
async fn what_a_node_on_a_copied_directory_acknowledges_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::broker(&dir.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let mut first = Process::node(&dir.path().join("n1"), address, "").await;
    first.stop().await;
    copy(&dir.path().join("n1"), &dir.path().join("n2"));
    first.start().await;
    let second = Process::node(&dir.path().join("n2"), address, "").await;

    let mut acknowledged = Vec::new();
    for round in 0..3 {
        for (name, node) in [("n1", &first), ("n2", &second)] {
            for role in ["A", "B"] {
                // The same words on both nodes: only the node's own key tells them apart.
                let what = format!("{role} did {round}");
                if hands_over(node, role, &what).await {
                    acknowledged.push((name, what));
                }
            }
        }
    }
    assert!(!acknowledged.is_empty(), "one of them may act: {}", first.log());
    let history = broker.json("loop history --limit 100 --workspace default").await;
    let kept: Vec<_> = history.iter().map(|entry| entry["summary"].as_str().unwrap()).collect();
    let told: Vec<_> = acknowledged.iter().map(|(_, what)| what.as_str()).collect();
    assert_eq!(kept, told, "{acknowledged:?}");
}

#[tokio::test]
async fn a_process_that_wakes_beside_a_newer_one_on_a_copy_cannot_act() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::broker(&dir.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let mut old = Process::node(&dir.path().join("n1"), address, "").await;
    old.stop().await;
    copy(&dir.path().join("n1"), &dir.path().join("n2"));
    old.start().await;
    assert!(hands_over(&old, "A", "before it slept").await, "{}", old.log());

    let pid = i32::try_from(old.pid()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let new = Process::node(&dir.path().join("n2"), address, "").await;
    // It registers once it has found out that it is a copy.
    soon(async { while !hands_over(&new, "B", "while it slept").await {} }).await;
    kill_process(pid, Signal::CONT).unwrap();

    for role in ["A", "B"] {
        assert!(!hands_over(&old, role, "after it woke").await, "{role}: {}", old.log());
    }
    assert!(hands_over(&new, "A", "beside it").await, "{}", new.log());
    let history = broker.json("loop history --limit 100 --workspace default").await;
    let kept: Vec<_> = history.iter().map(|entry| entry["summary"].as_str().unwrap()).collect();
    assert_eq!(kept, ["before it slept", "while it slept", "beside it"]);
}

#[tokio::test]
async fn who_runs_on_a_copy_is_told_so_and_a_copied_broker_does_not_serve() {
    let dir = tempfile::tempdir().unwrap();
    let mut up = Process::up(&dir.path().join("up"), "").await;
    let broker = up.broker.unwrap();
    let mut node = Process::node(&dir.path().join("n1"), broker, "--workspace w").await;
    node.stop().await;
    copy(&node.data, &dir.path().join("n2"));
    let copied = Process::node(&dir.path().join("n2"), broker, "--workspace w").await;
    let log = copied.log();
    let noted = node.data.canonicalize().unwrap();
    for said in ["is a copy, or was moved", &noted.display().to_string(), "--data DIR"] {
        assert!(log.contains(said), "{said}: {log}");
    }
    assert!(hands_over(&copied, "A", "on the copy").await, "{}", copied.log());
    // The original is told by whom it is fenced, however many keys the copy used.
    node.start().await;
    soon(async { while !hands_over(&node, "B", "on the original").await {} }).await;
    let client = Client::new(copied.mcp, "/mcp/A").await;
    let words = json!({ "work_summary": "x", "next_instruction": "y", "is_task_complete": false });
    let told = soon(client.call("handover_work", words)).await;
    let error = &told["structuredContent"]["error"];
    assert_eq!(error["code"], "stale_epoch", "{told}");
    assert!(error["message"].as_str().unwrap().contains("copy of the other's data"), "{told}");

    assert_eq!(up.run("loop status").await.status.code(), Some(0));
    up.stop().await;
    copy(&up.data, &dir.path().join("copy"));
    let mut beside = Process::up(&dir.path().join("elsewhere"), "").await;
    beside.stop().await;
    fs::remove_dir_all(&beside.data).unwrap();
    copy(&up.data, &beside.data);
    let refused = soon(beside.command().output()).await.unwrap();
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && why.contains("--moved"), "{why}");
    let moved = Process::up(&dir.path().join("copy"), "--moved").await;
    assert!(!moved.json("loop history --limit 9 --workspace w").await.is_empty());
    let log = moved.log();
    assert!(!log.contains("is a copy, or was moved"), "its user said so: {log}");
}
