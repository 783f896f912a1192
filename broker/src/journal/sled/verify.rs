//! The deep check that a person asks for: all that start-up verifies, every body, and nothing
//! in the database that does not belong there.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::ErrorKind,
    ops::ControlFlow,
    path::Path,
};

use tasuki_proto::id::WorkspaceId;

use super::{
    check::{Checked, check, check_again},
    cut::Marks,
    engine::{Engine, folder, from_sled, guarded, storage, sync_dir},
    index::Index,
    layout::{self, Key},
    lock::Lock,
    log,
    mark::{self, HighWater},
    open::{Newest, apply_intact, bring_up, repairing, take_over},
    read::{self, damaged},
    swap,
};
use crate::journal::{BodyKey, JournalError, Report, WorkspaceReport};

/// How often a log is looked at that seems damaged while a broker may be writing it.
const LOOKS: usize = 3;

/// Whether a broker ever kept anything in `dir`. What cannot be looked at is said by whoever opens it.
pub fn is_used(dir: &Path) -> bool {
    [folder(dir), mark::path(dir), log::folder(dir)].iter().any(|path| {
        match fs::symlink_metadata(path) {
            Ok(_) => true,
            Err(why) => !matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        }
    })
}

/// Looks at the log alone, also while a broker serves `dir`, which is [used](is_used).
///
/// # Errors
/// As a start of the broker says it.
pub fn check_log(dir: &Path) -> Result<(), JournalError> {
    // While one segment was read, both may have been written.
    let mut found = Newest::read(dir);
    for _ in 1..LOOKS {
        if found.is_ok() {
            break;
        }
        found = Newest::read(dir);
    }
    found.map(drop)
}

/// Checks everything in `dir`, which no broker may be using.
///
/// # Errors
/// The first thing that is wrong, and where.
pub fn verify(dir: &Path) -> Result<Report, JournalError> {
    verify_with_progress(dir, |_| {})
}

/// The same; `progress` gets how many bytes were read more.
///
/// # Errors
/// As [`verify`].
pub fn verify_with_progress(
    dir: &Path,
    mut progress: impl FnMut(u64),
) -> Result<Report, JournalError> {
    let mut progress = |bytes| {
        progress(bytes);
        ControlFlow::Continue(())
    };
    let (lock, engine) = open(dir, swap::finish)?;
    let checked = guarded(&folder(dir), || {
        let newest = bring_up(dir, &engine)?;
        check_all(&engine, Some(&newest.commit()), &mut progress)
    });
    let (engine, (_, report)) = engine.keep_if(checked)?;
    close(lock, engine)?;
    Ok(report)
}

/// What a repair of the log came to.
#[derive(Debug)]
pub struct Repaired {
    pub report: Report,
    /// Nothing that was acknowledged is missing.
    pub is_complete: bool,
    /// The newest commit that was found in the log, if there was any.
    pub newest_commit: u64,
}

/// Gives the database what follows it in the log without a gap, and begins a new log, once the
/// database is found whole. For a log that was lost or spoilt: what only the rest of it had is lost.
///
/// If anything may be lost, no broker starts here until [`void_grants`](crate::compact::void_grants)
/// is done: it would grant the same numbers again.
///
/// # Errors
/// As [`verify`], except for the log; of that only when it is another database's.
pub fn repair_log(dir: &Path) -> Result<Repaired, JournalError> {
    let (lock, engine) = open(dir, swap::finish_or_keep)?;
    let mut progress = |_| ControlFlow::Continue(());
    let newest = Newest::read(dir).ok().map(|it| it.commit());
    let mut newest_commit = newest.map_or(0, |it| it.commit);
    let checked = guarded(&folder(dir), || {
        // While there is a mark, no log counts.
        if let Ok(None) = mark::read(dir) {
            match log::read_whole(dir) {
                Ok(contents) => {
                    newest_commit = newest_commit.max(apply_intact(dir, &engine, &contents)?);
                }
                // There is nothing to keep.
                Err(JournalError::Damaged { .. }) => {}
                Err(why) => return Err(why),
            }
        }
        check_all(&engine, None, &mut progress)
    });
    let (engine, (checked, report)) = engine.keep_if(checked)?;
    let (commit, hash) = (checked.index.last_commit, checked.index.last_hash);
    let is_newest = newest.is_some_and(|it| (it.commit, it.hash) == (commit, hash));
    let is_complete = is_newest && !repairing(dir).exists();
    if !is_complete {
        let failed = |why| storage("beginning a repair", &why);
        let begun = File::create(repairing(dir)).and_then(|it| it.sync_all());
        begun.and_then(|()| sync_dir(dir)).map_err(failed)?;
    }
    take_over(dir, &engine, &checked)?;
    close(lock, engine)?;
    Ok(Repaired { report, is_complete, newest_commit })
}

fn open(
    dir: &Path,
    finish: impl FnOnce(&Path) -> Result<(), JournalError>,
) -> Result<(Lock, Engine), JournalError> {
    let database = folder(dir).join("db");
    let is_there = database.try_exists();
    let unreadable = |why| storage(&format!("reading {}", database.display()), &why);
    if !is_there.map_err(unreadable)? && !swap::is_begun(dir) {
        return Err(damaged(folder(dir).display().to_string(), "there is no database"));
    }
    let lock = Lock::take(dir)?;
    finish(dir)?;
    Ok((lock, Engine::open(dir)?))
}

fn close(lock: Lock, engine: Engine) -> Result<(), JournalError> {
    engine.close().map_err(|error| storage("closing the database", &error))?;
    drop(lock);
    Ok(())
}

fn check_all(
    engine: &Engine,
    newest: Option<&HighWater>,
    progress: Progress<'_>,
) -> Result<(Checked, Report), JournalError> {
    let mut digests = Digests { of: BTreeMap::new(), progress };
    let checked = check(engine, newest, |workspace, sequence, record| {
        digests.record(workspace, sequence, record)
    })?;
    let report = report(engine, &checked.index, checked.incarnation, None, digests)?;
    Ok((checked, report))
}

/// The same of a cut, while others write.
pub(super) fn check_cut(
    db: &Engine,
    index: &Index,
    incarnation: [u8; 16],
    marks: &Marks,
    progress: Progress<'_>,
) -> Result<Report, JournalError> {
    let mut digests = Digests { of: BTreeMap::new(), progress };
    check_again(db, index, incarnation, |workspace, sequence, record| {
        digests.record(workspace, sequence, record)
    })?;
    report(db, index, incarnation, Some(marks), digests)
}

/// Goes over all keys once the commits are found whole.
fn report(
    db: &Engine,
    index: &Index,
    incarnation: [u8; 16],
    marks: Option<&Marks>,
    mut digests: Digests<'_>,
) -> Result<Report, JournalError> {
    check_keys(db, index, marks, &mut digests)?;
    let mut workspaces = BTreeMap::new();
    for (workspace, standing) in index.workspaces() {
        let (hasher, mut report) = digests.of.remove(workspace).unwrap_or_default();
        report.last = standing.last;
        report.snapshot = standing.snapshot.map_or(0, |at| at.sequence);
        report.digest = *hasher.finalize().as_bytes();
        workspaces.insert(workspace.clone(), report);
    }
    if let Some((workspace, _)) = digests.of.pop_first() {
        return Err(damaged(
            workspace.to_string(),
            "it has bodies but neither record nor snapshot",
        ));
    }
    let (first_commit, last_commit) = (index.first_commit, index.last_commit);
    Ok(Report { incarnation, first_commit, last_commit, workspaces })
}

/// Gets how many bytes were read more, and may give up.
pub(super) type Progress<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

struct Digests<'a> {
    of: BTreeMap<WorkspaceId, (blake3::Hasher, WorkspaceReport)>,
    progress: Progress<'a>,
}

impl Digests<'_> {
    fn record(
        &mut self,
        workspace: &WorkspaceId,
        sequence: u64,
        record: &[u8],
    ) -> Result<(), JournalError> {
        let report = self.add(workspace, b'R', &sequence.to_be_bytes(), record)?;
        report.records += 1;
        report.bytes.records += record.len() as u64;
        Ok(())
    }

    fn add(
        &mut self,
        workspace: &WorkspaceId,
        kind: u8,
        name: &[u8],
        bytes: &[u8],
    ) -> Result<&mut WorkspaceReport, JournalError> {
        if (self.progress)(bytes.len() as u64).is_break() {
            return Err(JournalError::Closed);
        }
        // Looked up first: an entry would clone the name for each record.
        if !self.of.contains_key(workspace) {
            self.of.insert(workspace.clone(), <_>::default());
        }
        let (hasher, report) = self.of.get_mut(workspace).expect("it was just inserted");
        for part in [&[kind][..], name, bytes] {
            hasher.update(&(part.len() as u64).to_be_bytes()).update(part);
        }
        Ok(report)
    }
}

/// Goes over all keys: each is one of ours, and each body is whole. What came after the cut is
/// passed over.
fn check_keys(
    db: &Engine,
    index: &Index,
    marks: Option<&Marks>,
    digests: &mut Digests<'_>,
) -> Result<(), JournalError> {
    // The body whose parts are passing by, and how many it must have; and the piece of a snapshot.
    let mut passing: Option<(WorkspaceId, BodyKey, u32)> = None;
    let mut piece_parts = (0, 0);
    let is_later = |workspace: &WorkspaceId, key: &BodyKey| {
        marks.is_some_and(|marks| marks.has(workspace, key))
    };
    for row in db.db().iter() {
        let (key, value) = row.map_err(|error| from_sled("the database".as_ref(), error))?;
        let unknown = || damaged("the database", format!("unknown key {:?}", key.escape_ascii()));
        match Key::parse(&key).ok_or_else(unknown)? {
            // Meta, commits and heads were checked, all of them, before.
            Key::Meta | Key::Probe | Key::Position | Key::Commit { .. } | Key::Head { .. } => {}
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
                let report = digests.add(&workspace, b'S', &sequence.to_be_bytes(), &value)?;
                report.bytes.snapshot += value.len() as u64;
            }
            Key::Body { workspace, key, .. } if is_later(&workspace, &key) => {}
            Key::Body { workspace, key, part: 0 } => {
                let place = format!("{workspace}, body {:?}", key.0);
                let (parts, ..) = layout::split_body(&value)
                    .ok_or_else(|| damaged(&place, "its header does not decode"))?;
                let body = read::body(db, &workspace, &key)?;
                let body = body.ok_or_else(|| damaged(place, "it is gone"))?;
                let report = digests.add(&workspace, b'B', key.0.as_bytes(), &body)?;
                report.bodies += 1;
                report.bytes.bodies += body.len() as u64;
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
