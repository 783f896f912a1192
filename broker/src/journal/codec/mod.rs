//! Records, snapshots and bodies to bytes and back. The bytes are for ever.
//!
//! The only module that knows both the rules' types and the stored ones. Decoding believes
//! nothing: an unknown kind, a missing field or an id that is none is a named error.

mod access;
mod mail;
mod privacy;
mod record;
mod snapshot;
mod swarm;

use bytes::Bytes;
use prost::Message as _;
use tasuki_proto::{
    id::{LoopId, RoleId, Timestamp, Turn},
    stored,
};

pub use self::{
    mail::{MailText, decode_mail, file_key, mail_key, mail_text_key},
    record::{decode_record, encode_record},
    snapshot::{decode_snapshot, encode_snapshot},
    swarm::{decode_words, swarm_key},
};
use super::BodyKey;
use crate::{
    hash::Hash,
    rules::{
        Body,
        turn::{EntryBody, EntryKind, EntryMeta, Receipts},
    },
};

/// The format this release writes and the newest it reads.
pub const FORMAT: u32 = 1;

/// Why bytes are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    #[error("not a {0}")]
    Malformed(&'static str),
    #[error("{0} is missing or of a kind this release does not know")]
    Unknown(&'static str),
    #[error("{field} {value:?} is not valid")]
    Invalid { field: &'static str, value: String },
    #[error("written for format {0}; this release reads {FORMAT}")]
    Newer(u32),
}

/// Where the body of a history entry is.
pub fn entry_key(loop_id: &LoopId, number: u64) -> BodyKey {
    BodyKey(format!("loop/{loop_id}/{number}"))
}

/// A body in its parts, each with the key it is kept under.
pub fn encode_body(body: &Body) -> Vec<(BodyKey, Bytes)> {
    match body {
        Body::Entry(it) => {
            let stored = stored::EntryBody {
                summary: it.summary.clone(),
                instruction: it.instruction.clone(),
                before: it.before.as_ref().map(encode_facts),
            };
            vec![(entry_key(&it.loop_id, it.number), stored.encode_to_vec().into())]
        }
        Body::Mail(it) => mail::encode_body(it),
        Body::File(it) => vec![(file_key(&it.hash), it.content.clone())],
        Body::Swarm(it) => vec![swarm::encode_words(it)],
    }
}

/// The body of entry `number`.
///
/// # Errors
/// When the bytes are something else.
pub fn decode_entry(loop_id: &LoopId, number: u64, bytes: Bytes) -> Result<EntryBody, CodecError> {
    let it = stored::EntryBody::decode(bytes).map_err(|_| CodecError::Malformed("entry body"))?;
    Ok(EntryBody {
        loop_id: loop_id.clone(),
        number,
        summary: it.summary,
        instruction: it.instruction,
        before: it.before.map(|facts| decode_facts(loop_id, facts)).transpose()?,
    })
}

fn encode_facts(it: &EntryMeta) -> stored::EntryFacts {
    stored::EntryFacts {
        number: it.number,
        kind: match it.kind {
            EntryKind::Handover => 1,
            EntryKind::Reclaim => 2,
            EntryKind::RoundStart => 3,
        },
        round: it.round,
        ended_turn: it.ended.get(),
        turn: it.next.as_ref().map_or(0, |(turn, _)| turn.get()),
        from: text(it.from.as_ref()),
        to: it.next.as_ref().map_or_else(String::new, |(_, to)| to.to_string()),
        is_task_complete: it.next.is_none(),
        reason: it.reason.clone(),
        person: text(it.person.as_ref()),
        node: text(it.node.as_ref()),
        receipts: Some(encode_receipts(&it.receipts)),
        has_text: it.has_text,
        token_id: text(it.token.as_ref()),
    }
}

fn decode_facts(loop_id: &LoopId, it: stored::EntryFacts) -> Result<EntryMeta, CodecError> {
    Ok(EntryMeta {
        loop_id: loop_id.clone(),
        number: it.number,
        kind: match it.kind {
            1 => EntryKind::Handover,
            2 => EntryKind::Reclaim,
            3 => EntryKind::RoundStart,
            _ => return Err(CodecError::Unknown("entry kind")),
        },
        round: it.round,
        ended: Turn::from(it.ended_turn),
        next: decode_next(it.turn, &it.to)?,
        from: optional("from", &it.from)?,
        reason: it.reason,
        person: optional("person", &it.person)?,
        node: optional("node", &it.node)?,
        receipts: decode_receipts(it.receipts.unwrap_or_default()),
        has_text: it.has_text,
        token: optional("token_id", &it.token_id)?,
    })
}

fn encode_receipts(it: &Receipts) -> stored::Receipts {
    let ms = |at: Option<Timestamp>| at.map_or(0, Timestamp::as_millis);
    stored::Receipts {
        stored_ms: ms(it.stored),
        handed_ms: ms(it.handed),
        seen_ms: ms(it.seen),
        acted_ms: ms(it.acted),
        failed_ms: ms(it.failed),
        lapsed_ms: ms(it.lapsed),
    }
}

fn decode_receipts(it: stored::Receipts) -> Receipts {
    let at = |ms: u64| (ms != 0).then(|| Timestamp::from_millis(ms));
    Receipts {
        stored: at(it.stored_ms),
        handed: at(it.handed_ms),
        seen: at(it.seen_ms),
        acted: at(it.acted_ms),
        failed: at(it.failed_ms),
        lapsed: at(it.lapsed_ms),
    }
}

fn decode_next(turn: u64, to: &str) -> Result<Option<(Turn, RoleId)>, CodecError> {
    match turn {
        0 => Ok(None),
        turn => Ok(Some((turn.into(), id("to", to)?))),
    }
}

fn text<T: ToString>(id: Option<&T>) -> String {
    id.map_or_else(String::new, ToString::to_string)
}

fn id<T: std::str::FromStr>(field: &'static str, value: &str) -> Result<T, CodecError> {
    value.parse().map_err(|_| CodecError::Invalid { field, value: value.to_owned() })
}

fn ids<T: std::str::FromStr>(field: &'static str, values: &[String]) -> Result<Vec<T>, CodecError> {
    values.iter().map(|value| id(field, value)).collect()
}

fn optional<T: std::str::FromStr>(
    field: &'static str,
    value: &str,
) -> Result<Option<T>, CodecError> {
    if value.is_empty() { Ok(None) } else { id(field, value).map(Some) }
}

fn hash(field: &'static str, bytes: &[u8]) -> Result<Hash, CodecError> {
    let invalid = |_| CodecError::Invalid { field, value: format!("{} bytes", bytes.len()) };
    Ok(Hash(bytes.try_into().map_err(invalid)?))
}

fn readable(min_reader: u32) -> Result<(), CodecError> {
    if FORMAT < min_reader { Err(CodecError::Newer(min_reader)) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
