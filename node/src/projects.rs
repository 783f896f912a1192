//! Where the nodes of several projects keep their state in one data directory.
//!
//! A workspace is one project. The node of the first one has the data directory itself, the node of
//! each other a directory of its own in it; all of them use the one broker there. So one user's
//! projects run side by side, and a command finds the node of the project it is called in.
//!
//! - **PR1** A directory is one workspace's for good: `workspace.json` in it is written before its
//!   node starts, and never changed to another.
//!
//! A data directory without the file is that of the first workspace whose node starts there, unless
//! a node left its address: an earlier release wrote it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tasuki_proto::{
    host::{
        checked,
        files::{self, SecretFileError},
    },
    id::WorkspaceId,
};

use crate::paths::NodeFile;

/// In each such directory.
const FILE: &str = "workspace.json";

/// In a data directory: those of all projects but the first, by workspace.
const FOLDER: &str = "nodes";

/// What is noted in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    workspace: String,
    /// It lies in the data directory of another project.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_nested: bool,
    /// The port that its node took by itself, for the next start: agents were connected there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
}

impl Stored {
    fn read(directory: &Path) -> Result<Option<Self>, SecretFileError> {
        let path = directory.join(FILE);
        let Some(bytes) = files::read_own(&path)? else { return Ok(None) };
        let damaged = |what: String| SecretFileError::Damaged {
            path: path.clone(),
            what: format!("{what}; restore it, or remove it if {} is gone", directory.display()),
        };
        let stored: Self = checked::from_slice(&bytes).map_err(|why| damaged(why.to_string()))?;
        match stored.workspace.parse::<WorkspaceId>() {
            Ok(_) => Ok(Some(stored)),
            Err(why) => Err(damaged(format!("the workspace {why}"))),
        }
    }

    fn write(&self, directory: &Path) -> io::Result<()> {
        files::replace(&directory.join(FILE), &checked::to_vec(self)?)
    }

    fn workspace(&self) -> Option<WorkspaceId> {
        self.workspace.parse().ok()
    }
}

/// Whose the data directory itself is; `None`: nobody's yet.
///
/// # Errors
/// When what is noted cannot be read, is damaged, or could be another user's.
pub fn owner(data: &Path) -> Result<Option<WorkspaceId>, SecretFileError> {
    let noted = Stored::read(data)?.and_then(|stored| stored.workspace());
    let left = || NodeFile::last(data).and_then(|node| node.workspace.parse().ok());
    Ok(noted.or_else(left))
}

/// Where the node of `workspace` keeps its state: in a directory of its own once it
/// [claimed](claim) one, else in the data directory.
///
/// # Errors
/// As [`owner`].
pub fn place(data: &Path, workspace: &WorkspaceId) -> Result<PathBuf, SecretFileError> {
    if owner(data)?.is_none_or(|owner| owner == *workspace) {
        return Ok(data.to_owned());
    }
    let own = directory(data, workspace);
    let noted = Stored::read(&own)?.and_then(|stored| stored.workspace());
    Ok(if noted.as_ref() == Some(workspace) { own } else { data.to_owned() })
}

/// The same for a node that is to start: what is nobody's becomes its workspace's (PR1).
///
/// # Errors
/// As [`owner`], and where the directory cannot be written to, or is another workspace's: on some
/// file systems two names differ by more than their directories do.
pub fn claim(data: &Path, workspace: &WorkspaceId) -> io::Result<PathBuf> {
    // Two projects may start at the same moment.
    let _lock = lock(data)?;
    let unusable = |why: SecretFileError| io::Error::other(why.to_string());
    let is_nested = owner(data).map_err(unusable)?.is_some_and(|owner| owner != *workspace);
    let own = if is_nested { directory(data, workspace) } else { data.to_owned() };
    match Stored::read(&own).map_err(unusable)? {
        Some(stored) if stored.workspace == workspace.as_str() => {}
        Some(stored) => {
            return Err(io::Error::other(format!(
                "{} keeps the data of workspace {}; choose another name",
                own.display(),
                stored.workspace
            )));
        }
        None => {
            Stored { workspace: workspace.to_string(), is_nested, port: None }.write(&own)?;
        }
    }
    Ok(own)
}

/// Where `tasuki doctor` keeps the state of its own node, which is none of the user's.
const PROBE_FOLDER: &str = "doctor";

/// Makes the directory of a node that tries out the broker of this data directory in a workspace of
/// its own. It is listed nowhere.
///
/// # Errors
/// As [`claim`].
pub fn probe(data: &Path, workspace: &WorkspaceId) -> io::Result<PathBuf> {
    let own = data.join(PROBE_FOLDER).join(workspace.as_str());
    Stored { workspace: workspace.to_string(), is_nested: true, port: None }.write(&own)?;
    Ok(own)
}

/// The data directory that a node's directory lies in, or is.
pub fn root(directory: &Path) -> &Path {
    let is_nested = Stored::read(directory).ok().flatten().is_some_and(|it| it.is_nested);
    let root = is_nested.then(|| directory.parent()?.parent()).flatten();
    root.unwrap_or(directory)
}

/// The port that the node of this directory took last by itself.
pub fn last_port(directory: &Path) -> Option<u16> {
    Stored::read(directory).ok().flatten()?.port
}

/// Notes a port that a node took by itself, in a directory that was [claimed](claim).
///
/// # Errors
/// Where the directory cannot be written to.
pub fn remember_port(directory: &Path, port: u16) -> io::Result<()> {
    match Stored::read(directory).map_err(|why| io::Error::other(why.to_string()))? {
        Some(stored) if stored.port != Some(port) => {
            Stored { port: Some(port), ..stored }.write(directory)
        }
        Some(_) | None => Ok(()),
    }
}

/// The directories of a data directory's nodes, its own first.
pub fn directories(data: &Path) -> Vec<PathBuf> {
    let nested = fs::read_dir(data.join(FOLDER)).into_iter().flatten().map_while(Result::ok);
    let mut nested: Vec<PathBuf> = nested.map(|entry| entry.path()).collect();
    nested.sort();
    std::iter::once(data.to_owned()).chain(nested).collect()
}

/// The node by which a command in this directory finds the broker: the directory's own, else another
/// project's of the same data directory. `None`: none runs.
pub fn running(directory: &Path) -> Option<NodeFile> {
    NodeFile::read(directory)
        .or_else(|| directories(root(directory)).iter().find_map(|it| NodeFile::read(it)))
}

fn directory(data: &Path, workspace: &WorkspaceId) -> PathBuf {
    data.join(FOLDER).join(workspace.as_str())
}

/// Held while a directory is given to a workspace.
fn lock(data: &Path) -> io::Result<fs::File> {
    files::private_directory(data)?;
    let file = files::private(&data.join("workspace.lock"))?;
    file.lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> WorkspaceId {
        name.parse().unwrap()
    }

    /// Holds PR1.
    #[test]
    fn the_first_project_has_the_directory_and_each_other_one_its_own() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        assert_eq!(owner(data).unwrap(), None);
        assert_eq!(place(data, &id("a")).unwrap(), data);
        let nested = data.join(FOLDER).join("b");
        for _ in 0..2 {
            assert_eq!(claim(data, &id("a")).unwrap(), data);
            assert_eq!(claim(data, &id("b")).unwrap(), nested);
            assert_eq!(owner(data).unwrap(), Some(id("a")));
        }
        assert_eq!(place(data, &id("a")).unwrap(), data);
        assert_eq!(place(data, &id("b")).unwrap(), nested);
        // One that no node was started for has none.
        assert_eq!(place(data, &id("typo")).unwrap(), data);
        assert_eq!(
            (root(data), root(&nested), root(&data.join("x"))),
            (data, data, &*data.join("x"))
        );
        assert_eq!(directories(data), [data.to_owned(), nested]);
    }

    #[test]
    fn a_directory_of_an_earlier_release_is_that_of_its_node() {
        let data = tempfile::tempdir().unwrap();
        let node = NodeFile::example("old");
        node.write(data.path()).unwrap();
        assert_eq!(owner(data.path()).unwrap(), Some(id("old")));
        assert_eq!(claim(data.path(), &id("new")).unwrap(), data.path().join(FOLDER).join("new"));
        assert_eq!(claim(data.path(), &id("old")).unwrap(), data.path());
    }

    #[test]
    fn a_probe_uses_the_data_directory_and_is_nobodys_project() {
        let data = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let own = probe(data.path(), &id("p")).unwrap();
            assert_eq!(root(&own), data.path());
            assert_eq!(directories(data.path()), [data.path()]);
            assert_eq!(owner(data.path()).unwrap(), None);
        }
    }

    #[test]
    fn a_port_is_remembered_where_a_node_is() {
        let data = tempfile::tempdir().unwrap();
        remember_port(data.path(), 1).unwrap();
        assert_eq!(last_port(data.path()), None);
        claim(data.path(), &id("a")).unwrap();
        remember_port(data.path(), 2).unwrap();
        assert_eq!(last_port(data.path()), Some(2));
        assert_eq!(owner(data.path()).unwrap(), Some(id("a")));
    }

    #[test]
    fn a_flipped_bit_gives_a_directory_to_no_other_workspace() {
        let data = tempfile::tempdir().unwrap();
        claim(data.path(), &id("a")).unwrap();
        crate::flips::each(&data.path().join(FILE), |what| {
            let read = owner(data.path());
            assert!(read.is_err() || read.is_ok_and(|it| it == Some(id("a"))), "{what}");
        });
    }
}
