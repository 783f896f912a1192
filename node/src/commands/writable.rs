//! The directories below the root that commands may write to.
//!
//! Rights that are given for a directory hold for all that lies in it and all that will, so that
//! nothing protected can be taken out of them. Before a command runs, nothing protected may be in
//! there; what it made is put aside under another name when it has ended.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

use super::CommandError;
use crate::{
    dir::{Dir, Kind},
    file_access::{Files, protect::is_protected_in_depth},
    hex::hex,
};

/// Names that are looked at in all of them for one command.
const SCAN_NAMES_MAX: usize = 1_000_000;

/// Directories that are gone down: each takes a descriptor meanwhile.
const SCAN_DEPTH_MAX: usize = 64;

/// Things that were put aside, of which one command's caller is told.
const FOUND_MAX: usize = 1000;

/// What the name of something that was put aside has at its end, before digits.
const ASIDE: &str = ".set-aside-";

/// Digits that make such a name nobody else's.
const ASIDE_BYTES: usize = 4;

/// Those of one command, open.
pub(super) struct Writable(Vec<(Dir, String)>);

/// What becomes of what has a protected name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It is told of, and no more is looked for.
    Stop,
    /// It is put aside.
    SetAside,
}

/// A directory that is looked through, where it is, and the names that are left.
type Level = (Dir, String, Vec<OsString>);

/// What was put aside, and what could not be.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// Below the root, under the names that they had.
    pub paths: Vec<String>,
    /// Something was not looked at, or could not be put aside.
    pub unchecked: Option<String>,
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
    /// Opens them; what is missing is made. Nothing protected may be in there.
    pub(super) fn open(files: &Files, write: &[String]) -> Result<Self, CommandError> {
        let open = |path: &String| {
            let dir = files.root_dir().walk_or_make(Path::new(path));
            let dir = dir.map_err(|why| CommandError::Disk(format!("{path}: {why}")))?;
            Ok((dir, path.clone()))
        };
        let it = Self(write.iter().map(open).collect::<Result<_, CommandError>>()?);
        let SetAside { paths, unchecked } = it.look(Then::Stop);
        if let Some(path) = paths.into_iter().next() {
            return Err(CommandError::Protected(path));
        }
        match unchecked {
            Some(why) => Err(CommandError::Unseen(why)),
            None => Ok(it),
        }
    }

    /// Where they are.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.0.iter().map(|(dir, _)| dir.path().to_owned())
    }

    /// Puts aside what has a protected name: its content stays, and nothing runs it.
    pub(super) fn set_aside(&self) -> SetAside {
        self.look(Then::SetAside)
    }

    fn look(&self, then: Then) -> SetAside {
        let mut scan = Scan { then, room: SCAN_NAMES_MAX, found: SetAside::default() };
        for (dir, path) in &self.0 {
            scan.look(dir, path);
        }
        scan.found
    }
}

/// A look through directories. It keeps none open but those that it is in.
struct Scan {
    then: Then,
    /// Names that it may still look at.
    room: usize,
    found: SetAside,
}

impl Scan {
    fn look(&mut self, top: &Dir, path: &str) {
        let mut levels: Vec<Level> = Vec::new();
        self.enter(top.clone(), path.to_owned(), &mut levels);
        while let Some((dir, path, names)) = levels.last_mut() {
            let Some(name) = names.pop() else {
                levels.pop();
                continue;
            };
            let path = format!("{path}/{}", name.display());
            if is_protected_in_depth(&name.to_string_lossy()) {
                if !self.take(dir, &name, path) {
                    return;
                }
                continue;
            }
            if dir.kind(&name) != Some(Kind::Directory) {
                continue;
            }
            let below = dir.enter(&name);
            match below {
                Ok(_) if SCAN_DEPTH_MAX <= levels.len() => {
                    self.found.unchecked = Some(format!("{path} is too deep"));
                }
                Ok(below) => self.enter(below, path, &mut levels),
                // It is gone, or became something else.
                Err(why)
                    if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory]
                        .contains(&why.kind()) => {}
                Err(why) => self.found.unchecked = Some(why.to_string()),
            }
        }
    }

    /// Whether to go on.
    fn take(&mut self, dir: &Dir, name: &OsStr, path: String) -> bool {
        match self.then {
            Then::Stop => {
                self.found.paths.push(path);
                return false;
            }
            Then::SetAside => match set_aside(dir, name) {
                Ok(()) if FOUND_MAX <= self.found.paths.len() => {}
                Ok(()) => self.found.paths.push(path),
                Err(why) => {
                    self.found.unchecked = Some(format!("{path} cannot be put aside: {why}"));
                }
            },
        }
        true
    }

    fn enter(&mut self, dir: Dir, path: String, levels: &mut Vec<Level>) {
        let (names, has_more) = match dir.names_up_to(self.room) {
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
        levels.push((dir, path, names));
    }
}

fn set_aside(dir: &Dir, name: &OsStr) -> io::Result<()> {
    let mut digits = [0; ASIDE_BYTES];
    getrandom::fill(&mut digits).map_err(io::Error::other)?;
    let shown = name.to_string_lossy();
    dir.rename_new(name, dir, format!("{}{ASIDE}{}", shown.trim_start_matches('.'), hex(&digits)))
}
