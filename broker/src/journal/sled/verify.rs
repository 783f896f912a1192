//! The deep check that a person asks for: all that start-up verifies, every body, and nothing
//! in the database that does not belong there.

use std::{collections::BTreeMap, fs, io::ErrorKind, path::Path};

use tasuki_proto::id::WorkspaceId;

use super::{
    Durability,
    check::{Checked, check},
    engine::{Engine, folder, from_sled, guarded, storage, sync_dir},
    index::Index,
    layout::{self, Key},
    lock::Lock,
    mark::{self, HighWater},
    open::write_mark,
    read::{self, damaged},
};
use crate::journal::{BodyKey, JournalError};

/// What a journal holds that was found whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub incarnation: [u8; 16],
    /// The oldest commit kept and the newest.
    pub first_commit: u64,
    pub last_commit: u64,
    pub workspaces: BTreeMap<WorkspaceId, WorkspaceReport>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceReport {
    /// The newest record's sequence, and how many are kept.
    pub last: u64,
    pub records: u64,
    /// The record that the snapshot includes last; 0 without one.
    pub snapshot: u64,
    pub bodies: u64,
    /// Bytes of records and bodies.
    pub bytes: u64,
    /// BLAKE3 over the snapshot, each record and each body, to compare two checks.
    pub digest: [u8; 32],
}

impl Report {
    pub fn records(&self) -> u64 {
        self.workspaces.values().map(|workspace| workspace.records).sum()
    }

    pub fn bodies(&self) -> u64 {
        self.workspaces.values().map(|workspace| workspace.bodies).sum()
    }
}

/// Whether a broker ever kept anything in `dir`. What cannot be looked at is said by whoever opens it.
pub fn is_used(dir: &Path) -> bool {
    [folder(dir), mark::path(dir)].iter().any(|path| match fs::symlink_metadata(path) {
        Ok(_) => true,
        Err(why) => !matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    })
}

/// Checks everything in `dir`, which no broker may be using.
///
/// # Errors
/// The first thing that is wrong, and where.
pub fn verify(dir: &Path) -> Result<Report, JournalError> {
    let (lock, engine) = open(dir)?;
    let mark = mark::read(dir).and_then(|mark| {
        mark.ok_or_else(|| damaged(mark::path(dir).display().to_string(), "it is missing"))
    });
    let checked = mark.and_then(|it| guarded(&folder(dir), || check_all(&engine, Some(&it))));
    let (engine, (_, report)) = engine.keep_if(checked)?;
    close(lock, engine)?;
    Ok(report)
}

/// Sets the mark to the newest commit, once everything else is found whole. For a mark that was
/// lost or spoilt: what the mark alone could have noticed, the loss of the newest commits, goes
/// unnoticed.
///
/// # Errors
/// As [`verify`], except for the mark.
pub fn repair_mark(dir: &Path) -> Result<Report, JournalError> {
    let (lock, engine) = open(dir)?;
    let checked = guarded(&folder(dir), || check_all(&engine, None));
    let (engine, (checked, report)) = engine.keep_if(checked)?;
    write_mark(dir, &checked)?;
    sync_dir(dir).map_err(|error| storage("writing the mark", &error))?;
    close(lock, engine)?;
    Ok(report)
}

fn open(dir: &Path) -> Result<(Lock, Engine), JournalError> {
    let database = folder(dir).join("db");
    let is_there = database.try_exists();
    let unreadable = |why| storage(&format!("reading {}", database.display()), &why);
    if !is_there.map_err(unreadable)? {
        return Err(damaged(folder(dir).display().to_string(), "there is no database"));
    }
    let lock = Lock::take(dir)?;
    Ok((lock, Engine::open(dir, Durability::Synced)?))
}

fn close(lock: Lock, engine: Engine) -> Result<(), JournalError> {
    engine.close().map_err(|error| storage("closing the database", &error))?;
    drop(lock);
    Ok(())
}

fn check_all(engine: &Engine, mark: Option<&HighWater>) -> Result<(Checked, Report), JournalError> {
    let mut digests = Digests::default();
    let checked = check(engine.db(), mark, |workspace, sequence, record| {
        let report = digests.add(workspace, b'R', &sequence.to_be_bytes(), record);
        report.records += 1;
    })?;
    check_keys(engine, &checked.index, &mut digests)?;
    let mut workspaces = BTreeMap::new();
    for (workspace, standing) in checked.index.workspaces() {
        let (hasher, mut report) = digests.0.remove(workspace).unwrap_or_default();
        report.last = standing.last;
        report.snapshot = standing.snapshot.map_or(0, |at| at.sequence);
        report.digest = *hasher.finalize().as_bytes();
        workspaces.insert(workspace.clone(), report);
    }
    if let Some((workspace, _)) = digests.0.pop_first() {
        return Err(damaged(
            workspace.to_string(),
            "it has bodies but neither record nor snapshot",
        ));
    }
    let report = Report {
        incarnation: checked.incarnation,
        first_commit: checked.index.first_commit,
        last_commit: checked.index.last_commit,
        workspaces,
    };
    Ok((checked, report))
}

#[derive(Default)]
struct Digests(BTreeMap<WorkspaceId, (blake3::Hasher, WorkspaceReport)>);

impl Digests {
    fn add(
        &mut self,
        workspace: &WorkspaceId,
        kind: u8,
        name: &[u8],
        bytes: &[u8],
    ) -> &mut WorkspaceReport {
        // Looked up first: an entry would clone the name for each record.
        if !self.0.contains_key(workspace) {
            self.0.insert(workspace.clone(), <_>::default());
        }
        let (hasher, report) = self.0.get_mut(workspace).expect("it was just inserted");
        for part in [&[kind][..], name, bytes] {
            hasher.update(&(part.len() as u64).to_be_bytes()).update(part);
        }
        report.bytes += bytes.len() as u64;
        report
    }
}

/// Goes over all keys: each is one of ours, and each body is whole.
fn check_keys(engine: &Engine, index: &Index, digests: &mut Digests) -> Result<(), JournalError> {
    // The body whose parts are passing by, and how many it must have; and the piece of a snapshot.
    let mut passing: Option<(WorkspaceId, BodyKey, u32)> = None;
    let mut piece_parts = (0, 0);
    for row in engine.db().iter() {
        let (key, value) = row.map_err(|error| from_sled("the database".as_ref(), error))?;
        let unknown = || damaged("the database", format!("unknown key {:?}", key.escape_ascii()));
        match Key::parse(&key).ok_or_else(unknown)? {
            // Meta, commits and heads were checked, all of them, before.
            Key::Meta | Key::Probe | Key::Commit { .. } | Key::Head { .. } => {}
            Key::Piece { workspace, number, piece, part } => {
                let snapshot = index.get(&workspace).and_then(|standing| standing.snapshot);
                // Left over from one that was replaced, which start-up knows already.
                let Some(at) = snapshot.filter(|at| at.number == number) else { continue };
                let (sequence, count) = (at.sequence, at.count);
                if part == 0 {
                    let parts = layout::split_body(&value).map_or(0, |(parts, ..)| parts);
                    piece_parts = (piece, parts);
                }
                if count <= piece || piece_parts.0 != piece || piece_parts.1 <= part {
                    let place = format!("{workspace}, snapshot {sequence}, piece {piece}");
                    return Err(damaged(place, format!("part {part} belongs to nothing")));
                }
                digests.add(&workspace, b'S', &sequence.to_be_bytes(), &value);
            }
            Key::Body { workspace, key, part: 0 } => {
                let place = format!("{workspace}, body {:?}", key.0);
                let (parts, ..) = layout::split_body(&value)
                    .ok_or_else(|| damaged(&place, "its header does not decode"))?;
                let body = read::body(engine.db(), &workspace, &key)?;
                let body = body.ok_or_else(|| damaged(place, "it is gone"))?;
                digests.add(&workspace, b'B', key.0.as_bytes(), &body).bodies += 1;
                passing = Some((workspace, key, parts));
            }
            Key::Body { workspace, key, part } => {
                let fits = passing.as_ref().is_some_and(|(its_workspace, its_key, parts)| {
                    *its_workspace == workspace && *its_key == key && part < *parts
                });
                if !fits {
                    let place = format!("{workspace}, body {:?}", key.0);
                    return Err(damaged(place, format!("part {part} belongs to no body")));
                }
            }
        }
    }
    Ok(())
}
