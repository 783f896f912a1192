//! Snapshots are made beside a workspace, which goes on meanwhile.

use std::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicU64, AtomicUsize},
};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use tasuki_proto::id::Sequence;
use tokio::sync::oneshot;

use super::*;
use crate::{
    journal::{
        Append, BodyKey, JournalError, Listener, Opened, Snapshot, SnapshotLost, SnapshotWriter,
        StoredRecord, Writer,
    },
    rules::turn::{self, CreateLoop},
    workspace::state::replay,
};

/// A journal of which snapshots get on only as they are let.
#[derive(Debug, Default)]
struct Gated {
    inner: MemoryJournal,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    /// No piece is written meanwhile.
    is_shut: Mutex<bool>,
    opened: Condvar,
    /// Bytes that the newest was said to have, before its first piece.
    prepared: AtomicU64,
    /// Pieces that came so far.
    came: AtomicUsize,
    /// No snapshot is ever finished.
    is_lost: AtomicBool,
}

impl Gate {
    fn set_shut(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.opened.notify_all();
    }

    fn pass(&self) {
        self.came.fetch_add(1, Ordering::SeqCst);
        let is_shut = self.is_shut.lock().unwrap();
        drop(self.opened.wait_while(is_shut, |is_shut| *is_shut).unwrap());
    }
}

#[derive(Debug)]
struct GatedWriter(Box<dyn Writer>, Arc<Gate>);

#[derive(Debug)]
struct GatedSnapshot(Box<dyn SnapshotWriter>, Arc<Gate>);

impl Journal for Gated {
    fn open(
        &self,
        workspace: &WorkspaceId,
        listener: Listener,
    ) -> BoxFuture<'_, Result<Opened, JournalError>> {
        let (opened, gate) = (self.inner.open(workspace, listener), self.gate.clone());
        async move {
            let Opened { writer, snapshot, last } = opened.await?;
            Ok(Opened { writer: Box::new(GatedWriter(writer, gate)), snapshot, last })
        }
        .boxed()
    }

    fn read(
        &self,
        workspace: &WorkspaceId,
        from: Sequence,
        records_max: usize,
    ) -> Result<Vec<StoredRecord>, JournalError> {
        self.inner.read(workspace, from, records_max)
    }

    fn snapshot(&self, workspace: &WorkspaceId) -> Option<Snapshot> {
        self.inner.snapshot(workspace)
    }

    fn body(&self, workspace: &WorkspaceId, key: &BodyKey) -> Result<Option<Bytes>, JournalError> {
        self.inner.body(workspace, key)
    }

    fn has_bodies(&self, workspace: &WorkspaceId, begin: &str) -> Result<bool, JournalError> {
        self.inner.has_bodies(workspace, begin)
    }

    fn workspaces(&self) -> Vec<WorkspaceId> {
        self.inner.workspaces()
    }

    fn compaction_blockers(&self) -> Vec<WorkspaceId> {
        self.inner.compaction_blockers()
    }

    fn incarnation(&self) -> [u8; 16] {
        self.inner.incarnation()
    }

    fn fence(&self) -> crate::rules::Fence {
        self.inner.fence()
    }

    fn failure(&self) -> Option<JournalError> {
        self.inner.failure()
    }

    fn has(&self, workspace: &WorkspaceId) -> bool {
        self.inner.has(workspace)
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        self.inner.probe()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        self.inner.close()
    }
}

impl Writer for GatedWriter {
    fn append(&mut self, append: Append) {
        self.0.append(append);
    }

    fn snapshot(&mut self, sequence: Sequence, keep_from: Sequence) -> Box<dyn SnapshotWriter> {
        Box::new(GatedSnapshot(self.0.snapshot(sequence, keep_from), self.1.clone()))
    }

    fn remove(&mut self, bodies: Vec<BodyKey>, done: oneshot::Sender<()>) {
        self.0.remove(bodies, done);
    }
}

impl SnapshotWriter for GatedSnapshot {
    fn prepare(&mut self, bytes: u64) -> Result<(), SnapshotLost> {
        self.1.prepared.store(bytes, Ordering::SeqCst);
        self.0.prepare(bytes)
    }

    fn piece(&mut self, piece: Bytes) -> Result<(), SnapshotLost> {
        self.1.pass();
        if self.1.is_lost.load(Ordering::SeqCst) {
            return Err(SnapshotLost::Gone);
        }
        self.0.piece(piece)
    }

    fn finish(self: Box<Self>) -> Result<(), SnapshotLost> {
        self.0.finish()
    }
}

/// Records after which the first snapshot is due.
const DUE: u64 = 4096;

impl Fixture {
    /// Opens loops whose names are as long as names are.
    async fn grow(&self, from: u64, to: u64) {
        for number in from..to {
            let command = Command::Turn(turn::Command::CreateLoop(CreateLoop {
                loop_id: format!("{number:a>64}").parse().unwrap(),
                participants: vec!["A".parse().unwrap(), "B".parse().unwrap()],
                allow_new_roles: true,
            }));
            let request = Request { caller: Caller::default(), key: None, command };
            self.execute(request).await;
        }
    }

    /// Lets it become idle, and looks.
    fn idle(&self) {
        self.clock.fetch_add(IDLE_MS * 2, Ordering::SeqCst);
        self.workspaces.tick(&self.id);
    }

    /// The state is what the journal makes of its snapshot and the records since.
    async fn check(&self) -> Sequence {
        let state = self.workspaces.query(&self.id, |view| view.workspace.clone()).await.unwrap();
        let journal = self.workspaces.journal();
        let snapshot = journal.snapshot(&self.id).expect("there is one");
        let at = snapshot.sequence;
        let read = replay::read(&**journal, &self.id, Some(snapshot), state.sequence).unwrap();
        assert!(read.workspace == state, "the snapshot of {at} is of another state");
        at
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(60), waiting).await;
    waited.unwrap_or_else(|_| panic!("never: {what}"));
}

async fn gated() -> (Fixture, Arc<Gate>) {
    let journal = Gated::default();
    let gate = journal.gate.clone();
    (Fixture::start_on(Arc::new(journal)).await, gate)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_go_on_while_the_snapshot_of_a_large_state_is_written() {
    let (it, gate) = gated().await;
    gate.set_shut(true);
    it.grow(0, DUE).await;
    until("the snapshot begins", || 0 < gate.came.load(Ordering::SeqCst)).await;
    it.grow(DUE, DUE + 50).await;
    assert!(it.workspaces.journal().snapshot(&it.id).is_none(), "half of one is none");
    gate.set_shut(false);
    until("it is written", || it.workspaces.journal().snapshot(&it.id).is_some()).await;
    assert!(4 < gate.came.load(Ordering::SeqCst), "it is written in pieces");
    let prepared = gate.prepared.load(Ordering::SeqCst);
    assert!(DUE * 64 < prepared, "{prepared} bytes are fewer than its names have");
    assert!(it.check().await.get() <= DUE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_waits_for_its_snapshot_before_it_sleeps() {
    let (it, gate) = gated().await;
    it.hand_over().await;
    gate.set_shut(true);
    until("the snapshot begins", || {
        it.idle();
        0 < gate.came.load(Ordering::SeqCst)
    })
    .await;
    it.idle();
    it.wake().await;
    assert!(it.workspaces.journal().snapshot(&it.id).is_none());
    gate.set_shut(false);
    it.idle();
    until("asleep", || !it.workspaces.is_awake(&it.id)).await;
    it.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_cannot_be_made_keeps_nobody_awake() {
    let (it, gate) = gated().await;
    gate.is_lost.store(true, Ordering::SeqCst);
    it.grow(0, DUE + 10).await;
    it.idle();
    until("asleep", || !it.workspaces.is_awake(&it.id)).await;
    assert!(it.workspaces.journal().snapshot(&it.id).is_none());
    gate.is_lost.store(false, Ordering::SeqCst);
    // Nothing is lost, and the next one is made of all.
    it.grow(DUE + 10, DUE + 11).await;
    it.idle();
    until("asleep again", || !it.workspaces.is_awake(&it.id)).await;
    assert_eq!(it.check().await.get(), DUE + 11);
}
