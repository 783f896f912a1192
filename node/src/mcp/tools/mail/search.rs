//! `filebox_search_messages`.

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::RoleId,
    limits::{HITS, HITS_MAX},
    mail::{BoxKind, MessageType},
    wire,
};

use super::{
    super::{
        arguments::invalid,
        field_types::{Id, Name, Text, Word},
        result::{json_result, time},
        sanitizer::{FRAME, Sanitizer},
        tool::{Tool, ToolInfo},
        view::{is_nothing, view},
    },
    CORE,
    boxes::limit,
    caller::Reader,
    views::place,
};
use crate::{clock, mail_terms::moment_ms, role::Refusal};

#[derive(Debug, Serialize)]
struct Found {
    note: &'static str,
    /// Entries that match, listed or not.
    total: u64,
    hits: Vec<Hit>,
    /// What was not looked through, and why.
    #[serde(skip_serializing_if = "String::is_empty")]
    left_out: String,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
}

view! {
    /// An entry that matches.
    Hit(it: wire::MailHit, others) with {
        let thread = it.thread.clone().unwrap_or_default();
    } {
        file_name: String = others.line(&thread.file_name),
        message_id: String = thread.message_id.clone(),
        entry: u32 = it.entry,
        #[serde(rename = "box")]
        place: &'static str = place(thread.r#box()),
        subject: String = others.line(&thread.subject),
        from: String = others.line(&it.sender),
        msg_type: String = others.line(&it.r#type),
        at: String = time(it.at_ms),
        excerpt: String = others.text(&it.excerpt),
        /// What of the excerpt matched.
        matched: Vec<String> = matched(it),
    }
}

/// The pieces that the offsets of a hit name, each once.
fn matched(it: &wire::MailHit) -> Vec<String> {
    let mut pieces = Vec::new();
    for span in it.highlights.chunks_exact(2) {
        let piece = it.excerpt.get(span[0] as usize..span[1] as usize);
        let piece = piece.map(|piece| Sanitizer::default().line(piece));
        pieces.extend(piece.filter(|piece| !piece.is_empty() && !pieces.contains(piece)));
    }
    pieces
}

/// Searches your messages in all boxes.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct SearchMessages {
    /// Words, "phrases", -without, subject: body: type: from: to:
    query: Text,
    box_type: Option<Word<BoxKind>>,
    /// Filter by type.
    msg_type: Option<Word<MessageType>>,
    /// Filter by sender.
    sender: Option<Id<RoleId>>,
    /// Date, time or age: 2026-11-21, 2026-11-21T09:00:00Z, 2h, 7d.
    since: Option<Name>,
    /// 1–100. Default 20.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

impl Tool for SearchMessages {
    const INFO: ToolInfo = ToolInfo::read("filebox_search_messages", CORE);

    type Caller<'a> = Reader<'a>;

    async fn call(self, reader: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::SearchMailRequest {
            query: self.query.0,
            r#box: self.box_type.map_or(wire::Box::Unspecified, |it| it.0.to_wire()).into(),
            r#type: self.msg_type.map(|it| it.0.to_string()).unwrap_or_default(),
            sender: self.sender.map(|it| it.0.to_string()).unwrap_or_default(),
            since_ms: since(self.since)?,
            limit: limit(self.limit, HITS, HITS_MAX)?,
            // What was there before it was asked.
            include_sequence: u64::MAX,
            ..Default::default()
        };
        let found = reader.caller.actions.query(request).await?;
        let mut others = Sanitizer::default();
        let hits = found.hits.iter().map(|it| Hit::new(it, &mut others)).collect();
        Ok(json_result(&Found {
            note: FRAME,
            total: found.total,
            hits,
            left_out: found.left_out,
            stripped: others.stripped,
        })
        .into())
    }
}

/// 0: from the beginning.
fn since(named: Option<Name>) -> Result<u64, Refusal> {
    let Some(Name(text)) = named else { return Ok(0) };
    moment_ms(&text, clock::wall_ms(), &clock::zone()).ok_or_else(|| {
        let why = format!("is {text:?}; use 2026-11-21, 2026-11-21T09:00:00Z, or an age: 2h, 7d");
        invalid("since", &why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matched_is_cut_where_letters_end() {
        let hit = wire::MailHit {
            excerpt: "修复 login login".to_owned(),
            highlights: vec![7, 12, 13, 18, 1, 4, 90, 99],
            ..Default::default()
        };
        assert_eq!(matched(&hit), ["login"]);
    }
}
