//! What is in memory of the journal: where each workspace stands, and in which commits its
//! kept records lie.
//!
//! **Invariant:** it grows with the records kept, not with those ever written; a workspace
//! whose snapshot covers everything costs its name and its last record's hash.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tasuki_proto::id::WorkspaceId;

use super::layout;
use crate::{
    journal::{Hash, JournalError},
    rules::Fence,
};

/// Records of one workspace inside one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordSpan {
    pub(super) commit: u64,
    /// The sequence of the first, and how many there are.
    pub(super) first: u64,
    pub(super) count: u32,
    /// Where they lie in the commit's bytes.
    pub(super) offset: u32,
    pub(super) length: u32,
}

impl RecordSpan {
    /// The sequence after the last.
    pub(super) fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SnapshotAt {
    pub(super) sequence: u64,
    /// That no other snapshot has.
    pub(super) number: u64,
    /// Pieces.
    pub(super) count: u32,
    /// The chain of its pieces' hashes.
    pub(super) hash: Hash,
    /// Of the record at `sequence`.
    pub(super) record_hash: Hash,
}

impl SnapshotAt {
    /// Of all its keys.
    pub(super) fn prefix(&self, workspace: &WorkspaceId) -> Vec<u8> {
        layout::pieces_prefix(workspace, self.number)
    }
}

/// Where one workspace's journal stands.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkspaceIndex {
    /// The newest durable record; 0 without one.
    pub(super) last: u64,
    pub(super) last_hash: Hash,
    pub(super) snapshot: Option<SnapshotAt>,
    /// Records before this one may be gone.
    pub(super) oldest: u64,
    pub(super) runs: VecDeque<RecordSpan>,
}

impl WorkspaceIndex {
    /// The commit of the oldest record kept, if any is.
    pub(super) fn oldest_commit(&self) -> Option<u64> {
        self.runs.front().map(|run| run.commit)
    }

    /// Lets go of records before `oldest`.
    pub(super) fn keep_from(&mut self, oldest: u64) {
        self.oldest = self.oldest.max(oldest);
        while self.runs.front().is_some_and(|run| run.end() <= self.oldest) {
            self.runs.pop_front();
        }
        if self.runs.is_empty() {
            self.runs.shrink_to_fit();
        }
    }

    /// The run that holds `sequence`, and those after it.
    pub(super) fn runs_from(&self, sequence: u64) -> impl Iterator<Item = &RecordSpan> {
        let at = self.runs.partition_point(|run| run.end() <= sequence);
        self.runs.range(at..)
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    workspaces: BTreeMap<WorkspaceId, WorkspaceIndex>,
    /// Each workspace that needs commits, by the oldest it needs.
    needed: BTreeSet<(u64, WorkspaceId)>,
    /// Of keys that are to go: snapshots that were replaced, or never finished.
    pub(super) leftovers: BTreeSet<Vec<u8>>,
    /// The oldest commit kept, and the hash of the one before it.
    pub(super) first_commit: u64,
    pub(super) first_previous: Hash,
    /// The newest durable commit.
    pub(super) last_commit: u64,
    pub(super) last_hash: Hash,
    /// Of the database.
    pub(super) fence: Fence,
}

impl Index {
    pub(super) fn get(&self, workspace: &WorkspaceId) -> Option<&WorkspaceIndex> {
        self.workspaces.get(workspace)
    }

    /// Changes a workspace's standing in place; one that is not there begins empty.
    pub(super) fn update(
        &mut self,
        workspace: &WorkspaceId,
        change: impl FnOnce(&mut WorkspaceIndex),
    ) {
        let mut standing = self.workspaces.remove(workspace).unwrap_or_default();
        let before = standing.oldest_commit();
        change(&mut standing);
        let after = standing.oldest_commit();
        if before != after {
            if let Some(oldest) = before {
                self.needed.remove(&(oldest, workspace.clone()));
            }
            if let Some(oldest) = after {
                self.needed.insert((oldest, workspace.clone()));
            }
        }
        self.workspaces.insert(workspace.clone(), standing);
    }

    /// In which commits `records_max` records of a workspace lie, from `from` on.
    ///
    /// # Errors
    /// [`JournalError::Compacted`] when `from` is older than what is kept.
    pub(super) fn spans(
        &self,
        workspace: &WorkspaceId,
        from: u64,
        records_max: usize,
    ) -> Result<Vec<RecordSpan>, JournalError> {
        let Some(standing) = self.get(workspace) else { return Ok(Vec::new()) };
        if from < standing.oldest {
            return Err(JournalError::Compacted { oldest: standing.oldest.into() });
        }
        let end = from.saturating_add(records_max as u64);
        Ok(standing.runs_from(from).take_while(|run| run.first < end).copied().collect())
    }

    pub(super) fn workspaces(&self) -> impl Iterator<Item = (&WorkspaceId, &WorkspaceIndex)> {
        self.workspaces.iter()
    }

    /// Commits before this one are of no use. The newest always stays.
    pub(super) fn needed_from(&self) -> u64 {
        self.needed.first().map_or(self.last_commit, |(commit, _)| *commit)
    }

    /// Workspaces that need a commit older than `commit`.
    pub(super) fn needing_before(&self, commit: u64) -> impl Iterator<Item = &WorkspaceId> {
        self.needed.iter().take_while(move |(oldest, _)| *oldest < commit).map(|(_, id)| id)
    }
}
