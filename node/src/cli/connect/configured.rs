//! Agents that coding agents' own configuration connects.
//!
//! Read from the files themselves: an entry that somebody wrote by hand is found as well, and one
//! that was removed is not. A file that cannot be read counts as connecting nobody.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use clap::ValueEnum as _;
use tasuki_proto::id::{InstanceId, RoleId};

use super::{
    client::{Client, Scope},
    config_paths, entry,
};
use crate::cli::client_files::{document::Document, file_io, install_log::InstallLog};

/// The agents that are configured to play `role`, each with the first file that has it: in the files
/// of each client, for this user and for this directory, and in those that were changed. A file in
/// this directory may have come with a project. `None`: an agent without an id.
pub(in crate::cli) fn agents(data: &Path, role: &RoleId) -> BTreeMap<Option<InstanceId>, PathBuf> {
    let mut paths = BTreeSet::new();
    if let Ok(all) = config_paths() {
        for client in Client::value_variants() {
            for scope in [Scope::User, Scope::Project] {
                paths.extend(all.servers(*client, scope));
                paths.extend(all.other_servers(*client, scope));
            }
        }
    }
    match InstallLog::read(data) {
        Ok(log) => paths.extend(log.files().map(Path::to_owned)),
        Err(why) => tracing::debug!(why, "what was connected is not known"),
    }
    let mut agents = BTreeMap::new();
    for path in &paths {
        for agent in in_file(path, role) {
            agents.entry(agent).or_insert_with(|| path.clone());
        }
    }
    agents
}

fn in_file(path: &Path, role: &RoleId) -> BTreeSet<Option<InstanceId>> {
    let mut agents = BTreeSet::new();
    let Some(text) = file_io::read(path).ok().and_then(|file| file.text) else { return agents };
    // Which client's file it is does not matter: entries of ours are known by what they say.
    for client in Client::value_variants() {
        let Ok(document) = Document::parse(client.row().format, &text) else { continue };
        let Ok(Some(servers)) = document.get(&[client.row().table.to_owned()]) else { continue };
        for server in servers.as_object().into_iter().flat_map(|servers| servers.values()) {
            let Some(ours) = entry::ours(server) else { continue };
            if ours.role == role.as_str() {
                let id = ours.instance.filter(|id| !id.is_empty()).map(|id| id.parse());
                agents.extend(id.transpose());
            }
        }
    }
    agents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_of_a_role_are_found_in_the_file_of_any_client() {
        let place = tempfile::tempdir().unwrap();
        let found = |name: &str, text: &str| {
            let path = place.path().join(name);
            std::fs::write(&path, text).unwrap();
            let agents = in_file(&path, &"B".parse().unwrap());
            let agents = agents.iter().map(|id| id.as_ref().map_or("", |id| id.as_str()));
            agents.collect::<Vec<_>>().join(",")
        };
        let url = "http://127.0.0.1:7421/mcp/B";
        assert_eq!(
            found(
                ".claude.json",
                &format!(
                    r#"{{"mcpServers": {{"a": {{"url": "{url}?as=x"}}, "b": {{"url": "{url}"}},
                    "c": {{"url": "http://127.0.0.1:7421/mcp/A?as=y"}}, "d": 7}}}}"#
                )
            ),
            ",x"
        );
        assert_eq!(found("config.toml", &format!("[mcp_servers.t]\nurl = \"{url}?as=z\"\n")), "z");
        assert_eq!(found("broken.json", "{"), "");
        assert_eq!(found("other.json", "[]"), "");
    }
}
