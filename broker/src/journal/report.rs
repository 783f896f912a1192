//! What a deep check of a journal found.

use std::collections::BTreeMap;

use tasuki_proto::id::WorkspaceId;

/// What a journal holds that was found whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub incarnation: [u8; 16],
    /// The oldest commit kept and the newest.
    pub first_commit: u64,
    pub last_commit: u64,
    pub workspaces: BTreeMap<WorkspaceId, WorkspaceReport>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceReport {
    /// The newest record's sequence, and how many are kept.
    pub last: u64,
    pub records: u64,
    /// The record that the snapshot includes last; 0 without one.
    pub snapshot: u64,
    pub bodies: u64,
    pub bytes: Bytes,
    /// BLAKE3 over the snapshot, each record and each body, to compare two checks.
    pub digest: [u8; 32],
}

/// How much of a workspace is what, before the engine adds its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes {
    pub records: u64,
    pub snapshot: u64,
    pub bodies: u64,
}

impl Bytes {
    pub fn all(self) -> u64 {
        self.records + self.snapshot + self.bodies
    }
}

impl Report {
    pub fn records(&self) -> u64 {
        self.workspaces.values().map(|workspace| workspace.records).sum()
    }

    pub fn bodies(&self) -> u64 {
        self.workspaces.values().map(|workspace| workspace.bodies).sum()
    }
}
