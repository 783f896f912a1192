//! The tools as clients are told of them: here those about issues, tasks and reviews, with what all of them
//! are made of.

mod deliveries;
mod docs;
mod locks;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::{super::schema, list, said};

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
    json!({ "type": "array", "items": one, "description": "One for each of doc_commands, in order." })
}

fn spec() -> Value {
    object(
        json!({
            "name": text(),
            "split_from": about("What it is a part of."),
            "split_reason": text(),
            "impact_scope": text(),
            "context_task_ids": texts(""),
            "goal": text(),
            "rules": text(),
            "constraints": text(),
            "conventions": text(),
            "acceptance": about("How to see that it is done."),
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
    fields["commit"] = about("Full hash of the commit that holds it.");
    fields["commands"] = texts("To run there again.");
    fields
}

fn task() -> Value {
    json!({
        "issue_id": text(),
        "subject": text(),
        "description": text(),
        "difficulty": one_of(&["easy", "medium", "focus"]),
        "points": count("Its worth for the worker's score; else 0."),
        "spec": spec(),
        "context_task_ids": texts(""),
        "suggested_files": texts(""),
        "labels": texts(""),
        "doc_paths": texts(""),
        "blocked_by": texts("Tasks that have to be done before, such as task-1."),
    })
}

fn page(mut fields: Value) -> Value {
    fields["limit"] = count("At most 200, else 50.");
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
    count("Wait at most so long; else as long as your client allows.")
}

fn lease() -> Value {
    count("From now.")
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
        tool(list::PROFILE, Look, "Who you are, what you hold and what waits.", json!({}), &[]),
        tool(list::NOW, Look, "The broker's time.", json!({}), &[]),
        tool(
            list::CREATE_ISSUE,
            Act,
            "Opens an issue, with what the user wants and how you understand it as documents.",
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
            "Says which documents belong to an issue.",
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
            "Closes an issue whose tasks are done: after an approved delivery, or with a summary \
             that says why without one.",
            json!({ "issue_id": text(), "summary": text() }),
            &["issue_id"],
        ),
        tool(
            list::REOPEN_ISSUE,
            Act,
            "Opens a closed issue again.",
            json!({ "issue_id": text(), "summary": text() }),
            &["issue_id"],
        ),
        tool(
            list::EXTEND_ISSUE,
            Act,
            "Puts off when an issue lapses that nobody works on.",
            json!({ "issue_id": text(), "extend_sec": lease() }),
            &["issue_id"],
        ),
        tool(
            list::GET_ISSUE,
            Look,
            "An issue: what it is about and where it stands.",
            issue(),
            &["issue_id"],
        ),
        tool(
            list::LIST_ISSUES,
            Look,
            "Lists issues, the newest first.",
            sorted(
                json!({ "status": about("open, in_progress, done or canceled.") }),
                said::ISSUE_ORDERS,
            ),
            &[],
        ),
        tool(list::LIST_OPEN_ISSUES, Look, "Lists issues that are open.", json!({}), &[]),
        tool(
            list::WAIT_ISSUES,
            Look,
            "Waits until an issue is open.",
            json!({
                "status": about("open, else done or canceled."),
                "limit": count("At most 50, else 50."),
                "timeout_sec": wait_for(),
            }),
            &[],
        ),
        tool(list::LIST_WORKERS, Look, "Lists workers and what they are at.", json!({}), &[]),
        tool(
            list::GET_WORKER,
            Look,
            "A worker and what it is at.",
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
            texts("Ids of tasks, or names of others in this plan."),
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
            "Adds several tasks to an issue at once, all or none, with what has to be done before \
             what.",
            json!({
                "issue_id": text(),
                "tasks": { "type": "array", "items": object(task_graph, &required) },
            }),
            &["issue_id", "tasks"],
        ),
        tool(
            list::REGISTER_WORKER,
            Act,
            "Makes you a worker. Answers your worker_id.",
            json!({}),
            &[],
        ),
        tool(
            list::WAIT_TASKS,
            Look,
            "Waits until a task of the issue can be claimed by you.",
            json!({
                "issue_id": text(),
                "status": about("open."),
                "limit": count("At most; one at a time is offered."),
                "timeout_sec": wait_for(),
            }),
            &["issue_id"],
        ),
        tool(
            list::CLAIM_TASK,
            Act,
            "Takes charge of an open task. Nobody else can have it meanwhile.",
            json!({
                "issue_id": text(),
                "task_id": text(),
                "worker_id": text(),
                "next_step_token": about("From your last review, for the task it keeps for you."),
            }),
            &["issue_id", "task_id", "worker_id"],
        ),
        tool(
            list::EXTEND_TASK,
            Act,
            "Holds your claim for longer; while you are there it is held anyway.",
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
            "A task, whole: what to do, what was said and submitted.",
            of_task(),
            &["issue_id", "task_id"],
        ),
        tool(
            list::LIST_TASKS,
            Look,
            "Lists tasks of an issue, the newest first.",
            sorted(
                json!({
                    "issue_id": text(),
                    "status": about("open, in_progress, blocked, done or canceled; or a stage: ready, \
                                     waiting, reserved, submitted, in_review."),
                    "claimed_by": text(),
                    "submitter": text(),
                }),
                said::TASK_ORDERS,
            ),
            &["issue_id"],
        ),
        tool(
            list::LIST_OPEN_TASKS,
            Look,
            "Lists open tasks of an issue, the ready ones first.",
            json!({ "issue_id": text() }),
            &["issue_id"],
        ),
        tool(
            list::ASK_TASK,
            Act,
            "Asks the lead about your task, and waits for the answer. The same question again is \
             asked once.",
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
            "Tells the lead something about your task, and goes on.",
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
            "Answers a worker's question; its task goes on.",
            json!({
                "issue_id": text(),
                "task_id": text(),
                "message_id": about("Where several are open."),
                "content": text(),
                "refs": text(),
            }),
            &["issue_id", "task_id", "content"],
        ),
        tool(
            list::RESET_TASK,
            TakeAway,
            "Takes a task from whoever has it and opens it again.",
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
    const SAME: &str = "The same as waitIssueTaskEvents.";
    vec![
        tool(
            list::SUBMIT_TASK,
            Act,
            "Puts your result before the lead, and waits for the review. The same result again is \
             submitted once.",
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
            "Waits for what you have to answer in an issue: submissions, questions, the verdict on \
             its delivery.",
            issue(),
            &["issue_id"],
        ),
        tool(list::SELECT_INBOX, Look, SAME, issue(), &["issue_id"]),
        tool(list::NEXT_SIGNAL, Look, SAME, issue(), &["issue_id"]),
        tool(list::STEP_INBOX, Look, SAME, issue(), &["issue_id"]),
        tool(
            list::NEXT_STEP,
            Act,
            "What the worker of a submission does after it; keeps a task for it. Needed to approve.",
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
            "Your verdict on a submission; its worker is told.",
            json!({
                "issue_id": text(),
                "task_id": text(),
                "submission_id": about("Where several are open."),
                "verdict": about("approved or rejected."),
                "completion_score": score(),
                "next_step_token": about("From getNextStepToken; not needed to reject."),
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
