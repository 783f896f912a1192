//! What callers say, as these tools have it: ids, states, and how long.

use std::str::FromStr;

use tasuki_proto::{
    limits::{REFS_BYTES_MAX, SUBJECT_BYTES_MAX, SWARM_LEASE_MS_MAX, WHY_BYTES_MAX},
    reason::Reason,
    swarm::{CommitHash, IssueId, NotAnId},
    wire,
};

use super::super::arguments::{Arguments, invalid, missing};
use crate::role::Refusal;

pub(super) const ISSUE: &str = "issue_id";
pub(super) const TASK: &str = "task_id";
pub(super) const STATUS: &str = "status";

/// An issue's id: one that is none is an issue that nobody has.
pub(super) fn issue(arguments: Arguments<'_>) -> Result<IssueId, Refusal> {
    id(arguments, ISSUE, Reason::UnknownIssue)
}

/// An id as it is, for the broker to judge.
pub(super) fn required(arguments: Arguments<'_>, field: &str) -> Result<String, Refusal> {
    arguments.name(field)?.ok_or_else(|| missing(field, "give its id"))
}

pub(super) fn id<T: FromStr<Err = NotAnId>>(
    arguments: Arguments<'_>,
    field: &str,
    unknown: Reason,
) -> Result<T, Refusal> {
    let text = required(arguments, field)?;
    text.parse().map_err(|why: NotAnId| Refusal {
        reason: unknown,
        message: format!("`{field}` {why}. No change was made."),
    })
}

/// How long a lease is asked for; 0: as the settings say.
pub(super) fn lasting(arguments: Arguments<'_>, field: &str) -> Result<u64, Refusal> {
    let asked = arguments.seconds(field)?.unwrap_or_default();
    match u64::try_from(asked.as_millis()) {
        Ok(ms @ ..=SWARM_LEASE_MS_MAX) => Ok(ms),
        Ok(_) | Err(_) => Err(invalid(field, &"must be at most 86400 (24 h)")),
    }
}

pub(super) fn difficulty(arguments: Arguments<'_>) -> Result<wire::Difficulty, Refusal> {
    const FIELD: &str = "difficulty";
    match required_word(arguments, FIELD, "easy, medium or focus")?.as_str() {
        "easy" => Ok(wire::Difficulty::Easy),
        "medium" => Ok(wire::Difficulty::Medium),
        "focus" => Ok(wire::Difficulty::Focus),
        _ => Err(invalid(FIELD, &"must be easy, medium or focus")),
    }
}

/// 1, 2 or 5.
pub(super) fn score(arguments: Arguments<'_>) -> Result<u32, Refusal> {
    const FIELD: &str = "completion_score";
    match arguments.number(FIELD)? {
        Some(score @ (1 | 2 | 5)) => Ok(u32::try_from(score).unwrap_or_default()),
        Some(other) => Err(Refusal {
            reason: Reason::InvalidArgument,
            message: format!(
                "invalid completion_score: {other}; it must be 1 (poor), 2 (fair) or 5 (good). No \
                 change was made."
            ),
        }),
        None => Err(missing(FIELD, "1 (poor), 2 (fair) or 5 (good)")),
    }
}

/// Whether a verdict approves.
pub(super) fn approves(arguments: Arguments<'_>) -> Result<bool, Refusal> {
    const FIELD: &str = "verdict";
    match required_word(arguments, FIELD, "approved or rejected")?.as_str() {
        "approved" => Ok(true),
        "rejected" => Ok(false),
        _ => Err(invalid(FIELD, &"must be approved or rejected")),
    }
}

/// Which issues are meant; unspecified: all.
pub(super) fn issue_status(arguments: Arguments<'_>) -> Result<wire::IssueStatus, Refusal> {
    match word(arguments, STATUS)?.as_deref() {
        None => Ok(wire::IssueStatus::Unspecified),
        Some("open") => Ok(wire::IssueStatus::Open),
        Some("in_progress") => Ok(wire::IssueStatus::InProgress),
        Some("done") => Ok(wire::IssueStatus::Done),
        Some("canceled") => Ok(wire::IssueStatus::Canceled),
        Some(_) => Err(invalid(STATUS, &"must be open, in_progress, done or canceled")),
    }
}

/// Which tasks are meant, by their status or their stage; both unspecified: all.
pub(super) fn task_status(
    arguments: Arguments<'_>,
) -> Result<(wire::TaskStatus, wire::TaskStage), Refusal> {
    use wire::{TaskStage as Stage, TaskStatus as Status};
    let Some(said) = word(arguments, STATUS)? else {
        return Ok((Status::Unspecified, Stage::Unspecified));
    };
    let status = |status| Ok((status, Stage::Unspecified));
    let stage = |stage| Ok((Status::Unspecified, stage));
    match said.as_str() {
        "open" => status(Status::Open),
        "in_progress" => status(Status::InProgress),
        "blocked" => status(Status::Blocked),
        "done" => status(Status::Done),
        "canceled" => status(Status::Canceled),
        "ready" => stage(Stage::Ready),
        "waiting" => stage(Stage::Waiting),
        "reserved" => stage(Stage::Reserved),
        "working" => stage(Stage::Working),
        "asking" => stage(Stage::Asking),
        "submitted" => stage(Stage::Submitted),
        "in_review" => stage(Stage::InReview),
        _ => Err(invalid(
            STATUS,
            &"must be open, in_progress, blocked, done or canceled, or a stage: ready, waiting, \
              reserved, working, asking, submitted or in_review",
        )),
    }
}

/// Which deliveries are meant; unspecified: all.
pub(super) fn delivery_status(arguments: Arguments<'_>) -> Result<wire::DeliveryStatus, Refusal> {
    match word(arguments, STATUS)?.as_deref() {
        None => Ok(wire::DeliveryStatus::Unspecified),
        Some("open") => Ok(wire::DeliveryStatus::Open),
        Some("in_review") => Ok(wire::DeliveryStatus::InReview),
        Some("approved") => Ok(wire::DeliveryStatus::Approved),
        Some("rejected") => Ok(wire::DeliveryStatus::Rejected),
        Some(_) => Err(invalid(STATUS, &"must be open, in_review, approved or rejected")),
    }
}

/// What issues are sorted by, and tasks: in words.
pub(super) const ISSUE_ORDERS: &str = "created_at, updated_at or subject";
pub(super) const TASK_ORDERS: &str = "created_at, updated_at, subject or points";

/// What a list is sorted by, of what `known` names, and whether the smallest comes first.
pub(super) fn order(
    arguments: Arguments<'_>,
    known: &str,
) -> Result<(wire::SortBy, bool), Refusal> {
    const BY: &str = "sort_by";
    const ORDER: &str = "sort_order";
    let by = match word(arguments, BY)?.as_deref() {
        None => wire::SortBy::Unspecified,
        Some("created_at") => wire::SortBy::Created,
        Some("updated_at") => wire::SortBy::Updated,
        Some("subject") => wire::SortBy::Subject,
        Some("points") if known == TASK_ORDERS => wire::SortBy::Points,
        Some(_) => return Err(invalid(BY, &format_args!("is {known}"))),
    };
    match word(arguments, ORDER)?.as_deref() {
        None | Some("desc") => Ok((by, false)),
        Some("asc") => Ok((by, true)),
        Some(_) => Err(invalid(ORDER, &"must be desc or asc")),
    }
}

/// The line that lists show.
pub(super) fn subject(arguments: Arguments<'_>) -> Result<String, Refusal> {
    arguments.at_most(SUBJECT_BYTES_MAX).words("subject", "give the subject")
}

/// References beside a text.
pub(super) fn refs(arguments: Arguments<'_>) -> Result<String, Refusal> {
    Ok(arguments.at_most(REFS_BYTES_MAX).text("refs")?.unwrap_or_default())
}

/// Why something ends or begins again.
pub(super) fn why(arguments: Arguments<'_>, field: &str) -> Result<String, Refusal> {
    Ok(arguments.at_most(WHY_BYTES_MAX).text(field)?.unwrap_or_default())
}

/// A word in small letters, if it is there.
pub(super) fn word(arguments: Arguments<'_>, field: &str) -> Result<Option<String>, Refusal> {
    Ok(arguments.name(field)?.map(|it| it.to_lowercase()))
}

/// A flag that has to be there.
pub(super) fn required_flag(arguments: Arguments<'_>, field: &str) -> Result<bool, Refusal> {
    let what = "true or false";
    arguments.flag(field)?.ok_or_else(|| missing(&arguments.at(field), what))
}

/// A list that has to be there, though nothing may be in it.
pub(super) fn required_texts(
    arguments: Arguments<'_>,
    field: &str,
    what: &str,
) -> Result<Vec<String>, Refusal> {
    if !arguments.has(field) {
        return Err(missing(&arguments.at(field), what));
    }
    arguments.texts(field)
}

/// A refusal of one of several objects, which says which.
pub(super) fn of(list: &str, place: usize, why: Refusal) -> Refusal {
    Refusal { message: format!("{list}[{place}]: {}", why.message), ..why }
}

/// What can be run again to see for oneself, if anything is said of it.
pub(super) fn rerun(arguments: Arguments<'_>) -> Result<Option<wire::Rerun>, Refusal> {
    let commit = commit(arguments)?.unwrap_or_default();
    let commands = arguments.texts("commands")?;
    let is_there = !commit.is_empty() || !commands.is_empty();
    Ok(is_there.then_some(wire::Rerun { commit, commands }))
}

/// Its name in full: a short one, or a branch, may mean another commit elsewhere or later.
fn commit(arguments: Arguments<'_>) -> Result<Option<String>, Refusal> {
    const FIELD: &str = "commit";
    let Some(commit) = arguments.name(FIELD)? else { return Ok(None) };
    match commit.to_ascii_lowercase().parse::<CommitHash>() {
        Ok(hash) => Ok(Some(hash.to_string())),
        Err(why) => Err(invalid(&arguments.at(FIELD), &why)),
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
