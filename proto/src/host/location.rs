//! Where a data directory is, noted in it: what tells a copy from the original.
//!
//! A copy holds everything that the original holds, so a program that runs on it beside the original
//! takes part in its place. A folder's inode and birth time are new in every copy of its files; the
//! machine's id is another on a clone of the disk, and the path in a snapshot of the file system.
//! All of them outlast restarts of the machine and of containers. Device numbers do not, so they
//! count for nothing.
//!
//! What a system does not tell is not compared. Not noticed: files of a backup that were written
//! over those in the very same folder, and a clone of a machine that kept the machine's id.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use serde::{Deserialize, Serialize};

use crate::host::{checked, files};

/// In the directory that it is about.
pub const FILE: &str = "location.json";

/// Where systemd and D-Bus keep the machine's id.
const MACHINE_IDS: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// Shorter ones are placeholders, such as `uninitialized` in images of containers.
const MACHINE_ID_BYTES_MIN: usize = 32;

/// Where a directory is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Location {
    path: String,
    inode: Option<u64>,
    /// In nanoseconds since 1970.
    born: Option<u64>,
    /// A hash: the id itself is to stay on its machine.
    machine: Option<String>,
}

/// Why what is noted does not say that the directory is the original.
#[derive(Debug, thiserror::Error)]
pub enum LocationError {
    #[error(
        "{here} was copied or moved: this data was last used {there}",
        here = here.display()
    )]
    Elsewhere { here: PathBuf, there: String },
    #[error("{path} is damaged: {what}", path = path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("cannot use {path}: {source}", path = path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl Location {
    /// Where a directory is now.
    ///
    /// # Errors
    /// Where it cannot be looked at.
    pub fn of(directory: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(directory)?;
        let metadata = fs::metadata(&path)?;
        let born = metadata.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Ok(Self {
            path: path.to_string_lossy().into_owned(),
            inode: inode(&metadata),
            born: born.and_then(|it| u64::try_from(it.as_nanos()).ok()),
            machine: machine(),
        })
    }

    /// Whether both are the same place, as far as both are known.
    pub fn is(&self, other: &Self) -> bool {
        let Self { path, inode, born, machine } = self;
        *path == other.path
            && is_same(inode.as_ref(), other.inode.as_ref())
            && is_same(born.as_ref(), other.born.as_ref())
            && is_same(machine.as_ref(), other.machine.as_ref())
    }

    /// What people are told of where it was before.
    pub fn told_of(&self, before: &Self) -> String {
        let path = &before.path;
        if is_same(self.machine.as_ref(), before.machine.as_ref()) {
            format!("at {path}, in another folder")
        } else {
            format!("at {path} on another machine")
        }
    }
}

fn is_same<T: PartialEq>(a: Option<&T>, b: Option<&T>) -> bool {
    a.zip(b).is_none_or(|(a, b)| a == b)
}

#[cfg(unix)]
fn inode(metadata: &fs::Metadata) -> Option<u64> {
    Some(std::os::unix::fs::MetadataExt::ino(metadata))
}

#[cfg(not(unix))]
fn inode(_metadata: &fs::Metadata) -> Option<u64> {
    None
}

fn machine() -> Option<String> {
    let ids = MACHINE_IDS.iter().filter_map(|path| fs::read_to_string(path).ok());
    let id = ids.map(|id| id.trim().to_owned()).find(|id| MACHINE_ID_BYTES_MIN <= id.len())?;
    let hash = blake3::derive_key("tasuki 2026 machine of a data directory", id.as_bytes());
    Some(blake3::Hash::from_bytes(hash).to_hex().to_string())
}

/// Whether `directory` is where it was when [`note`] was called last. One that is not there, or
/// where nothing is noted, is.
///
/// # Errors
/// [`LocationError::Elsewhere`] if it is not; otherwise why the location cannot be read.
pub fn check(directory: &Path) -> Result<(), LocationError> {
    let path = directory.join(FILE);
    let noted = match fs::read(&path) {
        Ok(bytes) => bytes,
        // One that is no directory is named by whoever opens it.
        Err(why)
            if matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(());
        }
        Err(source) => return Err(LocationError::Io { path, source }),
    };
    let noted: Location = checked::from_slice(&noted)
        .map_err(|why| LocationError::Damaged { path, what: why.to_string() })?;
    let here = Location::of(directory);
    let here = here.map_err(|source| LocationError::Io { path: directory.to_owned(), source })?;
    if here.is(&noted) {
        return Ok(());
    }
    let there = here.told_of(&noted);
    Err(LocationError::Elsewhere { here: directory.to_owned(), there })
}

/// Notes durably where `directory` is, unless just that is noted.
///
/// # Errors
/// Where the directory cannot be written to, or the disk is full.
pub fn note(directory: &Path) -> Result<(), LocationError> {
    let path = directory.join(FILE);
    let noted = Location::of(directory).and_then(|here| {
        let text = checked::to_vec(&here)?;
        if fs::read(&path).is_ok_and(|noted| noted == text) {
            return Ok(());
        }
        files::replace(&path, &text)
    });
    noted.map_err(|source| LocationError::Io { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_elsewhere(directory: &Path) -> bool {
        match check(directory) {
            Ok(()) => false,
            Err(LocationError::Elsewhere { .. }) => true,
            Err(other) => panic!("{other}"),
        }
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().expect("a directory");
        let data = place.path().join("data");
        (place, data)
    }

    #[test]
    fn a_copy_is_told_from_the_original() {
        let (place, data) = place();
        assert!(!is_elsewhere(&data), "not made yet");
        fs::create_dir(&data).expect("made");
        assert!(!is_elsewhere(&data), "of a release that noted nothing");
        note(&data).expect("noted");
        assert!(!is_elsewhere(&data));
        #[cfg(unix)]
        {
            let link = place.path().join("link");
            std::os::unix::fs::symlink(&data, &link).expect("linked");
            assert!(!is_elsewhere(&link), "by another name");
        }
        let copy = place.path().join("copy");
        fs::create_dir(&copy).expect("made");
        fs::copy(data.join(FILE), copy.join(FILE)).expect("copied");
        assert!(is_elsewhere(&copy) && !is_elsewhere(&data));
        note(&copy).expect("noted");
        assert!(!is_elsewhere(&copy) && !is_elsewhere(&data), "each is its own");
        fs::rename(&data, place.path().join("away")).expect("moved");
        fs::rename(&copy, &data).expect("moved");
        assert!(is_elsewhere(&data), "another folder in the same place");
    }

    #[test]
    fn each_part_counts_and_what_is_not_known_does_not() {
        let here = Location {
            path: "/data".to_owned(),
            inode: Some(7),
            born: Some(8),
            machine: Some("m".to_owned()),
        };
        assert!(here.is(&Location { inode: None, born: None, machine: None, ..here.clone() }));
        for other in [
            Location { path: "/other".to_owned(), ..here.clone() },
            Location { inode: Some(8), ..here.clone() },
            Location { born: Some(9), ..here.clone() },
            Location { machine: Some("n".to_owned()), ..here.clone() },
        ] {
            assert!(!here.is(&other), "{other:?}");
        }
    }

    #[test]
    fn no_flipped_bit_of_a_note_lets_a_copy_pass() {
        let (place, data) = place();
        fs::create_dir(&data).expect("made");
        note(&data).expect("noted");
        let noted = fs::read(data.join(FILE)).expect("noted");
        let copy = place.path().join("copy");
        fs::create_dir(&copy).expect("made");
        for bit in 0..noted.len() * 8 {
            let mut spoilt = noted.clone();
            spoilt[bit / 8] ^= 1 << (bit % 8);
            fs::write(copy.join(FILE), &spoilt).expect("written");
            assert!(check(&copy).is_err(), "bit {bit}: {}", String::from_utf8_lossy(&spoilt));
        }
    }
}
