//! Changes on disk, each of which happens whole or not at all, and loses nothing.
//!
//! A file is written beside its place under a hidden name, made durable, and renamed. What is in a
//! place is never written over: it changes places with the new file, and only when it turns out to
//! be what was expected is it removed. A person who saves in that very moment finds the file put
//! aside. Where a file system cannot exchange two files, the moment between the look and the rename
//! is all there is.
//!
//! Folders are open [`Dir`]s, so no change happens elsewhere, whatever is put into a folder's place.
//!
//! Names are made durable by nobody: after a power cut a file may be back where it was before, and
//! is treated as one that the node was killed over.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::{fs::Stat, io::Errno};
use serde::{Deserialize, Serialize};

use super::name;
use crate::{
    dir::{Dir, NoFile},
    filebox::FILE_BYTES_MAX,
    files::is_unknown,
};

/// Of a file's content: as much of BLAKE3 as tells contents apart that nobody chose to be alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Hash([u8; 16]);

impl Hash {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut hash = [0; 16];
        hash.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
        Self(hash)
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

    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_sign_loss,
        trivial_numeric_casts,
        reason = "what these are differs between platforms"
    )]
    pub(super) fn of_stat(about: &Stat) -> Self {
        let (seconds, ns) = (about.st_mtime as i64, about.st_mtime_nsec as i64);
        let mtime_ns = seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Self { mtime_ns, size: about.st_size as u64, inode: about.st_ino as u64 }
    }
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileState {
    Nothing,
    /// Nothing that can be read as mail, for this reason: half a sentence.
    Strange(String),
    File(Vec<u8>, Stamp),
}

impl FileState {
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

    pub(super) fn read(&self, folder: &Dir, file: &str) -> io::Result<FileState> {
        read(folder, file)
    }

    /// Puts a new file there, where nothing is.
    pub(super) fn create(
        &self,
        folder: &Dir,
        file: &str,
        bytes: &[u8],
    ) -> io::Result<(Done, Stamp)> {
        let new = name::new(file);
        let stamp = self.write(folder, &new, bytes)?;
        self.step()?;
        match folder.rename_new(&new, folder, file) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                self.step()?;
                folder.remove_file(&new)?;
                Ok((Done::Taken, stamp))
            }
            renamed => renamed.map(|()| (Done::Yes, stamp)),
        }
    }

    /// Puts a file in the place of the one that was `seen` there.
    pub(super) fn replace(
        &self,
        folder: &Dir,
        file: &str,
        bytes: &[u8],
        seen: Hash,
    ) -> io::Result<(Done, Stamp)> {
        let (new, old) = (name::new(file), name::old(file));
        let stamp = self.write(folder, &new, bytes)?;
        // From here on whatever has the other name is whole.
        self.step()?;
        folder.rename_new(&new, folder, &old)?;
        self.step()?;
        match folder.exchange(&old, file) {
            Ok(()) => Ok((self.drop_old(folder, file, seen)?, stamp)),
            Err(Errno::NOENT) => {
                self.step()?;
                folder.remove_file(&old)?;
                Ok((Done::Taken, stamp))
            }
            Err(why) if is_unknown(why) => {
                self.step()?;
                folder.rename(&old, file)?;
                Ok((Done::Yes, stamp))
            }
            Err(why) => Err(why.into()),
        }
    }

    /// Removes the file that was `seen` there.
    pub(super) fn take_away(&self, folder: &Dir, file: &str, seen: Hash) -> io::Result<Done> {
        self.step()?;
        match folder.rename_new(file, folder, name::old(file)) {
            Ok(()) => self.drop_old(folder, file, seen),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Done::Yes),
            Err(why) => Err(why),
        }
    }

    /// Removes what was taken out of its place if it is what it should be.
    fn drop_old(&self, folder: &Dir, file: &str, seen: Hash) -> io::Result<Done> {
        self.end_old(folder, file, |bytes| Hash::of(bytes) == seen)
    }

    /// The same for what an interrupted change left.
    pub(super) fn end_old(
        &self,
        folder: &Dir,
        file: &str,
        is_own: impl FnOnce(&[u8]) -> bool,
    ) -> io::Result<Done> {
        let old = name::old(file);
        match read(folder, &old)? {
            FileState::Nothing => Ok(Done::Yes),
            FileState::File(bytes, _) if is_own(&bytes) => {
                self.step()?;
                folder.remove_file(&old)?;
                Ok(Done::Yes)
            }
            FileState::File(..) | FileState::Strange(_) => {
                self.aside_from(folder, &old, file, name::EDITED).map(Done::Aside)
            }
        }
    }

    /// Gives a file another name, which says why; the name.
    pub(super) fn put_aside(&self, folder: &Dir, file: &str, what: &str) -> io::Result<String> {
        self.aside_from(folder, file, file, what)
    }

    /// The same with a text beside it, in `NAME.txt`, which is there first.
    pub(super) fn put_aside_with(
        &self,
        folder: &Dir,
        file: &str,
        own: &str,
        what: &str,
        text: &[u8],
    ) -> io::Result<String> {
        for number in 1..=name::NUMBERS_MAX {
            let free = name::aside(own, what, number);
            if folder.stat(&free)?.is_some() {
                continue;
            }
            self.put(folder, &format!("{free}.txt"), text)?;
            self.step()?;
            match folder.rename_new(file, folder, &free) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                renamed => return renamed.map(|()| free),
            }
        }
        Err(too_many(own, what))
    }

    fn aside_from(&self, folder: &Dir, from: &str, file: &str, what: &str) -> io::Result<String> {
        for number in 1..=name::NUMBERS_MAX {
            let free = name::aside(file, what, number);
            self.step()?;
            match folder.rename_new(from, folder, &free) {
                Ok(()) => return Ok(free),
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                Err(why) => return Err(why),
            }
        }
        Err(too_many(file, what))
    }

    /// Moves a file to where nothing is.
    pub(super) fn rename(
        &self,
        (from, name): (&Dir, impl AsRef<OsStr>),
        (to, new): (&Dir, impl AsRef<OsStr>),
    ) -> io::Result<Done> {
        self.step()?;
        match from.rename_new(name, to, new) {
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
    pub(super) fn put(&self, folder: &Dir, file: &str, bytes: &[u8]) -> io::Result<()> {
        let new = name::new(file);
        self.write(folder, &new, bytes)?;
        self.step()?;
        folder.rename(&new, file)
    }

    pub(super) fn remove(&self, folder: &Dir, file: &str) -> io::Result<()> {
        self.step()?;
        match folder.remove_file(file) {
            // A folder is none of the node's files, whatever its name.
            Err(why)
                if [io::ErrorKind::NotFound, io::ErrorKind::IsADirectory].contains(&why.kind()) =>
            {
                Ok(())
            }
            removed => removed,
        }
    }

    fn write(&self, folder: &Dir, name: &str, bytes: &[u8]) -> io::Result<Stamp> {
        self.step()?;
        // Never through a link that somebody made.
        let file = match folder.create_new(name) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                folder.remove_file(name)?;
                folder.create_new(name)
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
pub(super) fn read(folder: &Dir, file: &str) -> io::Result<FileState> {
    content(folder.open_file(file))
}

/// The same of what may leave this machine.
pub(super) fn read_own(folder: &Dir, file: &str) -> io::Result<FileState> {
    content(folder.open_own_file(file))
}

fn content(opened: Result<(fs::File, fs::Metadata), NoFile>) -> io::Result<FileState> {
    let (file, about) = match opened {
        Ok(opened) => opened,
        Err(why) if why.is_missing() => return Ok(FileState::Nothing),
        Err(NoFile::Link | NoFile::Strange) => return Ok(FileState::Strange(NOT_PLAIN.to_owned())),
        Err(why @ NoFile::HardLink) => return Ok(FileState::Strange(why.to_string())),
        Err(NoFile::Io(why)) if why.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(FileState::Strange("may not be read by the node".to_owned()));
        }
        Err(NoFile::Io(why)) => return Err(why),
    };
    let limit = FILE_BYTES_MAX as u64;
    if limit < about.len() {
        return Ok(FileState::Strange(format!("has more than {limit} bytes")));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(about.len()).unwrap_or(0));
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(FileState::File(bytes, Stamp::of(&about)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Dir) -> Vec<String> {
        let names = folder.names().unwrap().into_iter();
        let mut all: Vec<String> = names.map(|it| it.into_string().unwrap()).collect();
        all.sort();
        all
    }

    #[test]
    fn a_file_is_replaced_only_if_it_is_the_one_that_was_seen() {
        let place = tempfile::tempdir().unwrap();
        let (folder, disk) = (&Dir::open(place.path()).unwrap(), Disk::default());
        assert_eq!(disk.create(folder, "a.md", b"one").unwrap().0, Done::Yes);
        assert_eq!(disk.create(folder, "a.md", b"two").unwrap().0, Done::Taken);
        let seen = disk.read(folder, "a.md").unwrap().hash().unwrap();
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
        let folder = &Dir::open(place.path()).unwrap();
        fs::write(folder.join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(folder.join("secret"), folder.join("link.md")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.join("pipe.md"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        fs::create_dir(folder.join("folder.md")).unwrap();
        for name in ["link.md", "pipe.md", "folder.md"] {
            let strange = FileState::Strange(NOT_PLAIN.to_owned());
            assert_eq!(read(folder, name).unwrap(), strange, "{name}");
        }
        assert_eq!(read(folder, "none.md").unwrap(), FileState::Nothing);
        let disk = Disk::default();
        assert_eq!(disk.put_aside(folder, "link.md", "edited").unwrap(), "link.md.edited");
        // A link in the way of a temporary file is not written through.
        std::os::unix::fs::symlink(folder.join("secret"), folder.join(name::new("n.md"))).unwrap();
        disk.create(folder, "n.md", b"new").unwrap();
        assert_eq!(fs::read(folder.join("secret")).unwrap(), b"x");
        assert_eq!(fs::read(folder.join("n.md")).unwrap(), b"new");
    }
}
