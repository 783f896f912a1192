//! The tools for issues, tasks, deliveries and locks as clients see them: which there are, what
//! they take, who has them, and how they say no.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tasuki_node::{
    mcp::Settings,
    toolset::{SWARM_ACCEPTOR, SWARM_LEAD, SWARM_WORKER},
};

use crate::{
    http::{Client, text},
    world::{Loop, World},
};

/// Parameters that were added to those people have prompts for, as `tool.field`.
const ADDED: [&str; 9] = [
    "createIssueTask.blocked_by",
    "extendIssueTaskLease.worker_id",
    "listLocks.repository",
    "lockFiles.repository",
    "submitDelivery.test_evidence.commands",
    "submitDelivery.test_evidence.commit",
    "submitIssueTask.artifacts.commands",
    "submitIssueTask.artifacts.commit",
    "planIssueTasks",
];

/// Required there, and optional here.
const OPTIONAL: [&str; 30] = [
    "createIssueTask.difficulty",
    "createIssueTask.spec",
    "createIssueTask.spec.acceptance",
    "createIssueTask.spec.constraints",
    "createIssueTask.spec.conventions",
    "createIssueTask.spec.goal",
    "createIssueTask.spec.impact_scope",
    "createIssueTask.spec.name",
    "createIssueTask.spec.rules",
    "createIssueTask.spec.split_from",
    "createIssueTask.spec.split_reason",
    "reviewDelivery.verification.doc_results.output",
    "reviewIssueTask.artifacts",
    "reviewIssueTask.artifacts.review_summary",
    "reviewIssueTask.artifacts.reviewed_refs",
    "reviewIssueTask.completion_score",
    "reviewIssueTask.feedback_details",
    "reviewIssueTask.next_step_token",
    "submitDelivery.artifacts.reviewed_refs",
    "submitDelivery.artifacts.test_cases",
    "submitDelivery.test_evidence",
    "submitDelivery.test_evidence.doc_commands",
    "submitDelivery.test_evidence.doc_passed",
    "submitDelivery.test_evidence.doc_path",
    "submitDelivery.test_evidence.doc_results",
    "submitDelivery.test_evidence.doc_results.output",
    "submitDelivery.test_evidence.script_cmd",
    "submitDelivery.test_evidence.script_passed",
    "submitDelivery.test_evidence.script_path",
    "submitDelivery.test_evidence.script_result",
];

/// Whose tools no role of theirs had.
const ROLELESS: [&str; 2] = ["getWorker", "writeSharedDoc"];

const SETS: [(&str, &str); 3] =
    [(SWARM_LEAD, "lead"), (SWARM_WORKER, "worker"), (SWARM_ACCEPTOR, "acceptor")];

/// A server where A has this toolset.
async fn world(choice: &str) -> World {
    let toolsets = [("A".parse().unwrap(), vec![choice.parse().unwrap()])].into();
    let settings = Settings { toolsets, ..Settings::default() };
    World::with("127.0.0.1:0", Loop::new(), settings).await
}

async fn listed(choice: &str) -> Vec<Value> {
    let world = world(choice).await;
    let client = Client::new(world.addr, "/mcp/A").await;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let answer = client.post(&list).await.answer().await;
    answer["result"]["tools"].as_array().unwrap().clone()
}

fn names(tools: &[Value]) -> BTreeSet<String> {
    tools.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

fn signatures() -> Map<String, Value> {
    serde_json::from_str(include_str!("swarm.signatures.json")).unwrap()
}

/// The parts of a schema that callers rely on, each field with whether it is required.
fn fields(schema: &Value) -> Value {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| it.as_str().unwrap())
        .collect();
    let empty = Map::new();
    let all = schema["properties"].as_object().unwrap_or(&empty).iter();
    all.map(|(name, it)| {
        let mut told = kind(it);
        if required.contains(&name.as_str()) {
            told["required"] = true.into();
        }
        (name.clone(), told)
    })
    .collect::<Map<_, _>>()
    .into()
}

fn kind(schema: &Value) -> Value {
    let mut told = json!({ "type": schema["type"] });
    if let Some(values) = schema.get("enum") {
        told["enum"] = values.clone();
    }
    if schema.get("properties").is_some() {
        told["properties"] = fields(schema);
    }
    if let Some(items) = schema.get("items") {
        told["items"] = kind(items);
    }
    told
}

/// Where two differ, by name; `OPTIONAL` and `ADDED` do not count, if they are there.
fn compare(
    at: &str,
    theirs: &Value,
    ours: &Value,
    seen: &mut BTreeSet<String>,
    out: &mut Vec<String>,
) {
    let empty = Map::new();
    let (theirs, ours) = (theirs.as_object().unwrap_or(&empty), ours.as_object().unwrap_or(&empty));
    let all: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    for name in all {
        let place = format!("{at}.{name}");
        match (theirs.get(name), ours.get(name)) {
            (Some(_), None) if name == "session_id" => {}
            (None, Some(it)) if ADDED.contains(&place.as_str()) && it.get("required").is_none() => {
                seen.insert(place);
            }
            (Some(theirs), Some(ours)) => {
                let is_optional = OPTIONAL.contains(&place.as_str());
                if is_optional {
                    seen.insert(place.clone());
                }
                let required = |it: &Value| it["required"] == true && !is_optional;
                if theirs["type"] != ours["type"]
                    || theirs["enum"] != ours["enum"]
                    || theirs["items"]["type"] != ours["items"]["type"]
                    || theirs["items"]["enum"] != ours["items"]["enum"]
                    || required(theirs) != required(ours)
                {
                    out.push(format!("{place}: {theirs} is {ours}"));
                }
                compare(&place, &theirs["properties"], &ours["properties"], seen, out);
                let within = |it: &Value| it["items"]["properties"].clone();
                compare(&place, &within(theirs), &within(ours), seen, out);
            }
            (theirs, ours) => out.push(format!("{place}: {theirs:?} is {ours:?}")),
        }
    }
}

#[tokio::test]
async fn every_tool_takes_what_people_have_prompts_for() {
    let signatures = signatures();
    let (mut of_all, mut seen, mut out) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for (set, role) in SETS {
        let tools = listed(&format!("{set}:full")).await;
        for tool in &tools {
            let name = tool["name"].as_str().unwrap();
            let Some(theirs) = signatures.get(name) else {
                assert!(ADDED.contains(&name), "{name}");
                seen.insert(name.to_owned());
                continue;
            };
            let roles = theirs["roles"].as_array().unwrap();
            assert!(roles.contains(&role.into()) || ROLELESS.contains(&name), "{name} of {role}");
            compare(name, &theirs["params"], &fields(&tool["inputSchema"]), &mut seen, &mut out);
        }
        let names = names(&tools);
        let theirs = signatures
            .iter()
            .filter(|(_, it)| it["roles"].as_array().unwrap().contains(&role.into()));
        for (name, _) in theirs {
            assert!(names.contains(name), "{role} has no {name}");
        }
        of_all.extend(names);
    }
    assert_eq!(out, Vec::<String>::new());
    let missing: Vec<&String> = signatures.keys().filter(|it| !of_all.contains(*it)).collect();
    assert_eq!(missing, Vec::<&String>::new());
    let excepted: BTreeSet<String> =
        ADDED.iter().chain(&OPTIONAL).map(ToString::to_string).collect();
    assert_eq!(seen, excepted, "an exception is none");
}

#[tokio::test]
async fn each_set_shows_a_lean_core_and_all_of_it_when_asked() {
    for (set, role) in SETS {
        let (core, full) = (listed(set).await, listed(&format!("{set}:full")).await);
        let bytes = serde_json::to_string(&core).unwrap().len();
        assert!(core.len() <= 16, "{role}: {}", core.len());
        assert!(bytes <= 12 * 1024, "{role}: {bytes} bytes");
        assert!(names(&core).is_subset(&names(&full)) && core.len() < full.len(), "{role}");
        for tool in &full {
            let told = tool.to_string();
            assert!(!told.contains(r#""description":"""#), "a description says something: {told}");
        }
    }
}

/// What a tool takes, made up by its schema.
fn made_up(schema: &Value) -> Value {
    match schema["type"].as_str().unwrap() {
        "object" => {
            let fields = schema["properties"].as_object().unwrap().iter();
            fields.map(|(name, it)| (name.clone(), named(name, it))).collect::<Map<_, _>>().into()
        }
        "array" => json!([made_up(&schema["items"])]),
        "integer" => schema["enum"].as_array().map_or_else(|| json!(1), |it| it[0].clone()),
        "boolean" => json!(true),
        _ => schema["enum"].as_array().map_or_else(|| json!("x"), |it| it[0].clone()),
    }
}

fn named(name: &str, schema: &Value) -> Value {
    match name {
        "issue_id" => "issue_1_0001".into(),
        "task_id" => "task-1".into(),
        "delivery_id" => "delivery_1_0001".into(),
        "submission_id" => "sub_1_0001".into(),
        "message_id" => "msg_1_0001".into(),
        "lease_id" => "l_1_0001".into(),
        "worker_id" | "owner" => "A".into(),
        "verdict" => "rejected".into(),
        "status" => "open".into(),
        "kind" => "question".into(),
        "sort_by" => "created_at".into(),
        "sort_order" => "desc".into(),
        "doc_path" => "issue-x-test-steps.md".into(),
        "blocked_by" => json!([]),
        "commit" => "ab".repeat(20).into(),
        "repository" => "git.example/a".into(),
        _ => made_up(schema),
    }
}

/// A refusal's code and text; `None`: it is none.
fn refusal(result: &Value) -> Option<(String, String)> {
    (result["isError"] == true).then(|| {
        let said = text(result).to_owned();
        assert!(said.starts_with("ERROR: "), "{said}");
        let error = &result["structuredContent"]["error"];
        assert_eq!(error["message"], said.as_str());
        assert!(error["retryable"].is_boolean() && error["maybe_applied"].is_boolean());
        (error["code"].as_str().unwrap().to_owned(), said)
    })
}

/// The broker here is away: whoever gets that far said nothing wrong.
#[tokio::test]
async fn what_does_not_fit_is_refused_by_the_name_of_its_field() {
    for (set, role) in SETS {
        let world = world(set).await;
        let client = Client::new(world.addr, "/mcp/A").await;
        for tool in listed(&format!("{set}:full")).await {
            let name = tool["name"].as_str().unwrap();
            let schema = &tool["inputSchema"];
            let whole = made_up(schema);
            let told = refusal(&client.call(name, whole.clone()).await);
            let (code, said) = told.unwrap_or_else(|| panic!("{name}"));
            assert_eq!(code, "unavailable", "{role} {name} {whole}: {said}");
            let required: Vec<&str> = schema["required"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|it| it.as_str().unwrap())
                .collect();
            for (field, it) in schema["properties"].as_object().unwrap() {
                let wrong = match it["type"].as_str().unwrap() {
                    "object" | "boolean" => json!("x"),
                    "integer" => json!("a few"),
                    _ => json!({ "x": 1 }),
                };
                let mut call = whole.clone();
                call[field] = wrong;
                let (code, said) =
                    refusal(&client.call(name, call).await).unwrap_or_else(|| panic!("{name}"));
                assert_eq!(code, "invalid_argument", "{name}.{field}: {said}");
                assert!(said.contains(field.as_str()), "{name}.{field}: {said}");
                let mut call = whole.clone();
                call[field] = Value::Null;
                let (code, said) =
                    refusal(&client.call(name, call).await).unwrap_or_else(|| panic!("{name}"));
                // Whoever calls is known by the connection.
                let is_needed = required.contains(&field.as_str())
                    && (field != "worker_id" || name == "getWorker" || name == "getNextStepToken");
                let expected = if is_needed { "invalid_argument" } else { "unavailable" };
                assert_eq!(code, expected, "{name} without {field}: {said}");
                if is_needed {
                    assert!(said.contains(field.as_str()), "{name}.{field}: {said}");
                }
            }
            let mut call = whole.clone();
            call["session_id"] = "s".into();
            let (code, _) = refusal(&client.call(name, call).await).unwrap();
            assert_eq!(code, "unavailable", "{name} takes a session_id and does nothing with it");
        }
    }
}

#[tokio::test]
async fn a_role_may_call_all_of_its_set_and_nothing_of_others() {
    for (set, role) in SETS {
        let world = world(set).await;
        let client = Client::new(world.addr, "/mcp/A").await;
        let own = names(&listed(&format!("{set}:full")).await);
        for name in signatures().keys() {
            let request = json!({
                "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": { "name": name, "arguments": {} }
            });
            let answer = client.post(&request).await.answer().await;
            assert_eq!(
                answer.get("error").is_none(),
                own.contains(name),
                "{role} {name}: {answer}"
            );
        }
    }
}

/// What is too large is refused whole, and nothing of it is shown back.
#[tokio::test]
async fn what_is_too_large_is_refused_by_its_size() {
    let world = world(SWARM_WORKER).await;
    let client = Client::new(world.addr, "/mcp/A").await;
    let large = "x".repeat(256 * 1024 + 1);
    let ask = json!({ "issue_id": "issue_1_0001", "task_id": "task-1", "worker_id": "A",
        "content": large });
    let (code, said) = refusal(&client.call("askIssueTask", ask).await).unwrap();
    assert_eq!(code, "too_large", "{said}");
    assert!(said.contains("`content`") && said.len() < 300, "{said}");
    let doc = json!({ "issue_id": "issue_1_0001", "task_id": "task-1", "name": "n",
        "content": large });
    let (code, said) = refusal(&client.call("writeTaskDoc", doc).await).unwrap();
    assert!(code == "too_large" && said.contains("`content`"), "{said}");
    let other = json!({ "issue_id": "issue_1_0001", "task_id": "task-1", "worker_id": "B" });
    let (code, said) = refusal(&client.call("claimIssueTask", other).await).unwrap();
    assert!(code == "unknown_worker" && said.contains("you are A here"), "{said}");
    let none = json!({ "issue_id": "tomorrow", "task_id": "task-1", "worker_id": "A" });
    let (code, said) = refusal(&client.call("claimIssueTask", none).await).unwrap();
    assert!(code == "unknown_issue" && said.contains("issue_id"), "{said}");
}

#[tokio::test]
async fn each_text_is_refused_by_its_own_limit() {
    let world = world(SWARM_LEAD).await;
    let client = Client::new(world.addr, "/mcp/A").await;
    let large = "x".repeat(1024 * 1024);
    let doc = json!({ "name": "n", "content": "c" });
    let issue = json!({ "user_issue_doc": doc, "lead_issue_doc": doc, "subject": large });
    let of = json!({ "issue_id": "issue_1_0001", "task_id": "task-1", "reason": large });
    let refs = json!({ "issue_id": "issue_1_0001", "task_id": "task-1", "content": "c",
        "refs": large });
    let force = json!({ "lease_id": "l_1_0001", "reason": large });
    for (tool, words, limit) in [
        ("createIssue", issue, 1024),
        ("resetIssueTask", of, 16 * 1024),
        ("replyIssueTaskMessage", refs, 16 * 1024),
        ("forceUnlock", force, 1024),
    ] {
        let (code, said) = refusal(&client.call(tool, words).await).unwrap();
        assert_eq!(code, "too_large", "{said}");
        assert!(said.contains(&format!("the limit is {limit}.")), "{tool}: {said}");
    }
}

/// Some clients add arguments of their own: they are no reason to refuse, and not passed over.
#[tokio::test]
async fn what_a_tool_does_not_have_is_said_beside_its_answer() {
    let world = world(SWARM_LEAD).await;
    let client = Client::new(world.addr, "/mcp/A").await;
    let words = json!({ "issue_id": "issue_1_0001", "session_id": "s", "wait_for_previous": true,
        "rerun": {} });
    let told = client.call("closeIssue", words).await;
    assert_eq!(told["structuredContent"]["error"]["code"], "unavailable", "{told}");
    let ignored = &told["structuredContent"]["ignored_arguments"];
    assert_eq!(*ignored, json!(["rerun", "wait_for_previous"]), "{told}");
    let said = told["content"][1]["text"].as_str().unwrap();
    assert!(said.contains("no argument \"rerun\", \"wait_for_previous\"."), "{said}");
    let told = client.call("closeIssue", json!({ "issue_id": "issue_1_0001" })).await;
    assert!(told["structuredContent"].get("ignored_arguments").is_none(), "{told}");
    assert_eq!(told["content"].as_array().unwrap().len(), 1, "{told}");
}

#[tokio::test]
async fn tasks_are_listed_by_one_word_for_each_state() {
    let world = world(SWARM_LEAD).await;
    let client = Client::new(world.addr, "/mcp/A").await;
    let words = |status| json!({ "issue_id": "issue_1_0001", "status": status });
    for status in ["blocked", "waiting_for_answer"] {
        let (code, said) = refusal(&client.call("listIssueTasks", words(status)).await).unwrap();
        assert_eq!(code, "unavailable", "{status}: {said}");
    }
    for status in ["waiting", "asking"] {
        let (code, said) = refusal(&client.call("listIssueTasks", words(status)).await).unwrap();
        assert_eq!(code, "invalid_argument", "{status}: {said}");
        let (_, offered) = said.split_once("use one of").unwrap();
        assert!(
            offered.contains("blocked, ") && offered.contains("waiting_for_answer, "),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_list_is_sorted_by_what_its_description_names() {
    let world = world("swarm-lead:full").await;
    let client = Client::new(world.addr, "/mcp/A").await;
    let tools = listed("swarm-lead:full").await;
    for (name, others) in [("listIssues", &["points"][..]), ("listIssueTasks", &[])] {
        let tool = tools.iter().find(|it| it["name"] == name).unwrap();
        let told = tool["inputSchema"]["properties"]["sort_by"]["description"].as_str().unwrap();
        let told = told.trim_end_matches('.').replace(" or ", ", ");
        for by in told.split(", ") {
            let words = json!({ "issue_id": "issue_1_0001", "sort_by": by });
            let (code, said) = refusal(&client.call(name, words).await).unwrap();
            assert_eq!(code, "unavailable", "{name} by {by}: {said}");
        }
        for by in others.iter().chain(&["bogus"]) {
            let words = json!({ "issue_id": "issue_1_0001", "sort_by": by });
            let (code, said) = refusal(&client.call(name, words).await).unwrap();
            assert_eq!(code, "invalid_argument", "{name} by {by}: {said}");
            let (_, offered) = said.split_once("use one of").unwrap();
            assert!(told.split(", ").all(|it| offered.contains(it)), "{said}");
            assert!(others.iter().all(|it| !offered.contains(it)), "{said}");
        }
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_are_a_malformed_call() {
    let world = world(SWARM_LEAD).await;
    let client = Client::new(world.addr, "/mcp/A").await;
    let asked = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    for (method, params, code, words) in [
        (
            "tools/call",
            json!({ "name": "closeIssue", "arguments": "x" }),
            -32602,
            "`arguments` must be an object of the tool's arguments by their names, not a text",
        ),
        ("tools/call", json!({ "arguments": {} }), -32602, "`params` are not what tools/call"),
        ("prompts/get", json!({ "name": 7 }), -32602, "`params` are not what prompts/get"),
        ("tools/other", json!({}), -32601, "tools/other"),
    ] {
        let answer = client.post(&asked(method, params)).await.answer().await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
        let said = answer["error"]["message"].as_str().unwrap();
        assert!(said.starts_with(words), "{said}");
    }
}
