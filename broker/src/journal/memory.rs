//! A journal in memory, for tests: the same contract, no disk.
//!
//! A clone holds the same records, so that a test can "restart" on it. Outcomes come from
//! within [`Writer::append`] unless they are held back; appends can be made to fail.

use std::{collections::BTreeMap, fmt, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::id::{Sequence, WorkspaceId};
use tokio::sync::oneshot;

use super::{
    Append, BodyKey, Journal, JournalError, Listener, Opened, Outcome, Snapshot, SnapshotLost,
    SnapshotWriter, StoredRecord, Writer,
};
use crate::rules::Fence;

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct MemoryJournal {
    held: Arc<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    workspaces: BTreeMap<WorkspaceId, Kept>,
    is_failing: bool,
    /// Writes whose outcome waits, in order; `None` when nothing is held back.
    waiting: Option<Vec<(Arc<Owner>, What)>>,
    owners: u64,
}

#[derive(Default)]
struct Kept {
    last: u64,
    /// Records before this one were dropped.
    oldest: u64,
    records: BTreeMap<u64, Bytes>,
    bodies: BTreeMap<BodyKey, Bytes>,
    snapshot: Option<(Sequence, Vec<Bytes>)>,
    owner: u64,
}

struct Owner {
    workspace: WorkspaceId,
    number: u64,
    listener: Listener,
}

#[derive(Clone)]
enum What {
    Append(Append),
    Snapshot { sequence: Sequence, pieces: Vec<Bytes>, keep_from: Sequence },
    Remove(Vec<BodyKey>),
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("workspaces", &self.workspaces.len()).finish_non_exhaustive()
    }
}

impl MemoryJournal {
    /// From here on every append fails, as if the disk had; or works again.
    pub fn fail_appends(&self, is_failing: bool) {
        self.held().is_failing = is_failing;
    }

    /// From here on appends are queued only: neither durable nor answered.
    pub fn hold(&self) {
        self.held().waiting.get_or_insert_default();
    }

    /// Makes durable and answers what was held back, and holds nothing back any more.
    pub fn release(&self) {
        let waiting = self.held().waiting.take();
        for (owner, what) in waiting.into_iter().flatten() {
            self.write(owner, what);
        }
    }

    /// Forgets what was held back, as a crash does.
    pub fn forget_held(&self) {
        self.held().waiting = None;
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }

    fn write(&self, owner: Arc<Owner>, what: What) {
        let outcome = self.held().write(&owner, what);
        // The lock is free: a listener may call back.
        if let Some(outcome) = outcome {
            (owner.listener)(outcome);
        }
    }
}

impl Held {
    fn write(&mut self, owner: &Arc<Owner>, what: What) -> Option<Outcome> {
        if let Some(waiting) = &mut self.waiting {
            waiting.push((Arc::clone(owner), what));
            return None;
        }
        if self.is_failing {
            return Some(Outcome::Failed);
        }
        let kept = self.workspaces.get_mut(&owner.workspace)?;
        if kept.owner != owner.number {
            return Some(Outcome::Fenced);
        }
        match what {
            What::Append(append) => {
                let sequence = append.sequence.get();
                assert!(sequence == kept.last + 1, "J1: {sequence} after {}", kept.last);
                kept.last = sequence;
                kept.records.insert(sequence, append.record);
                let known = append.bodies.iter().find(|(key, _)| kept.bodies.contains_key(key));
                assert!(!append.are_bodies_new || known.is_none(), "not a new body: {known:?}");
                kept.bodies.extend(append.bodies);
                Some(Outcome::Durable { through: append.sequence })
            }
            What::Snapshot { sequence, pieces, keep_from } => {
                kept.snapshot = Some((sequence, pieces));
                kept.oldest = kept.oldest.max(keep_from.get().min(sequence.get() + 1));
                kept.records = kept.records.split_off(&kept.oldest);
                None
            }
            What::Remove(bodies) => {
                kept.bodies.retain(|key, _| !bodies.contains(key));
                None
            }
        }
    }
}

impl Journal for MemoryJournal {
    fn open(
        &self,
        workspace: &WorkspaceId,
        listener: Listener,
    ) -> BoxFuture<'_, Result<Opened, JournalError>> {
        let workspace = workspace.clone();
        async move {
            let mut held = self.held();
            held.owners += 1;
            let owner = Arc::new(Owner { workspace, number: held.owners, listener });
            let kept = held.workspaces.entry(owner.workspace.clone()).or_default();
            kept.owner = owner.number;
            kept.oldest = kept.oldest.max(1);
            let (last, snapshot) = (kept.last, kept.snapshot.clone().map(opened));
            drop(held);
            let writer = Box::new(MemoryWriter {
                journal: self.clone(),
                owner,
                queued: last,
                snapshot: snapshot.as_ref().map_or(0, |it| it.sequence.get()),
            });
            Ok(Opened { writer, snapshot, last: last.into() })
        }
        .boxed()
    }

    fn read(
        &self,
        workspace: &WorkspaceId,
        from: Sequence,
        records_max: usize,
    ) -> Result<Vec<StoredRecord>, JournalError> {
        let held = self.held();
        let Some(kept) = held.workspaces.get(workspace) else { return Ok(Vec::new()) };
        if from.get().max(1) < kept.oldest {
            return Err(JournalError::Compacted { oldest: kept.oldest.into() });
        }
        let records = kept.records.range(from.get()..).take(records_max);
        let record = |(sequence, record): (&u64, &Bytes)| StoredRecord {
            sequence: (*sequence).into(),
            record: record.clone(),
        };
        Ok(records.map(record).collect())
    }

    fn snapshot(&self, workspace: &WorkspaceId) -> Option<Snapshot> {
        let held = self.held();
        held.workspaces.get(workspace)?.snapshot.clone().map(opened)
    }

    fn body(&self, workspace: &WorkspaceId, key: &BodyKey) -> Result<Option<Bytes>, JournalError> {
        let held = self.held();
        Ok(held.workspaces.get(workspace).and_then(|kept| kept.bodies.get(key)).cloned())
    }

    fn has_bodies(&self, workspace: &WorkspaceId, begin: &str) -> Result<bool, JournalError> {
        let held = self.held();
        let Some(kept) = held.workspaces.get(workspace) else { return Ok(false) };
        let first = kept.bodies.range(BodyKey(begin.to_owned())..).next();
        Ok(first.is_some_and(|(key, _)| key.0.starts_with(begin)))
    }

    fn workspaces(&self) -> Vec<WorkspaceId> {
        let held = self.held();
        let written = held.workspaces.iter().filter(|(_, kept)| 0 < kept.last);
        written.map(|(id, _)| id.clone()).collect()
    }

    fn has(&self, workspace: &WorkspaceId) -> bool {
        self.held().workspaces.get(workspace).is_some_and(|kept| 0 < kept.last)
    }

    fn compaction_blockers(&self) -> Vec<WorkspaceId> {
        Vec::new()
    }

    fn incarnation(&self) -> [u8; 16] {
        *b"a memory journal"
    }

    fn fence(&self) -> Fence {
        Fence::default()
    }

    fn failure(&self) -> Option<JournalError> {
        let is_failing = self.held().is_failing;
        is_failing.then(|| JournalError::Storage("told to fail".to_owned()))
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        let is_failing = self.held().is_failing;
        async move {
            if is_failing {
                return Err(JournalError::Storage("made to fail".into()));
            }
            Ok(())
        }
        .boxed()
    }

    /// Releases what is held back. The records stay, for the next that opens a clone.
    fn close(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        self.release();
        async { Ok(()) }.boxed()
    }
}

struct MemoryWriter {
    journal: MemoryJournal,
    owner: Arc<Owner>,
    queued: u64,
    snapshot: u64,
}

impl fmt::Debug for MemoryWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryWriter").field("queued", &self.queued).finish_non_exhaustive()
    }
}

impl Writer for MemoryWriter {
    fn append(&mut self, append: Append) {
        super::assert_appendable(&append, self.queued);
        self.queued = append.sequence.get();
        self.journal.write(Arc::clone(&self.owner), What::Append(append));
    }

    fn snapshot(&mut self, sequence: Sequence, keep_from: Sequence) -> Box<dyn SnapshotWriter> {
        super::assert_snapshot(sequence, self.snapshot, self.queued);
        self.snapshot = sequence.get();
        let (journal, owner) = (self.journal.clone(), Arc::clone(&self.owner));
        Box::new(MemorySnapshot { journal, owner, sequence, keep_from, pieces: Vec::new() })
    }

    /// Does not wait for what is held back.
    fn remove(&mut self, bodies: Vec<BodyKey>, done: oneshot::Sender<()>) {
        self.journal.write(Arc::clone(&self.owner), What::Remove(bodies));
        // Whoever asked may be gone.
        let _ = done.send(());
    }
}

fn opened((sequence, pieces): (Sequence, Vec<Bytes>)) -> Snapshot {
    Snapshot { sequence, pieces: Box::new(pieces.into_iter().map(Ok)) }
}

struct MemorySnapshot {
    journal: MemoryJournal,
    owner: Arc<Owner>,
    sequence: Sequence,
    keep_from: Sequence,
    pieces: Vec<Bytes>,
}

impl fmt::Debug for MemorySnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySnapshot").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl SnapshotWriter for MemorySnapshot {
    fn piece(&mut self, piece: Bytes) -> Result<(), SnapshotLost> {
        self.pieces.push(piece);
        Ok(())
    }

    /// Does not wait for what is held back.
    fn finish(self: Box<Self>) -> Result<(), SnapshotLost> {
        let Self { journal, owner, sequence, keep_from, pieces } = *self;
        journal.write(owner, What::Snapshot { sequence, pieces, keep_from });
        Ok(())
    }
}
