//! A lead and workers, each an MCP client at a node of its own, work on an issue.

pub(crate) mod cancelled;
mod ends;
mod flows;
mod leaving;
mod restarts;
mod shortened;
mod sleepers;
mod stopped;

use std::{net::SocketAddr, path::Path};

use serde_json::{Value, json};
use tasuki_proto::wire::{self, swarm_client::SwarmClient};
use tonic::transport::Channel;

use crate::{
    agents::{Agent, Manner, Transport},
    process::{Process, soon},
};

/// A node with one role, on a broker that others use, too.
pub(crate) async fn node(place: &Path, broker: SocketAddr, role: &str) -> Process {
    Process::node(&place.join(role), broker, &format!("--role {role}")).await
}

pub(crate) async fn agent(transport: Transport, role: &str, of: &Process) -> Agent {
    Agent::new(transport, role, of.mcp, of.data.clone()).await
}

/// One whose calls are held so long at most, in seconds.
pub(crate) async fn held(transport: Transport, role: &str, of: &Process, hold: u64) -> Agent {
    let manner = Manner { hold: Some(hold), ..Manner::default() };
    Agent::with(transport, role, of.mcp, of.data.clone(), manner).await
}

/// That an agent is told to call tools of its own. Roles here have what is usual for their names.
fn check_named(agent: &Agent, told: &str) {
    let of = |names: &str| names.split(',').map(|it| it.parse().unwrap()).collect::<Vec<_>>();
    let full = ["swarm-lead:full", "swarm-worker:full", "swarm-acceptor:full"];
    let own = full.iter().find(|set| {
        let part = set.trim_start_matches("swarm-").trim_end_matches(":full");
        agent.role.starts_with(part)
    });
    let Some(own) = own else { return };
    let own = tasuki_node::mcp::tool_names(&of(own));
    let words: Vec<&str> = told.split(|it: char| !it.is_ascii_alphanumeric()).collect();
    let is_name = |it: &String| it.contains(|it: char| it.is_ascii_uppercase());
    let all = tasuki_node::mcp::tool_names(&of(&full.join(",")));
    for tool in all.iter().filter(|it| is_name(it) && words.contains(&it.as_str())) {
        assert!(own.contains(tool), "{} is told of {tool}: {told}", agent.role);
    }
}

/// The facts of an answer that is no refusal.
pub(crate) async fn ok(agent: &mut Agent, tool: &str, arguments: Value) -> Value {
    let result = soon(agent.call(tool, arguments)).await.unwrap();
    assert_ne!(result["isError"], true, "{tool}: {result}");
    check_named(agent, &result["structuredContent"]["next_actions"].to_string());
    result["structuredContent"].clone()
}

/// The code and the words of a refusal.
pub(crate) async fn no(agent: &mut Agent, tool: &str, arguments: Value) -> (String, String) {
    let result = soon(agent.call(tool, arguments)).await.unwrap();
    assert_eq!(result["isError"], true, "{tool}: {result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    let error = &result["structuredContent"]["error"];
    assert!(text.starts_with("ERROR: ") && error["message"] == text, "{result}");
    assert!(error["retryable"].is_boolean() && error["maybe_applied"] == false, "{result}");
    check_named(agent, text);
    (error["code"].as_str().unwrap().to_owned(), text.to_owned())
}

/// A call under way, and the agent that makes it.
pub(crate) struct Under(tokio::task::JoinHandle<(Agent, Value)>);

impl Under {
    pub(crate) fn way(mut agent: Agent, tool: &'static str, arguments: Value) -> Self {
        Self(tokio::spawn(async move {
            let told = ok(&mut agent, tool, arguments).await;
            (agent, told)
        }))
    }

    pub(crate) async fn done(self) -> (Agent, Value) {
        soon(self.0).await.unwrap()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.is_finished()
    }
}

pub(crate) fn spec(goal: &str) -> Value {
    json!({ "name": "n", "split_from": "the issue", "split_reason": "none", "impact_scope": "src",
        "goal": goal, "rules": "none", "constraints": "none", "conventions": "none",
        "acceptance": "tests pass" })
}

/// An issue of the lead with a task of each of these points.
pub(crate) async fn issue(lead: &mut Agent, points: &[u32]) -> String {
    let doc = |name: &str| json!({ "name": name, "content": format!("the {name}") });
    let words = json!({ "subject": "Make it fast", "user_issue_doc": doc("wish"),
        "lead_issue_doc": doc("reading") });
    let issue = ok(lead, "createIssue", words).await["id"].as_str().unwrap().to_owned();
    for (number, points) in points.iter().enumerate() {
        let task = json!({ "issue_id": issue, "subject": format!("part {number}"),
            "difficulty": "easy", "points": points, "spec": spec("faster") });
        let task = ok(lead, "createIssueTask", task).await;
        assert_eq!((&task["status"], &task["points"]), (&json!("open"), &json!(points)), "{task}");
    }
    issue
}

pub(crate) fn of(issue: &str, task: &str, worker: &str) -> Value {
    json!({ "issue_id": issue, "task_id": task, "worker_id": worker })
}

/// A result, by its summary.
pub(crate) fn result(issue: &str, task: &str, worker: &str, summary: &str) -> Value {
    let mut words = of(issue, task, worker);
    words["artifacts"] = json!({ "summary": summary, "changed_files": ["src/a.rs"],
        "test_cases": ["a"], "test_result": "passed", "test_output": "ok" });
    words
}

/// What the lead of an issue is shown next, which must be of this kind.
pub(crate) async fn item(lead: &mut Agent, issue: &str, kind: &str) -> Value {
    let told = ok(lead, "waitIssueTaskEvents", json!({ "issue_id": issue })).await;
    assert_eq!((&told["status"], &told["item"]["type"]), (&json!("there"), &json!(kind)), "{told}");
    told["item"].clone()
}

pub(crate) async fn mint(lead: &mut Agent, issue: &str, task: &str, worker: &str) -> Value {
    let mut words = of(issue, task, worker);
    words["completion_score"] = 5.into();
    ok(lead, "getNextStepToken", words).await
}

/// A verdict with a score of 5; without a token it rejects.
pub(crate) fn verdict(issue: &str, task: &str, token: Option<&Value>) -> Value {
    let details = [json!({ "dimension": "style", "severity": "minor", "content": "names" })];
    json!({ "issue_id": issue, "task_id": task, "completion_score": 5,
        "verdict": if token.is_some() { "approved" } else { "rejected" },
        "next_step_token": token, "feedback": "read it all", "feedback_details": details,
        "artifacts": { "review_summary": "fine", "reviewed_refs": ["src/a.rs"] } })
}

/// Approves what is open of a task; what its worker does next.
pub(crate) async fn approve(lead: &mut Agent, issue: &str, task: &str, worker: &str) -> Value {
    let next = mint(lead, issue, task, worker).await;
    let told = verdict(issue, task, Some(&next["next_step_token"]));
    assert_eq!(ok(lead, "reviewIssueTask", told).await["status"], "done");
    next
}

/// The broker without a node between.
pub(crate) async fn broker(address: SocketAddr) -> SwarmClient<Channel> {
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    SwarmClient::new(soon(channel.connect()).await.unwrap())
}

/// Other times than the usual ones; each call of one test with its own number.
pub(crate) async fn set(
    address: SocketAddr,
    number: u64,
    change: impl FnOnce(&mut wire::SwarmSettings),
) {
    let mut person = broker(address).await;
    let settings = person.get_settings(wire::GetSettingsRequest::default()).await;
    let mut settings = settings.unwrap().into_inner();
    change(&mut settings);
    let key = wire::IdempotencyKey { client_id: "tester".to_owned(), counter: number };
    let request = wire::SetSettingsRequest {
        key: Some(key),
        person: "tester".to_owned(),
        settings: Some(settings),
        ..Default::default()
    };
    person.set_settings(request).await.unwrap();
}

/// How often each kind of entry is in an issue's history.
pub(crate) async fn count(address: SocketAddr, issue: &str, kind: &str) -> usize {
    let request = wire::GetHistoryRequest { issue_id: issue.to_owned(), ..Default::default() };
    let history = broker(address).await.get_history(request).await.unwrap().into_inner();
    assert_eq!(history.total, history.entries.len() as u64);
    history.entries.iter().filter(|it| it.r#type == kind).count()
}

/// Until a task of the lead's issue stands so.
pub(crate) async fn until(lead: &mut Agent, issue: &str, task: &str, field: &str, is: &str) {
    soon(async {
        let of = json!({ "issue_id": issue, "task_id": task });
        while ok(lead, "getIssueTask", of.clone()).await[field] != is {}
    })
    .await;
}
