//! Leads and acceptors at real nodes, each an MCP client of its own: from the plan to the verdict
//! on everything.

mod delivery;
mod hostile;
mod lead;

use serde_json::{Value, json};
use tasuki_proto::wire::{self, swarm_client::SwarmClient};

use crate::{
    http::{Client, text},
    process::{Process, soon},
};

/// A broker, and a node for each role.
struct Office {
    broker: Process,
    nodes: Vec<Process>,
    _place: tempfile::TempDir,
}

impl Office {
    /// `roles` are as `--role` takes them; each is at a node of its own.
    async fn open(roles: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let broker = Process::broker(&place.path().join("broker"), "").await;
        let address = broker.broker.unwrap();
        let mut nodes = Vec::new();
        for (number, role) in roles.iter().enumerate() {
            let data = place.path().join(format!("node-{number}"));
            nodes.push(Process::node(&data, address, &format!("--role {role}")).await);
        }
        Self { broker, nodes, _place: place }
    }

    async fn client(&self, node: usize, role: &str) -> Client {
        Client::new(self.nodes[node].mcp, &format!("/mcp/{role}")).await
    }

    /// How long things last in the workspace.
    async fn set(&self, change: impl FnOnce(&mut wire::SwarmSettings)) {
        let address = format!("http://{}", self.broker.broker.unwrap());
        let mut swarm = SwarmClient::connect(address).await.unwrap();
        let caller = Some(wire::Caller::default());
        let asked = wire::GetSettingsRequest { caller: caller.clone() };
        let mut settings = swarm.get_settings(asked).await.unwrap().into_inner();
        change(&mut settings);
        // Another intent each time.
        let counter = 1 + settings.delivery_claim_ms;
        let key = wire::IdempotencyKey { client_id: "test".to_owned(), counter };
        let request = wire::SetSettingsRequest {
            caller,
            key: Some(key),
            person: "alice".to_owned(),
            settings: Some(settings),
        };
        swarm.set_settings(request).await.unwrap();
    }
}

/// The facts of an answer that is no refusal.
async fn ask(client: &Client, tool: &str, arguments: Value) -> Value {
    let result = soon(client.call(tool, arguments)).await;
    assert_ne!(result["isError"], true, "{tool}: {result}");
    result["structuredContent"].clone()
}

/// Which refusal, and its words.
async fn refusal(client: &Client, tool: &str, arguments: Value) -> (String, String) {
    let result = soon(client.call(tool, arguments)).await;
    let code = result["structuredContent"]["error"]["code"].as_str();
    let code = code.unwrap_or_else(|| panic!("{tool}: {result}")).to_owned();
    let words = text(&result);
    assert!(words.starts_with("ERROR: "), "{words}");
    (code, words.to_owned())
}

/// The same as a call that goes on while others are made.
fn begin(client: &Client, tool: &'static str, arguments: Value) -> tokio::task::JoinHandle<Value> {
    let client = client.clone();
    tokio::spawn(async move { ask(&client, tool, arguments).await })
}

fn name(it: &Value) -> String {
    it.as_str().unwrap_or_else(|| panic!("no name: {it}")).to_owned()
}

async fn open_issue(lead: &Client) -> String {
    let issue = ask(
        lead,
        "createIssue",
        json!({
            "subject": "Make it work",
            "user_issue_doc": { "name": "user.md", "content": "It should work." },
            "lead_issue_doc": { "name": "lead.md", "content": "Mend the parser." },
        }),
    );
    name(&issue.await["id"])
}

fn spec(name: &str) -> Value {
    json!({
        "name": name, "split_from": "the issue", "split_reason": "it stands alone",
        "impact_scope": "the parser", "goal": "it works", "rules": "none", "constraints": "none",
        "conventions": "as it is", "acceptance": "make test",
    })
}

fn task(subject: &str) -> Value {
    json!({ "subject": subject, "difficulty": "easy", "points": 3, "spec": spec(subject) })
}

async fn add_task(lead: &Client, issue: &str, subject: &str) -> String {
    let mut task = task(subject);
    task["issue_id"] = issue.into();
    name(&ask(lead, "createIssueTask", task).await["id"])
}

fn claim(issue: &str, task: &str) -> Value {
    json!({ "issue_id": issue, "task_id": task, "worker_id": "worker" })
}

fn result(issue: &str, task: &str) -> Value {
    json!({
        "issue_id": issue, "task_id": task, "worker_id": "worker", "timeout_sec": 0,
        "artifacts": {
            "summary": format!("did {task}"), "changed_files": [format!("{task}.rs")],
            "test_cases": ["all"], "test_result": "passed", "test_output": "ok",
        },
    })
}

fn judgement(issue: &str, task: &str, verdict: &str) -> Value {
    json!({
        "issue_id": issue, "task_id": task, "verdict": verdict, "completion_score": 5,
        "artifacts": { "review_summary": "fine", "reviewed_refs": [format!("{task}.rs")] },
        "feedback_details": [
            { "dimension": "correctness", "severity": "info", "content": "it does what it should" },
        ],
    })
}

/// A worker does a task that is there, and its lead approves it.
async fn finish(lead: &Client, worker: &Client, issue: &str, task: &str) {
    ask(worker, "claimIssueTask", claim(issue, task)).await;
    approve(lead, worker, issue, task).await;
}

/// The same of a task that was claimed.
async fn approve(lead: &Client, worker: &Client, issue: &str, task: &str) -> Value {
    let waiting = ask(worker, "submitIssueTask", result(issue, task)).await;
    assert_eq!(waiting["status"], "still_waiting", "{waiting}");
    let step = json!({
        "issue_id": issue, "task_id": task, "worker_id": "worker", "completion_score": 5
    });
    let step = ask(lead, "getNextStepToken", step).await;
    let mut approved = judgement(issue, task, "approved");
    approved["next_step_token"] = step["next_step_token"].clone();
    let told = ask(lead, "reviewIssueTask", approved).await;
    assert_eq!(
        (&told["status"], &told["submission"]["verdict"]),
        (&"done".into(), &"approved".into())
    );
    told
}

fn delivery(issue: &str, files: &[&str], summary: &str) -> Value {
    const STEPS: &str = "docs/issue-1-test-steps.md";
    let files: Vec<&str> = files.iter().copied().chain([STEPS]).collect();
    json!({
        "issue_id": issue, "summary": summary,
        "artifacts": {
            "test_result": "passed", "test_cases": ["all"], "changed_files": files,
            "reviewed_refs": ["main"],
        },
        "test_evidence": {
            "script_path": "test.sh", "script_cmd": "sh test.sh", "script_passed": true,
            "script_result": "ok", "doc_path": STEPS,
            "doc_commands": ["make test"], "doc_passed": true,
            "doc_results": [
                { "command": "make test", "passed": true, "exit_code": 0, "output": "ok" },
            ],
        },
    })
}

/// The same, waiting for nothing.
pub(crate) fn delivered(issue: &str, files: &[&str], summary: &str) -> Value {
    let mut it = delivery(issue, files, summary);
    it["timeout_sec"] = 0.into();
    it
}

pub(crate) fn verdict(delivery: &str, verdict: &str) -> Value {
    json!({
        "delivery_id": delivery, "verdict": verdict, "feedback": "as I saw it",
        "verification": {
            "script_passed": true, "script_result": "ok", "doc_passed": true,
            "doc_results": [
                { "command": "make test", "passed": true, "exit_code": 0, "output": "ok" },
            ],
        },
    })
}
