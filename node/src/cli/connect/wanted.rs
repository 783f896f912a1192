//! Connecting a client for another command, which names it and prints in its own words.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::ValueEnum as _;
use tasuki_proto::id::RoleId;

use super::{
    Args, EntryArgs,
    client::{Client, Scope},
    config_paths_in, configured,
    prepared::Prepared,
    request::check_name,
};
use crate::{
    cli::{Failure, node_address::NodeArgs},
    config::Config,
};

/// A client that is to play a role.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Wanted<'a> {
    /// As one types it.
    pub client: &'a str,
    pub role: &'a RoleId,
    /// Of the entry.
    pub name: &'a str,
    /// For whoever works in the project; else for this user everywhere.
    pub is_project: bool,
    pub project: &'a Path,
    pub allow: bool,
}

/// What connecting it did, or would do.
#[derive(Debug, Default)]
pub(in crate::cli) struct Connected {
    /// The agent's id.
    pub instance: String,
    /// Each file with what became of it; none: a person has to paste the entry.
    pub files: Vec<(&'static str, PathBuf)>,
    pub notes: Vec<String>,
}

/// Connects a client; `is_dry` only says how.
pub(in crate::cli) async fn connect(
    wanted: Wanted<'_>,
    config: &Config,
    is_dry: bool,
) -> Result<Connected, Failure> {
    let paths = config_paths_in(wanted.project.to_owned())?;
    let prepared = Prepared::new(&args(wanted)?, config, paths).await?;
    let (instance, mut notes) = (prepared.request.instance.clone(), Vec::new());
    let Some(targets) = prepared.targets() else {
        return Ok(Connected { instance, files: Vec::new(), notes });
    };
    let files = if is_dry {
        targets.into_iter().map(|target| ("would change", target.path)).collect()
    } else {
        let written = prepared.write(config, false).await?;
        notes.extend(written.iter().flat_map(|file| file.applied.notes.clone()));
        written.into_iter().map(|file| (file.change(), file.path)).collect()
    };
    Ok(Connected { instance, files, notes })
}

fn args(wanted: Wanted<'_>) -> Result<Args, Failure> {
    Ok(Args {
        entry: EntryArgs {
            client: client(wanted.client)?,
            scope: scope(wanted.is_project),
            name: wanted.name.to_owned(),
        },
        role: Some(wanted.role.clone()),
        transport: None,
        given: NodeArgs::default(),
        hold: None,
        allow: wanted.allow,
        force: false,
        print: false,
    })
}

fn client(name: &str) -> Result<Client, Failure> {
    Client::from_str(name, false)
        .map_err(|_| Failure::usage(format!("{name} is no client of `tasuki connect`.")))
}

const fn scope(is_project: bool) -> Scope {
    if is_project { Scope::Project } else { Scope::User }
}

/// The servers that a client's configuration names, each with the role that it is for; empty: it is
/// not ours. A file that cannot be read has none: writing to it says why.
pub(in crate::cli) fn servers(
    name: &str,
    is_project: bool,
    project: &Path,
) -> Result<BTreeMap<String, String>, Failure> {
    let (client, paths) = (client(name)?, config_paths_in(project.to_owned())?);
    let path = paths.servers(client, scope(is_project));
    Ok(path.map(|path| configured::servers(client, &path)).unwrap_or_default())
}

/// A name for the entry of a role beside those that are there: that of its own entry, else the usual
/// one, else one with the role in it.
pub(in crate::cli) fn entry_name(servers: &BTreeMap<String, String>, role: &RoleId) -> String {
    const USUAL: &str = "tasuki";
    if let Some((name, _)) = servers.iter().find(|(_, of)| *of == role.as_str()) {
        return name.clone();
    }
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let with_role: String = format!("{USUAL}-{role}").chars().map(letter).collect();
    let numbered = (2..).map(|number| format!("{USUAL}-{number}"));
    let mut names = [USUAL.to_owned(), with_role].into_iter().chain(numbered);
    let is_free = |name: &String| !servers.contains_key(name) && check_name(name).is_ok();
    names.find(is_free).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_role_of_a_client_gets_an_entry_of_its_own() {
        let name = |servers: &[(&str, &str)], role: &str| {
            let servers = servers.iter().map(|(name, of)| ((*name).into(), (*of).into()));
            entry_name(&servers.collect(), &role.parse().unwrap())
        };
        assert_eq!(name(&[], "A"), "tasuki");
        assert_eq!(name(&[("tasuki", "A")], "A"), "tasuki");
        assert_eq!(name(&[("mine", "A"), ("tasuki", "B")], "A"), "mine");
        assert_eq!(name(&[("tasuki", "A")], "qa.2"), "tasuki-qa-2");
        assert_eq!(name(&[("tasuki", "")], "B"), "tasuki-B");
        assert_eq!(name(&[("tasuki", "A"), ("tasuki-2", "C")], &"r".repeat(60)), "tasuki-3");
    }
}
