//! `tasuki import swarm` against a real broker, with a tree as the original leaves it: whole files,
//! half-written ones, names that are none, and what only it used.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tasuki_proto::wire::{self, swarm_client::SwarmClient};

use crate::process::{Process, soon, tasuki};

pub(super) const ISSUE: &str = "issue_1700000000000_00af";

/// A copy of the tree, to be changed.
pub(super) fn tree(place: &Path) -> PathBuf {
    let to = place.join("tree");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/swarm_tree"), &to);
    to
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

pub(super) async fn import(data: &Path, code: i32, args: &[&str]) -> Value {
    let mut command = tasuki(data);
    command.args(["import", "swarm", "--json"]).args(args).arg("--data").arg(data);
    let output = soon(command.output()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    let out = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(out.lines().next().unwrap_or("null")).unwrap()
}

fn counts(report: &Value) -> Value {
    let names = ["issues", "tasks", "submissions", "messages", "docs", "deliveries", "events"];
    names.iter().map(|name| report[*name].clone()).collect()
}

pub(super) fn done(report: &Value) -> Value {
    ["new", "known"].iter().map(|name| report[*name].clone()).collect()
}

fn all(report: &Value, list: &str, field: &str) -> String {
    let list = report[list].as_array().unwrap().iter();
    list.map(|it| it[field].as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_tree_of_issues_comes_over_once() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    let tree = tree(place.path());
    // What leads out of it, and what is too large, is not read.
    fs::write(place.path().join("secret.json"), r#"{"id":"task-6","subject":"secret"}"#).unwrap();
    let issue = tree.join("issues").join(ISSUE);
    symlink(place.path().join("secret.json"), issue.join("tasks/task-6.json")).unwrap();
    symlink(place.path(), tree.join("issues/issue_1700000000002_0001")).unwrap();
    fs::write(issue.join("docs/huge.md"), "x".repeat(256 * 1024 + 1)).unwrap();
    let path = tree.to_str().unwrap();

    // Without a broker.
    let dry = import(&data, 5, &[path, "--dry-run"]).await;
    assert_eq!(counts(&dry), json!([2, 7, 4, 2, 2, 2, 6]));
    assert_eq!((&dry["workers"], &dry["shared_docs"]), (&json!(1), &json!(1)));
    assert_eq!(done(&dry), json!([0, 0]));
    let skipped = all(&dry, "skipped", "path");
    for file in [
        "docs/..hidden.md",
        "docs/huge.md",
        "events.jsonl",
        "issues/issue_1700000000001_dead",
        "issues/issue_1700000000002_0001",
        "messages/msg_1700000000710_0003.json",
        "tasks/task-3.json",
        "tasks/task-6.json",
    ] {
        assert!(skipped.contains(file), "{file} in {skipped}");
    }
    let notes = all(&dry, "notes", "note");
    for note in [
        "task-2 was in_progress by w_1700000000100_ab12, and is open",
        "task-5 was blocked",
        "task-5 has the difficulty \"hard\", and becomes easy",
        "task-5 has 5000 points, and now 1000",
        "task-3 could not be read",
        "sub_1700000000600_0003 was open",
        "sub_1700000000300_0002 names files with characters that are never shown",
        "msg_1700000000700_0002 had no reply",
        "delivery_1700000000900_0002 was in review, and is open",
        "a part of the review of sub_1700000000200_0001 is of no known kind",
    ] {
        assert!(notes.contains(note), "{note} in {notes}");
    }
    let changed = dry["changed"].as_object().unwrap();
    assert_eq!(changed["the worker!"], "the-worker");
    let old = changed["old project"].as_str().unwrap().to_owned();
    assert!(old.starts_with("issue_1690000000000_"), "{old}");

    let up = Process::up(&data, "").await;
    let first = import(&data, 5, &[path]).await;
    assert_eq!(counts(&first), counts(&dry));
    assert_eq!(done(&first), json!([2, 0]));
    assert_eq!((&first["refused"], &first["differ"]), (&json!([]), &json!([])));
    let again = import(&data, 5, &[path]).await;
    assert_eq!(done(&again), json!([0, 2]), "the same again adds nothing");

    let mut swarm = SwarmClient::connect(format!("http://{}", up.broker.unwrap())).await.unwrap();
    let get = |id: &str| wire::GetIssueRequest { issue_id: id.to_owned(), ..Default::default() };
    let issue_of = swarm.get_issue(get(ISSUE)).await.unwrap().into_inner().issue.unwrap();
    assert_eq!(issue_of.subject, "Count words faster");
    assert_eq!(issue_of.status(), wire::IssueStatus::Open);
    let shipped = swarm.get_issue(get(&old)).await.unwrap().into_inner().issue.unwrap();
    assert_eq!((shipped.status(), shipped.is_unaccepted), (wire::IssueStatus::Done, false));
    let task = |number: u32| wire::GetTaskRequest {
        issue_id: ISSUE.to_owned(),
        task_id: format!("task-{number}"),
        ..Default::default()
    };
    let read = swarm.get_task(task(1)).await.unwrap().into_inner().task.unwrap();
    assert_eq!((read.status(), read.points), (wire::TaskStatus::Done, 7));
    assert_eq!(read.words.as_ref().unwrap().spec.as_ref().unwrap().goal, "one read");
    assert_eq!(read.words.unwrap().context_task_ids, ["task-2"]);
    let accepted = read.submission.unwrap();
    assert_eq!(accepted.words.unwrap().changed_files, ["src/read.rs", "src/link.rs"]);
    assert_eq!((accepted.completion_score, accepted.submitted_ms), (5, 1_700_000_000_300));
    assert_eq!(accepted.review.unwrap().details[0].suggestion, "a loop");
    assert_eq!((read.messages.len(), read.messages[0].reply.as_str()), (1, "Once."));
    let history = wire::GetHistoryRequest { issue_id: ISSUE.to_owned(), ..Default::default() };
    let history = swarm.get_history(history).await.unwrap().into_inner().entries;
    assert_eq!((history.len(), history[0].r#type.as_str()), (1, "imported"));
    let place = wire::DocPlace { issue_id: ISSUE.to_owned(), ..Default::default() };
    let log = wire::ReadDocRequest {
        place: Some(place),
        name: "history".to_owned(),
        ..Default::default()
    };
    let log = swarm.read_doc(log).await.unwrap().into_inner().content;
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 7, "the reading, and what happened: {log}");
    assert!(lines[0].starts_with("Swarm MCP, as it was read: BLAKE3 "), "{log}");
    assert_eq!(lines[1], "2023-11-14 22:13:20Z issue_created by lead: Count words faster");
    let asked = "2023-11-14 22:13:20Z issue_task_message question task-1 msg_1700000000150_0001 \
                 by w_1700000000100_ab12: Are links followed? (src/link.rs)";
    assert_eq!(lines[4], asked);
    assert!(!log.contains("nil"), "{log}");

    // What changed there is told, and what is here stays.
    let file = issue.join("tasks/task-2.json");
    let text = fs::read_to_string(&file).unwrap().replace("parallel", "threads");
    fs::write(&file, text).unwrap();
    fs::write(tree.join("docs/shared/style.md"), "Long sentences.\n").unwrap();
    fs::write(tree.join("docs/shared/more.md"), "More.\n").unwrap();
    let changed = import(&data, 5, &[path]).await;
    assert_eq!(done(&changed), json!([0, 1]));
    assert_eq!((&changed["differ"], &changed["other_docs"]), (&json!([ISSUE]), &json!(["style"])));
    let second = swarm.get_task(task(2)).await.unwrap().into_inner().task.unwrap();
    assert_eq!(second.subject, "Count in parallel");
    let docs = wire::ListDocsRequest::default();
    assert_eq!(swarm.list_docs(docs).await.unwrap().into_inner().docs.len(), 2);
    drop(up);
}

/// Writes a file, and makes the directories that it is in.
fn write(file: &Path, text: impl ToString) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text.to_string()).unwrap();
}

#[tokio::test]
async fn an_issue_that_is_too_large_for_one_call_comes_over_all_the_same() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    let issues = place.path().join("tree/issues");
    let (documents, texts) = (ISSUE, "issue_1700000000001_00af");
    let docs = issues.join(documents);
    write(&docs.join("issue.json"), json!({"id": documents, "subject": "s", "status": "done"}));
    for number in 10..30 {
        write(&docs.join(format!("docs/plan-{number}.md")), number.to_string().repeat(100_000));
    }
    let tasks = issues.join(texts);
    write(&tasks.join("issue.json"), json!({"id": texts, "subject": "s", "status": "open"}));
    for number in 1..=5 {
        let task = json!({"id": format!("task-{number}"), "subject": "t", "status": "open",
            "difficulty": "easy", "points": 1, "spec": {"goal": "g".repeat(900_000)}});
        write(&tasks.join(format!("tasks/task-{number}.json")), task);
    }
    let tree = place.path().join("tree");
    let path = tree.to_str().unwrap();
    let up = Process::up(&data, "").await;
    let first = import(&data, 0, &[path]).await;
    assert_eq!((done(&first), &first["docs"]), (json!([2, 0]), &json!(20)));
    let notes = first["notes"].as_array().unwrap();
    assert_eq!(notes.len(), 5, "{notes:?}");
    let note = notes[0]["note"].as_str().unwrap();
    assert!(note.starts_with("task-1 has a text of 900000 bytes, which is cut to "), "{note}");
    assert_eq!(done(&import(&data, 0, &[path]).await), json!([0, 2]));

    let mut swarm = SwarmClient::connect(format!("http://{}", up.broker.unwrap())).await.unwrap();
    let place = Some(wire::DocPlace { issue_id: documents.to_owned(), ..Default::default() });
    for number in 10..30 {
        let (place, name) = (place.clone(), format!("plan-{number}"));
        let read = wire::ReadDocRequest { place, name, ..Default::default() };
        let doc = swarm.read_doc(read).await.unwrap().into_inner();
        assert_eq!((doc.version, doc.content == number.to_string().repeat(100_000)), (1, true));
    }
    let get = wire::GetTaskRequest {
        issue_id: texts.to_owned(),
        task_id: "task-5".to_owned(),
        ..Default::default()
    };
    let task = swarm.get_task(get).await.unwrap().into_inner().task.unwrap();
    let goal = task.words.unwrap().spec.unwrap().goal;
    assert!(goal.ends_with("\n[Cut by the import: Swarm MCP has 900000 bytes.]"));
    assert!((500_000..900_000).contains(&goal.len()), "{}", goal.len());
}

#[tokio::test]
async fn bad_times_ids_of_the_future_and_workers_of_one_name_keep_no_issue_out() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    let issue = place.path().join("tree/issues").join(ISSUE);
    let (nanoseconds, late) = (1_700_000_000_000_000_000_u64, "msg_99999999999999_0001");
    let file = json!({"id": ISSUE, "subject": "s", "status": "open", "created_at": nanoseconds});
    write(&issue.join("issue.json"), file);
    let task = json!({"id": "task-1", "subject": "t", "status": "open", "difficulty": "easy",
        "points": 1, "created_at": 1_700_000_000, "updated_at": nanoseconds});
    write(&issue.join("tasks/task-1.json"), task);
    let message = json!({"task_id": "task-1", "sender_id": "w", "kind": "progress",
        "content": "c", "status": "open", "created_at": nanoseconds});
    write(&issue.join(format!("messages/{late}.json")), message);
    for (file, worker, points, low) in [("a", "e vil", 7, 2), ("b", "e-vil", 5, 1)] {
        let worker = json!({"worker_id": worker, "total_points": points,
            "consecutive_low_scores": low});
        write(&issue.join(format!("workers/{file}.json")), worker);
    }
    write(&place.path().join("tree/workers/w.json"), json!({"id": "e vil"}));
    let tree = place.path().join("tree");
    let up = Process::up(&data, "").await;
    let report = import(&data, 0, &[tree.to_str().unwrap()]).await;
    assert_eq!(done(&report), json!([1, 0]));
    let notes = all(&report, "notes", "note");
    for note in [
        "the issue has created_at 1700000000000000000, which is no time",
        "task-1 has updated_at 1700000000000000000, which is no time",
        "the 2 workers who become e-vil have their points added up: 12",
    ] {
        assert!(notes.contains(note), "{note} in {notes}");
    }
    let new = report["changed"][late].as_str().unwrap();
    assert!(new.starts_with("msg_0_"), "{new}");
    assert!(notes.contains(&format!("{new} has created_at 17")), "{notes}");

    let mut swarm = SwarmClient::connect(format!("http://{}", up.broker.unwrap())).await.unwrap();
    let workers = swarm.list_workers(wire::ListWorkersRequest::default()).await.unwrap();
    let points = &workers.into_inner().workers[0].points[0];
    assert_eq!((points.total_points, points.consecutive_low_scores), (12, 2));
}

#[tokio::test]
async fn what_is_no_tree_is_refused_before_anything_is_sent() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    let none = place.path().to_str().unwrap();
    import(&data, 2, &[none, "--dry-run"]).await;
    // One below a home is found, and an empty one is nothing to take over.
    fs::create_dir_all(place.path().join(".swarm-mcp/issues")).unwrap();
    let empty = import(&data, 0, &[none, "--dry-run"]).await;
    assert_eq!(counts(&empty), json!([0, 0, 0, 0, 0, 0, 0]));
}

#[tokio::test]
async fn the_tree_in_a_directory_is_no_link_to_another_projects() {
    let place = tempfile::tempdir().unwrap();
    let (data, clone) = (place.path().join("data"), place.path().join("clone"));
    for directory in [&data, &clone, &place.path().join("other")] {
        fs::create_dir(directory).unwrap();
    }
    let theirs = place.path().join("other/.swarm-mcp");
    fs::rename(tree(place.path()), &theirs).unwrap();
    symlink("../other/.swarm-mcp", clone.join(".swarm-mcp")).unwrap();
    let named = clone.to_str().unwrap();
    import(&data, 2, &[named, "--dry-run"]).await;
    // What a person names is theirs to choose, and may be a link.
    let link = clone.join(".swarm-mcp");
    let read = import(&data, 5, &[link.to_str().unwrap(), "--dry-run"]).await;
    assert_eq!(read["issues"], 2);
}
