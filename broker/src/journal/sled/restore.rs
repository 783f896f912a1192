//! A database that is written from elsewhere: each workspace a snapshot and its bodies.
//!
//! It is a new one, with an incarnation of its own and no commits. Nobody serves the directory
//! meanwhile, and it counts as soon as whoever writes it gives it its name.

use std::{fmt, path::Path};

use prost::Message;
use sled::Batch;
use tasuki_proto::{
    host::files,
    id::{Sequence, WorkspaceId},
    stored::Head,
};

use super::{
    Cut,
    engine::{Engine, guarded, storage},
    layout,
    lock::Lock,
    open,
    read::damaged,
    snapshot::chained,
};
use crate::{
    journal::{BodyKey, Hash, JournalError},
    rules::Fence,
};

/// Written at once, in bytes, but for a body that is larger.
const BATCH_BYTES: usize = 1024 * 1024;

/// A database in the making.
pub struct Restoring {
    lock: Lock,
    engine: Engine,
    batch: Batch,
    bytes: usize,
    /// The number of the next snapshot.
    next: u64,
}

impl fmt::Debug for Restoring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restoring").finish_non_exhaustive()
    }
}

impl Restoring {
    /// Makes a database in this directory, which holds none.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(dir: &Path, fence: Fence) -> Result<Self, JournalError> {
        Self::create_as(dir, fence, None)
    }

    /// The same for what is to take the place of the database that this is a cut of.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create_like(dir: &Path, cut: &Cut) -> Result<Self, JournalError> {
        Self::create_as(dir, cut.fence(), Some(cut.incarnation()))
    }

    fn create_as(
        dir: &Path,
        fence: Fence,
        incarnation: Option<[u8; 16]>,
    ) -> Result<Self, JournalError> {
        let failed = |error| storage(&format!("making {}", dir.display()), &error);
        files::private_directory(dir).map_err(failed)?;
        files::keep_others_out(dir);
        let lock = Lock::take(dir)?;
        let engine = open::create(dir, fence, incarnation)?;
        Ok(Self { lock, engine, batch: Batch::default(), bytes: 0, next: 1 })
    }

    /// Begins a workspace.
    pub fn workspace(&mut self, id: WorkspaceId) -> RestoringWorkspace<'_> {
        let number = self.next;
        self.next += 1;
        RestoringWorkspace { into: self, id, number, count: 0, hash: Hash::default() }
    }

    /// Closes it, once all is on the disk.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<(), JournalError> {
        self.write()?;
        self.engine.close().map_err(|error| storage("closing the database", &error))?;
        drop(self.lock);
        Ok(())
    }

    /// Closes it although it is not whole, so that what there is of it can be removed.
    pub fn abandon(self) {
        // Why it is not whole matters more.
        let _ = self.engine.close();
    }

    fn put(&mut self, key: Vec<u8>, value: &[u8]) -> Result<(), JournalError> {
        self.bytes += key.len() + value.len();
        self.batch.insert(key, value);
        if BATCH_BYTES <= self.bytes { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), JournalError> {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        self.engine.commit(batch)
    }
}

/// A workspace in the making. It counts once it is finished.
#[derive(Debug)]
pub struct RestoringWorkspace<'a> {
    into: &'a mut Restoring,
    id: WorkspaceId,
    number: u64,
    /// Pieces of the snapshot so far, and the chain of their hashes.
    count: u32,
    hash: Hash,
}

impl RestoringWorkspace<'_> {
    /// # Errors
    /// When it cannot be written, or has a name that no body has.
    pub fn body(&mut self, key: &BodyKey, body: &[u8]) -> Result<(), JournalError> {
        if !key.is_storable() {
            return Err(damaged(format!("{}, body {:?}", self.id, key.0), "no body has this name"));
        }
        guarded("a body".as_ref(), || {
            for (part, bytes) in layout::parts(&layout::encode_body(body)) {
                self.into.put(layout::body_key(&self.id, key, part.into()), bytes)?;
            }
            Ok(())
        })
    }

    /// The next piece of its snapshot.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn piece(&mut self, piece: &[u8]) -> Result<(), JournalError> {
        for (part, bytes) in layout::parts(&layout::encode_body(piece)) {
            let key = layout::piece_key(&self.id, self.number, self.count, part.into());
            self.into.put(key, bytes)?;
        }
        self.hash = chained(self.hash, Hash::of(piece));
        self.count += 1;
        Ok(())
    }

    /// Its snapshot is of this record, and the next one comes after it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self, sequence: Sequence) -> Result<(), JournalError> {
        let head = Head {
            snapshot_sequence: sequence.get(),
            snapshot_hash: self.hash.to_bytes(),
            record_hash: Hash::default().to_bytes(),
            oldest_commit: 0,
            oldest_sequence: sequence.next().get(),
            snapshot_number: self.number,
            snapshot_pieces: self.count,
        };
        self.into.put(layout::head_key(&self.id), &head.encode_to_vec())
    }
}
