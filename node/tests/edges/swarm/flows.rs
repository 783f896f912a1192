//! The flows of an issue, as its tools are meant to be called.

use serde_json::{Value, json};

use super::{Under, agent, approve, issue, item, no, node, of, ok, result, until, verdict};
use crate::{
    agents::{Agent, Transport},
    process::Process,
};

async fn employed(transport: Transport, role: &str, of: &Process) -> Agent {
    let mut worker = agent(transport, role, of).await;
    let told = ok(&mut worker, "registerWorker", json!({})).await;
    assert_eq!(told["worker_id"], role, "{told}");
    worker
}

/// From the issue to the next task of its worker.
async fn from_issue_to_next_task(of_lead: Transport, of_worker: Transport) {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let broker = up.broker.unwrap();
    let (lead, worker) =
        tokio::join!(node(place.path(), broker, "lead"), node(place.path(), broker, "worker"),);
    let mut leads = agent(of_lead, "lead", &lead).await;
    let mut works = employed(of_worker, "worker", &worker).await;

    let id = issue(&mut leads, &[]).await;
    let waiting = Under::way(works, "waitIssueTasks", json!({ "issue_id": id }));
    let issues = ok(&mut leads, "listIssues", json!({ "status": "open" })).await;
    assert_eq!(issues["issues"][0]["id"], id.as_str(), "{issues}");
    let mut tasks = Vec::new();
    for points in [3, 2] {
        let task = json!({ "issue_id": id, "subject": format!("worth {points}"), "points": points,
            "difficulty": "easy", "spec": super::spec("faster") });
        let task = ok(&mut leads, "createIssueTask", task).await;
        tasks.push(task["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(tasks, ["task-1", "task-2"]);
    let (woken, told) = waiting.done().await;
    works = woken;
    let task = told["tasks"][0]["id"].as_str().unwrap().to_owned();
    let other = if task == "task-1" { "task-2" } else { "task-1" };
    assert_eq!((&told["status"], &told["tasks"][0]["status"]), (&json!("there"), &json!("open")));

    let claimed = ok(&mut works, "claimIssueTask", of(&id, &task, "worker")).await;
    assert_eq!(
        (&claimed["claimed_by"], &claimed["spec"]["goal"]),
        (&json!("worker"), &json!("faster"))
    );
    let again = ok(&mut works, "claimIssueTask", of(&id, &task, "worker")).await;
    assert_eq!(again["lease_expires_at_ms"], claimed["lease_expires_at_ms"], "claimed once");
    let mut longer = of(&id, &task, "worker");
    longer["extend_sec"] = 86_401.into();
    let (code, text) = no(&mut works, "extendIssueTaskLease", longer.clone()).await;
    assert_eq!(code, "invalid_argument");
    assert!(text.contains("extend_sec") && text.contains("24 h"), "{text}");
    longer["extend_sec"] = 7200.into();
    let longer = ok(&mut works, "extendIssueTaskLease", longer).await;
    assert!(longer["lease_expires_at_ms"].as_u64() > claimed["lease_expires_at_ms"].as_u64());

    let mut files = of(&id, &task, "worker");
    files["files"] = json!(["src/a.rs", "./docs/"]);
    let locked = ok(&mut works, "lockFiles", files).await;
    assert_eq!(
        (&locked["owner"], &locked["task_id"]),
        (&json!("worker"), &json!(task)),
        "{locked}"
    );
    assert_eq!(locked["files"].as_array().unwrap().len(), 2, "{locked}");
    let lease = json!({ "lease_id": locked["lease_id"], "worker_id": "worker", "extend_sec": 500 });
    let kept = ok(&mut works, "heartbeat", lease.clone()).await;
    assert!(kept["expires_at"].as_str() > locked["expires_at"].as_str(), "{kept}");
    let mine = ok(&mut works, "myProfile", json!({})).await;
    assert_eq!(mine["worker"]["claims"][0]["task_id"], task.as_str(), "{mine}");
    assert_eq!(mine["locks"][0]["lease_id"], locked["lease_id"], "{mine}");
    let written = json!({ "issue_id": id, "task_id": task, "name": "notes", "content": "found" });
    assert_eq!(ok(&mut works, "writeTaskDoc", written).await["version"], 1);

    let unlocked = ok(&mut works, "unlock", lease.clone()).await;
    assert_eq!(unlocked["unlocked"]["lease_id"], locked["lease_id"], "{unlocked}");
    let again = ok(&mut works, "unlock", lease.clone()).await;
    assert_eq!(again["unlocked"]["lease_id"], locked["lease_id"], "{again}");
    assert_eq!((&again["repeated"], &again["unlocked"]["files"]), (&json!(true), &json!([])));
    let never = json!({ "lease_id": "l_1_0000", "worker_id": "worker" });
    assert_eq!(no(&mut works, "unlock", never).await.0, "lease_not_found");
    let (code, text) = no(&mut works, "heartbeat", lease).await;
    assert_eq!((code.as_str(), text.contains("not found")), ("lease_not_found", true), "{text}");
    let mut files = of(&id, &task, "worker");
    files["files"] = json!(["src/b.rs"]);
    let kept = ok(&mut works, "lockFiles", files).await;

    let words = result(&id, &task, "worker", "done");
    let submitted = Under::way(works, "submitIssueTask", words.clone());
    let shown = item(&mut leads, &id, "submission").await;
    assert_eq!(shown["submission"]["artifacts"]["summary"], "done", "{shown}");
    let doc = json!({ "issue_id": id, "task_id": task, "name": "notes" });
    assert_eq!(ok(&mut leads, "readTaskDoc", doc).await["content"], "found");
    let next = approve(&mut leads, &id, &task, "worker").await;
    assert_eq!(next["next_step"], json!({ "type": "claim_task", "task_id": other }), "{next}");
    let (mut works, told) = submitted.done().await;
    let (submission, shown) = (&told["submission"], &shown["submission"]);
    assert_eq!(
        (&submission["id"], &submission["verdict"]),
        (&shown["id"], &json!("approved")),
        "{told}"
    );
    assert_eq!(submission["next"]["next_step_token"], next["next_step_token"], "{told}");
    assert_eq!(submission["review"]["feedback"], "read it all", "{told}");
    assert_eq!(submission.get("artifacts"), None, "its own words would hide it: {told}");
    let same = ok(&mut works, "submitIssueTask", words).await;
    assert_eq!(same["submission"]["id"], submission["id"], "the same result is one submission");

    // What was locked for a task is unlocked with its approval.
    let late = json!({ "lease_id": kept["lease_id"], "worker_id": "worker" });
    let (code, text) = no(&mut works, "unlock", late).await;
    assert!(code == "lease_lost" && text.contains("nothing to unlock"), "{text}");
    let mine = ok(&mut works, "myProfile", json!({})).await;
    assert_eq!(mine["kept_for_you"][0]["next_step_token"], next["next_step_token"], "{mine}");
    let mut claim = of(&id, other, "worker");
    claim["next_step_token"] = next["next_step_token"].clone();
    assert_eq!(ok(&mut works, "claimIssueTask", claim).await["claimed_by"], "worker");
    let told = ok(&mut leads, "listWorkers", json!({})).await;
    let points = &told["workers"][0]["points"][0]["worker_total_points"];
    assert_eq!(points, if task == "task-1" { 3 } else { 2 }, "{told}");
}

#[tokio::test]
async fn a_worker_goes_from_task_to_task_over_http_and_a_bridge() {
    from_issue_to_next_task(Transport::Stateless, Transport::Stdio).await;
}

#[tokio::test]
async fn a_worker_goes_from_task_to_task_over_a_bridge_and_a_session() {
    from_issue_to_next_task(Transport::Stdio, Transport::Session).await;
}

#[tokio::test]
async fn the_reply_to_a_question_reaches_exactly_who_asked() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let broker = up.broker.unwrap();
    let (lead, one, two) = tokio::join!(
        node(place.path(), broker, "lead"),
        node(place.path(), broker, "worker1"),
        node(place.path(), broker, "worker2"),
    );
    let mut leads = agent(Transport::Stateless, "lead", &lead).await;
    let id = issue(&mut leads, &[1, 1]).await;
    let mut asking = Vec::new();
    for (role, task, transport, of_role) in [
        ("worker1", "task-1", Transport::Stdio, &one),
        ("worker2", "task-2", Transport::Stateless, &two),
    ] {
        let mut worker = employed(transport, role, of_role).await;
        ok(&mut worker, "claimIssueTask", of(&id, task, role)).await;
        let mut note = of(&id, task, role);
        note["kind"] = "progress".into();
        note["content"] = "half way".into();
        let note = ok(&mut worker, "postIssueTaskMessage", note).await;
        assert_eq!((&note["kind"], &note["content"]), (&json!("progress"), &json!("half way")));
        assert_eq!(item(&mut leads, &id, "note").await["sender_id"], role);
        let mut question = of(&id, task, role);
        question["content"] = format!("which, says {role}?").into();
        let asked = Under::way(worker, "askIssueTask", question.clone());
        let shown = item(&mut leads, &id, "question").await;
        assert_eq!(
            (&shown["sender_id"], &shown["message"]["content"]),
            (&json!(role), &question["content"])
        );
        let stands =
            ok(&mut leads, "getIssueTask", json!({ "issue_id": id, "task_id": task })).await;
        assert_eq!(
            (&stands["status"], &stands["stage"]),
            (&json!("waiting_for_answer"), &json!("waiting_for_answer"))
        );
        asking.push((asked, shown["message"]["id"].clone(), question));
    }
    let reply = async |lead: &mut Agent, task: &str, message: &Value, content: &str| {
        let words = json!({ "issue_id": id, "task_id": task, "message_id": message,
            "content": content });
        ok(lead, "replyIssueTaskMessage", words).await
    };
    let (second, message, _) = asking.remove(1);
    reply(&mut leads, "task-2", &message, "the second").await;
    let (_, told) = second.done().await;
    assert_eq!(
        (&told["message"]["id"], &told["message"]["reply_content"]),
        (&message, &json!("the second"))
    );
    let (first, message, question) = asking.remove(0);
    assert!(!first.is_done(), "the other one's question is still open");
    until(&mut leads, &id, "task-2", "status", "in_progress").await;
    until(&mut leads, &id, "task-1", "status", "waiting_for_answer").await;
    reply(&mut leads, "task-1", &message, "the first").await;
    let (mut worker, told) = first.done().await;
    assert_eq!((&told["status"], &told["message"]["reply_by"]), (&json!("there"), &json!("lead")));
    assert_eq!(told["message"]["reply_content"], "the first");
    // A model that lost the answer says the same again.
    let told = ok(&mut worker, "askIssueTask", question).await;
    assert_eq!(
        (&told["message"]["id"], &told["message"]["reply_content"]),
        (&message, &json!("the first"))
    );
    until(&mut leads, &id, "task-1", "status", "in_progress").await;
    let again =
        json!({ "issue_id": id, "task_id": "task-1", "message_id": message, "content": "other" });
    assert_eq!(no(&mut leads, "replyIssueTaskMessage", again).await.0, "already_replied");
}

#[tokio::test]
async fn of_two_that_want_the_same_one_gets_it() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let broker = up.broker.unwrap();
    let of_leads = place.path().join("lead");
    let (lead, one, two) = tokio::join!(
        Process::node(&of_leads, broker, "--role lead=swarm-lead --role boss=swarm-lead"),
        node(place.path(), broker, "worker1"),
        node(place.path(), broker, "worker2"),
    );
    let mut leads = agent(Transport::Stateless, "lead", &lead).await;
    let mut boss = agent(Transport::Stdio, "boss", &lead).await;
    let mut first = employed(Transport::Stdio, "worker1", &one).await;
    let mut second = employed(Transport::Stateless, "worker2", &two).await;
    let id = issue(&mut leads, &[5]).await;

    let (x, y) = tokio::join!(
        first.call("claimIssueTask", of(&id, "task-1", "worker1")),
        second.call("claimIssueTask", of(&id, "task-1", "worker2")),
    );
    let (x, y) = (x.unwrap(), y.unwrap());
    let is_first = x["isError"] != true;
    let lost = if is_first { &y } else { &x };
    assert!(is_first != (y["isError"] != true), "{x} {y}");
    assert_eq!(lost["structuredContent"]["error"]["code"], "task_already_claimed", "{lost}");
    let (mut winner, mut loser, name) = match is_first {
        true => (first, second, "worker1"),
        false => (second, first, "worker2"),
    };
    let text = lost["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("ERROR: task 'task-1' is not open (status: in_progress)")
            && text.contains(name),
        "{text}"
    );
    let other = if is_first { "worker2" } else { "worker1" };

    let files = |worker: &str, files: &[&str]| {
        json!({ "worker_id": worker, "files": files,
        "repository": "git.example/shop" })
    };
    let held = ok(&mut winner, "lockFiles", files(name, &["src/z.rs"])).await;
    let own = ok(&mut loser, "lockFiles", files(other, &["src/a.rs"])).await;
    let (code, text) =
        no(&mut loser, "lockFiles", files(other, &["src/a.rs", "src/b.rs", "src/*"])).await;
    assert_eq!(code, "file_is_locked", "{text}");
    assert!(text.contains(&format!("locked by '{name}'")) && text.contains(" s more"), "{text}");
    let listed = ok(&mut loser, "listLocks", json!({ "repository": "git.example/shop" })).await;
    let kept = listed["locks"].as_array().unwrap().iter().map(|it| it["lease_id"].clone());
    let kept: Vec<Value> = kept.collect();
    assert!(
        listed["total"] == 2 && kept.contains(&own["lease_id"]) && kept.contains(&held["lease_id"]),
        "{listed}"
    );
    let other_place =
        json!({ "worker_id": other, "files": ["src/z.rs"], "repository": "git.example/b" });
    ok(&mut loser, "lockFiles", other_place).await;
    let mut patient = files(other, &["src/z.rs"]);
    patient["wait_sec"] = 1.into();
    let (code, text) = no(&mut loser, "lockFiles", patient.clone()).await;
    assert!(code == "file_is_locked" && text.contains(name), "{text}");
    patient["wait_sec"] = 50.into();
    let waits = Under::way(loser, "lockFiles", patient);
    let foreign = json!({ "lease_id": held["lease_id"], "worker_id": name });
    ok(&mut winner, "unlock", foreign.clone()).await;
    let (mut loser, got) = waits.done().await;
    assert_eq!((&got["owner"], &got["files"]), (&json!(other), &json!(["src/z.rs"])), "{got}");
    let not = json!({ "lease_id": got["lease_id"], "worker_id": name });
    assert_eq!(no(&mut winner, "unlock", not).await.0, "not_holder");
    let (code, text) = no(&mut winner, "lockFiles", files(name, &["../../etc/passwd"])).await;
    assert!(code == "invalid_argument" && text.contains("Nothing was locked"), "{text}");
    let force = json!({ "lease_id": got["lease_id"], "reason": "it hangs" });
    let taken = ok(&mut leads, "forceUnlock", force).await;
    assert_eq!(taken["unlocked"]["owner"], other, "{taken}");
    assert!(taken["note"].as_str().is_some_and(|it| it.contains("untrusted data")), "{taken}");
    let gone = json!({ "lease_id": got["lease_id"], "worker_id": other });
    assert_eq!(no(&mut loser, "heartbeat", gone).await.0, "lease_lost");

    let submitted = Under::way(winner, "submitIssueTask", result(&id, "task-1", name, "done"));
    item(&mut leads, &id, "submission").await;
    let next = super::mint(&mut leads, &id, "task-1", name).await;
    let approves = verdict(&id, "task-1", Some(&next["next_step_token"]));
    let (x, y) = tokio::join!(
        leads.call("reviewIssueTask", approves.clone()),
        boss.call("reviewIssueTask", verdict(&id, "task-1", None)),
    );
    let (x, y) = (x.unwrap(), y.unwrap());
    assert!((x["isError"] == true) != (y["isError"] == true), "{x} {y}");
    let (_, told) = submitted.done().await;
    let is_approved = x["isError"] != true;
    assert_eq!(told["submission"]["verdict"], if is_approved { "approved" } else { "rejected" });
    let late = if is_approved { &y } else { &x };
    let code = late["structuredContent"]["error"]["code"].as_str().unwrap();
    assert!(
        matches!(code, "already_reviewed" | "no_open_submission" | "invalid_next_step_token"),
        "{late}"
    );
    assert_eq!(super::count(broker, &id, "issue_task_resolved").await, usize::from(is_approved));
}
