//! The five flows.

use tasuki_proto::wire::{
    self, IssueStatus, TaskStage, TaskStatus, swarm_answer::Standing, swarm_question::Ask,
};

use super::{Desk, employ, files, office, verdict};
use crate::support::{caller, key, reason, soon};

#[tokio::test]
async fn a_worker_does_a_task_and_is_given_the_next() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, [mut lead, mut worker]) = office(data.path(), ["lead", "worker"]).await;
    employ(&mut worker).await;
    let request = wire::CreateIssueRequest {
        subject: "Build it".to_owned(),
        description: "All of it.".to_owned(),
        docs: vec![wire::NewDoc { name: "user.md".to_owned(), content: "what for".to_owned() }],
        ..Default::default()
    };
    let issue = lead.create_issue(request).await.unwrap().issue.unwrap();
    assert_eq!(
        (issue.status(), issue.docs.as_slice()),
        (IssueStatus::Open, &["user".to_owned()][..])
    );
    assert_eq!((issue.lead.as_str(), issue.description.as_str()), ("lead", "All of it."));
    let id = issue.issue_id;

    let waiting = {
        let (mut worker, id) = (worker.clone(), id.clone());
        tokio::spawn(async move { worker.wait(Ask::TasksOf(id)).await })
    };
    let task = |subject: &str, blocked_by_new: Vec<u32>| wire::NewTask {
        subject: subject.to_owned(),
        difficulty: wire::Difficulty::Easy.into(),
        points: 3,
        blocked_by_new,
        words: Some(wire::TaskWords {
            description: format!("How to {subject}"),
            spec: Some(wire::TaskSpec { goal: "green".to_owned(), ..Default::default() }),
            ..Default::default()
        }),
        ..Default::default()
    };
    let tasks = vec![task("begin", vec![]), task("go on", vec![]), task("end", vec![0, 1])];
    let request = wire::CreateTasksRequest { issue_id: id.clone(), tasks, ..Default::default() };
    let made = lead.create_tasks(request).await.unwrap().tasks;
    let stages: Vec<TaskStage> = made.iter().map(wire::Task::stage).collect();
    assert_eq!(stages, [TaskStage::Ready, TaskStage::Ready, TaskStage::Blocked]);
    assert_eq!(made[2].blocked_by, ["task-1", "task-2"]);

    let offered = soon("a task", waiting).await.unwrap().tasks;
    assert_eq!(offered[0].task_id, "task-1");
    let task = worker.claim(&id, "task-1", "").await.unwrap();
    assert_eq!((task.status(), task.claimed_by.as_str()), (TaskStatus::InProgress, "worker"));
    assert_ne!(task.claim_token, 0);
    assert_eq!(lead.task(&id, "task-1").await.claim_token, 0, "told to its claimant alone");
    let words = task.words.as_ref().unwrap();
    assert_eq!(
        (words.description.as_str(), words.spec.as_ref().unwrap().goal.as_str()),
        ("How to begin", "green")
    );

    let renew = wire::RenewClaimRequest {
        issue_id: id.clone(),
        task_id: "task-1".to_owned(),
        claim_token: task.claim_token,
        for_ms: 7_200_000,
        ..Default::default()
    };
    let renewed = worker.renew_claim(renew).await.unwrap().task.unwrap();
    assert!(task.lease_expires_ms < renewed.lease_expires_ms);
    let get = wire::GetIssueRequest { issue_id: id.clone(), ..Default::default() };
    let issue = lead.get_issue(get).await.unwrap().issue.unwrap();
    let in_progress = issue.tasks.map(|it| it.in_progress);
    assert_eq!((issue.status(), in_progress), (IssueStatus::InProgress, Some(1)));

    let lock = wire::LockFilesRequest {
        files: files(&["src/a.rs", "docs/"]),
        issue_id: id.clone(),
        task_id: "task-1".to_owned(),
        ..Default::default()
    };
    let lock = worker.lock_files(lock).await.unwrap().lock.unwrap();
    let renew = wire::RenewLockRequest {
        lease_id: lock.lease_id.clone(),
        lock_token: lock.lock_token,
        for_ms: 3_600_000,
        ..Default::default()
    };
    let renewed = worker.renew_lock(renew).await.unwrap().lock.unwrap();
    assert!(lock.expires_ms < renewed.expires_ms && lock.lock_token == renewed.lock_token);

    let submission = worker.submit(&task, "It begins.").await.unwrap();
    assert_eq!(worker.submit(&task, "It begins.").await.unwrap(), submission, "the same again");
    assert_eq!(lead.task(&id, "task-1").await.stage(), TaskStage::Submitted);
    let item = lead.item(&id).await;
    assert_eq!(
        (item.kind.as_str(), item.task_id.as_str(), item.sender.as_str()),
        ("submission", "task-1", "worker")
    );
    let submitted = item.submission.unwrap();
    assert_eq!(submitted.words.unwrap().summary, "It begins.");
    assert_eq!(lead.task(&id, "task-1").await.stage(), TaskStage::InReview);

    let waiting = {
        let (mut worker, submission) = (worker.clone(), submission.clone());
        tokio::spawn(async move { worker.wait(Ask::Submission(submission)).await })
    };
    let next = lead.mint(&task, 5).await;
    assert_eq!(lead.mint(&task, 5).await.token, next.token, "asked twice, chosen once");
    assert_eq!((next.task_id.as_str(), next.worker_total_points), ("task-2", 3));
    let early = worker.claim(&id, "task-2", &next.token).await.unwrap_err();
    assert_eq!(reason(&early), "invalid_next_step_token");
    let reviewed = lead.review_task(verdict(&task, &next.token, 5)).await.unwrap().task.unwrap();
    assert_eq!(reviewed.status(), TaskStatus::Done);
    let told = soon("the verdict", waiting).await.unwrap().submission.unwrap();
    let review = told.review.unwrap();
    assert!(review.is_approved && review.details[0].content == "one case is missing");
    let given = told.next_step.unwrap();
    assert_eq!((given.token.as_str(), given.task_id.as_str()), (next.token.as_str(), "task-2"));
    let seen = lead.task(&id, "task-1").await.submission.unwrap().next_step.unwrap();
    assert_eq!(seen.token, "", "told to its bearer alone");

    let task = worker.claim(&id, "task-2", &given.token).await.unwrap();
    assert_eq!(task.claimed_by, "worker");
    let unlock = wire::UnlockRequest { lease_id: lock.lease_id, ..Default::default() };
    let ended = worker.unlock(unlock).await.unwrap_err();
    assert_eq!(reason(&ended), "lease_lost", "the end of its task unlocked it");
    let workers = wire::ListWorkersRequest { role: "worker".to_owned(), ..Default::default() };
    let seen = worker.list_workers(workers).await.unwrap().workers.remove(0);
    assert_eq!((seen.points[0].total_points, seen.claims[0].task_id.as_str()), (3, "task-2"));
    assert_eq!(seen.claims[0].claim_token, task.claim_token);

    worker.submit(&task, "More.").await.unwrap();
    let last = lead.mint(&task, 1).await;
    lead.review_task(verdict(&task, &last.token, 1)).await.unwrap();
    for (task, total, low) in [("task-1", 3, 0), ("task-2", last.worker_total_points, 1)] {
        let given = lead.task(&id, task).await.submission.unwrap().next_step.unwrap();
        let told = (given.worker_total_points, given.consecutive_low_scores);
        assert_eq!(told, (total, low), "{task}: as they were after its approval");
    }
    assert!(3 < last.worker_total_points);
}

#[tokio::test]
async fn a_question_blocks_its_task_until_its_asker_is_answered() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, [mut lead, mut worker]) = office(data.path(), ["lead", "worker"]).await;
    employ(&mut worker).await;
    let id = lead.issue(&[1]).await;
    let task = worker.claim(&id, "task-1", "").await.unwrap();
    let post = |kind: &str, content: &str| wire::PostMessageRequest {
        issue_id: id.clone(),
        task_id: "task-1".to_owned(),
        kind: kind.to_owned(),
        content: content.to_owned(),
        claim_token: task.claim_token,
        ..Default::default()
    };
    worker.post_message(post("progress", "half of it")).await.unwrap();
    let asked = worker.post_message(post("question", "which way?")).await.unwrap();
    assert_eq!(asked.task.unwrap().status(), TaskStatus::WaitingForAnswer);
    let message = asked.message.unwrap().message_id;
    let again = worker.post_message(post("question", "which way?")).await.unwrap();
    assert!(again.repeated && again.message.unwrap().message_id == message);

    let note = lead.item(&id).await;
    assert_eq!(
        (note.kind.as_str(), note.message.unwrap().content.as_str()),
        ("note", "half of it")
    );
    let question = lead.item(&id).await;
    assert_eq!((question.kind.as_str(), question.sender.as_str()), ("question", "worker"));
    assert_eq!(question.message.unwrap().content, "which way?");

    let waiting = {
        let (mut worker, message) = (worker.clone(), message.clone());
        tokio::spawn(async move { worker.wait(Ask::Message(message)).await })
    };
    let reply = wire::ReplyMessageRequest {
        issue_id: id.clone(),
        task_id: "task-1".to_owned(),
        content: "left".to_owned(),
        ..Default::default()
    };
    let replied = lead.reply_message(reply).await.unwrap();
    assert_eq!(replied.message.unwrap().message_id, message, "the note is not what was answered");
    assert_eq!(replied.task.unwrap().status(), TaskStatus::InProgress);
    let told = soon("the reply", waiting).await.unwrap().message.unwrap();
    assert_eq!((told.reply.as_str(), told.replied_by.as_str()), ("left", "lead"));
}

/// How it is tested, a file of what is delivered.
const STEPS: &str = "docs/issue-1-test-steps.md";

/// What is delivered.
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

pub(super) fn delivery(issue: &str, files: &[&str]) -> wire::SubmitDeliveryRequest {
    wire::SubmitDeliveryRequest {
        issue_id: issue.to_owned(),
        summary: "All is done.".to_owned(),
        artifacts: Some(wire::DeliveryArtifacts {
            has_passed: true,
            changed_files: files.iter().chain([&STEPS]).map(|it| (*it).to_owned()).collect(),
            ..Default::default()
        }),
        test_evidence: Some(wire::TestEvidence {
            script_passed: true,
            doc_path: STEPS.to_owned(),
            doc_commands: vec!["make".to_owned()],
            doc_results: vec![ran("make", true)],
            doc_passed: true,
            rerun: Some(wire::Rerun { commit: COMMIT.to_owned(), ..Default::default() }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn ran(command: &str, has_passed: bool) -> wire::CommandResult {
    let (command, exit_code) = (command.to_owned(), i32::from(!has_passed));
    wire::CommandResult { command, has_passed, exit_code, output: "said".to_owned() }
}

fn judged(delivery: &wire::Delivery, passed: bool) -> wire::ReviewDeliveryRequest {
    wire::ReviewDeliveryRequest {
        delivery_id: delivery.delivery_id.clone(),
        claim_token: delivery.claim_token,
        is_approved: true,
        feedback: "seen".to_owned(),
        verification: Some(wire::Verification {
            script_passed: true,
            doc_passed: true,
            doc_results: vec![ran("make", passed)],
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_delivery_is_accepted_on_evidence_and_its_issue_closed() {
    let data = tempfile::tempdir().unwrap();
    let roles = ["lead", "worker", "acceptor", "other"];
    let (_broker, [mut lead, mut worker, mut acceptor, mut other]) =
        office(data.path(), roles).await;
    employ(&mut worker).await;
    let id = lead.issue(&[1]).await;
    let early = lead.submit_delivery(delivery(&id, &[])).await.unwrap_err();
    assert_eq!(reason(&early), "tasks_not_done");
    let task = worker.claim(&id, "task-1", "").await.unwrap();
    worker.submit(&task, "done").await.unwrap();
    let next = lead.approve(&task, 5).await;
    assert_eq!(next.task_id, "", "there is nothing left");

    let incomplete = lead.submit_delivery(delivery(&id, &["src/other.rs"])).await.unwrap_err();
    assert!(incomplete.message().contains("src/task-1.rs"), "{incomplete}");
    let mut without_steps = delivery(&id, &["src/task-1.rs"]);
    without_steps.artifacts.as_mut().unwrap().changed_files.pop();
    let refused = lead.submit_delivery(without_steps).await.unwrap_err();
    assert!(reason(&refused) == "missing_doc" && refused.message().contains(STEPS), "{refused}");
    let waiting = {
        let mut acceptor = acceptor.clone();
        tokio::spawn(async move { acceptor.wait(Ask::Deliveries(true)).await })
    };
    let delivered = lead.submit_delivery(delivery(&id, &["src/task-1.rs"])).await.unwrap();
    let delivered = delivered.delivery.unwrap();
    let found = soon("a delivery", waiting).await.unwrap().deliveries;
    assert_eq!(found[0].delivery_id, delivered.delivery_id);
    let claim = wire::ClaimDeliveryRequest {
        delivery_id: delivered.delivery_id.clone(),
        ..Default::default()
    };
    let open = wire::ListDeliveriesRequest {
        status: wire::DeliveryStatus::Open.into(),
        ..Default::default()
    };
    assert_eq!(acceptor.list_deliveries(open).await.unwrap().total, 1);
    let own = lead.claim_delivery(claim.clone()).await.unwrap_err();
    assert_eq!(reason(&own), "own_work");
    let claimed = acceptor.claim_delivery(claim.clone()).await.unwrap().delivery.unwrap();
    assert_ne!(claimed.claim_token, 0);
    for (claimed_by, count) in [("acceptor", 1), ("nobody", 0)] {
        let of = wire::ListDeliveriesRequest {
            claimed_by: claimed_by.to_owned(),
            status: wire::DeliveryStatus::InReview.into(),
            ..Default::default()
        };
        assert_eq!(acceptor.list_deliveries(of).await.unwrap().total, count, "{claimed_by}");
    }
    let renew = wire::RenewDeliveryRequest {
        delivery_id: delivered.delivery_id.clone(),
        claim_token: claimed.claim_token,
        for_ms: 7_200_000,
        ..Default::default()
    };
    let renewed = acceptor.renew_delivery(renew).await.unwrap().delivery.unwrap();
    assert!(claimed.lease_expires_ms < renewed.lease_expires_ms);
    let second = other.claim_delivery(claim).await.unwrap_err();
    assert_eq!(reason(&second), "delivery_already_claimed");

    let evidence = wire::Evidence {
        commit: COMMIT.to_owned(),
        commands: vec![wire::CommandEvidence {
            command: "make test".to_owned(),
            output_hash: vec![7; 32],
            output_tail: "ok".to_owned(),
            sandbox: "landlock".to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let attach = wire::AttachEvidenceRequest {
        delivery_id: delivered.delivery_id.clone(),
        claim_token: claimed.claim_token,
        evidence: Some(evidence.clone()),
        ..Default::default()
    };
    let other_commit = COMMIT.replace('0', "1");
    let elsewhere = wire::Evidence { commit: other_commit.clone(), ..evidence };
    let elsewhere = wire::AttachEvidenceRequest { evidence: Some(elsewhere), ..attach.clone() };
    let why = acceptor.attach_evidence(elsewhere).await.unwrap_err();
    assert_eq!(reason(&why), "invalid_argument");
    assert!(why.message().contains(COMMIT) && why.message().contains(&other_commit), "{why}");
    let attached = acceptor.attach_evidence(attach).await.unwrap().delivery.unwrap();
    let run = &attached.evidence[0];
    assert!(run.has_passed && run.commit == COMMIT && run.by == "acceptor" && run.at_ms != 0);
    assert_eq!(run.commands[0].sandbox, "landlock");
    assert_eq!(
        (run.commands[0].output_hash.as_slice(), run.commands[0].output_tail.as_str()),
        (&[7; 32][..], "ok")
    );

    let failed = acceptor.review_delivery(judged(&claimed, false)).await.unwrap_err();
    assert_eq!(reason(&failed), "evidence_failed");
    assert!(failed.message().starts_with("step 1 of the delivery's test_evidence"), "{failed}");
    let waiting = {
        let (mut lead, delivery) = (lead.clone(), delivered.delivery_id.clone());
        tokio::spawn(async move { lead.wait(Ask::Delivery(delivery)).await })
    };
    let close = |summary: &str| wire::CloseIssueRequest {
        issue_id: id.clone(),
        summary: summary.to_owned(),
        ..Default::default()
    };
    let early = lead.close_issue(close("")).await.unwrap_err();
    assert_eq!(reason(&early), "not_accepted");
    let approved =
        acceptor.review_delivery(judged(&claimed, true)).await.unwrap().delivery.unwrap();
    assert_eq!(approved.status(), wire::DeliveryStatus::Approved);
    let told = soon("the verdict", waiting).await.unwrap().delivery.unwrap();
    assert_eq!((told.feedback.as_str(), told.reviewed_by.as_str()), ("seen", "acceptor"));
    // Of the submission it dealt with when it reviewed it.
    let item = lead.item(&id).await;
    assert_eq!((item.kind.as_str(), item.sender.as_str()), ("delivery_result", "acceptor"));
    let closed = lead.close_issue(close("shipped")).await.unwrap().issue.unwrap();
    assert_eq!((closed.status(), closed.is_unaccepted), (IssueStatus::Done, false));
    assert_eq!(closed.summary, "shipped");
}

#[tokio::test]
async fn what_ends_otherwise_is_told_to_whoever_waits_for_it() {
    let data = tempfile::tempdir().unwrap();
    let roles = ["lead", "worker", "other"];
    let (_broker, [mut lead, mut worker, mut other]) = office(data.path(), roles).await;
    employ(&mut worker).await;
    employ(&mut other).await;
    let settings = lead.get_settings(wire::GetSettingsRequest::default()).await.unwrap();
    assert_eq!((settings.task_claim_ms, settings.lock_ms), (3_600_000, 120_000));
    let set = |counter, task_claim_ms| wire::SetSettingsRequest {
        caller: caller("default"),
        key: key("person", counter),
        person: "somebody".to_owned(),
        settings: Some(wire::SwarmSettings { task_claim_ms, ..settings }),
    };
    let mut person = lead.swarm.clone();
    person.set_settings(set(1, 1_000)).await.unwrap();
    let id = lead.issue(&[1, 1]).await;
    let lost = worker.claim(&id, "task-1", "").await.unwrap();
    let item = lead.item(&id).await;
    assert_eq!((item.kind.as_str(), item.sender.as_str()), ("task_lapsed", "worker"));
    person.set_settings(set(2, settings.task_claim_ms)).await.unwrap();
    let open = lead.task(&id, "task-1").await;
    assert_eq!((open.status(), open.claimed_by.as_str()), (TaskStatus::Open, ""));
    let late = worker.submit(&lost, "too late").await.unwrap_err();
    assert_eq!(reason(&late), "lease_lost");
    let task = other.claim(&id, "task-1", "").await.unwrap();
    assert!(lost.claim_token < task.claim_token);
    let not = worker.submit(&lost, "too late").await.unwrap_err();
    assert!(matches!(reason(&not), "lease_lost" | "not_claimant"), "{not}");

    let submission = other.submit(&task, "done").await.unwrap();
    let waiting = {
        let (mut other, submission) = (other.clone(), submission.clone());
        tokio::spawn(async move { other.wait(Ask::Submission(submission)).await })
    };
    let next = lead.mint(&task, 5).await;
    let reset = wire::ResetTaskRequest {
        issue_id: id.clone(),
        task_id: "task-1".to_owned(),
        reason: "another plan".to_owned(),
        ..Default::default()
    };
    let reset = lead.reset_task(reset).await.unwrap().task.unwrap();
    assert_eq!(reset.status(), TaskStatus::Open);
    let told = soon("the end", waiting).await.unwrap();
    assert_eq!(told.submission.unwrap().status(), wire::SubmissionStatus::Reset);
    assert_eq!(told.ended_because, "the task was reset: another plan");
    let stale = other.claim(&id, "task-2", &next.token).await.unwrap_err();
    assert_eq!(reason(&stale), "invalid_next_step_token");

    let closing = {
        let (mut other, id) = (other.clone(), id.clone());
        let none = Ask::Issues(IssueStatus::Canceled.into());
        assert_eq!(other.ask(none, 0).await.unwrap().standing(), Standing::StillWaiting);
        tokio::spawn(async move { other.ask(Ask::ItemsOf(id), 60_000).await.unwrap() })
    };
    for number in ["task-1", "task-2"] {
        let task = worker.claim(&id, number, "").await.unwrap();
        worker.submit(&task, "done after all").await.unwrap();
        lead.approve(&task, 2).await;
    }
    // The other one was shown a submission, or that the issue came to its end.
    let shown = soon("an item", closing).await.unwrap();
    assert_eq!(shown.standing(), Standing::There);
    let close = wire::CloseIssueRequest {
        issue_id: id.clone(),
        summary: "no acceptor".to_owned(),
        ..Default::default()
    };
    let closed = lead.close_issue(close).await.unwrap().issue.unwrap();
    assert!(closed.is_unaccepted);
    let over = worker.ask(Ask::TasksOf(id), 60_000).await.unwrap();
    assert_eq!(
        (over.standing(), over.ended_because.as_str()),
        (Standing::There, "the issue was closed")
    );
}

#[tokio::test]
async fn of_two_at_once_one_gets_it() {
    let data = tempfile::tempdir().unwrap();
    let roles = ["lead", "lead2", "w1", "w2"];
    let (_broker, [mut lead, mut lead2, mut w1, mut w2]) = office(data.path(), roles).await;
    employ(&mut w1).await;
    employ(&mut w2).await;
    let id = lead.issue(&[1]).await;
    let claim = |mut desk: Desk| {
        let id = id.clone();
        async move { desk.claim(&id, "task-1", "").await }
    };
    let (first, second) = tokio::join!(claim(w1.clone()), claim(w2.clone()));
    let (task, refused, mut holder) = match (first, second) {
        (Ok(task), Err(refused)) => (task, refused, w1.clone()),
        (Err(refused), Ok(task)) => (task, refused, w2.clone()),
        both => panic!("not one of two: {both:?}"),
    };
    assert_eq!(reason(&refused), "task_already_claimed");
    assert!(refused.message().contains(&task.claimed_by), "{refused}");

    let lock =
        |patterns: &[&str]| wire::LockFilesRequest { files: files(patterns), ..Default::default() };
    // Their keys so far were used by their copies.
    (w1.counter, w2.counter, holder.counter) = (100, 100, 150);
    let own = w1.lock_files(lock(&["a"])).await.unwrap().lock.unwrap();
    w2.lock_files(lock(&["src/**/*.rs"])).await.unwrap();
    let refused = w1.lock_files(lock(&["b", "src/x/y.rs"])).await.unwrap_err();
    assert_eq!(reason(&refused), "file_is_locked");
    assert!(refused.message().contains("locked by 'w2'"), "{refused}");
    let all = wire::ListLocksRequest { role: "w1".to_owned(), ..Default::default() };
    let locks = w1.list_locks(all.clone()).await.unwrap();
    assert_eq!(locks.total, 2, "all or none, and the own earlier one stays: {locks:?}");
    let on = wire::ListLocksRequest { files: files(&["a/b"]), ..all };
    let found = w1.list_locks(on).await.unwrap().locks;
    assert_eq!((found.len(), found[0].lock_token), (1, own.lock_token));
    let waiting = {
        let mut w1 = w1.clone();
        tokio::spawn(async move { w1.wait(Ask::Files(files(&["src/x/y.rs"]).unwrap())).await })
    };
    let theirs = locks.locks.iter().find(|it| it.holder == "w2").unwrap();
    assert_eq!(theirs.lock_token, 0, "told to its holder alone");
    let force = wire::ForceUnlockRequest {
        lease_id: theirs.lease_id.clone(),
        reason: "it is away".to_owned(),
        ..Default::default()
    };
    lead.force_unlock(force).await.unwrap();
    assert!(soon("free files", waiting).await.unwrap().locks.is_empty());
    let renew = wire::RenewLockRequest { lease_id: theirs.lease_id.clone(), ..Default::default() };
    assert_eq!(reason(&w2.renew_lock(renew).await.unwrap_err()), "lease_lost");

    let submission_id = holder.submit(&task, "done").await.unwrap();
    let next = lead.mint(&task, 5).await;
    let one = wire::ReviewTaskRequest { submission_id, ..verdict(&task, &next.token, 5) };
    let mut other = one.clone();
    if let Some(review) = &mut other.review {
        review.feedback = "in other words".to_owned();
    }
    let (first, second) = tokio::join!(lead.review_task(one), lead2.review_task(other));
    let refused = match (first, second) {
        (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused,
        both => panic!("not one of two: {both:?}"),
    };
    assert_eq!(reason(&refused), "already_reviewed");
}
