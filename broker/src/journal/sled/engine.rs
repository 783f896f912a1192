//! sled, held the only way it keeps its word.
//!
//! Three things it does not do by itself: a flush that reaches the disk ([`Engine::flush`]
//! adds the `fdatasync`), an open that survives a kill during the one before (the left-over
//! snapshot is removed), and errors instead of panics on damaged files ([`guarded`]).

use std::{
    fs::File,
    io,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

use bytes::Bytes;
use sled::{Batch, Config, Db, IVec, Mode};

use super::recent::Recent;

use crate::journal::JournalError;

/// Pages sled keeps in memory, in bytes. Recent commits are read while they are in it.
const CACHE_BYTES: u64 = 128 * 1024 * 1024;

/// How long sled may take to open. It recovers about 2 GB a second from memory and the disk's
/// own speed from cold; on some damage it never ends.
const OPEN_TIME_MAX: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct Engine {
    db: Db,
    /// Opened apart from sled's own handle, for the sync that sled leaves out.
    data: File,
    recent: Recent,
}

/// A value, wherever it was found.
#[derive(Debug)]
pub(super) enum Value {
    Stored(IVec),
    Recent(Bytes),
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Stored(bytes) => bytes,
            Self::Recent(bytes) => bytes,
        }
    }
}

/// The folder that sled owns.
pub(super) fn folder(dir: &Path) -> PathBuf {
    dir.join("db")
}

impl Engine {
    /// Opens or creates the database in [`folder`]. What is read afterwards is on disk.
    pub(super) fn open(dir: &Path) -> Result<Self, JournalError> {
        let folder = folder(dir);
        let failed = |error| storage("opening the database", &error);
        remove_unfinished_snapshots(&folder).map_err(failed)?;
        let db = open_apart(&folder)?;
        let data = File::open(folder.join("db")).map_err(failed)?;
        let engine = Self { db, data, recent: Recent::default() };
        let synced = guarded(&folder, || engine.db.flush().map_err(|it| from_sled(&folder, it)))
            .and_then(|_| sync_files(&folder).map_err(failed))
            .and_then(|()| sync_dir(dir).map_err(failed));
        synced.inspect_err(|_| forget(&engine.data))?;
        Ok(engine)
    }

    /// The database alone, without what is recent.
    pub(super) fn db(&self) -> &Db {
        &self.db
    }

    pub(super) const fn recent(&self) -> &Recent {
        &self.recent
    }

    pub(super) fn get(&self, key: &[u8]) -> sled::Result<Option<Value>> {
        // First: what is recent leaves there once the database has it.
        match self.recent.get(key) {
            Some(value) => Ok(value.map(Value::Recent)),
            None => Ok(self.db.get(key)?.map(Value::Stored)),
        }
    }

    /// Writes a batch, all or nothing. It is there to be read, and not yet on the disk.
    pub(super) fn apply(&self, batch: Batch) -> Result<(), JournalError> {
        guarded(Path::new("the newest commit"), || {
            self.db.apply_batch(batch).map_err(|error| writing(&error))
        })
    }

    /// When this returns, what was applied before survives a power cut.
    pub(super) fn flush(&self) -> Result<(), JournalError> {
        guarded(Path::new("the newest commit"), || {
            self.db.flush().map(drop).map_err(|error| writing(&error))
        })?;
        // What sled's flush leaves out.
        self.data.sync_data().map_err(|error| storage("syncing the database", &error))
    }

    /// Writes what is recent, after which it is in the database and synced. Says up to which frame.
    pub(super) fn write_recent(&self) -> Result<u64, JournalError> {
        let (batch, frame) = self.recent.batch();
        self.commit(batch)?;
        self.recent.forget(frame);
        Ok(frame)
    }

    /// Both.
    pub(super) fn commit(&self, batch: Batch) -> Result<(), JournalError> {
        // sled itself may have been told that a write failed, and nobody is told twice.
        self.apply(batch).and_then(|()| self.flush()).inspect_err(|_| forget(&self.data))
    }

    /// Hands `checked` on; the engine only when it is whole, else it is closed.
    pub(super) fn keep_if<T>(
        self,
        checked: Result<T, JournalError>,
    ) -> Result<(Self, T), JournalError> {
        match checked {
            Ok(checked) => Ok((self, checked)),
            Err(error) => {
                // Why it was refused matters more than how it closed.
                let _ = self.close();
                Err(error)
            }
        }
    }

    /// Drops sled and waits until its last thread let go of the file.
    pub(super) fn close(self) -> io::Result<()> {
        let Self { db, data, .. } = self;
        drop(db);
        // sled holds the same kind of lock on the same file as long as any thread of it lives.
        data.lock()?;
        // A child process that is just being started may have a copy of this file, and with it
        // of what was taken with this line before.
        data.unlock()
    }
}

/// Makes what was written to a file durable, and where that fails, [forgets](forget) it.
pub(super) fn sync(file: &File) -> io::Result<()> {
    file.sync_data().inspect_err(|_| forget(file))
}

/// What the system could not write it takes for written, and shows to whoever reads. It is told to
/// forget that, so that a start sees what is on the disk.
fn forget(file: &File) {
    #[cfg(any(target_os = "android", target_os = "linux"))]
    // Why the write failed matters more.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    let _ = file;
}

fn writing(error: &sled::Error) -> JournalError {
    JournalError::Storage(format!("writing: {error}"))
}

/// What `work` returns; a panic inside sled is damage.
pub(super) fn guarded<T>(
    place: &Path,
    work: impl FnOnce() -> Result<T, JournalError>,
) -> Result<T, JournalError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(JournalError::Damaged {
            place: place.display().to_string(),
            what: format!("sled gave up: {}", panic_text(panic.as_ref())),
        })
    })
}

pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given")
}

pub(super) fn storage(doing: &str, error: &io::Error) -> JournalError {
    JournalError::Storage(format!("{doing}: {error}"))
}

/// An error of sled while reading or opening: the system's own are failures, others damage.
pub(super) fn from_sled(place: &Path, error: sled::Error) -> JournalError {
    match error {
        // sled's words for its own lock; ours is held, so it is no broker of this release.
        sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => {
            JournalError::InUse(place.display().to_string())
        }
        sled::Error::Io(error) if is_of_system(&error) => {
            // sled writes when it opens, also what is only to be read.
            let is_full = error.kind() == io::ErrorKind::StorageFull;
            let next = if is_full { "; free some space on that disk and try again" } else { "" };
            JournalError::Storage(format!("using {}: {error}{next}", place.display()))
        }
        error @ (sled::Error::Io(_)
        | sled::Error::Corruption { .. }
        | sled::Error::CollectionNotFound(_)
        | sled::Error::Unsupported(_)
        | sled::Error::ReportableBug(_)) => JournalError::Damaged {
            place: place.display().to_string(),
            what: format!("sled reports: {error}"),
        },
    }
}

/// After a write failed, sled answers everything with a copy of the error, which says what it was in
/// its text alone.
fn is_of_system(error: &io::Error) -> bool {
    error.raw_os_error().is_some() || error.to_string().contains("Os { code: ")
}

/// Makes names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// sled writes its settings and its page table without syncing the directory.
fn sync_files(folder: &Path) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let file = File::open(entry.path())?;
            file.sync_all().inspect_err(|_| forget(&file))?;
        }
    }
    sync_dir(folder)
}

/// A kill during open leaves one, and sled then refuses to open.
fn remove_unfinished_snapshots(folder: &Path) -> io::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in folder.read_dir()? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// On a thread of its own: sled may panic, or never return.
fn open_apart(folder: &Path) -> Result<Db, JournalError> {
    let (done, opened) = mpsc::sync_channel(1);
    let config = Config::new()
        .path(folder)
        .mode(Mode::HighThroughput)
        .flush_every_ms(None)
        .cache_capacity(CACHE_BYTES);
    let place = folder.to_owned();
    let thread = std::thread::Builder::new().name("sled-open".into()).spawn(move || {
        let result = guarded(&place, || config.open().map_err(|error| from_sled(&place, error)));
        // Nobody waits for it any more: it took too long.
        let _ = done.send(result);
    });
    thread.map_err(|error| storage("opening the database", &error))?;
    opened.recv_timeout(OPEN_TIME_MAX).unwrap_or_else(|_| {
        Err(JournalError::Damaged {
            place: folder.display().to_string(),
            what: format!("sled did not open it within {} s", OPEN_TIME_MAX.as_secs()),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_with_what_to_do_about_it() {
        let of = |kind: rustix::io::Errno| {
            let error = sled::Error::Io(io::Error::from_raw_os_error(kind.raw_os_error()));
            from_sled(Path::new("/data/broker/db"), error).to_string()
        };
        let full = of(rustix::io::Errno::NOSPC);
        assert!(full.starts_with("storage failed: using /data/broker/db: No space left"), "{full}");
        assert!(full.ends_with("; free some space on that disk and try again"), "{full}");
        assert!(!of(rustix::io::Errno::IO).contains("free some space"));
        // What sled says from then on, whoever asks.
        for errno in [rustix::io::Errno::NOSPC, rustix::io::Errno::IO] {
            let first = sled::Error::Io(io::Error::from_raw_os_error(errno.raw_os_error()));
            let later = from_sled(Path::new("/data/broker/db"), first.clone());
            assert!(matches!(later, JournalError::Storage(_)), "{later}");
        }
        let torn = sled::Error::Io(io::ErrorKind::UnexpectedEof.into());
        assert!(matches!(from_sled(Path::new("db"), torn), JournalError::Damaged { .. }));
    }
}
