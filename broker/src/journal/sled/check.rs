//! What start-up verifies: that the database holds everything that was ever acknowledged and
//! is still needed, unchanged.
//!
//! It streams over the commits and keeps only the index. The first thing that is wrong ends
//! it: nothing is skipped, nothing is cut off, no state is guessed.

use std::collections::{BTreeMap, VecDeque};

use prost::{Message, length_delimiter_len};
use tasuki_proto::{
    id::WorkspaceId,
    stored::{Commit, Entry, Head, Meta},
};

use super::{
    engine::{Engine, from_sled},
    index::{Index, RecordSpan, SnapshotAt, WorkspaceIndex},
    layout::{self, HEADS, PIECES},
    mark::HighWater,
    read::{self, Commits, StoredCommit, damaged},
    snapshot::chained,
};
use crate::journal::{Hash, JournalError};

/// The format this release writes.
pub(super) const FORMAT: u32 = 4;

/// The oldest that it reads, which has a mark instead of a log. Those before were of pre-releases.
const FORMAT_MIN: u32 = 3;

/// What a check found when all is well.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) index: Index,
    pub(super) incarnation: [u8; 16],
    /// Above the numbers of all snapshots that there are pieces of.
    pub(super) next_snapshot: u64,
}

/// A workspace while the commits go by.
struct Scan {
    snapshot: Option<SnapshotAt>,
    oldest: u64,
    /// The commit that must hold the record `oldest`; 0 for any.
    oldest_commit: u64,
    /// The record seen last.
    seen: Option<(u64, Hash)>,
    runs: VecDeque<RecordSpan>,
}

/// Verifies everything but the bodies. `visit` gets each record that is kept.
pub(super) fn check(
    db: &Engine,
    newest: Option<&HighWater>,
    visit: impl FnMut(&WorkspaceId, u64, &[u8]) -> Result<(), JournalError>,
) -> Result<Checked, JournalError> {
    let meta = meta(db)?;
    let incarnation = hash("the meta record", &meta.incarnation)?.0;
    if let Some(newest) = newest {
        is_of(&incarnation, &newest.incarnation)?;
    }
    let mut passing = heads(db)?;
    let mut index = Index::default();
    index.first_commit = meta.first_commit;
    index.first_previous = hash("the meta record", &meta.first_previous)?;
    index.fence = meta.fence.into();
    let first = (meta.first_commit.saturating_sub(1), index.first_previous);
    let last = check_commits(db, &mut passing, first, &incarnation, newest, u64::MAX, visit)?;
    (index.last_commit, index.last_hash) = last;
    let next_snapshot = find_leftovers(db, &passing, &mut index)?;
    for (workspace, passed) in passing {
        if let Some(at) = &passed.snapshot {
            check_snapshot(db, &workspace, at)?;
        }
        let standing = settle(&workspace, passed)?;
        index.update(&workspace, |was| *was = standing);
    }
    Ok(Checked { index, incarnation, next_snapshot })
}

/// Refuses what belongs to another database.
pub(super) fn check_incarnation(db: &Engine, expected: &[u8; 16]) -> Result<(), JournalError> {
    is_of(&hash("the meta record", &meta(db)?.incarnation)?.0, expected)
}

fn is_of(database: &[u8; 16], beside: &[u8; 16]) -> Result<(), JournalError> {
    if database == beside {
        return Ok(());
    }
    let (database, beside) = (Hash(*database), Hash(*beside));
    let what = format!("it is {database:?}, the log beside it is of {beside:?}");
    Err(damaged("the database", what))
}

/// Verifies again what an index says, while others write: all its commits, records and snapshots.
pub(super) fn check_again(
    db: &Engine,
    index: &Index,
    incarnation: [u8; 16],
    visit: impl FnMut(&WorkspaceId, u64, &[u8]) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    let scan = |it: &WorkspaceIndex| Scan {
        snapshot: it.snapshot,
        oldest: it.oldest,
        oldest_commit: it.oldest_commit().unwrap_or(0),
        seen: None,
        runs: VecDeque::new(),
    };
    let mut passing = index.workspaces().map(|(id, it)| (id.clone(), scan(it))).collect();
    let newest = HighWater { incarnation, commit: index.last_commit, hash: index.last_hash };
    let first = (index.first_commit.saturating_sub(1), index.first_previous);
    let through = index.last_commit;
    check_commits(db, &mut passing, first, &incarnation, Some(&newest), through, visit)?;
    for (workspace, passed) in passing {
        if let Some(at) = &passed.snapshot {
            check_snapshot(db, &workspace, at)?;
        }
        settle(&workspace, passed)?;
    }
    Ok(())
}

/// Goes over the commits up to this one. Returns the last.
fn check_commits(
    db: &Engine,
    passing: &mut BTreeMap<WorkspaceId, Scan>,
    mut last: (u64, Hash),
    incarnation: &[u8; 16],
    newest: Option<&HighWater>,
    through: u64,
    mut visit: impl FnMut(&WorkspaceId, u64, &[u8]) -> Result<(), JournalError>,
) -> Result<(u64, Hash), JournalError> {
    let mut commits = Commits::all(db);
    check_newest(newest, last)?;
    while last.0 < through
        && let Some(stored) = commits.next()?
    {
        let commit = open_commit(&stored, last, incarnation)?;
        last = (stored.number, stored.hash);
        check_newest(newest, last)?;
        pass(passing, &stored, &commit, &mut visit)?;
    }
    if let Some(newest) = newest
        && last.0 < newest.commit
    {
        let what = format!(
            "expected commit {} as the log says, found {} as the last",
            newest.commit, last.0
        );
        return Err(damaged("the end of the commits", what));
    }
    Ok(last)
}

fn meta(db: &Engine) -> Result<Meta, JournalError> {
    let place = "the meta record";
    let Some(meta) = read::get(db, layout::META, place)? else {
        return Err(damaged(place, "it is missing"));
    };
    let meta = Meta::decode(&meta[..]).map_err(|error| damaged(place, error.to_string()))?;
    if FORMAT < meta.format {
        return Err(JournalError::Newer {
            place: "the database".into(),
            what: format!("it has format {}, this release reads up to {FORMAT}", meta.format),
        });
    }
    if (1..FORMAT_MIN).contains(&meta.format) {
        let what = format!("it has format {}, this release reads {FORMAT_MIN}", meta.format);
        return Err(JournalError::Older { place: "the database".into(), what });
    }
    if meta.format == 0 || meta.first_commit == 0 {
        return Err(damaged(place, format!("expected a format and a first commit: {meta:?}")));
    }
    Ok(meta)
}

fn heads(db: &Engine) -> Result<BTreeMap<WorkspaceId, Scan>, JournalError> {
    let mut heads = BTreeMap::new();
    for row in db.db().scan_prefix([HEADS]) {
        let (key, value) = row.map_err(|error| from_sled("the heads".as_ref(), error))?;
        let Some(layout::Key::Head { workspace }) = layout::Key::parse(&key) else {
            return Err(damaged("the heads", format!("unknown key {key:?}")));
        };
        let place = format!("{workspace}, head");
        let head = Head::decode(&value[..]).map_err(|error| damaged(&place, error.to_string()))?;
        if head.snapshot_number == 0 || head.snapshot_sequence == 0 {
            return Err(damaged(place, format!("it names no snapshot: {head:?}")));
        }
        let snapshot = Some(SnapshotAt {
            sequence: head.snapshot_sequence,
            number: head.snapshot_number,
            count: head.snapshot_pieces,
            hash: hash(&place, &head.snapshot_hash)?,
            record_hash: hash(&place, &head.record_hash)?,
        });
        let (oldest, oldest_commit) = (head.oldest_sequence, head.oldest_commit);
        let passed = Scan { snapshot, oldest, oldest_commit, seen: None, runs: VecDeque::new() };
        heads.insert(workspace, passed);
    }
    Ok(heads)
}

fn open_commit(
    stored: &StoredCommit,
    last: (u64, Hash),
    incarnation: &[u8; 16],
) -> Result<Commit, JournalError> {
    let place = format!("commit {}", stored.number);
    if stored.number != last.0 + 1 {
        return Err(damaged(place, format!("expected commit {} here", last.0 + 1)));
    }
    let commit = Commit::decode(stored.bytes.clone())
        .map_err(|error| damaged(&place, format!("it does not decode: {error}")))?;
    if commit.encoded_len() != stored.bytes.len() {
        let what = "it holds fields that this release does not know".into();
        return Err(JournalError::Newer { place, what });
    }
    if commit.number != stored.number || commit.incarnation[..] != incarnation[..] {
        let what = format!("it says it is commit {} of another database", commit.number);
        return Err(damaged(place, what));
    }
    if commit.previous[..] != last.1.0 {
        let found = hash(&place, &commit.previous)?;
        let what =
            format!("expected {:?} as the hash of the commit before, found {found:?}", last.1);
        return Err(damaged(place, what));
    }
    Ok(commit)
}

/// The commit that stands beside the database must be the one in it.
fn check_newest(newest: Option<&HighWater>, last: (u64, Hash)) -> Result<(), JournalError> {
    if let Some(newest) = newest
        && newest.commit == last.0
        && newest.hash != last.1
    {
        let what = format!("the log expects hash {:?}, found {:?}", newest.hash, last.1);
        return Err(damaged(format!("commit {}", last.0), what));
    }
    Ok(())
}

/// Takes one commit's entries into the workspaces they belong to.
fn pass(
    passing: &mut BTreeMap<WorkspaceId, Scan>,
    stored: &StoredCommit,
    commit: &Commit,
    visit: &mut impl FnMut(&WorkspaceId, u64, &[u8]) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    let all: usize = commit.entries.iter().map(encoded_len).sum();
    let mut offset = stored.bytes.len() - all;
    for entries in commit.entries.chunk_by(|a, b| a.workspace == b.workspace) {
        let length = entries.iter().map(encoded_len).sum();
        let name = &entries[0].workspace;
        let workspace = WorkspaceId::of_journal(name).map_err(|error| {
            damaged(format!("commit {}", stored.number), format!("workspace {name:?} {error}"))
        })?;
        let passed = passing.entry(workspace.clone()).or_insert_with(|| Scan {
            snapshot: None,
            oldest: 1,
            oldest_commit: 0,
            seen: None,
            runs: VecDeque::new(),
        });
        for entry in entries {
            pass_entry(passed, &workspace, entry, stored.number)?;
            if passed.oldest <= entry.sequence {
                visit(&workspace, entry.sequence, &entry.record)?;
            }
        }
        let small = |bytes: usize| u32::try_from(bytes).expect("its length was checked");
        let run = RecordSpan {
            commit: stored.number,
            first: entries[0].sequence,
            count: small(entries.len()),
            offset: small(offset),
            length: small(length),
        };
        if passed.oldest < run.end() {
            passed.runs.push_back(run);
        }
        offset += length;
    }
    Ok(())
}

/// How much of a commit an entry takes.
fn encoded_len(entry: &Entry) -> usize {
    let length = entry.encoded_len();
    1 + length_delimiter_len(length) + length
}

fn pass_entry(
    passed: &mut Scan,
    workspace: &WorkspaceId,
    entry: &Entry,
    commit: u64,
) -> Result<(), JournalError> {
    let (sequence, before) = match (&passed.seen, &passed.snapshot) {
        (Some((seen, hash)), _) => (seen + 1, Some(*hash)),
        (None, None) => (1, Some(Hash::default())),
        (None, Some(at)) if entry.sequence == at.sequence + 1 => {
            (passed.oldest, Some(at.record_hash))
        }
        // Older records may still be there, kept by other workspaces.
        (None, Some(_)) => (entry.sequence.min(passed.oldest), None),
    };
    let hash = read::check_entry(entry, workspace, sequence, commit, before)?;
    let place = || format!("{workspace}, record {sequence}, commit {commit}");
    if let Some(at) = &passed.snapshot
        && at.sequence == sequence
        && at.record_hash != hash
    {
        let what = format!("the snapshot expects hash {:?}, found {hash:?}", at.record_hash);
        return Err(damaged(place(), what));
    }
    if sequence == passed.oldest && ![0, commit].contains(&passed.oldest_commit) {
        return Err(damaged(
            place(),
            format!("the head expects it in commit {}", passed.oldest_commit),
        ));
    }
    passed.seen = Some((sequence, hash));
    Ok(())
}

/// Notes which snapshots nobody needs. Returns the number of the next.
fn find_leftovers(
    db: &Engine,
    passing: &BTreeMap<WorkspaceId, Scan>,
    index: &mut Index,
) -> Result<u64, JournalError> {
    let mut next = 1;
    let mut from = vec![PIECES];
    let place = "the snapshots";
    while let Some(row) = db.db().range(&from[..]..&[PIECES + 1][..]).next() {
        let (key, _) = row.map_err(|error| from_sled(place.as_ref(), error))?;
        let Some(layout::Key::Piece { workspace, number, .. }) = layout::Key::parse(&key) else {
            return Err(damaged(place, format!("unknown key {:?}", key.escape_ascii())));
        };
        next = next.max(number + 1);
        let Some(passed) = passing.get(&workspace) else {
            let place = format!("{workspace}, a snapshot");
            return Err(damaged(place, "there is neither a head that names it nor a record"));
        };
        let prefix = layout::pieces_prefix(&workspace, number);
        from.clone_from(&prefix);
        // What follows a prefix is shorter.
        from.extend([0xff; 9]);
        if passed.snapshot.is_none_or(|at| at.number != number) {
            index.leftovers.insert(prefix);
        }
    }
    Ok(next)
}

fn check_snapshot(
    db: &Engine,
    workspace: &WorkspaceId,
    at: &SnapshotAt,
) -> Result<(), JournalError> {
    let mut found = Hash::default();
    for piece in 0..at.count {
        let (_, hash) = read::piece(db, workspace, at.number, piece)?;
        found = chained(found, hash);
    }
    read::check_chain(workspace, at, found)
}

/// Where a workspace stands once all commits went by.
fn settle(workspace: &WorkspaceId, passed: Scan) -> Result<WorkspaceIndex, JournalError> {
    let Scan { snapshot, oldest, oldest_commit, seen, runs } = passed;
    let (last, last_hash) = match (seen, &snapshot) {
        (Some((seen, hash)), Some(at)) if at.sequence <= seen => (seen, hash),
        (Some(seen), None) => seen,
        (None, Some(at)) if oldest_commit == 0 => (at.sequence, at.record_hash),
        (seen, _) => {
            let expected = snapshot.map_or(0, |at| at.sequence);
            let found = seen.map_or_else(|| "none".into(), |(seen, _)| seen.to_string());
            let place = format!("{workspace}, record {expected}");
            let what = format!(
                "expected it in commit {oldest_commit} or later, found {found} as the last"
            );
            return Err(damaged(place, what));
        }
    };
    Ok(WorkspaceIndex { last, last_hash, snapshot, oldest, runs })
}

fn hash(place: &str, bytes: &[u8]) -> Result<Hash, JournalError> {
    let hash = bytes.try_into().map(Hash);
    hash.map_err(|_| damaged(place, format!("expected a hash of 16 bytes, found {}", bytes.len())))
}
