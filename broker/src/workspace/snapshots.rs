//! Snapshots are made beside the actors: by one thread for all workspaces, one after the other.
//!
//! A small state is copied by its actor, which takes a millisecond at most. A large one is made
//! again here, from the snapshot before and the records since, so that its actor does nothing and
//! no command waits; that costs the memory of one more such state meanwhile, and no more, since
//! there is one thread. The thread yields to the rest of the broker.
//!
//! Not here: when a snapshot is due, and what becomes of it (`state`).

use std::{
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
};

use bytes::Bytes;
use tasuki_proto::id::{Sequence, WorkspaceId};
use tokio::time::Instant;
use tracing::debug;

use super::state::replay;
use crate::{
    journal::{Journal, JournalError, SnapshotLost, SnapshotWriter, codec},
    rules::Workspace,
};

/// How much less than others the thread asks for of a busy processor.
const NICENESS: i32 = 10;

/// A snapshot to be made.
pub(super) struct Job {
    pub(super) workspace: WorkspaceId,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) source: Source,
    /// About how many it will have.
    pub(super) bytes: u64,
    pub(super) writer: Box<dyn SnapshotWriter>,
    /// Called with how many bytes it has, or why there is none.
    pub(super) done: Box<dyn FnOnce(Result<u64, Failure>) + Send>,
}

/// Where the state comes from.
pub(super) enum Source {
    Copy(Box<Workspace>),
    /// What the journal has up to this record.
    Journal(Sequence),
}

/// Why there is no new snapshot.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Read(#[from] JournalError),
    #[error(transparent)]
    Lost(#[from] SnapshotLost),
    #[error("making it panicked")]
    Panicked,
}

/// Has snapshots made. Cheap to clone; the thread ends with the last.
#[derive(Clone)]
pub(super) struct Snapshots {
    /// Bounded by the workspaces that are awake: each has one job at a time.
    jobs: mpsc::Sender<Job>,
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshots").finish_non_exhaustive()
    }
}

impl Snapshots {
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let run = move || {
            if let Err(error) = rustix::process::nice(NICENESS) {
                debug!(%error, "snapshots are as important as the rest");
            }
            queue.into_iter().for_each(Job::run);
        };
        thread::Builder::new().name("snapshots".to_owned()).spawn(run)?;
        Ok(Self { jobs })
    }

    /// Queues a job.
    pub(super) fn make(&self, job: Job) {
        // The thread ends only once nobody is left who could ask.
        let _ = self.jobs.send(job);
    }
}

impl Job {
    fn run(self) {
        let Self { workspace, journal, source, bytes, mut writer, done } = self;
        let began = Instant::now();
        // A bug in one workspace's state must not cost the others their snapshots.
        let made = catch_unwind(AssertUnwindSafe(|| {
            // Before the work, which would be for nothing.
            writer.prepare(bytes)?;
            make(&workspace, &*journal, source, writer)
        }));
        let made = made.unwrap_or(Err(Failure::Panicked));
        if let Ok(bytes) = &made {
            let ms = began.elapsed().as_millis();
            debug!(%workspace, bytes, ms, "snapshot written");
        }
        done(made);
    }
}

fn make(
    workspace: &WorkspaceId,
    journal: &dyn Journal,
    source: Source,
    mut writer: Box<dyn SnapshotWriter>,
) -> Result<u64, Failure> {
    let state = match source {
        Source::Copy(state) => *state,
        Source::Journal(through) => {
            let snapshot = journal.snapshot(workspace);
            replay::read(journal, workspace, snapshot, through)?.workspace
        }
    };
    let mut written = 0;
    codec::encode_snapshot(&state, |piece: Bytes| {
        written += piece.len() as u64;
        writer.piece(piece)
    })?;
    // Freed before it counts: whoever hears of it may begin the next.
    drop(state);
    writer.finish()?;
    Ok(written)
}
