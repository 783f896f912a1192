//! The one thread that writes: group commit for all workspaces.
//!
//! It takes everything that arrived while the disk was busy and writes it as one commit: a frame of
//! the log, `fdatasync`, then the database, and only then the listeners. Appends never wait for it;
//! whoever queues them bounds how many it has in flight.
//!
//! **Invariants**
//! - Nobody is told [`Outcome::Durable`] before the frame of that commit is synced and its rows can
//!   be read.
//! - After any error nothing is written and nothing acknowledged: an fsync that failed once
//!   may succeed on the next try with the data gone.

use std::{
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, TryRecvError},
    },
    time::Duration,
};

use tasuki_proto::id::WorkspaceId;
use tokio::{sync::oneshot, time::Instant};

use super::{
    Durability, Shared,
    commit_builder::CommitBuilder,
    cut::Cut,
    engine::{Engine, panic_text},
    index::SnapshotAt,
    layout,
    log::{Log, Rows},
    snapshot::{Row, Told, Written},
    syncer::Syncer,
};
use crate::{
    journal::{Append, BodyKey, Hash, JournalError, Listener, Outcome},
    metrics::micros,
};

/// Records and bodies of one commit, in bytes, except that one append always fits. More would
/// make early callers wait for late ones.
const COMMIT_BYTES_MAX: usize = 1024 * 1024;

/// What an append or snapshot takes besides its own bytes, roughly: entry, header and keys.
const REQUEST_BYTES: usize = 128;

/// With this many droppable commits the committer drops them by itself when it has nothing
/// else to do. Fewer wait for the next commit.
const DROP_COMMITS_MIN: u64 = 64;

pub(super) enum Request {
    Write(Write),
    Control(Control),
}

/// What becomes part of a commit.
pub(super) struct Write {
    pub(super) owner: Arc<Owner>,
    pub(super) what: What,
}

pub(super) enum What {
    Append(Append),
    /// Of a snapshot.
    Pieces {
        rows: Vec<Row>,
        told: Told,
    },
    /// All its pieces are written: it counts.
    Snapshot {
        written: Written,
        told: Told,
    },
    /// `done` is told once they are gone.
    Remove {
        bodies: Vec<BodyKey>,
        done: oneshot::Sender<()>,
    },
}

/// What is done alone, in its turn.
pub(super) enum Control {
    Open {
        workspace: WorkspaceId,
        listener: Listener,
        reply: Reply<Begun>,
    },
    /// Pieces of a snapshot that will not be finished, by what their keys begin with.
    Forget {
        leftover: Vec<u8>,
    },
    Probe(Reply<()>),
    Cut(Reply<Cut>),
    Close(Reply<()>),
}

enum Turn {
    Commit(Vec<Write>),
    Alone(Control),
}

type Reply<T> = oneshot::Sender<Result<T, JournalError>>;

/// A workspace's writer and where it begins.
pub(super) struct Begun {
    pub(super) owner: Arc<Owner>,
    pub(super) last: u64,
    pub(super) snapshot: Option<SnapshotAt>,
}

/// Who writes a workspace, until the next opens it.
pub(super) struct Owner {
    pub(super) workspace: WorkspaceId,
    listener: Listener,
    is_fenced: AtomicBool,
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

impl Owner {
    pub(super) fn fail(&self) {
        (self.listener)(Outcome::Failed);
    }

    fn fence(&self) {
        if !self.is_fenced.swap(true, Ordering::Relaxed) {
            (self.listener)(Outcome::Fenced);
        }
    }
}

impl Write {
    fn bytes(&self) -> usize {
        let own = match &self.what {
            What::Append(append) => {
                let bodies = append.bodies.iter().map(|(_, body)| REQUEST_BYTES + body.len());
                append.record.len() + bodies.sum::<usize>()
            }
            What::Pieces { rows, .. } => rows.iter().map(|(_, it)| REQUEST_BYTES + it.len()).sum(),
            What::Snapshot { .. } => 0,
            What::Remove { bodies, .. } => bodies.iter().map(|it| REQUEST_BYTES + it.0.len()).sum(),
        };
        REQUEST_BYTES + own
    }
}

pub(super) struct Committer {
    shared: Arc<Shared>,
    log: Log,
    syncer: Arc<Syncer>,
    durability: Durability,
    requests: Receiver<Request>,
    /// Taken from the queue and left for the next turn.
    carried: Option<Request>,
}

impl Committer {
    pub(super) fn new(
        shared: Arc<Shared>,
        log: Log,
        syncer: Arc<Syncer>,
        durability: Durability,
        requests: Receiver<Request>,
    ) -> Self {
        Self { shared, log, syncer, durability, requests, carried: None }
    }

    /// Works until it is closed, or nobody is left who could ask for anything.
    pub(super) fn run(mut self) {
        while let Some(turn) = self.collect() {
            match turn {
                Turn::Commit(group) => self.commit(group),
                Turn::Alone(Control::Open { workspace, listener, reply }) => {
                    // Whoever asked may have gone without waiting; so below.
                    let _ = reply.send(self.open(workspace, listener));
                }
                Turn::Alone(Control::Forget { leftover }) => {
                    self.shared.index_mut().leftovers.insert(leftover);
                }
                Turn::Alone(Control::Probe(reply)) => {
                    let _ = reply.send(self.probe());
                }
                Turn::Alone(Control::Cut(reply)) => {
                    // It goes over the database, which must have everything.
                    let is_there = self.syncer.sync_all();
                    let _ = reply.send(is_there.and_then(|()| Cut::new(&self.shared)));
                }
                Turn::Alone(Control::Close(reply)) => {
                    let _ = reply.send(self.shared.close());
                    return;
                }
            }
        }
        if let Err(error) = self.shared.close() {
            tracing::error!(%error, "the journal did not close");
        }
    }

    /// What the next turn is about; `None` at the end. An empty commit only drops old ones.
    fn collect(&mut self) -> Option<Turn> {
        let first = match self.carried.take() {
            Some(request) => request,
            None => match self.requests.try_recv() {
                Ok(request) => request,
                Err(TryRecvError::Empty) if self.has_something_to_drop() => {
                    return Some(Turn::Commit(Vec::new()));
                }
                Err(TryRecvError::Empty) => self.requests.recv().ok()?,
                Err(TryRecvError::Disconnected) => return None,
            },
        };
        let first = match first {
            Request::Write(write) => write,
            Request::Control(control) => return Some(Turn::Alone(control)),
        };
        let mut bytes = first.bytes();
        let mut group = vec![first];
        while let Ok(next) = self.requests.try_recv() {
            match next {
                Request::Write(write) if bytes + write.bytes() <= COMMIT_BYTES_MAX => {
                    bytes += write.bytes();
                    group.push(write);
                }
                next @ (Request::Write(_) | Request::Control(_)) => {
                    self.carried = Some(next);
                    break;
                }
            }
        }
        Some(Turn::Commit(group))
    }

    fn has_something_to_drop(&self) -> bool {
        let index = self.shared.index();
        self.shared.failure().is_none()
            && (index.first_commit + DROP_COMMITS_MIN <= index.needed_from()
                || !index.leftovers.is_empty())
            && self.shared.cuts().is_empty()
    }

    fn open(&mut self, workspace: WorkspaceId, listener: Listener) -> Result<Begun, JournalError> {
        self.shared.engine()?;
        let is_fenced = AtomicBool::new(false);
        let owner = Arc::new(Owner { workspace: workspace.clone(), listener, is_fenced });
        let before = self.shared.owners.lock().insert(workspace, Arc::downgrade(&owner));
        if let Some(before) = before.and_then(|before| before.upgrade()) {
            before.fence();
        }
        // Whoever failed meanwhile did not know of this one.
        self.shared.engine()?;
        let index = self.shared.index();
        let standing = index.get(&owner.workspace);
        let last = standing.map_or(0, |standing| standing.last);
        let snapshot = standing.and_then(|standing| standing.snapshot);
        drop(index);
        Ok(Begun { owner, last, snapshot })
    }

    fn probe(&mut self) -> Result<(), JournalError> {
        let mut rows = Rows::default();
        rows.insert(layout::PROBE, []);
        let written = self.shared.engine().and_then(|engine| self.write(&engine, rows, None));
        if let Err(error) = &written {
            self.shared.fail(error);
        }
        written.map(drop)
    }

    fn commit(&mut self, group: Vec<Write>) {
        self.shared.metrics.queue.leave(group.len() as u64);
        if self.shared.failure().is_some() {
            return;
        }
        let result = catch_unwind(AssertUnwindSafe(|| self.try_commit(group)));
        let result = result.unwrap_or_else(|panic| {
            Err(JournalError::Storage(format!("panicked: {}", panic_text(panic.as_ref()))))
        });
        if let Err(error) = result {
            self.shared.fail(&error);
        }
    }

    /// Makes rows durable, and then readable. Says how long the sync took.
    fn write(
        &mut self,
        engine: &Engine,
        rows: Rows,
        commit: Option<(u64, Hash)>,
    ) -> Result<Duration, JournalError> {
        let (syncer, rows) = (&self.syncer, rows.into_bytes());
        let position = self.log.append(&rows, commit, |frame| syncer.sync_through(frame))?;
        let began = Instant::now();
        match self.durability {
            Durability::Synced => self.log.sync()?,
            Durability::Unsynced => {}
        }
        let synced = began.elapsed();
        engine.recent().add(&position, &rows);
        syncer.wrote(position.number, rows.len())?;
        Ok(synced)
    }

    fn try_commit(&mut self, group: Vec<Write>) -> Result<(), JournalError> {
        let (engine, metrics) = (self.shared.engine()?, Arc::clone(&self.shared.metrics));
        let (began, mut records, mut bytes) = (Instant::now(), 0, 0);
        let mut writers: BTreeMap<WorkspaceId, Arc<Owner>> = BTreeMap::new();
        let (mut told_of_pieces, mut told, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        let was_asked = !group.is_empty();
        let index = self.shared.index();
        let cuts = self.shared.cuts();
        let mut stage = CommitBuilder::new(&engine, &index, self.shared.incarnation, &cuts);
        for write in group {
            let size = write.bytes();
            let Write { owner, what } = write;
            let current = self.shared.owners.lock().get(&owner.workspace).map(Weak::as_ptr);
            if current != Some(Arc::as_ptr(&owner)) {
                owner.fence();
                continue;
            }
            bytes += size;
            match what {
                What::Append(append) => {
                    records += 1;
                    stage.append(&owner.workspace, append)?;
                    writers.insert(owner.workspace.clone(), owner);
                }
                What::Pieces { rows, told } => {
                    stage.pieces(rows);
                    told_of_pieces.push(told);
                }
                What::Snapshot { written, told: tell } => {
                    stage.snapshot(&owner.workspace, &written)?;
                    told.push(tell);
                }
                // A cut has them.
                What::Remove { .. } if !cuts.is_empty() => {}
                What::Remove { bodies, done } => {
                    stage.remove(&owner.workspace, bodies)?;
                    removed.push(done);
                }
            }
        }
        if was_asked && stage.is_empty() {
            // All of it came from writers that are fenced.
            return Ok(());
        }
        let ready = stage.finish()?;
        drop(index);
        let synced = match ready.rows.is_empty() {
            true => Duration::ZERO,
            false => self.write(&engine, ready.rows, ready.outcome.commit)?,
        };
        // Behind the first record of their workspace, without which they would belong to nothing.
        if !told_of_pieces.is_empty() {
            self.syncer.write_pieces(ready.pieces, told_of_pieces);
        }
        ready.outcome.apply(&mut self.shared.index_mut());
        metrics.bytes.add(bytes as u64);
        metrics.records.observe(records);
        metrics.seconds.observe(micros(began.elapsed()));
        metrics.sync_seconds.observe(micros(synced));
        for told in told {
            // There is room for one word; whoever waits for it may be gone.
            let _ = told.try_send(());
        }
        for done in removed {
            let _ = done.send(());
        }
        for change in &ready.outcome.changes {
            if let Some(owner) = writers.get(&change.workspace) {
                (owner.listener)(Outcome::Durable { through: change.last.into() });
            }
        }
        Ok(())
    }
}
