//! Issues that were worked on elsewhere, and what becomes of them here.

use tasuki_proto::wire::{
    self, DeliveryStatus, IssueStatus, MessageStatus, SubmissionStatus, TaskStatus,
    swarm_question::Ask,
};

use super::{Desk, employ, office};
use crate::support::{Process, caller, key, reason};

const ISSUE: &str = "issue_1700000000000_00af";

fn task(number: u32, status: TaskStatus, worker: &str) -> wire::Task {
    wire::Task {
        task_id: format!("task-{number}"),
        subject: format!("task {number}"),
        difficulty: wire::Difficulty::Easy.into(),
        points: 3,
        status: status.into(),
        claimed_by: worker.to_owned(),
        created_ms: 1_700_000_000_001,
        updated_ms: 1_700_000_000_002,
        words: Some(wire::TaskWords { description: "what".to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

fn submission(task: u32, id: &str, approved: Option<bool>) -> wire::ImportedSubmission {
    let review = approved.map(|is_approved| wire::Review {
        is_approved,
        feedback: "well".to_owned(),
        ..Default::default()
    });
    let words = wire::SubmissionWords {
        summary: "did it".to_owned(),
        changed_files: vec!["src/a.rs".to_owned()],
        ..Default::default()
    };
    let submission = wire::Submission {
        submission_id: id.to_owned(),
        worker: "w_1700000000000_ab12".to_owned(),
        submitted_ms: 1_700_000_000_003,
        reviewed_ms: 1_700_000_000_004,
        completion_score: 5,
        words: Some(words),
        review,
        ..Default::default()
    };
    wire::ImportedSubmission { task_id: format!("task-{task}"), submission: Some(submission) }
}

fn whole() -> wire::ImportIssueRequest {
    let issue = wire::Issue {
        issue_id: ISSUE.to_owned(),
        subject: "Build it".to_owned(),
        description: "all of it".to_owned(),
        status: IssueStatus::Open.into(),
        created_ms: 1_700_000_000_000,
        ..Default::default()
    };
    let message = wire::TaskMessage {
        message_id: "msg_1700000000000_0001".to_owned(),
        task_id: "task-1".to_owned(),
        sender: "w_1700000000000_ab12".to_owned(),
        kind: "question".to_owned(),
        content: "which way?".to_owned(),
        status: MessageStatus::Replied.into(),
        reply: "left".to_owned(),
        ..Default::default()
    };
    let task_id = "task-1".to_owned();
    let doc = |task_id: &str| wire::Doc {
        place: Some(wire::DocPlace { task_id: task_id.to_owned(), ..Default::default() }),
        name: "plan.md".to_owned(),
        content: "do it".to_owned(),
        ..Default::default()
    };
    let delivery = wire::Delivery {
        delivery_id: "delivery_1700000000000_0001".to_owned(),
        status: DeliveryStatus::Rejected.into(),
        summary: "done?".to_owned(),
        verification: Some(wire::Verification::default()),
        feedback: "not yet".to_owned(),
        ..Default::default()
    };
    let points = wire::WorkerPoints {
        worker: "worker".to_owned(),
        total_points: 13,
        consecutive_low_scores: 1,
    };
    wire::ImportIssueRequest {
        caller: caller("default"),
        person: "ann".to_owned(),
        issue: Some(issue),
        tasks: vec![
            task(1, TaskStatus::Done, "w_1700000000000_ab12"),
            task(2, TaskStatus::Open, ""),
            task(3, TaskStatus::Canceled, ""),
        ],
        submissions: vec![
            submission(1, "sub_1700000000000_0001", Some(false)),
            submission(1, "sub_1700000000000_0002", Some(true)),
            submission(2, "sub_1700000000000_0003", None),
        ],
        messages: vec![message],
        docs: vec![doc(""), doc(&task_id)],
        deliveries: vec![delivery],
        points: vec![points],
        ..Default::default()
    }
}

/// Returns which record answers.
async fn send(desk: &mut Desk, request: &wire::ImportIssueRequest) -> Result<u64, String> {
    let key = if request.key.is_some() { request.key.clone() } else { desk.key() };
    let request = wire::ImportIssueRequest { key, ..request.clone() };
    let sent = desk.swarm.import_issue(request).await;
    let sent = sent.map_err(|why| format!("{}: {}", reason(&why), why.message()))?.into_inner();
    Ok(sent.sequence)
}

#[tokio::test]
async fn an_issue_from_elsewhere_goes_on_here() {
    let data = tempfile::tempdir().unwrap();
    let (broker, [mut lead, mut worker]) = office(data.path(), ["lead", "worker"]).await;
    let whole = wire::ImportIssueRequest { key: lead.key(), ..whole() };
    let sent = send(&mut lead, &whole).await.unwrap();
    assert_eq!(send(&mut lead, &whole).await, Ok(sent));
    employ(&mut worker).await;
    broker.kill().await;
    let (broker, address) = Process::served(data.path()).await;
    lead.moved(address);
    worker.moved(address);
    assert_eq!(send(&mut lead, &whole).await, Ok(sent), "also after a restart");
    let other = wire::ImportIssueRequest { key: None, ..whole.clone() };
    let other = send(&mut lead, &other).await.unwrap_err();
    assert!(other.starts_with("issue_exists: "), "{other}");

    let get = wire::GetIssueRequest { issue_id: ISSUE.to_owned(), ..Default::default() };
    let issue = lead.get_issue(get).await.unwrap().issue.unwrap();
    assert_eq!((issue.subject.as_str(), issue.description.as_str()), ("Build it", "all of it"));
    assert_eq!((issue.status(), issue.created_ms), (IssueStatus::Open, 1_700_000_000_000));
    let done = lead.task(ISSUE, "task-1").await;
    assert_eq!((done.status(), done.created_ms), (TaskStatus::Done, 1_700_000_000_001));
    let accepted = done.submission.unwrap();
    assert_eq!(accepted.status(), SubmissionStatus::Approved);
    assert_eq!(accepted.review.unwrap().feedback, "well");
    assert_eq!(
        (done.claimed_by.as_str(), done.messages[0].reply.as_str()),
        ("w_1700000000000_ab12", "left")
    );
    let open = lead.task(ISSUE, "task-2").await;
    assert_eq!((open.status(), open.claimed_by.as_str()), (TaskStatus::Open, ""));
    assert_eq!(open.submission.unwrap().status(), SubmissionStatus::Reset);
    for task_id in ["", "task-1"] {
        let (issue_id, task_id) = (ISSUE.to_owned(), task_id.to_owned());
        let place = Some(wire::DocPlace { issue_id, task_id });
        let read = wire::ReadDocRequest { place, name: "plan".to_owned(), ..Default::default() };
        assert_eq!(lead.read_doc(read).await.unwrap().content, "do it");
    }
    let all = wire::ListDeliveriesRequest::default();
    let deliveries = lead.list_deliveries(all).await.unwrap().deliveries;
    assert_eq!(deliveries[0].status(), DeliveryStatus::Rejected);

    let history = wire::GetHistoryRequest { issue_id: ISSUE.to_owned(), ..Default::default() };
    let history = lead.get_history(history).await.unwrap();
    let told = |it: &wire::HistoryEntry| (it.number, it.r#type.clone(), it.person.clone());
    let told: Vec<_> = history.entries.iter().map(told).collect();
    assert_eq!(told, [(1, "imported".to_owned(), "ann".to_owned())], "I7");
    let workers = lead.list_workers(wire::ListWorkersRequest::default()).await.unwrap().workers;
    let points: Vec<u64> = workers[0].points.iter().map(|it| it.total_points).collect();
    assert_eq!((workers.len(), points), (1, vec![13]));

    // And it is work like any other.
    let task = worker.claim(ISSUE, "task-2", "").await.unwrap();
    let submission = worker.submit(&task, "done here").await.unwrap();
    lead.approve(&task, 5).await;
    let told = worker.wait(Ask::Submission(submission)).await.submission.unwrap();
    assert_eq!(told.status(), SubmissionStatus::Approved);
    assert_eq!(send(&mut lead, &whole).await, Ok(sent), "and known as it came");
    broker.kill().await;
    crate::support::assert_whole(data.path()).await;
}

#[tokio::test]
async fn what_cannot_be_an_issue_is_refused_whole() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, [mut lead]) = office(data.path(), ["lead"]).await;
    type Change = fn(&mut wire::ImportIssueRequest);
    let changes: [(&str, Change); 16] = [
        ("no issue", |it| it.issue = None),
        ("no status", |it| it.issue.as_mut().unwrap().status = 0),
        ("a gap", |it| it.tasks[1].task_id = "task-4".to_owned()),
        ("a claim", |it| it.tasks[1].claimed_by = "w".to_owned()),
        ("in progress", |it| it.tasks[1].set_status(TaskStatus::InProgress)),
        ("points", |it| it.tasks[1].points = 1001),
        ("twice", |it| it.submissions[1] = it.submissions[0].clone()),
        ("no task", |it| it.submissions[1].task_id = "task-9".to_owned()),
        ("a document twice", |it| it.docs[1] = it.docs[0].clone()),
        ("an open question", |it| it.messages[0].set_status(MessageStatus::Open)),
        ("an open submission", |it| {
            let open = it.submissions[2].submission.as_mut().unwrap();
            open.set_status(SubmissionStatus::Open);
        }),
        ("an older open delivery", |it| {
            let mut newer = it.deliveries[0].clone();
            newer.delivery_id = "delivery_1700000000000_0002".to_owned();
            it.deliveries[0].set_status(DeliveryStatus::Open);
            it.deliveries.push(newer);
        }),
        ("more than anybody earns", |it| it.points[0].total_points = u64::MAX),
        ("a worker's points twice", |it| it.points.push(it.points[0].clone())),
        ("a task's words", |it| {
            let words = it.tasks[1].words.as_mut().unwrap();
            words.labels = vec!["x".repeat(64 * 1024); 17];
        }),
        ("the future", |it| {
            it.submissions[1].submission.as_mut().unwrap().submission_id =
                "sub_99999999999999_0001".to_owned();
        }),
    ];
    for (what, change) in changes {
        let mut bad = whole();
        change(&mut bad);
        let refused = send(&mut lead, &bad).await.unwrap_err();
        let reason = refused.split(':').next().unwrap();
        let known = ["invalid_argument", "too_large", "unknown_task"];
        assert!(known.contains(&reason), "{what}: {refused}");
    }
    let issues = lead.list_issues(wire::ListIssuesRequest::default()).await.unwrap();
    assert_eq!(issues.total, 0);
    let own = lead.issue(&[1]).await;
    let mut over = whole();
    over.issue.as_mut().unwrap().issue_id = own;
    assert!(send(&mut lead, &over).await.unwrap_err().starts_with("issue_exists"));

    let shared = |docs: &[(&str, &str)], workers: &[&str]| wire::ImportSharedRequest {
        caller: caller("default"),
        key: key("shared", docs.len() as u64 + 1),
        person: "ann".to_owned(),
        docs: docs
            .iter()
            .map(|(name, content)| wire::NewDoc {
                name: (*name).to_owned(),
                content: (*content).to_owned(),
            })
            .collect(),
        workers: workers.iter().map(|it| (*it).to_owned()).collect(),
        issue_docs: Vec::new(),
    };
    let first = shared(&[("plan", "one")], &["w_1_ab12"]);
    assert!(!lead.swarm.import_shared(first).await.unwrap().into_inner().repeated);
    let again = shared(&[("plan", "two"), ("more.md", "three")], &["w_1_ab12"]);
    lead.swarm.import_shared(again).await.unwrap();
    let read = wire::ReadDocRequest { name: "plan".to_owned(), ..Default::default() };
    let plan = lead.read_doc(read).await.unwrap();
    assert_eq!((plan.content.as_str(), plan.version), ("one", 1), "stays as it is");
    let workers = lead.list_workers(wire::ListWorkersRequest::default()).await.unwrap().workers;
    assert_eq!(workers.len(), 1);
    let twice = wire::ImportSharedRequest {
        key: key("shared", 9),
        ..shared(&[("why", "one"), ("why.md", "two")], &[])
    };
    let refused = lead.swarm.import_shared(twice).await.unwrap_err();
    assert!(refused.message().contains("names why twice"), "{refused}");
}

#[tokio::test]
async fn documents_that_an_imported_issue_came_without_follow() {
    let data = tempfile::tempdir().unwrap();
    let (broker, [mut lead]) = office(data.path(), ["lead"]).await;
    let own = lead.issue(&[1]).await;
    let mut closed = whole();
    closed.issue.as_mut().unwrap().set_status(IssueStatus::Done);
    closed.tasks[1].set_status(TaskStatus::Canceled);
    send(&mut lead, &closed).await.unwrap();
    let doc = |issue: &str, task: &str, name: &str, content: &str| wire::Doc {
        place: Some(wire::DocPlace { issue_id: issue.to_owned(), task_id: task.to_owned() }),
        name: name.to_owned(),
        content: content.to_owned(),
        ..Default::default()
    };
    let request = |number: u64, issue_docs: &[wire::Doc]| wire::ImportSharedRequest {
        caller: caller("default"),
        key: key("later", number),
        person: "ann".to_owned(),
        issue_docs: issue_docs.to_vec(),
        ..Default::default()
    };
    let docs = [
        doc(ISSUE, "", "plan", "stays as it is"),
        doc(ISSUE, "", "why", "because"),
        doc(ISSUE, "task-2", "why.md", "of the task"),
    ];
    let sent = lead.swarm.import_shared(request(1, &docs)).await.unwrap().into_inner();
    assert!(!sent.repeated);
    let again = lead.swarm.import_shared(request(2, &docs)).await.unwrap().into_inner();
    assert!(again.repeated, "nothing is there twice");
    for (task, name, content) in
        [("", "plan", "do it"), ("", "why", "because"), ("task-2", "why", "of the task")]
    {
        let wire::Doc { place, name, .. } = doc(ISSUE, task, name, "");
        let read = wire::ReadDocRequest { place, name, ..Default::default() };
        let read = lead.read_doc(read).await.unwrap();
        assert_eq!((read.content.as_str(), read.version), (content, 1));
    }
    // Why it was closed here stands before those that come after.
    let (issue_id, summary) = (ISSUE.to_owned(), "again".to_owned());
    let reopen = wire::ReopenIssueRequest { issue_id, summary, ..Default::default() };
    lead.reopen_issue(reopen).await.unwrap();
    let (issue_id, summary) = (ISSUE.to_owned(), "nobody needs it".to_owned());
    let close = wire::CloseIssueRequest { issue_id, summary, ..Default::default() };
    lead.close_issue(close).await.unwrap();
    let more = ["more", "most"].map(|name| doc(ISSUE, "", name, "x"));
    lead.swarm.import_shared(request(3, &more)).await.unwrap();
    let get = wire::GetIssueRequest { issue_id: ISSUE.to_owned(), ..Default::default() };
    let issue = lead.get_issue(get).await.unwrap().issue.unwrap();
    assert_eq!(issue.status(), IssueStatus::Done);
    assert_eq!(issue.summary, "closed without an approved delivery: nobody needs it");
    let bad = [
        ("no place", doc("", "", "what", "x")),
        ("opened here", doc(&own, "", "what", "x")),
        ("opened here", doc(&own, "task-1", "what", "x")),
    ];
    for (number, (what, bad)) in (4..).zip(bad) {
        let refused = lead.swarm.import_shared(request(number, &[bad])).await.unwrap_err();
        assert_eq!(reason(&refused), "invalid_argument", "{what}: {refused}");
    }
    broker.kill().await;
    crate::support::assert_whole(data.path()).await;
}
