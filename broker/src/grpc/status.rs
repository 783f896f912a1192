//! Refusals and failures to gRPC statuses.

use tasuki_proto::{limits::MESSAGE_BYTES_MAX, reason::Reason, rpc::CallKind};
use tonic::Status;

use crate::{journal::JournalError, rules::Rejection, workspace::ExecuteError};

pub(super) fn executing(error: ExecuteError) -> Status {
    error.reason().status(error.to_string())
}

pub(super) fn rejected(rejection: &Rejection) -> Status {
    rejection.reason().status(rejection.to_string())
}

pub(super) fn invalid(field: &str, why: &dyn std::fmt::Display) -> Status {
    Reason::InvalidArgument.status(format!("{field} {why}"))
}

pub(super) fn too_large(field: &str, bytes: usize, limit: usize) -> Status {
    Reason::TooLarge.status(format!(
        "{field} is {bytes} bytes long; the limit is {limit}. Nothing was taken: shorten it, or \
         put the rest into a file and name that"
    ))
}

/// A file that is larger than one may be.
pub(super) fn file_too_large(field: &str, bytes: u64, limit: u64) -> Status {
    Reason::TooLarge.status(format!(
        "{field} is {bytes} bytes; a file has at most {limit}. Nothing was stored: \
         compress the file or split it"
    ))
}

/// An answer that does not fit into one message.
pub(super) fn answer_too_large(kind: CallKind, bytes: usize) -> Status {
    let next = match kind {
        CallKind::Command => "The call took effect; do not repeat it",
        CallKind::Query | CallKind::Page | CallKind::Wait | CallKind::Stream => {
            "Nothing was changed. Ask for less, with a filter or a lower limit"
        }
    };
    Reason::AnswerTooLarge.status(format!(
        "the answer is {bytes} bytes long; one message carries {MESSAGE_BYTES_MAX}. {next}"
    ))
}

/// Why a command that took effect is not answered: nobody may take it for one that did not.
pub(super) fn after_effect(why: Status) -> Status {
    if Reason::of(&why) == Some(Reason::Unavailable) {
        return Reason::OutcomeUnknown.status(why.message());
    }
    why
}

pub(super) fn reading(error: &JournalError) -> Status {
    match error {
        JournalError::Compacted { oldest } => {
            let oldest_text = oldest.to_string();
            Reason::Compacted.status_with(error.to_string(), [("oldest", oldest_text)])
        }
        JournalError::Closed => Reason::Unavailable.status("the broker is stopping"),
        JournalError::InUse(_) | JournalError::Storage(_) => {
            Reason::Unavailable.status(error.to_string())
        }
        JournalError::Damaged { .. } | JournalError::Newer { .. } | JournalError::Older { .. } => {
            Reason::Damaged.status(error.to_string())
        }
    }
}
