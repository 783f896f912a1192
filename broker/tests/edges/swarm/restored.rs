//! Claims, locks, next steps and deliveries that were granted before a restore, each presented to
//! the broker that was restored.

use tasuki_proto::wire;

use super::{Desk, employ, files, flows::delivery, office};
use crate::{
    backup::{back_up, restored},
    support::{Process, reason},
};

#[tokio::test]
async fn what_was_granted_before_a_restore_is_refused_by_its_number_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("file.backup"));
    let roles = ["lead", "worker", "other", "acceptor"];
    let (broker, [mut lead, mut worker, mut other, mut acceptor]) = office(&data, roles).await;
    employ(&mut worker).await;
    employ(&mut other).await;
    let lock =
        |patterns: &[&str]| wire::LockFilesRequest { files: files(patterns), ..Default::default() };
    // A delivery that is claimed.
    let done = lead.issue(&[1]).await;
    let task = worker.claim(&done, "task-1", "").await.unwrap();
    worker.submit(&task, "done").await.unwrap();
    lead.approve(&task, 5).await;
    let delivered = lead.submit_delivery(delivery(&done, &["src/task-1.rs"])).await.unwrap();
    let delivery_id = delivered.delivery.unwrap().delivery_id;
    let claim = wire::ClaimDeliveryRequest { delivery_id, ..Default::default() };
    let delivered = acceptor.claim_delivery(claim).await.unwrap().delivery.unwrap();
    // A claim, a lock, and a task that is kept for a next step.
    let issue = lead.issue_called("Another", &[1, 1, 1]).await;
    let known = worker.claim(&issue, "task-1", "").await.unwrap();
    let locked = worker.lock_files(lock(&["a"])).await.unwrap().lock.unwrap();
    let reviewed = other.claim(&issue, "task-2", "").await.unwrap();
    other.submit(&reviewed, "done").await.unwrap();
    let next = lead.approve(&reviewed, 5).await;
    assert_eq!(next.task_id, "task-3");
    back_up(&data, &file).await;
    // Granted since: the broker that is restored never hears of it.
    let lost = other.claim(&issue, "task-3", &next.token).await.unwrap();
    let lost_lock = other.lock_files(lock(&["b"])).await.unwrap().lock.unwrap();
    broker.kill().await;

    let target = dir.path().join("restored");
    restored(&file, &target).await;
    let (broker, address) = Process::served(&target).await;
    // Each is a client of its own: nothing is answered from what was kept.
    let desk = |role: &str| Desk { counter: 1000, ..Desk::at(address, role) };
    let [mut worker, mut other, mut acceptor] = [desk("worker"), desk("other"), desk("acceptor")];
    let renew = |task: &wire::Task| wire::RenewClaimRequest {
        issue_id: task.issue_id.clone(),
        task_id: task.task_id.clone(),
        claim_token: task.claim_token,
        ..Default::default()
    };
    let renew_lock = |lock: &wire::Lock| wire::RenewLockRequest {
        lease_id: lock.lease_id.clone(),
        lock_token: lock.lock_token,
        ..Default::default()
    };
    let renew_delivery = wire::RenewDeliveryRequest {
        delivery_id: delivered.delivery_id.clone(),
        claim_token: delivered.claim_token,
        ..Default::default()
    };
    let refused = [
        ("a claim", worker.renew_claim(renew(&known)).await.map(drop), "stale_token"),
        ("a submission", worker.submit(&known, "late").await.map(drop), "stale_token"),
        ("a lock", worker.renew_lock(renew_lock(&locked)).await.map(drop), "stale_token"),
        ("a delivery", acceptor.renew_delivery(renew_delivery).await.map(drop), "stale_token"),
        ("a lost claim", other.renew_claim(renew(&lost)).await.map(drop), "not_claimant"),
        (
            "a lost lock",
            other.renew_lock(renew_lock(&lost_lock)).await.map(drop),
            "lease_not_found",
        ),
    ];
    for (what, answered, expected) in refused {
        assert_eq!(reason(&answered.expect_err(what)), expected, "{what}");
    }
    let kept = other.claim(&issue, "task-3", &next.token).await.expect_err("a next step");
    assert_ne!(reason(&kept), "none", "{kept:?}");

    // What is held is still its holder's, under numbers that nobody had.
    let held = other.lock_files(lock(&["a"])).await.expect_err("it is the worker's");
    assert_ne!(reason(&held), "none", "{held:?}");
    let current = worker.task(&issue, "task-1").await;
    assert_eq!(current.claimed_by, "worker");
    let now = worker.renew_claim(renew(&current)).await.unwrap().task.unwrap();
    let newest = known.claim_token.max(lost.claim_token).max(lost_lock.lock_token);
    assert!(newest < now.claim_token, "I3: {} after {newest}", now.claim_token);
    let fresh = other.claim(&issue, "task-3", "").await.unwrap();
    assert!(now.claim_token < fresh.claim_token, "I3");
    broker.kill().await;
}
