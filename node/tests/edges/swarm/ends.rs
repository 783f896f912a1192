//! Claims and next steps that end otherwise than by their holder.

use serde_json::json;

use super::{
    Under, agent, count, issue, item, mint, no, node, of, ok, result, set, until, verdict,
};
use crate::{
    agents::{Agent, Transport},
    process::Process,
};

async fn employed(transport: Transport, role: &str, of: &Process) -> Agent {
    let mut worker = agent(transport, role, of).await;
    ok(&mut worker, "registerWorker", json!({})).await;
    worker
}

#[tokio::test]
async fn a_claim_that_lapsed_is_anothers_and_its_former_holder_is_told() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let broker = up.broker.unwrap();
    let (lead, mut one, two) = tokio::join!(
        node(place.path(), broker, "lead"),
        node(place.path(), broker, "worker1"),
        node(place.path(), broker, "worker2"),
    );
    let mut leads = agent(Transport::Stateless, "lead", &lead).await;
    let mut first = employed(Transport::Stateless, "worker1", &one).await;
    let mut second = employed(Transport::Stdio, "worker2", &two).await;
    let id = issue(&mut leads, &[1]).await;
    set(broker, 1, |it| it.task_claim_ms = 1_000).await;
    ok(&mut first, "claimIssueTask", of(&id, "task-1", "worker1")).await;
    one.kill().await;
    let lapsed = item(&mut leads, &id, "task_lapsed").await;
    assert_eq!((&lapsed["sender_id"], &lapsed["task_id"]), (&json!("worker1"), &json!("task-1")));
    set(broker, 2, |it| it.task_claim_ms = 3_600_000).await;
    let open = ok(&mut leads, "getIssueTask", json!({ "issue_id": id, "task_id": "task-1" })).await;
    assert!(open["status"] == "open" && open.get("claimed_by").is_none(), "{open}");
    let offered = ok(&mut second, "waitIssueTasks", json!({ "issue_id": id })).await;
    assert_eq!(offered["tasks"][0]["id"], "task-1", "{offered}");
    ok(&mut second, "claimIssueTask", of(&id, "task-1", "worker2")).await;

    one.start().await;
    let (code, text) =
        no(&mut first, "submitIssueTask", result(&id, "task-1", "worker1", "late")).await;
    assert!(matches!(code.as_str(), "not_claimant" | "lease_lost"), "{text}");
    assert!(text.contains("Last event: the claim expired"), "{text}");
    let mut question = of(&id, "task-1", "worker1");
    question["content"] = "mine?".into();
    let (code, _) = no(&mut first, "askIssueTask", question).await;
    assert!(matches!(code.as_str(), "not_claimant" | "lease_lost"), "{code}");
    let (code, text) = no(&mut first, "claimIssueTask", of(&id, "task-1", "worker1")).await;
    assert_eq!(code, "task_already_claimed", "{text}");
    assert_eq!(count(broker, &id, "submission_created").await, 0);
}

#[tokio::test]
async fn a_reset_wakes_whoever_waits_and_says_why() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let broker = up.broker.unwrap();
    let (lead, one) =
        tokio::join!(node(place.path(), broker, "lead"), node(place.path(), broker, "worker"));
    let mut leads = agent(Transport::Stdio, "lead", &lead).await;
    let mut works = employed(Transport::Stateless, "worker", &one).await;
    let id = issue(&mut leads, &[1]).await;
    ok(&mut works, "claimIssueTask", of(&id, "task-1", "worker")).await;
    let words = result(&id, "task-1", "worker", "done");
    let submitted = Under::way(works, "submitIssueTask", words.clone());
    item(&mut leads, &id, "submission").await;
    let reset = json!({ "issue_id": id, "task_id": "task-1", "reason": "another plan" });
    assert_eq!(ok(&mut leads, "resetIssueTask", reset.clone()).await["status"], "open");
    let (mut works, told) = submitted.done().await;
    assert_eq!(
        (&told["status"], &told["submission"]["status"]),
        (&json!("ended"), &json!("reset"))
    );
    assert_eq!(told["ended_because"], "the task was reset: another plan", "{told}");
    // A call that comes too late is told the same.
    let (code, text) = no(&mut works, "submitIssueTask", words).await;
    assert!(matches!(code.as_str(), "not_claimant" | "lease_lost"), "{text}");
    assert!(text.contains("the task was reset by lead, saying \"another plan\""), "{text}");

    ok(&mut works, "claimIssueTask", of(&id, "task-1", "worker")).await;
    let mut question = of(&id, "task-1", "worker");
    question["content"] = "how?".into();
    let asked = Under::way(works, "askIssueTask", question);
    item(&mut leads, &id, "question").await;
    ok(&mut leads, "resetIssueTask", reset).await;
    let (_, told) = asked.done().await;
    assert_eq!(
        (&told["status"], &told["message"]["status"]),
        (&json!("ended"), &json!("resolved"))
    );
    assert_eq!(told["ended_because"], "the task was reset: another plan", "{told}");
}

#[tokio::test]
async fn a_next_step_that_lapsed_is_refused_and_a_new_one_counts() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let broker = up.broker.unwrap();
    let (lead, one, two) = tokio::join!(
        node(place.path(), broker, "lead"),
        node(place.path(), broker, "worker1"),
        node(place.path(), broker, "worker2"),
    );
    let mut leads = agent(Transport::Stateless, "lead", &lead).await;
    let mut works = employed(Transport::Stdio, "worker1", &one).await;
    let mut other = employed(Transport::Stateless, "worker2", &two).await;
    let id = issue(&mut leads, &[1, 1]).await;
    ok(&mut works, "claimIssueTask", of(&id, "task-1", "worker1")).await;
    let submitted = Under::way(works, "submitIssueTask", result(&id, "task-1", "worker1", "done"));
    item(&mut leads, &id, "submission").await;
    set(broker, 1, |it| it.reservation_ms = 1_000).await;
    let stale = mint(&mut leads, &id, "task-1", "worker1").await;
    until(&mut leads, &id, "task-2", "stage", "ready").await;
    let review = verdict(&id, "task-1", Some(&stale["next_step_token"]));
    let (code, text) = no(&mut leads, "reviewIssueTask", review).await;
    assert_eq!(code, "invalid_next_step_token", "{text}");

    set(broker, 2, |it| it.reservation_ms = 120_000).await;
    let next = mint(&mut leads, &id, "task-1", "worker1").await;
    assert_ne!(next["next_step_token"], stale["next_step_token"], "{next}");
    let (code, text) = no(&mut other, "claimIssueTask", of(&id, "task-2", "worker2")).await;
    assert_eq!(code, "task_reserved", "{text}");
    assert!(text.starts_with("ERROR: task 'task-2' is reserved"), "{text}");
    let review = verdict(&id, "task-1", Some(&next["next_step_token"]));
    ok(&mut leads, "reviewIssueTask", review).await;
    let (mut works, _) = submitted.done().await;
    let claim = |worker: &str, token: &serde_json::Value| {
        let mut claim = of(&id, "task-2", worker);
        claim["next_step_token"] = token.clone();
        claim
    };
    for (worker, agent, token) in [
        ("worker2", &mut other, &next["next_step_token"]),
        ("worker1", &mut works, &stale["next_step_token"]),
    ] {
        let (code, text) = no(agent, "claimIssueTask", claim(worker, token)).await;
        assert_eq!(code, "invalid_next_step_token", "{text}");
    }
    let claimed =
        ok(&mut works, "claimIssueTask", claim("worker1", &next["next_step_token"])).await;
    assert_eq!(claimed["claimed_by"], "worker1");
}

/// One role, two agents: what one was given is not the other's.
#[tokio::test]
async fn an_agent_whose_claim_was_taken_by_another_of_its_role_is_fenced_out() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let broker = up.broker.unwrap();
    let lead = node(place.path(), broker, "lead").await;
    let line = "--role worker --shared worker";
    let both = Process::node(&place.path().join("worker"), broker, line).await;
    let mut leads = agent(Transport::Stateless, "lead", &lead).await;
    let mut x = Agent::instance("x", "worker", both.mcp, both.data.clone()).await;
    let mut y = Agent::instance("y", "worker", both.mcp, both.data.clone()).await;
    ok(&mut x, "registerWorker", json!({})).await;
    let id = issue(&mut leads, &[1]).await;
    ok(&mut x, "claimIssueTask", of(&id, "task-1", "worker")).await;
    let reset = json!({ "issue_id": id, "task_id": "task-1", "reason": "x hangs" });
    ok(&mut leads, "resetIssueTask", reset).await;
    let (code, _) = no(&mut x, "extendIssueTaskLease", of(&id, "task-1", "worker")).await;
    assert!(matches!(code.as_str(), "not_claimant" | "lease_lost"), "{code}");
    ok(&mut y, "claimIssueTask", of(&id, "task-1", "worker")).await;
    for tool in ["submitIssueTask", "extendIssueTaskLease"] {
        let (code, text) = no(&mut x, tool, result(&id, "task-1", "worker", "x's")).await;
        assert!(matches!(code.as_str(), "stale_token" | "lease_lost"), "{tool}: {text}");
    }
    let submitted = Under::way(y, "submitIssueTask", result(&id, "task-1", "worker", "y's"));
    let shown = item(&mut leads, &id, "submission").await;
    assert_eq!(shown["submission"]["artifacts"]["summary"], "y's", "{shown}");
    super::approve(&mut leads, &id, "task-1", "worker").await;
    assert_eq!(submitted.done().await.1["submission"]["verdict"], "approved");
    assert_eq!(count(broker, &id, "submission_created").await, 1);
}
