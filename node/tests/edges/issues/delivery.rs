//! An issue's finished work before its acceptors.

use serde_json::json;

use super::{
    Office, add_task, approve, ask, begin, claim, delivered, delivery, finish, name, open_issue,
    refusal, verdict,
};
use crate::process::soon;

const LEAD: &str = "lead=swarm-lead:full";
const WORKER: &str = "worker=swarm-worker:full";
const ACCEPTOR: &str = "acceptor=swarm-acceptor:full";

/// As the issue's diagram goes, on three nodes: a plan, the work, the delivery, a rejection, the
/// same delivery said again, another one, its approval, the end.
#[tokio::test]
async fn an_issue_goes_from_its_plan_to_its_approved_delivery() {
    let office = Office::open(&[LEAD, WORKER, ACCEPTOR]).await;
    let (lead, worker) = (office.client(0, "lead").await, office.client(1, "worker").await);
    let acceptor = office.client(2, "acceptor").await;
    ask(&worker, "registerWorker", json!({})).await;
    let issue = open_issue(&lead).await;
    let mut second = super::task("Second");
    second["blocked_by"] = json!(["First"]);
    let plan = json!({ "issue_id": issue, "tasks": [super::task("First"), second] });
    let planned = ask(&lead, "planIssueTasks", plan).await;
    assert_eq!(planned["tasks"][1]["blocked_by"], json!(["task-1"]), "{planned}");
    assert_eq!(
        (&planned["tasks"][0]["stage"], &planned["tasks"][1]["stage"]),
        (&"ready".into(), &"blocked".into())
    );

    let of = json!({ "issue_id": issue });
    for task in ["task-1", "task-2"] {
        let offered = ask(&worker, "waitIssueTasks", of.clone()).await;
        assert_eq!(offered["tasks"][0]["id"], task, "{offered}");
        ask(&worker, "claimIssueTask", claim(&issue, task)).await;
        let reviewed = approve(&lead, &worker, &issue, task).await;
        let next = name(&reviewed["next_actions"][0]);
        assert_eq!(next.contains("submitDelivery"), task == "task-2", "{reviewed}");
    }
    let open = ask(&lead, "listIssueTasks", json!({ "issue_id": issue, "status": "open" })).await;
    assert_eq!((&open["tasks"], &open["total"]), (&json!([]), &0.into()));
    let files = ["task-1.rs", "task-2.rs"];
    let (code, words) =
        refusal(&lead, "submitDelivery", delivered(&issue, &files[..1], "done")).await;
    assert!(words.contains("artifacts.changed_files is insufficient"), "{code} {words}");
    assert!(words.contains("task-2.rs"), "{words}");

    let waiting = begin(&lead, "submitDelivery", delivery(&issue, &files, "done"));
    let there = ask(&acceptor, "waitDeliveries", json!({})).await;
    let first = name(&there["deliveries"][0]["id"]);
    assert_eq!(there["deliveries"][0]["status"], "open", "{there}");
    let own = json!({ "status": "in_review" });
    assert_eq!(ask(&acceptor, "waitDeliveries", own.clone()).await["deliveries"], json!([]));
    let claimed = ask(&acceptor, "claimDelivery", json!({ "delivery_id": first })).await;
    assert_eq!(
        (&claimed["status"], &claimed["claimed_by"]),
        (&"in_review".into(), &"acceptor".into())
    );
    assert_eq!(claimed["test_evidence"]["doc_commands"], json!(["make test"]));
    let again = ask(&acceptor, "claimDelivery", json!({ "delivery_id": first })).await;
    assert_eq!(again["lease_expires_at_ms"], claimed["lease_expires_at_ms"]);
    let own = ask(&acceptor, "waitDeliveries", own).await;
    assert_eq!(own["deliveries"][0]["id"], first.as_str());
    let bundle = ask(&acceptor, "getIssueAcceptanceBundle", of.clone()).await;
    assert_eq!(bundle["issue"]["docs"], json!(["lead", "user"]));
    assert_eq!(bundle["tasks"][1]["submission"]["artifacts"]["summary"], "did task-2");
    assert_eq!(bundle["tasks"][0]["words"]["spec"]["acceptance"], "make test");
    assert_eq!((&bundle["delivery"]["id"], bundle.get("left_out")), (&first.clone().into(), None));
    let held = json!({ "delivery_id": first, "extend_sec": 7_200 });
    let held = ask(&acceptor, "extendDeliveryLease", held).await;
    assert!(claimed["lease_expires_at_ms"].as_u64() < held["lease_expires_at_ms"].as_u64());

    let judged = ask(&acceptor, "reviewDelivery", verdict(&first, "rejected")).await;
    assert_eq!(judged["verdict"], "rejected", "{judged}");
    let told = soon(waiting).await.unwrap();
    assert_eq!((&told["status"], &told["verdict"]), (&"there".into(), &"rejected".into()));
    assert_eq!(
        (&told["delivery_id"], &told["delivery"]["feedback"]),
        (&first.clone().into(), &"as I saw it".into())
    );
    // A call that was cut off before the verdict came.
    let told = ask(&lead, "submitDelivery", delivery(&issue, &files, "done")).await;
    assert_eq!(
        (&told["delivery_id"], &told["verdict"]),
        (&first.clone().into(), &"rejected".into())
    );

    let better = delivered(&issue, &files, "done, and the parser too");
    let waiting = ask(&lead, "submitDelivery", better.clone()).await;
    assert_eq!(waiting["status"], "still_waiting", "{waiting}");
    let second = name(&waiting["delivery_id"]);
    assert_ne!(second, first);
    assert_eq!(ask(&lead, "submitDelivery", better.clone()).await["delivery_id"], second.as_str());
    let (code, _) =
        refusal(&lead, "submitDelivery", delivered(&issue, &files, "other words")).await;
    assert_eq!(code, "already_delivered");
    let (code, _) = refusal(&lead, "closeIssue", of.clone()).await;
    assert_eq!(code, "not_accepted");
    ask(&acceptor, "claimDelivery", json!({ "delivery_id": second })).await;
    ask(&acceptor, "reviewDelivery", verdict(&second, "approved")).await;
    let told = ask(&lead, "submitDelivery", better).await;
    assert_eq!(
        (&told["delivery_id"], &told["verdict"]),
        (&second.clone().into(), &"approved".into())
    );
    let listed = ask(&acceptor, "listDeliveries", json!({ "issue_id": issue })).await;
    assert_eq!((&listed["total"], &listed["deliveries"][0]["id"]), (&2.into(), &second.into()));
    let closed = ask(&lead, "closeIssue", of).await;
    assert_eq!((&closed["status"], closed.get("is_unaccepted")), (&"done".into(), None));
}

/// The original approved a delivery whose script and steps had failed, and one of an issue without
/// a task.
#[tokio::test]
async fn what_failed_is_not_approved_and_nothing_is_not_delivered() {
    let office = Office::open(&[LEAD, WORKER, ACCEPTOR]).await;
    let (lead, worker) = (office.client(0, "lead").await, office.client(1, "worker").await);
    let acceptor = office.client(2, "acceptor").await;
    ask(&worker, "registerWorker", json!({})).await;
    let issue = open_issue(&lead).await;
    let (code, _) = refusal(&lead, "submitDelivery", delivered(&issue, &[], "nothing")).await;
    assert_eq!(code, "nothing_to_deliver");
    let task = add_task(&lead, &issue, "First").await;
    let (code, words) = refusal(&lead, "submitDelivery", delivered(&issue, &[], "early")).await;
    assert!(code == "tasks_not_done" && words.contains("task-1:open"), "{words}");
    finish(&lead, &worker, &issue, &task).await;
    let mut elsewhere = delivered(&issue, &["task-1.rs"], "done");
    elsewhere["test_evidence"]["doc_path"] = "steps.md".into();
    let (_, words) = refusal(&lead, "submitDelivery", elsewhere).await;
    assert!(words.contains("issue-xxx-test-steps.md"), "{words}");
    let told = ask(&lead, "submitDelivery", delivered(&issue, &["task-1.rs"], "done")).await;
    let id = name(&told["delivery_id"]);
    let (code, _) = refusal(&acceptor, "reviewDelivery", verdict(&id, "approved")).await;
    assert_eq!(code, "not_claimant");
    ask(&acceptor, "claimDelivery", json!({ "delivery_id": id })).await;
    let mut unaligned = verdict(&id, "approved");
    unaligned["verification"]["doc_results"] = json!([]);
    let (_, words) = refusal(&acceptor, "reviewDelivery", unaligned).await;
    assert!(words.contains("must align with delivery test_evidence.doc_commands"), "{words}");
    for field in ["script_passed", "doc_passed"] {
        let mut failed = verdict(&id, "approved");
        failed["verification"][field] = false.into();
        let (code, words) = refusal(&acceptor, "reviewDelivery", failed).await;
        assert!(code == "evidence_failed" && words.contains("reject it"), "{words}");
    }
    let mut failed = verdict(&id, "approved");
    failed["verification"]["doc_results"][0]["passed"] = false.into();
    failed["verification"]["doc_results"][0]["exit_code"] = json!(-9);
    let (code, words) = refusal(&acceptor, "reviewDelivery", failed.clone()).await;
    assert!(code == "evidence_failed" && words.contains("-9"), "{words}");
    failed["verdict"] = "rejected".into();
    assert_eq!(ask(&acceptor, "reviewDelivery", failed).await["verdict"], "rejected");
    // Ended without a delivery: its lead says why, and that is told.
    let of = json!({ "issue_id": issue });
    assert_eq!(refusal(&lead, "closeIssue", of.clone()).await.0, "not_accepted");
    let why = json!({ "issue_id": issue, "summary": "not needed any more" });
    let closed = ask(&lead, "closeIssue", why).await;
    assert_eq!(closed["is_unaccepted"], true, "{closed}");
    assert!(name(&closed["summary"]).contains("not needed any more"), "{closed}");
    assert!(name(&closed["next_actions"][0]).contains("without an approved delivery"));
    let shown = ask(&acceptor, "getIssue", of.clone()).await;
    assert_eq!((&shown["status"], &shown["is_unaccepted"]), (&"done".into(), &true.into()));
    let again = json!({ "issue_id": issue, "summary": "needed after all" });
    assert_eq!(ask(&lead, "reopenIssue", again).await["status"], "open");
    let open = ask(&lead, "listOpenedIssues", json!({})).await;
    assert_eq!((&open["total"], &open["issues"][0]["id"]), (&1.into(), &issue.into()));
}

#[tokio::test]
async fn of_two_acceptors_at_once_one_has_it_and_a_dead_ones_claim_lapses() {
    let other = "other=swarm-acceptor:full";
    let mut office = Office::open(&[LEAD, WORKER, ACCEPTOR, other]).await;
    let (lead, worker) = (office.client(0, "lead").await, office.client(1, "worker").await);
    let acceptors = [office.client(2, "acceptor").await, office.client(3, "other").await];
    ask(&worker, "registerWorker", json!({})).await;
    let issue = open_issue(&lead).await;
    let task = add_task(&lead, &issue, "First").await;
    finish(&lead, &worker, &issue, &task).await;
    let told = ask(&lead, "submitDelivery", delivered(&issue, &["task-1.rs"], "done")).await;
    let id = name(&told["delivery_id"]);
    office.set(|settings| settings.delivery_claim_ms = 1_000).await;
    let take = |acceptor: &crate::http::Client| {
        let (acceptor, of) = (acceptor.clone(), json!({ "delivery_id": id }));
        tokio::spawn(async move { acceptor.call("claimDelivery", of).await })
    };
    let [first, second] = [take(&acceptors[0]), take(&acceptors[1])];
    let [first, second] = [soon(first).await.unwrap(), soon(second).await.unwrap()];
    let (holder, refused) = match first["isError"] == true {
        true => (1, first),
        false => (0, second),
    };
    let code = &refused["structuredContent"]["error"]["code"];
    assert_eq!(code, "delivery_already_claimed", "{refused}");
    let names = ["acceptor", "other"];
    assert!(refused.to_string().contains(names[holder]), "{refused}");

    office.nodes[2 + holder].kill().await;
    let left = &acceptors[1 - holder];
    let there = ask(left, "waitDeliveries", json!({})).await;
    let found = &there["deliveries"][0];
    assert_eq!((&found["id"], &found["status"]), (&id.clone().into(), &"open".into()));
    office.set(|settings| settings.delivery_claim_ms = 3_600_000).await;
    ask(left, "claimDelivery", json!({ "delivery_id": id })).await;
    office.nodes[2 + holder].start().await;
    let late = office.client(2 + holder, names[holder]).await;
    let (code, words) = refusal(&late, "reviewDelivery", verdict(&id, "rejected")).await;
    assert!(["lease_lost", "not_claimant"].contains(&&code[..]), "{code} {words}");
    assert_eq!(ask(left, "reviewDelivery", verdict(&id, "approved")).await["verdict"], "approved");
}
