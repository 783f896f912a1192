//! What coding agents are told of this machine's nodes, and hooks about locked files.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use http::Uri;
use tasuki_proto::counted::listed_names;
use tokio::{net::TcpStream, time::timeout};

use super::finding::{Area, Finding, or_ok};
use crate::{
    cli::{
        connect::{
            configured::{self, ClientFile, Entry},
            entry::Reached,
        },
        hosting, lock_hook,
        text::line,
    },
    config::Config,
    paths::NodeFile,
    probe::{self, Mistaken},
    projects,
};

/// For a port of this machine to take a connection.
const CONNECT_WITHIN: Duration = Duration::from_millis(500);

/// Files of clients, and broken hooks. Blocks on the disk.
pub(super) struct Read {
    files: Vec<ClientFile>,
    hooks: Vec<(&'static str, PathBuf, String)>,
    /// Of all projects of the data directory: those that run, and the last address of each other.
    running: Vec<NodeFile>,
    last: Vec<NodeFile>,
}

impl Read {
    pub(super) fn of(config: &Config) -> Self {
        let directories = projects::directories(&config.root);
        Self {
            files: configured::files(&config.data.value),
            hooks: lock_hook::broken(),
            running: directories.iter().filter_map(|it| NodeFile::read(it)).collect(),
            last: directories.iter().filter_map(|it| NodeFile::last(it)).collect(),
        }
    }

    /// The node of ours that listens there.
    fn node_at(&self, address: &str) -> Option<&NodeFile> {
        self.running.iter().find(|node| leads_to(node, address))
    }
}

pub(super) async fn clients(read: &Read, config: &Config) -> Vec<Finding> {
    let flags = hosting::node_flags(config);
    let mut found = Vec::new();
    let mut connected = Vec::new();
    let mut listening = BTreeMap::new();
    for file in &read.files {
        let at = file.path.display();
        let entries = match &file.entries {
            Ok(entries) => entries,
            Err(why) => {
                let why = why.strip_prefix(&format!("{at} cannot be read: ")).unwrap_or(why);
                let what = format!("{} cannot read {at}: {why}.", file.title);
                let mend =
                    format!("Correct {at}; the copies before a change are in the data directory.");
                found.push(Finding::error(Area::Clients, what, mend));
                continue;
            }
        };
        for entry in entries {
            connected.push(format!("{} as {}", file.title, line(&entry.role)));
            let place = Place { file, entry, flags: &flags };
            found.extend(place.limit());
            let broken = match &entry.reached {
                Reached::Command(words) => place.command(words, config, read),
                Reached::Url(url) => {
                    if let Some(address) = address(url) {
                        let server = match listening.get(&address) {
                            Some(server) => *server,
                            None if read.node_at(&address).is_some() => Server::Unknown,
                            None => Server::find(&address).await,
                        };
                        listening.insert(address.clone(), server);
                        place.url(url, &address, server, read)
                    } else {
                        None
                    }
                }
            };
            found.extend(broken);
        }
    }
    for (title, path, why) in &read.hooks {
        let what = format!("The lock hook of {title} in {} is broken: {why}", path.display());
        let mend = format!("`tasuki{flags} lock-hook install`, or `tasuki lock-hook uninstall`.");
        found.push(Finding::error(Area::Clients, what, mend));
    }
    let connected = match connected.as_slice() {
        [] => "none is connected; `tasuki connect` does that".to_owned(),
        all => all.join(", "),
    };
    or_ok(found, Area::Clients, connected)
}

/// An entry, and where it stands.
struct Place<'a> {
    file: &'a ClientFile,
    entry: &'a Entry,
    flags: &'a str,
}

impl Place<'_> {
    fn name(&self) -> String {
        format!("`{}` in {}", line(&self.entry.name), self.file.path.display())
    }

    /// The command that writes the entry anew.
    fn connect(&self) -> String {
        let (flags, client, role) = (self.flags, &self.file.typed, line(&self.entry.role));
        let scope = if self.file.is_project { " --scope project" } else { "" };
        let name = match self.entry.name.as_str() {
            "tasuki" => String::new(),
            name => format!(" --name {}", line(name)),
        };
        format!("`tasuki{flags} connect {client} --role {role}{scope}{name}`")
    }

    /// A wait that is held for longer than the client waits is an error to its model.
    fn limit(&self) -> Option<Finding> {
        let Entry { limit_secs, hold_secs, .. } = self.entry;
        let hold = hold_secs.as_ref()?;
        let what = match limit_secs {
            Some(limit) if hold < limit => return None,
            Some(limit) => format!("{} gives a call up after {limit} s", self.file.title),
            None => format!("{} has no time limit of its own there", self.file.title),
        };
        let what = format!(
            "{what}, and {} has waits held for {hold} s: they would end as errors.",
            self.name()
        );
        Some(Finding::warning(Area::Clients, what, self.connect()))
    }

    /// `address`: where it leads, on this machine. `server`: what is there, where no node is known.
    fn url(&self, url: &str, address: &str, server: Server, read: &Read) -> Option<Finding> {
        if let Some(node) = read.node_at(address) {
            return self.scheme(url, node).or_else(|| self.role(node));
        }
        let what = match server {
            Server::Unknown => return None,
            Server::Nobody => "where nothing listens",
            Server::Broker => "which is a broker, and no node",
            Server::Dashboard => "which is the dashboard of a broker, and no node",
        };
        let is_stopped = read.running.is_empty()
            && server == Server::Nobody
            && read.last.iter().any(|node| leads_to(node, address));
        if is_stopped {
            return None;
        }
        let what = format!("{} leads to {address}, {what}.", self.name());
        let mend = if read.running.is_empty() {
            format!("`tasuki{} up`; if its address is another then: {}", self.flags, self.connect())
        } else {
            self.connect()
        };
        Some(Finding::error(Area::Clients, what, mend))
    }

    /// A node that encrypts is not reached without, and the other way round.
    fn scheme(&self, url: &str, node: &NodeFile) -> Option<Finding> {
        let scheme = |url: &str| url.split_once("://").map(|(scheme, _)| scheme.to_lowercase());
        let (entered, own) = (scheme(url)?, scheme(&node.mcp)?);
        let finding = || {
            let what = format!(
                "{} leads to {entered}://, and the node there takes {own}:// alone.",
                self.name()
            );
            Finding::error(Area::Clients, what, self.connect())
        };
        (entered != own).then(finding)
    }

    fn command(&self, words: &[String], config: &Config, read: &Read) -> Option<Finding> {
        let program = Path::new(words.first()?);
        if program.is_absolute() && !program.exists() {
            let what = format!("{} starts {}, which is gone.", self.name(), program.display());
            return Some(Finding::error(Area::Clients, what, self.connect()));
        }
        let value = |flag: &str| words.iter().skip_while(|it| *it != flag).nth(1);
        let is_elsewhere = value("--node").is_some()
            || value("--data").is_some_and(|data| Path::new(data) != config.root);
        if is_elsewhere {
            return None;
        }
        let workspace = value("--workspace");
        let is_meant = |node: &&NodeFile| match workspace {
            Some(workspace) => node.workspace == *workspace,
            None => node.workspace == config.workspace.value.as_str(),
        };
        self.role(read.running.iter().find(is_meant)?)
    }

    fn role(&self, node: &NodeFile) -> Option<Finding> {
        let role = line(&self.entry.role);
        if node.roles.contains(&self.entry.role) {
            return None;
        }
        let roles = line(&listed_names(&node.roles));
        let what = format!("{} plays {role}; the node there hosts {roles}.", self.name());
        let mend = format!(
            "Add {role} to `roles` in tasuki.toml and start the node again, or connect another role: \
             `tasuki{} connect {} --role ROLE`.",
            self.flags, self.file.typed
        );
        Some(Finding::error(Area::Clients, what, mend))
    }
}

/// `HOST:PORT` of a URL that leads to this machine.
fn address(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let host = uri.host()?;
    let port = uri.port_u16()?;
    crate::mcp::dial::is_loopback(host).then(|| match host {
        // Whoever listens on one of this machine's names is reached under all of them.
        "localhost" => format!("127.0.0.1:{port}"),
        _ => format!("{host}:{port}"),
    })
}

fn leads_to(node: &NodeFile, address: &str) -> bool {
    self::address(&node.mcp).as_deref() == Some(address)
}

/// What is at an address of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Nobody,
    Broker,
    Dashboard,
    /// Such as another data directory's node, of which nothing is known here.
    Unknown,
}

impl Server {
    async fn find(address: &str) -> Self {
        let connected = timeout(CONNECT_WITHIN, TcpStream::connect(address)).await;
        if !matches!(connected, Ok(Ok(_))) {
            return Self::Nobody;
        }
        let url = format!("http://{address}");
        if probe::mistaken_for_broker(&url).await == Some(Mistaken::Dashboard) {
            Self::Dashboard
        } else if probe::is_grpc(&url).await {
            Self::Broker
        } else {
            Self::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_looked_at() {
        for (url, expected) in [
            ("http://127.0.0.1:7421/mcp/A?as=x", Some("127.0.0.1:7421")),
            ("http://localhost:7421/mcp/A", Some("127.0.0.1:7421")),
            ("http://[::1]:1/mcp/A", Some("[::1]:1")),
            ("https://desk.example:7421/mcp/A", None),
            ("nonsense", None),
        ] {
            assert_eq!(address(url).as_deref(), expected, "{url}");
        }
    }
}
