//! A worker waits for its review while its node, or the broker, is killed and started again.

use serde_json::{Value, json};

use super::{
    Under, agent, approve, count, held, issue, item, leaving::until_waiting, node, of, ok, result,
};
use crate::{
    agents::{Agent, Transport},
    crash::accepted,
    process::{Process, soon},
};

/// Calls again, as an agent does, until the wait is over.
async fn persist(mut agent: Agent, tool: &'static str, words: Value) -> Value {
    loop {
        match accepted(agent.call(tool, words.clone()).await) {
            Ok(told) if told["status"] == "still_waiting" => {}
            Ok(told) => return told,
            Err(why) => {
                assert!(!why.is_refusal, "{why}");
                tokio::task::yield_now().await;
            }
        }
    }
}

/// A claimed task, its result submitted by a call that is under way.
async fn killed_while_waiting(transport: Transport, is_broker: bool) {
    let place = tempfile::tempdir().unwrap();
    let mut up = Process::broker(&place.path().join("broker"), "").await;
    let broker = up.broker.unwrap();
    let (lead, mut one) =
        tokio::join!(node(place.path(), broker, "lead"), node(place.path(), broker, "worker"));
    let mut leads = agent(Transport::Stateless, "lead", &lead).await;
    let mut works = agent(transport, "worker", &one).await;
    ok(&mut works, "registerWorker", json!({})).await;
    let id = issue(&mut leads, &[1]).await;
    ok(&mut works, "claimIssueTask", of(&id, "task-1", "worker")).await;
    let words = result(&id, "task-1", "worker", "done");
    let waiting = tokio::spawn(persist(works, "submitIssueTask", words));
    let shown = item(&mut leads, &id, "submission").await;
    let killed = if is_broker { &mut up } else { &mut one };
    killed.kill().await;
    killed.start().await;
    approve(&mut leads, &id, "task-1", "worker").await;
    let told = soon(waiting).await.unwrap();
    assert_eq!(
        (&told["submission"]["id"], &told["submission"]["verdict"]),
        (&shown["submission"]["id"], &json!("approved")),
        "{told}"
    );
    assert_eq!(count(broker, &id, "submission_created").await, 1);
}

#[tokio::test]
async fn a_node_is_killed_while_a_bridge_waits_for_a_review() {
    killed_while_waiting(Transport::Stdio, false).await;
}

#[tokio::test]
async fn a_node_is_killed_while_a_client_waits_for_a_review() {
    killed_while_waiting(Transport::Stateless, false).await;
}

#[tokio::test]
async fn the_broker_is_killed_while_a_client_waits_for_a_review() {
    killed_while_waiting(Transport::Session, true).await;
}

/// Clients that give up early call again; a verdict or a reply that came between is not lost.
#[tokio::test]
async fn what_came_between_two_calls_is_told_by_the_second() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let broker = up.broker.unwrap();
    let (lead, one) =
        tokio::join!(node(place.path(), broker, "lead"), node(place.path(), broker, "worker"));
    let mut leads = agent(Transport::Stateless, "lead", &lead).await;
    let mut works = held(Transport::Stateless, "worker", &one, 1).await;
    ok(&mut works, "registerWorker", json!({})).await;
    let id = issue(&mut leads, &[1]).await;
    ok(&mut works, "claimIssueTask", of(&id, "task-1", "worker")).await;
    let mut question = of(&id, "task-1", "worker");
    question["content"] = "which?".into();
    let told = ok(&mut works, "askIssueTask", question.clone()).await;
    assert_eq!(told["status"], "still_waiting", "{told}");
    let asked = item(&mut leads, &id, "question").await;
    let reply = json!({ "issue_id": id, "task_id": "task-1", "content": "this" });
    ok(&mut leads, "replyIssueTaskMessage", reply).await;
    let told = ok(&mut works, "askIssueTask", question).await;
    assert_eq!(
        (&told["message"]["id"], &told["message"]["reply_content"]),
        (&asked["message"]["id"], &json!("this"))
    );

    let mut words = result(&id, "task-1", "worker", "done");
    words["timeout_sec"] = 0.into();
    let told = ok(&mut works, "submitIssueTask", words.clone()).await;
    assert_eq!(told["status"], "still_waiting", "{told}");
    let shown = item(&mut leads, &id, "submission").await;
    ok(&mut leads, "reviewIssueTask", super::verdict(&id, "task-1", None)).await;
    let told = ok(&mut works, "submitIssueTask", words.clone()).await;
    assert_eq!(
        (&told["submission"]["id"], &told["submission"]["verdict"]),
        (&shown["submission"]["id"], &json!("rejected")),
        "{told}"
    );
    assert_eq!(told["submission"]["review"]["feedback_details"][0]["content"], "names", "{told}");
    words["artifacts"]["summary"] = "done, with other names".into();
    let told = ok(&mut works, "submitIssueTask", words.clone()).await;
    assert_eq!(told["status"], "still_waiting", "{told}");
    approve(&mut leads, &id, "task-1", "worker").await;
    let told = ok(&mut works, "submitIssueTask", words).await;
    assert_eq!(told["submission"]["verdict"], "approved", "{told}");
    assert_eq!(count(broker, &id, "submission_created").await, 2);
}

#[tokio::test]
async fn a_worker_killed_with_its_bridge_goes_on_under_its_claim() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let broker = up.broker.unwrap();
    let (lead, one) =
        tokio::join!(node(place.path(), broker, "lead"), node(place.path(), broker, "worker"));
    let mut leads = agent(Transport::Stateless, "lead", &lead).await;
    let mut works = agent(Transport::Stdio, "worker", &one).await;
    ok(&mut works, "registerWorker", json!({})).await;
    let id = issue(&mut leads, &[1]).await;
    ok(&mut works, "claimIssueTask", of(&id, "task-1", "worker")).await;
    drop(works);
    let mut anew = agent(Transport::Session, "worker", &one).await;
    let mine = ok(&mut anew, "myProfile", json!({})).await;
    assert_eq!(mine["worker"]["claims"][0]["task_id"], "task-1", "{mine}");
    let submitted = Under::way(anew, "submitIssueTask", result(&id, "task-1", "worker", "done"));
    item(&mut leads, &id, "submission").await;
    approve(&mut leads, &id, "task-1", "worker").await;
    assert_eq!(submitted.done().await.1["submission"]["verdict"], "approved");
}

/// Its waits would keep its claim for ever, and nobody would go on with the task.
#[tokio::test]
async fn a_worker_that_begins_anew_is_told_what_it_has_claimed() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let broker = up.broker.unwrap();
    let (lead, one) =
        tokio::join!(node(place.path(), broker, "lead"), node(place.path(), broker, "worker"));
    let mut leads = agent(Transport::Stateless, "lead", &lead).await;
    let mut works = agent(Transport::Stdio, "worker", &one).await;
    ok(&mut works, "registerWorker", json!({})).await;
    let id = issue(&mut leads, &[1]).await;
    let task = of(&id, "task-1", "worker");
    ok(&mut works, "claimIssueTask", task.clone()).await;
    drop(works);

    let before = json!([{ "issue_id": id, "task_id": "task-1" }]);
    let mut anew = held(Transport::Session, "worker", &one, 1).await;
    let told = ok(&mut anew, "registerWorker", json!({})).await;
    assert_eq!(told["claimed_before"], before, "{told}");
    let next = told["next_actions"][0].as_str().unwrap();
    assert!(next.starts_with(&format!("You have claimed task-1 of {id} and not")), "{next}");
    let told = ok(&mut anew, "waitIssues", json!({})).await;
    assert_eq!((&told["status"], &told["claimed_before"]), (&json!("there"), &before), "{told}");
    let told = ok(&mut anew, "waitIssueTasks", json!({ "issue_id": id })).await;
    assert_eq!(
        (&told["status"], &told["next_actions"][0]),
        (&json!("claimed_before"), &json!(next))
    );
    // Whoever claims it again knows of it, and may wait for another one beside it.
    let told = ok(&mut anew, "claimIssueTask", task.clone()).await;
    assert_eq!(told["spec"]["goal"], "faster", "{told}");
    let told = ok(&mut anew, "waitIssueTasks", json!({ "issue_id": id })).await;
    assert_eq!(
        (&told["status"], &told["claimed_before"], &told["next_actions"]),
        (&json!("still_waiting"), &before, &json!([next])),
        "{told}"
    );

    // What waits for its lead is no work of its own, and what was rejected is again.
    let mut words = result(&id, "task-1", "worker", "done");
    words["timeout_sec"] = 0.into();
    ok(&mut anew, "submitIssueTask", words).await;
    let told = ok(&mut anew, "registerWorker", json!({})).await;
    assert!(told.get("claimed_before").is_none(), "{told}");
    drop(anew);
    let third = agent(Transport::Stateless, "worker", &one).await;
    let waits = Under::way(third, "waitIssueTasks", json!({ "issue_id": id }));
    until_waiting(&one).await;
    ok(&mut leads, "reviewIssueTask", super::verdict(&id, "task-1", None)).await;
    let (mut third, told) = waits.done().await;
    let found = &told["tasks"][0];
    assert_eq!(
        (&found["id"], &found["claimed_by"]),
        (&json!("task-1"), &json!("worker")),
        "{told}"
    );
    assert_eq!(told["next_actions"], json!([next]), "{told}");
    let told = ok(&mut third, "waitIssueTasks", json!({ "issue_id": id })).await;
    assert_eq!(told["status"], "claimed_before", "{told}");

    // A reply is as good as a verdict.
    ok(&mut third, "claimIssueTask", task.clone()).await;
    let mut question = task.clone();
    question["content"] = "which?".into();
    question["timeout_sec"] = 0.into();
    ok(&mut third, "askIssueTask", question).await;
    let waits = Under::way(third, "waitIssueTasks", json!({ "issue_id": id }));
    until_waiting(&one).await;
    let reply = json!({ "issue_id": id, "task_id": "task-1", "content": "this" });
    ok(&mut leads, "replyIssueTaskMessage", reply).await;
    let (_, told) = waits.done().await;
    assert_eq!(told["tasks"][0]["id"], "task-1", "{told}");

    // So is a lead: it goes on with the issue that it has.
    drop(leads);
    let mut leads = agent(Transport::Session, "lead", &lead).await;
    let doc = |name: &str| json!({ "name": name, "content": format!("the {name}") });
    let words = json!({ "subject": "Make it fast", "user_issue_doc": doc("wish"),
        "lead_issue_doc": doc("reading") });
    let told = ok(&mut leads, "createIssue", words).await;
    assert_eq!((&told["id"], &told["repeated"]), (&json!(id), &json!(true)), "{told}");
}
