//! What connecting did to each file, so that disconnecting can take back exactly that.
//!
//! It is kept in the data directory. Without it an entry of ours is still known by what it says;
//! what stands beside it is then left alone.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::plan::{Added, Applied};
use crate::{
    cli::text::time,
    paths::{private, replace},
};

/// Its name in the data directory.
const FILE: &str = "connections.json";

/// Where the files as they were are kept, in the data directory.
const BACKUPS: &str = "backups";

/// Every file that connecting changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Book {
    #[serde(default)]
    files: BTreeMap<String, Page>,
}

/// What was done to one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Page {
    /// The file was not there.
    pub created: bool,
    /// Tables and lists that were not there, the outermost first.
    #[serde(default)]
    pub made: Vec<Vec<String>>,
    /// By the name of the server's entry, what was added beside it.
    #[serde(default)]
    pub entries: BTreeMap<String, Vec<Added>>,
    /// How to have the very file back, as long as nobody else changed it.
    #[serde(default)]
    undo: Option<Undo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Undo {
    name: String,
    /// `None`: there was no file.
    backup: Option<PathBuf>,
    /// The mark of the text that was written.
    after: String,
}

/// What the file was before it was touched for one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Before {
    Missing,
    Text(String),
}

impl Book {
    pub(super) fn read(data: &Path) -> Result<Self, String> {
        let path = data.join(FILE);
        let bad = |why: &dyn std::fmt::Display| {
            format!("{} cannot be read: {why}. Without it nothing is taken back.", path.display())
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
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(Path::new)
    }

    pub(super) fn page(&self, file: &Path) -> Option<&Page> {
        self.files.get(&*file.to_string_lossy())
    }

    /// Notes what was done to a file for the entry `name`.
    pub(super) fn note(&mut self, file: &Path, name: &str, done: Done<'_>) {
        let page = self.files.entry(file.to_string_lossy().into_owned()).or_default();
        page.created |= done.before.is_none();
        for made in &done.applied.made {
            if !page.made.contains(made) {
                page.made.push(made.clone());
            }
        }
        let is_first = !page.entries.contains_key(name);
        let added = page.entries.entry(name.to_owned()).or_default();
        for new in &done.applied.added {
            if !added.contains(new) {
                added.push(new.clone());
            }
        }
        // Touching the same entry again leads back to before the first time, unless somebody
        // else changed the file in between: no text is without the entry and with their change.
        let undo = page.undo.take().filter(|undo| {
            undo.name == name && done.before.is_some_and(|text| undo.after == mark(text))
        });
        let backup = match undo {
            Some(undo) => Some(undo.backup),
            None => is_first.then(|| done.backup.map(Path::to_owned)),
        };
        page.undo =
            backup.map(|backup| Undo { name: name.to_owned(), backup, after: mark(done.after) });
    }

    /// The file as it was before the entry `name`, if it is still as that left it.
    pub(super) fn before(&self, file: &Path, name: &str, now: &str) -> Option<Before> {
        let undo = self.page(file)?.undo.as_ref()?;
        if undo.name != name || undo.after != mark(now) {
            return None;
        }
        match &undo.backup {
            None => Some(Before::Missing),
            Some(backup) => Some(Before::Text(fs::read_to_string(backup).ok()?)),
        }
    }

    /// Forgets an entry. `left`: which of the tables that were made are still there; `None`: the
    /// file is as it was before, or gone.
    pub(super) fn forget(&mut self, file: &Path, name: &str, left: Option<Vec<Vec<String>>>) {
        let key = file.to_string_lossy().into_owned();
        let Some(page) = self.files.get_mut(&key) else { return };
        page.entries.remove(name);
        page.undo = None;
        if let Some(left) = left {
            page.made = left;
        }
        if page.entries.is_empty() {
            self.files.remove(&key);
        }
    }
}

/// One change of a file that was made.
#[derive(Debug)]
pub(super) struct Done<'a> {
    pub applied: &'a Applied,
    /// `None`: there was no file.
    pub before: Option<&'a str>,
    pub after: &'a str,
    pub backup: Option<&'a Path>,
}

/// Keeps a text that is about to be replaced. Gives where.
pub(in crate::cli) fn back_up(
    data: &Path,
    of: &Path,
    text: &str,
    now_ms: u64,
) -> Result<PathBuf, String> {
    /// Several changes of one file within a second; more are no accident.
    const SAME_SECOND_MAX: usize = 1000;
    let directory = data.join(BACKUPS);
    let bad = |why: &dyn std::fmt::Display| {
        format!("No backup can be kept in {}: {why}. Nothing was changed.", directory.display())
    };
    fs::create_dir_all(&directory).map_err(|why| bad(&why))?;
    let file = of.file_name().unwrap_or_default().to_string_lossy();
    let when: String = time(now_ms).chars().filter(|c| !"-: ".contains(*c)).collect();
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
pub(in crate::cli) fn mark(text: &str) -> String {
    format!("{:016x}-{}", hash(text.as_bytes()), text.len())
}

/// FNV-1a: the same on every machine and in every version.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}
