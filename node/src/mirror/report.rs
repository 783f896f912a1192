//! How the mirror does, for whoever asks.

use std::{collections::BTreeSet, path::PathBuf};

use serde::{Deserialize, Serialize};

/// Paths shown of what was put aside; all are counted.
const ASIDE_SHOWN_MAX: usize = 50;

/// How a role's keeper does.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// When all was as the broker says, by this machine's clock; 0: not yet.
    pub(super) synced_ms: u64,
    /// Threads whose files are to be written.
    pub(super) waiting: usize,
    /// Files in the outbox that are not sent yet.
    pub(super) unsent: usize,
    /// Files that were put aside and are still there.
    pub(super) aside: BTreeSet<PathBuf>,
    pub(super) problem: Option<String>,
    /// Why the broker was of no help.
    pub(super) refused: Option<String>,
    pub(super) is_watched: bool,
}

/// One role's mailbox on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub role: String,
    pub folder: PathBuf,
    /// Threads that have their file.
    pub files: usize,
    /// Threads whose files are to be written.
    pub waiting: usize,
    /// When all was as the broker says, by this machine's clock; 0: not since the node started.
    pub synced_ms: u64,
    /// Files in the outbox that are not sent yet.
    pub unsent: usize,
    /// Files that were in the outbox before the mirror, which does not send them.
    pub before: usize,
    /// How many files were put aside and are still there; some of them.
    pub aside: usize,
    pub aside_paths: Vec<PathBuf>,
    /// Whether the system tells of changed files; else they are looked for.
    pub is_watched: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Report {
    pub(super) fn new(
        role: String,
        folder: PathBuf,
        files: usize,
        before: usize,
        standing: &Standing,
    ) -> Self {
        Self {
            role,
            folder,
            files,
            before,
            waiting: standing.waiting,
            synced_ms: standing.synced_ms,
            unsent: standing.unsent,
            aside: standing.aside.len(),
            aside_paths: standing.aside.iter().take(ASIDE_SHOWN_MAX).cloned().collect(),
            is_watched: standing.is_watched,
            problem: standing.problem.clone().or_else(|| standing.refused.clone()),
        }
    }
}
