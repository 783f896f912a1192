//! Whether the disk has room for more index: mail comes first.

use std::path::Path;

use super::keeper::Failure;

/// What is left to the journal, in bytes: hours of mail. Of a small disk a twentieth.
pub(super) const FREE_BYTES_MIN: u64 = 256 * 1024 * 1024;

/// How much must be left on the disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) free_bytes_min: u64,
}

impl Room {
    /// # Errors
    /// [`Failure::NoRoom`] with how much there is.
    pub(super) fn check(self, folder: &Path) -> Result<(), Failure> {
        let mut there = folder;
        while !there.exists() {
            let Some(parent) = there.parent() else { return Ok(()) };
            there = parent;
        }
        // What cannot be told is found out by writing.
        let Ok(disk) = rustix::fs::statvfs(there) else { return Ok(()) };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let all = disk.f_blocks.saturating_mul(disk.f_frsize);
        let least = self.free_bytes_min.min(all / 20);
        if free < least {
            const MIB: u64 = 1024 * 1024;
            return Err(Failure::NoRoom(format!(
                "the disk has {} MiB left; the index stops growing at {} MiB, so that mail goes on",
                free / MIB,
                least / MIB
            )));
        }
        Ok(())
    }
}
