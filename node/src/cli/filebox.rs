//! Which role this directory stands for, as FileBox's `.filebox` has it.
//!
//! There are two forms: `{"current_agent", "agents": {name: directory}}` in the project says it
//! outright; `{"agents": {name: directory}}`, usually in the home directory, says whose directory
//! one is in.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tasuki_proto::id::RoleId;

const FILE: &str = ".filebox";

/// Such a file, in bytes; a larger one is something else.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, Deserialize)]
struct Filebox {
    current_agent: Option<String>,
    #[serde(default)]
    agents: BTreeMap<String, PathBuf>,
}

/// Looks in `directory`, in those above it, and at last in `home`. `None`: nothing says.
pub(crate) fn current_agent(
    directory: &Path,
    home: Option<&Path>,
) -> Result<Option<RoleId>, String> {
    for place in directory.ancestors().chain(home) {
        let path = place.join(FILE);
        let Ok(about) = fs::metadata(&path) else { continue };
        if !about.is_file() {
            continue;
        }
        let wrong = |why: String| format!("{} {why}", path.display());
        if FILE_BYTES_MAX < about.len() {
            return Err(wrong(format!("has {} bytes; the limit is {FILE_BYTES_MAX}", about.len())));
        }
        let content = fs::read(&path).map_err(|why| wrong(format!("cannot be read: {why}")))?;
        let file: Filebox = serde_json::from_slice(&content)
            .map_err(|why| wrong(format!("is not the JSON it should be: {why}")))?;
        if let Some(name) = file.current_agent.as_deref().or_else(|| at_home(&file, directory)) {
            let role = name.parse();
            let role =
                role.map_err(|why| wrong(format!("names the agent {name:?}, which {why}")))?;
            return Ok(Some(role));
        }
    }
    Ok(None)
}

/// The agent in whose directory this one is; of several, the one nearest to it.
fn at_home<'a>(file: &'a Filebox, directory: &Path) -> Option<&'a str> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let here = real(directory);
    let theirs = file.agents.iter().map(|(name, root)| (name, real(root)));
    let around = theirs.filter(|(_, root)| here.starts_with(root));
    around.max_by_key(|(_, root)| root.components().count()).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_says_who_is_at_work() {
        let place = tempfile::tempdir().unwrap();
        let deep = place.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        let content = r#"{"current_agent": "dev", "agents": {"qa": "/x"}}"#;
        fs::write(place.path().join(FILE), content).unwrap();
        assert_eq!(current_agent(&deep, None), Ok(Some("dev".parse().unwrap())));
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

    #[test]
    fn a_bad_file_is_named() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join(FILE);
        for (content, why) in [
            ("{", "is not the JSON it should be"),
            (r#"{"current_agent": "../x"}"#, "names the agent \"../x\""),
            (r#"{"current_agent": 7}"#, "is not the JSON it should be"),
        ] {
            fs::write(&file, content).unwrap();
            let said = current_agent(place.path(), None).unwrap_err();
            assert!(said.starts_with(&file.display().to_string()) && said.contains(why), "{said}");
        }
    }
}
