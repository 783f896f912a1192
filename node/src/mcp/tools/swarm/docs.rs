//! Documents that all issues share, those of an issue and those of a task. Writing one that is
//! there makes its next version.

use rmcp::model::CallToolResult;
use serde::Serialize;
use tasuki_proto::wire;

use super::{
    super::{
        arguments::{Arguments, missing},
        result::shown,
        sanitizer::{FRAME, Sanitizer},
    },
    args,
    caller::Caller,
    views::{Time, is_nothing},
};
use crate::role::Refusal;

/// Whose documents a tool is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    All,
    Issue,
    Task,
}

impl Of {
    fn place(self, arguments: Arguments<'_>) -> Result<wire::DocPlace, Refusal> {
        let mut place = wire::DocPlace::default();
        match self {
            Self::All => {}
            Self::Issue => place.issue_id = args::issue(arguments)?.to_string(),
            Self::Task => {
                place.issue_id = args::issue(arguments)?.to_string();
                place.task_id = args::required(arguments, args::TASK)?;
            }
        }
        Ok(place)
    }
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

fn name(arguments: Arguments<'_>) -> Result<String, Refusal> {
    arguments.name("name")?.ok_or_else(|| missing("name", "give the name of the document"))
}

pub(super) async fn write(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
    of: Of,
) -> Result<CallToolResult, Refusal> {
    let request = wire::WriteDocRequest {
        place: Some(of.place(arguments)?),
        name: name(arguments)?,
        content: arguments.text("content")?.unwrap_or_default(),
        ..wire::WriteDocRequest::default()
    };
    Ok(shown(&Doc::new(&caller.tell(request).await?)))
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

pub(super) async fn read(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
    of: Of,
) -> Result<CallToolResult, Refusal> {
    let request = wire::ReadDocRequest {
        place: Some(of.place(arguments)?),
        name: name(arguments)?,
        ..wire::ReadDocRequest::default()
    };
    let it = caller.ask(request).await?;
    let mut others = Sanitizer::default();
    let content = others.text(&it.content);
    Ok(shown(&Read { doc: Doc::new(&it), note: FRAME, stripped: others.stripped, content }))
}

#[derive(Debug, Serialize)]
struct Docs {
    docs: Vec<Doc>,
}

pub(super) async fn list(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
    of: Of,
) -> Result<CallToolResult, Refusal> {
    let place = Some(of.place(arguments)?);
    let it = caller.ask(wire::ListDocsRequest { place, ..Default::default() }).await?;
    Ok(shown(&Docs { docs: it.docs.iter().map(Doc::new).collect() }))
}
