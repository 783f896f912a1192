//! How much there is of what in each workspace of a cut.

use std::collections::BTreeMap;

use tasuki_proto::id::{Timestamp, WorkspaceId};

use crate::{
    journal::{
        JournalError, codec,
        sled::{Cut, CutWorkspace},
    },
    workspace::replay_cut,
};

/// Of each workspace.
pub type Counts = BTreeMap<WorkspaceId, WorkspaceCounts>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceCounts {
    /// Of the oldest record kept, and the newest.
    pub oldest: Timestamp,
    pub newest: Timestamp,
    pub loops: u64,
    pub threads: u64,
    pub issues: u64,
    pub tasks: u64,
    pub runs: u64,
    pub nodes: u64,
    /// Tokens that are good, and invitations that are open.
    pub tokens: u64,
    pub invitations: u64,
}

/// Makes the state of each workspace again and counts what is in it.
///
/// # Errors
/// When something cannot be read.
pub fn count(cut: &Cut) -> Result<Counts, JournalError> {
    let counted = |it: CutWorkspace| Ok((it.id.clone(), count_workspace(cut, &it)?));
    cut.workspaces().map(counted).collect()
}

fn count_workspace(cut: &Cut, it: &CutWorkspace) -> Result<WorkspaceCounts, JournalError> {
    let state = replay_cut(cut, it)?;
    let oldest = cut.read(&it.id, it.oldest, 1)?.pop();
    let oldest = oldest.map(|stored| codec::decode_record(stored.record)).transpose();
    let oldest = oldest.map_err(|error| JournalError::Damaged {
        place: format!("{}, record {}", it.id, it.oldest),
        what: error.to_string(),
    })?;
    let (tokens, invitations) = state.access.count_open(state.time);
    Ok(WorkspaceCounts {
        oldest: oldest.map_or(state.time, |record| record.time),
        newest: state.time,
        loops: state.loops.by_id.len() as u64,
        threads: state.mail.threads().len() as u64,
        issues: state.swarm.issues().len() as u64,
        tasks: state.swarm.issues().values().map(|issue| issue.tasks.len() as u64).sum(),
        runs: state.runs.iter().count() as u64,
        nodes: state.directory.nodes.len() as u64,
        tokens,
        invitations,
    })
}
