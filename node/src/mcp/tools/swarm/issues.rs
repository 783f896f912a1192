//! Issues: opening, closing, and how they stand.

use rmcp::model::CallToolResult;
use serde::Serialize;
use tasuki_proto::{limits::SWARM_PAGE_MAX, wire};

use super::{
    super::{
        arguments::{Arguments, missing},
        sanitizer::Sanitizer,
    },
    answer::{Made, Page, answer},
    args,
    caller::Caller,
    views,
};
use crate::role::Refusal;

fn told(it: &wire::IssueResponse, next: Vec<String>) -> CallToolResult {
    let mut others = Sanitizer::default();
    let issue = views::Issue::new(&it.issue.clone().unwrap_or_default(), &mut others);
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
        subject: args::subject(arguments)?,
        description: arguments.text("description")?.unwrap_or_default(),
        shared_doc_paths: arguments.texts(SHARED)?,
        project_doc_paths: arguments.texts(PROJECT)?,
        docs,
        ..wire::CreateIssueRequest::default()
    };
    let made = caller.tell(request).await?;
    let next = match made.repeated {
        true => {
            "You opened this issue before. Continue with it; listIssueTasks shows its tasks. To \
             open another one, change the subject or the documents."
        }
        false => "Break it down with createIssueTask.",
    };
    Ok(told(&made, vec![next.to_owned()]))
}

const SHARED: &str = "shared_doc_paths";
const PROJECT: &str = "project_doc_paths";

fn doc(it: Arguments<'_>) -> Result<wire::NewDoc, Refusal> {
    Ok(wire::NewDoc {
        name: it.name("name")?.ok_or_else(|| missing(&it.at("name"), "give its name"))?,
        content: it.text("content")?.unwrap_or_default(),
    })
}

pub(super) async fn get(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let issue_id = args::issue(arguments)?.to_string();
    let request = wire::GetIssueRequest { issue_id, ..wire::GetIssueRequest::default() };
    Ok(told(&caller.ask(request).await?, Vec::new()))
}

/// A list that is not named stays as it is.
pub(super) async fn update_doc_paths(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let issue_id = args::issue(arguments)?.to_string();
    let (has_shared, has_project) = (arguments.has(SHARED), arguments.has(PROJECT));
    if !has_shared && !has_project {
        return Err(missing(SHARED, "give paths here or in `project_doc_paths`"));
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
        issue_id: args::issue(arguments)?.to_string(),
        summary: args::why(arguments, "summary")?,
        ..wire::CloseIssueRequest::default()
    };
    let closed = caller.tell(request).await?;
    let is_unaccepted = closed.issue.as_ref().is_some_and(|it| it.is_unaccepted);
    let next = match is_unaccepted {
        true => "Closed without an approved delivery. Tell your user.",
        false => "Its delivery was approved. Report the outcome to your user.",
    };
    Ok(told(&closed, vec![next.to_owned()]))
}

pub(super) async fn reopen(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::ReopenIssueRequest {
        issue_id: args::issue(arguments)?.to_string(),
        summary: args::why(arguments, "summary")?,
        ..wire::ReopenIssueRequest::default()
    };
    let next = "Add tasks with createIssueTask, or reopen one with resetIssueTask.";
    Ok(told(&caller.tell(request).await?, vec![next.to_owned()]))
}

pub(super) async fn extend(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::ExtendIssueRequest {
        issue_id: args::issue(arguments)?.to_string(),
        for_ms: args::lasting(arguments, "extend_sec")?,
        ..wire::ExtendIssueRequest::default()
    };
    Ok(told(&caller.tell(request).await?, Vec::new()))
}

#[derive(Debug, Serialize)]
struct Issues {
    issues: Vec<views::Issue>,
    #[serde(flatten)]
    page: Page,
}

pub(super) async fn list(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let (sort_by, ascending) = args::order(arguments, args::ISSUE_ORDERS)?;
    let request = wire::ListIssuesRequest {
        status: args::issue_status(arguments)?.into(),
        subject_contains: arguments.text("subject_contains")?.unwrap_or_default(),
        sort_by: sort_by.into(),
        ascending,
        limit: args::count(arguments, "limit")?,
        offset: args::count(arguments, "offset")?,
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
    let mut others = Sanitizer::default();
    let issues: Vec<views::Issue> =
        found.issues.iter().map(|it| views::Issue::new(it, &mut others)).collect();
    let page = Page::new(offset, issues.len(), found.total);
    Ok(answer(Issues { issues, page }, found.now_ms, &others, Vec::new()))
}
