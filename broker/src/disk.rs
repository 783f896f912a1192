//! How much room the disk has: asked before something is written that could fill it and can wait.

use std::path::Path;

/// Bytes in the unit that people are told.
pub(crate) const MIB: u64 = 1024 * 1024;

/// What a disk says of itself, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Space {
    pub(crate) free: u64,
    all: u64,
}

impl Space {
    /// Of the disk that `folder` is on, or will be. `None` if the system does not say: it is found
    /// out by writing.
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        let mut there = folder;
        while !there.exists() {
            there = there.parent()?;
        }
        let disk = rustix::fs::statvfs(there).ok()?;
        Some(Self {
            free: disk.f_bavail.saturating_mul(disk.f_frsize),
            all: disk.f_blocks.saturating_mul(disk.f_frsize),
        })
    }

    /// What is to be left of it: so much, of a small disk a twentieth.
    pub(crate) fn reserve(self, bytes: u64) -> u64 {
        bytes.min(self.all / 20)
    }
}
