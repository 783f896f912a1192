//! Whether the disk has room for more index: mail comes first.

use std::path::Path;

use super::indexer::Failure;
use crate::disk::{MIB, Space};

/// What is left to the journal, in bytes: hours of mail. Of a small disk a twentieth.
pub(super) const FREE_BYTES_MIN: u64 = 256 * MIB;

/// How much must be left on the disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) free_bytes_min: u64,
}

impl Room {
    /// # Errors
    /// [`Failure::NoRoom`] with how much there is.
    pub(super) fn check(self, folder: &Path) -> Result<(), Failure> {
        let Some(disk) = Space::of(folder) else { return Ok(()) };
        let least = disk.reserve(self.free_bytes_min);
        if disk.free < least {
            return Err(Failure::NoRoom(format!(
                "the disk has {} MiB left; the index stops growing at {} MiB, so that mail goes on",
                disk.free / MIB,
                least / MIB
            )));
        }
        Ok(())
    }
}
