//! What a lead is shown and told: items one by one, plans, lists, bundles.

use serde_json::{Value, json};

use super::{
    Office, add_task, approve, ask, begin, claim, delivered, finish, judgement, name, open_issue,
    refusal, result, task,
};
use crate::{
    agents::{Agent, Manner, Transport},
    process::{Process, soon},
    stored::status,
};

const EVENTS: &str = "waitIssueTaskEvents";

/// One process with all three.
async fn up(place: &tempfile::TempDir) -> Process {
    let roles = "--role lead=swarm-lead:full --role worker=swarm-worker:full \
                 --role acceptor=swarm-acceptor:full";
    Process::up(&place.path().join("up"), roles).await
}

async fn session(of: &Process, role: &str) -> crate::http::Client {
    crate::http::Client::new(of.mcp, &format!("/mcp/{role}")).await
}

/// What comes next, without waiting for it.
fn look(issue: &str) -> Value {
    json!({ "issue_id": issue, "timeout_sec": 0 })
}

#[tokio::test]
async fn items_come_one_by_one_in_order_each_once_and_whole() {
    let place = tempfile::tempdir().unwrap();
    let up = up(&place).await;
    let (lead, worker) = (session(&up, "lead").await, session(&up, "worker").await);
    ask(&worker, "registerWorker", json!({})).await;
    let issue = open_issue(&lead).await;
    for subject in ["First", "Second"] {
        let task = add_task(&lead, &issue, subject).await;
        ask(&worker, "claimIssueTask", claim(&issue, &task)).await;
    }
    let say = |task: &str, kind: &str, content: &str| {
        let mut it = claim(&issue, task);
        (it["kind"], it["content"], it["timeout_sec"]) = (kind.into(), content.into(), 0.into());
        it
    };
    ask(&worker, "postIssueTaskMessage", say("task-1", "progress", "half way")).await;
    ask(&worker, "askIssueTask", say("task-2", "question", "which one?")).await;
    ask(&worker, "submitIssueTask", result(&issue, "task-1")).await;

    let note = ask(&lead, EVENTS, look(&issue)).await;
    assert_eq!((&note["item"]["type"], &note["more"]), (&"note".into(), &2.into()), "{note}");
    assert_eq!(note["item"]["message"]["content"], "half way");
    let question = ask(&lead, "selectIssueInbox", look(&issue)).await;
    assert_eq!(question["item"]["type"], "question", "{question}");
    assert_eq!(question["item"]["sender_id"], "worker");
    let submission = ask(&lead, "nextIssueSignal", look(&issue)).await;
    assert_eq!(submission["item"]["submission"]["artifacts"]["summary"], "did task-1");
    let none = ask(&lead, "stepLeadInbox", look(&issue)).await;
    assert_eq!((&none["status"], none.get("item")), (&"still_waiting".into(), None), "{none}");

    let shown = ask(&lead, "getIssueTask", json!({ "issue_id": issue, "task_id": "task-2" })).await;
    assert_eq!(
        (&shown["status"], &shown["stage"]),
        (&"waiting_for_answer".into(), &"waiting_for_answer".into())
    );
    assert!(name(&shown["next_actions"][0]).contains("replyIssueTaskMessage"));
    let reply = json!({ "issue_id": issue, "task_id": "task-2", "content": "the first",
        "message_id": question["item"]["message"]["id"] });
    let replied = ask(&lead, "replyIssueTaskMessage", reply.clone()).await;
    assert_eq!(replied["task_status"], "in_progress", "{replied}");
    assert_eq!(ask(&lead, "replyIssueTaskMessage", reply).await["repeated"], true);
    let rejected = ask(&lead, "reviewIssueTask", judgement(&issue, "task-1", "rejected")).await;
    assert_eq!(rejected["submission"]["verdict"], "rejected", "{rejected}");
    let (code, words) =
        refusal(&lead, "reviewIssueTask", judgement(&issue, "task-1", "approved")).await;
    assert!(code == "invalid_argument" && words.contains("next_step_token is required"));
    let mut odd = judgement(&issue, "task-1", "rejected");
    odd["completion_score"] = 3.into();
    let (_, words) = refusal(&lead, "reviewIssueTask", odd).await;
    assert!(words.contains("`completion_score` is 3"), "{words}");

    let reset = json!({ "issue_id": issue, "task_id": "task-1", "reason": "another way" });
    let reset = ask(&lead, "resetIssueTask", reset).await;
    assert_eq!((&reset["status"], reset.get("claimed_by")), (&"open".into(), None), "{reset}");
    ask(&worker, "claimIssueTask", claim(&issue, "task-1")).await;
    let waiting = begin(&lead, EVENTS, json!({ "issue_id": issue }));
    until_waiting(&up, "lead").await;
    ask(&worker, "submitIssueTask", result(&issue, "task-1")).await;
    // Before the lead judges it: what it judged is nothing to wait for.
    let shown = soon(waiting).await.unwrap();
    assert_eq!(shown["item"]["type"], "submission", "{shown}");
    approve(&lead, &worker, &issue, "task-1").await;
    let settled = ask(&lead, EVENTS, look(&issue)).await;
    assert_eq!(settled["status"], "still_waiting", "{settled}");
}

/// Until a role waits, or is on its way to the broker for it.
async fn until_waiting(of: &Process, role: &str) {
    soon(async {
        loop {
            let status = status(of).await;
            let mut roles = status["roles"].as_array().unwrap().iter();
            if roles.any(|it| it["role"] == role && it["waits"] == 1) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Neither a connection that broke nor a node that died takes an item with it.
#[tokio::test]
async fn what_was_not_written_to_the_lead_is_shown_again() {
    let mut office = Office::open(&["lead=swarm-lead", "worker=swarm-worker"]).await;
    let (lead, worker) = (office.client(0, "lead").await, office.client(1, "worker").await);
    ask(&worker, "registerWorker", json!({})).await;
    let issue = open_issue(&lead).await;
    let task = add_task(&lead, &issue, "First").await;
    ask(&worker, "claimIssueTask", claim(&issue, &task)).await;
    let of = json!({ "issue_id": issue });
    let mut broken = lead.post(&crate::http::call(9, EVENTS, of.clone())).await;
    office.nodes[0].kill().await;
    assert!(soon(broken.next_event()).await.is_none());
    ask(&worker, "submitIssueTask", result(&issue, &task)).await;
    office.nodes[0].start().await;
    let lead = office.client(0, "lead").await;
    let shown = ask(&lead, EVENTS, of).await;
    assert_eq!(shown["item"]["type"], "submission", "{shown}");
    for _ in 0..3 {
        assert_eq!(ask(&lead, EVENTS, look(&issue)).await["status"], "still_waiting");
    }
}

#[tokio::test]
async fn a_lead_that_takes_tasks_is_woken_for_a_submission() {
    let place = tempfile::tempdir().unwrap();
    let up = up(&place).await;
    let (lead, worker) = (session(&up, "lead").await, session(&up, "worker").await);
    ask(&worker, "registerWorker", json!({})).await;
    let issue = open_issue(&lead).await;
    let task = add_task(&lead, &issue, "First").await;
    ask(&worker, "claimIssueTask", claim(&issue, &task)).await;
    let manner = Manner { takes_tasks: true, ..Manner::default() };
    let agent = Agent::with(Transport::Stateless, "lead", up.mcp, up.data.clone(), manner);
    let mut agent = agent.await;
    let begun = soon(agent.begin(EVENTS, json!({ "issue_id": issue }))).await.unwrap();
    assert_eq!(begun["resultType"], "task", "{begun}");
    ask(&worker, "submitIssueTask", result(&issue, &task)).await;
    let woken = soon(agent.awoken(begun)).await.unwrap();
    let item = &woken["structuredContent"]["item"];
    assert_eq!((&item["type"], &item["task_id"]), (&"submission".into(), &"task-1".into()));
}

/// 200 tasks at once: in circles refused by name, then made, listed and bundled within bounds.
#[tokio::test]
async fn a_plan_of_200_tasks_is_made_whole_or_not_at_all() {
    const TASKS: usize = 200;
    /// What a bundle may be as text, with room for what is around it.
    const BUNDLE_BYTES_MAX: usize = 220 * 1024;
    let place = tempfile::tempdir().unwrap();
    let up = up(&place).await;
    let (lead, worker) = (session(&up, "lead").await, session(&up, "worker").await);
    let acceptor = session(&up, "acceptor").await;
    ask(&worker, "registerWorker", json!({})).await;
    let issue = open_issue(&lead).await;
    let mut tasks: Vec<Value> = (1..=TASKS)
        .map(|number| {
            let mut it = task(&format!("Part {number}"));
            it["points"] = (number % 50).into();
            it["description"] = "long ".repeat(800).into();
            it
        })
        .collect();
    for (later, earlier) in [(101, 100), (150, 101), (200, 150)] {
        tasks[later - 1]["blocked_by"] = json!([format!("Part {earlier}")]);
    }
    let mut circle = tasks.clone();
    circle[99]["blocked_by"] = json!(["Part 200"]);
    let of = json!({ "issue_id": issue });
    let plan = json!({ "issue_id": issue, "tasks": circle });
    let (code, words) = refusal(&lead, "planIssueTasks", plan).await;
    assert_eq!(code, "blocked_in_a_circle");
    let named = r#""Part 100" ← "Part 200" ← "Part 150" ← "Part 101" ← "Part 100""#;
    assert!(words.contains(named), "{words}");
    assert_eq!(ask(&lead, "listIssueTasks", of.clone()).await["total"], 0);
    let plan = json!({ "issue_id": issue, "tasks": tasks });
    let made = ask(&lead, "planIssueTasks", plan.clone()).await;
    assert_eq!(made["tasks"].as_array().unwrap().len(), TASKS);
    assert_eq!(made["tasks"][199]["blocked_by"], json!(["task-150"]));
    assert_eq!(made.get("repeated"), None);
    // The same plan again is the same tasks.
    let again = ask(&lead, "planIssueTasks", plan).await;
    assert_eq!((&again["tasks"][0]["id"], &again["repeated"]), (&json!("task-1"), &json!(true)));
    let page = json!({ "issue_id": issue, "offset": 150, "limit": 100, "sort_order": "asc" });
    let page = ask(&lead, "listIssueTasks", page).await;
    assert_eq!((&page["total"], page.get("next_offset")), (&TASKS.into(), None));
    assert_eq!(page["tasks"][0]["id"], "task-151");
    let open = ask(&lead, "listIssueOpenedTasks", of.clone()).await;
    let ids: Vec<_> = open["tasks"].as_array().unwrap().iter().map(|it| name(&it["id"])).collect();
    // More points first, then by name; what waits for others comes last.
    assert_eq!(ids[..4], ["task-149", "task-199", "task-49", "task-99"]);
    assert_eq!((ids.len(), &open["ready"]), (TASKS, &197.into()));
    assert_eq!(ids[197..], ["task-200", "task-150", "task-101"]);
    finish(&lead, &worker, &issue, "task-1").await;

    let bundle = soon(acceptor.call("getIssueAcceptanceBundle", of)).await;
    let told = crate::http::text(&bundle);
    assert!(told.len() < BUNDLE_BYTES_MAX, "{}", told.len());
    let bundle = &bundle["structuredContent"];
    assert_eq!(
        (&bundle["tasks_total"], bundle["tasks"].as_array().unwrap().len()),
        (&TASKS.into(), TASKS)
    );
    assert_eq!(bundle["tasks"][0]["submission"]["artifacts"]["summary"], "did task-1");
    let left_out = &bundle["left_out"][0];
    assert_eq!(left_out["how"], "getIssueTask with each task_id", "{left_out}");
    assert!(name(&left_out["what"]).contains("task-200"), "{left_out}");
    assert!(bundle.get("delivery").is_none());
}

#[tokio::test]
async fn issues_are_listed_kept_and_named_as_they_stand() {
    let place = tempfile::tempdir().unwrap();
    let up = up(&place).await;
    let (lead, worker) = (session(&up, "lead").await, session(&up, "worker").await);
    let mut ids = Vec::new();
    for subject in ["b", "a", "c"] {
        let doc = json!({ "name": "d.md", "content": subject });
        let it = json!({ "subject": subject, "user_issue_doc": doc,
            "lead_issue_doc": { "name": "l.md", "content": "" }, "shared_doc_paths": ["s"] });
        ids.push(name(&ask(&lead, "createIssue", it).await["id"]));
    }
    let subjects = async |list: Value| {
        let found = ask(&worker, "listIssues", list).await;
        let subjects: String =
            found["issues"].as_array().unwrap().iter().map(|it| name(&it["subject"])).collect();
        (subjects, found["total"].clone(), found.get("next_offset").cloned())
    };
    assert_eq!(subjects(json!({})).await, ("cab".to_owned(), 3.into(), None));
    let sorted = json!({ "sort_by": "subject", "sort_order": "asc", "limit": 2 });
    assert_eq!(subjects(sorted).await, ("ab".to_owned(), 3.into(), Some(2.into())));
    let found = json!({ "subject_contains": "c", "status": "open" });
    assert_eq!(subjects(found).await, ("c".to_owned(), 1.into(), None));
    assert_eq!(subjects(json!({ "status": "done" })).await.1, 0);
    for (wrong, field) in [
        (json!({ "sort_by": "size" }), "`sort_by`"),
        (json!({ "sort_order": "up" }), "`sort_order`"),
        (json!({ "status": "late" }), "`status`"),
        (json!({ "limit": -1 }), "`limit`"),
    ] {
        let (code, words) = refusal(&worker, "listIssues", wrong).await;
        assert!(code == "invalid_argument" && words.contains(field), "{words}");
    }
    // What is not named stays.
    let paths = json!({ "issue_id": ids[0], "project_doc_paths": ["p"] });
    let told = ask(&lead, "updateIssueDocPaths", paths).await;
    assert_eq!(
        (&told["shared_doc_paths"], &told["project_doc_paths"]),
        (&json!(["s"]), &json!(["p"]))
    );
    let longer = json!({ "issue_id": ids[0], "extend_sec": 86_400 });
    let longer = ask(&lead, "extendIssueLease", longer).await["lease_expires_at_ms"].clone();
    assert!(told["lease_expires_at_ms"].as_u64() < longer.as_u64(), "{told} {longer}");
    let (code, _) = refusal(&lead, "getIssue", json!({ "issue_id": "issue_1_0000" })).await;
    assert_eq!(code, "unknown_issue");
    let (code, _) = refusal(&lead, "getIssue", json!({ "issue_id": "../../etc" })).await;
    assert_eq!(code, "unknown_issue");
    let none = delivered(&ids[0], &[], "x");
    assert_eq!(refusal(&lead, "submitDelivery", none).await.0, "nothing_to_deliver");
}
