//! The journal on sled: one database for all workspaces of a broker, and what sled does not
//! promise added on top.
//!
//! - `layout`: keys, values, parts; `lock`, `log`: what is beside the database.
//! - `engine`: sled opened and written so that it keeps its word; `open`: creating and opening.
//! - `mark`: what stood beside the database before there was the log.
//! - `index`: what of the journal is in memory.
//! - `commit_builder`, `committer`: one commit, and the thread that writes them; `syncer`: the one
//!   that syncs the database behind it.
//! - `snapshot`: snapshots written and read piece by piece.
//! - `recent`: what the log has and the database has not yet.
//! - `read`, `check`, `verify`: reading back, what start-up verifies, and the deep check.
//! - `cut`: reading all of one moment while others write; `restore`: writing a database from it;
//!   `swap`: putting that in the place of the one it was made of.
//!
//! **Invariants**
//! - **DB1** One thread writes, one frame of the log per commit; what it acknowledged is on disk.
//! - **DB2** Commits are numbered without gaps and each carries the hash of the one before; so
//!   do the records of a workspace. The newest number stands outside the database too, in the log.
//! - **DB3** Damage is refused with its place. Nothing is skipped, cut off or guessed.

mod check;
mod commit_builder;
mod committer;
mod cut;
mod engine;
#[cfg(test)]
mod goldens;
mod index;
mod layout;
mod lock;
mod log;
mod mark;
mod open;
mod read;
mod recent;
mod restore;
mod snapshot;
mod swap;
mod syncer;
mod verify;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tasuki_proto::id::{Sequence, WorkspaceId};
use tokio::sync::{oneshot, watch};

use self::{
    committer::{Begun, Committer, Control, Owner, Request, What, Write},
    cut::Marks,
    engine::{Engine, guarded, storage},
    index::Index,
    lock::Lock,
    snapshot::PieceWriter,
    syncer::Syncer,
};
pub use self::{
    cut::{Cut, CutWorkspace},
    layout::PART_BYTES_MAX,
    log::LOG_SEGMENT_BYTES,
    restore::{Restoring, RestoringWorkspace},
    swap::{Rewriting, staging},
    verify::{Repaired, check_log, is_used, repair_log, verify, verify_with_progress},
};
use super::{
    Append, BodyKey, Hash, Journal, JournalError, Listener, Opened, Snapshot, SnapshotWriter,
    StoredRecord, Writer,
};
use crate::{metrics::CommitMetrics, rules::Fence};

/// A workspace is named by [`Journal::compaction_blockers`] once its oldest record keeps more
/// commits than this from being dropped: about a minute of a busy broker, some 20 MB at start-up.
pub const PIN_COMMITS_MAX: u64 = 20_000;

/// Whether an acknowledged commit was synced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    #[default]
    Synced,
    /// Leaves the sync of the log out. Only for a test that must see the loss.
    Unsynced,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    pub durability: Durability,
}

/// A broker's journal in a data directory.
#[derive(Debug, Clone)]
pub struct SledJournal {
    shared: Arc<Shared>,
    requests: mpsc::Sender<Request>,
}

/// What the committer and the readers have in common.
struct Shared {
    dir: PathBuf,
    incarnation: [u8; 16],
    index: RwLock<Index>,
    /// Gone once closed.
    engine: RwLock<Option<Arc<Engine>>>,
    lock: Mutex<Option<Lock>>,
    failure: watch::Sender<Option<JournalError>>,
    /// The number of the next snapshot.
    snapshots: AtomicU64,
    /// Who writes each workspace.
    owners: Mutex<BTreeMap<WorkspaceId, Weak<Owner>>>,
    /// Gone once closed.
    syncing: Mutex<Option<(Arc<Syncer>, JoinHandle<()>)>>,
    /// What is read of one moment.
    cuts: Mutex<Vec<Weak<Marks>>>,
    metrics: Arc<CommitMetrics>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Shared {
    // A panic while one of these is held leaves nothing half changed that is read afterwards:
    // the committer latches its failure.
    fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read()
    }

    fn index_mut(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write()
    }

    /// Cuts that somebody still reads.
    fn cuts(&self) -> Vec<Arc<Marks>> {
        let mut cuts = self.cuts.lock();
        cuts.retain(|it| 0 < it.strong_count());
        cuts.iter().filter_map(Weak::upgrade).collect()
    }

    fn failure(&self) -> Option<JournalError> {
        self.failure.borrow().clone()
    }

    /// Latches the failure and tells everyone who writes. There is no way back.
    fn fail(&self, error: &JournalError) {
        if self.failure().is_some() {
            return;
        }
        tracing::error!(%error, "the journal failed");
        self.failure.send_replace(Some(error.clone()));
        if let Some((syncer, _)) = &*self.syncing.lock() {
            syncer.give_up(error);
        }
        let owners: Vec<_> = self.owners.lock().values().filter_map(Weak::upgrade).collect();
        owners.iter().for_each(|owner| owner.fail());
    }

    fn engine(&self) -> Result<Arc<Engine>, JournalError> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let engine = self.engine.read();
        engine.clone().ok_or(JournalError::Closed)
    }

    /// Gives the directory back. Readers still at work keep the engine until they are done.
    fn close(&self) -> Result<(), JournalError> {
        let syncing = self.syncing.lock().take();
        if let Some((syncer, thread)) = syncing {
            match syncer.close() {
                // What panics in there was latched as what it means.
                Ok(()) => drop(thread.join()),
                // It may be in there for ever.
                Err(why) => self.fail(&why),
            }
        }
        let engine = self.engine.write().take();
        let closed = match (self.failure(), engine.map(Arc::try_unwrap)) {
            // Letting go of sled would make it write once more.
            (Some(_), engine) => {
                std::mem::forget(engine);
                Ok(())
            }
            (None, Some(Ok(engine))) => {
                engine.close().map_err(|error| storage("closing the database", &error))
            }
            (None, Some(Err(_)) | None) => Ok(()),
        };
        self.lock.lock().take();
        self.failure().map_or(closed, Err)
    }
}

impl SledJournal {
    /// Opens the journal in `dir`, making it when there is none, and verifies it.
    ///
    /// # Errors
    /// [`JournalError::InUse`] when another broker has the directory;
    /// [`JournalError::Damaged`] or [`JournalError::Newer`] when it holds anything but what was
    /// written to it.
    pub fn open(dir: &Path, options: Options) -> Result<Self, JournalError> {
        Self::start(open::open(dir, false)?, dir, options)
    }

    /// The same of one whose log was [replaced](repair_log), so that the repair can be finished.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn open_repaired(dir: &Path) -> Result<Self, JournalError> {
        Self::start(open::open(dir, true)?, dir, Options::default())
    }

    fn start(opened: open::Open, dir: &Path, options: Options) -> Result<Self, JournalError> {
        let open::Open { lock, engine, log, checked } = opened;
        let (engine, synced) = (Arc::new(engine), log.end().number);
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            incarnation: checked.incarnation,
            index: RwLock::new(checked.index),
            engine: RwLock::new(Some(Arc::clone(&engine))),
            lock: Mutex::new(Some(lock)),
            failure: watch::Sender::new(None),
            snapshots: AtomicU64::new(checked.next_snapshot),
            owners: Mutex::default(),
            syncing: Mutex::default(),
            cuts: Mutex::default(),
            metrics: Arc::default(),
        });
        // Bounded by whoever appends: each writer limits what it has in flight.
        let (requests, queue) = mpsc::channel();
        let failing = Arc::downgrade(&shared);
        let (syncer, thread) = Syncer::start(engine, synced, move |error| {
            if let Some(shared) = failing.upgrade() {
                shared.fail(error);
            }
        })?;
        *shared.syncing.lock() = Some((Arc::clone(&syncer), thread));
        let durability = options.durability;
        let committer = Committer::new(Arc::clone(&shared), log, syncer, durability, queue);
        std::thread::Builder::new()
            .name("journal".into())
            .spawn(|| committer.run())
            .map_err(|error| storage("starting the committer", &error))?;
        Ok(Self { shared, requests })
    }

    /// Resolves when the storage failed, with what happened. The process must end then.
    pub fn failed(&self) -> BoxFuture<'static, JournalError> {
        let mut failure = self.shared.failure.subscribe();
        async move {
            let failed = failure.wait_for(Option::is_some).await.ok().and_then(|it| it.clone());
            match failed {
                Some(error) => error,
                // Closed without a failure: there will be none.
                None => std::future::pending().await,
            }
        }
        .boxed()
    }

    /// What the committer counts.
    pub fn metrics(&self) -> Arc<CommitMetrics> {
        Arc::clone(&self.shared.metrics)
    }

    /// Everything that is durable, to be read while others write.
    ///
    /// # Errors
    /// When the storage is closed or failed.
    pub async fn cut(&self) -> Result<Cut, JournalError> {
        self.ask(Control::Cut).await
    }

    /// The directory that it is in.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// How many commits were written since the database was made.
    pub fn commits(&self) -> u64 {
        self.shared.index().last_commit
    }

    /// The bodies whose keys come after this one, or the first, in order, each with its length; none
    /// at the end.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn body_names(
        &self,
        workspace: &WorkspaceId,
        after: Option<&BodyKey>,
    ) -> Result<Vec<(BodyKey, u64)>, JournalError> {
        let engine = self.shared.engine()?;
        // It goes over the database, which must have everything.
        let syncer = self.shared.syncing.lock().as_ref().map(|(syncer, _)| Arc::clone(syncer));
        syncer.ok_or(JournalError::Closed)?.sync_all()?;
        let names = || read::body_names(&engine, workspace, after, |_| true);
        guarded(&self.shared.dir, names)
    }

    fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, JournalError>>) -> Control,
    ) -> impl Future<Output = Result<T, JournalError>> + Send + 'static {
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.send(Request::Control(request(reply)));
        async move {
            sent.map_err(|_| JournalError::Closed)?;
            answer.await.unwrap_or(Err(JournalError::Closed))
        }
    }
}

impl Journal for SledJournal {
    fn open(
        &self,
        workspace: &WorkspaceId,
        listener: Listener,
    ) -> BoxFuture<'_, Result<Opened, JournalError>> {
        let workspace = workspace.clone();
        let begun = self.ask(|reply| Control::Open { workspace, listener, reply });
        async move {
            let Begun { owner, last, snapshot } = begun.await?;
            // Only this writer can replace the snapshot, so it is still there.
            let own = owner.workspace.clone();
            let state = snapshot.map(|at| snapshot::open(&self.shared, own, at));
            let writer = Box::new(SledWriter {
                shared: Arc::clone(&self.shared),
                owner,
                requests: self.requests.clone(),
                queued: last,
                snapshot: snapshot.map_or(0, |at| at.sequence),
            });
            Ok(Opened { writer, snapshot: state, last: last.into() })
        }
        .boxed()
    }

    fn read(
        &self,
        workspace: &WorkspaceId,
        from: Sequence,
        records_max: usize,
    ) -> Result<Vec<StoredRecord>, JournalError> {
        let from = from.get().max(1);
        let engine = self.shared.engine()?;
        loop {
            let runs = self.shared.index().spans(workspace, from, records_max)?;
            let read = || read::records(&engine, workspace, from, records_max, &runs);
            if let Some(records) = guarded(&self.shared.dir, read)? {
                return Ok(records);
            }
            // A commit is gone. Dropped meanwhile, then the index says so too.
            if self.shared.index().spans(workspace, from, records_max)? == runs {
                let place = format!("{workspace}, record {from}");
                return Err(read::damaged(place, "a commit that holds it is missing"));
            }
        }
    }

    fn snapshot(&self, workspace: &WorkspaceId) -> Option<Snapshot> {
        let at = self.shared.index().get(workspace)?.snapshot?;
        Some(snapshot::open(&self.shared, workspace.clone(), at))
    }

    fn body(&self, workspace: &WorkspaceId, key: &BodyKey) -> Result<Option<Bytes>, JournalError> {
        let engine = self.shared.engine()?;
        guarded(&self.shared.dir, || read::body(&engine, workspace, key))
    }

    fn has_bodies(&self, workspace: &WorkspaceId, begin: &str) -> Result<bool, JournalError> {
        let engine = self.shared.engine()?;
        guarded(&self.shared.dir, || read::has_bodies(&engine, workspace, begin))
    }

    fn workspaces(&self) -> Vec<WorkspaceId> {
        self.shared.index().workspaces().map(|(id, _)| id.clone()).collect()
    }

    fn has(&self, workspace: &WorkspaceId) -> bool {
        self.shared.index().get(workspace).is_some()
    }

    fn compaction_blockers(&self) -> Vec<WorkspaceId> {
        let index = self.shared.index();
        let newest = index.last_commit.saturating_sub(PIN_COMMITS_MAX);
        index.needing_before(newest).cloned().collect()
    }

    fn incarnation(&self) -> [u8; 16] {
        self.shared.incarnation
    }

    fn fence(&self) -> Fence {
        self.shared.index().fence
    }

    fn failure(&self) -> Option<JournalError> {
        self.shared.failure()
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        self.ask(Control::Probe).boxed()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        self.ask(Control::Close).boxed()
    }
}

struct SledWriter {
    shared: Arc<Shared>,
    owner: Arc<Owner>,
    requests: mpsc::Sender<Request>,
    /// The record queued last.
    queued: u64,
    snapshot: u64,
}

impl fmt::Debug for SledWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledWriter").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl SledWriter {
    fn write(&self, what: What) {
        let write = Write { owner: Arc::clone(&self.owner), what };
        self.shared.metrics.queue.enter();
        // Closed: there will be no outcome, as with a process that ended.
        let _ = self.requests.send(Request::Write(write));
    }
}

impl Writer for SledWriter {
    fn append(&mut self, append: Append) {
        super::assert_appendable(&append, self.queued);
        self.queued = append.sequence.get();
        self.write(What::Append(append));
    }

    fn snapshot(&mut self, sequence: Sequence, keep_from: Sequence) -> Box<dyn SnapshotWriter> {
        super::assert_snapshot(sequence, self.snapshot, self.queued);
        self.snapshot = sequence.get();
        Box::new(PieceWriter {
            shared: Arc::clone(&self.shared),
            owner: Arc::clone(&self.owner),
            requests: self.requests.clone(),
            sequence: sequence.get(),
            keep_from: keep_from.get(),
            number: self.shared.snapshots.fetch_add(1, Ordering::Relaxed),
            count: 0,
            hash: Hash::default(),
            is_over: false,
        })
    }

    fn remove(&mut self, bodies: Vec<BodyKey>, done: oneshot::Sender<()>) {
        self.write(What::Remove { bodies, done });
    }
}
