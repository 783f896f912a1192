//! What a launch leaves for the sessions that it starts, and what they leave for it: small files in
//! the folder `launch/ROLE` of the node's directory.
//!
//! `order.json` says which agents the role has, `state.json` how its session is. Whoever watches over
//! the session holds the lock `lock`.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tasuki_proto::{
    host::{
        checked,
        files::{self, Locked, private_directory},
    },
    id::RoleId,
};

use crate::{cli::Failure, paths};

/// In the node's directory.
const FOLDER: &str = "launch";

/// The agents of a role.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub agents: Vec<OrderedAgent>,
    /// The variable `PATH` of whoever launched it: a terminal may have another.
    pub path: String,
}

/// One agent, with all that it is started with.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OrderedAgent {
    /// As one types it.
    pub program: String,
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub project: PathBuf,
    pub prompt: String,
    /// The name of its server.
    pub server: String,
    /// Those of other roles in the same client.
    pub others: Vec<String>,
    /// The agent's id.
    pub instance: String,
    pub on_exit: String,
    pub restarts: u32,
}

/// How a role's session is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// The agent that plays it.
    pub program: String,
    /// Why it ended, once nothing is started any more.
    #[serde(default)]
    pub ended: Option<String>,
    /// The last lines that it showed.
    #[serde(default)]
    pub lines: Vec<String>,
}

const ORDER: &str = "order.json";
const STATE: &str = "state.json";
const LOCK: &str = "lock";

fn path(data: &Path, role: &RoleId, name: &str) -> PathBuf {
    data.join(FOLDER).join(role.as_str()).join(name)
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::local(format!("{} cannot be used: {why}.", path.display()))
}

fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), Failure> {
    let written = || -> io::Result<()> {
        private_directory(files::directory_of(path))?;
        paths::replace(path, &checked::to_vec(value)?)
    };
    written().map_err(|why| unusable(path, &why))
}

/// What somebody else could have written is not read.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    let bytes = files::read_own(path).map_err(|why| unusable(path, &why))?;
    let value = bytes.map(|bytes| checked::from_slice(&bytes)).transpose();
    value.map_err(|why| unusable(path, &why))
}

impl Order {
    pub(super) fn write(&self, data: &Path, role: &RoleId) -> Result<(), Failure> {
        write(&path(data, role, ORDER), self)
    }

    pub(super) fn read(data: &Path, role: &RoleId) -> Result<Self, Failure> {
        read(&path(data, role, ORDER))?.ok_or_else(|| {
            Failure::usage(format!("{role} was not launched here. Run `tasuki launch` first."))
        })
    }
}

impl State {
    pub(super) fn write(&self, data: &Path, role: &RoleId) -> Result<(), Failure> {
        write(&path(data, role, STATE), self)
    }

    /// `None`: no session began since the last launch.
    pub(super) fn read(data: &Path, role: &RoleId) -> Option<Self> {
        read(&path(data, role, STATE)).ok().flatten()
    }

    /// Forgets the session before.
    pub(super) fn forget(data: &Path, role: &RoleId) -> Result<(), Failure> {
        let path = path(data, role, STATE);
        match fs::remove_file(&path) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(unusable(&path, &why)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Watches over the role's session until it is dropped; `None`: another process does.
pub(super) fn watch(data: &Path, role: &RoleId) -> Result<Option<Locked>, Failure> {
    let path = path(data, role, LOCK);
    let open = || -> io::Result<File> {
        private_directory(files::directory_of(&path))?;
        files::private(&path)
    };
    let file = open().map_err(|why| unusable(&path, &why))?;
    match Locked::take(file) {
        Ok(lock) => Ok(Some(lock)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(why)) => Err(unusable(&path, &why)),
    }
}

/// Whether another process watches over the role's session.
pub(in crate::cli) fn is_watched(data: &Path, role: &RoleId) -> Result<bool, Failure> {
    // Looking makes nothing.
    match path(data, role, LOCK).exists() {
        true => Ok(watch(data, role)?.is_none()),
        false => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_watches_over_a_session() {
        let data = tempfile::tempdir().unwrap();
        let role = "A".parse().unwrap();
        assert!(!is_watched(data.path(), &role).unwrap());
        let lock = watch(data.path(), &role).unwrap();
        assert!(lock.is_some() && is_watched(data.path(), &role).unwrap());
        drop(lock);
        assert!(!is_watched(data.path(), &role).unwrap());
    }

    #[test]
    fn what_is_left_for_a_session_is_read_again() {
        let data = tempfile::tempdir().unwrap();
        let role = "A".parse().unwrap();
        assert!(Order::read(data.path(), &role).unwrap_err().message.contains("was not launched"));
        Order { agents: Vec::new(), path: "/bin".into() }.write(data.path(), &role).unwrap();
        assert_eq!(Order::read(data.path(), &role).unwrap().path, "/bin");
        let state = State { program: "codex".into(), ended: Some("x".into()), lines: Vec::new() };
        state.write(data.path(), &role).unwrap();
        assert_eq!(State::read(data.path(), &role), Some(state));
        State::forget(data.path(), &role).unwrap();
        State::forget(data.path(), &role).unwrap();
        assert_eq!(State::read(data.path(), &role), None);
    }
}
