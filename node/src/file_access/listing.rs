//! Lists a directory and what is below it.

use tasuki_proto::limits::{FILE_LIST_DEPTH_MAX, FILE_LIST_ENTRIES_MAX, FILE_LIST_SCAN_MAX};

use super::{FileError, Files};
use crate::dir::{Dir, Kind};

/// What is to be listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// Empty: the root.
    pub path: String,
    /// How many directories deep; 0 and 1 are the directory alone.
    pub depth: u64,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// One name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Below the root.
    pub path: String,
    pub kind: EntryKind,
    pub bytes: u64,
}

/// What is in a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// By path; what is in a directory follows it.
    pub entries: Vec<Entry>,
    /// There are others.
    pub has_more: bool,
}

/// A directory that is being listed.
struct Level {
    dir: Dir,
    path: String,
    /// Those that are left, the next one last.
    names: Vec<String>,
}

impl Files {
    /// Lists a directory. Of the names that are no text, and of Tasuki's own data, nothing is shown;
    /// what version control keeps is not looked into.
    ///
    /// # Errors
    /// When it is none, or may not be read.
    pub fn list(&self, request: &ListRequest) -> Result<Listing, FileError> {
        let names = self.names(&request.path)?;
        let (path, depth) = (names.join("/"), request.depth.clamp(1, FILE_LIST_DEPTH_MAX));
        let private: Vec<Dir> = self.private.iter().filter_map(|it| Dir::open(it).ok()).collect();
        let mut found = Listing::default();
        let mut scanned = 0;
        let top = self.enter(&names, None)?;
        let mut levels = vec![level(top, path, &mut scanned, &mut found)?];
        while let Some(level_now) = levels.last_mut() {
            let Some(name) = level_now.names.pop() else {
                levels.pop();
                continue;
            };
            if FILE_LIST_ENTRIES_MAX <= found.entries.len() {
                found.has_more = true;
                break;
            }
            let dir = level_now.dir.clone();
            let path = join(&level_now.path, &name);
            // It is gone already.
            let Ok(Some(about)) = dir.stat(&name) else { continue };
            let kind = match dir.kind(&name) {
                Some(Kind::Directory) => EntryKind::Directory,
                Some(Kind::Link) => EntryKind::Link,
                Some(Kind::Other) if is_plain(&about) => EntryKind::File,
                Some(Kind::Other) | None => EntryKind::Other,
            };
            let below = if kind == EntryKind::Directory { dir.enter(&name).ok() } else { None };
            if below.as_ref().is_some_and(|it| private.iter().any(|own| own.is_same_as(it))) {
                continue;
            }
            let bytes = match kind {
                EntryKind::File => u64::try_from(about.st_size).unwrap_or_default(),
                EntryKind::Directory | EntryKind::Link | EntryKind::Other => 0,
            };
            found.entries.push(Entry { path: path.clone(), kind, bytes });
            if let Some(below) = below
                && (levels.len() as u64) < depth
                && super::protect::folded(&name) != ".git"
            {
                // One that cannot be looked into is listed all the same.
                levels.extend(level(below, path, &mut scanned, &mut found).ok());
            }
        }
        Ok(found)
    }
}

fn level(
    dir: Dir,
    path: String,
    scanned: &mut usize,
    found: &mut Listing,
) -> Result<Level, FileError> {
    let room = FILE_LIST_SCAN_MAX.saturating_sub(*scanned);
    let (names, has_more) =
        dir.names_up_to(room).map_err(|why| FileError::Io { path: path.clone(), why })?;
    *scanned += names.len();
    found.has_more |= has_more;
    let mut names: Vec<String> = names.into_iter().filter_map(|it| it.into_string().ok()).collect();
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(Level { dir, path, names })
}

fn join(above: &str, name: &str) -> String {
    if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") }
}

fn is_plain(about: &rustix::fs::Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(about.st_mode) == rustix::fs::FileType::RegularFile
}
