//! Changes on disk, each of which happens whole or not at all, and loses nothing.
//!
//! A file is written beside its place under a hidden name, made durable, and renamed. What is in a
//! place is never written over: it changes places with the new file, and only when it turns out to
//! be what was expected is it removed. A person who saves in that very moment finds the file put
//! aside. Where a file system cannot exchange two files, the moment between the look and the rename
//! is all there is.
//!
//! Names are made durable by nobody: after a power cut a file may be back where it was before, and
//! is treated as one that the node was killed over.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::{
    fs::{CWD, OFlags, RenameFlags, renameat_with},
    io::Errno,
};
use serde::{Deserialize, Serialize};

use super::name;
use crate::{
    filebox::FILE_BYTES_MAX,
    files::{is_unknown, rename_new},
};

/// Of a file's content: as much of BLAKE3 as tells contents apart that nobody chose to be alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash([u8; 16]);

impl Hash {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut hash = [0; 16];
        hash.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
        Self(hash)
    }

    pub(super) fn text(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_whole = text.len() == 32;
        is_whole.then(|| u128::from_str_radix(text, 16).ok())?.map(|it| Self(it.to_be_bytes()))
    }
}

/// Tells that a file was not written to since it was last looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) mtime_ns: i64,
    pub(super) size: u64,
    pub(super) inode: u64,
}

impl Stamp {
    pub(super) fn of(about: &fs::Metadata) -> Self {
        let mtime_ns =
            about.mtime().saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec());
        Self { mtime_ns, size: about.len(), inode: about.ino() }
    }
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum At {
    Nothing,
    /// Nothing that can be read as mail, for this reason: half a sentence.
    Strange(String),
    File(Vec<u8>, Stamp),
}

impl At {
    pub(super) fn hash(&self) -> Option<Hash> {
        match self {
            Self::File(bytes, _) => Some(Hash::of(bytes)),
            Self::Nothing | Self::Strange(_) => None,
        }
    }
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Done {
    Yes,
    /// Somebody changed the file at that moment: theirs has this name.
    Aside(String),
    /// Somebody put a file there at that moment: it is to be looked at once more.
    Taken,
}

/// Where changes happen. Tests end it after so many of them, as a kill would.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    left: Option<Arc<AtomicU64>>,
}

impl Disk {
    #[cfg(test)]
    pub(super) fn killed_after(steps: u64) -> Self {
        Self { left: Some(Arc::new(AtomicU64::new(steps))) }
    }

    /// Before each change.
    fn step(&self) -> io::Result<()> {
        let Some(left) = &self.left else { return Ok(()) };
        let less = |it: u64| it.checked_sub(1);
        let was = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        was.map(drop).map_err(|_| io::Error::other("killed"))
    }

    pub(super) fn read(&self, path: &Path) -> io::Result<At> {
        read(path)
    }

    /// Puts a new file there, where nothing is.
    pub(super) fn create(
        &self,
        folder: &Path,
        file: &str,
        bytes: &[u8],
    ) -> io::Result<(Done, Stamp)> {
        let new = folder.join(name::new(file));
        let stamp = self.write(&new, bytes)?;
        self.step()?;
        match rename_new(&new, &folder.join(file)) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                self.step()?;
                fs::remove_file(&new)?;
                Ok((Done::Taken, stamp))
            }
            renamed => renamed.map(|()| (Done::Yes, stamp)),
        }
    }

    /// Puts a file in the place of the one that was `seen` there.
    pub(super) fn replace(
        &self,
        folder: &Path,
        file: &str,
        bytes: &[u8],
        seen: Hash,
    ) -> io::Result<(Done, Stamp)> {
        let (new, old, path) =
            (folder.join(name::new(file)), folder.join(name::old(file)), folder.join(file));
        let stamp = self.write(&new, bytes)?;
        // From here on whatever has the other name is whole.
        self.step()?;
        rename_new(&new, &old)?;
        self.step()?;
        match renameat_with(CWD, &old, CWD, &path, RenameFlags::EXCHANGE) {
            Ok(()) => Ok((self.drop_old(folder, file, seen)?, stamp)),
            Err(Errno::NOENT) => {
                self.step()?;
                fs::remove_file(&old)?;
                Ok((Done::Taken, stamp))
            }
            Err(why) if is_unknown(why) => {
                self.step()?;
                fs::rename(&old, &path)?;
                Ok((Done::Yes, stamp))
            }
            Err(why) => Err(why.into()),
        }
    }

    /// Removes the file that was `seen` there.
    pub(super) fn take_away(&self, folder: &Path, file: &str, seen: Hash) -> io::Result<Done> {
        self.step()?;
        match rename_new(&folder.join(file), &folder.join(name::old(file))) {
            Ok(()) => self.drop_old(folder, file, seen),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Done::Yes),
            Err(why) => Err(why),
        }
    }

    /// Removes what was taken out of its place if it is what it should be.
    fn drop_old(&self, folder: &Path, file: &str, seen: Hash) -> io::Result<Done> {
        self.end_old(folder, file, |bytes| Hash::of(bytes) == seen)
    }

    /// The same for what an interrupted change left.
    pub(super) fn end_old(
        &self,
        folder: &Path,
        file: &str,
        is_own: impl FnOnce(&[u8]) -> bool,
    ) -> io::Result<Done> {
        let old = folder.join(name::old(file));
        match read(&old)? {
            At::Nothing => Ok(Done::Yes),
            At::File(bytes, _) if is_own(&bytes) => {
                self.step()?;
                fs::remove_file(&old)?;
                Ok(Done::Yes)
            }
            At::File(..) | At::Strange(_) => {
                self.aside_from(&old, folder, file, name::EDITED).map(Done::Aside)
            }
        }
    }

    /// Gives a file another name, which says why; the name.
    pub(super) fn put_aside(&self, folder: &Path, file: &str, what: &str) -> io::Result<String> {
        self.aside_from(&folder.join(file), folder, file, what)
    }

    /// The same with a text beside it, in `NAME.txt`, which is there first.
    pub(super) fn put_aside_with(
        &self,
        folder: &Path,
        file: &str,
        own: &str,
        what: &str,
        text: &[u8],
    ) -> io::Result<String> {
        for number in 1..=name::NUMBERS_MAX {
            let free = name::aside(own, what, number);
            if fs::symlink_metadata(folder.join(&free)).is_ok() {
                continue;
            }
            self.put(folder, &format!("{free}.txt"), text)?;
            self.step()?;
            match rename_new(&folder.join(file), &folder.join(&free)) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                renamed => return renamed.map(|()| free),
            }
        }
        Err(too_many(own, what))
    }

    fn aside_from(&self, from: &Path, folder: &Path, file: &str, what: &str) -> io::Result<String> {
        for number in 1..=name::NUMBERS_MAX {
            let free = name::aside(file, what, number);
            self.step()?;
            match rename_new(from, &folder.join(&free)) {
                Ok(()) => return Ok(free),
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                Err(why) => return Err(why),
            }
        }
        Err(too_many(file, what))
    }

    /// Moves a file to where nothing is.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<Done> {
        self.step()?;
        match rename_new(from, to) {
            Ok(()) => Ok(Done::Yes),
            Err(why)
                if matches!(why.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) =>
            {
                Ok(Done::Taken)
            }
            Err(why) => Err(why),
        }
    }

    /// Puts a file there over another of the node's own.
    pub(super) fn put(&self, folder: &Path, file: &str, bytes: &[u8]) -> io::Result<()> {
        let new = folder.join(name::new(file));
        self.write(&new, bytes)?;
        self.step()?;
        fs::rename(&new, folder.join(file))
    }

    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        match fs::remove_file(path) {
            // A folder is none of the node's files, whatever its name.
            Err(why)
                if [io::ErrorKind::NotFound, io::ErrorKind::IsADirectory].contains(&why.kind()) =>
            {
                Ok(())
            }
            removed => removed,
        }
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<Stamp> {
        self.step()?;
        let mut options = fs::OpenOptions::new();
        // Never through a link that somebody made.
        options.write(true).create_new(true);
        let file = match options.open(path) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(path)?;
                options.open(path)
            }
            file => file,
        };
        let mut file = file?;
        let (half, rest) = bytes.split_at(bytes.len() / 2);
        file.write_all(half)?;
        self.step()?;
        file.write_all(rest)?;
        file.sync_data()?;
        Ok(Stamp::of(&file.metadata()?))
    }
}

fn too_many(file: &str, what: &str) -> io::Error {
    io::Error::other(format!("{} files {file}.{what} are there already", name::NUMBERS_MAX))
}

const NOT_PLAIN: &str = "is no plain file";

/// What is there, following no link and waiting for nobody.
pub(super) fn read(path: &Path) -> io::Result<At> {
    let mut options = fs::OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    let file = match options.open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(At::Nothing),
        Err(why) => {
            let is_plain = fs::symlink_metadata(path).is_ok_and(|about| about.is_file());
            let why = match why.kind() == io::ErrorKind::PermissionDenied {
                _ if !is_plain => NOT_PLAIN,
                true => "may not be read by the node",
                false => return Err(why),
            };
            return Ok(At::Strange(why.to_owned()));
        }
    };
    let about = file.metadata()?;
    if !about.is_file() {
        return Ok(At::Strange(NOT_PLAIN.to_owned()));
    }
    let limit = FILE_BYTES_MAX as u64;
    if limit < about.len() {
        return Ok(At::Strange(format!("has more than {limit} bytes")));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(about.len()).unwrap_or(0));
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(At::File(bytes, Stamp::of(&about)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut all: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        all.sort();
        all
    }

    #[test]
    fn a_file_is_replaced_only_if_it_is_the_one_that_was_seen() {
        let place = tempfile::tempdir().unwrap();
        let (folder, disk) = (place.path(), Disk::default());
        assert_eq!(disk.create(folder, "a.md", b"one").unwrap().0, Done::Yes);
        assert_eq!(disk.create(folder, "a.md", b"two").unwrap().0, Done::Taken);
        let seen = disk.read(&folder.join("a.md")).unwrap().hash().unwrap();
        assert_eq!(disk.replace(folder, "a.md", b"two", seen).unwrap().0, Done::Yes);
        fs::write(folder.join("a.md"), "mine").unwrap();
        let done = disk.replace(folder, "a.md", b"three", seen).unwrap().0;
        assert_eq!(done, Done::Aside("a.md.edited".into()));
        let done = disk.take_away(folder, "a.md", seen).unwrap();
        assert_eq!(done, Done::Aside("a.md.edited.2".into()));
        assert_eq!(names(folder), ["a.md.edited", "a.md.edited.2"]);
        assert_eq!(fs::read(folder.join("a.md.edited")).unwrap(), b"mine");
        assert_eq!(disk.replace(folder, "a.md", b"four", seen).unwrap().0, Done::Taken);
        assert_eq!(disk.take_away(folder, "a.md", seen).unwrap(), Done::Yes);
        assert_eq!(names(folder), ["a.md.edited", "a.md.edited.2"]);
    }

    #[test]
    fn links_and_pipes_are_not_read() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        fs::write(folder.join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(folder.join("secret"), folder.join("link.md")).unwrap();
        rustix::fs::mknodat(
            CWD,
            folder.join("pipe.md"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        fs::create_dir(folder.join("folder.md")).unwrap();
        for name in ["link.md", "pipe.md", "folder.md"] {
            let strange = At::Strange(NOT_PLAIN.to_owned());
            assert_eq!(read(&folder.join(name)).unwrap(), strange, "{name}");
        }
        assert_eq!(read(&folder.join("none.md")).unwrap(), At::Nothing);
        let disk = Disk::default();
        assert_eq!(disk.put_aside(folder, "link.md", "edited").unwrap(), "link.md.edited");
        // A link in the way of a temporary file is not written through.
        std::os::unix::fs::symlink(folder.join("secret"), folder.join(name::new("n.md"))).unwrap();
        disk.create(folder, "n.md", b"new").unwrap();
        assert_eq!(fs::read(folder.join("secret")).unwrap(), b"x");
        assert_eq!(fs::read(folder.join("n.md")).unwrap(), b"new");
    }
}
