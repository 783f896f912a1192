//! One commit in the making: what arrived meanwhile, as one frame of the log.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use prost::Message;
use sled::Batch;
use tasuki_proto::{
    id::WorkspaceId,
    stored::{Commit, Entry, Head, Meta},
};

use super::{
    check::FORMAT,
    cut::Marks,
    engine::{Engine, from_sled},
    index::{Index, RecordSpan, SnapshotAt},
    layout::{self, CommitHeader},
    log::Rows,
    read,
    snapshot::{Row, Written},
};
use crate::{
    journal::{Append, BodyKey, Hash, JournalError},
    rules::Fence,
};

/// Parts of old commits dropped in one commit. Dropping one takes about 10 µs, and appends wait.
const DROP_PARTS_MAX: usize = 512;

/// Parts of old snapshots dropped in one commit: they are found by reading them.
const DROP_LEFTOVERS_MAX: usize = 128;

/// Collects what one commit writes. It reads the index as it was after the commit before.
pub(super) struct CommitBuilder<'a> {
    db: &'a Engine,
    index: &'a Index,
    incarnation: [u8; 16],
    /// What somebody reads of one moment: nothing is dropped meanwhile.
    cuts: &'a [Arc<Marks>],
    rows: Rows,
    /// Of snapshots: they go by the log.
    pieces: Batch,
    workspaces: BTreeMap<WorkspaceId, Staged>,
    /// How many parts each body written here has.
    bodies: BTreeMap<(WorkspaceId, BodyKey), u32>,
    has_removed: bool,
    has_pieces: bool,
}

struct Staged {
    last: u64,
    last_hash: Hash,
    entries: Vec<Entry>,
    /// With the oldest record to be kept.
    snapshot: Option<(SnapshotAt, u64)>,
}

/// A commit ready to be written.
pub(super) struct Ready {
    pub(super) rows: Rows,
    pub(super) pieces: Batch,
    pub(super) outcome: Committed,
}

/// What a commit changes in the index.
pub(super) struct Committed {
    /// Its number and hash; `None` where nothing was written that counts.
    pub(super) commit: Option<(u64, Hash)>,
    pub(super) changes: Vec<Change>,
    /// The oldest commit left, and the hash of the one before it.
    first: (u64, Hash),
    /// Of the leftovers, those of which nothing is left.
    gone: Vec<Vec<u8>>,
}

pub(super) struct Change {
    pub(super) workspace: WorkspaceId,
    pub(super) last: u64,
    pub(super) last_hash: Hash,
    pub(super) run: Option<RecordSpan>,
    snapshot: Option<(SnapshotAt, u64)>,
}

impl<'a> CommitBuilder<'a> {
    pub(super) fn new(
        db: &'a Engine,
        index: &'a Index,
        incarnation: [u8; 16],
        cuts: &'a [Arc<Marks>],
    ) -> Self {
        Self {
            db,
            index,
            incarnation,
            cuts,
            rows: Rows::default(),
            pieces: Batch::default(),
            workspaces: BTreeMap::new(),
            bodies: BTreeMap::new(),
            has_removed: false,
            has_pieces: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.workspaces.is_empty() && !self.has_removed && !self.has_pieces
    }

    /// Parts of a piece of a snapshot.
    pub(super) fn pieces(&mut self, rows: Vec<Row>) {
        self.has_pieces = true;
        for (key, value) in rows {
            self.pieces.insert(key, &value[..]);
        }
    }

    fn staged(&mut self, workspace: &WorkspaceId) -> &mut Staged {
        let index = self.index;
        self.workspaces.entry(workspace.clone()).or_insert_with(|| {
            let standing = index.get(workspace);
            Staged {
                last: standing.map_or(0, |standing| standing.last),
                last_hash: standing.map_or_else(Hash::default, |standing| standing.last_hash),
                entries: Vec::new(),
                snapshot: None,
            }
        })
    }

    pub(super) fn append(
        &mut self,
        workspace: &WorkspaceId,
        append: Append,
    ) -> Result<(), JournalError> {
        for (key, body) in append.bodies {
            self.body(workspace, key, &body, append.are_bodies_new)?;
        }
        let staged = self.staged(workspace);
        let sequence = append.sequence.get();
        assert!(sequence == staged.last + 1, "J1: {workspace}: {sequence} after {}", staged.last);
        staged.entries.push(Entry {
            workspace: workspace.as_str().to_owned(),
            sequence,
            previous: staged.last_hash.to_bytes(),
            checksum: crc32c::crc32c(&append.record),
            record: append.record.clone(),
        });
        staged.last = sequence;
        staged.last_hash = Hash::of(&append.record);
        Ok(())
    }

    fn body(
        &mut self,
        workspace: &WorkspaceId,
        key: BodyKey,
        body: &[u8],
        is_new: bool,
    ) -> Result<(), JournalError> {
        let name = (workspace.clone(), key);
        if !self.cuts.is_empty() {
            self.mark_body(&name, body)?;
        }
        let had = match self.bodies.get(&name) {
            Some(parts) => *parts,
            // Looking for it takes as long as writing it.
            None if is_new => 0,
            None => self.parts_of_body(workspace, &name.1)?,
        };
        let bytes = layout::encode_body(body);
        let parts = layout::parts_of(bytes.len()).into();
        for (part, bytes) in layout::parts(&bytes) {
            self.rows.insert(layout::body_key(workspace, &name.1, part.into()), bytes);
        }
        for part in parts..had {
            self.rows.remove(layout::body_key(workspace, &name.1, part));
        }
        self.bodies.insert(name, parts);
        Ok(())
    }

    /// Bodies that are to go.
    pub(super) fn remove(
        &mut self,
        workspace: &WorkspaceId,
        bodies: Vec<BodyKey>,
    ) -> Result<(), JournalError> {
        self.has_removed = true;
        for key in bodies {
            for part in 0..self.parts_of_body(workspace, &key)? {
                self.rows.remove(layout::body_key(workspace, &key, part));
            }
            self.bodies.insert((workspace.clone(), key), 0);
        }
        Ok(())
    }

    /// Tells the cuts that a body was not there before.
    fn mark_body(&self, name: &(WorkspaceId, BodyKey), body: &[u8]) -> Result<(), JournalError> {
        let (workspace, key) = name;
        let place = format!("{workspace}, body {:?}", key.0);
        let first = read::get(self.db, &layout::body_key(workspace, key, 0), &place)?;
        let before = first.as_deref().and_then(layout::split_body).map(|(_, header, _)| header);
        for cut in self.cuts {
            match &before {
                None => cut.written(name),
                Some(header) if header.hash[..] == Hash::of(body).0 => {}
                Some(_) => cut.replaced(name),
            }
        }
        Ok(())
    }

    fn parts_of_body(&self, workspace: &WorkspaceId, key: &BodyKey) -> Result<u32, JournalError> {
        let place = format!("{workspace}, body {:?}", key.0);
        match read::get(self.db, &layout::body_key(workspace, key, 0), &place)? {
            Some(first) => layout::split_body(&first)
                .map(|(parts, ..)| parts)
                .ok_or_else(|| read::damaged(place, "its header does not decode")),
            None => Ok(0),
        }
    }

    /// A snapshot of which all pieces are written.
    pub(super) fn snapshot(
        &mut self,
        workspace: &WorkspaceId,
        it: &Written,
    ) -> Result<(), JournalError> {
        let Written { sequence, number, count, hash, keep_from } = *it;
        let record_hash = self.record_hash(workspace, sequence)?;
        let at = SnapshotAt { sequence, number, count, hash, record_hash };
        // A record after the snapshot is always needed.
        self.staged(workspace).snapshot = Some((at, keep_from.min(sequence + 1)));
        Ok(())
    }

    /// The hash of a record that is here, in the commits, or under the snapshot.
    fn record_hash(
        &mut self,
        workspace: &WorkspaceId,
        sequence: u64,
    ) -> Result<Hash, JournalError> {
        let staged = self.staged(workspace);
        if sequence == staged.last {
            return Ok(staged.last_hash);
        }
        if let Some(entry) = staged.entries.iter().find(|entry| entry.sequence == sequence) {
            return Ok(Hash::of(&entry.record));
        }
        let standing = self.index.get(workspace);
        let known = standing.filter(|standing| sequence == standing.last).map(|s| s.last_hash);
        let snapshot = standing.and_then(|standing| standing.snapshot);
        let known = known
            .or_else(|| snapshot.filter(|at| at.sequence == sequence).map(|at| at.record_hash));
        if let Some(hash) = known {
            return Ok(hash);
        }
        let run = standing.and_then(|standing| standing.runs_from(sequence).next());
        let runs: Vec<RecordSpan> = run.copied().into_iter().collect();
        let found = read::records(self.db, workspace, sequence, 1, &runs)?;
        let record = found.and_then(|records| records.into_iter().next());
        let record = record.filter(|record| record.sequence.get() == sequence);
        record.map(|record| Hash::of(&record.record)).ok_or_else(|| {
            read::damaged(
                format!("{workspace}, record {sequence}"),
                "a snapshot needs it, but it is gone",
            )
        })
    }

    /// The rows of everything staged, with what nobody needs dropped.
    pub(super) fn finish(mut self) -> Result<Ready, JournalError> {
        let number = self.index.last_commit + 1;
        let mut bytes = Commit {
            number,
            previous: self.index.last_hash.to_bytes(),
            incarnation: self.incarnation.to_vec().into(),
            entries: Vec::new(),
        }
        .encode_to_vec();
        let mut changes = Vec::new();
        for (workspace, staged) in std::mem::take(&mut self.workspaces) {
            let run = encode_run(&mut bytes, number, staged.entries);
            let snapshot = staged.snapshot.map(|(at, keep_from)| {
                let oldest = self.put_head(&workspace, &at, keep_from, run);
                (at, oldest)
            });
            let (last, last_hash) = (staged.last, staged.last_hash);
            changes.push(Change { workspace, last, last_hash, run, snapshot });
        }
        let had = (self.index.first_commit, self.index.first_previous);
        let first = self.drop_unneeded()?;
        let gone = self.drop_leftovers()?;
        let has_snapshot = changes.iter().any(|it| it.snapshot.is_some());
        if first != had || has_snapshot {
            let meta = encode_meta(self.incarnation, first.0, first.1, self.index.fence);
            self.rows.insert(layout::META, meta);
        }
        let commit = (!changes.is_empty() || first != had).then(|| {
            let header = CommitHeader::of(&bytes);
            for (part, bytes) in layout::parts(&header.before(&bytes)) {
                self.rows.insert(layout::commit_key(number, part), bytes);
            }
            (number, header.hash)
        });
        Ok(Ready {
            rows: self.rows,
            pieces: self.pieces,
            outcome: Committed { commit, changes, first, gone },
        })
    }

    /// Writes a workspace's head, by which its snapshot counts. Returns the oldest record kept.
    fn put_head(
        &mut self,
        workspace: &WorkspaceId,
        at: &SnapshotAt,
        keep_from: u64,
        run: Option<RecordSpan>,
    ) -> u64 {
        let standing = self.index.get(workspace);
        let oldest = standing.map_or(1, |standing| standing.oldest).max(keep_from);
        let kept = standing.and_then(|standing| standing.runs_from(oldest).next().copied());
        let kept = kept.or_else(|| run.filter(|run| oldest < run.end()));
        let head = Head {
            snapshot_sequence: at.sequence,
            snapshot_hash: at.hash.to_bytes(),
            record_hash: at.record_hash.to_bytes(),
            oldest_commit: kept.map_or(0, |run| run.commit),
            oldest_sequence: oldest,
            snapshot_number: at.number,
            snapshot_pieces: at.count,
        };
        self.rows.insert(layout::head_key(workspace), head.encode_to_vec());
        oldest
    }

    /// Drops old snapshots, a bounded number of parts at a time. Returns those that are gone.
    fn drop_leftovers(&mut self) -> Result<Vec<Vec<u8>>, JournalError> {
        let (mut gone, mut left) = (Vec::new(), DROP_LEFTOVERS_MAX);
        if !self.cuts.is_empty() {
            return Ok(gone);
        }
        for prefix in &self.index.leftovers {
            let mut keys = self.db.db().scan_prefix(prefix).keys();
            while 0 < left {
                let Some(key) = keys.next() else { break };
                let key = key.map_err(|error| from_sled("an old snapshot".as_ref(), error))?;
                // It is on its way out.
                if self.db.recent().get(&key).is_some() {
                    continue;
                }
                self.rows.remove(key);
                left -= 1;
            }
            if left == 0 {
                break;
            }
            gone.push(prefix.clone());
        }
        Ok(gone)
    }

    /// Drops the oldest commits, a bounded number of parts at a time.
    fn drop_unneeded(&mut self) -> Result<(u64, Hash), JournalError> {
        let mut first = (self.index.first_commit, self.index.first_previous);
        let mut dropped = 0;
        let needed_from = if self.cuts.is_empty() { self.index.needed_from() } else { 0 };
        while first.0 < needed_from && dropped < DROP_PARTS_MAX {
            let place = format!("commit {}", first.0);
            let value = read::get(self.db, &layout::commit_key(first.0, 0), &place)?;
            let header = value.as_deref().and_then(CommitHeader::split).map(|(header, _)| header);
            let header = header.ok_or_else(|| read::damaged(place, "it is missing"))?;
            for part in 0..header.parts {
                self.rows.remove(layout::commit_key(first.0, part));
            }
            dropped += usize::from(header.parts);
            first = (first.0 + 1, header.hash);
        }
        Ok(first)
    }
}

pub(super) fn encode_meta(
    incarnation: [u8; 16],
    first_commit: u64,
    first_previous: Hash,
    fence: Fence,
) -> Vec<u8> {
    Meta {
        format: FORMAT,
        incarnation: incarnation.to_vec().into(),
        first_commit,
        first_previous: first_previous.to_bytes(),
        fence: fence.get(),
    }
    .encode_to_vec()
}

fn encode_run(bytes: &mut Vec<u8>, commit: u64, entries: Vec<Entry>) -> Option<RecordSpan> {
    let first = entries.first()?.sequence;
    let count = u32::try_from(entries.len()).expect("a commit holds about a MiB");
    let (offset, length) = layout::encode_entries(bytes, Commit { entries, ..Commit::default() });
    Some(RecordSpan { commit, first, count, offset, length })
}

impl Committed {
    /// Brings the index up to this commit, once it is durable.
    pub(super) fn apply(&self, index: &mut Index) {
        if let Some(commit) = self.commit {
            (index.last_commit, index.last_hash) = commit;
        }
        (index.first_commit, index.first_previous) = self.first;
        for prefix in &self.gone {
            index.leftovers.remove(prefix);
        }
        for change in &self.changes {
            let mut replaced = None;
            index.update(&change.workspace, |standing| {
                if standing.oldest == 0 {
                    (standing.oldest, standing.runs) = (1, VecDeque::new());
                }
                (standing.last, standing.last_hash) = (change.last, change.last_hash);
                standing.runs.extend(change.run);
                if let Some((at, oldest)) = change.snapshot {
                    replaced = standing.snapshot.replace(at);
                    standing.keep_from(oldest);
                }
            });
            index.leftovers.extend(replaced.map(|it| it.prefix(&change.workspace)));
        }
    }
}
