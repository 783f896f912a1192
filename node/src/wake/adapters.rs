//! Which clients a node wakes from outside, as `tasuki wake setup` wrote it down.
//!
//! The file is its user's own, in the data directory: nobody else says what is started or typed.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tasuki_proto::id::RoleId;

use crate::paths::replace;

/// The file's name in the data directory.
const FILE: &str = "wake.json";

/// A way of waking one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "adapter")]
pub enum Adapter {
    /// `codex queue`, into the conversation that called last.
    Codex {
        /// Where the program is.
        program: PathBuf,
        /// `CODEX_HOME` of its sessions; `None`: the usual one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        home: Option<PathBuf>,
    },
    /// The HTTP server of opencode.
    Opencode {
        url: String,
        /// `None`: the one that was used last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// Keys typed into a pane of tmux.
    Tmux {
        program: PathBuf,
        /// `%3`.
        pane: String,
        /// The socket of its server; `None`: the usual one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        socket: Option<PathBuf>,
    },
}

impl Adapter {
    /// As in the command line.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Codex { .. } => "codex",
            Self::Opencode { .. } => "opencode",
            Self::Tmux { .. } => "tmux",
        }
    }

    /// Whether it is tried for a client of this name. A terminal is any client's.
    pub fn is_for(&self, client: &str) -> bool {
        match self {
            Self::Codex { .. } => client.starts_with(self.name()),
            // Its server is there before its session has called.
            Self::Opencode { .. } => client.is_empty() || client.starts_with(self.name()),
            Self::Tmux { .. } => true,
        }
    }
}

/// All ways that were set up, each role's in the order in which they are tried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adapters {
    #[serde(default)]
    roles: BTreeMap<RoleId, Vec<Adapter>>,
}

impl Adapters {
    pub fn path(data: &Path) -> PathBuf {
        data.join(FILE)
    }

    /// # Errors
    /// Says what is wrong with the file.
    pub fn read(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(why) => Err(why),
        }
    }

    /// # Errors
    /// Of the disk.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        replace(path, &text)
    }

    pub fn of(&self, role: &RoleId) -> &[Adapter] {
        self.roles.get(role).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn all(&self) -> impl Iterator<Item = (&RoleId, &[Adapter])> {
        self.roles.iter().map(|(role, all)| (role, all.as_slice()))
    }

    /// Sets one up, in the place of another of its kind. Whether that changed anything.
    pub fn set(&mut self, role: &RoleId, adapter: Adapter) -> bool {
        let all = self.roles.entry(role.clone()).or_default();
        if all.contains(&adapter) {
            return false;
        }
        all.retain(|it| it.name() != adapter.name());
        all.push(adapter);
        // The terminal is the last resort.
        all.sort_by_key(|it| matches!(it, Adapter::Tmux { .. }));
        true
    }

    /// Takes those of one kind away, of a role or of all. Whether there were any.
    pub fn remove(&mut self, name: &str, role: Option<&RoleId>) -> bool {
        let mut is_changed = false;
        for (of, all) in &mut self.roles {
            let before = all.len();
            if role.is_none_or(|role| role == of) {
                all.retain(|it| it.name() != name);
            }
            is_changed |= all.len() != before;
        }
        self.roles.retain(|_, all| !all.is_empty());
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_up_is_read_again_and_the_terminal_comes_last() {
        let place = tempfile::tempdir().unwrap();
        let path = Adapters::path(place.path());
        let role: RoleId = "B".parse().unwrap();
        let tmux = Adapter::Tmux { program: "/t".into(), pane: "%1".into(), socket: None };
        let codex = |program: &str| Adapter::Codex { program: program.into(), home: None };
        let mut adapters = Adapters::read(&path).unwrap();
        assert!(adapters.set(&role, tmux.clone()));
        assert!(adapters.set(&role, codex("/a")));
        assert!(!adapters.set(&role, codex("/a")));
        assert!(adapters.set(&role, codex("/b")));
        adapters.write(&path).unwrap();
        let mut adapters = Adapters::read(&path).unwrap();
        assert_eq!(adapters.of(&role), [codex("/b"), tmux.clone()]);
        assert!(!adapters.remove("opencode", None));
        assert!(!adapters.remove("codex", Some(&"C".parse().unwrap())));
        assert!(adapters.remove("codex", Some(&role)));
        assert_eq!(adapters.of(&role), [tmux]);
        assert!(adapters.remove("tmux", None) && adapters == Adapters::default());
        fs::write(&path, "[").unwrap();
        assert!(Adapters::read(&path).is_err());
    }
}
