//! What a step gets of its node: variables, and files where it is in a sandbox. Pure.
//!
//! Tasuki's own variables are never passed on: they may hold secrets of the node.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::StepEndpoint;
use crate::{
    config::{FINGERPRINT_VARIABLE, NODE_VARIABLE},
    process::policy::{Kind, Policy, SINKS, SYSTEM},
    step_key::{STEP_TOKEN_VARIABLE, StepKey},
};

/// What every step gets.
const BASE: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "TMPDIR"];

/// How Tasuki's own variables begin.
const OWN_PREFIX: &str = "TASUKI_";

/// Which of the node's variables a step gets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// The names that the agent's file lists; `None`: it has no list.
    pub(super) listed: Option<&'a [String]>,
    /// The operator's names for steps that another machine asked for; `None`: this one did.
    pub(super) allowed: Option<&'a [String]>,
}

impl Wanted<'_> {
    fn has(self, name: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|it| it == name);
        if name.starts_with(OWN_PREFIX) {
            return false;
        }
        if BASE.contains(&name) {
            return true;
        }
        match (self.listed, self.allowed) {
            (None, None) => true,
            (Some(listed), None) => is_in(listed),
            (Some(listed), Some(allowed)) => is_in(listed) && is_in(allowed),
            (None, Some(_)) => false,
        }
    }
}

/// The variables of a step, out of `all` that the node has.
pub(super) fn environment(
    wanted: Wanted<'_>,
    key: &StepKey,
    endpoint: Option<&StepEndpoint>,
    all: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(String, OsString)> {
    let named = all.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let mut variables: Vec<_> = named.filter(|(name, _)| wanted.has(name)).collect();
    let mut add = |name: &str, value: &str| variables.push((name.to_owned(), value.into()));
    add(STEP_TOKEN_VARIABLE, &key.to_string());
    if let Some(StepEndpoint { node_url, fingerprint, .. }) = endpoint {
        add(NODE_VARIABLE, node_url);
        if let Some(fingerprint) = fingerprint {
            add(FINGERPRINT_VARIABLE, fingerprint);
        }
    }
    variables
}

/// Places that a step has to do with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places<'a> {
    pub(super) project: &'a Path,
    /// Where the agent works.
    pub(super) directory: &'a Path,
    /// The directory of the step alone.
    pub(super) own: &'a Path,
    /// For temporary files.
    pub(super) temporary: &'a Path,
    /// Where agent CLIs have their settings.
    pub(super) home: Option<&'a Path>,
}

/// What a step may touch. An agent CLI needs the network for its model, and what it has at home.
pub(super) fn policy(is_sandboxed: bool, places: Places<'_>) -> Policy {
    let Places { project, directory, own, temporary, home } = places;
    if !is_sandboxed {
        return Policy {
            kind: Kind::None,
            read: Vec::new(),
            write: Vec::new(),
            is_network_open: true,
            has_unix_sockets: true,
            memory_bytes: None,
        };
    }
    let read = SYSTEM.iter().map(PathBuf::from);
    let read = read.chain([project].into_iter().chain(home).map(Path::to_owned));
    let write = SINKS.iter().map(PathBuf::from);
    Policy {
        kind: Kind::Landlock,
        read: read.collect(),
        write: write.chain([directory, own, temporary].map(Path::to_owned)).collect(),
        is_network_open: true,
        has_unix_sockets: false,
        memory_bytes: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> StepKey {
        "run_1700000000000_00af/2/00000000000000000000000000000000000000000000000000000000000000ff"
            .parse()
            .expect("a key")
    }

    /// The names that a step gets of a node that has these.
    fn passed_on(listed: Option<&[&str]>, allowed: Option<&[&str]>) -> Vec<String> {
        let owned = |names: Option<&[&str]>| -> Option<Vec<String>> {
            names.map(|names| names.iter().map(|name| (*name).to_owned()).collect())
        };
        let (listed, allowed) = (owned(listed), owned(allowed));
        let wanted = Wanted { listed: listed.as_deref(), allowed: allowed.as_deref() };
        let all = ["PATH", "KEY", "OTHER", "TASUKI_TOKEN", "TASUKI_NODE"];
        let all = all.map(|name| (name.into(), "v".into()));
        let given = environment(wanted, &key(), None, all.into_iter());
        given.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_step_gets_what_its_agent_lists_and_the_operator_allows() {
        let token = STEP_TOKEN_VARIABLE;
        for (listed, allowed, given) in [
            (None, None, vec!["PATH", "KEY", "OTHER", token]),
            (Some(&["KEY"][..]), None, vec!["PATH", "KEY", token]),
            (Some(&["TASUKI_TOKEN"][..]), None, vec!["PATH", token]),
            (Some(&[] as &[&str]), None, vec!["PATH", token]),
            (Some(&["KEY", "OTHER"][..]), Some(&["KEY"][..]), vec!["PATH", "KEY", token]),
            (Some(&["KEY"][..]), Some(&[] as &[&str]), vec!["PATH", token]),
            (Some(&["TASUKI_NODE"][..]), Some(&["TASUKI_NODE"][..]), vec!["PATH", token]),
            (None, Some(&["KEY"][..]), vec!["PATH", token]),
        ] {
            assert_eq!(passed_on(listed, allowed), given, "{listed:?} {allowed:?}");
        }
    }

    #[test]
    fn a_step_is_told_which_it_is_and_where_its_node_is() {
        let endpoint = StepEndpoint {
            mcp_url: None,
            node_url: "http://127.0.0.1:7421".to_owned(),
            fingerprint: Some("ab".to_owned()),
        };
        let wanted = Wanted { listed: None, allowed: None };
        let stale = [(NODE_VARIABLE.into(), "http://127.0.0.1:9".into())];
        let given = environment(wanted, &key(), Some(&endpoint), stale.into_iter());
        let expected = [
            (STEP_TOKEN_VARIABLE, key().to_string()),
            (NODE_VARIABLE, "http://127.0.0.1:7421".to_owned()),
            (FINGERPRINT_VARIABLE, "ab".to_owned()),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), OsString::from(value)));
        assert_eq!(given, expected);
    }

    #[test]
    fn in_a_sandbox_a_step_writes_where_it_works_and_reads_what_is_at_home() {
        let places = Places {
            project: Path::new("/p"),
            directory: Path::new("/p/web"),
            own: Path::new("/data/runs/1/files"),
            temporary: Path::new("/tmp"),
            home: Some(Path::new("/home/u")),
        };
        let inside = policy(true, places);
        let own =
            |all: &[PathBuf], fixed: usize| all.iter().skip(fixed).cloned().collect::<Vec<_>>();
        assert_eq!(own(&inside.read, SYSTEM.len()), [Path::new("/p"), Path::new("/home/u")]);
        let written = ["/p/web", "/data/runs/1/files", "/tmp"].map(PathBuf::from);
        assert_eq!(own(&inside.write, SINKS.len()), written);
        assert_eq!(inside.kind, Kind::Landlock);
        assert!(inside.is_network_open && !inside.has_unix_sockets);
        let outside = policy(false, places);
        assert_eq!(outside.kind, Kind::None);
        assert!(outside.is_network_open && outside.has_unix_sockets);
    }
}
