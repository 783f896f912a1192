//! Why nothing can be kept in a data directory, as the file system says itself: asked after a write
//! failed, for what its user can do about it.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};

/// A disk with less than this, in bytes, takes no broker or node: each writes a few files at its start.
const FREE_BYTES_MIN: u64 = 1024 * 1024;

/// What keeps a directory from being written to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    #[error(
        "Nothing can be written to {0}: its file system is read-only. Remount it, or choose another \
         directory with --data DIR"
    )]
    ReadOnly(PathBuf),
    #[error(
        "Nothing can be written to {data}: its disk is full ({free} bytes free). Free some space, \
         or choose another directory with --data DIR. What is there is kept"
    )]
    Full { data: PathBuf, free: u64 },
    #[error(
        "Nothing can be written to {0}: you may not. Change its permissions, or choose another \
         directory with --data DIR"
    )]
    Forbidden(PathBuf),
}

impl Unwritable {
    /// `None`: something else is wrong. A directory that is not there is looked at where it would
    /// be made.
    pub fn find(data: &Path) -> Option<Self> {
        let there = data.ancestors().find(|it| it.exists())?;
        if let Ok(disk) = statvfs(there) {
            if disk.f_flag.contains(StatVfsMountFlags::RDONLY) {
                return Some(Self::ReadOnly(data.to_owned()));
            }
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            // One that has no blocks at all is none of a disk.
            if free < FREE_BYTES_MIN && disk.f_blocks != 0 {
                return Some(Self::Full { data: data.to_owned(), free });
            }
        }
        access(there, Access::WRITE_OK).is_err().then(|| Self::Forbidden(data.to_owned()))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn a_directory_that_its_user_may_not_write_to_says_so() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("not/there/yet");
        assert_eq!(Unwritable::find(&data), None);
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o500)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        let expected = (!is_root).then(|| Unwritable::Forbidden(data.clone()));
        assert_eq!(Unwritable::find(&data), expected);
    }
}
