//! How the mirror does, for whoever asks.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};
use tasuki_proto::mail::MessageId;

/// Paths shown of each kind; all are counted.
const SHOWN_MAX: usize = 50;

/// How a role's keeper does.
#[derive(Debug, Default)]
pub(super) struct SyncStatus {
    /// When all was as the broker says, by this machine's clock; 0: not yet.
    pub(super) synced_ms: u64,
    /// Threads whose files are to be written.
    pub(super) waiting: usize,
    /// Files in the outbox that are not sent yet.
    pub(super) unsent: usize,
    /// Files that were put aside and are still there.
    pub(super) aside: BTreeSet<PathBuf>,
    /// Files that lay in the outbox before it was kept.
    pub(super) before: BTreeSet<PathBuf>,
    /// Files in the outbox that cannot be read, or not taken away, and why.
    pub(super) unread: BTreeMap<PathBuf, String>,
    /// Threads that are too large to be files, and how many entries they had.
    pub(super) too_large: BTreeMap<MessageId, u32>,
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
    /// How many files lay in the outbox before it was kept and are not sent; some of them.
    pub before: usize,
    #[serde(default)]
    pub before_paths: Vec<PathBuf>,
    /// How many files were put aside and are still there; some of them.
    pub aside: usize,
    pub aside_paths: Vec<PathBuf>,
    /// How many files in the outbox cannot be read, or not taken away; some of them, and why.
    #[serde(default)]
    pub unread: usize,
    #[serde(default)]
    pub unread_paths: Vec<(PathBuf, String)>,
    /// Threads that are too large to be files.
    #[serde(default)]
    pub too_large: usize,
    /// Whether the system tells of changed files; else they are looked for.
    pub is_watched: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Report {
    pub(super) fn new(role: String, folder: PathBuf, files: usize, status: &SyncStatus) -> Self {
        let unread = status.unread.iter().map(|(path, why)| (path.clone(), why.clone()));
        Self {
            role,
            folder,
            files,
            before: status.before.len(),
            before_paths: status.before.iter().take(SHOWN_MAX).cloned().collect(),
            waiting: status.waiting,
            synced_ms: status.synced_ms,
            unsent: status.unsent,
            aside: status.aside.len(),
            aside_paths: status.aside.iter().take(SHOWN_MAX).cloned().collect(),
            unread: status.unread.len(),
            unread_paths: unread.take(SHOWN_MAX).collect(),
            too_large: status.too_large.len(),
            is_watched: status.is_watched,
            problem: status.problem.clone().or_else(|| status.refused.clone()),
        }
    }
}
