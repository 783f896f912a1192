//! Reads and replaces other programs' files.
//!
//! A file is replaced whole or not at all: the new text is written to a temporary file beside it,
//! which then takes its name. Mode and owner are kept, and a link stays a link: people keep their
//! own settings elsewhere. A link inside a project may have come with it and is refused. A file that
//! somebody else changed after it was read is not replaced.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    cli::Failure,
    dir::{Dir, Kind, NoFile},
};

/// More than any settings file has, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// For another run to finish its writing.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// Refuses a link on the way from a project's root to a directory in it, whether that exists or not:
/// a link that came with the project would have us write elsewhere.
pub(in crate::cli) fn refuse_links(root: &Path, directory: &Path) -> Result<(), String> {
    enter(root, directory).map(drop)
}

/// Refuses a link on the way to a file, and a file that is one.
pub(in crate::cli) fn refuse_link(root: &Path, file: &Path) -> Result<(), String> {
    let entered = enter(root, file.parent().unwrap_or(root))?;
    match entered.zip(file.file_name()) {
        Some((directory, name)) if directory.kind(name) == Some(Kind::Link) => {
            Err(format!("{} {}. Nothing was written.", file.display(), NoFile::Link))
        }
        Some(_) | None => Ok(()),
    }
}

/// `None`: the directory does not exist.
fn enter(root: &Path, directory: &Path) -> Result<Option<Dir>, String> {
    let below = directory.strip_prefix(root).unwrap_or(directory);
    match Dir::open(root).and_then(|root| root.walk(below)) {
        Ok(entered) => Ok(Some(entered)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(format!("{why}. Nothing was written.")),
    }
}

/// A file as it was read.
#[derive(Debug)]
pub(in crate::cli) struct Snapshot {
    /// Its path with all links resolved.
    pub path: PathBuf,
    /// `None`: there is no such file.
    pub text: Option<String>,
}

/// Who may do what with a file that is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum NewMode {
    Usual,
    /// Only this user may read it.
    Private,
    Executable,
}

/// Reads a file that may not exist.
pub(in crate::cli) fn read(path: &Path) -> Result<Snapshot, String> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(why) if why.kind() == io::ErrorKind::NotFound && !is_link => {
            return Ok(Snapshot { path: path.to_owned(), text: None });
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let to = fs::read_link(path).unwrap_or_default();
            let (path, to) = (path.display(), to.display());
            return Err(format!("{path} is a link to {to}, which does not exist."));
        }
        Err(why) => return Err(format!("{} cannot be read: {why}.", path.display())),
    };
    let bad = |why: &dyn std::fmt::Display| format!("{} cannot be read: {why}.", real.display());
    let meta = fs::metadata(&real).map_err(|why| bad(&why))?;
    if !meta.is_file() {
        return Err(bad(&"it is not a file"));
    }
    if FILE_BYTES_MAX < meta.len() {
        return Err(bad(&format!("it has {} bytes, more than {FILE_BYTES_MAX}", meta.len())));
    }
    let text = fs::read(&real).map_err(|why| bad(&why))?;
    let text = String::from_utf8(text).map_err(|why| bad(&why))?;
    Ok(Snapshot { path: real, text: Some(text) })
}

/// Why a file was not replaced.
#[derive(Debug)]
pub(in crate::cli) enum WriteError {
    /// It changed after it was read.
    Changed,
    Failed(String),
}

impl WriteError {
    pub(in crate::cli) fn failure(self, path: &Path) -> Failure {
        Failure::local(match self {
            Self::Failed(why) => why,
            Self::Changed => {
                format!("{} changed while it was being replaced. Try again.", path.display())
            }
        })
    }
}

/// Replaces a file with `text`, if it is still as it was read.
pub(in crate::cli) fn replace(
    snapshot: &Snapshot,
    text: &str,
    new_mode: NewMode,
) -> Result<(), WriteError> {
    let path = &snapshot.path;
    let failed = |why: io::Error| {
        WriteError::Failed(format!("{} cannot be written to: {why}.", path.display()))
    };
    let old = snapshot.text.as_ref().map(|_| fs::metadata(path)).transpose().map_err(failed)?;
    refuse_read_only(path, old.as_ref())?;
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    let (new, mut file) = temporary(directory, path).map_err(failed)?;
    let written = set_metadata(&file, old.as_ref(), new_mode)
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| file.sync_all());
    let placed = match written {
        Ok(()) if !is_unchanged(snapshot) => Err(WriteError::Changed),
        Ok(()) => fs::rename(&new, path).map_err(failed),
        Err(why) => Err(failed(why)),
    };
    if placed.is_err() {
        // Only runs of ours write it; the next one replaces what is left.
        drop(fs::remove_file(&new));
        return placed;
    }
    sync(directory).map_err(failed)
}

/// Removes a file, if it is still as it was read.
pub(in crate::cli) fn remove(snapshot: &Snapshot) -> Result<(), WriteError> {
    let meta = fs::metadata(&snapshot.path);
    refuse_read_only(&snapshot.path, meta.as_ref().ok())?;
    if !is_unchanged(snapshot) {
        return Err(WriteError::Changed);
    }
    fs::remove_file(&snapshot.path).map_err(|why| {
        WriteError::Failed(format!("{} cannot be removed: {why}.", snapshot.path.display()))
    })
}

fn refuse_read_only(path: &Path, meta: Option<&fs::Metadata>) -> Result<(), WriteError> {
    if meta.is_some_and(|meta| meta.permissions().readonly()) {
        let why = format!("{} is read-only and was not changed.", path.display());
        return Err(WriteError::Failed(why));
    }
    Ok(())
}

fn is_unchanged(snapshot: &Snapshot) -> bool {
    match (&snapshot.text, fs::read(&snapshot.path)) {
        (Some(text), Ok(bytes)) => text.as_bytes() == bytes,
        (None, Err(why)) => why.kind() == io::ErrorKind::NotFound,
        (Some(_), Err(_)) | (None, Ok(_)) => false,
    }
}

/// A temporary file in the same directory, so that the rename is atomic.
fn temporary(directory: &Path, path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = directory.join(format!(".{name}.tasuki-new"));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    match options.open(&new) {
        // Left behind by a run that was killed: a running one would hold the directory's lock.
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&new)?;
            options.open(&new).map(|file| (new, file))
        }
        opened => opened.map(|file| (new, file)),
    }
}

#[cfg(unix)]
fn set_metadata(file: &File, old: Option<&fs::Metadata>, new_mode: NewMode) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
    let Some(old) = old else {
        let mode = match new_mode {
            NewMode::Usual => return Ok(()),
            NewMode::Private => 0o600,
            NewMode::Executable => 0o755,
        };
        return file.set_permissions(fs::Permissions::from_mode(mode));
    };
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        fchown(file, Some(old.uid()), Some(old.gid()))?;
    }
    file.set_permissions(old.permissions())
}

#[cfg(not(unix))]
fn set_metadata(_: &File, _: Option<&fs::Metadata>, _: NewMode) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
fn sync(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Keeps other runs out of a directory until it is dropped.
#[derive(Debug)]
pub(in crate::cli) struct DirectoryLock {
    _directory: Option<File>,
}

/// Locks a directory, which is made if needed.
pub(in crate::cli) async fn lock(directory: &Path) -> Result<DirectoryLock, String> {
    let bad = |why: &dyn std::fmt::Display| format!("{}: {why}.", directory.display());
    fs::create_dir_all(directory).map_err(|why| bad(&why))?;
    // Where a directory cannot be opened, as on Windows, only the last check before the
    // rename keeps two runs apart.
    let Ok(open) = File::open(directory) else { return Ok(DirectoryLock { _directory: None }) };
    let waiting = tokio::task::spawn_blocking(move || open.lock().map(|()| open));
    match tokio::time::timeout(LOCK_PATIENCE, waiting).await {
        Ok(Ok(Ok(open))) => Ok(DirectoryLock { _directory: Some(open) }),
        Ok(Ok(Err(why))) => Err(bad(&why)),
        Ok(Err(why)) => Err(bad(&why)),
        Err(_) => Err(bad(&"another `tasuki` command has been writing here for too long")),
    }
}
