//! What an agent is told instead of an answer, and answers that may be old.

use std::time::Duration;

use tasuki_proto::reason::Reason;

/// Why an action did not happen, or may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub reason: Reason,
    /// What happened, what holds, what to do: one or two sentences for an agent.
    pub message: String,
}

/// What the broker said, or what it last said where it cannot be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen<T> {
    pub what: T,
    /// How long ago; `None`: the broker says so now.
    pub ago: Option<Duration>,
}

impl<T> Seen<T> {
    pub const fn now(what: T) -> Self {
        Self { what, ago: None }
    }
}
