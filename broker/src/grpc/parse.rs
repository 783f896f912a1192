//! Messages to values that are already valid.

use std::{fmt::Display, ops::RangeInclusive, str::FromStr};

use tasuki_proto::{
    id::{Epoch, IdempotencyKey, LoopId, NodeId, RoleId, Timestamp},
    limits::{
        ATTACHMENT_NAME_BYTES_MAX, HOLD_MS_MAX, LABEL_BYTES_MAX, LOOP_DEFAULT, PARTICIPANTS_MAX,
        REASON_BYTES_MAX, TEXT_BYTES_MAX, TIME_MS_MAX,
    },
    visible::{is_line, is_visible},
    wire,
};
use tonic::Status;

use super::status::{invalid, too_large};
use crate::rules::turn::Actor;

/// A sender's mark of what it sealed, in bytes.
pub(super) const SAME_BYTES: usize = 16;

pub(super) fn id<T: FromStr<Err: Display>>(field: &str, value: &str) -> Result<T, Status> {
    value.parse().map_err(|e: T::Err| invalid(field, &e))
}

/// `None` for an empty field.
pub(super) fn optional<T: FromStr<Err: Display>>(
    field: &str,
    value: &str,
) -> Result<Option<T>, Status> {
    if value.is_empty() { Ok(None) } else { id(field, value).map(Some) }
}

/// The node that calls and its epoch, where one does.
pub(super) fn node(caller: &wire::Caller) -> Result<Option<(NodeId, Epoch)>, Status> {
    Ok(optional("node", &caller.node)?.map(|node| (node, caller.epoch.into())))
}

/// The key of a mutating call.
pub(super) fn idempotency_key(key: Option<wire::IdempotencyKey>) -> Result<IdempotencyKey, Status> {
    let Some(key) = key else {
        let why = "is missing: every mutating call carries an idempotency key";
        return Err(invalid("key", &why));
    };
    if key.counter == 0 || key.counter == u64::MAX {
        return Err(invalid("key.counter", &"is out of range; counters begin at 1"));
    }
    let client = id("key.client_id", &key.client_id)?;
    Ok(IdempotencyKey { client, counter: key.counter })
}

pub(super) fn loop_id(value: &str) -> Result<LoopId, Status> {
    id("loop", if value.is_empty() { LOOP_DEFAULT } else { value })
}

pub(super) fn participants(values: &[String]) -> Result<Vec<RoleId>, Status> {
    check_count("participants", values.len(), 1..=PARTICIPANTS_MAX)?;
    let mut roles: Vec<RoleId> = Vec::with_capacity(values.len());
    for value in values {
        let role = id("participants", value)?;
        if roles.contains(&role) {
            return Err(invalid("participants", &format!("names {role} twice")));
        }
        roles.push(role);
    }
    Ok(roles)
}

/// When something happened elsewhere, in milliseconds since 1970.
pub(super) fn time(field: &str, ms: u64) -> Result<Timestamp, Status> {
    if TIME_MS_MAX < ms {
        let why = format!("is {ms}; the latest time is {TIME_MS_MAX} ms, the end of the year 9999");
        return Err(invalid(field, &why));
    }
    Ok(Timestamp::from_millis(ms))
}

/// Whether a list is as long as it may be.
pub(super) fn check_count(
    field: &str,
    count: usize,
    possible: RangeInclusive<usize>,
) -> Result<(), Status> {
    if possible.contains(&count) {
        return Ok(());
    }
    let (min, max) = possible.into_inner();
    Err(invalid(field, &format!("has {count} entries; {min} to {max} are possible")))
}

/// Whether something is no larger than `limit`, in bytes.
pub(super) fn check_size(field: &str, bytes: usize, limit: usize) -> Result<(), Status> {
    if limit < bytes { Err(too_large(field, bytes, limit)) } else { Ok(()) }
}

/// Whether a file may be called so. `field` is the file.
pub(super) fn check_file_name(field: &str, name: &str, media_type: &str) -> Result<(), Status> {
    let (named, typed) = (format!("{field}.name"), format!("{field}.media_type"));
    let is_path = name.contains(['/', '\\']) || name == "." || name == "..";
    if name.is_empty() || is_path || !is_line(name) {
        let why = "is not the name of a file, or has characters that are never shown";
        return Err(invalid(&named, &why));
    }
    check_size(&named, name.len().max(media_type.len()), ATTACHMENT_NAME_BYTES_MAX)?;
    if is_line(media_type) { Ok(()) } else { Err(invalid(&typed, &"is not printable")) }
}

/// A text of a handover: refused whole when too long, never cut.
pub(super) fn text(field: &str, value: String) -> Result<String, Status> {
    check_size(field, value.len(), TEXT_BYTES_MAX)?;
    Ok(value)
}

/// A text that must say something.
pub(super) fn required_text(field: &str, value: String) -> Result<String, Status> {
    if value.trim().is_empty() {
        return Err(invalid(field, &"is empty; say what the next agent needs to know"));
    }
    text(field, value)
}

pub(super) fn reason(value: String) -> Result<String, Status> {
    if value.trim().is_empty() {
        return Err(invalid("reason", &"is empty; say why, it is kept in the history"));
    }
    check_size("reason", value.len(), REASON_BYTES_MAX)?;
    Ok(value)
}

/// The same where nobody has to say why.
pub(super) fn optional_reason(value: String) -> Result<String, Status> {
    check_size("reason", value.len(), REASON_BYTES_MAX)?;
    Ok(value)
}

/// A role or a person, exactly one of them.
pub(super) fn actor(role: &str, person: &str) -> Result<Actor, Status> {
    match (role.is_empty(), person.is_empty()) {
        (false, true) => Ok(Actor::Role(id("role", role)?)),
        (true, false) => Ok(Actor::Person(id("person", person)?)),
        (true, true) => Err(invalid("role", &"and person are both empty; say who asks")),
        (false, false) => Err(invalid("role", &"and person are both given; only one can ask")),
    }
}

/// How many of a list are asked for.
pub(super) fn limit(limit: u32, default: u32, max: u32) -> usize {
    (if limit == 0 { default } else { limit.min(max) }) as usize
}

pub(super) fn hold(hold_ms: u64) -> u64 {
    hold_ms.min(HOLD_MS_MAX)
}

/// Short text for people: program names and versions.
pub(super) fn label(field: &str, value: &str) -> Result<String, Status> {
    if LABEL_BYTES_MAX < value.len() || !value.chars().all(is_visible) {
        let why: &dyn Display = &format!("is not a printable text of {LABEL_BYTES_MAX} bytes");
        return Err(invalid(field, why));
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_hides_nothing() {
        assert_eq!(label("label", "tasuki 0.1 on é").unwrap(), "tasuki 0.1 on é");
        for bad in ["a\nb", "laptop\u{202e}", "lap\u{200b}top", "\u{e0041}", &"x".repeat(201)] {
            assert!(label("label", bad).is_err(), "{bad:?}");
        }
    }
}
