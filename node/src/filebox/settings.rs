//! `.filebox`: who is at work in a directory, and where each agent's mailbox is.
//!
//! There are two forms: `{"current_agent", "agents": {name: directory}}` in the project says it
//! outright; `{"agents": {name: directory}}`, usually in the home directory, says whose directory
//! one is in.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tasuki_proto::{
    echo::{bounded, echo},
    host::config::read_settings,
    id::RoleId,
};

use super::names::role_of;

/// The file's name.
pub const FILE: &str = ".filebox";

/// Why a `.filebox` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} {why}", path = .path.display())]
pub struct BadSettings {
    pub path: PathBuf,
    pub why: String,
}

/// As it is written.
#[derive(Debug, Deserialize)]
struct RawSettings {
    current_agent: Option<String>,
    #[serde(default)]
    agents: BTreeMap<String, PathBuf>,
}

/// What one `.filebox` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The file.
    pub path: PathBuf,
    pub current_agent: Option<RoleId>,
    /// The root of each agent's project: `docs/mailbox` is in it.
    pub agents: BTreeMap<RoleId, PathBuf>,
    /// The names of those agents whose role has another.
    names: BTreeMap<RoleId, String>,
    /// As it was read.
    pub content: Vec<u8>,
}

impl Settings {
    /// `None`: there is no such file, or it is another user's: it is looked for in directories that
    /// others may share, and it decides who gets mail.
    pub fn read(path: &Path) -> Result<Option<Self>, BadSettings> {
        let unreadable = |why: io::Error| {
            let why = format!("cannot be read: {why}");
            Err(BadSettings { path: path.to_owned(), why })
        };
        // A link is asked first: what another user's leads to may well be this user's own.
        for about in [fs::symlink_metadata(path), fs::metadata(path)] {
            match about {
                Ok(about) if is_foreign(&about) => {
                    tell_passed_over(path);
                    return Ok(None);
                }
                Ok(about) if !about.is_file() && !about.is_symlink() => return Ok(None),
                Ok(_) => {}
                Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(why) => return unreadable(why),
            }
        }
        match read_settings(path) {
            Ok((_, about)) if is_foreign(&about) => {
                tell_passed_over(path);
                Ok(None)
            }
            Ok((content, _)) => Self::parse(path, content).map(Some),
            Err(why) => unreadable(why),
        }
    }

    /// What the file at `path` says, which holds `content`.
    pub fn parse(path: &Path, content: Vec<u8>) -> Result<Self, BadSettings> {
        let wrong = |why: String| BadSettings { path: path.to_owned(), why };
        let written: RawSettings = serde_json::from_slice(&content).map_err(|why| {
            wrong(format!("is not the JSON it should be: {}", bounded(&why.to_string())))
        })?;
        Self::of(written, path, content).map_err(wrong)
    }

    fn of(written: RawSettings, path: &Path, content: Vec<u8>) -> Result<Self, String> {
        let place = path.parent().unwrap_or_else(|| Path::new("."));
        let mut agents = BTreeMap::new();
        let mut names: BTreeMap<RoleId, String> = BTreeMap::new();
        for (name, root) in written.agents {
            let role = role_of(&name);
            if let Some(other) = names.insert(role.clone(), name.clone()) {
                return Err(format!(
                    "names the agents {} and {}, which are one role, {role}",
                    echo(&other),
                    echo(&name)
                ));
            }
            agents.insert(role, place.join(root));
        }
        names.retain(|role, name| role.as_str() != name);
        let current_agent = written.current_agent.as_deref().map(role_of);
        Ok(Self { path: path.to_owned(), current_agent, agents, names, content })
    }

    /// The nearest: in `directory`, in those above it, and at last in `home`.
    pub fn find(directory: &Path, home: Option<&Path>) -> Result<Option<Self>, BadSettings> {
        Self::around(directory, home).next().transpose()
    }

    fn around<'a>(
        directory: &'a Path,
        home: Option<&'a Path>,
    ) -> impl Iterator<Item = Result<Self, BadSettings>> + 'a {
        let places = directory.ancestors().chain(home);
        places.filter_map(|place| Self::read(&place.join(FILE)).transpose())
    }

    /// What an agent is called in the file, in its folders and in its mail.
    pub fn name_of<'a>(&'a self, role: &'a RoleId) -> &'a str {
        self.names.get(role).map_or(role.as_str(), String::as_str)
    }

    /// The agent in whose directory this one is; of several, the one nearest to it.
    pub fn agent_around(&self, directory: &Path) -> Option<&RoleId> {
        let here = real(directory);
        let theirs = self.agents.iter().map(|(role, root)| (role, real(root)));
        let around = theirs.filter(|(_, root)| here.starts_with(root));
        around.max_by_key(|(_, root)| root.components().count()).map(|(role, _)| role)
    }

    /// The agents whose root this directory is.
    pub fn agents_of(&self, root: &Path) -> Vec<&RoleId> {
        let here = real(root);
        let theirs = self.agents.iter().filter(|(_, root)| real(root) == here);
        theirs.map(|(role, _)| role).collect()
    }

    /// The roles in the order a node has them: whoever is at work first.
    pub fn roles(&self) -> Vec<RoleId> {
        let others = self.agents.keys().filter(|role| Some(*role) != self.current_agent.as_ref());
        self.current_agent.iter().chain(others).cloned().collect()
    }
}

/// Whether another user wrote this, or could have.
#[cfg(unix)]
fn is_foreign(about: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let is_own = [0, rustix::process::geteuid().as_raw()].contains(&about.uid());
    // A link has no mode of its own; what it leads to is asked in its turn.
    !is_own || (!about.is_symlink() && about.mode() & 0o022 != 0)
}

/// Whose a file is, is not told by a mode.
#[cfg(not(unix))]
fn is_foreign(_about: &fs::Metadata) -> bool {
    false
}

fn tell_passed_over(path: &Path) {
    tracing::warn!(
        path = %path.display(),
        "passed over: it belongs to another user, or others may write to it; if it is yours, \
         run chmod go-w on it"
    );
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Which role a directory stands for. Looks in it, in those above it, and at last in `home`.
/// `None`: nothing says.
pub fn current_agent(directory: &Path, home: Option<&Path>) -> Result<Option<RoleId>, BadSettings> {
    for found in Settings::around(directory, home) {
        let found = found?;
        let role = found.current_agent.as_ref().or_else(|| found.agent_around(directory));
        if let Some(role) = role {
            return Ok(Some(role.clone()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_says_who_is_at_work() {
        let place = tempfile::tempdir().unwrap();
        let deep = place.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        let content =
            r#"{"current_agent": "qa", "agents": {"dev": "/x", "qa": "here", "测试": "/x"}}"#;
        fs::write(place.path().join(FILE), content).unwrap();
        let dev = "dev".parse().unwrap();
        assert_eq!(current_agent(&deep, None), Ok(Some("qa".parse().unwrap())));
        let found = Settings::find(&deep, None).unwrap().unwrap();
        let roles: Vec<String> = found.roles().iter().map(ToString::to_string).collect();
        assert_eq!(roles, ["qa", "agent-0350ae12", "dev"]);
        assert_eq!(found.agents[&"qa".parse().unwrap()], place.path().join("here"));
        assert_eq!(found.agents_of(Path::new("/x")).len(), 2);
        assert_eq!(found.name_of(&"agent-0350ae12".parse().unwrap()), "测试");
        assert_eq!(found.name_of(&dev), "dev");
    }

    #[test]
    fn the_nearest_directory_around_says_who_is_at_home() {
        let (place, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let deep = place.path().join("sub/src");
        fs::create_dir_all(&deep).unwrap();
        let agents = serde_json::json!({"agents": {
            "whole": place.path(),
            "part": place.path().join("sub"),
            "elsewhere": home.path(),
        }});
        fs::write(home.path().join(FILE), agents.to_string()).unwrap();
        let found = |directory: &Path| {
            current_agent(directory, Some(home.path())).unwrap().map(|role| role.to_string())
        };
        assert_eq!(found(&deep).as_deref(), Some("part"));
        assert_eq!(found(place.path()).as_deref(), Some("whole"));
        assert_eq!(found(tempfile::tempdir().unwrap().path()), None);
    }

    #[cfg(unix)]
    #[test]
    fn what_others_could_have_written_and_what_has_no_end_says_nothing() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let deep = place.path().join("a");
        fs::create_dir(&deep).unwrap();
        let file = place.path().join(FILE);
        fs::write(&file, r#"{"current_agent": "qa"}"#).unwrap();
        let found = || current_agent(&deep, None).unwrap().map(|role| role.to_string());
        for (mode, agent) in
            [(0o644, Some("qa")), (0o664, None), (0o646, None), (0o600, Some("qa"))]
        {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(found().as_deref(), agent, "{mode:o}");
        }
        std::os::unix::fs::symlink("/dev/zero", deep.join(FILE)).unwrap();
        assert_eq!(found().as_deref(), Some("qa"));
    }

    #[test]
    fn a_bad_file_is_named() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join(FILE);
        for (content, why) in [
            ("{", "is not the JSON it should be"),
            (r#"{"current_agent": 7}"#, "is not the JSON it should be"),
            (r#"{"agents": {"a b": "/", "a-b": "/"}}"#, "which are one role, a-b"),
        ] {
            fs::write(&file, content).unwrap();
            let said = current_agent(place.path(), None).unwrap_err().to_string();
            assert!(said.starts_with(&file.display().to_string()) && said.contains(why), "{said}");
        }
    }
}
