//! Issues: opening, closing, and how they stand.

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    limits::{SUBJECT_BYTES_MAX, SWARM_PAGE_MAX, WHY_BYTES_MAX},
    swarm::IssueId,
    wire,
};

use super::{
    super::{
        arguments::missing,
        field_types::{Id, Name, Text, Word},
        sanitizer::Sanitizer,
        tool::ToolInfo,
    },
    ACCEPTOR_FULL, LEAD_CORE, LEAD_FULL, SwarmTool, WORKER_CORE, WORKER_FULL,
    answer::{Made, Page, answer},
    args::{Ascending, IssueOrder, Lease},
    caller::Caller,
    views,
};
use crate::role::Refusal;

fn issue_result(it: &wire::IssueResponse, next: Vec<String>) -> CallToolResponse {
    let mut others = Sanitizer::default();
    let issue = views::Issue::new(&it.issue.clone().unwrap_or_default(), &mut others);
    let made = Made { what: issue, repeated: it.repeated };
    answer(made, it.now_ms, &others, next).into()
}

/// Opens an issue. The documents hold your user's request and your understanding of it.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct CreateIssue {
    subject: Text<SUBJECT_BYTES_MAX>,
    description: Option<String>,
    user_issue_doc: Doc,
    lead_issue_doc: Doc,
    user_other_docs: Option<Vec<Doc>>,
    shared_doc_paths: Option<Vec<String>>,
    project_doc_paths: Option<Vec<String>>,
}

impl SwarmTool for CreateIssue {
    const INFO: ToolInfo = ToolInfo::write("createIssue", &[LEAD_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let own = [self.user_issue_doc, self.lead_issue_doc];
        let docs = own.into_iter().chain(self.user_other_docs.unwrap_or_default());
        let request = wire::CreateIssueRequest {
            subject: self.subject.0,
            description: self.description.unwrap_or_default(),
            shared_doc_paths: self.shared_doc_paths.unwrap_or_default(),
            project_doc_paths: self.project_doc_paths.unwrap_or_default(),
            docs: docs.map(Into::into).collect(),
            ..wire::CreateIssueRequest::default()
        };
        let made = caller.execute(request).await?;
        let next = match made.repeated {
            true => {
                "You opened this issue before. Continue with it; listIssueTasks shows its tasks. To \
                 open another one, change the subject or the documents."
            }
            false => "Break it down with createIssueTask.",
        };
        Ok(issue_result(&made, vec![next.to_owned()]))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name", "content"]))]
struct Doc {
    name: Name,
    #[serde(default)]
    content: String,
}

impl From<Doc> for wire::NewDoc {
    fn from(it: Doc) -> Self {
        Self { name: it.name.0, content: it.content }
    }
}

/// Returns an issue and its status.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct GetIssue {
    issue_id: Id<IssueId>,
}

impl SwarmTool for GetIssue {
    const INFO: ToolInfo = ToolInfo::read("getIssue", &[LEAD_FULL, WORKER_CORE, ACCEPTOR_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let issue_id = self.issue_id.0.to_string();
        let request = wire::GetIssueRequest { issue_id, ..wire::GetIssueRequest::default() };
        Ok(issue_result(&caller.query(request).await?, Vec::new()))
    }
}

/// Sets the document paths of an issue.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct UpdateDocPaths {
    issue_id: Id<IssueId>,
    // A list that is not named stays as it is.
    shared_doc_paths: Option<Vec<String>>,
    project_doc_paths: Option<Vec<String>>,
}

impl SwarmTool for UpdateDocPaths {
    const INFO: ToolInfo = ToolInfo::write("updateIssueDocPaths", &[LEAD_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let issue_id = self.issue_id.0.to_string();
        let (has_shared, has_project) =
            (self.shared_doc_paths.is_some(), self.project_doc_paths.is_some());
        if !has_shared && !has_project {
            return Err(missing("shared_doc_paths", "give paths here or in `project_doc_paths`"));
        }
        let request = wire::UpdateIssueDocPathsRequest {
            issue_id,
            shared_doc_paths: self.shared_doc_paths.unwrap_or_default(),
            project_doc_paths: self.project_doc_paths.unwrap_or_default(),
            keep_shared_docs: !has_shared,
            keep_project_docs: !has_project,
            ..wire::UpdateIssueDocPathsRequest::default()
        };
        Ok(issue_result(&caller.execute(request).await?, Vec::new()))
    }
}

/// Closes an issue whose tasks are done. Without an approved delivery, a summary with the reason is
/// required.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct CloseIssue {
    issue_id: Id<IssueId>,
    summary: Option<Text<WHY_BYTES_MAX>>,
}

impl SwarmTool for CloseIssue {
    const INFO: ToolInfo = ToolInfo::write("closeIssue", &[LEAD_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::CloseIssueRequest {
            issue_id: self.issue_id.0.to_string(),
            summary: self.summary.unwrap_or_default().0,
            ..wire::CloseIssueRequest::default()
        };
        let closed = caller.execute(request).await?;
        let is_unaccepted = closed.issue.as_ref().is_some_and(|it| it.is_unaccepted);
        let next = match is_unaccepted {
            true => "Closed without an approved delivery. Tell your user.",
            false => "Its delivery was approved. Report the outcome to your user.",
        };
        Ok(issue_result(&closed, vec![next.to_owned()]))
    }
}

/// Reopens a closed issue.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ReopenIssue {
    issue_id: Id<IssueId>,
    summary: Option<Text<WHY_BYTES_MAX>>,
}

impl SwarmTool for ReopenIssue {
    const INFO: ToolInfo = ToolInfo::write("reopenIssue", &[LEAD_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::ReopenIssueRequest {
            issue_id: self.issue_id.0.to_string(),
            summary: self.summary.unwrap_or_default().0,
            ..wire::ReopenIssueRequest::default()
        };
        let next = "Add tasks with createIssueTask, or reopen one with resetIssueTask.";
        Ok(issue_result(&caller.execute(request).await?, vec![next.to_owned()]))
    }
}

/// Extends the lease of an idle issue.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ExtendIssue {
    issue_id: Id<IssueId>,
    extend_sec: Option<Lease>,
}

impl SwarmTool for ExtendIssue {
    const INFO: ToolInfo = ToolInfo::write("extendIssueLease", &[LEAD_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::ExtendIssueRequest {
            issue_id: self.issue_id.0.to_string(),
            for_ms: Lease::ms(self.extend_sec),
            ..wire::ExtendIssueRequest::default()
        };
        Ok(issue_result(&caller.execute(request).await?, Vec::new()))
    }
}

#[derive(Debug, Serialize)]
struct Issues {
    issues: Vec<views::Issue>,
    #[serde(flatten)]
    page: Page,
}

/// Lists issues, newest first.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListIssues {
    /// open, in_progress, done or canceled.
    status: Option<Word<wire::IssueStatus>>,
    /// created_at, updated_at or subject.
    sort_by: Option<Word<IssueOrder>>,
    /// desc or asc.
    sort_order: Option<Word<Ascending>>,
    subject_contains: Option<String>,
    /// 1–200. Default 50.
    limit: Option<u32>,
    offset: Option<u32>,
}

impl SwarmTool for ListIssues {
    const INFO: ToolInfo = ToolInfo::read("listIssues", &[LEAD_CORE, WORKER_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::ListIssuesRequest {
            status: self.status.map_or(0, |it| it.0.into()),
            subject_contains: self.subject_contains.unwrap_or_default(),
            sort_by: self.sort_by.map_or(0, |it| it.0.0.into()),
            ascending: Ascending::asked(self.sort_order),
            limit: self.limit.unwrap_or_default(),
            offset: self.offset.unwrap_or_default(),
            ..wire::ListIssuesRequest::default()
        };
        list(caller, request).await
    }
}

/// Lists open issues.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListOpenIssues {}

impl SwarmTool for ListOpenIssues {
    const INFO: ToolInfo = ToolInfo::read("listOpenedIssues", &[LEAD_FULL, WORKER_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let (status, limit) = (wire::IssueStatus::Open.into(), SWARM_PAGE_MAX);
        let request = wire::ListIssuesRequest { status, limit, ..Default::default() };
        list(caller, request).await
    }
}

async fn list(
    caller: &Caller<'_>,
    request: wire::ListIssuesRequest,
) -> Result<CallToolResponse, Refusal> {
    let offset = request.offset;
    let found = caller.query(request).await?;
    let mut others = Sanitizer::default();
    let issues: Vec<views::Issue> =
        found.issues.iter().map(|it| views::Issue::new(it, &mut others)).collect();
    let page = Page::new(offset, issues.len(), found.total);
    Ok(answer(Issues { issues, page }, found.now_ms, &others, Vec::new()).into())
}
