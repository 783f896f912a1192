//! What is refused says why, and changes nothing.

use tasuki_proto::wire::{self, swarm_question::Ask};
use tonic::Status;

use super::{employ, files, office, verdict};
use crate::support::reason;

fn said<T: std::fmt::Debug>(came: Result<T, Status>) -> (&'static str, String) {
    let status = came.unwrap_err();
    (reason(&status), status.message().to_owned())
}

#[tokio::test]
async fn malformed_calls_are_refused_with_the_field_that_is_wrong() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, [mut lead, mut worker]) = office(data.path(), ["lead", "worker"]).await;
    employ(&mut worker).await;
    let id = lead.issue(&[1]).await;
    let task = worker.claim(&id, "task-1", "").await.unwrap();
    let mut all: Vec<(&str, (&str, String))> = Vec::new();

    let create = |subject: &str| wire::CreateIssueRequest {
        subject: subject.to_owned(),
        ..Default::default()
    };
    all.push(("subject", said(lead.create_issue(create(" ")).await)));
    all.push(("subject", said(lead.create_issue(create("two\nlines")).await)));
    let doc = |name: &str| wire::NewDoc { name: name.to_owned(), content: "c".to_owned() };
    let docs = |docs| wire::CreateIssueRequest { docs, ..create("s") };
    all.push(("docs.name", said(lead.create_issue(docs(vec![doc("../../evil")])).await)));
    all.push(("docs.name", said(lead.create_issue(docs(vec![doc("a"), doc("a.md")])).await)));

    let new = wire::NewTask { subject: "s".to_owned(), ..Default::default() };
    let tasks =
        |tasks| wire::CreateTasksRequest { issue_id: id.clone(), tasks, ..Default::default() };
    all.push(("tasks", said(lead.create_tasks(tasks(vec![])).await)));
    all.push(("difficulty", said(lead.create_tasks(tasks(vec![new])).await)));

    let submit = wire::SubmitTaskRequest {
        issue_id: id.clone(),
        task_id: "task-1".to_owned(),
        ..Default::default()
    };
    all.push(("artifacts", said(worker.submit_task(submit.clone()).await)));
    let words = Some(wire::SubmissionWords::default());
    let submit = wire::SubmitTaskRequest { words, ..submit };
    all.push(("artifacts.summary", said(worker.submit_task(submit.clone()).await)));
    let full = "0123456789abcdef0123456789abcdef01234567";
    for commit in ["HEAD", "0123456", &full.to_uppercase(), &full[1..], &format!("{full} ")] {
        let rerun = Some(wire::Rerun { commit: commit.to_owned(), commands: Vec::new() });
        let summary = "done".to_owned();
        let words = wire::SubmissionWords { summary, rerun: rerun.clone(), ..Default::default() };
        let submit = wire::SubmitTaskRequest { words: Some(words), ..submit.clone() };
        all.push(("rerun.commit", said(worker.submit_task(submit).await)));
        let evidence = wire::TestEvidence {
            doc_path: "issue-1-test-steps.md".to_owned(),
            rerun,
            ..Default::default()
        };
        let deliver = wire::SubmitDeliveryRequest {
            issue_id: id.clone(),
            summary: "done".to_owned(),
            artifacts: Some(wire::DeliveryArtifacts::default()),
            test_evidence: Some(evidence),
            ..Default::default()
        };
        all.push(("rerun.commit", said(lead.submit_delivery(deliver).await)));
    }
    worker.submit(&task, "done").await.unwrap();

    all.push(("completion_score", said(lead.review_task(verdict(&task, "", 3)).await)));
    let mut review = verdict(&task, "", 1);
    review.review.as_mut().unwrap().details.clear();
    all.push(("artifacts.reviewed_refs", said(lead.review_task(review).await)));
    let mut review = verdict(&task, "", 1);
    review.review.as_mut().unwrap().details[0].severity = "huge".to_owned();
    all.push(("feedback_details.severity", said(lead.review_task(review).await)));

    let post = wire::PostMessageRequest {
        issue_id: id.clone(),
        task_id: "task-1".to_owned(),
        kind: "shout".to_owned(),
        content: "c".to_owned(),
        ..Default::default()
    };
    all.push(("kind", said(worker.post_message(post).await)));
    for (field, patterns) in
        [("files", &["../up"][..]), ("files", &["/abs"]), ("files", &["[a"]), ("files", &[])]
    {
        let lock = wire::LockFilesRequest { files: files(patterns), ..Default::default() };
        all.push((field, said(worker.lock_files(lock).await)));
    }
    let nowhere = wire::FileSet { patterns: vec!["a".to_owned()], ..Default::default() };
    let lock = wire::LockFilesRequest { files: Some(nowhere), ..Default::default() };
    all.push(("files.repository", said(worker.lock_files(lock).await)));
    let place = Some(wire::DocPlace { task_id: "task-1".to_owned(), ..Default::default() });
    let write = wire::WriteDocRequest { place, name: "a".to_owned(), ..Default::default() };
    all.push(("issue_id", said(worker.write_doc(write).await)));
    let for_ms = 24 * 3_600_000 + 1;
    let task_id = "task-1".to_owned();
    let renew =
        wire::RenewClaimRequest { issue_id: id.clone(), task_id, for_ms, ..Default::default() };
    all.push(("for_ms", said(worker.renew_claim(renew).await)));
    let extend = wire::ExtendIssueRequest { issue_id: id.clone(), for_ms, ..Default::default() };
    all.push(("for_ms", said(lead.extend_issue(extend).await)));
    let lock = wire::LockFilesRequest { files: files(&["a"]), for_ms, ..Default::default() };
    all.push(("for_ms", said(worker.lock_files(lock).await)));
    let lease_id = "l_1700000000000_0001".to_owned();
    let renew = wire::RenewLockRequest { lease_id, for_ms, ..Default::default() };
    all.push(("for_ms", said(worker.renew_lock(renew).await)));
    let delivery_id = "delivery_1700000000000_0001".to_owned();
    let claim = wire::ClaimDeliveryRequest { delivery_id, for_ms, ..Default::default() };
    all.push(("for_ms", said(lead.claim_delivery(claim.clone()).await)));
    let renew =
        wire::RenewDeliveryRequest { delivery_id: claim.delivery_id, for_ms, ..Default::default() };
    all.push(("for_ms", said(lead.renew_delivery(renew).await)));
    let question = wire::SwarmQuestion { role: "lead".to_owned(), ..Default::default() };
    all.push(("ask", said(lead.swarm.await_swarm(question).await)));
    all.push(("tasks_of", said(lead.ask(Ask::TasksOf("main".to_owned()), 0).await)));
    for (field, (reason, text)) in all {
        assert_eq!(reason, "invalid_argument", "{text}");
        assert!(text.starts_with(field), "{field}: {text}");
    }

    let long = wire::WriteDocRequest {
        name: "long".to_owned(),
        content: "x".repeat(256 * 1024 + 1),
        ..Default::default()
    };
    assert_eq!(said(lead.write_doc(long).await).0, "too_large");
    let issues = lead.list_issues(wire::ListIssuesRequest::default()).await.unwrap();
    assert_eq!(issues.total, 1, "what is refused changes nothing");
    assert!(lead.list_locks(wire::ListLocksRequest::default()).await.unwrap().locks.is_empty());
}

#[tokio::test]
async fn work_is_judged_by_others_and_done_by_whoever_has_charge_of_it() {
    let data = tempfile::tempdir().unwrap();
    let roles = ["lead", "worker", "other"];
    let (_broker, [mut lead, mut worker, mut other]) = office(data.path(), roles).await;
    let id = lead.issue(&[1, 1]).await;
    let unknown = said(worker.claim(&id, "task-1", "").await);
    assert_eq!(unknown.0, "unknown_worker");
    employ(&mut worker).await;
    employ(&mut other).await;
    assert_eq!(said(worker.claim(&id, "task-9", "").await).0, "unknown_task");
    let garbage = said(worker.claim(&id, "task-1", "garbage").await);
    assert_eq!(garbage.0, "invalid_next_step_token");
    let task = worker.claim(&id, "task-1", "").await.unwrap();
    let stolen = wire::Task { claim_token: 0, ..task.clone() };
    assert_eq!(said(other.submit(&stolen, "mine").await).0, "not_claimant");
    let old = wire::Task { claim_token: task.claim_token + 1, ..task.clone() };
    assert_eq!(said(worker.submit(&old, "old").await).0, "stale_token");
    assert_eq!(said(lead.review_task(verdict(&task, "", 1)).await).0, "no_open_submission");
    worker.submit(&task, "done").await.unwrap();
    assert_eq!(said(worker.review_task(verdict(&task, "", 1)).await).0, "own_work");
    let next = lead.mint(&task, 5).await;
    let bare = wire::ReviewTaskRequest {
        next_step_token: String::new(),
        ..verdict(&task, &next.token, 5)
    };
    let bare = said(lead.review_task(bare).await);
    assert!(bare.1.starts_with("next_step_token is required"), "{bare:?}");
    lead.review_task(verdict(&task, &next.token, 5)).await.unwrap();
    assert_eq!(said(other.claim(&id, "task-2", "").await).0, "task_reserved");
    assert_eq!(said(other.claim(&id, "task-2", &next.token).await).0, "invalid_next_step_token");
    worker.claim(&id, "task-2", &next.token).await.unwrap();

    let reply = wire::ReplyMessageRequest {
        issue_id: id.clone(),
        task_id: "task-2".to_owned(),
        content: "c".to_owned(),
        ..Default::default()
    };
    assert_eq!(said(lead.reply_message(reply).await).0, "unknown_message");
    let close = wire::CloseIssueRequest { issue_id: id, ..Default::default() };
    assert_eq!(said(lead.close_issue(close).await).0, "tasks_not_done");
}
