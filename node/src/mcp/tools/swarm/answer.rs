//! What every answer says beside what was asked for.

use rmcp::model::CallToolResult;
use serde::Serialize;

use super::super::{
    result::{Time, json_result},
    sanitizer::{FRAME, Sanitizer},
    view::is_nothing,
};

#[derive(Debug, Serialize)]
struct Answer<T> {
    #[serde(flatten)]
    what: T,
    #[serde(skip_serializing_if = "is_nothing")]
    server_now: Time,
    #[serde(skip_serializing_if = "is_nothing")]
    server_now_ms: u64,
    note: &'static str,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next_actions: Vec<String>,
}

/// What a call made.
#[derive(Debug, Serialize)]
pub(super) struct Made<T> {
    #[serde(flatten)]
    pub what: T,
    /// The same was said before: this is what is there since then.
    #[serde(skip_serializing_if = "is_nothing")]
    pub repeated: bool,
}

/// `what` with the broker's time unless the node answered by itself, what was taken out of others' words, and what to do next.
pub(super) fn answer(
    what: impl Serialize,
    now_ms: u64,
    others: &Sanitizer,
    next_actions: Vec<String>,
) -> CallToolResult {
    let stripped = others.stripped;
    let (server_now, server_now_ms) = (Time(now_ms), now_ms);
    json_result(&Answer { what, server_now, server_now_ms, note: FRAME, stripped, next_actions })
}

/// A list's place among all there is of it.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    /// On all pages.
    total: u64,
    /// Where the next page begins; left out at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
}

impl Page {
    pub(super) fn new(offset: u32, shown: usize, total: u64) -> Self {
        let end = u64::from(offset).saturating_add(shown as u64);
        Self { total, next_offset: (shown != 0 && end < total).then_some(end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_where_the_next_one_begins() {
        let next = |offset, shown, total| Page::new(offset, shown, total).next_offset;
        assert_eq!(next(0, 50, 120), Some(50));
        assert_eq!(next(100, 20, 120), None);
        assert_eq!(next(500, 0, 120), None);
        assert_eq!(next(0, 0, 0), None);
    }
}
