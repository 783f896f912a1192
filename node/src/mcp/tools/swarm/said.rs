//! What callers say, as these tools have it: ids, states, and how long.

use std::str::FromStr;

use tasuki_proto::{
    reason::Reason,
    swarm::{IssueId, NotAnId},
    wire,
};

use super::super::arguments::{Arguments, invalid, missing};
use crate::role::Refusal;

pub(super) const ISSUE: &str = "issue_id";
pub(super) const TASK: &str = "task_id";

/// An issue's id: one that is none is an issue that nobody has.
pub(super) fn issue(arguments: Arguments<'_>) -> Result<IssueId, Refusal> {
    id(arguments, ISSUE, Reason::UnknownIssue)
}

/// An id as it is, for the broker to judge.
pub(super) fn required(arguments: Arguments<'_>, field: &str) -> Result<String, Refusal> {
    arguments.name(field)?.ok_or_else(|| missing(field, "name one by its id"))
}

pub(super) fn id<T: FromStr<Err = NotAnId>>(
    arguments: Arguments<'_>,
    field: &str,
    unknown: Reason,
) -> Result<T, Refusal> {
    let text = required(arguments, field)?;
    text.parse().map_err(|why: NotAnId| Refusal {
        reason: unknown,
        message: format!("`{field}` {why}. Nothing happened."),
    })
}

/// How long a lease is asked for; 0: as the settings say.
pub(super) fn lasting(arguments: Arguments<'_>, field: &str) -> Result<u64, Refusal> {
    let asked = arguments.seconds(field)?.unwrap_or_default();
    Ok(u64::try_from(asked.as_millis()).unwrap_or(u64::MAX))
}

pub(super) fn difficulty(arguments: Arguments<'_>) -> Result<wire::Difficulty, Refusal> {
    const FIELD: &str = "difficulty";
    match required_word(arguments, FIELD, "easy, medium or focus")?.as_str() {
        "easy" => Ok(wire::Difficulty::Easy),
        "medium" => Ok(wire::Difficulty::Medium),
        "focus" => Ok(wire::Difficulty::Focus),
        _ => Err(invalid(FIELD, &"is easy, medium or focus")),
    }
}

/// A word in small letters.
pub(super) fn required_word(
    arguments: Arguments<'_>,
    field: &str,
    what: &str,
) -> Result<String, Refusal> {
    let word = arguments.name(field)?.ok_or_else(|| missing(field, what))?;
    Ok(word.to_lowercase())
}

/// Small enough for a count that the broker takes.
pub(super) fn count(arguments: Arguments<'_>, field: &str) -> Result<u32, Refusal> {
    let number = arguments.number(field)?.unwrap_or_default();
    u32::try_from(number).map_err(|_| invalid(field, &"is too large"))
}
