//! What a step gets of its node: variables, and files where it is in a sandbox. Pure.
//!
//! Tasuki's own variables are never passed on: they may hold secrets of the node.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::StepEndpoint;
use crate::{
    config::{FINGERPRINT_VARIABLE, NODE_VARIABLE, VARIABLE_PREFIX},
    process::policy::{Kind, Policy, SINKS, SYSTEM},
    step_key::{STEP_TOKEN_VARIABLE, StepKey},
};

/// What every step gets.
const BASE: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "TMPDIR"];

/// Which of the node's variables a step gets.
#[derive(Debug, Clone, Copy)]
pub(super) struct EnvFilter<'a> {
    /// The names that the agent's file lists; `None`: it has no list.
    pub(super) listed: Option<&'a [String]>,
    /// The operator's names for steps that another machine asked for; `None`: this one did.
    pub(super) allowed: Option<&'a [String]>,
}

impl EnvFilter<'_> {
    fn passes(self, name: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|it| it == name);
        // Without a list an agent of this machine gets all, one that was sent here nothing.
        let is_listed = self.listed.map_or_else(|| self.allowed.is_none(), is_in);
        let is_passed_on = is_listed && self.allowed.is_none_or(is_in);
        !name.starts_with(VARIABLE_PREFIX) && (is_passed_on || BASE.contains(&name))
    }
}

/// The variables of a step, out of `all` that the node has.
pub(super) fn environment(
    filter: EnvFilter<'_>,
    key: &StepKey,
    endpoint: &StepEndpoint,
    all: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(String, OsString)> {
    let named = all.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let mut variables: Vec<_> = named.filter(|(name, _)| filter.passes(name)).collect();
    let mut add = |name: &str, value: &str| variables.push((name.to_owned(), value.into()));
    add(STEP_TOKEN_VARIABLE, &key.to_string());
    add(NODE_VARIABLE, &endpoint.node_url);
    if let Some(fingerprint) = &endpoint.fingerprint {
        add(FINGERPRINT_VARIABLE, fingerprint);
    }
    variables
}

/// What a step may touch, beside what every program needs. An agent CLI needs the network for its
/// model.
pub(super) fn policy(is_sandboxed: bool, read: &[&Path], write: &[&Path]) -> Policy {
    if !is_sandboxed {
        return Policy::outside();
    }
    let paths = |fixed: &[&str], more: &[&Path]| -> Vec<PathBuf> {
        fixed.iter().map(Path::new).chain(more.iter().copied()).map(Path::to_owned).collect()
    };
    Policy {
        kind: Kind::Landlock,
        read: paths(&SYSTEM, read),
        write: paths(&SINKS, write),
        has_unix_sockets: false,
        ..Policy::outside()
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

    fn endpoint(fingerprint: Option<&str>) -> StepEndpoint {
        StepEndpoint {
            mcp_url: None,
            node_url: "http://127.0.0.1:7421".to_owned(),
            fingerprint: fingerprint.map(str::to_owned),
        }
    }

    #[test]
    fn a_step_gets_what_its_agent_lists_and_the_operator_allows() {
        type Names = Option<&'static [&'static str]>;
        let cases: [(Names, Names, &[&str]); 8] = [
            (None, None, &["PATH", "KEY", "OTHER"]),
            (Some(&["KEY"]), None, &["PATH", "KEY"]),
            (Some(&["TASUKI_TOKEN"]), None, &["PATH"]),
            (Some(&[]), None, &["PATH"]),
            (Some(&["KEY", "OTHER"]), Some(&["KEY"]), &["PATH", "KEY"]),
            (Some(&["KEY"]), Some(&[]), &["PATH"]),
            (Some(&["TASUKI_NODE"]), Some(&["TASUKI_NODE"]), &["PATH"]),
            (None, Some(&["KEY"]), &["PATH"]),
        ];
        for (listed, allowed, given) in cases {
            let owned = |names: &[&str]| names.iter().copied().map(str::to_owned).collect();
            let names: [Option<Vec<String>>; 2] = [listed.map(owned), allowed.map(owned)];
            let filter = EnvFilter { listed: names[0].as_deref(), allowed: names[1].as_deref() };
            let all = ["PATH", "KEY", "OTHER", "TASUKI_TOKEN", "TASUKI_NODE"];
            let all = all.map(|name| (name.into(), "v".into())).into_iter();
            let step = environment(filter, &key(), &endpoint(None), all);
            let step: Vec<_> = step.iter().map(|(name, _)| name.as_str()).collect();
            let expected = [given, &[STEP_TOKEN_VARIABLE, NODE_VARIABLE]].concat();
            assert_eq!(step, expected, "{listed:?} {allowed:?}");
        }
    }

    #[test]
    fn a_step_is_told_which_it_is_and_where_its_node_is() {
        let filter = EnvFilter { listed: None, allowed: None };
        let stale = [(NODE_VARIABLE.into(), "http://127.0.0.1:9".into())].into_iter();
        let expected = [
            (STEP_TOKEN_VARIABLE, key().to_string()),
            (NODE_VARIABLE, "http://127.0.0.1:7421".to_owned()),
            (FINGERPRINT_VARIABLE, "ab".to_owned()),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), OsString::from(value)));
        assert_eq!(environment(filter, &key(), &endpoint(Some("ab")), stale), expected);
    }

    #[test]
    fn in_a_sandbox_a_step_has_the_network_and_what_is_named() {
        let (project, web) = (Path::new("/p"), Path::new("/p/web"));
        let inside = policy(true, &[project], &[web]);
        assert_eq!(inside.read[SYSTEM.len()..], [project]);
        assert_eq!(inside.write[SINKS.len()..], [web]);
        assert_eq!(inside.kind, Kind::Landlock);
        assert!(inside.is_network_open && !inside.has_unix_sockets);
        let outside = policy(false, &[project], &[web]);
        assert_eq!(outside.kind, Kind::None);
        assert!(outside.is_network_open && outside.has_unix_sockets);
    }
}
