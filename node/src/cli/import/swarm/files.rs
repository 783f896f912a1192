//! Files below one directory: only what is plainly there, and no more of it than fits.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::Value;

use crate::dir::{Dir, NoFile};

/// One file of JSON, in bytes: the original keeps a submission's words in it.
const JSON_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Names in one directory. More is no directory of the original's.
const NAMES_MAX: usize = 200_000;

/// A file or directory that was left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Skipped {
    pub path: PathBuf,
    /// Half a sentence, to follow the path.
    pub why: String,
}

/// The directory that is read, and what was left alone so far.
#[derive(Debug)]
pub(super) struct Reading {
    root: Dir,
    pub skipped: Vec<Skipped>,
}

impl Reading {
    pub(super) fn new(root: Dir) -> Self {
        Self { root, skipped: Vec::new() }
    }

    /// A path of it, from there.
    fn below<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(self.root.path()).unwrap_or(path)
    }

    pub(super) fn skip(&mut self, path: &Path, why: impl Into<String>) {
        self.skipped.push(Skipped { path: path.to_owned(), why: why.into() });
    }

    /// Names in a directory, in order; none where there is no such directory.
    pub(super) fn names(&mut self, directory: &Path) -> Vec<String> {
        let listed = self.root.walk(self.below(directory)).and_then(|dir| dir.names());
        let entries = match listed {
            Ok(entries) => entries,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(why) if why.kind() == io::ErrorKind::NotADirectory => {
                self.skip(directory, "is no directory of its own, or a link to one");
                return Vec::new();
            }
            Err(why) => {
                self.skip(directory, format!("cannot be listed: {why}"));
                return Vec::new();
            }
        };
        let mut names = Vec::new();
        for name in entries {
            match name.into_string() {
                _ if NAMES_MAX <= names.len() => {
                    self.skip(
                        directory,
                        format!("has more than {NAMES_MAX} names; not all are read"),
                    );
                    break;
                }
                Ok(name) => names.push(name),
                Err(name) => self.skip(&directory.join(name), "has a name that is no text"),
            }
        }
        names.sort_unstable();
        names
    }

    /// The names that end so, without that end.
    pub(super) fn stems(&mut self, directory: &Path, end: &str) -> Vec<String> {
        let names = self.names(directory);
        names.iter().filter_map(|it| it.strip_suffix(end)).map(ToOwned::to_owned).collect()
    }

    /// A plain file's words, at most so many bytes. `None`: told as skipped, unless it is not
    /// there.
    pub(super) fn text(&mut self, path: &Path, limit: u64) -> Option<String> {
        let opened = self.root.parent_of(self.below(path)).map_err(NoFile::Io);
        let file = match opened.and_then(|(dir, name)| dir.open_own_file(name)) {
            Ok((file, _)) => file,
            Err(why) if why.is_missing() => return None,
            Err(NoFile::Link | NoFile::Strange) => {
                self.skip(path, "is no plain file; links are not followed");
                return None;
            }
            Err(why @ (NoFile::HardLink | NoFile::Io(_))) => {
                self.skip(path, why.to_string());
                return None;
            }
        };
        let mut bytes = Vec::new();
        let read = file.take(limit + 1).read_to_end(&mut bytes);
        match read {
            Err(why) => self.skip(path, format!("cannot be read: {why}")),
            Ok(_) if limit < bytes.len() as u64 => {
                self.skip(path, format!("has more than {limit} bytes"));
            }
            Ok(_) => match String::from_utf8(bytes) {
                Ok(text) => return Some(text),
                Err(why) => {
                    let at = why.utf8_error().valid_up_to();
                    self.skip(path, format!("is not UTF-8 at byte {at}"));
                }
            },
        }
        None
    }

    /// The objects in a directory, each with its file's name before `.json`, in order.
    pub(super) fn objects(&mut self, directory: &Path) -> Vec<(String, Value)> {
        let stems = self.stems(directory, ".json").into_iter();
        let read = |stem: String| {
            let json = self.json(&directory.join(format!("{stem}.json")))?;
            Some((stem, json))
        };
        stems.filter_map(read).collect()
    }

    /// An object that was written whole.
    pub(super) fn json(&mut self, path: &Path) -> Option<Value> {
        let text = self.text(path, JSON_BYTES_MAX)?;
        match serde_json::from_str::<Value>(&text) {
            Ok(value) if value.is_object() => return Some(value),
            Ok(_) => self.skip(path, "is no object"),
            Err(why) => self.skip(path, format!("is not JSON, or was not written whole: {why}")),
        }
        None
    }
}
