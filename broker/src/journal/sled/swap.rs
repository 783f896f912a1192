//! A database in the place of the one that it was made of, whenever the program is killed.
//!
//! ```text
//! rewrite.new/{db, log}           being written: of no use, and removed by whoever opens next
//! rewrite.done/{db, log, before}  whole: whoever opens next puts it in its place
//! rewrite.old/                    the database of before, to be removed
//! ```
//!
//! Renaming the first to the second decides. `before` says where the log of the database stood that
//! it was made of: where another release wrote to that meanwhile, it stays, and what was made of it
//! goes.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    SledJournal,
    engine::{folder, storage, sync_dir},
    log, mark, open,
};
use crate::journal::JournalError;

/// Where a database is written that is to take the place of the one in this directory.
pub fn staging(dir: &Path) -> PathBuf {
    dir.join("rewrite.new")
}

fn done(dir: &Path) -> PathBuf {
    dir.join("rewrite.done")
}

fn old(dir: &Path) -> PathBuf {
    dir.join("rewrite.old")
}

/// Where the log stood of the database that another was made of, beside that.
const BEFORE: &str = "before";

/// Whether a database is on its way to its place.
pub(super) fn is_begun(dir: &Path) -> bool {
    done(dir).exists()
}

/// A database that is to be replaced; nobody writes to it meanwhile.
#[derive(Debug)]
pub struct Rewriting<'a> {
    pub journal: &'a SledJournal,
}

impl Rewriting<'_> {
    /// From here on what is in [`staging`] counts, which is whole and on the disk. It comes to its
    /// place when the directory is opened next.
    ///
    /// # Errors
    /// When that cannot be written; then the database of before still counts.
    pub fn decide(self) -> Result<(), JournalError> {
        let dir = self.journal.dir();
        let failed = |why| storage("replacing the database", &why);
        let new = staging(dir);
        fs::write(new.join(BEFORE), stamp(dir)?).map_err(failed)?;
        fs::File::open(new.join(BEFORE)).and_then(|it| it.sync_all()).map_err(failed)?;
        sync_dir(&new).map_err(failed)?;
        fs::rename(&new, done(dir)).map_err(failed)?;
        sync_dir(dir).map_err(failed)
    }
}

/// What differs once a database was written to: the newest frame; of one without a log, its mark.
fn stamp(dir: &Path) -> Result<Vec<u8>, JournalError> {
    match fs::read(mark::path(dir)) {
        Ok(mark) => Ok(mark),
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let end = log::read(dir)?.end();
            Ok(format!("{} {:?}\n", end.number, end.hash).into_bytes())
        }
        Err(why) => Err(storage("replacing the database", &why)),
    }
}

/// Finishes what was decided, and removes what was not. Whoever calls it has the lock.
pub(super) fn finish(dir: &Path) -> Result<(), JournalError> {
    let failed = |why| storage("replacing the database", &why);
    if is_begun(dir) {
        put_in_place(dir)?;
    }
    for left in [staging(dir), done(dir), old(dir)] {
        remove(&left).map_err(failed)?;
    }
    Ok(())
}

/// The same; where the database has no log any more to be compared with, what was made of it goes.
pub(super) fn finish_or_keep(dir: &Path) -> Result<(), JournalError> {
    if is_begun(dir)
        && folder(&done(dir)).exists()
        && folder(dir).exists()
        && let Err(JournalError::Damaged { .. }) = stamp(dir)
    {
        tracing::warn!("{} stays as it was before it was rewritten", dir.display());
        remove(&done(dir)).map_err(|why| storage("replacing the database", &why))?;
    }
    finish(dir)
}

fn put_in_place(dir: &Path) -> Result<(), JournalError> {
    let failed = |why| storage("replacing the database", &why);
    let (done, old) = (done(dir), old(dir));
    let (new_db, new_log) = (folder(&done), log::folder(&done));
    if new_db.exists() {
        if folder(dir).exists() {
            // Without one it was being removed.
            let before = fs::read(done.join(BEFORE)).ok();
            if before.is_none() || before != Some(stamp(dir)?) {
                tracing::warn!(
                    "{} was written to since it was rewritten, and stays",
                    dir.display()
                );
                return Ok(());
            }
            remove(&old).map_err(failed)?;
            fs::rename(folder(dir), &old).map_err(failed)?;
        }
        fs::rename(new_db, folder(dir)).map_err(failed)?;
        sync_dir(dir).map_err(failed)?;
    }
    // The new database is there, and does not go with the old log. A release before the log may have
    // been killed here.
    let new_mark = mark::path(&done);
    if new_mark.exists() {
        fs::rename(new_mark, mark::path(dir)).map_err(failed)?;
        sync_dir(dir).map_err(failed)?;
    }
    if new_log.exists() {
        remove(&log::folder(dir)).map_err(failed)?;
        fs::rename(new_log, log::folder(dir)).map_err(failed)?;
        sync_dir(dir).map_err(failed)?;
    }
    // Nothing that was granted before a repair holds in the new one.
    open::remove(|| fs::remove_file(open::repairing(dir))).map_err(failed)?;
    sync_dir(dir).map_err(failed)
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::journal::sled::log::{Log, Position};

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn write_log(dir: &Path, number: u64) {
        Log::create(dir, [1; 16], Position { number, ..Position::default() }).unwrap();
    }

    /// A directory whose database is old, with one that is decided.
    fn decided() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        write(&folder(dir.path()).join("db"), "old");
        write_log(dir.path(), 7);
        write(&folder(&done(dir.path())).join("db"), "new");
        write_log(&done(dir.path()), 0);
        fs::write(done(dir.path()).join(BEFORE), stamp(dir.path()).unwrap()).unwrap();
        dir
    }

    fn found(dir: &Path) -> (String, u64) {
        finish(dir).unwrap();
        let mut left: Vec<_> = dir.read_dir().unwrap().map(|it| it.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["db", "log"]);
        let database = fs::read_to_string(folder(dir).join("db")).unwrap();
        (database, log::read(dir).unwrap().end().number)
    }

    #[test]
    fn it_comes_to_its_place_wherever_the_program_was_killed() {
        let step = |at: usize, dir: &Path| match at {
            0 => fs::rename(folder(dir), old(dir)).unwrap(),
            1 => fs::rename(folder(&done(dir)), folder(dir)).unwrap(),
            2 => fs::remove_dir_all(log::folder(dir)).unwrap(),
            3 => fs::rename(log::folder(&done(dir)), log::folder(dir)).unwrap(),
            4 => fs::remove_dir_all(done(dir)).unwrap(),
            _ => fs::remove_dir_all(old(dir)).unwrap(),
        };
        for killed_at in 0..=6 {
            let dir = decided();
            (0..killed_at).for_each(|at| step(at, dir.path()));
            assert_eq!(found(dir.path()), ("new".to_owned(), 0), "after {killed_at} steps");
            assert_eq!(found(dir.path()), ("new".to_owned(), 0));
        }
    }

    /// Releases before the log kept a mark beside the database.
    #[test]
    fn what_an_earlier_release_decided_comes_to_its_place() {
        for killed_at in 0..3 {
            let dir = tempfile::tempdir().unwrap();
            let (dir, done) = (dir.path(), &done(dir.path()));
            write(&folder(dir).join("db"), "old");
            write(&mark::path(dir), "old mark");
            write(&folder(done).join("db"), "new");
            write(&mark::path(done), "new mark");
            write(&done.join(BEFORE), "old mark");
            if 0 < killed_at {
                fs::rename(folder(dir), old(dir)).unwrap();
            }
            if 1 < killed_at {
                fs::rename(folder(done), folder(dir)).unwrap();
            }
            finish(dir).unwrap();
            let found = [folder(dir).join("db"), mark::path(dir)].map(fs::read_to_string);
            assert_eq!(found.map(Result::unwrap), ["new", "new mark"], "after {killed_at} steps");
        }
    }

    #[test]
    fn what_cannot_be_compared_takes_nothing_away() {
        let dir = decided();
        fs::remove_dir_all(log::folder(dir.path())).unwrap();
        assert!(finish(dir.path()).is_err());
        assert!(folder(dir.path()).exists() && folder(&done(dir.path())).exists());
        // Until somebody repairs the log.
        finish_or_keep(dir.path()).unwrap();
        assert_eq!(fs::read_to_string(folder(dir.path()).join("db")).unwrap(), "old");
        assert!(!done(dir.path()).exists());
    }

    #[test]
    fn what_was_not_decided_is_removed() {
        let dir = decided();
        fs::rename(done(dir.path()), staging(dir.path())).unwrap();
        assert_eq!(found(dir.path()), ("old".to_owned(), 7));
    }

    #[test]
    fn a_database_that_was_written_to_since_stays() {
        let dir = decided();
        write_log(dir.path(), 8);
        assert_eq!(found(dir.path()), ("old".to_owned(), 8));
    }
}
