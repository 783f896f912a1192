//! Issues, tasks, locks and deliveries: what happened to them (`event`), what was said (`words`),
//! what was answered (`reply`), and all that is kept of them in memory (`state`).

mod event;
mod issue_event;
mod reply;
mod state;
mod task_state;
mod words;

use bytes::{BufMut as _, Bytes, BytesMut};
use tasuki_proto::{
    id::{FencingToken, Timestamp},
    stored,
    swarm::{DocName, IssueId, Stamp, TaskNumber},
};

pub use self::words::{decode_words, swarm_key};
pub(super) use self::{
    event::{decode_event, encode_event},
    reply::{decode_reply, encode_reply},
    state::{Decoding, encode_state},
    words::encode_words,
};
use super::{CodecError, id};
use crate::rules::swarm::{Score, Settings, lock::LockKey};

fn stamp_bytes(stamp: Stamp) -> Bytes {
    let mut bytes = BytesMut::with_capacity(12);
    bytes.put_u64(stamp.ms);
    bytes.put_u32(stamp.tail);
    bytes.freeze()
}

fn stamp(field: &'static str, bytes: &[u8]) -> Result<Stamp, CodecError> {
    let invalid = || CodecError::Invalid { field, value: format!("{bytes:?}") };
    let (ms, tail) = bytes.split_at_checked(8).ok_or_else(invalid)?;
    let ms = ms.try_into().map(u64::from_be_bytes).map_err(|_| invalid())?;
    let tail = tail.try_into().map(u32::from_be_bytes).map_err(|_| invalid())?;
    Ok(Stamp { ms, tail })
}

/// Empty without one.
fn optional_bytes(stamp: Option<Stamp>) -> Bytes {
    stamp.map_or_else(Bytes::new, stamp_bytes)
}

fn optional_stamp(field: &'static str, bytes: &[u8]) -> Result<Option<Stamp>, CodecError> {
    if bytes.is_empty() { Ok(None) } else { stamp(field, bytes).map(Some) }
}

fn task(number: u32) -> Result<TaskNumber, CodecError> {
    match number {
        0 => Err(CodecError::Invalid { field: "task", value: number.to_string() }),
        number => Ok(TaskNumber(number)),
    }
}

/// 0 is none.
fn optional_task(number: u32) -> Option<TaskNumber> {
    (number != 0).then_some(TaskNumber(number))
}

fn tasks(numbers: &[u32]) -> Result<Vec<TaskNumber>, CodecError> {
    numbers.iter().map(|number| task(*number)).collect()
}

fn numbers(tasks: &[TaskNumber]) -> Vec<u32> {
    tasks.iter().map(|it| it.0).collect()
}

/// A name that is kept as its number.
fn named<T>(field: &'static str, found: Option<T>) -> Result<T, CodecError> {
    found.ok_or(CodecError::Unknown(field))
}

fn score(score: u32) -> Result<Score, CodecError> {
    named("score", Score::new(score))
}

fn token(token: u64) -> FencingToken {
    FencingToken::from(token)
}

const fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// 0 is none.
fn optional_at(ms: u64) -> Option<Timestamp> {
    (ms != 0).then(|| Timestamp::from_millis(ms))
}

fn ms(at: Option<Timestamp>) -> u64 {
    at.map_or(0, Timestamp::as_millis)
}

fn doc_names(names: &[String]) -> Result<Vec<DocName>, CodecError> {
    names.iter().map(|name| id("doc", name)).collect()
}

fn texts<T: ToString>(names: &[T]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn encode_settings(it: &Settings) -> stored::SwarmSettings {
    stored::SwarmSettings {
        issue_ttl_ms: it.issue_ttl_ms,
        task_claim_ms: it.task_claim_ms,
        delivery_claim_ms: it.delivery_claim_ms,
        reservation_ms: it.reservation_ms,
        lock_ms: it.lock_ms,
        heartbeat_ms: it.heartbeat_ms,
        item_again_ms: it.item_again_ms,
        max_task_count: it.max_task_count,
    }
}

fn decode_settings(it: &stored::SwarmSettings) -> Settings {
    Settings {
        issue_ttl_ms: it.issue_ttl_ms,
        task_claim_ms: it.task_claim_ms,
        delivery_claim_ms: it.delivery_claim_ms,
        reservation_ms: it.reservation_ms,
        lock_ms: it.lock_ms,
        heartbeat_ms: it.heartbeat_ms,
        item_again_ms: it.item_again_ms,
        max_task_count: it.max_task_count,
    }
}

fn encode_keys(keys: &[LockKey]) -> Vec<stored::SwarmLockKey> {
    let encode = |it: &LockKey| stored::SwarmLockKey {
        repository: it.repository().to_owned(),
        path: it.path().to_owned(),
        is_case_folded: it.is_case_folded(),
    };
    keys.iter().map(encode).collect()
}

fn decode_keys(keys: &[stored::SwarmLockKey]) -> Result<Vec<LockKey>, CodecError> {
    let decode = |it: &stored::SwarmLockKey| {
        let key = LockKey::new(&it.repository, &it.path, it.is_case_folded);
        key.map_err(|value| CodecError::Invalid { field: "path", value })
    };
    keys.iter().map(decode).collect()
}

fn encode_ref(it: Option<(IssueId, TaskNumber)>) -> Option<stored::SwarmTaskRef> {
    it.map(|(issue, task)| stored::SwarmTaskRef { issue: stamp_bytes(issue.0), task: task.0 })
}

fn decode_ref(
    it: Option<stored::SwarmTaskRef>,
) -> Result<Option<(IssueId, TaskNumber)>, CodecError> {
    it.map(|it| Ok((IssueId(stamp("issue", &it.issue)?), task(it.task)?))).transpose()
}
