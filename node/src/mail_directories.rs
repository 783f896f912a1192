//! Which directory each role's mailbox belongs to on disk, as agents registered it.
//!
//! Kept in the node's data directory, in the order of registration. Whoever projects mailboxes
//! onto the disk follows [`Directories::watch`]; nothing here touches the directories themselves.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use tasuki_proto::{
    host::{checked, files},
    id::RoleId,
};
use tokio::sync::watch;

/// In the node's data directory.
const FILE: &str = "mail-directories.json";

/// Roles with a directory. Each is a line of a small file that is written whole.
pub const DIRECTORIES_MAX: usize = 1_024;

/// A role's mailbox and where it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    pub role: RoleId,
    /// Absolute.
    pub directory: PathBuf,
}

/// All of a node's. Clones are the same.
#[derive(Debug, Clone)]
pub struct Directories(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// `None`: nothing is kept.
    file: Option<PathBuf>,
    all: watch::Sender<Vec<Registered>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    role: String,
    directory: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Written {
    directories: Vec<Line>,
}

/// Why a directory is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    #[error("{directory} is {role}'s already", directory = directory.display())]
    Taken { role: RoleId, directory: PathBuf },
    #[error("{DIRECTORIES_MAX} roles have a directory already")]
    TooMany,
    #[error("what is registered cannot be written down")]
    Io(#[from] io::Error),
}

impl Default for Directories {
    /// Forgotten with the process.
    fn default() -> Self {
        Self(Arc::new(Inner { file: None, all: watch::Sender::new(Vec::new()) }))
    }
}

impl Directories {
    /// Those kept in the data directory of a node. Blocks on the disk.
    pub fn open(data: &Path) -> io::Result<Self> {
        let file = data.join(FILE);
        let lines: Vec<Line> = match files::read_own(&file).map_err(io::Error::other)? {
            // As earlier releases wrote it.
            Some(bytes) if bytes.starts_with(b"[") => {
                serde_json::from_slice(&bytes).map_err(|why| damaged(&file, &why))?
            }
            Some(bytes) => {
                let written: Written =
                    checked::from_slice(&bytes).map_err(|why| damaged(&file, &why))?;
                written.directories
            }
            None => Vec::new(),
        };
        let all = lines.into_iter().map(|Line { role, directory }| {
            let role = role.parse().map_err(|why| damaged(&file, &why))?;
            Ok(Registered { role, directory })
        });
        let all = watch::Sender::new(all.collect::<io::Result<_>>()?);
        Ok(Self(Arc::new(Inner { file: Some(file), all })))
    }

    /// In the order in which they were registered.
    pub fn all(&self) -> Vec<Registered> {
        self.0.all.borrow().clone()
    }

    pub fn of(&self, role: &RoleId) -> Option<PathBuf> {
        let all = self.0.all.borrow();
        all.iter().find(|it| it.role == *role).map(|it| it.directory.clone())
    }

    /// The same for whoever waits for them to change.
    pub fn watch(&self) -> watch::Receiver<Vec<Registered>> {
        self.0.all.subscribe()
    }

    /// Gives a role the directory; one it had before is no longer its own. Blocks on the disk.
    pub fn register(&self, role: &RoleId, directory: &Path) -> Result<(), RegisterError> {
        self.change(|all| {
            if let Some(other) = all.iter().find(|it| it.directory == directory)
                && other.role != *role
            {
                let (role, directory) = (other.role.clone(), directory.to_owned());
                return Err(RegisterError::Taken { role, directory });
            }
            let directory = directory.to_owned();
            if let Some(known) = all.iter_mut().find(|it| it.role == *role) {
                known.directory = directory;
                return Ok(());
            }
            if DIRECTORIES_MAX <= all.len() {
                return Err(RegisterError::TooMany);
            }
            all.push(Registered { role: role.clone(), directory });
            Ok(())
        })
    }

    /// Whether it had one. Blocks on the disk.
    pub fn unregister(&self, role: &RoleId) -> io::Result<bool> {
        let had = self.of(role).is_some();
        if had {
            self.change(|all| {
                all.retain(|it| it.role != *role);
                Ok::<_, io::Error>(())
            })?;
        }
        Ok(had)
    }

    /// Of several roles with one directory, as older files have them, only the first keeps it.
    /// Which lost theirs. Blocks on the disk.
    pub fn clean_up(&self) -> io::Result<Vec<Registered>> {
        let mut lost = Vec::new();
        let is_double = |all: &[Registered], at: usize| {
            all[..at].iter().any(|it| it.directory == all[at].directory)
        };
        if !(0..self.all().len()).any(|at| is_double(&self.all(), at)) {
            return Ok(lost);
        }
        self.change(|all| {
            let kept: Vec<Registered> = all.clone();
            let (doubles, firsts) =
                (0..kept.len()).partition::<Vec<_>, _>(|at| is_double(&kept, *at));
            lost = doubles.into_iter().map(|at| kept[at].clone()).collect();
            *all = firsts.into_iter().map(|at| kept[at].clone()).collect();
            Ok::<_, io::Error>(())
        })?;
        Ok(lost)
    }

    /// On disk first, then in memory; all or nothing.
    fn change<E: From<io::Error>>(
        &self,
        how: impl FnOnce(&mut Vec<Registered>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut done = Ok(());
        self.0.all.send_if_modified(|all| {
            let mut changed = all.clone();
            done = how(&mut changed).and_then(|()| self.keep(&changed).map_err(E::from));
            let is_changed = done.is_ok() && *all != changed;
            if is_changed {
                *all = changed;
            }
            is_changed
        });
        done
    }

    fn keep(&self, all: &[Registered]) -> io::Result<()> {
        let Some(file) = &self.0.file else { return Ok(()) };
        let line =
            |it: &Registered| Line { role: it.role.to_string(), directory: it.directory.clone() };
        let written = Written { directories: all.iter().map(line).collect() };
        let bytes = checked::to_vec(&written).map_err(io::Error::other)?;
        files::replace(file, &bytes)
    }
}

fn damaged(file: &Path, why: &dyn std::error::Error) -> io::Error {
    let why = format!(
        "{} is not what a node wrote there ({why}); remove it, and register the directories again",
        file.display()
    );
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn told(directories: &Directories) -> String {
        let all = directories.all();
        let words = all.iter().map(|it| format!("{}={}", it.role, it.directory.display()));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_registered_is_there_after_a_restart() {
        let data = tempfile::tempdir().unwrap();
        let directories = Directories::open(data.path()).unwrap();
        let role = |name: &str| name.parse::<RoleId>().unwrap();
        let mut changes = directories.watch();
        directories.register(&role("qa"), Path::new("/qa")).unwrap();
        directories.register(&role("dev"), Path::new("/dev")).unwrap();
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        directories.register(&role("qa"), Path::new("/qa")).unwrap();
        assert!(!changes.has_changed().unwrap(), "it was so before");
        let taken = directories.register(&role("ops"), Path::new("/dev")).unwrap_err();
        assert_eq!(taken.to_string(), "/dev is dev's already");
        directories.register(&role("qa"), Path::new("/new")).unwrap();
        assert_eq!(told(&Directories::open(data.path()).unwrap()), "qa=/new dev=/dev");
        assert!(directories.unregister(&role("qa")).unwrap());
        assert!(!directories.unregister(&role("qa")).unwrap());
        assert_eq!(told(&Directories::open(data.path()).unwrap()), "dev=/dev");
        assert_eq!(directories.of(&role("dev")), Some(PathBuf::from("/dev")));
    }

    #[test]
    fn of_doubles_the_first_keeps_its_directory() {
        let data = tempfile::tempdir().unwrap();
        let lines = r#"[{"role":"a","directory":"/x"},{"role":"b","directory":"/y"},
                        {"role":"c","directory":"/x"}]"#;
        fs::write(data.path().join(FILE), lines).unwrap();
        let directories = Directories::open(data.path()).unwrap();
        let lost = directories.clean_up().unwrap();
        assert_eq!(lost.iter().map(|it| it.role.as_str()).collect::<Vec<_>>(), ["c"]);
        assert_eq!(told(&Directories::open(data.path()).unwrap()), "a=/x b=/y");
        assert!(directories.clean_up().unwrap().is_empty());
    }

    #[test]
    fn a_flipped_bit_is_named_or_harmless() {
        let data = tempfile::tempdir().unwrap();
        let directories = Directories::open(data.path()).unwrap();
        directories.register(&"qa".parse().unwrap(), Path::new("/qa")).unwrap();
        crate::flips::each(&data.path().join(FILE), |what| match Directories::open(data.path()) {
            Ok(read) => assert_eq!(told(&read), "qa=/qa", "{what}"),
            Err(why) => assert!(why.to_string().contains(FILE), "{what}: {why}"),
        });
    }

    #[test]
    fn a_damaged_file_is_named_and_one_that_cannot_be_written_changes_nothing() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join(FILE), "[7]").unwrap();
        let error = Directories::open(data.path()).unwrap_err();
        assert!(error.to_string().contains("mail-directories.json is not what"), "{error}");
        fs::remove_file(data.path().join(FILE)).unwrap();
        let directories = Directories::open(data.path()).unwrap();
        fs::create_dir_all(data.path().join(FILE).join("in the way")).unwrap();
        let error = directories.register(&"a".parse().unwrap(), Path::new("/x")).unwrap_err();
        assert!(matches!(error, RegisterError::Io(_)), "{error}");
        assert_eq!(told(&directories), "");
    }
}
