//! Lists, documents, history, the feed and the stream of waits.

use tasuki_proto::wire::{
    self, feed_client::FeedClient, park_request, park_response::Outcome, swarm_question::Ask,
    waits_client::WaitsClient,
};
use tokio_stream::wrappers::ReceiverStream;

use super::{Desk, employ, files, office};
use crate::support::{Process, caller, channel, soon};

#[tokio::test]
async fn lists_are_in_pages_the_newest_first() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, [mut lead, mut worker]) = office(data.path(), ["lead", "worker"]).await;
    employ(&mut worker).await;
    let id = lead.issue(&[5, 1, 4, 2, 3]).await;
    worker.claim(&id, "task-4", "").await.unwrap();
    let list = wire::ListTasksRequest { issue_id: id.clone(), ..Default::default() };
    let cases = [
        (wire::ListTasksRequest { limit: 2, ..list.clone() }, &[5, 4][..], 5),
        (wire::ListTasksRequest { limit: 2, offset: 4, ..list.clone() }, &[1], 5),
        (wire::ListTasksRequest { offset: 20_000, ..list.clone() }, &[], 5),
        (wire::ListTasksRequest { ascending: true, limit: 2, ..list.clone() }, &[1, 2], 5),
        (
            wire::ListTasksRequest {
                sort_by: wire::SortBy::Points.into(),
                ascending: true,
                ..list.clone()
            },
            &[2, 4, 5, 3, 1],
            5,
        ),
        (
            wire::ListTasksRequest { status: wire::TaskStatus::InProgress.into(), ..list.clone() },
            &[4],
            1,
        ),
        (
            wire::ListTasksRequest {
                stage: wire::TaskStage::Ready.into(),
                limit: 1,
                ..list.clone()
            },
            &[5],
            4,
        ),
        (
            wire::ListTasksRequest { stage: wire::TaskStage::Working.into(), ..list.clone() },
            &[4],
            1,
        ),
        (wire::ListTasksRequest { claimed_by: "worker".to_owned(), ..list.clone() }, &[4], 1),
        (wire::ListTasksRequest { subject_contains: "WORTH 3".to_owned(), ..list }, &[5], 1),
    ];
    for (request, expected, total) in cases {
        let listed = lead.list_tasks(request.clone()).await.unwrap();
        let tasks = listed.tasks.iter().map(|it| it.task_id.as_str());
        let expected: Vec<String> = expected.iter().map(|it| format!("task-{it}")).collect();
        assert!(tasks.eq(expected.iter().map(String::as_str)), "{request:?}: {listed:?}");
        assert_eq!(listed.total, total, "{request:?}");
    }
}

/// More than are looked at in one turn.
#[tokio::test]
async fn all_locks_below_a_directory_are_listed_however_many() {
    const LOCKS: u64 = 1_100;
    let data = tempfile::tempdir().unwrap();
    let (_broker, [mut worker, mut other]) = office(data.path(), ["worker", "other"]).await;
    employ(&mut worker).await;
    let first = worker.counter;
    let numbers: Vec<u64> = (0..LOCKS).collect();
    for some in numbers.chunks(100) {
        let lock = |number: &u64| {
            let mut desk = worker.clone();
            desk.counter = first + number;
            let path = format!("src/{number}");
            let files = files(&[path.as_str()]);
            async move { desk.lock_files(wire::LockFilesRequest { files, ..Default::default() }).await }
        };
        for locked in futures::future::join_all(some.iter().map(lock)).await {
            locked.unwrap();
        }
    }
    let below = |offset| wire::ListLocksRequest {
        files: files(&["src"]),
        limit: 2,
        offset,
        ..Default::default()
    };
    for (offset, count) in [(0, 2), (1_099, 1), (1_100, 0)] {
        let listed = other.list_locks(below(offset)).await.unwrap();
        assert_eq!((listed.locks.len(), listed.total), (count, LOCKS), "from {offset}");
    }
    let few = wire::ListLocksRequest { files: files(&["src/7", "src/8/x", "docs"]), ..below(0) };
    assert_eq!(other.list_locks(few).await.unwrap().total, 2);
}

/// A list that is led by one of many is not cut before it is looked through.
#[tokio::test]
async fn issues_are_found_by_their_lead() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, [mut lead, mut other, mut third]) =
        office(data.path(), ["lead", "other", "third"]).await;
    let own = lead.issue(&[1]).await;
    other.issue(&[1]).await;
    third.issue(&[1]).await;
    let of = |lead: &str, limit| wire::ListIssuesRequest {
        lead: lead.to_owned(),
        status: wire::IssueStatus::Open.into(),
        limit,
        ..Default::default()
    };
    let found = lead.list_issues(of("lead", 1)).await.unwrap();
    assert_eq!((found.issues[0].issue_id.as_str(), found.total), (own.as_str(), 1));
    let all = lead.list_issues(of("", 1)).await.unwrap();
    assert_eq!((all.issues[0].lead.as_str(), all.total), ("third", 3));
}

/// Each of two sets one of the lists at the same time, and leaves the other as it is.
#[tokio::test]
async fn of_two_who_set_the_documents_of_an_issue_neither_is_lost() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, [mut lead, mut other]) = office(data.path(), ["lead", "other"]).await;
    let issue_id = lead.issue(&[1]).await;
    let paths =
        || wire::UpdateIssueDocPathsRequest { issue_id: issue_id.clone(), ..Default::default() };
    for n in 0..20 {
        let (shared, project) = (vec![format!("s{n}")], vec![format!("p{n}")]);
        let one = wire::UpdateIssueDocPathsRequest {
            shared_doc_paths: shared.clone(),
            keep_project_docs: true,
            ..paths()
        };
        let two = wire::UpdateIssueDocPathsRequest {
            project_doc_paths: project.clone(),
            keep_shared_docs: true,
            ..paths()
        };
        let (one, two) =
            tokio::join!(lead.update_issue_doc_paths(one), other.update_issue_doc_paths(two));
        one.and(two).unwrap();
        let get = wire::GetIssueRequest { issue_id: issue_id.clone(), ..Default::default() };
        let issue = lead.get_issue(get).await.unwrap().issue.unwrap();
        assert_eq!((issue.shared_doc_paths, issue.project_doc_paths), (shared, project));
    }
    let both = wire::UpdateIssueDocPathsRequest {
        shared_doc_paths: vec!["s".to_owned()],
        keep_shared_docs: true,
        ..paths()
    };
    assert!(lead.update_issue_doc_paths(both).await.is_err());
    let none = lead.update_issue_doc_paths(paths()).await.unwrap().issue.unwrap();
    assert!(none.shared_doc_paths.is_empty() && none.project_doc_paths.is_empty());
}

#[tokio::test]
async fn documents_have_versions() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, [mut lead]) = office(data.path(), ["lead"]).await;
    let id = lead.issue(&[1]).await;
    let paths = wire::UpdateIssueDocPathsRequest {
        issue_id: id.clone(),
        shared_doc_paths: vec!["docs/shared.md".to_owned()],
        ..Default::default()
    };
    let issue = lead.update_issue_doc_paths(paths).await.unwrap().issue.unwrap();
    assert_eq!(issue.shared_doc_paths, ["docs/shared.md"]);
    for (issue_id, task_id) in [("", ""), (id.as_str(), ""), (id.as_str(), "task-1")] {
        let place = wire::DocPlace { issue_id: issue_id.to_owned(), task_id: task_id.to_owned() };
        let write = |content: &str| wire::WriteDocRequest {
            place: Some(place.clone()),
            name: "plan.md".to_owned(),
            content: content.to_owned(),
            ..Default::default()
        };
        let first = lead.write_doc(write("one")).await.unwrap();
        let same = lead.write_doc(write("one")).await.unwrap();
        let second = lead.write_doc(write("three")).await.unwrap();
        assert_eq!((first.version, same.version, second.version), (1, 1, 2));
        assert!(!first.repeated && same.repeated && second.size == 5);
        let read = |version| wire::ReadDocRequest {
            place: Some(place.clone()),
            name: "plan".to_owned(),
            version,
            ..Default::default()
        };
        let (old, new) =
            (lead.read_doc(read(1)).await.unwrap(), lead.read_doc(read(0)).await.unwrap());
        assert_eq!((old.content.as_str(), new.content.as_str()), ("one", "three"));
        assert_eq!((old.written_by.as_str(), new.written_by.as_str()), ("lead", "lead"));
        assert!(0 < old.written_ms && old.written_ms <= new.written_ms);
        assert!(lead.read_doc(read(3)).await.is_err());
        let list = wire::ListDocsRequest { place: Some(place), ..Default::default() };
        let docs = lead.list_docs(list).await.unwrap().docs;
        assert_eq!((docs.len(), docs[0].version, docs[0].content.as_str()), (1, 2, ""));
    }
}

#[tokio::test]
async fn the_feed_tells_names_and_no_words() {
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let [mut lead, mut worker] = ["lead", "worker"].map(|role| Desk::at(address, role));
    employ(&mut worker).await;
    let id = lead.issue(&[1]).await;
    let task = worker.claim(&id, "task-1", "").await.unwrap();
    let lock = wire::LockFilesRequest { files: files(&["secret-file"]), ..Default::default() };
    worker.lock_files(lock).await.unwrap();
    worker.submit(&task, "secret words").await.unwrap();
    lead.item(&id).await;
    lead.approve(&task, 5).await;
    let request = wire::SubscribeRequest {
        caller: caller("default"),
        from_sequence: 1,
        ..Default::default()
    };
    let mut items =
        FeedClient::new(channel(address)).subscribe(request).await.unwrap().into_inner();
    let mut told = Vec::new();
    while !told.iter().any(|it: &String| it.contains("issue_task_resolved")) {
        let item = soon("the feed goes on", items.message()).await.unwrap().unwrap();
        told.extend(item.events.iter().map(|it| format!("{it:?}")));
    }
    let all = told.join("\n");
    assert!(!all.contains("secret") && !all.contains("ns_"), "{all}");
    for kind in [
        "WorkerRegistered",
        "issue_created",
        "issue_task_created",
        "issue_task_claimed",
        "FilesLocked",
        "submission_created",
        "ItemsHanded",
        "issue_task_reserved",
    ] {
        assert!(all.contains(kind), "{kind} in {all}");
    }
    broker.kill().await;
}

#[tokio::test]
async fn questions_of_all_kinds_share_one_stream() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, address) = Process::served(data.path()).await;
    let [mut lead, mut worker] = ["lead", "worker"].map(|role| Desk::at(address, role));
    employ(&mut worker).await;
    let id = lead.issue(&[]).await;
    let (asks, stream) = tokio::sync::mpsc::channel(8);
    let park = |wait, role: &str, ask| {
        let question = wire::SwarmQuestion {
            caller: caller("default"),
            role: role.to_owned(),
            hold_ms: 60_000,
            ask: Some(ask),
        };
        wire::ParkRequest { wait, ask: Some(park_request::Ask::Swarm(question)) }
    };
    asks.send(park(1, "worker", Ask::TasksOf(id.clone()))).await.unwrap();
    asks.send(park(2, "lead", Ask::ItemsOf(id.clone()))).await.unwrap();
    asks.send(park(3, "lead", Ask::Submission("sub_1_0000".to_owned()))).await.unwrap();
    let mut waits = WaitsClient::new(channel(address));
    let mut told = waits.park(ReceiverStream::new(stream)).await.unwrap().into_inner();
    let refused = soon("a refusal", told.message()).await.unwrap().unwrap();
    let Some(Outcome::Refusal(refusal)) = refused.outcome else { panic!("{refused:?}") };
    assert_eq!((refused.wait, refusal.reason.as_str()), (3, "unknown_submission"));
    let task = wire::NewTask {
        subject: "s".to_owned(),
        difficulty: wire::Difficulty::Easy.into(),
        ..Default::default()
    };
    let tasks = vec![task];
    let create = wire::CreateTasksRequest { issue_id: id.clone(), tasks, ..Default::default() };
    lead.create_tasks(create).await.unwrap();
    let woken = soon("a task", told.message()).await.unwrap().unwrap();
    let Some(Outcome::Swarm(answer)) = woken.outcome else { panic!("{woken:?}") };
    assert_eq!((woken.wait, answer.tasks[0].task_id.as_str()), (1, "task-1"));
    let task = worker.claim(&id, "task-1", "").await.unwrap();
    worker.submit(&task, "done").await.unwrap();
    let woken = soon("an item", told.message()).await.unwrap().unwrap();
    let Some(Outcome::Swarm(answer)) = woken.outcome else { panic!("{woken:?}") };
    assert_eq!((woken.wait, answer.item.unwrap().kind.as_str()), (2, "submission"));
}
