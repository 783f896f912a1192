//! `filebox_list_messages`: what is in a box.

use rmcp::model::CallToolResult;
use serde::Serialize;
use serde_json::json;
use tasuki_proto::{limits::BOX_PAGE_MAX, mail::BoxKind, wire};

use super::{
    super::{
        Call,
        arguments::{Arguments, invalid},
        result::{add, said},
        sanitizer::{FRAME, Sanitizer},
    },
    caller::{Caller, one_of},
    facts::{Listed, caution, is_nothing, millis},
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
    messages: Vec<Listed>,
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

pub(super) async fn list_messages(
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let (caller, _counts) = Caller::reader(call, arguments)?;
    let kind = one_of(arguments, "box_type", str::to_lowercase)?.unwrap_or(BoxKind::Inbox);
    let request = wire::ListBoxRequest {
        r#box: kind.to_wire().into(),
        limit: limit(arguments)?,
        after: arguments.name("after")?.unwrap_or_default(),
        ..Default::default()
    };
    let listed = caller.mail().list_box(request).await?;
    let mut others = Sanitizer::default();
    let threads = &listed.what.threads;
    let page = Page {
        note: (!threads.is_empty()).then_some(FRAME),
        place: kind.as_str(),
        total: listed.what.total,
        messages: threads.iter().map(|it| Listed::new(it, &mut others)).collect(),
        next: listed.what.next,
        stripped: others.stripped,
        seen_ms_ago: listed.ago.map(millis),
        caution: caution(listed.ago),
    };
    let names: Vec<&str> = page.messages.iter().map(|it| it.file_name.as_str()).collect();
    let mut result = said(json!(names).to_string(), json!(page));
    if !page.next.is_empty() {
        add(
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
        add(&mut result, caution);
    }
    Ok(result)
}

/// As many as one page of the broker's has, unless fewer were asked for.
fn limit(arguments: Arguments<'_>) -> Result<u32, Refusal> {
    match arguments.number("limit")? {
        None => Ok(BOX_PAGE_MAX),
        Some(0) => Err(invalid("limit", &"must be 1 or more")),
        // The rest is on the next page, which the answer says.
        Some(limit) => Ok(u32::try_from(limit).map_or(BOX_PAGE_MAX, |it| it.min(BOX_PAGE_MAX))),
    }
}
