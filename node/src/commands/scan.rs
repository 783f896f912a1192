//! Looks through directories for what is protected, and puts it aside.
//!
//! What is put aside keeps its content under another name, and nothing runs it: a repository is
//! none without its `HEAD`, which is renamed wherever one is found.

use std::{
    ffi::{OsStr, OsString},
    io,
};

use crate::{
    dir::{Dir, Kind},
    file_access::{
        Files,
        protect::{HEAD, Pattern, folded, is_protected_in_depth, is_repository},
    },
    hex::hex,
};

/// Names that are looked at in all directories for one command.
const SCAN_NAMES_MAX: usize = 1_000_000;

/// Directories that are gone down: each takes a descriptor meanwhile.
const SCAN_DEPTH_MAX: usize = 64;

/// Things that were put aside, of which one command's caller is told.
const FOUND_MAX: usize = 1000;

/// What the name of something that was put aside has, before digits.
const ASIDE: &str = "set-aside-";

/// Digits that make such a name nobody else's.
const ASIDE_BYTES: usize = 4;

/// Of the name that something had, in bytes: its new name has to fit.
const KEPT_NAME_BYTES_MAX: usize = 128;

/// What becomes of what is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnProtected {
    /// It is told of, and no more is looked for.
    Stop,
    /// It is put aside.
    SetAside,
}

/// What was put aside, and what could not be.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// Below the root, under the names that they had.
    pub paths: Vec<String>,
    /// Something was not looked at, or could not be put aside.
    pub unchecked: Option<String>,
    /// Other commands still run in the directories; the last of them looks.
    pub is_postponed: bool,
}

/// A directory that is looked through, and the names that are left.
struct Level {
    dir: Dir,
    path: String,
    /// Its path as the most lenient file system compares it.
    folded: Vec<String>,
    names: Vec<OsString>,
}

/// A look through directories. It keeps none open but those that it is in.
pub(super) struct Scan {
    on_protected: OnProtected,
    /// What is protected beside the names that are everywhere.
    patterns: Vec<Pattern>,
    /// Names that it may still look at.
    room: usize,
    found: SetAside,
}

/// Looks through directories of the root.
pub(super) fn scan(
    files: &Files,
    directories: &[(Dir, String)],
    on_protected: OnProtected,
) -> SetAside {
    let mut scan = Scan {
        on_protected,
        patterns: Vec::new(),
        room: SCAN_NAMES_MAX,
        found: SetAside::default(),
    };
    for (dir, path) in directories {
        let names: Vec<&str> = path.split('/').collect();
        scan.patterns = files.patterns(&names).unwrap_or_else(|why| {
            scan.found.unchecked = Some(why);
            files.settings().protect.clone()
        });
        let folded = names.iter().map(|it| folded(it)).collect();
        scan.walk(dir, path, folded);
    }
    scan.found
}

impl Scan {
    fn walk(&mut self, top: &Dir, path: &str, folded_path: Vec<String>) {
        let mut levels: Vec<Level> = Vec::new();
        self.enter(top.clone(), path.to_owned(), folded_path, &mut levels);
        while let Some(level) = levels.last_mut() {
            if self.on_protected == OnProtected::Stop && !self.found.paths.is_empty() {
                return;
            }
            let Some(mut name) = level.names.pop() else {
                levels.pop();
                continue;
            };
            let mut path = format!("{}/{}", level.path, name.display());
            level.folded.push(folded(&name.to_string_lossy()));
            if is_protected_in_depth(&level.folded, &self.patterns) {
                let Some(new) = self.handle_protected(level, &name, &path) else {
                    level.folded.pop();
                    continue;
                };
                // A repository is one under any name.
                path = format!("{}/{new}", level.path);
                name = new.into();
            }
            level.folded.pop();
            if level.dir.kind(&name) != Some(Kind::Directory) {
                continue;
            }
            let below = level.dir.enter(&name);
            let mut path_folded = level.folded.clone();
            path_folded.push(folded(&name.to_string_lossy()));
            match below {
                Ok(_) if SCAN_DEPTH_MAX <= levels.len() => {
                    let why = format!("{path} is more than {SCAN_DEPTH_MAX} directories deep");
                    self.found.unchecked = Some(why);
                }
                Ok(below) => self.enter(below, path, path_folded, &mut levels),
                // It is gone, or became something else.
                Err(why)
                    if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory]
                        .contains(&why.kind()) => {}
                Err(why) => self.found.unchecked = Some(why.to_string()),
            }
        }
    }

    /// Notes what is protected and puts it aside, if that is to be done. Its new name; `None`: it
    /// has none.
    fn handle_protected(&mut self, level: &Level, name: &OsStr, path: &str) -> Option<String> {
        if self.on_protected == OnProtected::Stop {
            self.found.paths.push(path.to_owned());
            return None;
        }
        match self.set_aside(level, name) {
            Ok(new) => {
                if self.found.paths.len() < FOUND_MAX {
                    self.found.paths.push(path.to_owned());
                }
                Some(new)
            }
            Err(why) => {
                self.found.unchecked = Some(format!("{path} cannot be put aside: {why}"));
                None
            }
        }
    }

    fn set_aside(&self, level: &Level, name: &OsStr) -> io::Result<String> {
        let mut digits = [0; ASIDE_BYTES];
        getrandom::fill(&mut digits).map_err(io::Error::other)?;
        let (name_now, digits) = (name.to_string_lossy(), hex(&digits));
        let shown = name_now.trim_start_matches('.');
        let bare = format!("{ASIDE}{digits}");
        let full = format!("{shown}.{bare}");
        let mut path = level.folded.clone();
        path.pop();
        path.push(folded(&full));
        // It would be found again.
        let is_protected = is_protected_in_depth(&path, &self.patterns);
        let new = if is_protected || KEPT_NAME_BYTES_MAX < shown.len() { bare } else { full };
        level.dir.rename_new(name, &level.dir, &new)?;
        Ok(new)
    }

    fn enter(&mut self, dir: Dir, path: String, folded: Vec<String>, levels: &mut Vec<Level>) {
        let (mut names, has_more) = match dir.names_up_to(self.room) {
            Ok(names) => names,
            Err(why) => {
                self.found.unchecked = Some(format!("{path}: {why}"));
                return;
            }
        };
        self.room -= names.len();
        if has_more {
            self.found.unchecked = Some(format!("there are more than {SCAN_NAMES_MAX} files"));
        }
        // Not by the names that were read: a directory may have more than fit.
        let is_repository = is_repository(|part| !matches!(dir.stat(part), Ok(None)));
        let mut level = Level { dir, path, folded, names: Vec::new() };
        if is_repository {
            let path = format!("{}/{HEAD}", level.path);
            level.folded.push(self::folded(HEAD));
            self.handle_protected(&level, OsStr::new(HEAD), &path);
            level.folded.pop();
            names.retain(|it| it != HEAD);
        }
        level.names = names;
        levels.push(level);
    }
}
