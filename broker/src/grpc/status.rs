//! Refusals and failures to gRPC statuses.

use tasuki_proto::reason::Reason;
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
