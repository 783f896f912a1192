//! Where this program keeps things, and how its parts find each other.
//!
//! A running node writes its addresses to `node.json` in its data directory; commands for
//! people and `tasuki mcp` read them there. The file is a hint: whoever reads it finds out by
//! connecting whether the node still runs.

use std::{
    collections::BTreeMap,
    fs, io,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use http::Uri;
use serde::{Deserialize, Serialize};
pub use tasuki_proto::host::files::{private, replace};
use tasuki_proto::host::{checked, files};

/// The address file's name in the data directory.
const NODE_FILE: &str = "node.json";

/// Where this user keeps configuration.
pub fn config_directory() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "tasuki").map(|dirs| dirs.config_dir().to_owned())
}

/// What a running node says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFile {
    pub pid: u32,
    /// URL of its MCP side on this machine, without a path.
    pub mcp: String,
    /// Of its certificate; `None`: it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// URL at which an authority vouches for it; `None`: the certificate is of its own making.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vouched: Option<String>,
    /// URL of the broker it uses.
    pub broker: String,
    /// Whether that is a command's, and ends with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_brief_broker: bool,
    pub workspace: String,
    pub roles: Vec<String>,
    /// Of each role, as its user writes them. A node of an older version does not say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub toolsets: BTreeMap<String, Vec<String>>,
}

impl NodeFile {
    /// Writes it for this process.
    pub fn write(&self, data: &Path) -> io::Result<()> {
        let bytes = checked::to_vec(self)?;
        replace(&data.join(NODE_FILE), &bytes)
    }

    /// `None`: no node wrote one, or the one that did is gone.
    pub fn read(data: &Path) -> Option<Self> {
        Self::last(data).filter(|file| is_running(file.pid))
    }

    /// The same of a node that may have been killed. What others could have written names no node.
    pub fn last(data: &Path) -> Option<Self> {
        let bytes = files::read_own(&data.join(NODE_FILE)).ok()??;
        checked::from_slice(&bytes).ok()
    }

    /// Whether this URL leads to its broker, however it is written.
    pub fn is_at(&self, broker: &str) -> bool {
        let is_same = || Place::of(broker).is_some_and(|it| Some(it) == Place::of(&self.broker));
        self.broker == broker || is_same()
    }

    /// Removes what this process wrote; a later node's file stays.
    pub fn remove(&self, data: &Path) {
        if Self::read(data).as_ref() == Some(self)
            && let Err(why) = fs::remove_file(data.join(NODE_FILE))
        {
            tracing::debug!(%why, "node.json stays behind");
        }
    }
}

#[cfg(test)]
impl NodeFile {
    /// What a node of this workspace might say, which hosts nothing.
    pub(crate) fn example(workspace: &str) -> Self {
        Self {
            pid: 1,
            mcp: String::new(),
            fingerprint: None,
            vouched: None,
            broker: String::new(),
            has_brief_broker: false,
            workspace: workspace.to_owned(),
            roles: Vec::new(),
            toolsets: BTreeMap::new(),
        }
    }
}

/// Where a URL leads.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    is_tls: bool,
    /// In lower case; an address as it is usually written.
    host: String,
    port: u16,
}

impl Place {
    fn of(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let is_tls = uri.scheme_str()?.eq_ignore_ascii_case("https");
        let host = uri.host()?;
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let host = match bare.parse::<IpAddr>() {
            // Who listens on one of this machine's names is reached under all of them.
            Ok(IpAddr::V6(ip)) if ip.is_loopback() => Ipv4Addr::LOCALHOST.to_string(),
            Ok(ip) => ip.to_canonical().to_string(),
            Err(_) if bare == "localhost" => Ipv4Addr::LOCALHOST.to_string(),
            Err(_) => bare,
        };
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Some(Self { is_tls, host, port })
    }
}

/// Whether there is a process of this number.
pub(crate) fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    // Someone else's process answers `EPERM`: it runs.
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(pid: u32) -> NodeFile {
        NodeFile {
            pid,
            mcp: "http://127.0.0.1:1".into(),
            broker: "http://127.0.0.1:2".into(),
            roles: vec!["A".into()],
            ..NodeFile::example("default")
        }
    }

    #[test]
    fn a_running_node_is_found_until_it_removes_its_file() {
        let data = tempfile::tempdir().unwrap();
        let mine = file(std::process::id());
        mine.write(data.path()).unwrap();
        assert_eq!(NodeFile::read(data.path()), Some(mine.clone()));
        mine.remove(data.path());
        assert_eq!(NodeFile::read(data.path()), None);
    }

    #[test]
    fn a_broker_is_known_however_its_url_is_written() {
        let at = |own: &str| NodeFile { broker: own.into(), ..file(1) };
        for (own, other, is_same) in [
            ("http://127.0.0.1:2", "HTTP://LOCALHOST:2/", true),
            ("http://127.0.0.1:2", "http://[::1]:2", true),
            ("http://127.0.0.1:2", "http://[::ffff:127.0.0.1]:2", true),
            ("http://127.0.0.1", "http://localhost:80", true),
            ("https://Broker.example", "https://broker.EXAMPLE:443/", true),
            ("not a url", "not a url", true),
            ("http://127.0.0.1:2", "http://127.0.0.1:3", false),
            ("http://127.0.0.1:2", "http://127.0.0.2:2", false),
            ("http://127.0.0.1:2", "https://127.0.0.1:2", false),
            ("https://broker.example", "https://other.example", false),
            ("not a url", "no url either", false),
        ] {
            assert_eq!(at(own).is_at(other), is_same, "{own} and {other}");
        }
    }

    #[test]
    fn a_flipped_bit_names_no_other_node() {
        let data = tempfile::tempdir().unwrap();
        let mine = file(std::process::id());
        mine.write(data.path()).unwrap();
        crate::flips::each(&data.path().join(NODE_FILE), |what| {
            let read = NodeFile::read(data.path());
            assert!(read.is_none_or(|read| read == mine), "{what}");
        });
    }

    #[test]
    fn a_node_that_is_gone_is_not_found() {
        let data = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        file(child.id()).write(data.path()).unwrap();
        assert_eq!(NodeFile::read(data.path()), None);
        assert_eq!(NodeFile::last(data.path()), Some(file(child.id())));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_could_have_written_names_no_node() {
        use std::os::unix::fs::PermissionsExt as _;
        let data = tempfile::tempdir().unwrap();
        let mine = file(std::process::id());
        mine.write(data.path()).unwrap();
        for (mode, is_read) in [(0o644, true), (0o664, false), (0o602, false), (0o600, true)] {
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(data.path().join(NODE_FILE), permissions).unwrap();
            assert_eq!(NodeFile::last(data.path()).is_some(), is_read, "{mode:o}");
        }
    }

    #[test]
    fn only_the_own_file_is_removed() {
        let data = tempfile::tempdir().unwrap();
        let (mine, mut theirs) = (file(std::process::id()), file(std::process::id()));
        theirs.mcp = "http://127.0.0.1:3".into();
        theirs.write(data.path()).unwrap();
        mine.remove(data.path());
        assert_eq!(NodeFile::read(data.path()), Some(theirs));
    }
}
