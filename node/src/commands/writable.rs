//! The directories below the root that commands may write to.
//!
//! Rights that are given for a directory hold for all that lies in it and all that will, so that
//! nothing protected can be taken out of them. Before a command runs, nothing protected may be in
//! there; what it made is put aside under another name when it has ended.
//!
//! Commands that run at once share the directories, and nobody can tell what is whose. So the first
//! of them looks before it begins, and the last one puts aside. A note on disk says that something
//! may be left to be put aside: a node that was killed did not do it.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{
    CommandError,
    scan::{OnProtected, SetAside, scan},
};
use crate::{
    dir::Dir,
    file_access::{Files, check_in_place},
};

/// The note, in the data directory.
const NOTE: &str = "commands-unfinished.json";

/// The directories, for all commands.
#[derive(Debug)]
pub(super) struct Writable {
    files: Arc<Files>,
    /// Below the root.
    write: Vec<String>,
    note: PathBuf,
    /// Commands that run.
    running: Mutex<usize>,
}

/// The directories while one command runs.
#[derive(Debug)]
pub(super) struct WritableGuard {
    writable: Arc<Writable>,
    directories: Vec<(Dir, String)>,
    /// What was put aside before it began.
    left: SetAside,
    is_over: bool,
}

/// Where commands may have left something.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    root: PathBuf,
    write: Vec<String>,
}

/// The directories without those that lie in another.
///
/// # Errors
/// Says what is wrong with one.
pub(super) fn check(write: &[String], files: &Files) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for text in write {
        let names = files.names(text).map_err(|why| format!("{text}: {why}"))?;
        if names.is_empty() {
            return Err(format!("{text} is the root itself; name directories in it"));
        }
        if let Some(by) = files.protection(&names) {
            return Err(format!("{text} is protected ({by})"));
        }
        all.push(names.join("/"));
    }
    // Nobody may swap one of them who may write to another.
    let is_in = |inner: &String, outer: &String| {
        inner != outer && Path::new(inner).starts_with(Path::new(outer))
    };
    let mut own: Vec<String> =
        all.iter().filter(|it| !all.iter().any(|outer| is_in(it, outer))).cloned().collect();
    own.sort_unstable();
    own.dedup();
    Ok(own)
}

impl Writable {
    pub(super) fn new(files: Arc<Files>, write: Vec<String>, data: &Path) -> Self {
        Self { files, write, note: data.join(NOTE), running: Mutex::default() }
    }

    /// Opens the directories for one command; what is missing is made. Nothing protected may be in
    /// there, unless other commands run already. Blocks on the disk.
    pub(super) fn begin(self: &Arc<Self>) -> Result<WritableGuard, CommandError> {
        check_in_place(self.files.root_dir()).map_err(CommandError::Replaced)?;
        let open = |path: &String| {
            let names: Vec<&str> = path.split('/').collect();
            // The repository's configuration may be another by now.
            if let Some(by) = self.files.protection(&names) {
                return Err(CommandError::Protected(format!("{path} ({by})")));
            }
            let dir = self.files.root_dir().walk_or_make(Path::new(path));
            let dir = dir.map_err(|why| CommandError::Disk(format!("{path}: {why}")))?;
            check_in_place(&dir).map_err(CommandError::Replaced)?;
            Ok((dir, path.clone()))
        };
        let mut running = self.running.lock();
        let directories: Vec<(Dir, String)> =
            self.write.iter().map(open).collect::<Result<_, CommandError>>()?;
        let left = match *running {
            0 if !directories.is_empty() => self.check_clean(&directories)?,
            _ => SetAside::default(),
        };
        *running += 1;
        let writable = Arc::clone(self);
        Ok(WritableGuard { writable, directories, left, is_over: false })
    }

    /// Puts aside what an earlier process left, and refuses if anything else protected is there.
    fn check_clean(&self, directories: &[(Dir, String)]) -> Result<SetAside, CommandError> {
        let unfinished = self.unfinished();
        let own: Vec<_> =
            directories.iter().filter(|(_, path)| unfinished.contains(path)).cloned().collect();
        let left = scan(&self.files, &own, OnProtected::SetAside);
        let SetAside { paths, unchecked, .. } = scan(&self.files, directories, OnProtected::Stop);
        if let Some(path) = paths.into_iter().next() {
            return Err(CommandError::Protected(path));
        }
        if let Some(why) = unchecked {
            return Err(CommandError::Unseen(why));
        }
        self.write_note().map_err(|why| CommandError::Disk(why.to_string()))?;
        Ok(SetAside { paths: left.paths, ..SetAside::default() })
    }

    /// The directories in which something may be left.
    fn unfinished(&self) -> Vec<String> {
        let note = fs::read(&self.note).ok();
        let note = note.and_then(|it| serde_json::from_slice::<Note>(&it).ok());
        note.filter(|it| it.root == self.files.root()).map(|it| it.write).unwrap_or_default()
    }

    fn write_note(&self) -> io::Result<()> {
        let note = Note { root: self.files.root().to_owned(), write: self.write.clone() };
        let mut file = File::create(&self.note)?;
        file.write_all(&serde_json::to_vec(&note)?)?;
        file.sync_all()
    }
}

impl WritableGuard {
    /// Where the directories are.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.directories.iter().map(|(dir, _)| dir.path().to_owned())
    }

    /// Puts aside what is protected, if no other command runs: its content stays, and nothing runs
    /// it. Blocks on the disk.
    pub(super) fn end(mut self) -> SetAside {
        let writable = Arc::clone(&self.writable);
        let mut running = writable.running.lock();
        *running -= 1;
        self.is_over = true;
        let mut all = std::mem::take(&mut self.left);
        if self.directories.is_empty() {
            return all;
        }
        if *running != 0 {
            all.is_postponed = true;
            return all;
        }
        let found = scan(&writable.files, &self.directories, OnProtected::SetAside);
        all.paths.extend(found.paths);
        all.unchecked = found.unchecked;
        if all.unchecked.is_none()
            && let Err(why) = fs::remove_file(&writable.note)
        {
            tracing::warn!(%why, "the note that commands ran stays");
        }
        all
    }
}

impl Drop for WritableGuard {
    fn drop(&mut self) {
        if !self.is_over {
            // The note stays, so the next command looks.
            *self.writable.running.lock() -= 1;
        }
    }
}
