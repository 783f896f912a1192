//! A broker that is killed after each step still knows the step, and answers it again as before.

use tasuki_proto::wire::{self, TaskStatus, swarm_answer::Standing, swarm_question::Ask};

use super::{employ, files, office, verdict};
use crate::support::{Process, assert_whole, key};

/// Does a step, kills the broker, and does it again under the same key.
macro_rules! twice {
    ($broker:ident, $data:ident, [$($desk:ident),*], $who:ident.$call:ident($request:expr), $of:expr) => {{
        let mut request = $request;
        request.key = $who.key();
        let of = $of;
        let first = $who.$call(request.clone()).await.unwrap();
        $broker.kill().await;
        let (started, address) = Process::served($data.path()).await;
        $broker = started;
        $($desk.moved(address);)*
        let again = $who.$call(request).await.unwrap();
        assert_eq!(of(&first), of(&again), stringify!($call));
        first
    }};
}

#[tokio::test]
async fn every_step_survives_a_broker_that_is_killed_behind_it() {
    let data = tempfile::tempdir().unwrap();
    let (mut broker, [mut lead, mut worker]) = office(data.path(), ["lead", "worker"]).await;
    employ(&mut worker).await;
    macro_rules! step {
        ($who:ident.$call:ident($request:expr), $of:expr) => {
            twice!(broker, data, [lead, worker], $who.$call($request), $of)
        };
    }
    let create = wire::CreateIssueRequest { subject: "Build it".to_owned(), ..Default::default() };
    let issue = step!(lead.create_issue(create), |it: &wire::IssueResponse| it
        .issue
        .as_ref()
        .unwrap()
        .issue_id
        .clone());
    let id = issue.issue.unwrap().issue_id;
    let task = wire::NewTask {
        subject: "one".to_owned(),
        difficulty: wire::Difficulty::Easy.into(),
        points: 2,
        ..Default::default()
    };
    let tasks = vec![task.clone(), task];
    let create = wire::CreateTasksRequest { issue_id: id.clone(), tasks, ..Default::default() };
    step!(lead.create_tasks(create), |it: &wire::CreateTasksResponse| it.tasks.len());

    let task_id = "task-1".to_owned();
    let claim = wire::ClaimTaskRequest { issue_id: id.clone(), task_id, ..Default::default() };
    let token = |it: &wire::TaskResponse| it.task.as_ref().unwrap().claim_token;
    let task = step!(worker.claim_task(claim), token).task.unwrap();
    assert_ne!(task.claim_token, 0);
    let lock = wire::LockFilesRequest { files: files(&["a"]), ..Default::default() };
    let lease = |it: &wire::LockResponse| it.lock.as_ref().unwrap().lease_id.clone();
    step!(worker.lock_files(lock), lease);
    let ask = wire::PostMessageRequest {
        issue_id: id.clone(),
        task_id: "task-1".to_owned(),
        kind: "question".to_owned(),
        content: "which way?".to_owned(),
        ..Default::default()
    };
    let message = |it: &wire::MessageResponse| it.message.as_ref().unwrap().message_id.clone();
    step!(worker.post_message(ask), message);
    let reply = wire::ReplyMessageRequest {
        issue_id: id.clone(),
        task_id: "task-1".to_owned(),
        content: "left".to_owned(),
        ..Default::default()
    };
    step!(lead.reply_message(reply), message);
    let submit = wire::SubmitTaskRequest {
        issue_id: id.clone(),
        task_id: "task-1".to_owned(),
        claim_token: task.claim_token,
        words: Some(wire::SubmissionWords { summary: "done".to_owned(), ..Default::default() }),
        ..Default::default()
    };
    let submission = |it: &wire::SubmitTaskResponse| it.submission_id.clone();
    let submission = step!(worker.submit_task(submit), submission).submission_id;
    let item = lead.item(&id).await;
    assert_eq!(item.submission.unwrap().submission_id, submission);
    let mint = wire::MintNextStepRequest {
        issue_id: id.clone(),
        task_id: "task-1".to_owned(),
        worker: "worker".to_owned(),
        completion_score: 5,
        ..Default::default()
    };
    let step = |it: &wire::MintNextStepResponse| it.next_step.clone();
    let next = step!(lead.mint_next_step(mint), step).next_step.unwrap();
    let status = |it: &wire::TaskResponse| it.task.as_ref().unwrap().status();
    step!(lead.review_task(verdict(&task, &next.token, 5)), status);
    let told = worker.wait(Ask::Submission(submission)).await.submission.unwrap();
    assert_eq!(told.next_step.unwrap().token, next.token);
    let claim = wire::ClaimTaskRequest {
        issue_id: id.clone(),
        task_id: "task-2".to_owned(),
        next_step_token: next.token,
        ..Default::default()
    };
    let second = step!(worker.claim_task(claim), token).task.unwrap();
    assert!(task.claim_token < second.claim_token, "I3");
    assert_eq!(lead.task(&id, "task-1").await.status(), TaskStatus::Done);
    let nothing = worker.ask(Ask::TasksOf(id.clone()), 0).await.unwrap();
    assert_eq!(nothing.standing(), Standing::StillWaiting);

    let history = wire::GetHistoryRequest { issue_id: id, ..Default::default() };
    let history = lead.get_history(history).await.unwrap();
    let numbers: Vec<u64> = history.entries.iter().map(|it| it.number).collect();
    assert_eq!(numbers, (1..=history.total).collect::<Vec<_>>(), "I7");
    let kinds: Vec<&str> = history.entries.iter().map(|it| it.r#type.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "issue_created",
            "issue_task_created",
            "issue_task_created",
            "issue_task_claimed",
            "issue_task_message",
            "issue_task_replied",
            "submission_created",
            "issue_task_reserved",
            "issue_task_resolved",
            "issue_task_claimed",
        ]
    );
    broker.kill().await;
    assert_whole(data.path()).await;
}

/// Whoever waited over a broker that was killed asks again, and hears what it would have heard.
#[tokio::test]
async fn a_wait_that_broke_is_asked_again() {
    let data = tempfile::tempdir().unwrap();
    let (broker, [mut lead, mut worker]) = office(data.path(), ["lead", "worker"]).await;
    employ(&mut worker).await;
    let id = lead.issue(&[1]).await;
    let task = worker.claim(&id, "task-1", "").await.unwrap();
    let submission = worker.submit(&task, "done").await.unwrap();
    let waiting = {
        let (mut worker, submission) = (worker.clone(), submission.clone());
        tokio::spawn(async move { worker.ask(Ask::Submission(submission), 60_000).await })
    };
    let asked = wire::ListWorkersRequest { role: "worker".to_owned(), ..Default::default() };
    lead.list_workers(asked).await.unwrap();
    broker.kill().await;
    let broke = waiting.await.unwrap();
    assert!(broke.is_err(), "{broke:?}");
    let (_broker, address) = Process::served(data.path()).await;
    lead.moved(address);
    worker.moved(address);
    lead.approve(&task, 5).await;
    let told = worker.wait(Ask::Submission(submission)).await.submission.unwrap();
    assert_eq!(told.status(), wire::SubmissionStatus::Approved);
    // A key that was used for something else is not answered, though it is said in the same bytes.
    let (issue_id, same) = (id, key("desk-lead", 90));
    let extend = wire::ExtendIssueRequest {
        key: same.clone(),
        issue_id: issue_id.clone(),
        ..Default::default()
    };
    lead.extend_issue(extend).await.unwrap();
    let reopen = wire::ReopenIssueRequest { key: same, issue_id, ..Default::default() };
    let refused = lead.reopen_issue(reopen).await.unwrap_err();
    assert_eq!(crate::support::reason(&refused), "key_reused");
}
