//! Reading from the database: commits in order, records of one workspace, snapshots, bodies.
//!
//! **Invariant:** nothing is returned that was not checked against its checksum or hash.

use std::{ops::Bound, path::Path};

use bytes::Bytes;
use prost::Message;
use sled::{IVec, Iter};
use tasuki_proto::{
    id::{Sequence, WorkspaceId},
    stored::{Commit, Entry, LogPosition},
};

use super::{
    engine::{Engine, Value, from_sled},
    index::{RecordSpan, SnapshotAt},
    layout::{self, COMMIT_HEADER_BYTES, COMMITS, CommitHeader, PART_BYTES_MAX},
};
use crate::journal::{BodyKey, Hash, JournalError, StoredRecord};

/// Rows to step over before seeking anew is cheaper.
const STEP_ROWS_MAX: u64 = 8;

/// A value of the database.
pub(super) fn get(db: &Engine, key: &[u8], place: &str) -> Result<Option<Value>, JournalError> {
    db.get(key).map_err(|error| from_sled(Path::new(place), error))
}

pub(super) fn damaged(place: impl Into<String>, what: impl Into<String>) -> JournalError {
    JournalError::Damaged { place: place.into(), what: what.into() }
}

/// The last frame of the log that the database has.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameAt {
    pub(super) number: u64,
    pub(super) hash: Hash,
}

pub(super) fn position(db: &Engine) -> Result<FrameAt, JournalError> {
    let place = "the log's position in the database";
    let Some(value) = get(db, layout::POSITION, place)? else {
        return Ok(FrameAt { number: 0, hash: Hash::default() });
    };
    let position = LogPosition::decode(&value[..]).ok();
    let at = position.and_then(|it| {
        Some(FrameAt { number: it.number, hash: Hash(it.hash[..].try_into().ok()?) })
    });
    at.ok_or_else(|| damaged(place, "it does not decode"))
}

fn row(
    row: Option<sled::Result<(IVec, IVec)>>,
    place: &str,
) -> Result<Option<(IVec, IVec)>, JournalError> {
    row.transpose().map_err(|error| from_sled(Path::new(place), error))
}

/// Names of bodies that are read at once.
const NAMES_MAX: usize = 1000;

/// The bodies whose keys come after this one, or the first, in order, each with its length.
pub(super) fn body_names(
    db: &Engine,
    workspace: &WorkspaceId,
    after: Option<&BodyKey>,
    is_wanted: impl Fn(&BodyKey) -> bool,
) -> Result<Vec<(BodyKey, u64)>, JournalError> {
    let after = match after {
        Some(key) => layout::body_key(workspace, key, layout::BODY_PARTS_MAX),
        None => layout::bodies_prefix(workspace),
    };
    let mut names = Vec::new();
    for row in db.db().range((Bound::Excluded(after), Bound::Unbounded)) {
        let (key, value) = row.map_err(|error| from_sled("the bodies".as_ref(), error))?;
        let Some(layout::Key::Body { workspace: found, key, part }) = layout::Key::parse(&key)
        else {
            break;
        };
        if found != *workspace {
            break;
        }
        if part != 0 || !is_wanted(&key) {
            continue;
        }
        let Some((_, header, _)) = layout::split_body(&value) else {
            let place = format!("{workspace}, body {:?}", key.0);
            return Err(damaged(place, "its header does not decode"));
        };
        names.push((key, header.length));
        if names.len() == NAMES_MAX {
            break;
        }
    }
    Ok(names)
}

/// All commits, oldest first, each whole and hashing right.
pub(super) struct Commits {
    rows: Iter,
}

pub(super) struct StoredCommit {
    pub(super) number: u64,
    pub(super) hash: Hash,
    pub(super) bytes: Bytes,
}

impl Commits {
    pub(super) fn all(db: &Engine) -> Self {
        Self { rows: db.db().scan_prefix([COMMITS]) }
    }

    pub(super) fn next(&mut self) -> Result<Option<StoredCommit>, JournalError> {
        let Some((key, value)) = row(self.rows.next(), "the commits")? else { return Ok(None) };
        let Some(layout::Key::Commit { commit: number, part: 0 }) = layout::Key::parse(&key) else {
            return Err(damaged("the commits", format!("expected part 0 of one, found {key:?}")));
        };
        let place = format!("commit {number}");
        let Some((header, first)) = CommitHeader::split(&value) else {
            return Err(damaged(place, format!("its header is cut off at {} bytes", value.len())));
        };
        let mut bytes = Vec::with_capacity(first.len());
        bytes.extend_from_slice(first);
        for part in 1..header.parts {
            let next = row(self.rows.next(), &place)?;
            match next {
                Some((key, value)) if *key == layout::commit_key(number, part) => {
                    bytes.extend_from_slice(&value);
                }
                other => {
                    let found = other.map(|(key, _)| key);
                    let what = format!("expected part {part} of {}, found {found:?}", header.parts);
                    return Err(damaged(place, what));
                }
            }
        }
        let hash = Hash::of(&bytes);
        if bytes.len() != header.length as usize || hash != header.hash {
            let what = format!(
                "expected {} bytes with hash {:?}, found {} with {hash:?}",
                header.length,
                header.hash,
                bytes.len()
            );
            return Err(damaged(place, what));
        }
        Ok(Some(StoredCommit { number, hash, bytes: bytes.into() }))
    }
}

/// Reads single parts of commits, mostly forwards.
struct Parts<'a> {
    db: &'a Engine,
    rows: Option<Iter>,
    /// The commit of the row read last.
    at: u64,
}

impl Parts<'_> {
    fn part(&mut self, commit: u64, part: u16) -> Result<Option<Value>, JournalError> {
        let key = layout::commit_key(commit, part);
        if let Some(value) = self.db.recent().get(&key) {
            return Ok(value.map(Value::Recent));
        }
        let place = format!("commit {commit}");
        if commit.saturating_sub(self.at) <= STEP_ROWS_MAX
            && let Some(rows) = &mut self.rows
        {
            for _ in 0..STEP_ROWS_MAX {
                match row(rows.next(), &place)? {
                    Some((found, value)) if *found == key => {
                        self.at = commit;
                        return Ok(Some(Value::Stored(value)));
                    }
                    Some((found, _)) if *found < key[..] => {}
                    Some(_) | None => break,
                }
            }
        }
        let mut rows = self.db.db().range(&key[..]..&[COMMITS + 1][..]);
        let found = row(rows.next(), &place)?;
        self.rows = Some(rows);
        self.at = commit;
        Ok(found.filter(|(found, _)| **found == key).map(|(_, value)| Value::Stored(value)))
    }

    /// The entries of a run; `None` when a part of its commit is gone.
    fn run(&mut self, run: &RecordSpan) -> Result<Option<Vec<Entry>>, JournalError> {
        let from = COMMIT_HEADER_BYTES + run.offset as usize;
        let to = from + run.length as usize;
        let mut bytes = Vec::with_capacity(run.length as usize);
        for part in from / PART_BYTES_MAX..=(to - 1) / PART_BYTES_MAX {
            let number = u16::try_from(part).expect("an index entry lies within its commit");
            let Some(value) = self.part(run.commit, number)? else { return Ok(None) };
            let base = part * PART_BYTES_MAX;
            let wanted = value.get(from.saturating_sub(base)..(to - base).min(value.len()));
            bytes.extend_from_slice(wanted.unwrap_or_default());
        }
        let commit = Commit::decode(Bytes::from(bytes)).map_err(|error| {
            damaged(format!("commit {}", run.commit), format!("entries do not decode: {error}"))
        })?;
        Ok(Some(commit.entries))
    }
}

/// Up to `records_max` records of `workspace` from `from` on, out of these runs; `None` when a
/// commit is gone.
pub(super) fn records(
    db: &Engine,
    workspace: &WorkspaceId,
    from: u64,
    records_max: usize,
    runs: &[RecordSpan],
) -> Result<Option<Vec<StoredRecord>>, JournalError> {
    let mut parts = Parts { db, rows: None, at: 0 };
    let mut records: Vec<StoredRecord> = Vec::new();
    let mut before = None;
    for run in runs {
        let Some(entries) = parts.run(run)? else { return Ok(None) };
        if entries.len() != run.count as usize {
            let what = format!("expected {} records, found {}", run.count, entries.len());
            return Err(damaged(format!("{workspace}, commit {}", run.commit), what));
        }
        for (entry, expected) in entries.into_iter().zip(run.first..) {
            let hash = check_entry(&entry, workspace, expected, run.commit, before)?;
            before = Some(hash);
            if from <= expected && records.len() < records_max {
                let sequence = Sequence::from(expected);
                records.push(StoredRecord { sequence, record: entry.record });
            }
        }
    }
    Ok(Some(records))
}

/// The hash of an entry's record, once the entry is what was expected here.
pub(super) fn check_entry(
    entry: &Entry,
    workspace: &WorkspaceId,
    sequence: u64,
    commit: u64,
    before: Option<Hash>,
) -> Result<Hash, JournalError> {
    let refuse =
        |what| Err(damaged(format!("{workspace}, record {sequence}, commit {commit}"), what));
    if entry.workspace != workspace.as_str() || entry.sequence != sequence {
        return refuse(format!("found record {} of {:?}", entry.sequence, entry.workspace));
    }
    if let Some(before) = before
        && entry.previous[..] != before.0
    {
        let found = entry.previous.escape_ascii();
        return refuse(format!("expected {before:?} as the hash before, found {found}"));
    }
    let checksum = crc32c::crc32c(&entry.record);
    if checksum != entry.checksum {
        return refuse(format!("expected checksum {:08x}, found {checksum:08x}", entry.checksum));
    }
    Ok(Hash::of(&entry.record))
}

/// A piece of a snapshot, whole and hashing right, and its hash.
pub(super) fn piece(
    db: &Engine,
    workspace: &WorkspaceId,
    number: u64,
    piece: u32,
) -> Result<(Bytes, Hash), JournalError> {
    let place = format!("{workspace}, snapshot number {number}, piece {piece}");
    let key = |part| layout::piece_key(workspace, number, piece, part);
    let found = framed(db, &place, u32::MAX, key)?;
    found.ok_or_else(|| damaged(place, "it is missing"))
}

/// The pieces of a snapshot, by the chain of their hashes, are those that its head names.
pub(super) fn check_chain(
    workspace: &WorkspaceId,
    at: &SnapshotAt,
    found: Hash,
) -> Result<(), JournalError> {
    if found == at.hash {
        return Ok(());
    }
    let what = format!("expected pieces with hash {:?}, found {found:?}", at.hash);
    Err(damaged(format!("{workspace}, snapshot {}", at.sequence), what))
}

/// A body, whole and hashing right; `None` when there is none.
pub(super) fn body(
    db: &Engine,
    workspace: &WorkspaceId,
    key: &BodyKey,
) -> Result<Option<Bytes>, JournalError> {
    let place = format!("{workspace}, body {:?}", key.0);
    let key = |part| layout::body_key(workspace, key, part);
    Ok(framed(db, &place, layout::BODY_PARTS_MAX, key)?.map(|(body, _)| body))
}

/// Whether there is a body whose key begins so.
pub(super) fn has_bodies(
    db: &Engine,
    workspace: &WorkspaceId,
    begin: &str,
) -> Result<bool, JournalError> {
    let begin = [&layout::bodies_prefix(workspace), begin.as_bytes()].concat();
    // First: what is recent leaves there once the database has it.
    if db.recent().has(&begin) {
        return Ok(true);
    }
    let first = db.db().scan_prefix(&begin).next().transpose();
    Ok(first.map_err(|error| from_sled("the bodies".as_ref(), error))?.is_some())
}

/// Bytes with a header before them, and their hash. They have at most `parts_max` parts.
fn framed(
    db: &Engine,
    place: &str,
    parts_max: u32,
    key: impl Fn(u32) -> Vec<u8>,
) -> Result<Option<(Bytes, Hash)>, JournalError> {
    let Some(first) = get(db, &key(0), place)? else { return Ok(None) };
    let framed = layout::split_body(&first).filter(|(parts, ..)| *parts <= parts_max);
    let Some((parts, header, start)) = framed else {
        return Err(damaged(place, "its header does not decode"));
    };
    let mut bytes = start.to_vec();
    for part in 1..parts {
        let Some(value) = get(db, &key(part), place)? else {
            return Err(damaged(place, format!("part {part} of {parts} is missing")));
        };
        bytes.extend_from_slice(&value);
    }
    let hash = Hash::of(&bytes);
    if bytes.len() as u64 != header.length || hash.0 != header.hash[..] {
        let expected = header.hash.escape_ascii();
        let what = format!("expected {} bytes with hash {expected}", header.length);
        return Err(damaged(place, format!("{what}, found {} with {hash:?}", bytes.len())));
    }
    Ok(Some((bytes.into(), hash)))
}
