//! An issue on two machines that joined, one of which may only work.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

use crate::join::world::{Home, Host, Served, soon};

/// An agent's `tasuki mcp`, until dropped.
struct Agent {
    _process: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Agent {
    async fn start(laptop: &Home, role: &str) -> Self {
        let mut command = laptop.command(&format!("tasuki mcp --role {role}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let (stdin, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut it = Self { _process: process, stdin, lines: BufReader::new(stdout).lines() };
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "join", "version": "1" } });
        it.ask("initialize", params).await;
        it.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        it
    }

    async fn say(&mut self, message: &Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).await;
        loop {
            let line = soon(self.lines.next_line()).await.unwrap().expect("it goes on");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == 1 {
                return message["result"].clone();
            }
        }
    }

    /// The facts of an answer that is no refusal.
    async fn does(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// The code of a refusal.
    async fn may_not(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        let code = result["structuredContent"]["error"]["code"].as_str();
        code.unwrap_or_else(|| panic!("{tool}: {result}")).to_owned()
    }
}

/// A laptop that joined, with its node; `roles` are as `--role` of the node takes them.
async fn joined(host: &Host, laptop: &Home, invitation: &str, roles: &str) -> Served {
    laptop.says(&host.invite(invitation).await).await;
    let command = laptop.command(&format!("tasuki node {roles}"));
    Served::start(command, &laptop.path.join("node.log"), "(MCP)").await
}

fn opened() -> Value {
    let doc = |name: &str| json!({ "name": name, "content": name });
    json!({ "subject": "Make it fast", "user_issue_doc": doc("wish"),
        "lead_issue_doc": doc("reading") })
}

fn task() -> Value {
    let spec = json!({ "name": "n", "split_from": "the issue", "split_reason": "none",
        "impact_scope": "src", "goal": "faster", "rules": "none", "constraints": "none",
        "conventions": "none", "acceptance": "tests pass" });
    json!({ "subject": "the whole", "difficulty": "easy", "points": 3, "spec": spec })
}

fn verdict() -> Value {
    let details = [json!({ "dimension": "test", "severity": "info", "content": "fine" })];
    json!({ "verdict": "approved", "completion_score": 5, "feedback_details": details,
        "artifacts": { "review_summary": "fine", "reviewed_refs": ["src/a.rs"] } })
}

fn with(mut words: Value, more: &Value) -> Value {
    let fields = more.as_object().unwrap().clone();
    words.as_object_mut().unwrap().extend(fields);
    words
}

#[tokio::test]
async fn who_joined_to_work_works_and_does_not_lead() {
    let place = tempfile::tempdir().unwrap();
    let host = Host::new(place.path(), "host").await;
    let (office, bench) = (Home::new(place.path(), "office"), Home::new(place.path(), "bench"));
    let leads = "--workspace w --role lead --role acceptor";
    let works = "--workspace w --role worker --right read --right host --right claim";
    // What its own node lets it call, its token does not.
    let roles = "--role worker=swarm-worker,swarm-lead,swarm-acceptor";
    let _nodes =
        tokio::join!(joined(&host, &office, leads, ""), joined(&host, &bench, works, roles),);
    let (mut lead, mut acceptor, mut worker) = tokio::join!(
        Agent::start(&office, "lead"),
        Agent::start(&office, "acceptor"),
        Agent::start(&bench, "worker"),
    );

    let issue = lead.does("createIssue", opened()).await["id"].clone();
    let issue = json!({ "issue_id": issue });
    let of = with(lead.does("createIssueTask", with(task(), &issue)).await, &issue)["id"].clone();
    let of = with(json!({ "task_id": of }), &issue);
    let own = with(json!({ "worker_id": "worker" }), &of);
    worker.does("registerWorker", json!({})).await;
    assert_eq!(worker.does("waitIssueTasks", issue.clone()).await["status"], "there");
    worker.does("claimIssueTask", own.clone()).await;
    let files = json!({ "files": ["src/a.rs"] });
    let lock = worker.does("lockFiles", with(files, &own)).await;
    let lock = json!({ "lease_id": lock["lease_id"], "worker_id": "worker" });
    let unlocked = worker.does("unlock", lock.clone()).await;
    assert_eq!(unlocked["unlocked"]["files"], json!(["src/a.rs"]), "{unlocked}");
    let again = worker.does("unlock", lock).await;
    assert_eq!((&again["repeated"], &again["unlocked"]["files"]), (&json!(true), &json!([])));
    let result = json!({ "timeout_sec": 0, "artifacts": { "summary": "done", "test_output": "ok",
        "changed_files": ["src/a.rs"], "test_cases": ["all"], "test_result": "passed" } });
    let result = with(result, &own);
    let submitted = worker.does("submitIssueTask", result.clone()).await;
    assert_eq!(submitted["status"], "still_waiting", "{submitted}");
    let item = lead.does("waitIssueTaskEvents", issue.clone()).await;
    assert_eq!(item["item"]["submission"]["id"], submitted["submission_id"], "{item}");

    let next = with(json!({ "completion_score": 5 }), &own);
    let reason = with(json!({ "reason": "mine" }), &of);
    for (tool, words) in [
        ("createIssue", opened()),
        ("createIssueTask", with(task(), &issue)),
        ("getNextStepToken", next.clone()),
        ("reviewIssueTask", with(with(verdict(), &of), &json!({ "verdict": "rejected" }))),
        ("resetIssueTask", reason),
        ("closeIssue", issue.clone()),
        ("claimDelivery", json!({ "delivery_id": "delivery_1_0000" })),
    ] {
        assert_eq!(worker.may_not(tool, words).await, "right_forbidden", "{tool}");
    }

    let token = lead.does("getNextStepToken", next).await["next_step_token"].clone();
    let approved = with(verdict(), &json!({ "next_step_token": token }));
    lead.does("reviewIssueTask", with(approved, &of)).await;
    let told = worker.does("submitIssueTask", result).await;
    assert_eq!(told["submission"]["verdict"], "approved", "{told}");

    let passed = [json!({ "command": "make", "passed": true, "exit_code": 0, "output": "ok" })];
    let seen = json!({ "script_passed": true, "script_result": "ok", "doc_passed": true,
        "doc_results": passed });
    let evidence = json!({ "script_path": "test.sh", "script_cmd": "sh test.sh",
        "doc_path": "issue-1-test-steps.md", "doc_commands": ["make"] });
    let delivery = json!({ "summary": "done", "timeout_sec": 0,
        "artifacts": { "test_result": "passed", "test_cases": ["all"], "reviewed_refs": ["main"],
            "changed_files": ["src/a.rs", "issue-1-test-steps.md"] },
        "test_evidence": with(evidence, &seen) });
    let delivered = lead.does("submitDelivery", with(delivery, &issue)).await;
    let delivery = json!({ "delivery_id": delivered["delivery_id"] });
    acceptor.does("claimDelivery", delivery.clone()).await;
    let accepted = with(json!({ "verdict": "approved", "verification": seen }), &delivery);
    assert_eq!(acceptor.does("reviewDelivery", accepted).await["status"], "approved");
    assert_eq!(lead.does("closeIssue", issue).await["status"], "done");
}
