//! The outbox's files: `DATA/outbox/00000000000000000007.entry`.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use tasuki_proto::host::files::{not_own, private_directory};

use super::entry::{ENTRY_BYTES_MAX, Entry};

const DIRECTORY: &str = "outbox";

const EXTENSION: &str = "entry";

/// What [`tasuki_proto::host::files::replace`] calls what it has not put in place yet.
const UNFINISHED: &str = "new-";

/// What is there, in order.
#[derive(Debug, Default)]
pub struct Contents {
    /// Each with its size in bytes.
    pub entries: Vec<(Entry, u64)>,
    pub unreadable: Vec<Unreadable>,
}

/// A file that is no entry, or not the one that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    pub path: PathBuf,
    pub why: String,
}

pub(super) fn directory(data: &Path) -> PathBuf {
    data.join(DIRECTORY)
}

pub(super) fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:020}.{EXTENSION}"))
}

/// The number that a file's name says.
pub(super) fn number_of(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

/// Makes the directory, and takes out of it what was never finished: nobody was told of it.
pub(super) fn prepare(directory: &Path) -> io::Result<()> {
    private_directory(directory)?;
    if let Some(data) = directory.parent() {
        sync(data)?;
    }
    for file in fs::read_dir(directory)? {
        let path = file?.path();
        let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        if extension.starts_with(UNFINISHED) && number_of(&path).is_some() {
            tasuki_proto::host::files::remove(&path)?;
        }
    }
    Ok(())
}

/// What was put into a directory is only as lasting as the directory's own name.
#[cfg(unix)]
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Directories cannot be synced here; they are as durable as the platform makes them.
#[cfg(not(unix))]
fn sync(_directory: &Path) -> io::Result<()> {
    Ok(())
}

/// All there is in the outbox of `data`, also while a node runs: what goes meanwhile is not there.
///
/// # Errors
/// When the directory cannot be read.
pub fn read(data: &Path) -> io::Result<Contents> {
    let mut paths = Vec::new();
    let listed = match fs::read_dir(directory(data)) {
        Ok(listed) => listed,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
        Err(why) => return Err(why),
    };
    for file in listed {
        let path = file?.path();
        if path.extension() == Some(OsStr::new(EXTENSION)) {
            paths.push(path);
        }
    }
    paths.sort();
    let mut contents = Contents::default();
    for path in paths {
        let entry = |bytes: Vec<u8>| {
            let size = bytes.len() as u64;
            checked(&path, &bytes).map(|entry| (entry, size))
        };
        let read = bytes_of(&path).map(|bytes| Some(bytes?.and_then(entry)));
        match read {
            Ok(None) => {}
            Ok(Some(Ok(entry))) => contents.entries.push(entry),
            Ok(Some(Err(why))) => contents.unreadable.push(Unreadable { path, why }),
            Err(error) => contents.unreadable.push(Unreadable { path, why: error.to_string() }),
        }
    }
    Ok(contents)
}

/// One entry; `None` when it is not there, else what is wrong with it.
pub(super) fn get(path: &Path) -> io::Result<Option<Result<Entry, String>>> {
    Ok(bytes_of(path)?.map(|bytes| checked(path, &bytes?)))
}

/// What a file holds; `None` when it is not there, else why it is not this user's own.
fn bytes_of(path: &Path) -> io::Result<Option<Result<Vec<u8>, String>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why),
    };
    if let Some(why) = not_own(path, &file.metadata()?) {
        return Ok(Some(Err(why.to_string())));
    }
    let mut bytes = Vec::new();
    // One more than there may be: then its checksum does not match.
    file.take(ENTRY_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(Ok(bytes)))
}

fn checked(path: &Path, bytes: &[u8]) -> Result<Entry, String> {
    let entry = Entry::decode(bytes).map_err(|damage| damage.to_string())?;
    if number_of(path) == Some(entry.number) {
        Ok(entry)
    } else {
        Err(format!("it is entry {} under another name", entry.number))
    }
}
