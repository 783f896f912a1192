//! What the operator says of commands that agents run. Pure.

use std::{path::PathBuf, time::Duration};

use crate::{
    accept::allowed::Pattern,
    process::policy::{Kind, Policy, SINKS, SYSTEM},
};

/// How long a command may run unless configured, and the longest.
pub const LIMIT: Duration = Duration::from_secs(600);
pub const LIMIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Memory that one process may have written to unless configured, in MiB.
pub const MEMORY_MB: u64 = 4 * 1024;
pub const MEMORY_MB_MAX: u64 = 1024 * 1024;

/// One file that a command writes unless configured, in MiB.
pub const FILE_MB: u64 = 1024;
pub const FILE_MB_MAX: u64 = 16 * 1024;

/// Processes and threads of the user while a command runs, unless configured; others of the user's
/// count, too.
pub const PROCESSES: u64 = 4096;
pub const PROCESSES_MAX: u64 = 16 * 1024;

/// Commands that run at once unless configured, and the most.
pub const PLACES: usize = 4;
pub const PLACES_MAX: usize = 32;

/// What roles with the toolset `commands` may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSettings {
    pub allow: Vec<Pattern>,
    /// Read beside the system's own directories and the root.
    pub read: Vec<PathBuf>,
    /// Directories below the root that may be written to; they are made where they are missing.
    pub write: Vec<String>,
    /// Variables that are passed on: as they are, or with a value.
    pub env: Vec<(String, Option<String>)>,
    pub kind: Kind,
    /// Of one command.
    pub limit: Duration,
    /// `None`: no limit.
    pub memory_mb: Option<u64>,
    pub file_mb: u64,
    pub processes: u64,
    pub places: usize,
}

impl Default for CommandSettings {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            read: Vec::new(),
            write: Vec::new(),
            env: Vec::new(),
            kind: Kind::default(),
            limit: LIMIT,
            memory_mb: Some(MEMORY_MB),
            file_mb: FILE_MB,
            processes: PROCESSES,
            places: PLACES,
        }
    }
}

impl CommandSettings {
    /// What a command may touch that runs for so long at most: it reads `root` and writes to `own`.
    pub fn policy(&self, root: PathBuf, own: Vec<PathBuf>, limit: Duration) -> Policy {
        let read = SYSTEM.iter().map(PathBuf::from).chain(self.read.iter().cloned());
        Policy {
            kind: self.kind,
            read: read.chain([root]).collect(),
            write: SINKS.iter().map(PathBuf::from).chain(own).collect(),
            is_network_open: false,
            has_unix_sockets: false,
            memory_bytes: self.memory_mb.map(|it| it << 20),
            // A process has no more time than the command.
            cpu_sec: Some(limit.as_secs().max(1)),
            file_bytes: Some(self.file_mb << 20),
            processes: Some(self.processes),
        }
    }
}
