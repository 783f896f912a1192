//! Renames that never take the place of what is there.
//!
//! Small files of this node's own that must be whole and durable are
//! [`tasuki_broker::files`]'s.

use std::{fs, io, path::Path};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

/// To a name that nothing has. Where the file system cannot tell in the same moment, it is looked
/// at before.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(why) if is_unknown(why) => {
            if fs::symlink_metadata(to).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(from, to)
        }
        renamed => Ok(renamed?),
    }
}

/// Whether the file system does not know the way.
pub(crate) fn is_unknown(why: Errno) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP].contains(&why)
}
