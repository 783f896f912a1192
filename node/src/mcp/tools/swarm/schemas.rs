//! The tools as clients are told of them: here those about issues, tasks and reviews, with what all of them
//! are made of.

mod deliveries;
mod docs;
mod locks;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::{super::schema, args, list};

/// What a tool does to the world, for clients that ask their user before they call one.
#[derive(Clone, Copy)]
enum Does {
    Look,
    Act,
    /// What it takes away does not come back by calling another tool.
    TakeAway,
}
use Does::{Act, Look, TakeAway};

fn tool(
    name: &'static str,
    does: Does,
    told: &'static str,
    fields: Value,
    required: &[&str],
) -> Tool {
    let annotations = ToolAnnotations::new()
        .read_only(matches!(does, Look))
        .destructive(matches!(does, TakeAway))
        .idempotent(true)
        .open_world(false);
    Tool::new(name, told, schema(fields, required)).with_annotations(annotations)
}

/// A text that needs no words of its own.
fn text() -> Value {
    json!({ "type": "string" })
}

fn about(what: &str) -> Value {
    json!({ "type": "string", "description": what })
}

fn one_of(values: &[&str]) -> Value {
    json!({ "type": "string", "enum": values })
}

fn count(what: &str) -> Value {
    json!({ "type": "integer", "description": what })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn texts(what: &str) -> Value {
    let mut list = json!({ "type": "array", "items": { "type": "string" } });
    if !what.is_empty() {
        list["description"] = what.into();
    }
    list
}

fn object(fields: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": fields, "required": required })
}

fn score() -> Value {
    json!({ "type": "integer", "enum": [1, 2, 5], "description": "1 poor, 2 fair, 5 good." })
}

fn doc() -> Value {
    object(json!({ "name": text(), "content": text() }), &["name", "content"])
}

fn results() -> Value {
    let one = object(
        json!({
            "command": text(),
            "passed": flag(),
            "exit_code": { "type": "integer" },
            "output": text(),
        }),
        &["command", "passed", "exit_code", "output"],
    );
    json!({ "type": "array", "items": one, "description": "One per entry of doc_commands, same \
                                                           order." })
}

fn spec() -> Value {
    object(
        json!({
            "name": text(),
            "split_from": about("Parent of this task."),
            "split_reason": text(),
            "impact_scope": text(),
            "context_task_ids": texts(""),
            "goal": text(),
            "rules": text(),
            "constraints": text(),
            "conventions": text(),
            "acceptance": about("How to check that it is done."),
        }),
        &[
            "name",
            "split_from",
            "split_reason",
            "impact_scope",
            "goal",
            "rules",
            "constraints",
            "conventions",
            "acceptance",
        ],
    )
}

/// What can be run again to see for oneself.
fn with_rerun(mut fields: Value) -> Value {
    fields["commit"] = about("Full hash of the commit with the work.");
    fields["commands"] = texts("Commands that repeat the tests at that commit.");
    fields
}

fn task() -> Value {
    json!({
        "issue_id": text(),
        "subject": text(),
        "description": text(),
        "difficulty": one_of(&["easy", "medium", "focus"]),
        "points": count("Points granted on approval. Default 0."),
        "spec": spec(),
        "context_task_ids": texts(""),
        "suggested_files": texts(""),
        "labels": texts(""),
        "doc_paths": texts(""),
        "blocked_by": texts("Ids of tasks to finish first, such as task-1."),
    })
}

fn page(mut fields: Value) -> Value {
    fields["limit"] = count("1–200. Default 50.");
    fields["offset"] = json!({ "type": "integer" });
    fields
}

fn sorted(mut fields: Value, by: &str) -> Value {
    fields["sort_by"] = about(&format!("{by}."));
    fields["sort_order"] = about("desc or asc.");
    fields["subject_contains"] = text();
    page(fields)
}

fn wait_for() -> Value {
    count("Seconds. Default: as long as your client allows.")
}

fn lease() -> Value {
    count("New lease length in seconds, counted from now. Up to 86400.")
}

/// Every tool of the three sets.
pub(in crate::mcp::tools) fn tools() -> Vec<Tool> {
    let mut tools = of_issues();
    tools.extend(of_tasks());
    tools.extend(of_reviews());
    tools.extend(deliveries::tools());
    tools.extend(docs::tools());
    tools.extend(locks::tools());
    tools
}

fn of_issues() -> Vec<Tool> {
    let issue = || json!({ "issue_id": text() });
    vec![
        tool(
            list::PROFILE,
            Look,
            "Returns your role, what you hold and what is waiting for you. Call it after a \
             restart.",
            json!({}),
            &[],
        ),
        tool(list::NOW, Look, "Returns the broker's time in milliseconds.", json!({}), &[]),
        tool(
            list::CREATE_ISSUE,
            Act,
            "Opens an issue. The documents hold your user's request and your understanding of it.",
            json!({
                "subject": text(),
                "description": text(),
                "user_issue_doc": doc(),
                "lead_issue_doc": doc(),
                "user_other_docs": { "type": "array", "items": doc() },
                "shared_doc_paths": texts(""),
                "project_doc_paths": texts(""),
            }),
            &["subject", "user_issue_doc", "lead_issue_doc"],
        ),
        tool(
            list::UPDATE_DOC_PATHS,
            Act,
            "Sets the document paths of an issue.",
            json!({
                "issue_id": text(),
                "shared_doc_paths": texts(""),
                "project_doc_paths": texts(""),
            }),
            &["issue_id"],
        ),
        tool(
            list::CLOSE_ISSUE,
            Act,
            "Closes an issue whose tasks are done. Without an approved delivery, a summary with \
             the reason is required.",
            json!({ "issue_id": text(), "summary": text() }),
            &["issue_id"],
        ),
        tool(
            list::REOPEN_ISSUE,
            Act,
            "Reopens a closed issue.",
            json!({ "issue_id": text(), "summary": text() }),
            &["issue_id"],
        ),
        tool(
            list::EXTEND_ISSUE,
            Act,
            "Extends the lease of an idle issue.",
            json!({ "issue_id": text(), "extend_sec": lease() }),
            &["issue_id"],
        ),
        tool(list::GET_ISSUE, Look, "Returns an issue and its status.", issue(), &["issue_id"]),
        tool(
            list::LIST_ISSUES,
            Look,
            "Lists issues, newest first.",
            sorted(
                json!({ "status": about("open, in_progress, done or canceled.") }),
                args::ISSUE_ORDERS,
            ),
            &[],
        ),
        tool(list::LIST_OPEN_ISSUES, Look, "Lists open issues.", json!({}), &[]),
        tool(
            list::WAIT_ISSUES,
            Look,
            "Waits until an issue is open. Returns the issues.",
            json!({
                "status": about("open, done or canceled. Default open."),
                "limit": count("1–50. Default 50."),
                "timeout_sec": wait_for(),
            }),
            &[],
        ),
        tool(list::LIST_WORKERS, Look, "Lists workers and their tasks.", json!({}), &[]),
        tool(
            list::GET_WORKER,
            Look,
            "Returns a worker and its tasks.",
            json!({ "worker_id": text() }),
            &["worker_id"],
        ),
    ]
}

fn of_tasks() -> Vec<Tool> {
    let of_task = || json!({ "issue_id": text(), "task_id": text() });
    let mut task_graph = task();
    if let Some(fields) = task_graph.as_object_mut() {
        fields.remove("issue_id");
        fields.insert(
            "blocked_by".to_owned(),
            texts("Task ids, or names of other tasks in this plan."),
        );
    }
    let required = ["subject", "difficulty", "spec"];
    vec![
        tool(
            list::CREATE_TASK,
            Act,
            "Adds a task to an issue.",
            task(),
            &["issue_id", "subject", "difficulty", "spec"],
        ),
        tool(
            list::PLAN,
            Act,
            "Adds several tasks to an issue, all or none, with their dependencies.",
            json!({
                "issue_id": text(),
                "tasks": { "type": "array", "items": object(task_graph, &required) },
            }),
            &["issue_id", "tasks"],
        ),
        tool(
            list::REGISTER_WORKER,
            Act,
            "Registers you as a worker. Returns your worker_id and your claims.",
            json!({}),
            &[],
        ),
        tool(
            list::WAIT_TASKS,
            Look,
            "Waits until you can claim a task of the issue. Returns the task.",
            json!({
                "issue_id": text(),
                "status": about("open."),
                "limit": count("Ignored: one task is returned at a time."),
                "timeout_sec": wait_for(),
            }),
            &["issue_id"],
        ),
        tool(
            list::CLAIM_TASK,
            Act,
            "Claims an open task. No other worker can claim it while you hold it.",
            json!({
                "issue_id": text(),
                "task_id": text(),
                "worker_id": text(),
                "next_step_token": about("From your last review. Claims the task reserved for you."),
            }),
            &["issue_id", "task_id", "worker_id"],
        ),
        tool(
            list::EXTEND_TASK,
            Act,
            "Extends your claim. Claims renew by themselves while you are connected.",
            json!({
                "issue_id": text(),
                "task_id": text(),
                "worker_id": text(),
                "extend_sec": lease(),
            }),
            &["issue_id", "task_id"],
        ),
        tool(
            list::GET_TASK,
            Look,
            "Returns a task with its spec, messages and submissions.",
            of_task(),
            &["issue_id", "task_id"],
        ),
        tool(
            list::LIST_TASKS,
            Look,
            "Lists tasks of an issue, newest first.",
            sorted(
                json!({
                    "issue_id": text(),
                    "status": about("open, in_progress, blocked (waiting for an answer), done or \
                                     canceled; or a stage: ready, waiting (blocked by other \
                                     tasks), reserved, submitted, in_review."),
                    "claimed_by": text(),
                    "submitter": text(),
                }),
                args::TASK_ORDERS,
            ),
            &["issue_id"],
        ),
        tool(
            list::LIST_OPEN_TASKS,
            Look,
            "Lists open tasks of an issue, ready tasks first.",
            json!({ "issue_id": text() }),
            &["issue_id"],
        ),
        tool(
            list::ASK_TASK,
            Act,
            "Asks the lead about your task and waits for the answer. A repeat is not asked twice.",
            json!({
                "issue_id": text(),
                "task_id": text(),
                "worker_id": text(),
                "kind": about("question or blocker."),
                "content": text(),
                "refs": text(),
                "timeout_sec": wait_for(),
            }),
            &["issue_id", "task_id", "worker_id", "content"],
        ),
        tool(
            list::POST_MESSAGE,
            Act,
            "Sends the lead a message about your task. Does not wait.",
            json!({
                "issue_id": text(),
                "task_id": text(),
                "worker_id": text(),
                "kind": about("progress, feedback, message, question or blocker."),
                "content": text(),
                "refs": text(),
            }),
            &["issue_id", "task_id", "worker_id", "content"],
        ),
        tool(
            list::REPLY_MESSAGE,
            Act,
            "Answers a worker's question. The worker continues its task.",
            json!({
                "issue_id": text(),
                "task_id": text(),
                "message_id": about("Required if several are open."),
                "content": text(),
                "refs": text(),
            }),
            &["issue_id", "task_id", "content"],
        ),
        tool(
            list::RESET_TASK,
            TakeAway,
            "Takes a task from its worker and opens it again.",
            json!({ "issue_id": text(), "task_id": text(), "reason": text() }),
            &["issue_id", "task_id"],
        ),
    ]
}

fn of_reviews() -> Vec<Tool> {
    let issue = || json!({ "issue_id": text() });
    let detail = object(
        json!({
            "dimension": one_of(&[
                "correctness",
                "security",
                "performance",
                "maintainability",
                "style",
                "test",
                "docs",
            ]),
            "severity": one_of(&["info", "minor", "major", "critical"]),
            "file_path": text(),
            "line_range": text(),
            "content": text(),
            "suggestion": text(),
        }),
        &["dimension", "severity", "content"],
    );
    let submitted = with_rerun(json!({
        "summary": text(),
        "changed_files": texts(""),
        "diff": text(),
        "links": texts(""),
        "test_cases": texts(""),
        "test_result": text(),
        "test_output": text(),
    }));
    let reviewed = json!({ "review_summary": text(), "reviewed_refs": texts("") });
    const SAME: &str = "Alias of waitIssueTaskEvents.";
    vec![
        tool(
            list::SUBMIT_TASK,
            Act,
            "Submits your result for review and waits for the review. A repeat is not submitted \
             twice.",
            json!({
                "issue_id": text(),
                "task_id": text(),
                "worker_id": text(),
                "artifacts": object(
                    submitted,
                    &["summary", "changed_files", "test_cases", "test_result", "test_output"],
                ),
            }),
            &["issue_id", "task_id", "worker_id", "artifacts"],
        ),
        tool(
            list::WAIT_EVENTS,
            Look,
            "Waits for the next event of an issue that needs you: a submission, a question, or the \
             verdict on its delivery.",
            issue(),
            &["issue_id"],
        ),
        tool(list::SELECT_INBOX, Look, SAME, issue(), &["issue_id"]),
        tool(list::NEXT_SIGNAL, Look, SAME, issue(), &["issue_id"]),
        tool(list::STEP_INBOX, Look, SAME, issue(), &["issue_id"]),
        tool(
            list::NEXT_STEP,
            Act,
            "Reserves the worker's next task and returns the token that approving needs.",
            json!({
                "issue_id": text(),
                "task_id": text(),
                "worker_id": text(),
                "completion_score": score(),
            }),
            &["issue_id", "task_id", "worker_id", "completion_score"],
        ),
        tool(
            list::REVIEW_TASK,
            Act,
            "Approves or rejects a submission and notifies its worker.",
            json!({
                "issue_id": text(),
                "task_id": text(),
                "submission_id": about("Required if several are open."),
                "verdict": about("approved or rejected."),
                "completion_score": score(),
                "next_step_token": about("From getNextStepToken. Required to approve."),
                "feedback": text(),
                "feedback_details": { "type": "array", "items": detail, "minItems": 1 },
                "artifacts": object(reviewed, &["review_summary", "reviewed_refs"]),
            }),
            &[
                "issue_id",
                "task_id",
                "verdict",
                "completion_score",
                "artifacts",
                "feedback_details",
            ],
        ),
    ]
}
