//! Agents that coding agents' own configuration connects.
//!
//! Read from the files themselves: an entry that somebody wrote by hand is found as well, and one
//! that was removed is not. A file that cannot be read counts as connecting nobody, unless this
//! program wrote to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use clap::ValueEnum as _;
use serde_json::Value as Json;
use tasuki_proto::id::{InstanceId, RoleId};

use super::{
    client::{self, Client, Limit, Scope},
    config_paths,
    entry::{self, Reached},
};
use crate::cli::client_files::{
    document::{Document, EditError},
    file_io,
    install_log::InstallLog,
};

/// A file that configures a coding agent, as it is.
pub(in crate::cli) struct ClientFile {
    /// As its makers write it, and as one types it.
    pub title: &'static str,
    pub typed: String,
    pub path: PathBuf,
    /// For whoever works in this directory, and nowhere else.
    pub is_project: bool,
    /// Its entries of ours; why the client cannot read it.
    pub entries: Result<Vec<Entry>, String>,
}

/// An entry of ours.
pub(in crate::cli) struct Entry {
    /// Of the server, in the client.
    pub name: String,
    pub role: String,
    pub reached: Reached,
    /// After so many seconds the client gives a call up; `None`: nothing is known of it.
    pub limit_secs: Option<u64>,
    /// For so many the entry has a wait held; `None`: it does not say.
    pub hold_secs: Option<u64>,
}

/// The files of every client, for this user and for this directory, that have something of ours.
pub(in crate::cli) fn files(data: &Path) -> Vec<ClientFile> {
    let log = InstallLog::read(data).unwrap_or_default();
    let logged: BTreeSet<&Path> = log.files().collect();
    let Ok(all) = config_paths() else { return Vec::new() };
    let (mut files, mut seen) = (Vec::new(), BTreeSet::new());
    for client in Client::value_variants() {
        for scope in [Scope::User, Scope::Project] {
            let paths = all.servers(*client, scope).into_iter();
            for path in paths.chain(all.other_servers(*client, scope)) {
                // At home both are one file.
                if seen.insert((*client, path.clone())) {
                    files.extend(client_file(*client, scope, path, &logged));
                }
            }
        }
    }
    files
}

/// `None`: nothing of it is ours.
fn client_file(
    client: Client,
    scope: Scope,
    path: PathBuf,
    logged: &BTreeSet<&Path>,
) -> Option<ClientFile> {
    let is_logged = logged.contains(path.as_path());
    let (entries, is_ours) = match file_io::read(&path) {
        Ok(file) => {
            let text = file.text?;
            let entries = read_entries(client, &text);
            // Of one that cannot be parsed only its text tells whether that matters to us.
            let is_ours = match &entries {
                Ok(entries) => !entries.is_empty(),
                Err(_) => is_logged || text.contains("/mcp/") || text.contains("tasuki"),
            };
            (entries.map_err(|why| why.to_string()), is_ours)
        }
        Err(why) => (Err(why.trim_end_matches('.').to_owned()), is_logged),
    };
    let is_project = scope == Scope::Project;
    let (title, typed) = (client.title(), client::typed(client));
    is_ours.then_some(ClientFile { title, typed, path, is_project, entries })
}

/// The names of all servers in a file, each with the role of our entry; empty: it is another's.
pub(super) fn servers(client: Client, path: &Path) -> BTreeMap<String, String> {
    let text = file_io::read(path).ok().and_then(|file| file.text).unwrap_or_default();
    let document = Document::parse(client.row().format, &text);
    let servers = document.and_then(|it| it.get(&[client.row().table.to_owned()]));
    let servers = servers.ok().flatten().unwrap_or_default();
    let role = |server: &Json| entry::ours(server).map(|ours| ours.role).unwrap_or_default();
    let all = servers.as_object().into_iter().flatten();
    all.map(|(name, server)| (name.clone(), role(server))).collect()
}

fn read_entries(client: Client, text: &str) -> Result<Vec<Entry>, EditError> {
    let document = Document::parse(client.row().format, text)?;
    let servers = document.get(&[client.row().table.to_owned()])?;
    Ok(entries(client, &servers.unwrap_or_default()))
}

fn entries(client: Client, servers: &Json) -> Vec<Entry> {
    let entry = |(name, server): (&String, &Json)| {
        let entry::Ours { role, reached, .. } = entry::ours(server)?;
        let limit_secs = match client.limit() {
            Limit::Raised { key, per_second, .. } => {
                let limit = server.get(key).and_then(Json::as_u64);
                limit.map(|limit| limit / per_second)
            }
            Limit::Fixed { secs } => Some(secs),
        };
        let hold_secs = reached.hold_secs();
        Some(Entry { name: name.clone(), role, reached, limit_secs, hold_secs })
    };
    servers.as_object().into_iter().flatten().filter_map(entry).collect()
}

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
