//! `filebox_list_messages`: what is in a box.

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tasuki_proto::{limits::BOX_PAGE_MAX, mail::BoxKind, wire};

use super::{
    super::{
        arguments::invalid,
        field_types::{Name, Word},
        result::{add_text, text_result},
        sanitizer::{FRAME, Sanitizer},
        tool::{Tool, ToolInfo},
        view::is_nothing,
    },
    CORE,
    caller::Reader,
    views::{ListedThread, caution, millis},
};
use crate::role::Refusal;

#[derive(Debug, Serialize)]
struct Page {
    /// Left out where there is nothing of anybody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    #[serde(rename = "box")]
    place: &'static str,
    /// Of the whole box.
    total: u64,
    messages: Vec<ListedThread>,
    /// There are more: `after` of the call that goes on.
    #[serde(skip_serializing_if = "String::is_empty")]
    next: String,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen_ms_ago: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caution: Option<String>,
}

/// Lists the file names in one of your boxes, urgent messages first.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListMessages {
    #[schemars(required)]
    box_type: Option<Word<BoxKind>>,
    /// 1–1000. Default 1000.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
    /// Cursor: `next` of the previous page.
    after: Option<Name>,
}

impl Tool for ListMessages {
    const INFO: ToolInfo = ToolInfo::read("filebox_list_messages", CORE);

    type Caller<'a> = Reader<'a>;

    async fn call(self, reader: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let kind = self.box_type.map_or(BoxKind::Inbox, |it| it.0);
        let request = wire::ListBoxRequest {
            r#box: kind.to_wire().into(),
            // The rest is on the next page, which the answer says.
            limit: limit(self.limit, BOX_PAGE_MAX, BOX_PAGE_MAX)?,
            after: self.after.unwrap_or_default().0,
            ..Default::default()
        };
        let listed = reader.caller.actions.look_up(request).await?;
        let mut others = Sanitizer::default();
        let threads = &listed.what.threads;
        let page = Page {
            note: (!threads.is_empty()).then_some(FRAME),
            place: kind.as_str(),
            total: listed.what.total,
            messages: threads.iter().map(|it| ListedThread::new(it, &mut others)).collect(),
            next: listed.what.next,
            stripped: others.stripped,
            seen_ms_ago: listed.ago.map(millis),
            caution: caution(listed.ago),
        };
        let names: Vec<&str> = page.messages.iter().map(|it| it.file_name.as_str()).collect();
        let mut result = text_result(json!(names).to_string(), json!(page));
        if !page.next.is_empty() {
            add_text(
                &mut result,
                format!(
                    "Listed {} of {}. For more, call again with after {:?}.",
                    names.len(),
                    page.total,
                    page.next
                ),
            );
        }
        if let Some(caution) = page.caution {
            add_text(&mut result, caution);
        }
        Ok(result.into())
    }
}

/// How many a page has: `default` of them where nothing is said, and `max` at most.
pub(super) fn limit(asked: Option<u64>, default: u32, max: u32) -> Result<u32, Refusal> {
    match asked {
        None => Ok(default),
        Some(0) => Err(invalid("limit", &"must be 1 or more")),
        Some(limit) => Ok(u32::try_from(limit).map_or(max, |it| it.min(max))),
    }
}
