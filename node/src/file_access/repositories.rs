//! Finds where the Git repositories around a path have their hooks.
//!
//! Git itself is not asked: it would run what their configuration names. Files are read as Git
//! reads them, links followed. What cannot be read or understood is told as such, so that nothing is
//! written where hooks might be.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use super::git_config;
use crate::dir::resolve;

/// Of a repository's configuration, in bytes: people's have a few thousand.
const CONFIG_BYTES_MAX: u64 = 256 * 1024;

/// Of a file that says where a repository is, in bytes: a path.
const POINTER_BYTES_MAX: u64 = 8 * 1024;

/// Files that include each other, as Git has it.
const INCLUDES_MAX: u32 = 10;

/// What a file begins with that stands for the directory `.git`.
const POINTER: &[u8] = b"gitdir: ";

/// What a path may begin with that need not be there.
const OPTIONAL: &[u8] = b":(optional)";

/// Directories of repositories, and of the hooks that they run.
#[derive(Debug, Default)]
pub(super) struct GitDirectories {
    /// Absolute paths of directories: as they are written, and where they lead.
    pub directories: Vec<PathBuf>,
    /// Why some may be missing.
    pub unclear: Option<String>,
}

impl GitDirectories {
    /// Adds those of the repository whose files are in `top`, if there is one. Whether there is.
    pub(super) fn add(&mut self, top: &Path) -> bool {
        match find(top) {
            Ok(None) => false,
            Ok(Some((git, common))) => {
                let mut reader = Reader { top, git: &git, hooks: Vec::new(), tops: Vec::new() };
                let read = reader.read(&common.join("config"), 0);
                let read = read.and_then(|()| reader.read(&git.join("config.worktree"), 0));
                let hooks = reader.directories();
                self.directories
                    .extend(hooks.iter().flat_map(|it| [normalized(it), normalized(&resolve(it))]));
                self.note(read);
                let is_repository = git.join("HEAD").symlink_metadata().is_ok();
                self.directories.extend([git, common]);
                is_repository
            }
            Err(why) => {
                self.note(Err(why));
                true
            }
        }
    }

    fn note(&mut self, read: Result<(), String>) {
        if let Err(why) = read {
            self.unclear.get_or_insert(why);
        }
    }
}

/// The directory of a repository, and the one that it shares with other work trees.
fn find(top: &Path) -> Result<Option<(PathBuf, PathBuf)>, String> {
    let named = top.join(".git");
    let Ok(about) = named.metadata() else { return Ok(None) };
    let git = if about.is_dir() {
        named
    } else {
        let text = read(&named, POINTER_BYTES_MAX)?.unwrap_or_default();
        let Some(path) = text.strip_prefix(POINTER) else {
            return Err(format!("{} does not say where a repository is", named.display()));
        };
        top.join(line(path))
    };
    // One that is not there, Git does not use.
    let Ok(git) = git.canonicalize() else { return Ok(None) };
    let common = match read(&git.join("commondir"), POINTER_BYTES_MAX)? {
        Some(path) => git.join(line(&path)),
        None => git.clone(),
    };
    let common = common.canonicalize().map_err(|why| failed(&common, &why))?;
    Ok(Some((git, common)))
}

/// What configurations say of hooks.
struct Reader<'a> {
    top: &'a Path,
    git: &'a Path,
    /// As they are written, `~` replaced.
    hooks: Vec<PathBuf>,
    /// Other directories that these are relative to.
    tops: Vec<PathBuf>,
}

impl Reader<'_> {
    fn read(&mut self, path: &Path, depth: u32) -> Result<(), String> {
        let Some(text) = read(path, CONFIG_BYTES_MAX)? else { return Ok(()) };
        if INCLUDES_MAX < depth {
            return Err(format!("{} is included by too many others", path.display()));
        }
        let settings = git_config::parse(&text);
        let settings = settings
            .map_err(|line| format!("{}, line {line}, is not understood", path.display()))?;
        for it in settings {
            match (it.section.as_str(), it.key.as_str()) {
                ("core", "hookspath") => self.hooks.push(expanded(&it.value, path)?),
                ("core", "worktree") => self.tops.push(self.git.join(&it.value)),
                // Whatever the condition is, it may hold by the time that Git looks.
                ("include" | "includeif", "path") => {
                    let included = expanded(&it.value, path)?;
                    self.read(&path.with_file_name("").join(included), depth + 1)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn directories(&self) -> Vec<PathBuf> {
        let tops = self.tops.iter().map(PathBuf::as_path).chain([self.top]);
        tops.flat_map(|top| self.hooks.iter().map(|it| top.join(it))).collect()
    }
}

/// A path as a configuration has it.
fn expanded(value: &OsStr, config: &Path) -> Result<PathBuf, String> {
    let bytes = value.as_bytes();
    let bytes = bytes.strip_prefix(OPTIONAL).unwrap_or(bytes);
    let own = bytes.strip_prefix(b"~/").or_else(|| (bytes == b"~").then_some(b"".as_slice()));
    match (own, std::env::home_dir()) {
        (Some(below), Some(home)) => Ok(home.join(OsStr::from_bytes(below))),
        (Some(_), None) => Err(format!("{} names a home that is not known", config.display())),
        (None, _) if bytes.starts_with(b"~") || bytes.starts_with(b"%(") => {
            let path = value.to_string_lossy();
            Err(format!("{} names {path}, which only Git can resolve", config.display()))
        }
        (None, _) => Ok(PathBuf::from(OsStr::from_bytes(bytes))),
    }
}

/// All of a file; `None`: it is not there.
fn read(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, String> {
    let about = match fs::metadata(path) {
        Err(why) if is_missing(&why) => return Ok(None),
        about => about.map_err(|why| failed(path, &why))?,
    };
    // Others may have no end, or wait for somebody.
    if !about.is_file() || bytes_max < about.len() {
        return Err(format!("{} is no file that Git has there, or too long", path.display()));
    }
    let mut content = Vec::new();
    let read = File::open(path).and_then(|it| it.take(bytes_max).read_to_end(&mut content));
    read.map_err(|why| failed(path, &why))?;
    Ok(Some(content))
}

fn is_missing(why: &io::Error) -> bool {
    [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&why.kind())
}

fn failed(path: &Path, why: &io::Error) -> String {
    format!("{} cannot be read: {why}", path.display())
}

fn line(text: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(text.trim_ascii_end()))
}

/// A path without `.` and `..`, whatever is there.
fn normalized(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other @ (Component::Prefix(_) | Component::RootDir | Component::Normal(_)) => {
                out.push(other);
            }
        }
    }
    out
}
