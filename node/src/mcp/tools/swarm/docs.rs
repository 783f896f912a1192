//! Documents that all issues share, those of an issue and those of a task. Writing one that is
//! there makes its next version.

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tasuki_proto::{swarm::IssueId, wire};

use super::{
    super::{
        field_types::{Id, Name},
        result::json_result,
        sanitizer::{FRAME, Sanitizer},
        tool::ToolInfo,
        view::is_nothing,
    },
    ACCEPTOR_CORE, ACCEPTOR_FULL, LEAD_CORE, LEAD_FULL, SwarmTool, WORKER_CORE, WORKER_FULL,
    caller::Caller,
    views::Time,
};
use crate::role::Refusal;

/// The documents of an issue, or of one of its tasks; of neither: those that all issues share.
fn place(issue: Option<Id<IssueId>>, task: Option<Name>) -> Option<wire::DocPlace> {
    let issue_id = issue.map(|it| it.0.to_string()).unwrap_or_default();
    Some(wire::DocPlace { issue_id, task_id: task.unwrap_or_default().0 })
}

#[derive(Debug, Serialize)]
struct Doc {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    issue_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    task_id: String,
    version: u32,
    bytes: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    written_by: String,
    written_at: Time,
}

impl Doc {
    fn new(it: &wire::Doc) -> Self {
        let place = it.place.clone().unwrap_or_default();
        Self {
            name: it.name.clone(),
            issue_id: place.issue_id,
            task_id: place.task_id,
            version: it.version,
            bytes: it.size,
            written_by: it.written_by.clone(),
            written_at: Time(it.written_ms),
        }
    }
}

async fn write(
    caller: &Caller<'_>,
    place: Option<wire::DocPlace>,
    name: Name,
    content: String,
) -> Result<CallToolResponse, Refusal> {
    let request = wire::WriteDocRequest { place, name: name.0, content, ..Default::default() };
    Ok(json_result(&Doc::new(&caller.execute(request).await?)).into())
}

#[derive(Debug, Serialize)]
struct Read {
    #[serde(flatten)]
    doc: Doc,
    note: &'static str,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
    content: String,
}

async fn read(
    caller: &Caller<'_>,
    place: Option<wire::DocPlace>,
    name: Name,
) -> Result<CallToolResponse, Refusal> {
    let request = wire::ReadDocRequest { place, name: name.0, ..Default::default() };
    let it = caller.query(request).await?;
    let mut others = Sanitizer::default();
    let content = others.text(&it.content);
    let doc = Read { doc: Doc::new(&it), note: FRAME, stripped: others.stripped, content };
    Ok(json_result(&doc).into())
}

#[derive(Debug, Serialize)]
struct Docs {
    docs: Vec<Doc>,
}

async fn list(
    caller: &Caller<'_>,
    place: Option<wire::DocPlace>,
) -> Result<CallToolResponse, Refusal> {
    let it = caller.query(wire::ListDocsRequest { place, ..Default::default() }).await?;
    Ok(json_result(&Docs { docs: it.docs.iter().map(Doc::new).collect() }).into())
}

/// Writes a shared document.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct WriteSharedDoc {
    name: Name,
    #[serde(default)]
    content: String,
}

impl SwarmTool for WriteSharedDoc {
    const INFO: ToolInfo = ToolInfo::write("writeSharedDoc", &[LEAD_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        write(caller, place(None, None), self.name, self.content).await
    }
}

/// Reads a shared document.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ReadSharedDoc {
    name: Name,
}

impl SwarmTool for ReadSharedDoc {
    const INFO: ToolInfo =
        ToolInfo::read("readSharedDoc", &[LEAD_FULL, WORKER_FULL, ACCEPTOR_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        read(caller, place(None, None), self.name).await
    }
}

/// Lists shared documents.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListSharedDocs {}

impl SwarmTool for ListSharedDocs {
    const INFO: ToolInfo =
        ToolInfo::read("listSharedDocs", &[LEAD_FULL, WORKER_FULL, ACCEPTOR_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        list(caller, place(None, None)).await
    }
}

/// Writes a document of an issue.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct WriteIssueDoc {
    issue_id: Id<IssueId>,
    name: Name,
    #[serde(default)]
    content: String,
}

impl SwarmTool for WriteIssueDoc {
    const INFO: ToolInfo = ToolInfo::write("writeIssueDoc", &[LEAD_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        write(caller, place(Some(self.issue_id), None), self.name, self.content).await
    }
}

/// Reads a document of an issue.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ReadIssueDoc {
    issue_id: Id<IssueId>,
    name: Name,
}

impl SwarmTool for ReadIssueDoc {
    const INFO: ToolInfo = ToolInfo::read("readIssueDoc", &[LEAD_FULL, WORKER_CORE, ACCEPTOR_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        read(caller, place(Some(self.issue_id), None), self.name).await
    }
}

/// Lists the documents of an issue.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListIssueDocs {
    issue_id: Id<IssueId>,
}

impl SwarmTool for ListIssueDocs {
    const INFO: ToolInfo =
        ToolInfo::read("listIssueDocs", &[LEAD_FULL, WORKER_FULL, ACCEPTOR_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        list(caller, place(Some(self.issue_id), None)).await
    }
}

/// Writes a document of a task.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct WriteTaskDoc {
    issue_id: Id<IssueId>,
    task_id: Name,
    name: Name,
    #[serde(default)]
    content: String,
}

impl SwarmTool for WriteTaskDoc {
    const INFO: ToolInfo = ToolInfo::write("writeTaskDoc", &[WORKER_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        write(caller, place(Some(self.issue_id), Some(self.task_id)), self.name, self.content).await
    }
}

/// Reads a document of a task.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ReadTaskDoc {
    issue_id: Id<IssueId>,
    task_id: Name,
    name: Name,
}

impl SwarmTool for ReadTaskDoc {
    const INFO: ToolInfo = ToolInfo::read("readTaskDoc", &[LEAD_CORE, WORKER_FULL, ACCEPTOR_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        read(caller, place(Some(self.issue_id), Some(self.task_id)), self.name).await
    }
}

/// Lists the documents of a task.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListTaskDocs {
    issue_id: Id<IssueId>,
    task_id: Name,
}

impl SwarmTool for ListTaskDocs {
    const INFO: ToolInfo = ToolInfo::read("listTaskDocs", &[LEAD_FULL, WORKER_FULL, ACCEPTOR_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        list(caller, place(Some(self.issue_id), Some(self.task_id))).await
    }
}
