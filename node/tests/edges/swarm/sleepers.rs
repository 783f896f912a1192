//! Clients that take a task for an answer and are woken when it ends.

use serde_json::{Value, json};

use super::{agent, approve, issue, item, node, of, ok, result};
use crate::{
    agents::{Agent, Manner, Transport},
    process::{Process, soon},
};

async fn asleep(agent: &mut Agent, tool: &str, words: Value) -> Value {
    let told = soon(agent.begin(tool, words)).await.unwrap();
    assert_eq!(
        (&told["resultType"], &told["status"]),
        (&json!("task"), &json!("working")),
        "{told}"
    );
    told
}

#[tokio::test]
async fn a_worker_sleeps_until_there_is_a_task_and_until_its_review() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let broker = up.broker.unwrap();
    let (lead, one) =
        tokio::join!(node(place.path(), broker, "lead"), node(place.path(), broker, "worker"));
    let mut leads = agent(Transport::Stdio, "lead", &lead).await;
    let manner = Manner { takes_tasks: true, ..Manner::default() };
    let (addr, data) = (one.mcp, one.data.clone());
    let mut works = Agent::with(Transport::Stateless, "worker", addr, data, manner).await;
    ok(&mut works, "registerWorker", json!({})).await;
    let id = issue(&mut leads, &[]).await;
    let sleep = asleep(&mut works, "waitIssueTasks", json!({ "issue_id": id })).await;
    let task = json!({ "issue_id": id, "subject": "one", "difficulty": "easy",
        "spec": super::spec("faster") });
    ok(&mut leads, "createIssueTask", task).await;
    let woken = soon(works.awoken(sleep)).await.unwrap();
    assert_eq!(woken["structuredContent"]["tasks"][0]["id"], "task-1", "{woken}");
    ok(&mut works, "claimIssueTask", of(&id, "task-1", "worker")).await;
    let words = result(&id, "task-1", "worker", "done");
    let sleep = asleep(&mut works, "submitIssueTask", words.clone()).await;
    let shown = item(&mut leads, &id, "submission").await;
    approve(&mut leads, &id, "task-1", "worker").await;
    let woken = soon(works.awoken(sleep)).await.unwrap();
    let submission = &woken["structuredContent"]["submission"];
    assert_eq!(
        (&submission["id"], &submission["verdict"]),
        (&shown["submission"]["id"], &json!("approved")),
        "{woken}"
    );
    assert_eq!(submission["next"]["next_step"]["type"], "end", "{woken}");
}
