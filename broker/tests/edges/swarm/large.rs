//! Answers that would outgrow one message, though everything in them is within its limits.

use std::collections::BTreeSet;

use prost::Message;
use tasuki_proto::{
    limits::{LOCK_FILES_MAX, SWARM_WORDS_BYTES_MAX, WORKERS_MAX},
    wire,
};

use super::{employ, files, office, verdict};
use crate::support::{caller, key};

#[tokio::test]
async fn locks_that_outgrow_a_message_are_listed_in_pages() {
    const LOCKS: usize = 17;
    let data = tempfile::tempdir().unwrap();
    let (_broker, [mut worker, mut other]) = office(data.path(), ["worker", "other"]).await;
    employ(&mut worker).await;
    for lock in 0..LOCKS {
        let path = |number: usize| format!("{lock:02}-{number:0>247}");
        let paths: Vec<String> = (0..LOCK_FILES_MAX).map(path).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let lock = wire::LockFilesRequest { files: files(&paths), ..Default::default() };
        worker.lock_files(lock).await.unwrap();
    }
    let mut listed = BTreeSet::new();
    while listed.len() < LOCKS {
        let offset = u32::try_from(listed.len()).unwrap();
        let request = wire::ListLocksRequest { offset, ..Default::default() };
        let page = other.list_locks(request).await.unwrap();
        assert_eq!(page.total, LOCKS as u64);
        assert!(!page.locks.is_empty(), "{} of {LOCKS}", listed.len());
        for lock in page.locks {
            assert_eq!(lock.files.unwrap().patterns.len(), LOCK_FILES_MAX);
            assert!(listed.insert(lock.lease_id), "twice");
        }
    }
}

#[tokio::test]
async fn workers_that_outgrow_a_message_are_listed_in_pages() {
    const ISSUES: usize = 32;
    let data = tempfile::tempdir().unwrap();
    let (_broker, [mut lead]) = office(data.path(), ["lead"]).await;
    let names: Vec<String> = (0..WORKERS_MAX).map(|number| format!("w{number:0>63}")).collect();
    let shared = wire::ImportSharedRequest {
        caller: caller("default"),
        key: key("shared", 1),
        person: "ann".to_owned(),
        workers: names.clone(),
        ..Default::default()
    };
    lead.swarm.import_shared(shared).await.unwrap();
    for number in 0..ISSUES {
        let issue = wire::Issue {
            issue_id: format!("issue_1700000000000_{number:04x}"),
            subject: "Build it".to_owned(),
            status: wire::IssueStatus::Open.into(),
            created_ms: 1_700_000_000_000,
            ..Default::default()
        };
        let points = |worker: &String| wire::WorkerPoints {
            worker: worker.clone(),
            total_points: 1 << 30,
            consecutive_low_scores: 1,
        };
        let import = wire::ImportIssueRequest {
            caller: caller("default"),
            key: lead.key(),
            person: "ann".to_owned(),
            issue: Some(issue),
            points: names.iter().map(points).collect(),
            ..Default::default()
        };
        lead.swarm.import_issue(import).await.unwrap();
    }
    let (mut found, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let request = wire::ListWorkersRequest { after, ..Default::default() };
        let page = lead.list_workers(request).await.unwrap();
        assert!(page.workers.iter().all(|it| it.points.len() == ISSUES));
        found.extend(page.workers.into_iter().map(|it| it.worker));
        pages += 1;
        if page.next.is_empty() {
            break;
        }
        after = page.next;
    }
    assert!(1 < pages && found == names, "{} in {pages} pages", found.len());
}

/// As long a text as there is room for beside other words.
fn filler(others: &impl Message) -> String {
    /// Around the text and what it is in: a tag and a length each.
    const FRAME_BYTES: usize = 8;
    "x".repeat(SWARM_WORDS_BYTES_MAX - others.encoded_len() - FRAME_BYTES)
}

#[tokio::test]
async fn a_task_with_as_many_words_as_it_may_have_can_be_read() {
    const CONTENT_BYTES: usize = 262_000;
    let data = tempfile::tempdir().unwrap();
    let name = "w".repeat(58);
    let (_broker, [mut lead, mut worker]) = office(data.path(), ["lead", name.as_str()]).await;
    employ(&mut worker).await;
    let issue_id = lead.issue(&[]).await;
    let mut new = wire::NewTask {
        subject: "long".to_owned(),
        difficulty: wire::Difficulty::Easy.into(),
        words: Some(wire::TaskWords::default()),
        ..Default::default()
    };
    let description = filler(&new);
    new.words = Some(wire::TaskWords { description, ..Default::default() });
    let create = wire::CreateTasksRequest {
        issue_id: issue_id.clone(),
        tasks: vec![new],
        ..Default::default()
    };
    lead.create_tasks(create).await.unwrap();
    let task = worker.claim(&issue_id, "task-1", "").await.unwrap();
    for number in 0..4 {
        let post = wire::PostMessageRequest {
            issue_id: issue_id.clone(),
            task_id: task.task_id.clone(),
            claim_token: task.claim_token,
            kind: "progress".to_owned(),
            content: number.to_string().repeat(CONTENT_BYTES),
            ..Default::default()
        };
        worker.post_message(post).await.unwrap();
    }
    let mut words = wire::SubmissionWords { summary: "done".to_owned(), ..Default::default() };
    words.diff = filler(&words);
    let submit = wire::SubmitTaskRequest {
        issue_id: issue_id.clone(),
        task_id: task.task_id.clone(),
        claim_token: task.claim_token,
        words: Some(words),
        ..Default::default()
    };
    worker.submit_task(submit).await.unwrap();
    let next = lead.mint(&task, 5).await;
    let mut review = verdict(&task, &next.token, 5);
    let words = review.review.as_mut().unwrap();
    words.feedback = filler(words);
    let reviewed = lead.review_task(review).await.unwrap().task.unwrap();
    let read = lead.task(&issue_id, "task-1").await;
    for task in [reviewed, read] {
        assert_eq!(task.status(), wire::TaskStatus::Done);
        let submission = task.submission.unwrap();
        let review = submission.review.unwrap();
        let texts = [task.words.unwrap().description, submission.words.unwrap().diff];
        for text in texts.iter().chain([&review.feedback]) {
            assert!(SWARM_WORDS_BYTES_MAX - 128 < text.len(), "{}", text.len());
        }
        // The oldest is left out.
        let newest: Vec<&str> = task.messages.iter().map(|it| &it.content[..1]).collect();
        assert_eq!(newest, ["1", "2", "3"]);
    }
}
