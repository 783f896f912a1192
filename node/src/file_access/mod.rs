//! Work on files below one directory, for roles that have the toolset `files` and for services that
//! the node runs itself.
//!
//! - **FS1** Nothing outside of the root is read, written or listed: a path is followed from the open
//!   root one name at a time, and no link is followed, whatever is swapped meanwhile (`Dir`).
//! - **FS2** What is [protected](protect) is never written, and Tasuki's own data with its keys is
//!   neither read nor listed, wherever it lies.
//! - **FS3** A write is whole or not there: a new file takes the place of the old one, under its name
//!   and with its mode. What has a second name, or is no plain file, is not written through.
//!
//! Not here: locks of the swarm, which the tool asks the broker for.

mod git_config;
mod listing;
pub mod protect;
mod read;
mod repositories;
pub mod settings;
#[cfg(test)]
mod tests;
mod write;

use std::{
    fs::Metadata,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
};

use parking_lot::Mutex;
use tasuki_proto::{
    echo::echo,
    limits::{FILE_PATH_BYTES_MAX, FILE_PATH_NAMES_MAX, FILE_READ_BYTES_MAX, FILE_WRITE_BYTES_MAX},
    reason::Reason,
};

use self::protect::Pattern;
pub use self::{
    listing::{Entry, EntryKind, ListRequest, Listing},
    read::{FileText, ReadRequest},
    settings::FileSettings,
    write::{WriteMode, WriteRequest, Written},
};
use crate::{
    dir::{Dir, NoFile, resolved},
    refusal::Refusal,
};

/// The files below the root. All of it blocks on the disk.
#[derive(Debug)]
pub struct Files {
    root: Dir,
    settings: FileSettings,
    /// Directories and keys of the node and its broker.
    private: Vec<PathBuf>,
    /// Held from looking at a file to putting another in its place.
    writing: Mutex<()>,
}

/// Why something was not done to a file. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{0}")]
    Path(String),
    #[error("{0} does not exist")]
    Missing(String),
    #[error("{path} {why}")]
    Strange { path: String, why: String },
    #[error("{path} is protected ({by}): nothing there is changed by this tool. Ask your user")]
    Protected { path: String, by: String },
    #[error("{0} is Tasuki's own, with its keys, and is not shown")]
    Private(String),
    #[error("{0} exists. Use mode overwrite to replace it")]
    Exists(String),
    #[error(
        "{path} is not what you expect: its SHA-256 is {actual}. Read it again, and write on top of that"
    )]
    Changed { path: String, actual: String },
    #[error("{path} has {bytes} bytes; the limit is {bytes_max}")]
    TooLarge { path: String, bytes: u64, bytes_max: u64 },
    #[error("writing is off on this node. Ask your user to set `write = true` in [files]")]
    ReadOnly,
    #[error("{path}: {why}")]
    Io { path: String, why: io::Error },
}

impl FileError {
    /// As a caller is told.
    pub fn refusal(&self) -> Refusal {
        let reason = match self {
            Self::Path(_) | Self::Strange { .. } => Reason::InvalidArgument,
            Self::Missing(_) => Reason::UnknownFile,
            Self::Protected { .. } | Self::Private(_) | Self::ReadOnly => Reason::FileProtected,
            Self::Exists(_) | Self::Changed { .. } => Reason::FileChanged,
            Self::TooLarge { .. } => Reason::TooLarge,
            Self::Io { .. } => Reason::Unavailable,
        };
        Refusal { reason, message: format!("{self}. No change was made.") }
    }
}

impl Files {
    /// Opens the root. `private` is what nobody is shown.
    ///
    /// # Errors
    /// Says why there are no files: whole sentences, for agents and for logs.
    pub fn open(settings: FileSettings, private: Vec<PathBuf>) -> Result<Self, String> {
        let Some(root) = &settings.root else { return Err(NO_ROOT.to_owned()) };
        let real = resolved(root);
        if let Some(around) = private.iter().find(|it| real.starts_with(resolved(it))) {
            return Err(format!(
                "[files] root is {}, which lies in Tasuki's own data, {}. Name another directory.",
                real.display(),
                around.display()
            ));
        }
        let open = Dir::open_real(&real);
        let root = open.map_err(|why| format!("[files] root cannot be opened: {why}."))?;
        Ok(Self { root, settings, private, writing: Mutex::default() })
    }

    /// The root, where it was when it was opened.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The same, open.
    pub(crate) const fn root_dir(&self) -> &Dir {
        &self.root
    }

    pub const fn settings(&self) -> &FileSettings {
        &self.settings
    }

    /// What nobody is shown.
    pub fn private(&self) -> &[PathBuf] {
        &self.private
    }

    /// A path as its names.
    pub(crate) fn names<'a>(&self, path: &'a str) -> Result<Vec<&'a str>, FileError> {
        let wrong = |why: &str| Err(FileError::Path(format!("`path` {why}: {}", echo(path))));
        if FILE_PATH_BYTES_MAX < path.len() {
            return wrong("is too long");
        }
        if path.contains('\0') {
            return wrong("has a zero byte");
        }
        let mut names = Vec::new();
        for part in Path::new(path).components() {
            match part {
                Component::Normal(name) => names.push(name.to_str().unwrap_or_default()),
                Component::CurDir => {}
                Component::ParentDir => return wrong("has `..`; paths are below the root"),
                Component::RootDir | Component::Prefix(_) => {
                    return wrong("is absolute; paths are relative to the root");
                }
            }
        }
        if FILE_PATH_NAMES_MAX < names.len() {
            return wrong("has too many names");
        }
        Ok(names)
    }

    /// The directory of these names. What is missing is made where that is asked for, and noted: the
    /// directory that it is in, and its name.
    fn enter(
        &self,
        names: &[&str],
        mut made: Option<&mut Vec<(Dir, String)>>,
    ) -> Result<Dir, FileError> {
        // What is not there, nobody enters.
        let private: Vec<Dir> = self.private.iter().filter_map(|it| Dir::open(it).ok()).collect();
        let mut dir = self.root.clone();
        for (count, name) in names.iter().enumerate() {
            let path = || names[..=count].join("/");
            if let Some(made) = &mut made {
                let is_new = dir.make(name).map_err(|why| FileError::Io { path: path(), why })?;
                made.extend(is_new.then(|| (dir.clone(), (*name).to_owned())));
            }
            dir = dir.enter(name).map_err(|why| self.no_directory(&dir, name, path(), why))?;
            if private.iter().any(|it| it.is_same_as(&dir)) {
                return Err(FileError::Private(path()));
            }
        }
        Ok(dir)
    }

    fn no_directory(&self, dir: &Dir, name: &str, path: String, why: io::Error) -> FileError {
        if why.kind() == io::ErrorKind::NotFound {
            return FileError::Missing(path);
        }
        if why.kind() == io::ErrorKind::NotADirectory {
            let is_link = matches!(dir.kind(name), Some(crate::dir::Kind::Link));
            let why = if is_link { LINK } else { "is no directory" };
            return FileError::Strange { path, why: why.to_owned() };
        }
        FileError::Io { path, why }
    }

    /// The directory that the last name is in, and that name.
    fn parent<'a>(
        &self,
        names: &[&'a str],
        made: Option<&mut Vec<(Dir, String)>>,
    ) -> Result<(Dir, &'a str), FileError> {
        let Some((last, above)) = names.split_last() else {
            return Err(FileError::Path("`path` names the root itself; name a file".to_owned()));
        };
        Ok((self.enter(above, made)?, last))
    }

    /// Whether an open file is one of Tasuki's own.
    fn is_private(&self, about: &Metadata) -> bool {
        let is_it = |it: &Metadata| (it.dev(), it.ino()) == (about.dev(), about.ino());
        self.private.iter().any(|it| std::fs::metadata(it).is_ok_and(|it| is_it(&it)))
    }

    /// What protects a path. Blocks on the disk.
    pub(crate) fn protection(&self, names: &[&str]) -> Option<String> {
        if let Some(by) = protect::protected_by(names, &self.settings.protect) {
            return Some(by);
        }
        match self.patterns(names) {
            Ok(patterns) => protect::protected_by(names, &patterns)
                .or_else(|| self.makes_repository(names).then(|| BARE.to_owned())),
            Err(why) => Some(why),
        }
    }

    /// What is protected at a path and below it in addition to the names that are everywhere: what
    /// the operator names, and what the repositories around it have for hooks. Blocks on the disk.
    ///
    /// # Errors
    /// Says why that is not known.
    pub(crate) fn patterns(&self, names: &[&str]) -> Result<Vec<Pattern>, String> {
        let unclear = |why: String| format!("where Git has its hooks is not known: {why}");
        let root = self.root.path();
        check_in_place(&self.root).map_err(unclear)?;
        let mut git = repositories::GitDirectories::default();
        for top in root.ancestors() {
            if git.add(top) {
                break;
            }
        }
        let mut top = root.to_owned();
        // What is at the path itself is protected, or is not.
        for name in names.split_last().map_or(&[][..], |(_, above)| above) {
            top.push(name);
            git.add(&top);
        }
        let mut patterns = self.settings.protect.clone();
        for directory in &git.directories {
            let Ok(below) = directory.strip_prefix(root) else { continue };
            if below.as_os_str().is_empty() {
                git.unclear
                    .get_or_insert_with(|| "the root itself is a directory of hooks".to_owned());
            }
            patterns.push(Pattern::of_path(below));
        }
        git.unclear.map_or(Ok(patterns), |why| Err(unclear(why)))
    }

    /// Whether a directory above a path is, or would be with something of that name, what Git takes
    /// for a repository without a work tree: it would run what the configuration in there names.
    fn makes_repository(&self, names: &[&str]) -> bool {
        let mut dir = self.root.clone();
        for name in names {
            let new = protect::folded(name);
            if protect::is_repository(|part| {
                new.eq_ignore_ascii_case(part) || !matches!(dir.stat(part), Ok(None))
            }) {
                return true;
            }
            // Where nothing is, one name makes none.
            let Ok(below) = dir.enter(name) else { break };
            dir = below;
        }
        false
    }
}

/// Checks that the path of an open directory still leads to it: a path is all that a command can be
/// given.
///
/// # Errors
/// Says that it does not.
pub(crate) fn check_in_place(dir: &Dir) -> Result<(), String> {
    match Dir::open_real(dir.path()) {
        Ok(now) if now.is_same_as(dir) => Ok(()),
        Ok(_) | Err(_) => {
            Err(format!("{} is not the directory that was opened", dir.path().display()))
        }
    }
}

/// What protects the parts of a repository that has no work tree.
const BARE: &str = "with it, the directory is a Git repository: HEAD, objects and refs";

/// What is said of links.
const LINK: &str = "is a link, and links are not followed; name what it leads to";

/// What is said where the operator named no directory.
pub const NO_ROOT: &str = "No directory is open to agents on this node. Your user names one in the \
                       node's tasuki.toml: [files] root = \"/path/to/project\".";

fn no_file(path: &str, why: NoFile) -> FileError {
    let path = path.to_owned();
    if why.is_missing() {
        return FileError::Missing(path);
    }
    match why {
        NoFile::Link => FileError::Strange { path, why: LINK.to_owned() },
        NoFile::Io(why) => FileError::Io { path, why },
        other @ (NoFile::Strange | NoFile::HardLink) => {
            FileError::Strange { path, why: other.to_string() }
        }
    }
}

const _: () = assert!(FILE_WRITE_BYTES_MAX >= FILE_READ_BYTES_MAX, "what is read can be written");
