//! Where facts are kept: the seam between workspaces and storage.
//!
//! A workspace's writer opens its journal, reads what is there, and appends records in order.
//! Appending is pipelined: [`Writer::append`] only queues; the [`Outcome`] comes later to the
//! listener that the writer was opened with, once for every commit that held its records.
//!
//! **Invariants**
//! - **J1** A record's sequence is the one before plus one; its `previous` is that one's hash.
//! - **J2** [`Outcome::Durable`] says that everything up to that sequence survives a power cut.
//! - **J3** Opening a workspace fences every writer opened before: its appends have no effect.
//! - **J4** A body is written in the same commit as the record that names it, all or none.
//! - **J5** What was written is what is read, or the reader gets [`JournalError::Damaged`].
//! - **J6** A snapshot counts whole or not at all; until it does, the one before does, with all
//!   records after it.
//!
//! Not here: what records mean. To this module a record is bytes; `codec` alone knows what is in
//! them, and `bodies` reads with it.

pub mod bodies;
pub mod codec;
pub mod memory;
mod report;
pub mod sled;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures::future::BoxFuture;
use tasuki_proto::id::{Sequence, WorkspaceId};
use tokio::sync::oneshot;

pub use self::report::{Report, WorkspaceReport};
pub use crate::hash::Hash;
use crate::rules::Fence;

/// One record to append, with the bodies it names.
#[derive(Debug, Clone)]
pub struct Append {
    /// The sequence this record takes (J1).
    pub sequence: Sequence,
    pub record: Bytes,
    pub bodies: Vec<(BodyKey, Bytes)>,
    /// None of these bodies was written before under its name, as with the entries of a history.
    /// Storage then need not look for what is left of a longer one.
    pub are_bodies_new: bool,
}

/// A body's key, in bytes: part of a database key, as a workspace's id is.
pub const BODY_KEY_BYTES_MAX: usize = 200;

/// Names a body within its workspace, e.g. `loop/main/7/text`. At most
/// [`BODY_KEY_BYTES_MAX`], and no zero byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BodyKey(pub String);

impl BodyKey {
    /// Whether every storage can hold it.
    pub fn is_storable(&self) -> bool {
        (1..=BODY_KEY_BYTES_MAX).contains(&self.0.len()) && !self.0.contains('\0')
    }
}

/// What became of records handed to [`Writer::append`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All records up to this one survive a power cut (J2).
    Durable { through: Sequence },
    /// Another writer owns the workspace (J3); none of the records not yet durable ever will be.
    Fenced,
    /// Nobody knows; read back before anything else.
    Ambiguous,
    /// The disk failed. The process must end: nothing after this can be trusted.
    Failed,
}

/// Gets the outcomes, in order. Called from the storage's own thread: be brief.
pub type Listener = Arc<dyn Fn(Outcome) + Send + Sync>;

/// What a workspace's writer starts from.
pub struct Opened {
    pub writer: Box<dyn Writer>,
    /// The latest snapshot.
    pub snapshot: Option<Snapshot>,
    /// The newest durable record; [`Sequence::NONE`] when there is none.
    pub last: Sequence,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("last", &self.last).finish_non_exhaustive()
    }
}

/// A state that was kept, in the pieces it was written in.
pub struct Snapshot {
    /// The record that it includes last.
    pub sequence: Sequence,
    /// Read as they are asked for. The last of them may be followed by an error: what was read
    /// counts only at the end (J6).
    pub pieces: Box<dyn Iterator<Item = Result<Bytes, JournalError>> + Send>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// An append follows the one before, and its bodies have names that every storage can hold.
fn assert_appendable(append: &Append, queued: u64) {
    let sequence = append.sequence.get();
    assert!(sequence == queued + 1, "J1: appended {sequence} after {queued}");
    for (key, _) in &append.bodies {
        let fits = key.is_storable();
        assert!(fits, "a body key has 1 to {BODY_KEY_BYTES_MAX} bytes, none of them zero: {key:?}");
    }
}

/// A snapshot is of records that were queued, and newer than the one before.
fn assert_snapshot(sequence: Sequence, before: u64, queued: u64) {
    let sequence = sequence.get();
    let fits = before < sequence && sequence <= queued;
    assert!(fits, "snapshot of {sequence}, after one of {before} and record {queued}");
}

/// One stored record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    pub sequence: Sequence,
    pub record: Bytes,
}

/// Storage for all workspaces of a broker. Cheap to clone behind an `Arc`.
pub trait Journal: fmt::Debug + Send + Sync + 'static {
    /// Begins to write a workspace, fencing whoever did before (J3). `listener` gets the
    /// outcomes of this writer's appends.
    fn open(
        &self,
        workspace: &WorkspaceId,
        listener: Listener,
    ) -> BoxFuture<'_, Result<Opened, JournalError>>;

    /// Durable records from `from` on, in order, at most `records_max`; fewer or none at the end.
    ///
    /// # Errors
    /// [`JournalError::Compacted`] when `from` is older than what is kept.
    fn read(
        &self,
        workspace: &WorkspaceId,
        from: Sequence,
        records_max: usize,
    ) -> Result<Vec<StoredRecord>, JournalError>;

    /// The latest snapshot of a workspace. Whoever reads it sees to it that none replaces it
    /// meanwhile.
    fn snapshot(&self, workspace: &WorkspaceId) -> Option<Snapshot>;

    /// A body, verified against its hash; `None` when none was ever written under this key.
    fn body(&self, workspace: &WorkspaceId, key: &BodyKey) -> Result<Option<Bytes>, JournalError>;

    /// Whether there is a body whose key begins so. One that was just removed may count.
    fn has_bodies(&self, workspace: &WorkspaceId, begin: &str) -> Result<bool, JournalError>;

    /// All workspaces that have records or a snapshot.
    fn workspaces(&self) -> Vec<WorkspaceId>;

    /// Whether this is one of them.
    fn has(&self, workspace: &WorkspaceId) -> bool;

    /// Workspaces whose oldest needed record keeps more than a bounded number of commits from
    /// being dropped. Writing a snapshot of each frees them.
    fn compaction_blockers(&self) -> Vec<WorkspaceId>;

    /// Of the database, made when it was. Fencing tokens of an older one are void.
    fn incarnation(&self) -> [u8; 16];

    /// Above which numbers that fence begin in a workspace of which there is nothing yet: the
    /// database was restored from a backup.
    fn fence(&self) -> Fence;

    /// Why a write failed, if one did: no other is made after it, and the process ends.
    fn failure(&self) -> Option<JournalError>;

    /// Makes one durable write and says whether it succeeded: a health probe.
    fn probe(&self) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Resolves once everything queued before is durable, and then the storage is closed.
    fn close(&self) -> BoxFuture<'_, Result<(), JournalError>>;
}

/// Appends to one workspace.
pub trait Writer: fmt::Debug + Send + Sync + 'static {
    /// Queues a record behind those queued before. Never blocks; the caller bounds how much it
    /// has in flight.
    fn append(&mut self, append: Append);

    /// Begins a snapshot of the state after `sequence`, a record that was queued. Once it is
    /// finished, records up to `keep_from` (exclusive) may be dropped.
    fn snapshot(&mut self, sequence: Sequence, keep_from: Sequence) -> Box<dyn SnapshotWriter>;

    /// Removes bodies, behind the records queued before. `done` is told once that is durable, and
    /// dropped where it is not done: somebody reads what was there at one moment.
    fn remove(&mut self, bodies: Vec<BodyKey>, done: oneshot::Sender<()>);
}

/// Writes one snapshot, beside the appends of its workspace. Dropped before it is finished, it
/// leaves nothing.
pub trait SnapshotWriter: fmt::Debug + Send {
    /// Says about how many bytes it will have, before the first piece.
    ///
    /// # Errors
    /// When storage has no room for so many: it is better made later than not finished.
    fn prepare(&mut self, bytes: u64) -> Result<(), SnapshotLost> {
        let _ = bytes;
        Ok(())
    }

    /// Writes the next piece, and blocks until it is durable.
    ///
    /// # Errors
    /// When there will be no such snapshot.
    fn piece(&mut self, piece: Bytes) -> Result<(), SnapshotLost>;

    /// Has it take the place of the one before, once that is durable (J6). Blocks until then.
    ///
    /// # Errors
    /// When it does not: the one before stays.
    fn finish(self: Box<Self>) -> Result<(), SnapshotLost>;
}

/// Why a snapshot cannot be finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotLost {
    #[error("the storage was closed or failed, or another writer has the workspace")]
    Gone,
    /// The one before stays, with the records since.
    #[error(
        "it may take {needed_mib} MiB and the disk has {free_mib} MiB left, so it is put off; \
         nothing is lost, but old records stay on the disk: free some space on it"
    )]
    NoRoom { needed_mib: u64, free_mib: u64 },
}

/// A failure of the storage, or what is wrong with what it holds.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// Another process has the data directory.
    #[error("{0} is in use by another broker")]
    InUse(String),
    /// The disk or the engine failed.
    #[error("storage failed: {0}")]
    Storage(String),
    /// What is there is not what was written: where, what was expected, what was found.
    #[error("storage is damaged at {place}: {what}")]
    Damaged { place: String, what: String },
    /// Written by a newer release.
    #[error("{place} was written by a newer release: {what}")]
    Newer { place: String, what: String },
    /// Written before the first release.
    #[error(
        "{place} was written by an earlier pre-release ({what}); start with a new data directory"
    )]
    Older { place: String, what: String },
    /// Records asked for were dropped after a snapshot.
    #[error("records before {oldest} are no longer kept")]
    Compacted { oldest: Sequence },
    /// The storage was closed.
    #[error("storage is closed")]
    Closed,
}
