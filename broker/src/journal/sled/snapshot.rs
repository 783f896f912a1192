//! Snapshots: written piece by piece between the commits of whoever else writes, and read so.
//!
//! **Invariant:** a snapshot counts from the commit that writes its workspace's head, which is
//! behind the last of its pieces. Pieces that no head names are left over: from a snapshot that
//! was replaced, or never finished. The committer removes them.

use std::sync::{
    Arc,
    mpsc::{self, SyncSender},
};

use bytes::Bytes;
use tasuki_proto::id::WorkspaceId;

use super::{
    Shared,
    committer::{Control, Owner, Request, What, Write},
    engine::guarded,
    index::SnapshotAt,
    layout::{self, PART_BYTES_MAX},
    read,
};
use crate::{
    disk::{MIB, Space},
    journal::{Hash, JournalError, Snapshot, SnapshotLost, SnapshotWriter},
};

/// Parts written at once: other commits wait for them.
const PARTS_AT_ONCE: usize = 16;

/// How often a byte of a snapshot is written, at most, until it is in its place: sled writes a value,
/// and again the leaf that it is in.
const WRITES_PER_BYTE: u64 = 2;

/// What a snapshot leaves of the disk, in bytes: commits go on, and those it lets be dropped are
/// dropped by more of them. Of a small disk a twentieth.
const FREE_BYTES_MIN: u64 = 16 * MIB;

/// A key and its value.
pub(super) type Row = (Vec<u8>, Bytes);

/// Told once something is durable; gone without a word where it never will be.
pub(super) type Told = SyncSender<()>;

/// What the head says of a snapshot whose pieces are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) sequence: u64,
    pub(super) number: u64,
    pub(super) count: u32,
    pub(super) hash: Hash,
    pub(super) keep_from: u64,
}

/// The hash of a snapshot's pieces so far, with one more.
pub(super) fn chained(before: Hash, piece: Hash) -> Hash {
    Hash::of(&[before.0, piece.0].concat())
}

#[derive(Debug)]
pub(super) struct PieceWriter {
    pub(super) shared: Arc<Shared>,
    pub(super) owner: Arc<Owner>,
    pub(super) requests: mpsc::Sender<Request>,
    pub(super) sequence: u64,
    pub(super) keep_from: u64,
    pub(super) number: u64,
    pub(super) count: u32,
    pub(super) hash: Hash,
    pub(super) is_over: bool,
}

impl PieceWriter {
    /// A full disk ends the broker, and a snapshot can wait.
    fn check_room(&self, bytes: u64) -> Result<(), SnapshotLost> {
        let Some(disk) = Space::of(&self.shared.dir) else { return Ok(()) };
        let own = bytes.saturating_mul(WRITES_PER_BYTE);
        let needed = own.saturating_add(disk.reserve(FREE_BYTES_MIN));
        if needed <= disk.free {
            return Ok(());
        }
        Err(SnapshotLost::NoRoom { needed_mib: needed.div_ceil(MIB), free_mib: disk.free / MIB })
    }

    /// Waits until it is durable: what is on its way is bounded by that.
    fn write(&self, what: impl FnOnce(Told) -> What) -> Result<(), SnapshotLost> {
        let (tell, told) = mpsc::sync_channel(1);
        let write = Write { owner: Arc::clone(&self.owner), what: what(tell) };
        self.shared.metrics.queue.enter();
        self.requests.send(Request::Write(write)).map_err(|_| SnapshotLost::Gone)?;
        told.recv().map_err(|_| SnapshotLost::Gone)
    }
}

impl SnapshotWriter for PieceWriter {
    fn prepare(&mut self, bytes: u64) -> Result<(), SnapshotLost> {
        self.check_room(bytes)
    }

    fn piece(&mut self, piece: Bytes) -> Result<(), SnapshotLost> {
        self.check_room(piece.len() as u64)?;
        let mut rest = Bytes::from(layout::encode_body(&piece));
        let mut part = 0;
        while !rest.is_empty() {
            let mut rows = Vec::new();
            while !rest.is_empty() && rows.len() < PARTS_AT_ONCE {
                let key = layout::piece_key(&self.owner.workspace, self.number, self.count, part);
                rows.push((key, rest.split_to(rest.len().min(PART_BYTES_MAX))));
                part += 1;
            }
            self.write(|told| What::Pieces { rows, told })?;
        }
        self.hash = chained(self.hash, Hash::of(&piece));
        self.count += 1;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), SnapshotLost> {
        let (sequence, hash, keep_from) = (self.sequence, self.hash, self.keep_from);
        let written = Written { sequence, number: self.number, count: self.count, hash, keep_from };
        self.write(|told| What::Snapshot { written, told })?;
        self.is_over = true;
        Ok(())
    }
}

impl Drop for PieceWriter {
    fn drop(&mut self) {
        if !self.is_over {
            let leftover = layout::pieces_prefix(&self.owner.workspace, self.number);
            // Closed: the next start removes it.
            let _ = self.requests.send(Request::Control(Control::Forget { leftover }));
        }
    }
}

/// A snapshot, to be read piece by piece. None may replace it meanwhile.
pub(super) fn open(shared: &Arc<Shared>, workspace: WorkspaceId, at: SnapshotAt) -> Snapshot {
    let (shared, hash) = (Arc::clone(shared), Hash::default());
    let pieces = PieceReader { shared, workspace, at, next: 0, hash, is_over: false };
    Snapshot { sequence: at.sequence.into(), pieces: Box::new(pieces) }
}

struct PieceReader {
    shared: Arc<Shared>,
    workspace: WorkspaceId,
    at: SnapshotAt,
    next: u32,
    /// Of the pieces read.
    hash: Hash,
    is_over: bool,
}

impl PieceReader {
    fn read(&mut self) -> Result<Option<Bytes>, JournalError> {
        // Held for one piece, so that a journal can be closed in between.
        let engine = self.shared.engine()?;
        if self.next == self.at.count {
            self.is_over = true;
            return read::check_chain(&self.workspace, &self.at, self.hash).map(|()| None);
        }
        let read = || read::piece(&engine, &self.workspace, self.at.number, self.next);
        let (piece, hash) = guarded(&self.shared.dir, read)?;
        self.hash = chained(self.hash, hash);
        self.next += 1;
        Ok(Some(piece))
    }
}

impl Iterator for PieceReader {
    type Item = Result<Bytes, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let read = self.read();
        self.is_over |= read.is_err();
        read.transpose()
    }
}
