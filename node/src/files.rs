//! Renames that never take the place of what is there.
//!
//! Small files of this node's own that must be whole and durable are
//! [`tasuki_proto::host::files`]'s.

use std::{io, os::fd::AsFd, path::Path};

use rustix::{
    fs::{AtFlags, CWD, RenameFlags, renameat, renameat_with, statat},
    io::Errno,
    path::Arg,
};

/// To a name that nothing has. Where the file system cannot tell in the same moment, it is looked
/// at before.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    rename_new_at(CWD, from, CWD, to)
}

/// The same for names in open directories.
pub(crate) fn rename_new_at(
    from: impl AsFd + Copy,
    name: impl Arg + Copy,
    to: impl AsFd + Copy,
    new: impl Arg + Copy,
) -> io::Result<()> {
    match renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        Err(why) if is_unknown(why) => {
            if statat(to, new, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Ok(renameat(from, name, to, new)?)
        }
        renamed => Ok(renamed?),
    }
}

/// Whether the file system does not know the way.
pub(crate) fn is_unknown(why: Errno) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP].contains(&why)
}
