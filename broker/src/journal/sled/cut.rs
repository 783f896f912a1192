//! A cut: all that was durable at one commit, read while the committer goes on.
//!
//! sled shows each key as it is when it is read, so going over the database is of many moments. It
//! is of one all the same, because nothing under a key is ever replaced by something else:
//!
//! - Commits have numbers; those after the cut are known by theirs.
//! - Each snapshot has a number of its own. Which one counts, and which records there are, says the
//!   index as it was at the cut.
//! - A body is written once. The committer notes the names of those that it writes as long as there
//!   is a cut ([`Marks`]), before they are there to be read.
//!
//! The committer makes a cut in its own turn, between two commits, and drops nothing as long as
//! there is one. Writers wait for as long as it takes to copy the index.

use std::{
    collections::BTreeSet,
    ops::{Bound, ControlFlow},
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tasuki_proto::id::{Sequence, WorkspaceId};

use super::{
    Shared,
    engine::{from_sled, guarded},
    index::Index,
    layout::{self, Key},
    read::{self, damaged},
    snapshot, verify,
};
use crate::{
    journal::{BodyKey, JournalError, Report, Snapshot, StoredRecord},
    rules::Fence,
};

/// Bodies that may be written while a cut is read: about 100 MB of their names.
const BODIES_SINCE_MAX: usize = 1_000_000;

/// Bodies read at once, in bytes, but for one that is larger.
const PAGE_BYTES: usize = 1024 * 1024;

/// What was durable at one commit. Nothing of it is dropped while this is there.
///
/// Each workspace is read by itself: its snapshot, the records after it up to the last, and its
/// bodies. They are all that its state and its texts are made from.
#[derive(Debug)]
pub struct Cut {
    shared: Arc<Shared>,
    index: Index,
    marks: Arc<Marks>,
}

/// Where a workspace stood at a cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutWorkspace {
    pub id: WorkspaceId,
    /// The record that its snapshot includes last; [`Sequence::NONE`] without one.
    pub snapshot: Sequence,
    /// The oldest record that is kept, and the newest.
    pub oldest: Sequence,
    pub last: Sequence,
}

impl Cut {
    /// Made by the committer, between two commits.
    pub(super) fn new(shared: &Arc<Shared>) -> Result<Self, JournalError> {
        shared.engine()?;
        let marks = Arc::new(Marks::default());
        shared.cuts.lock().push(Arc::downgrade(&marks));
        Ok(Self { shared: Arc::clone(shared), index: shared.index().clone(), marks })
    }

    /// The commit that it is of.
    pub fn commit(&self) -> u64 {
        self.index.last_commit
    }

    pub fn incarnation(&self) -> [u8; 16] {
        self.shared.incarnation
    }

    pub fn fence(&self) -> Fence {
        self.index.fence
    }

    pub fn workspaces(&self) -> impl Iterator<Item = CutWorkspace> {
        self.index.workspaces().map(|(id, it)| CutWorkspace {
            id: id.clone(),
            snapshot: it.snapshot.map_or(Sequence::NONE, |at| at.sequence.into()),
            oldest: it.oldest.into(),
            last: it.last.into(),
        })
    }

    /// The snapshot that counted then.
    pub fn snapshot(&self, workspace: &WorkspaceId) -> Option<Snapshot> {
        let at = self.index.get(workspace)?.snapshot?;
        Some(snapshot::open(&self.shared, workspace.clone(), at))
    }

    /// Records from `from` on, in order, at most `records_max`; fewer or none at the end.
    ///
    /// # Errors
    /// [`JournalError::Compacted`] when `from` is older than what was kept.
    pub fn read(
        &self,
        workspace: &WorkspaceId,
        from: Sequence,
        records_max: usize,
    ) -> Result<Vec<StoredRecord>, JournalError> {
        let (engine, from) = (self.shared.engine()?, from.get().max(1));
        let spans = self.index.spans(workspace, from, records_max)?;
        let read = || read::records(&engine, workspace, from, records_max, &spans);
        guarded(&self.shared.dir, read)?.ok_or_else(|| {
            let place = format!("{workspace}, record {from}");
            damaged(place, "a commit that holds it is missing")
        })
    }

    /// The bodies whose keys come after this one, or the first, in order; none at the end. A body
    /// counts if its record was durable.
    ///
    /// # Errors
    /// When one is damaged, or too many were written since the cut.
    pub fn bodies(
        &self,
        workspace: &WorkspaceId,
        after: Option<&BodyKey>,
    ) -> Result<Vec<(BodyKey, Bytes)>, JournalError> {
        let engine = self.shared.engine()?;
        guarded(&self.shared.dir, || {
            let after = match after {
                Some(key) => layout::body_key(workspace, key, layout::BODY_PARTS_MAX),
                None => layout::bodies_prefix(workspace),
            };
            let (mut found, mut bytes) = (Vec::new(), 0);
            for row in engine.db().range((Bound::Excluded(after), Bound::Unbounded)) {
                let (key, _) = row.map_err(|error| from_sled("the bodies".as_ref(), error))?;
                let Some(Key::Body { workspace: of, key, part }) = Key::parse(&key) else { break };
                if of != *workspace {
                    break;
                }
                if part != 0 || self.marks.has(workspace, &key) {
                    continue;
                }
                let body = read::body(&engine, workspace, &key)?.ok_or_else(|| {
                    damaged(format!("{workspace}, body {:?}", key.0), "it is gone")
                })?;
                bytes += body.len();
                found.push((key, body));
                if PAGE_BYTES <= bytes {
                    break;
                }
            }
            self.marks.check()?;
            Ok(found)
        })
    }

    /// The bodies whose keys come after this one, or the first, in order, each with its length; none
    /// at the end.
    ///
    /// # Errors
    /// When they cannot be read, or too many were written since the cut.
    pub fn body_names(
        &self,
        workspace: &WorkspaceId,
        after: Option<&BodyKey>,
    ) -> Result<Vec<(BodyKey, u64)>, JournalError> {
        let engine = self.shared.engine()?;
        let was_there = |key: &BodyKey| !self.marks.has(workspace, key);
        let names = || read::body_names(&engine, workspace, after, was_there);
        let names = guarded(&self.shared.dir, names)?;
        self.marks.check().map(|()| names)
    }

    /// A body; `None` when none was ever written under this key.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn body(
        &self,
        workspace: &WorkspaceId,
        key: &BodyKey,
    ) -> Result<Option<Bytes>, JournalError> {
        let engine = self.shared.engine()?;
        guarded(&self.shared.dir, || read::body(&engine, workspace, key))
    }

    /// Checks all that there is as start-up does, and every body. `progress` gets how many bytes
    /// were read more, and may give up.
    ///
    /// # Errors
    /// The first thing that is wrong, and where; [`JournalError::Closed`] for one that was given up.
    pub fn verify(
        &self,
        mut progress: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Report, JournalError> {
        let engine = self.shared.engine()?;
        let (index, marks) = (&self.index, &self.marks);
        let report = guarded(&self.shared.dir, || {
            verify::check_cut(&engine, index, self.incarnation(), marks, &mut progress)
        })?;
        marks.check().map(|()| report)
    }
}

/// What the committer writes while a cut is read, as far as its key does not tell.
#[derive(Debug, Default)]
pub(super) struct Marks {
    since: Mutex<Since>,
}

#[derive(Debug, Default)]
struct Since {
    bodies: BTreeSet<(WorkspaceId, BodyKey)>,
    /// Why the cut cannot be read any more.
    lost: Option<String>,
}

impl Marks {
    /// A body is about to be written that was not there.
    pub(super) fn written(&self, name: &(WorkspaceId, BodyKey)) {
        let mut since = self.since.lock();
        if since.bodies.len() < BODIES_SINCE_MAX {
            since.bodies.insert(name.clone());
        } else {
            since.lost = Some(format!("more than {BODIES_SINCE_MAX} texts were written meanwhile"));
        }
    }

    /// A body is about to take the place of another.
    pub(super) fn replaced(&self, name: &(WorkspaceId, BodyKey)) {
        let mut since = self.since.lock();
        if !since.bodies.contains(name) {
            let (workspace, BodyKey(key)) = name;
            since.lost = Some(format!("body {key:?} of {workspace} was replaced meanwhile"));
        }
    }

    pub(super) fn has(&self, workspace: &WorkspaceId, key: &BodyKey) -> bool {
        let since = self.since.lock();
        !since.bodies.is_empty() && since.bodies.contains(&(workspace.clone(), key.clone()))
    }

    fn check(&self) -> Result<(), JournalError> {
        match &self.since.lock().lost {
            None => Ok(()),
            Some(why) => Err(JournalError::Storage(format!("{why}; run it again"))),
        }
    }
}
