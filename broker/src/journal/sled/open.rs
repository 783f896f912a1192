//! Opening a data directory: the lock, creation that a crash cannot spoil, start-up's check.
//!
//! While a file `creating` is there nothing was ever acknowledged, and creation begins anew.
//! Without it, database and mark are both there or neither is; anything else is damage.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use sled::Batch;
use tasuki_proto::host::files;

use super::{
    Durability,
    check::{Checked, check},
    commit_builder::encode_meta,
    engine::{Engine, folder, guarded, storage, sync_dir},
    layout,
    lock::Lock,
    mark::{self, HighWater, MarkFile},
    read::damaged,
    swap,
};
use crate::{
    journal::{Hash, JournalError},
    rules::Fence,
};

pub(super) struct Open {
    pub(super) lock: Lock,
    pub(super) engine: Engine,
    pub(super) mark: MarkFile,
    pub(super) checked: Checked,
}

/// Opens what is in `dir` and checks it, after making it when there is nothing.
pub(super) fn open(dir: &Path, durability: Durability) -> Result<Open, JournalError> {
    let failed = |error| storage(&format!("making {}", dir.display()), &error);
    files::private_directory(dir).map_err(failed)?;
    // The database's files are as open as the umask leaves them.
    files::keep_others_out(dir);
    let lock = Lock::take(dir)?;
    swap::finish(dir)?;
    if is_fresh(dir)? {
        let engine = create(dir, durability, Fence::default(), None)?;
        return finish(dir, lock, engine);
    }
    if !folder(dir).join("db").exists() {
        let place = folder(dir).display().to_string();
        return Err(damaged(place, "expected the database that the mark belongs to, found none"));
    }
    let engine = Engine::open(dir, durability)?;
    finish(dir, lock, engine)
}

fn finish(dir: &Path, lock: Lock, engine: Engine) -> Result<Open, JournalError> {
    let checked = check_with_mark(dir, &engine);
    let (engine, checked) = engine.keep_if(checked)?;
    let mark = write_mark(dir, &checked)?;
    Ok(Open { lock, engine, mark, checked })
}

fn check_with_mark(dir: &Path, engine: &Engine) -> Result<Checked, JournalError> {
    let Some(mark) = mark::read(dir)? else {
        let place = mark::path(dir).display().to_string();
        return Err(damaged(place, "expected the mark that belongs to the database, found none"));
    };
    guarded(&folder(dir), || check(engine.db(), Some(&mark), |_, _, _| Ok(())))
}

/// Sets the mark to the newest commit found.
pub(super) fn write_mark(dir: &Path, checked: &Checked) -> Result<MarkFile, JournalError> {
    let mark = HighWater {
        incarnation: checked.incarnation,
        commit: checked.index.last_commit,
        hash: checked.index.last_hash,
    };
    MarkFile::write_anew(dir, &mark).map_err(|error| storage("writing the mark", &error))
}

fn creating(dir: &Path) -> PathBuf {
    dir.join("creating")
}

/// Whether nothing was ever acknowledged here.
fn is_fresh(dir: &Path) -> Result<bool, JournalError> {
    if creating(dir).exists() {
        return match mark::read(dir) {
            Ok(Some(mark)) if 0 < mark.commit => {
                let what = format!("expected a database, the mark knows commit {}", mark.commit);
                Err(damaged(creating(dir).display().to_string(), what))
            }
            Ok(_) | Err(_) => Ok(true),
        };
    }
    Ok(!folder(dir).exists() && !mark::path(dir).exists())
}

/// Makes a database; of this incarnation, or a new one.
pub(super) fn create(
    dir: &Path,
    durability: Durability,
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
    remove(|| std::fs::remove_file(mark::path(dir))).map_err(failed)?;

    let incarnation = match incarnation {
        Some(incarnation) => incarnation,
        None => new_incarnation()?,
    };
    let engine = Engine::open(dir, durability)?;
    let mut batch = Batch::default();
    batch.insert(layout::META, encode_meta(incarnation, 1, Hash::default(), fence));
    engine.commit(batch)?;
    engine.sync()?;
    let mark = HighWater { incarnation, commit: 0, hash: Hash::default() };
    MarkFile::write_anew(dir, &mark).map_err(failed)?;
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

fn remove(remove: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    match remove() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
