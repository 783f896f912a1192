//! Issues: opening, closing, and how they stand.

use rmcp::model::CallToolResult;
use serde::Serialize;
use tasuki_proto::{limits::SWARM_PAGE_MAX, wire};

use super::{
    super::{
        arguments::{Arguments, missing},
        others::Others,
    },
    answer::{Made, Page, answer},
    caller::Caller,
    facts, said,
};
use crate::role::Refusal;

fn told(it: &wire::IssueResponse, next: Vec<String>) -> CallToolResult {
    let mut others = Others::default();
    let issue = facts::Issue::new(&it.issue.clone().unwrap_or_default(), &mut others);
    let made = Made { what: issue, repeated: it.repeated };
    answer(made, it.now_ms, &others, next)
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
        subject: said::subject(arguments)?,
        description: arguments.text("description")?.unwrap_or_default(),
        shared_doc_paths: arguments.texts(SHARED)?,
        project_doc_paths: arguments.texts(PROJECT)?,
        docs,
        ..wire::CreateIssueRequest::default()
    };
    let made = caller.tell(request).await?;
    let next = match made.repeated {
        true => {
            "You have opened this issue before: go on with it. listIssueTasks shows how far it \
             is. Another one is opened in other words."
        }
        false => "Break it down with createIssueTask.",
    };
    Ok(told(&made, vec![next.to_owned()]))
}

const SHARED: &str = "shared_doc_paths";
const PROJECT: &str = "project_doc_paths";

fn doc(it: Arguments<'_>) -> Result<wire::NewDoc, Refusal> {
    Ok(wire::NewDoc {
        name: it.name("name")?.ok_or_else(|| missing(&it.at("name"), "say what it is called"))?,
        content: it.text("content")?.unwrap_or_default(),
    })
}

pub(super) async fn get(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let issue_id = said::issue(arguments)?.to_string();
    let request = wire::GetIssueRequest { issue_id, ..wire::GetIssueRequest::default() };
    Ok(told(&caller.ask(request).await?, Vec::new()))
}

/// A list that is not named stays as it is.
pub(super) async fn update_doc_paths(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let issue_id = said::issue(arguments)?.to_string();
    let (has_shared, has_project) = (arguments.has(SHARED), arguments.has(PROJECT));
    if !has_shared && !has_project {
        return Err(missing(SHARED, "say which documents, here or as `project_doc_paths`"));
    }
    let request = wire::UpdateIssueDocPathsRequest {
        issue_id,
        shared_doc_paths: arguments.texts(SHARED)?,
        project_doc_paths: arguments.texts(PROJECT)?,
        keep_shared_docs: !has_shared,
        keep_project_docs: !has_project,
        ..wire::UpdateIssueDocPathsRequest::default()
    };
    Ok(told(&caller.tell(request).await?, Vec::new()))
}

pub(super) async fn close(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::CloseIssueRequest {
        issue_id: said::issue(arguments)?.to_string(),
        summary: said::why(arguments, "summary")?,
        ..wire::CloseIssueRequest::default()
    };
    let closed = caller.tell(request).await?;
    let is_unaccepted = closed.issue.as_ref().is_some_and(|it| it.is_unaccepted);
    let next = match is_unaccepted {
        true => "It was closed without an approved delivery: tell your user so.",
        false => "Its delivery was approved. Tell your user how it ended.",
    };
    Ok(told(&closed, vec![next.to_owned()]))
}

pub(super) async fn reopen(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::ReopenIssueRequest {
        issue_id: said::issue(arguments)?.to_string(),
        summary: said::why(arguments, "summary")?,
        ..wire::ReopenIssueRequest::default()
    };
    let next =
        "Add what is to be done with createIssueTask, or take up a task with resetIssueTask.";
    Ok(told(&caller.tell(request).await?, vec![next.to_owned()]))
}

pub(super) async fn extend(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::ExtendIssueRequest {
        issue_id: said::issue(arguments)?.to_string(),
        for_ms: said::lasting(arguments, "extend_sec")?,
        ..wire::ExtendIssueRequest::default()
    };
    Ok(told(&caller.tell(request).await?, Vec::new()))
}

#[derive(Debug, Serialize)]
struct Issues {
    issues: Vec<facts::Issue>,
    #[serde(flatten)]
    page: Page,
}

pub(super) async fn list(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let (sort_by, ascending) = said::order(arguments, said::ISSUE_ORDERS)?;
    let request = wire::ListIssuesRequest {
        status: said::issue_status(arguments)?.into(),
        subject_contains: arguments.text("subject_contains")?.unwrap_or_default(),
        sort_by: sort_by.into(),
        ascending,
        limit: said::count(arguments, "limit")?,
        offset: said::count(arguments, "offset")?,
        ..wire::ListIssuesRequest::default()
    };
    listed(caller, request).await
}

pub(super) async fn list_open(caller: &Caller<'_>) -> Result<CallToolResult, Refusal> {
    let (status, limit) = (wire::IssueStatus::Open.into(), SWARM_PAGE_MAX);
    let request = wire::ListIssuesRequest { status, limit, ..Default::default() };
    listed(caller, request).await
}

async fn listed(
    caller: &Caller<'_>,
    request: wire::ListIssuesRequest,
) -> Result<CallToolResult, Refusal> {
    let offset = request.offset;
    let found = caller.ask(request).await?;
    let mut others = Others::default();
    let issues: Vec<facts::Issue> =
        found.issues.iter().map(|it| facts::Issue::new(it, &mut others)).collect();
    let page = Page::new(offset, issues.len(), found.total);
    Ok(answer(Issues { issues, page }, found.now_ms, &others, Vec::new()))
}
