//! Which agents there are: their files in the user's directories and in those of a project.
//!
//! - **AF1** A project's directory is never left: what a symbolic link there leads to counts only if
//!   it lies in the project, too. A user's own directories may link anywhere.
//! - **AF2** The same files give the same agents in the same order, and every file that is none is
//!   named with the reason.
//! - **AF3** At most [`FILES_MAX`] files of a directory are read, of at most
//!   [`AGENT_FILE_BYTES_MAX`] bytes each, and only regular ones.
//!
//! In one scope the directories stand in the order `.tasuki`, `.pi`, `.claude`; of two agents of one
//! name the first counts. Under both scopes a project's agent counts before a user's.
//!
//! Not here: whether a project's agents may run; that is asked elsewhere, each time.

use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use super::agent_file::{AGENT_FILE_BYTES_MAX, Agent};

/// Agents of one directory.
pub const FILES_MAX: usize = 256;

/// Names of one directory that are looked at.
const ENTRIES_MAX: usize = 4096;

/// Directories between a project's and the root of the file system.
const ANCESTORS_MAX: usize = 128;

/// Whose agents.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    User,
    Project,
}

impl Source {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// Which of them are wanted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    #[default]
    User,
    Project,
    Both,
}

/// The program whose directory it is: its agents are written for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DirectoryKind {
    Tasuki,
    Pi,
    Claude,
}

impl DirectoryKind {
    /// In the order in which they count.
    pub const ALL: [Self; 3] = [Self::Tasuki, Self::Pi, Self::Claude];

    /// Below a project.
    const fn project_dir(self) -> &'static str {
        match self {
            Self::Tasuki => ".tasuki/agents",
            Self::Pi => ".pi/agents",
            Self::Claude => ".claude/agents",
        }
    }

    /// Below a user's home.
    const fn user_dir(self) -> &'static str {
        match self {
            Self::Tasuki => ".tasuki/agents",
            Self::Pi => ".pi/agent/agents",
            Self::Claude => ".claude/agents",
        }
    }

    /// The runner of an agent that names none; none leaves it to the configuration.
    pub const fn runner(self) -> Option<&'static str> {
        match self {
            Self::Tasuki => None,
            Self::Pi => Some("pi"),
            Self::Claude => Some("claude"),
        }
    }
}

/// A directory that may hold agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    pub path: PathBuf,
    pub source: Source,
    pub kind: DirectoryKind,
    /// The directory that must not be left.
    pub root: Option<PathBuf>,
}

/// A user's directories; `pi_dir` is `$PI_CODING_AGENT_DIR`.
pub fn user_dirs(user_home: &Path, pi_dir: Option<&Path>) -> Vec<Directory> {
    let path = |kind: DirectoryKind| match (kind, pi_dir) {
        (DirectoryKind::Pi, Some(dir)) => dir.join("agents"),
        (DirectoryKind::Tasuki | DirectoryKind::Pi | DirectoryKind::Claude, _) => {
            user_home.join(kind.user_dir())
        }
    };
    let directory = |kind| Directory { path: path(kind), source: Source::User, kind, root: None };
    DirectoryKind::ALL.into_iter().map(directory).collect()
}

/// The nearest directory of each kind at or above `start`, none of which is a user's own.
pub fn project_dirs(start: &Path, users: &[Directory]) -> Vec<Directory> {
    let is_users = |path: &Path| users.iter().any(|user| is_same(&user.path, path));
    let nearest = |kind: DirectoryKind| {
        start.ancestors().take(ANCESTORS_MAX).find_map(|root| {
            let path = root.join(kind.project_dir());
            let root = Some(root.to_owned());
            (path.is_dir() && !is_users(&path)).then_some(Directory {
                path,
                source: Source::Project,
                kind,
                root,
            })
        })
    };
    DirectoryKind::ALL.into_iter().filter_map(nearest).collect()
}

fn is_same(a: &Path, b: &Path) -> bool {
    a == b || fs::canonicalize(a).is_ok_and(|a| fs::canonicalize(b).is_ok_and(|b| a == b))
}

/// An agent, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentEntry {
    pub agent: Agent,
    pub path: PathBuf,
    pub source: Source,
    pub kind: DirectoryKind,
}

impl AgentEntry {
    /// The runner that its file names, else the one that its directory is for.
    pub fn runner(&self) -> Option<&str> {
        self.agent.runner.as_deref().or_else(|| self.kind.runner())
    }
}

/// A file or a directory that was passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub path: PathBuf,
    pub why: String,
}

/// All agents by name, and what was passed over.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Agents {
    pub agents: BTreeMap<String, AgentEntry>,
    pub skipped: Vec<Skipped>,
}

impl Agents {
    /// Reads the directories of this scope. A directory that is not there holds no agents.
    pub fn find(users: &[Directory], projects: &[Directory], scope: Scope) -> Self {
        let (users, projects) = match scope {
            Scope::User => (users, [].as_slice()),
            Scope::Project => ([].as_slice(), projects),
            Scope::Both => (users, projects),
        };
        let mut all = Self::default();
        // What counts first is read first.
        for directory in projects.iter().chain(users) {
            all.read(directory);
        }
        all
    }

    /// `planner (user), scout (project)`, or `none`.
    pub fn available(&self) -> String {
        let shown =
            |(name, found): (&String, &AgentEntry)| format!("{name} ({})", found.source.as_str());
        let shown: Vec<_> = self.agents.iter().map(shown).collect();
        if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
    }

    fn read(&mut self, directory: &Directory) {
        let root = match &directory.root {
            Some(root) => match fs::canonicalize(root) {
                Ok(root) => Some(root),
                Err(error) => return self.skip(&directory.path, error),
            },
            None => None,
        };
        if let Err(why) = inside(&directory.path, root.as_deref()) {
            return self.skip(&directory.path, why);
        }
        for path in self.list(directory) {
            let agent = inside(&path, root.as_deref()).and_then(|real| read_agent(&real));
            match agent {
                Ok(agent) => self.add(agent, path, directory),
                Err(why) => self.skip(&path, why),
            }
        }
    }

    /// The files that may be agents, by name.
    fn list(&mut self, directory: &Directory) -> Vec<PathBuf> {
        let entries = match fs::read_dir(&directory.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                self.skip(&directory.path, error);
                return Vec::new();
            }
        };
        let mut paths = Vec::new();
        for (count, entry) in entries.enumerate() {
            if count >= ENTRIES_MAX {
                let why = format!("more than {ENTRIES_MAX} names; the others were not read");
                self.skip(&directory.path, why);
                break;
            }
            match entry {
                Ok(entry) => paths.push(entry.path()),
                Err(error) => self.skip(&directory.path, error),
            }
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
        paths.sort();
        if paths.len() > FILES_MAX {
            let why = format!(
                "more than {FILES_MAX} agents; the last {} were not read",
                paths.len() - FILES_MAX
            );
            self.skip(&directory.path, why);
            paths.truncate(FILES_MAX);
        }
        paths
    }

    fn add(&mut self, agent: Agent, path: PathBuf, directory: &Directory) {
        if let Some(other) = self.agents.get(&agent.name) {
            let why = format!("`{}` is already defined in {}", agent.name, other.path.display());
            return self.skip(&path, why);
        }
        let (source, kind) = (directory.source, directory.kind);
        self.agents.insert(agent.name.clone(), AgentEntry { agent, path, source, kind });
    }

    fn skip(&mut self, path: &Path, why: impl ToString) {
        self.skipped.push(Skipped { path: path.to_owned(), why: why.to_string() });
    }
}

/// Where a path really leads, if that is inside `root`.
fn inside(path: &Path, root: Option<&Path>) -> Result<PathBuf, String> {
    let Some(root) = root else { return Ok(path.to_owned()) };
    let real = fs::canonicalize(path).map_err(|error| error.to_string())?;
    if real.starts_with(root) {
        Ok(real)
    } else {
        Err("a symbolic link that leads out of the project".to_owned())
    }
}

fn read_agent(path: &Path) -> Result<Agent, String> {
    // A pipe would wait for its writer: it must not even be opened.
    let meta = fs::metadata(path).map_err(|error| error.to_string())?;
    if !meta.is_file() {
        return Err("not a regular file".to_owned());
    }
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let limit = AGENT_FILE_BYTES_MAX as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes);
    let text = match text {
        Ok(text) => text,
        // A character may have been cut where reading stopped.
        Err(error) if error.as_bytes().len() > AGENT_FILE_BYTES_MAX => {
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        }
        Err(_) => return Err("not UTF-8".to_owned()),
    };
    Agent::parse(&text).map_err(|problem| problem.to_string())
}

#[cfg(test)]
mod tests;
