//! Labels of states, what is left of a lease, and the choices that people type.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tasuki_proto::wire::{
    self, DeliveryStatus, Difficulty, IssueStatus, MessageStatus, SubmissionStatus, TaskStage,
    TaskStatus,
};

use crate::cli::labels::{enum_name, long, spaced};

pub(super) fn issue_status(of: IssueStatus) -> String {
    enum_name(of.as_str_name(), "ISSUE_STATUS_")
}

pub(super) fn task_stage(of: TaskStage) -> String {
    enum_name(of.as_str_name(), "TASK_STAGE_")
}

/// A task's stage as people read it.
pub(super) fn task_stage_text(of: TaskStage) -> String {
    match of {
        TaskStage::WaitingForAnswer => "waiting for an answer".to_owned(),
        other @ (TaskStage::Unspecified
        | TaskStage::Ready
        | TaskStage::Blocked
        | TaskStage::Reserved
        | TaskStage::Working
        | TaskStage::Submitted
        | TaskStage::InReview
        | TaskStage::Done
        | TaskStage::Canceled) => spaced(&task_stage(other), " "),
    }
}

pub(super) fn difficulty(of: Difficulty) -> String {
    enum_name(of.as_str_name(), "DIFFICULTY_")
}

pub(super) fn submission_status(of: SubmissionStatus) -> String {
    enum_name(of.as_str_name(), "SUBMISSION_STATUS_")
}

pub(super) fn message_status(of: MessageStatus) -> String {
    enum_name(of.as_str_name(), "MESSAGE_STATUS_")
}

pub(super) fn delivery_status(of: DeliveryStatus) -> String {
    enum_name(of.as_str_name(), "DELIVERY_STATUS_")
}

/// How many of an issue's tasks are in a state.
pub(super) fn count(of: &wire::Issue, status: TaskStatus) -> u64 {
    of.tasks.unwrap_or_default().of(status)
}

/// How many tasks an issue has, those that were canceled aside.
pub(super) fn tasks_of(of: &wire::Issue) -> u64 {
    let kept =
        [TaskStatus::Open, TaskStatus::InProgress, TaskStatus::WaitingForAnswer, TaskStatus::Done];
    kept.into_iter().map(|it| count(of, it)).sum()
}

/// How long a lease lasts, roughly, for a column of such times: two units at most.
pub(super) fn left(until_ms: u64, now_ms: u64) -> String {
    match until_ms.saturating_sub(now_ms) {
        0 => "expired".to_owned(),
        ms => long(ms),
    }
}

/// The same in a sentence.
pub(super) fn has_left(until_ms: u64, now_ms: u64) -> String {
    let left = left(until_ms, now_ms);
    if until_ms <= now_ms { left } else { format!("{left} left") }
}

/// How long a claim lasts; it does not run out while what was submitted waits for its verdict.
pub(super) fn claimed_for(until_ms: u64, now_ms: u64) -> String {
    match until_ms {
        0 => "submitted, waits for a verdict".to_owned(),
        ms => has_left(ms, now_ms),
    }
}

/// A value of an enumeration of the API by the name people type; shells complete it.
fn one_of<T: Clone + Send + Sync + 'static>(
    names: &[&'static str],
    prefix: &'static str,
    value: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names.to_vec()).map(move |typed| {
        let name = format!("{prefix}{}", typed.replace('-', "_").to_uppercase());
        value(&name).expect("each name is one of the API's")
    })
}

const ISSUE_STATUSES: &[&str] = &["open", "in-progress", "done", "canceled"];
const TASK_STATUSES: &[&str] = &["open", "in-progress", "waiting-for-answer", "done", "canceled"];
const TASK_STAGES: &[&str] = &[
    "ready",
    "blocked",
    "reserved",
    "working",
    "waiting-for-answer",
    "submitted",
    "in-review",
    "done",
    "canceled",
];
const DIFFICULTIES: &[&str] = &["easy", "medium", "focus"];
const DELIVERY_STATUSES: &[&str] = &["open", "in-review", "approved", "rejected"];

pub(super) fn issue_statuses() -> impl TypedValueParser<Value = IssueStatus> {
    one_of(ISSUE_STATUSES, "ISSUE_STATUS_", IssueStatus::from_str_name)
}

pub(super) fn task_statuses() -> impl TypedValueParser<Value = TaskStatus> {
    one_of(TASK_STATUSES, "TASK_STATUS_", TaskStatus::from_str_name)
}

pub(super) fn task_stages() -> impl TypedValueParser<Value = TaskStage> {
    one_of(TASK_STAGES, "TASK_STAGE_", TaskStage::from_str_name)
}

pub(super) fn difficulties() -> impl TypedValueParser<Value = Difficulty> {
    one_of(DIFFICULTIES, "DIFFICULTY_", Difficulty::from_str_name)
}

pub(super) fn delivery_statuses() -> impl TypedValueParser<Value = DeliveryStatus> {
    one_of(DELIVERY_STATUSES, "DELIVERY_STATUS_", DeliveryStatus::from_str_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_said_as_a_length_of_time() {
        for (until_ms, text) in
            [(0, "submitted, waits for a verdict"), (5000, "expired"), (7000, "2s left")]
        {
            assert_eq!(claimed_for(until_ms, 5000), text);
        }
        assert_eq!((left(5, 5), left(6000, 5000)), ("expired".to_owned(), "1s".to_owned()));
    }

    /// Each name parses to the value that is shown under it, and no value is left out.
    fn check<T>(
        names: &[&str],
        parser: impl TypedValueParser<Value = T>,
        label: impl Fn(T) -> String,
        value: fn(i32) -> Option<T>,
    ) {
        let command = clap::Command::new("x");
        for name in names {
            let parsed = parser.parse_ref(&command, None, name.as_ref()).unwrap();
            assert_eq!(spaced(&label(parsed), "-"), *name);
        }
        let count = (1..).take_while(|number| value(*number).is_some()).count();
        assert_eq!(count, names.len());
    }

    #[test]
    fn states_are_typed_as_the_protocol_calls_them() {
        check(ISSUE_STATUSES, issue_statuses(), issue_status, |it| it.try_into().ok());
        let task_status = |it: TaskStatus| enum_name(it.as_str_name(), "TASK_STATUS_");
        check(TASK_STATUSES, task_statuses(), task_status, |it| it.try_into().ok());
        check(TASK_STAGES, task_stages(), task_stage, |it| it.try_into().ok());
        check(DIFFICULTIES, difficulties(), difficulty, |it| it.try_into().ok());
        check(DELIVERY_STATUSES, delivery_statuses(), delivery_status, |it| it.try_into().ok());
        assert_eq!(submission_status(SubmissionStatus::Superseded), "superseded");
        assert_eq!(message_status(MessageStatus::Replied), "replied");
    }
}
