//! Opening a data directory: the lock, creation that a crash cannot spoil, what the database lacks,
//! start-up's check.
//!
//! While a file `creating` is there nothing was ever acknowledged, and creation begins anew.
//! Without it, database and log are both there or neither is; anything else is damage. Neither was
//! ever there where no broker noted its [`location`].
//!
//! Releases before the log had a mark instead ([`super::mark`]). As long as it is there it counts,
//! and no log does.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use sled::Batch;
use tasuki_proto::host::{files, location};

use super::{
    check::{self, Checked, check},
    commit_builder::encode_meta,
    engine::{Engine, folder, guarded, storage, sync_dir},
    layout,
    lock::Lock,
    log::{self, Contents, Frame, Log, Position},
    mark::{self, HighWater},
    read::{self, damaged},
    swap,
    syncer::BATCH_BYTES_MAX,
};
use crate::{
    journal::{Hash, JournalError},
    rules::Fence,
};

pub(super) struct Open {
    pub(super) lock: Lock,
    pub(super) engine: Engine,
    pub(super) log: Log,
    pub(super) checked: Checked,
}

/// Opens what is in `dir` and checks it, after making it when there is nothing.
pub(super) fn open(dir: &Path, is_repair: bool) -> Result<Open, JournalError> {
    let failed = |error| storage(&format!("making {}", dir.display()), &error);
    files::private_directory(dir).map_err(failed)?;
    // The database's files are as open as the umask leaves them.
    files::keep_others_out(dir);
    let lock = Lock::take(dir)?;
    swap::finish(dir)?;
    if !is_repair && repairing(dir).exists() {
        let place = repairing(dir).display().to_string();
        return Err(damaged(place, "`tasuki-broker repair-log` did not finish; run it again"));
    }
    if is_fresh(dir)? {
        let engine = create(dir, Fence::default(), None)?;
        return finish(dir, lock, engine);
    }
    if !folder(dir).join("db").exists() {
        let place = folder(dir).display().to_string();
        return Err(damaged(place, "expected the database that the log belongs to, found none"));
    }
    let engine = Engine::open(dir)?;
    finish(dir, lock, engine)
}

fn finish(dir: &Path, lock: Lock, engine: Engine) -> Result<Open, JournalError> {
    let checked = guarded(&folder(dir), || check_with_log(dir, &engine));
    let (engine, (checked, log)) = engine.keep_if(checked)?;
    Ok(Open { lock, engine, log, checked })
}

fn check_with_log(dir: &Path, engine: &Engine) -> Result<(Checked, Log), JournalError> {
    let newest = bring_up(dir, engine)?;
    let checked = check(engine, Some(&newest.commit()), |_, _, _| Ok(()))?;
    let log = match newest {
        Newest::Log(contents) => {
            let failed = |why| storage("opening the log", &why);
            Log::resume(dir, &contents).map_err(failed)?
        }
        Newest::Mark(_) => take_over(dir, engine, &checked)?,
    };
    Ok((checked, log))
}

/// What knows the newest commit.
pub(super) enum Newest {
    Log(Contents),
    Mark(HighWater),
}

impl Newest {
    pub(super) fn commit(&self) -> HighWater {
        match self {
            Self::Log(contents) => contents.newest_commit(),
            Self::Mark(mark) => *mark,
        }
    }

    /// Reads it, also while a broker writes.
    pub(super) fn read(dir: &Path) -> Result<Self, JournalError> {
        if let Some(mark) = mark::read(dir)? {
            return Ok(Self::Mark(mark));
        }
        if !log::folder(dir).exists() {
            let place = log::folder(dir).display().to_string();
            return Err(damaged(
                place,
                "expected the log that belongs to the database, found none",
            ));
        }
        log::read(dir).map(Self::Log)
    }
}

/// Gives the database what it lacks, and makes that durable. Returns what it was compared with.
pub(super) fn bring_up(dir: &Path, engine: &Engine) -> Result<Newest, JournalError> {
    let newest = Newest::read(dir)?;
    if let Newest::Log(contents) = &newest {
        apply(dir, engine, contents)?;
    }
    Ok(newest)
}

/// Gives the database what it lacks of this.
fn apply(dir: &Path, engine: &Engine, contents: &Contents) -> Result<(), JournalError> {
    check::check_incarnation(engine, &contents.incarnation())?;
    let at = read::position(engine)?;
    give(dir, engine, contents.after(at.number, at.hash)?)
}

/// Gives the database what it lacks of a log that may be damaged, as far as nothing is missing.
/// Returns the newest commit that the log has.
///
/// # Errors
/// Also when the log is another database's.
pub(super) fn apply_intact(
    dir: &Path,
    engine: &Engine,
    contents: &Contents,
) -> Result<u64, JournalError> {
    check::check_incarnation(engine, &contents.incarnation())?;
    let at = read::position(engine)?;
    let (frames, newest) = contents.intact_after(at.number, at.hash);
    give(dir, engine, &frames).map(|()| newest)
}

fn give(dir: &Path, engine: &Engine, frames: &[Frame]) -> Result<(), JournalError> {
    if !frames.is_empty() {
        log::settle(dir)?;
    }
    let mut bytes = 0;
    for (left, frame) in (0..frames.len()).rev().zip(frames) {
        if log::rows_of(&frame.rows).is_none() {
            let place = format!("frame {} of the log", frame.at.number);
            return Err(damaged(place, "its rows do not decode"));
        }
        engine.recent().add(&frame.at, &frame.rows);
        bytes += frame.rows.len();
        if left == 0 || BATCH_BYTES_MAX <= bytes {
            engine.write_recent()?;
            bytes = 0;
        }
    }
    Ok(())
}

/// Begins a log for a database that was found whole, whatever else knew its newest commit.
pub(super) fn take_over(
    dir: &Path,
    engine: &Engine,
    checked: &Checked,
) -> Result<Log, JournalError> {
    let (index, incarnation) = (&checked.index, checked.incarnation);
    let at = read::position(engine)?;
    let (commit, commit_hash) = (index.last_commit, index.last_hash);
    let end = Position { number: at.number, hash: at.hash, commit, commit_hash };
    let log = Log::create(dir, incarnation, end).inspect_err(|_| {
        // It has room neither for this nor for anything else.
        let _ = std::fs::remove_dir_all(log::folder(dir));
    })?;
    // A release that does not know the log refuses the database from here on.
    let mut batch = Batch::default();
    let (first, previous) = (index.first_commit, index.first_previous);
    batch.insert(layout::META, encode_meta(incarnation, first, previous, index.fence));
    engine.commit(batch)?;
    let failed = |error| storage("removing the mark", &error);
    remove(|| std::fs::remove_file(mark::path(dir))).map_err(failed)?;
    sync_dir(dir).map_err(failed)?;
    Ok(log)
}

/// A file that is there from when an incomplete log is replaced until grants are void. A broker that
/// started in between could grant the same numbers twice.
pub(super) fn repairing(dir: &Path) -> PathBuf {
    dir.join("repairing")
}

fn creating(dir: &Path) -> PathBuf {
    dir.join("creating")
}

/// Whether nothing was ever acknowledged here.
fn is_fresh(dir: &Path) -> Result<bool, JournalError> {
    if creating(dir).exists() {
        return match Newest::read(dir).map(|it| it.commit().commit) {
            Ok(commit) if 0 < commit => {
                let what = format!("expected a database, beside it commit {commit} is known");
                Err(damaged(creating(dir).display().to_string(), what))
            }
            Ok(_) | Err(_) => Ok(true),
        };
    }
    if [folder(dir), mark::path(dir), log::folder(dir)].iter().any(|it| it.exists()) {
        return Ok(false);
    }
    // Noted once both were made.
    if dir.join(location::FILE).exists() {
        let place = dir.display().to_string();
        return Err(damaged(
            place,
            "expected the database and the log that a broker had here, found neither; restore a \
             backup to an empty directory, or begin anew in one: name it with --data",
        ));
    }
    Ok(true)
}

/// Makes a database; of this incarnation, or a new one.
pub(super) fn create(
    dir: &Path,
    fence: Fence,
    incarnation: Option<[u8; 16]>,
) -> Result<Engine, JournalError> {
    let failed = |error| storage(&format!("making the database in {}", dir.display()), &error);
    File::create(creating(dir)).and_then(|file| file.sync_all()).map_err(failed)?;
    sync_dir(dir).map_err(failed)?;
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        sync_dir(parent).map_err(failed)?;
    }
    remove(|| std::fs::remove_dir_all(folder(dir))).map_err(failed)?;
    remove(|| std::fs::remove_dir_all(log::folder(dir))).map_err(failed)?;
    remove(|| std::fs::remove_file(mark::path(dir))).map_err(failed)?;

    let incarnation = match incarnation {
        Some(incarnation) => incarnation,
        None => new_incarnation()?,
    };
    // First, for it needs room that a full disk lacks.
    Log::create(dir, incarnation, Position::default())?;
    let engine = Engine::open(dir)?;
    let mut batch = Batch::default();
    batch.insert(layout::META, encode_meta(incarnation, 1, Hash::default(), fence));
    engine.commit(batch)?;
    sync_dir(dir).map_err(failed)?;
    std::fs::remove_file(creating(dir)).map_err(failed)?;
    sync_dir(dir).map_err(failed)?;
    Ok(engine)
}

fn new_incarnation() -> Result<[u8; 16], JournalError> {
    let mut incarnation = [0; 16];
    getrandom::fill(&mut incarnation)
        .map_err(|error| JournalError::Storage(format!("no randomness: {error}")))?;
    Ok(incarnation)
}

pub(super) fn remove(remove: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    match remove() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
