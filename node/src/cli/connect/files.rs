//! Reading and replacing other programs' files.
//!
//! A file is replaced whole or not at all: the new text goes beside it and takes its name. It
//! keeps its mode and its owner, and a link stays a link: people keep their own settings elsewhere.
//! A link within a project may have come with it and is refused. A file that somebody else changed
//! meanwhile is not replaced.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::dir::{Dir, Kind, NoFile};

/// More than any settings file has, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// For another run to finish its writing.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// Refuses a link on the way from a project's root to a directory in it, be that there or not:
/// whatever came with the project would have us write elsewhere.
pub(in crate::cli) fn refuse_links(root: &Path, directory: &Path) -> Result<(), String> {
    enter(root, directory).map(drop)
}

/// The same to a file.
pub(in crate::cli) fn refuse_link(root: &Path, file: &Path) -> Result<(), String> {
    let entered = enter(root, file.parent().unwrap_or(root))?;
    match entered.zip(file.file_name()) {
        Some((directory, name)) if directory.kind(name) == Some(Kind::Link) => {
            Err(format!("{} {}. Nothing was written.", file.display(), NoFile::Link))
        }
        Some(_) | None => Ok(()),
    }
}

/// `None`: it is not there.
fn enter(root: &Path, directory: &Path) -> Result<Option<Dir>, String> {
    let below = directory.strip_prefix(root).unwrap_or(directory);
    match Dir::open(root).and_then(|root| root.walk(below)) {
        Ok(entered) => Ok(Some(entered)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(format!("{why}. Nothing was written.")),
    }
}

/// A file as it was found.
#[derive(Debug)]
pub(in crate::cli) struct Found {
    /// Where it really is, behind links.
    pub path: PathBuf,
    /// `None`: it is not there.
    pub text: Option<String>,
}

/// Reads a file that may not be there.
pub(in crate::cli) fn read(path: &Path) -> Result<Found, String> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(why) if why.kind() == io::ErrorKind::NotFound && !is_link => {
            return Ok(Found { path: path.to_owned(), text: None });
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let to = fs::read_link(path).unwrap_or_default();
            let (path, to) = (path.display(), to.display());
            return Err(format!("{path} is a link to {to}, which is not there."));
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
    Ok(Found { path: real, text: Some(text) })
}

/// Why a file was not replaced.
#[derive(Debug)]
pub(in crate::cli) enum Unwritten {
    /// Somebody changed it after it was read.
    Changed,
    Failed(String),
}

/// Puts `text` where `found` was, if that is still as it was. `is_private`: a new file is for
/// this user only.
pub(in crate::cli) fn replace(
    found: &Found,
    text: &str,
    is_private: bool,
) -> Result<(), Unwritten> {
    let path = &found.path;
    let failed = |why: io::Error| {
        Unwritten::Failed(format!("{} cannot be written to: {why}.", path.display()))
    };
    let old = found.text.as_ref().map(|_| fs::metadata(path)).transpose().map_err(failed)?;
    refuse_read_only(path, old.as_ref())?;
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    let (new, mut file) = beside(directory, path).map_err(failed)?;
    let written = dress(&file, old.as_ref(), is_private)
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| file.sync_all());
    let placed = match written {
        Ok(()) if !is_unchanged(found) => Err(Unwritten::Changed),
        Ok(()) => fs::rename(&new, path).map_err(failed),
        Err(why) => Err(failed(why)),
    };
    if placed.is_err() {
        // It is only ever ours; what is left of it says nothing.
        drop(fs::remove_file(&new));
        return placed;
    }
    sync(directory).map_err(failed)
}

/// Removes a file, if it is still as it was found.
pub(in crate::cli) fn remove(found: &Found) -> Result<(), Unwritten> {
    let meta = fs::metadata(&found.path);
    refuse_read_only(&found.path, meta.as_ref().ok())?;
    if !is_unchanged(found) {
        return Err(Unwritten::Changed);
    }
    fs::remove_file(&found.path).map_err(|why| {
        Unwritten::Failed(format!("{} cannot be removed: {why}.", found.path.display()))
    })
}

fn refuse_read_only(path: &Path, meta: Option<&fs::Metadata>) -> Result<(), Unwritten> {
    if meta.is_some_and(|meta| meta.permissions().readonly()) {
        let why = format!("{} is read-only; it was left as it is.", path.display());
        return Err(Unwritten::Failed(why));
    }
    Ok(())
}

fn is_unchanged(found: &Found) -> bool {
    match (&found.text, fs::read(&found.path)) {
        (Some(text), Ok(bytes)) => text.as_bytes() == bytes,
        (None, Err(why)) => why.kind() == io::ErrorKind::NotFound,
        (Some(_), Err(_)) | (None, Ok(_)) => false,
    }
}

/// A file of our own in the same directory, so that taking the name is one step.
fn beside(directory: &Path, path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = directory.join(format!(".{name}.tasuki-new"));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    match options.open(&new) {
        // Left behind by a run that was killed: a live one would hold the directory's lock.
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&new)?;
            options.open(&new).map(|file| (new, file))
        }
        opened => opened.map(|file| (new, file)),
    }
}

#[cfg(unix)]
fn dress(file: &File, old: Option<&fs::Metadata>, is_private: bool) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
    let Some(old) = old else {
        let mode = fs::Permissions::from_mode(0o600);
        return if is_private { file.set_permissions(mode) } else { Ok(()) };
    };
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        fchown(file, Some(old.uid()), Some(old.gid()))?;
    }
    file.set_permissions(old.permissions())
}

#[cfg(not(unix))]
fn dress(_: &File, _: Option<&fs::Metadata>, _: bool) -> io::Result<()> {
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

/// Keeps other runs out of a directory until it is dropped; makes the directory if needed.
#[derive(Debug)]
pub(in crate::cli) struct Locked {
    _directory: Option<File>,
}

pub(in crate::cli) async fn lock(directory: &Path) -> Result<Locked, String> {
    let bad = |why: &dyn std::fmt::Display| format!("{}: {why}.", directory.display());
    fs::create_dir_all(directory).map_err(|why| bad(&why))?;
    // Where a directory cannot be opened, as on Windows, only the last look before the file
    // takes its name keeps two runs apart.
    let Ok(open) = File::open(directory) else { return Ok(Locked { _directory: None }) };
    let waiting = tokio::task::spawn_blocking(move || open.lock().map(|()| open));
    match tokio::time::timeout(LOCK_PATIENCE, waiting).await {
        Ok(Ok(Ok(open))) => Ok(Locked { _directory: Some(open) }),
        Ok(Ok(Err(why))) => Err(bad(&why)),
        Ok(Err(why)) => Err(bad(&why)),
        Err(_) => Err(bad(&"another `tasuki connect` has been writing here for too long")),
    }
}
