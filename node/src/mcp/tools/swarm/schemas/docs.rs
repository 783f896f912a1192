//! Documents, as clients are told of the tools.

use rmcp::model::Tool;
use serde_json::{Value, json};

use super::{
    super::list,
    Does::{Act, Look},
    text, tool,
};

pub(super) fn tools() -> Vec<Tool> {
    let named = || json!({ "name": text() });
    let of_issue = || json!({ "issue_id": text(), "name": text() });
    let of_task = || json!({ "issue_id": text(), "task_id": text(), "name": text() });
    let with_content = |mut fields: Value| {
        fields["content"] = text();
        fields
    };
    vec![
        tool(
            list::WRITE_SHARED_DOC,
            Act,
            "Writes a shared document.",
            with_content(named()),
            &["name"],
        ),
        tool(list::READ_SHARED_DOC, Look, "Reads a shared document.", named(), &["name"]),
        tool(list::LIST_SHARED_DOCS, Look, "Lists shared documents.", json!({}), &[]),
        tool(
            list::WRITE_ISSUE_DOC,
            Act,
            "Writes a document of an issue.",
            with_content(of_issue()),
            &["issue_id", "name"],
        ),
        tool(
            list::READ_ISSUE_DOC,
            Look,
            "Reads a document of an issue.",
            of_issue(),
            &["issue_id", "name"],
        ),
        tool(
            list::LIST_ISSUE_DOCS,
            Look,
            "Lists the documents of an issue.",
            json!({ "issue_id": text() }),
            &["issue_id"],
        ),
        tool(
            list::WRITE_TASK_DOC,
            Act,
            "Writes a document of a task.",
            with_content(of_task()),
            &["issue_id", "task_id", "name"],
        ),
        tool(
            list::READ_TASK_DOC,
            Look,
            "Reads a document of a task.",
            of_task(),
            &["issue_id", "task_id", "name"],
        ),
        tool(
            list::LIST_TASK_DOCS,
            Look,
            "Lists the documents of a task.",
            json!({ "issue_id": text(), "task_id": text() }),
            &["issue_id", "task_id"],
        ),
    ]
}
