//! One process at a time: the lock on the data directory.
//!
//! The kernel drops the lock with the process, however it ends; the pid inside is for people.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    path::Path,
};

use crate::journal::JournalError;

/// Held as long as this lives.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// # Errors
    /// [`JournalError::InUse`] names the directory and, when it said so, the holder.
    pub(super) fn take(dir: &Path) -> Result<Self, JournalError> {
        let path = dir.join("lock");
        let failed = |error| JournalError::Storage(format!("locking {}: {error}", path.display()));
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The holder's pid is a courtesy: without it the refusal still stands.
                let _ = file.read_to_string(&mut holder);
                let place = dir.display();
                return Err(JournalError::InUse(match holder.trim().parse::<u32>() {
                    Ok(pid) => format!("{place} (process {pid})"),
                    Err(_) => place.to_string(),
                }));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { _file: file })
    }
}
