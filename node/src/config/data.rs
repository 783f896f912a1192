//! Which data directory is meant, whether it may be used, and where in it the workspace's node is.

use std::{io, path::Path};

use tasuki_proto::host::{
    config::Found,
    files::{SecretFileError, check_data_directory},
};

use super::{Config, Environment, Problem, Source};
use crate::{paths::NodeFile, projects};

impl Config {
    /// The data directory, where its name is a path from the current directory, or is of a file that
    /// came with that: then it may have come with it, too.
    fn data_here(&self) -> Option<&Path> {
        let data = self.root.as_path();
        match &self.data.source {
            // There is none for a user without a home directory, which is said.
            Source::Default => None,
            Source::File { path, .. } if data.is_absolute() => {
                let mut found = self.file.iter().flat_map(Found::and_below);
                let is_here = found.any(|it| it.is_here && it.path == *path);
                let is_beside = path.parent().is_some_and(|directory| data.starts_with(directory));
                (is_here && is_beside).then_some(data)
            }
            Source::File { .. } | Source::Env(_) | Source::Filebox(_) | Source::Flag(_) => {
                (!data.is_absolute()).then_some(data)
            }
        }
    }

    /// Finds which node in the data directory is the workspace's; why it is not known.
    pub(super) fn find_node(&mut self) -> Option<Problem> {
        if self.root.as_os_str().is_empty() {
            return None;
        }
        let problem = |why: SecretFileError| {
            let message = format!("`data` cannot be used: {why}");
            Some(Problem { at: self.data.source.clone(), message })
        };
        let owner = match projects::owner(&self.root) {
            Ok(Some(owner)) => owner,
            Ok(None) => return None,
            Err(why) => return problem(why),
        };
        if self.workspace.source == Source::Default {
            self.workspace.value = owner;
            return None;
        }
        match projects::place(&self.root, &self.workspace.value) {
            Ok(place) => {
                self.is_first_project = owner == self.workspace.value;
                self.data.value = place;
                None
            }
            Err(why) => problem(why),
        }
    }

    /// The same settings for a node that is to start: the workspace has its place from then on.
    ///
    /// # Errors
    /// When the data directory cannot be written to.
    pub fn claim_node(&self) -> io::Result<Self> {
        let mut claimed = self.clone();
        claimed.data.value = projects::claim(&self.root, &self.workspace.value)?;
        claimed.is_first_project = claimed.data.value == self.root;
        Ok(claimed)
    }

    /// The workspace's node, where it runs; whoever named no workspace means the one there is.
    pub fn running_node(&self) -> Option<NodeFile> {
        let workspace = self.workspace.value.as_str();
        let is_meant = |node: &NodeFile| {
            self.workspace.source == Source::Default || node.workspace == workspace
        };
        NodeFile::read(&self.data.value).filter(is_meant)
    }

    /// Why such a data directory cannot be used.
    pub(super) fn check_data_here(&self, around: &Environment) -> Option<Problem> {
        let why = around.trusted.check_data(&around.directory, self.data_here()?).err()?;
        let message = format!("`data` cannot be used: {why}");
        Some(Problem { at: self.data.source.clone(), message })
    }

    /// Whether what is in the data directory may be read: it cannot have come with the current
    /// directory, and nobody else may have written it.
    pub fn is_data_usable(&self, around: &Environment) -> bool {
        let is_named = !self.root.as_os_str().is_empty();
        is_named
            && self.check_data_here(around).is_none()
            && check_data_directory(&self.root).is_ok()
    }

    /// Notes such a data directory as this user's, where there is no data in it yet, and makes it.
    pub fn claim_data(&self, around: &Environment) {
        let Some(data) = self.data_here() else { return };
        if let Err(why) = around.trusted.claim_data(&around.directory.join(data)) {
            tracing::warn!(
                "it cannot be noted that {} is yours: {why}; name it by its absolute path in the \
                 next commands",
                data.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Key, Layer, Raw};

    #[test]
    fn a_command_finds_the_node_of_its_project() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path();
        let around = Environment::within(data);
        let load = |workspace: &str| {
            let raw = Raw { source: Source::Flag("-"), texts: vec![workspace.to_owned()] };
            let layer = Layer::from([(Key::Workspace, raw)]);
            let layer = if workspace.is_empty() { Layer::new() } else { layer };
            Config::load(layer, None, &around).unwrap()
        };
        let found = |workspace: &str| {
            let config = load(workspace);
            assert_eq!(config.root, data);
            (config.workspace.value.to_string(), config.data.value, config.is_first_project)
        };
        assert_eq!(found(""), ("default".to_owned(), data.to_owned(), true));
        let nested = data.join("nodes").join("two");
        assert_eq!(load("one").claim_node().unwrap().data.value, data);
        let claimed = load("two").claim_node().unwrap();
        assert_eq!((&claimed.data.value, claimed.is_first_project), (&nested, false));
        assert_eq!(found("one"), ("one".to_owned(), data.to_owned(), true));
        assert_eq!(found("two"), ("two".to_owned(), nested, false));
        // Whoever names none means the first.
        assert_eq!(found(""), ("one".to_owned(), data.to_owned(), true));
        assert_eq!(found("typo"), ("typo".to_owned(), data.to_owned(), false));
        std::fs::write(data.join("workspace.json"), "{").unwrap();
        let problems = Config::load(Layer::new(), None, &around).unwrap_err();
        assert!(
            problems[0].message.contains("workspace.json is not what was written"),
            "{problems:?}"
        );
    }
}
