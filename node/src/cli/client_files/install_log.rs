//! What was written into other programs' files, so that uninstalling takes back exactly that.
//!
//! The log is in the data directory. Without it our parts are still recognised by what they contain;
//! what stands beside them is then left alone.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    cli::text::utc_time,
    paths::{private, replace},
};

/// The log's name in the data directory.
const FILE: &str = "install-log.json";

/// The directory of files as they were, in the data directory.
const BACKUPS: &str = "backups";

/// Every file that was changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct InstallLog {
    #[serde(default)]
    files: BTreeMap<String, FileLog>,
}

/// What was done to one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileLog {
    /// The file was new.
    pub created: bool,
    /// Its directory was new.
    #[serde(default)]
    pub created_directory: bool,
    /// Tables and lists that were new, the outermost first.
    #[serde(default)]
    pub made: Vec<Vec<String>>,
    /// By the owner of a part of the file, what was added beside that part.
    #[serde(default)]
    parts: BTreeMap<String, Vec<Added>>,
    /// How to restore the very file, as long as nobody else changed it.
    #[serde(default)]
    undo: Option<Undo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Undo {
    owner: String,
    /// `None`: there was no file.
    backup: Option<PathBuf>,
    /// The fingerprint of the text that was written.
    after: String,
}

/// Something that was added beside the owner's own part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::cli) enum Added {
    Item { keys: Vec<String>, item: String },
    Rule { keys: Vec<String> },
}

/// What an edit did to a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) struct Applied {
    /// The keys that changed, for people.
    pub changed: Vec<String>,
    /// Tables and lists that were made, the outermost first.
    pub made: Vec<Vec<String>>,
    pub added: Vec<Added>,
    /// What was left alone, and why.
    pub notes: Vec<String>,
}

/// A file before an owner first changed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Original {
    Missing,
    Text(String),
}

/// One change of a file.
#[derive(Debug)]
pub(super) struct Change<'a> {
    pub applied: &'a Applied,
    /// `None`: there was no file.
    pub before: Option<&'a str>,
    pub after: &'a str,
    pub backup: Option<&'a Path>,
    pub created_directory: bool,
}

impl InstallLog {
    pub(in crate::cli) fn read(data: &Path) -> Result<Self, String> {
        let path = data.join(FILE);
        let bad = |why: &dyn std::fmt::Display| {
            format!("{} cannot be read: {why}. Nothing was changed.", path.display())
        };
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|why| bad(&why)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(why) => Err(bad(&why)),
        }
    }

    pub(super) fn write(&self, data: &Path) -> Result<(), String> {
        let path = data.join(FILE);
        let bytes = serde_json::to_vec_pretty(self).expect("plain data");
        replace(&path, &bytes)
            .map_err(|why| format!("{} cannot be written to: {why}.", path.display()))
    }

    /// The files that were changed.
    pub(in crate::cli) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(Path::new)
    }

    pub(super) fn file(&self, file: &Path) -> Option<&FileLog> {
        self.files.get(&*file.to_string_lossy())
    }

    /// What was added beside the owner's part; `None`: the owner has no part in the file.
    pub(super) fn added(&self, file: &Path, owner: &str) -> Option<&[Added]> {
        self.file(file)?.parts.get(owner).map(Vec::as_slice)
    }

    /// Records a change of a file for an owner.
    pub(super) fn record(&mut self, file: &Path, owner: &str, change: Change<'_>) {
        let log = self.files.entry(file.to_string_lossy().into_owned()).or_default();
        log.created |= change.before.is_none();
        log.created_directory |= change.created_directory;
        for made in &change.applied.made {
            if !log.made.contains(made) {
                log.made.push(made.clone());
            }
        }
        let is_first = !log.parts.contains_key(owner);
        let added = log.parts.entry(owner.to_owned()).or_default();
        for new in &change.applied.added {
            if !added.contains(new) {
                added.push(new.clone());
            }
        }
        // A second change by the same owner leads back to before the first, unless somebody else
        // changed the file in between: no backup is without the part and with their change.
        let undo = log.undo.take().filter(|undo| {
            undo.owner == owner && change.before.is_some_and(|text| undo.after == fingerprint(text))
        });
        let backup = match undo {
            Some(undo) => Some(undo.backup),
            None => is_first.then(|| change.backup.map(Path::to_owned)),
        };
        let after = fingerprint(change.after);
        log.undo = backup.map(|backup| Undo { owner: owner.to_owned(), backup, after });
    }

    /// The file as it was before the owner changed it, if it is still as that left it.
    pub(super) fn original(&self, file: &Path, owner: &str, now: &str) -> Option<Original> {
        let undo = self.file(file)?.undo.as_ref()?;
        if undo.owner != owner || undo.after != fingerprint(now) {
            return None;
        }
        match &undo.backup {
            None => Some(Original::Missing),
            Some(backup) => Some(Original::Text(fs::read_to_string(backup).ok()?)),
        }
    }

    /// Forgets an owner's part. `left`: which of the tables that were made are still there; `None`:
    /// the file is as it was before, or gone.
    pub(super) fn forget(&mut self, file: &Path, owner: &str, left: Option<Vec<Vec<String>>>) {
        let key = file.to_string_lossy().into_owned();
        let Some(log) = self.files.get_mut(&key) else { return };
        log.parts.remove(owner);
        log.undo = None;
        if let Some(left) = left {
            log.made = left;
        }
        if log.parts.is_empty() {
            self.files.remove(&key);
        }
    }
}

/// Keeps a text that is about to be replaced. Returns where.
pub(super) fn back_up(data: &Path, of: &Path, text: &str, now_ms: u64) -> Result<PathBuf, String> {
    /// Changes of one file within a second; more are no accident.
    const SAME_SECOND_MAX: usize = 1000;
    let directory = data.join(BACKUPS);
    let bad = |why: &dyn std::fmt::Display| {
        format!("No backup can be kept in {}: {why}. Nothing was changed.", directory.display())
    };
    fs::create_dir_all(&directory).map_err(|why| bad(&why))?;
    let file = of.file_name().unwrap_or_default().to_string_lossy();
    let when: String = utc_time(now_ms).chars().filter(|c| !"-: ".contains(*c)).collect();
    for number in 1..=SAME_SECOND_MAX {
        let path = directory.join(format!("{when}-{number}-{}", file.trim_start_matches('.')));
        if path.exists() {
            continue;
        }
        let mut out = private(&path).map_err(|why| bad(&why))?;
        let written = io::Write::write_all(&mut out, text.as_bytes());
        if let Err(why) = written.and_then(|()| out.sync_all()) {
            // Half a backup is none.
            drop(fs::remove_file(&path));
            return Err(bad(&why));
        }
        return Ok(path);
    }
    Err(bad(&"too many in this second"))
}

/// Tells one text from another.
fn fingerprint(text: &str) -> String {
    format!("{:016x}-{}", fnv1a(text.as_bytes()), text.len())
}

/// FNV-1a: the same on every machine and in every version.
pub(in crate::cli) fn fnv1a(bytes: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}
