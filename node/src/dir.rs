//! A directory by its descriptor, for places that a repository or another user may change.
//!
//! Everything is named relative to an open directory, one name at a time, and no link is followed:
//! whoever swaps a directory for a link, at whatever moment, leads nobody elsewhere. A directory
//! that is moved away stays the one that is open.
//!
//! One name at a time with `O_NOFOLLOW` is as strict as Linux's `openat2` with `RESOLVE_BENEATH`
//! and `RESOLVE_NO_SYMLINKS`, and works the same on every Unix, on older kernels, and in sandboxes
//! that do not know that call.
//!
//! Only [`Dir::open`] and [`resolved`] take a path of several names and follow links: they are for
//! what a person named, once. What was resolved is opened with [`Dir::open_real`] from then on.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::{File, Metadata},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{ffi::OsStringExt as _, fs::MetadataExt as _},
    },
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use rustix::fs::{self as at, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat};

use crate::files::rename_new_at;

/// An open directory. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct Dir {
    fd: Arc<OwnedFd>,
    /// Where it was when it was opened: for people, and for nothing else.
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// The same directory under the same path.
impl PartialEq for Dir {
    fn eq(&self, other: &Self) -> bool {
        (self.device, self.inode, &self.path) == (other.device, other.inode, &other.path)
    }
}

impl Eq for Dir {}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    Link,
    Other,
}

/// Why a file is not read; half a sentence, to follow its name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoFile {
    #[error("is a link, and links are not followed")]
    Link,
    #[error("is no plain file")]
    Strange,
    #[error("has a second name (a hard link), so it may be from elsewhere; use a copy of it")]
    HardLink,
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl NoFile {
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Io(why) if why.kind() == io::ErrorKind::NotFound)
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Of one that is only passed through: it need not be readable.
#[cfg(any(target_os = "linux", target_os = "android"))]
const PASS: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const PASS: OFlags = DIRECTORY;

/// A pipe that nobody writes to is not waited for, and no terminal becomes this process's own.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

const CREATE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Dir {
    /// The directory that a person named, links followed.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
        Self::of(at::openat(CWD, path, flags, Mode::empty())?, path.to_owned())
    }

    /// A directory by its absolute path without links, such as [`resolved`] makes: whoever swaps one
    /// of its names for a link, at whatever moment, leads nobody elsewhere.
    pub(crate) fn open_real(path: &Path) -> io::Result<Self> {
        let top = Path::new("/");
        let mut names = names(path.strip_prefix(top).map_err(|_| not_absolute(path))?)?;
        let Some(last) = names.pop() else { return Self::open(top) };
        let top = Self::of(at::openat(CWD, top, PASS, Mode::empty())?, top.to_owned())?;
        names.into_iter().try_fold(top, |dir, name| dir.enter_with(name, PASS))?.enter(last)
    }

    fn of(fd: OwnedFd, path: PathBuf) -> io::Result<Self> {
        let file = File::from(fd);
        let about = file.metadata()?;
        let (device, inode) = (about.dev(), about.ino());
        Ok(Self { fd: Arc::new(file.into()), path, device, inode })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn join(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.path.join(name.as_ref())
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whether it is the same directory, under whatever path.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// A directory in it.
    pub(crate) fn enter(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        self.enter_with(name.as_ref(), DIRECTORY)
    }

    fn enter_with(&self, name: &OsStr, flags: OFlags) -> io::Result<Self> {
        let name = plain(name)?;
        let path = self.join(name);
        match at::openat(self.fd(), name, flags, Mode::empty()) {
            Ok(fd) => Self::of(fd, path),
            Err(why) => Err(self.no_directory(name, &path, why.into())),
        }
    }

    /// Makes a directory in it; whether nothing was there.
    pub(crate) fn make(&self, name: impl AsRef<OsStr>) -> io::Result<bool> {
        match at::mkdirat(self.fd(), plain(name.as_ref())?, Mode::from_raw_mode(0o777)) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::EXIST) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }

    pub(crate) fn enter_or_make(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        self.make(&name)?;
        self.enter(name)
    }

    /// The directory at the end of a relative path.
    pub(crate) fn walk(&self, path: &Path) -> io::Result<Self> {
        names(path)?.into_iter().try_fold(self.clone(), |dir, name| dir.enter(name))
    }

    /// The same; what is missing is made.
    pub(crate) fn walk_or_make(&self, path: &Path) -> io::Result<Self> {
        names(path)?.into_iter().try_fold(self.clone(), |dir, name| dir.enter_or_make(name))
    }

    /// The directory that the last name of a relative path is in, and that name.
    pub(crate) fn parent_of<'a>(&self, path: &'a Path) -> io::Result<(Self, &'a OsStr)> {
        let mut names = names(path)?;
        let last = names.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = names.into_iter().try_fold(self.clone(), |dir, name| dir.enter(name))?;
        Ok((dir, last))
    }

    fn no_directory(&self, name: &OsStr, path: &Path, why: io::Error) -> io::Error {
        let what = match self.stat(name) {
            Ok(Some(about)) if is(&about, FileType::Symlink) => {
                "is a link, and links are not followed here; put a directory in its place"
            }
            Ok(Some(about)) if !is(&about, FileType::Directory) => "is no directory",
            Ok(_) | Err(_) => {
                return io::Error::new(why.kind(), format!("{}: {why}", path.display()));
            }
        };
        io::Error::new(io::ErrorKind::NotADirectory, format!("{} {what}", path.display()))
    }

    /// Whether a path leads to something in a directory, whatever is there.
    pub(crate) fn is_below(path: &Path) -> bool {
        names(path).is_ok()
    }

    /// What a name stands for; `None`: nothing.
    pub(crate) fn stat(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Stat>> {
        match at::statat(self.fd(), plain(name.as_ref())?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(about) => Ok(Some(about)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(why) => Err(why.into()),
        }
    }

    /// The kind of what has this name; `None` if there is nothing or it cannot be read.
    pub(crate) fn kind(&self, name: impl AsRef<OsStr>) -> Option<Kind> {
        let about = self.stat(name).ok().flatten()?;
        Some(if is(&about, FileType::Directory) {
            Kind::Directory
        } else if is(&about, FileType::Symlink) {
            Kind::Link
        } else {
            Kind::Other
        })
    }

    /// What is in it, in no order.
    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in at::Dir::read_from(self.fd())? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// So many of what is in it at most, and whether there is more.
    pub(crate) fn names_up_to(&self, max: usize) -> io::Result<(Vec<OsString>, bool)> {
        let mut names = Vec::new();
        for entry in at::Dir::read_from(self.fd())? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name == b"." || name == b".." {
                continue;
            }
            if max <= names.len() {
                return Ok((names, true));
            }
            names.push(OsString::from_vec(name));
        }
        Ok((names, false))
    }

    /// A plain file to be read, and what is known of it.
    pub(crate) fn open_file(&self, name: impl AsRef<OsStr>) -> Result<(File, Metadata), NoFile> {
        let name = plain(name.as_ref())?;
        // A device may do something when it is opened.
        let about = self.stat(name)?.ok_or_else(|| io::Error::from(rustix::io::Errno::NOENT))?;
        let strange = |is_link| if is_link { NoFile::Link } else { NoFile::Strange };
        if !is(&about, FileType::RegularFile) {
            return Err(strange(is(&about, FileType::Symlink)));
        }
        let file = match at::openat(self.fd(), name, READ, Mode::empty()) {
            Ok(fd) => File::from(fd),
            // It became one in between.
            Err(rustix::io::Errno::LOOP) => return Err(NoFile::Link),
            Err(why) => return Err(NoFile::Io(why.into())),
        };
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(strange(false));
        }
        Ok((file, about))
    }

    /// The same of a file that leaves this machine: one with a second name may be a file of
    /// somebody's that was never meant to be here.
    pub(crate) fn open_own_file(
        &self,
        name: impl AsRef<OsStr>,
    ) -> Result<(File, Metadata), NoFile> {
        let (file, about) = self.open_file(name)?;
        if 1 < about.nlink() { Err(NoFile::HardLink) } else { Ok((file, about)) }
    }

    /// A file that was not there.
    pub(crate) fn create_new(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let mode = Mode::from_raw_mode(0o666);
        Ok(at::openat(self.fd(), plain(name.as_ref())?, CREATE, mode)?.into())
    }

    /// To a name that nothing has.
    pub(crate) fn rename_new(
        &self,
        name: impl AsRef<OsStr>,
        to: &Self,
        new: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        rename_new_at(self.fd(), plain(name.as_ref())?, to.fd(), plain(new.as_ref())?)
    }

    /// Over whatever has the name.
    pub(crate) fn rename(&self, name: impl AsRef<OsStr>, new: impl AsRef<OsStr>) -> io::Result<()> {
        let (name, new) = (plain(name.as_ref())?, plain(new.as_ref())?);
        Ok(at::renameat(self.fd(), name, self.fd(), new)?)
    }

    /// Has two names change places.
    pub(crate) fn exchange(
        &self,
        one: impl AsRef<OsStr>,
        other: impl AsRef<OsStr>,
    ) -> Result<(), rustix::io::Errno> {
        let invalid = |_| rustix::io::Errno::INVAL;
        let one = plain(one.as_ref()).map_err(invalid)?;
        let other = plain(other.as_ref()).map_err(invalid)?;
        at::renameat_with(self.fd(), one, self.fd(), other, RenameFlags::EXCHANGE)
    }

    pub(crate) fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(at::unlinkat(self.fd(), plain(name.as_ref())?, AtFlags::empty())?)
    }

    /// One with nothing in it.
    pub(crate) fn remove_dir(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(at::unlinkat(self.fd(), plain(name.as_ref())?, AtFlags::REMOVEDIR)?)
    }

    /// The directory as a file of its own, to be locked.
    pub(crate) fn to_file(&self) -> io::Result<File> {
        Ok(at::openat(self.fd(), ".", DIRECTORY, Mode::empty())?.into())
    }

    /// Which directory it is, over restarts of the machine and under whatever name.
    pub(crate) fn identity(&self) -> io::Result<String> {
        Ok(tasuki_proto::host::files::identity(&self.to_file()?.metadata()?))
    }
}

/// Where a directory is that a person named: an absolute path without links, as far as there is
/// anything. It is found out once in the life of the process: links that somebody puts there later
/// are not followed, by [`Dir::open_real`]. So is what was not there yet.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    static KNOWN: Mutex<BTreeMap<PathBuf, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock();
    known.entry(path.to_owned()).or_insert_with(|| resolve(path)).clone()
}

/// The same as it is now: links that came since are followed.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|above| {
        let mut real = above.canonicalize().ok()?;
        real.extend(path.strip_prefix(above).ok()?.components());
        Some(real)
    });
    found.unwrap_or(path)
}

fn is(about: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(about.st_mode) == kind
}

/// A name that leads to nothing but an entry of the directory.
fn plain(name: &OsStr) -> io::Result<&OsStr> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        // `a/` and `./a` are one component, too.
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(astray(Path::new(name))),
    }
}

fn names(path: &Path) -> io::Result<Vec<&OsStr>> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(astray(path));
            }
        }
    }
    Ok(names)
}

fn astray(path: &Path) -> io::Error {
    let text = format!("{} is no path below a directory", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn not_absolute(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not absolute", path.display()))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn no_name_and_no_link_leads_out() {
        let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dir = Dir::open(place.path()).unwrap();
        for name in ["", ".", "..", "a/b", "/etc", "a/", "./a"] {
            assert!(dir.create_new(name).is_err() && dir.enter_or_make(name).is_err(), "{name:?}");
        }
        for path in ["..", "a/../..", "/etc"] {
            assert!(dir.walk_or_make(Path::new(path)).is_err(), "{path}");
        }
        symlink(other.path(), place.path().join("link")).unwrap();
        let why = dir.walk_or_make(Path::new("link/inbox")).unwrap_err().to_string();
        assert!(why.contains("/link is a link, and links are not followed here"), "{why}");
        fs::write(other.path().join("secret"), "x").unwrap();
        symlink(other.path().join("secret"), place.path().join("file")).unwrap();
        assert!(matches!(dir.open_file("file"), Err(NoFile::Link)));
        assert!(dir.create_new("file").is_err());
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_root_that_is_swapped_for_a_link_is_not_opened() {
        let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = place.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/sub")).unwrap();
        symlink(root.join("real"), root.join("named")).unwrap();
        let named = root.join("named/sub");
        let real = resolved(&named);
        assert_eq!(real, root.join("real/sub"));
        assert_eq!(Dir::open_real(&real).unwrap().path(), real);
        assert_eq!(Dir::open_real(Path::new("/")).unwrap().path(), Path::new("/"));
        let why = |path: &Path| Dir::open_real(path).unwrap_err().to_string();
        assert!(why(&named).contains("/named is a link"), "{}", why(&named));
        assert!(why(Path::new("a")).contains("is not absolute"));
        assert!(Dir::open_real(&root.join("real/../real")).is_err());
        fs::rename(&real, root.join("real/sub.old")).unwrap();
        symlink(other.path(), &real).unwrap();
        assert_eq!(resolved(&named), real, "it is not resolved again");
        assert!(why(&real).contains("/sub is a link"), "{}", why(&real));
        // Nor is what was not there when it was named.
        let later = resolved(&root.join("named/later"));
        assert_eq!(later, root.join("real/later"));
        assert_eq!(Dir::open_real(&later).unwrap_err().kind(), io::ErrorKind::NotFound);
        symlink(other.path(), &later).unwrap();
        assert!(why(&later).contains("/later is a link"), "{}", why(&later));
    }

    #[test]
    fn a_directory_stays_the_one_that_was_opened() {
        let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = Dir::open(place.path()).unwrap();
        let inner = root.enter_or_make("inner").unwrap();
        fs::rename(place.path().join("inner"), place.path().join("moved")).unwrap();
        symlink(other.path(), place.path().join("inner")).unwrap();
        drop(inner.create_new("new").unwrap());
        assert!(place.path().join("moved/new").exists() && root.enter("inner").is_err());
        assert_eq!(inner.names().unwrap(), ["new"]);
        assert_eq!(inner.identity().unwrap(), root.enter("moved").unwrap().identity().unwrap());
        assert_ne!(inner.identity().unwrap(), root.identity().unwrap());
    }

    #[test]
    fn a_file_with_a_second_name_is_nobodys_own() {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::open(place.path()).unwrap();
        fs::write(place.path().join("one"), "x").unwrap();
        dir.open_own_file("one").unwrap();
        fs::hard_link(place.path().join("one"), place.path().join("two")).unwrap();
        dir.open_file("two").unwrap();
        let why = dir.open_own_file("two").unwrap_err().to_string();
        assert!(why.contains("(a hard link)"), "{why}");
        fs::remove_file(place.path().join("one")).unwrap();
        dir.open_own_file("two").unwrap();
    }
}
