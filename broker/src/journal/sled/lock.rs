//! One process at a time: the lock on the data directory.
//!
//! The kernel drops the lock with the process, however it ends; the pid inside is for people.

use std::{
    fs::{self, OpenOptions, TryLockError},
    io::{Seek as _, Write as _},
    path::Path,
};

use tasuki_proto::host::files::Locked;

use crate::journal::JournalError;

/// Held as long as this lives.
#[derive(Debug)]
pub(super) struct Lock {
    _file: Locked,
}

impl Lock {
    /// # Errors
    /// [`JournalError::InUse`] names the directory and, when it said so, the holder.
    pub(super) fn take(dir: &Path) -> Result<Self, JournalError> {
        let path = dir.join("lock");
        let failed = |error| JournalError::Storage(format!("locking {}: {error}", path.display()));
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        let mut locked = match Locked::take(file) {
            Ok(locked) => locked,
            Err(TryLockError::WouldBlock) => {
                // The holder's pid is a courtesy: without it the refusal still stands.
                let holder = fs::read_to_string(&path).unwrap_or_default();
                let place = dir.display();
                return Err(JournalError::InUse(match holder.trim().parse::<u32>() {
                    Ok(pid) => format!("{place} (process {pid})"),
                    Err(_) => place.to_string(),
                }));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        };
        let file = locked.file();
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { _file: locked })
    }
}
