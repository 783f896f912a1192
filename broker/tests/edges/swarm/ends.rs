//! Tasks that are canceled, and leases whose holder stays away while the broker comes and goes.

use rustix::process::Signal;
use tasuki_proto::wire::{self, TaskStatus, swarm_question::Ask};

use super::{Desk, employ, files, office};
use crate::support::{Process, caller, key, reason, soon};

#[tokio::test]
async fn a_canceled_task_is_told_to_whoever_waits_on_it() {
    let data = tempfile::tempdir().unwrap();
    let roles = ["lead", "worker", "other"];
    let (_broker, [mut lead, mut worker, mut other]) = office(data.path(), roles).await;
    employ(&mut worker).await;
    employ(&mut other).await;
    let id = lead.issue(&[1]).await;
    let after = wire::NewTask {
        subject: "after it".to_owned(),
        difficulty: wire::Difficulty::Easy.into(),
        blocked_by: vec!["task-1".to_owned()],
        ..Default::default()
    };
    let tasks = vec![after];
    let create = wire::CreateTasksRequest { issue_id: id.clone(), tasks, ..Default::default() };
    lead.create_tasks(create).await.unwrap();
    let task = worker.claim(&id, "task-1", "").await.unwrap();
    let ask = wire::PostMessageRequest {
        issue_id: id.clone(),
        task_id: "task-1".to_owned(),
        kind: "question".to_owned(),
        content: "which way?".to_owned(),
        refs: "src/a.rs:7".to_owned(),
        ..Default::default()
    };
    let message = worker.post_message(ask).await.unwrap().message.unwrap().message_id;
    let submission = worker.submit(&task, "half of it").await.unwrap();
    let waiting = [Ask::Submission(submission), Ask::Message(message)].map(|ask| {
        let mut worker = worker.clone();
        tokio::spawn(async move { worker.wait(ask).await.ended_because })
    });
    let free = {
        let (mut other, id) = (other.clone(), id.clone());
        tokio::spawn(async move { other.wait(Ask::TasksOf(id)).await.tasks })
    };
    let cancel = |reason: &str| wire::CancelTaskRequest {
        issue_id: id.clone(),
        task_id: "task-1".to_owned(),
        reason: reason.to_owned(),
        ..Default::default()
    };
    let why = lead.cancel_task(cancel(" ")).await.unwrap_err();
    assert_eq!(reason(&why), "invalid_argument");
    let canceled = lead.cancel_task(cancel("not wanted")).await.unwrap();
    assert_eq!(canceled.task.unwrap().status(), TaskStatus::Canceled);
    assert!(lead.cancel_task(cancel("not wanted")).await.unwrap().repeated);
    for told in waiting {
        let told = soon("the end", told).await.unwrap();
        assert_eq!(told, "the task was canceled: not wanted (blocks no longer: task-2)");
    }
    assert_eq!(soon("a free task", free).await.unwrap()[0].task_id, "task-2");
    let lost = worker.submit(&task, "all of it").await.unwrap_err();
    assert_eq!(reason(&lost), "lease_lost");
    assert!(lost.message().contains("was canceled") && lost.message().contains("another one"));
    let history = wire::GetHistoryRequest { issue_id: id, ..Default::default() };
    let entries = lead.get_history(history).await.unwrap().entries;
    let asked = entries.iter().find(|it| it.kind == "question").unwrap();
    assert_eq!(asked.refs, "src/a.rs:7");
    let last = entries.last().unwrap();
    assert_eq!((last.r#type.as_str(), last.role.as_str()), ("issue_task_canceled", "lead"));
}

/// A claim and a lock of a role that stays away: with what the broker was down for they have one
/// lease more, however often it comes and goes.
#[tokio::test]
async fn restarts_in_a_row_give_one_lease_of_grace() {
    let data = tempfile::tempdir().unwrap();
    let (mut broker, [mut lead, mut worker]) = office(data.path(), ["lead", "worker"]).await;
    employ(&mut worker).await;
    let id = lead.issue(&[1]).await;
    shorten(&mut lead, 1000).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let (_other, [mut watcher, mut holder]) = office(elsewhere.path(), ["lead", "worker"]).await;
    shorten(&mut watcher, 1000).await;
    let lock = wire::LockFilesRequest { files: files(&["a"]), ..Default::default() };
    worker.lock_files(lock.clone()).await.unwrap();
    worker.claim(&id, "task-1", "").await.unwrap();
    broker.kill().await;
    // Both run out while it is down: that is what they have a grace for. At another broker, what
    // was locked later for as long has lapsed.
    holder.lock_files(lock).await.unwrap();
    watcher.wait(Ask::Files(files(&["a"]).unwrap())).await;
    let mut graced: Option<Held> = None;
    for _ in 0..3 {
        let (started, address) = Process::served(data.path()).await;
        broker = started;
        lead.moved(address);
        let held = Held::seen(&mut lead, &id).await;
        if let (Some(before), Some(after)) = (graced.and_then(|it| it.0), held.0) {
            assert_eq!(before, after, "the claim");
        }
        if let (Some(before), Some(after)) = (graced.and_then(|it| it.1), held.1) {
            assert_eq!(before, after, "the lock");
        }
        graced = graced.or(Some(held));
        broker.kill().await;
    }
    let (_broker, address) = Process::served(data.path()).await;
    lead.moved(address);
    assert!(lead.wait(Ask::Files(files(&["a"]).unwrap())).await.locks.is_empty());
    let free = lead.wait(Ask::TasksOf(id)).await;
    assert_eq!(free.tasks[0].task_id, "task-1");
}

/// A broker that is stopped for as long as a claim and a lock last, and goes on.
#[tokio::test]
async fn a_broker_that_stood_still_gives_one_lease_of_grace() {
    const LEASE_MS: u64 = 4000;
    let data = tempfile::tempdir().unwrap();
    let (broker, [mut lead, mut worker]) = office(data.path(), ["lead", "worker"]).await;
    employ(&mut worker).await;
    let id = lead.issue(&[1]).await;
    shorten(&mut lead, LEASE_MS).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let (_other, [mut watcher, mut holder]) = office(elsewhere.path(), ["lead", "worker"]).await;
    shorten(&mut watcher, LEASE_MS).await;
    let lock = wire::LockFilesRequest { files: files(&["a"]), ..Default::default() };
    worker.lock_files(lock.clone()).await.unwrap();
    worker.claim(&id, "task-1", "").await.unwrap();
    let mut held = Held::seen(&mut lead, &id).await;
    for is_graced in [true, false] {
        broker.signal(Signal::STOP);
        // At another broker a lease runs out meanwhile that began later.
        let key = key("timer", u64::from(is_graced) + 1);
        holder.lock_files(wire::LockFilesRequest { key, ..lock.clone() }).await.unwrap();
        watcher.wait(Ask::Files(files(&["a"]).unwrap())).await;
        broker.signal(Signal::CONT);
        let judged = async {
            loop {
                let now = Held::seen(&mut lead, &id).await;
                if now != held {
                    return now;
                }
            }
        };
        let now = soon("it looks at its leases", judged).await;
        if is_graced {
            assert!(held.0 < now.0 && held.1 < now.1, "{held:?} {now:?}");
        } else {
            assert_eq!(now, Held(None, None), "one for each grant");
        }
        held = now;
    }
}

/// Claims and locks that last no longer than this.
async fn shorten(desk: &mut Desk, ms: u64) {
    let settings = desk.get_settings(wire::GetSettingsRequest::default()).await.unwrap();
    let settings = wire::SwarmSettings { task_claim_ms: ms, lock_ms: ms, ..settings };
    let set = wire::SetSettingsRequest {
        caller: caller("default"),
        key: key("person", 1),
        person: "somebody".to_owned(),
        settings: Some(settings),
    };
    desk.swarm.set_settings(set).await.unwrap();
}

/// Until when the claim and the lock are held, if they are, once the broker has looked at leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held(Option<u64>, Option<u64>);

impl Held {
    async fn seen(lead: &mut Desk, id: &str) -> Self {
        // A command, so that what lapsed before it is judged.
        employ(&mut lead.clone()).await;
        let task = lead.task(id, "task-1").await;
        let all = wire::ListLocksRequest { role: lead.role.clone(), ..Default::default() };
        let locks = lead.list_locks(all).await.unwrap().locks;
        let is_claimed = task.status() == TaskStatus::InProgress;
        let claim = is_claimed.then_some(task.lease_expires_ms);
        Self(claim, locks.first().map(|it| it.expires_ms))
    }
}
