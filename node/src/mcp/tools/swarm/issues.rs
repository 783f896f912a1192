//! Issues: opening, closing, and how they stand.

use rmcp::model::CallToolResult;
use serde::Serialize;
use tasuki_proto::wire;

use super::{
    super::{
        arguments::Arguments,
        others::{FRAME, Others},
        result::shown,
    },
    caller::Caller,
    facts::{self, is_nothing},
};
use crate::role::Refusal;

#[derive(Debug, Serialize)]
struct Answer {
    #[serde(flatten)]
    issue: facts::Issue,
    server_now_ms: u64,
    note: &'static str,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
}

fn answer(it: &wire::IssueResponse) -> CallToolResult {
    let mut others = Others::default();
    let issue = facts::Issue::new(&it.issue.clone().unwrap_or_default(), &mut others);
    shown(&Answer { issue, server_now_ms: it.now_ms, note: FRAME, stripped: others.stripped })
}

pub(super) async fn create(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let mut docs = Vec::new();
    for field in ["user_issue_doc", "lead_issue_doc"] {
        docs.push(doc(arguments.required_object(field, "give its name and content")?)?);
    }
    for other in arguments.objects("user_other_docs")? {
        docs.push(doc(other)?);
    }
    let request = wire::CreateIssueRequest {
        subject: arguments.words("subject", "say what it is about")?,
        description: arguments.text("description")?.unwrap_or_default(),
        shared_doc_paths: arguments.texts("shared_doc_paths")?,
        project_doc_paths: arguments.texts("project_doc_paths")?,
        docs,
        ..wire::CreateIssueRequest::default()
    };
    Ok(answer(&caller.tell(request).await?))
}

fn doc(it: Arguments<'_>) -> Result<wire::NewDoc, Refusal> {
    Ok(wire::NewDoc {
        name: it.words("name", "say what it is called")?,
        content: it.text("content")?.unwrap_or_default(),
    })
}
