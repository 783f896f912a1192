//! `filebox_search_messages`.

use jiff::tz::TimeZone;
use rmcp::model::CallToolResult;
use serde::Serialize;
use tasuki_proto::{
    id::RoleId,
    limits::{HITS, HITS_MAX},
    mail::{BoxKind, MessageType},
    wire,
};

use super::{
    super::{
        Call,
        arguments::{Arguments, invalid},
        result::{shown, time},
        sanitizer::{FRAME, Sanitizer},
    },
    caller::{Caller, one_of},
    facts::{is_nothing, place},
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

/// An entry that matches.
#[derive(Debug, Serialize)]
struct Hit {
    file_name: String,
    message_id: String,
    entry: u32,
    #[serde(rename = "box")]
    place: &'static str,
    subject: String,
    from: String,
    msg_type: String,
    at: String,
    excerpt: String,
    /// What of the excerpt matched.
    matched: Vec<String>,
}

impl Hit {
    fn new(it: &wire::MailHit, others: &mut Sanitizer) -> Self {
        let thread = it.thread.clone().unwrap_or_default();
        Self {
            file_name: others.line(&thread.file_name),
            message_id: thread.message_id.clone(),
            entry: it.entry,
            place: place(thread.r#box()),
            subject: others.line(&thread.subject),
            from: others.line(&it.sender),
            msg_type: others.line(&it.r#type),
            at: time(it.at_ms),
            matched: matched(it),
            excerpt: others.text(&it.excerpt),
        }
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

pub(super) async fn search_messages(
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let (caller, _counts) = Caller::reader(call, arguments)?;
    let place: Option<BoxKind> = one_of(arguments, "box_type", str::to_lowercase)?;
    let kind: Option<MessageType> = one_of(arguments, "msg_type", str::to_uppercase)?;
    let sender: Option<RoleId> = arguments.id("sender")?;
    let limit = match arguments.number("limit")? {
        None => HITS,
        Some(0) => return Err(invalid("limit", &"must be 1 or more")),
        Some(limit) => u32::try_from(limit).map_or(HITS_MAX, |it| it.min(HITS_MAX)),
    };
    let request = wire::SearchMailRequest {
        query: arguments.words("query", "give the search text")?,
        r#box: place.map_or(wire::Box::Unspecified, BoxKind::to_wire).into(),
        r#type: kind.map(|it| it.to_string()).unwrap_or_default(),
        sender: sender.map(|it| it.to_string()).unwrap_or_default(),
        since_ms: since(arguments)?,
        limit,
        ..Default::default()
    };
    let found = caller.mail().search_mail(request).await?;
    let mut others = Sanitizer::default();
    let hits = found.hits.iter().map(|it| Hit::new(it, &mut others)).collect();
    Ok(shown(&Found {
        note: FRAME,
        total: found.total,
        hits,
        left_out: found.left_out,
        stripped: others.stripped,
    }))
}

/// 0: from the beginning.
fn since(arguments: Arguments<'_>) -> Result<u64, Refusal> {
    const FIELD: &str = "since";
    let Some(text) = arguments.name(FIELD)? else { return Ok(0) };
    moment_ms(&text, clock::wall_ms(), &TimeZone::system()).ok_or_else(|| {
        let why = format!("is {text:?}; use 2026-11-21, 2026-11-21T09:00:00Z, or an age: 2h, 7d");
        invalid(FIELD, &why)
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
