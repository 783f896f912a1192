//! Other programs' configuration files: edited in place, logged, and given back.
//!
//! `document` edits the text of a file, `hook_list` the hooks in one, `file_io` reads and replaces
//! files, `install_log` records what was written. [`Installer`] joins them; its users say what to write. `program` finds the
//! command that is written into such files.
//!
//! - **K1** What others wrote in a file stays, and a file that cannot be read is not changed.
//! - **K2** Installing twice is installing once: the second time nothing is written.
//! - **K3** Uninstalling takes out what installing put in, and nothing else.
//! - **K4** Every text that is replaced is kept in the data directory first.

pub(super) mod document;
pub(super) mod file_io;
pub(super) mod hook_list;
pub(super) mod install_log;
pub(super) mod program;

use std::path::{Path, PathBuf};

use self::{
    document::{Document, EditError, Format},
    file_io::{DirectoryLock, NewMode, Snapshot, WriteError},
    install_log::{Added, Applied, Change, InstallLog, Original, back_up},
};
use super::Failure;
use crate::clock;

/// Another program may change its file while we do; more attempts than these would not help.
const ATTEMPTS_MAX: usize = 5;

/// A file of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub path: PathBuf,
    pub format: Format,
    /// If the file is new.
    pub mode: NewMode,
}

/// What installing did to one file.
#[derive(Debug)]
pub(super) struct Written {
    pub path: PathBuf,
    pub applied: Applied,
    pub is_new: bool,
    pub backup: Option<PathBuf>,
}

/// What uninstalling did to one file.
#[derive(Debug)]
pub(super) struct Restored {
    pub path: PathBuf,
    /// The keys that were taken out, for people.
    pub changed: Vec<String>,
    pub is_removed: bool,
    pub backup: Option<PathBuf>,
}

impl Written {
    pub(super) fn change(&self) -> &'static str {
        match (self.applied.changed.is_empty(), self.is_new) {
            (true, _) => "unchanged",
            (false, true) => "created",
            (false, false) => "changed",
        }
    }
}

impl Restored {
    pub(super) fn change(&self) -> &'static str {
        if self.is_removed { "removed" } else { "changed" }
    }
}

/// Puts something into a document. The path is for messages; the flag says whether the log knows
/// the part, so that whatever else is in it is its user's.
pub(super) type Apply<'a> = dyn Fn(&Path, &mut Document, bool) -> Result<Applied, Failure> + 'a;

/// An owner's part of a document, to be taken out.
pub(super) trait Part {
    /// Whether the document has it.
    fn is_in(&self, document: &Document) -> bool;

    /// Takes it out, and what was added with it. Returns the keys that changed.
    fn withdraw(
        &self,
        path: &Path,
        document: &mut Document,
        added: &[Added],
    ) -> Result<Vec<String>, Failure>;
}

/// Changes files for one owner, and keeps the log of it.
#[derive(Debug)]
pub(super) struct Installer<'a> {
    data: &'a Path,
    owner: String,
    log: InstallLog,
    _ours: DirectoryLock,
}

/// A file before and after uninstalling.
struct Removal {
    snapshot: Snapshot,
    /// `None`: the file is removed.
    after: Option<String>,
    changed: Vec<String>,
    /// Of the tables that were made, those still there; `None`: the file is as it was before.
    left: Option<Vec<Vec<String>>>,
}

impl<'a> Installer<'a> {
    pub(super) async fn open(data: &'a Path, owner: impl Into<String>) -> Result<Self, Failure> {
        let ours = file_io::lock(data).await.map_err(Failure::local)?;
        let log = InstallLog::read(data).map_err(Failure::local)?;
        Ok(Self { data, owner: owner.into(), log, _ours: ours })
    }

    /// Refuses what [`Self::install`] would refuse, and writes nothing.
    pub(super) fn check(&self, target: &Target, apply: &Apply<'_>) -> Result<(), Failure> {
        self.edit(target, apply).map(drop)
    }

    fn edit(
        &self,
        target: &Target,
        apply: &Apply<'_>,
    ) -> Result<(Snapshot, Applied, String), Failure> {
        let snapshot = file_io::read(&target.path).map_err(Failure::local)?;
        let mut document = parse(target, &snapshot)?;
        let is_logged = self.log.added(&target.path, &self.owner).is_some();
        let applied = apply(&snapshot.path, &mut document, is_logged)?;
        let after = document.text();
        Ok((snapshot, applied, after))
    }

    pub(super) async fn install(
        &mut self,
        target: &Target,
        apply: &Apply<'_>,
    ) -> Result<Written, Failure> {
        let path = &target.path;
        let mut created_directory = false;
        for _ in 0..ATTEMPTS_MAX {
            let real = file_io::read(path).map_err(Failure::local)?.path;
            let directory = real.parent().unwrap_or_else(|| Path::new("."));
            created_directory |= !directory.exists();
            let _theirs = file_io::lock(directory).await.map_err(Failure::local)?;
            let (snapshot, applied, after) = self.edit(target, apply)?;
            let before = snapshot.text.as_deref();
            let is_changed = !applied.changed.is_empty();
            let is_new = is_changed && before.is_none();
            let written = Written { path: path.clone(), applied, is_new, backup: None };
            if !is_changed {
                return Ok(written);
            }
            let backup = before.map(|text| self.back_up(&snapshot, text)).transpose()?;
            let (applied, backup_path) = (&written.applied, backup.as_deref());
            let change =
                Change { applied, before, after: &after, backup: backup_path, created_directory };
            // What is logged and did not happen is taken back without harm; the other way round it
            // would stay.
            let unchanged = self.log.clone();
            self.log.record(path, &self.owner, change);
            let logged = self.log.write(self.data).map_err(WriteError::Failed);
            match logged.and_then(|()| file_io::replace(&snapshot, &after, target.mode)) {
                Ok(()) => return Ok(Written { backup, ..written }),
                Err(why) => {
                    remove_backup(backup.as_deref());
                    self.log = unchanged;
                    let unlogged = self.log.write(self.data);
                    if let WriteError::Failed(why) = why {
                        return Err(Failure::local(why));
                    }
                    unlogged.map_err(Failure::local)?;
                }
            }
        }
        Err(busy(path))
    }

    /// Refuses what [`Self::uninstall`] would refuse, and writes nothing.
    pub(super) fn check_removal(&self, target: &Target, part: &dyn Part) -> Result<(), Failure> {
        self.removal(target, part).map(drop)
    }

    /// `None`: the file has no such part.
    fn removal(&self, target: &Target, part: &dyn Part) -> Result<Option<Removal>, Failure> {
        let snapshot = file_io::read(&target.path).map_err(Failure::local)?;
        let Some(text) = snapshot.text.as_deref() else { return Ok(None) };
        let mut document = parse(target, &snapshot)?;
        let added = self.log.added(&target.path, &self.owner).unwrap_or_default();
        let changed = part.withdraw(&snapshot.path, &mut document, added)?;
        if changed.is_empty() {
            return Ok(None);
        }
        let original = self.log.original(&target.path, &self.owner, text);
        // The part may have been there unlogged before it was installed.
        let is_without = |original: &Original| match original {
            Original::Missing => true,
            Original::Text(text) => {
                Document::parse(target.format, text).is_ok_and(|document| !part.is_in(&document))
            }
        };
        if let Some(original) = original.filter(is_without) {
            let after = match original {
                Original::Missing => None,
                Original::Text(text) => Some(text),
            };
            return Ok(Some(Removal { snapshot, after, changed, left: None }));
        }
        let log = self.log.file(&target.path);
        let made = log.map(|log| log.made.clone()).unwrap_or_default();
        let left = remove_empty(&mut document, made).map_err(|why| why.at(&snapshot.path))?;
        let is_gone = log.is_some_and(|log| log.created) && document.is_empty(&[]);
        let after = (!is_gone).then(|| document.text());
        Ok(Some(Removal { snapshot, after, changed, left: Some(left) }))
    }

    /// `None`: the file has no such part.
    pub(super) async fn uninstall(
        &mut self,
        target: &Target,
        part: &dyn Part,
    ) -> Result<Option<Restored>, Failure> {
        let path = &target.path;
        for _ in 0..ATTEMPTS_MAX {
            let real = file_io::read(path).map_err(Failure::local)?;
            let directory = real.path.parent().filter(|_| real.text.is_some());
            let _theirs = match directory {
                Some(directory) => Some(file_io::lock(directory).await.map_err(Failure::local)?),
                None => None,
            };
            let Some(Removal { snapshot, after, changed, left }) = self.removal(target, part)?
            else {
                if self.log.added(path, &self.owner).is_some() {
                    self.forget(path, None)?;
                }
                return Ok(None);
            };
            let text = snapshot.text.as_deref().unwrap_or_default();
            // A file that is only ours is no loss.
            let backup = after.as_ref().map(|_| self.back_up(&snapshot, text)).transpose()?;
            let done = match &after {
                None => file_io::remove(&snapshot),
                Some(after) => file_io::replace(&snapshot, after, target.mode),
            };
            match done {
                Ok(()) => {
                    let is_removed = after.is_none();
                    let is_ours = self.log.file(path).is_some_and(|log| log.created_directory);
                    if let Some(directory) = path.parent().filter(|_| is_removed && is_ours) {
                        // Others' files in it keep it.
                        drop(std::fs::remove_dir(directory));
                    }
                    self.forget(path, left)?;
                    return Ok(Some(Restored { path: path.clone(), changed, is_removed, backup }));
                }
                Err(why) => {
                    remove_backup(backup.as_deref());
                    if let WriteError::Failed(why) = why {
                        return Err(Failure::local(why));
                    }
                }
            }
        }
        Err(busy(path))
    }

    fn forget(&mut self, path: &Path, left: Option<Vec<Vec<String>>>) -> Result<(), Failure> {
        self.log.forget(path, &self.owner, left);
        self.log.write(self.data).map_err(Failure::local)
    }

    fn back_up(&self, snapshot: &Snapshot, text: &str) -> Result<PathBuf, Failure> {
        back_up(self.data, &snapshot.path, text, clock::wall_ms()).map_err(Failure::local)
    }
}

/// Removes tables and lists that were made and have nothing in them. Returns the others.
pub(super) fn remove_empty(
    document: &mut Document,
    mut made: Vec<Vec<String>>,
) -> Result<Vec<Vec<String>>, EditError> {
    made.sort_by_key(|keys| std::cmp::Reverse(keys.len()));
    let mut left = Vec::new();
    for keys in made {
        if document.is_empty(&keys) {
            document.remove(&keys)?;
        } else {
            left.push(keys);
        }
    }
    Ok(left)
}

fn parse(target: &Target, snapshot: &Snapshot) -> Result<Document, Failure> {
    let text = snapshot.text.as_deref().unwrap_or_default();
    Document::parse(target.format, text).map_err(|why| why.at(&snapshot.path))
}

/// A backup of a text that was not replaced is of no use.
fn remove_backup(backup: Option<&Path>) {
    if let Some(path) = backup
        && let Err(why) = std::fs::remove_file(path)
    {
        tracing::debug!(%why, path = %path.display(), "a backup stays behind");
    }
}

fn busy(path: &Path) -> Failure {
    Failure::local(format!(
        "{} keeps changing and was left as it is. Close the program that writes it and try again.",
        path.display()
    ))
}
