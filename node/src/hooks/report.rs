//! How hooks do, for whoever looks.

use serde::{Deserialize, Serialize};

/// What one hook did since the node started.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) made: u64,
    pub(super) failed: u64,
    pub(super) last_failure: Option<LastFailure>,
    pub(super) missed: Option<String>,
}

/// One hook at a glance. `GET /status` shows it as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub hook: String,
    /// Why it is never called, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// Calls made since the node started.
    pub made: u64,
    /// Calls that failed for good since then.
    pub failed: u64,
    pub waiting: usize,
    pub dead_letters: usize,
    /// Why it hears of no events, if it does not: the feed cannot be read for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deaf: Option<String>,
    /// How far its events were taken in.
    pub sequence: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
    /// What it could not be told of, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
}

/// The latest attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFailure {
    /// By this machine's clock.
    pub at_ms: u64,
    pub id: String,
    pub why: String,
}
