//! Which servers there are, how each is started or reached, and who may call what of it.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use rmcp::model::ProtocolVersion;
use tasuki_proto::{id::RoleId, pattern};

use super::names::ServerName;

/// Servers of one node.
pub const SERVERS_MAX: usize = 64;

/// A call without progress, unless its server says otherwise.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest that may be said.
pub const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What a server that is a program is given of the node's environment, besides what its settings
/// name: none of these is a secret.
pub const PASSED: [&str; 12] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_RUNTIME_DIR",
];

/// Everything a node knows of its servers.
#[derive(Debug, Clone, Default)]
pub struct GatewaySettings {
    pub servers: Vec<ServerSettings>,
    /// What roles of this node let others call.
    pub exports: Vec<Export>,
}

#[derive(Debug, Clone)]
pub struct ServerSettings {
    pub name: ServerName,
    pub transport: ServerTransport,
    /// The version to speak; `None`: the newest that the server knows.
    pub protocol: Option<ProtocolVersion>,
    /// A call ends when so long nothing was heard of it.
    pub timeout: Duration,
    /// The same of single tools, by the server's own names.
    pub timeouts: BTreeMap<String, Duration>,
    pub access: Access,
}

impl ServerSettings {
    /// How long any call may take without a sign of life.
    pub fn longest(&self) -> Duration {
        self.timeouts.values().copied().fold(self.timeout, Duration::max)
    }

    pub fn timeout_of(&self, tool: &str) -> Duration {
        self.timeouts.get(tool).copied().unwrap_or(self.timeout)
    }
}

/// Tools of servers that a role lets roles of other nodes call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    pub role: RoleId,
    /// Patterns of names as agents here see them (`server__tool`).
    pub tools: Vec<String>,
    /// Patterns of roles that may call them. None: every role.
    pub callers: Vec<String>,
    /// The broker records arguments and results.
    pub record: bool,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerTransport {
    /// A program that speaks on its standard input and output.
    Stdio {
        /// The program first.
        words: Vec<String>,
        /// Names of the node's own variables, and variables with a value.
        env: Vec<(String, Option<String>)>,
        directory: PathBuf,
    },
    /// Streamable HTTP.
    Http {
        url: String,
        /// The variable of the node that has the token it is shown.
        token_env: Option<String>,
    },
}

impl ServerTransport {
    /// The command or the address, without what may be secret: variables, a query.
    pub fn endpoint(&self) -> String {
        match self {
            Self::Stdio { words, .. } => crate::accept::allowed::joined(words),
            Self::Http { url, .. } => url.split('?').next().unwrap_or_default().to_owned(),
        }
    }

    /// All that a program is given.
    pub fn environment(
        env: &[(String, Option<String>)],
        own: impl Fn(&str) -> Option<OsString>,
    ) -> Vec<(String, OsString)> {
        let mut all: BTreeMap<String, OsString> =
            PASSED.iter().filter_map(|name| Some(((*name).to_owned(), own(name)?))).collect();
        for (name, value) in env {
            match value {
                Some(value) => drop(all.insert(name.clone(), value.into())),
                None => drop(own(name).map(|value| all.insert(name.clone(), value))),
            }
        }
        all.into_iter().collect()
    }
}

/// Which tools which roles may see and call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// `None`: every role may call everything that is not denied.
    pub allow: Option<Vec<Rule>>,
    pub deny: Vec<Rule>,
}

/// Some tools, for some roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// A role's name; `*` at its end stands for anything.
    pub roles: String,
    /// A tool's own name, likewise.
    pub tools: String,
}

impl Rule {
    fn covers(&self, role: &RoleId, tool: &str) -> bool {
        pattern::matches(&self.roles, role.as_str()) && pattern::matches(&self.tools, tool)
    }
}

impl Access {
    pub fn allows(&self, role: &RoleId, tool: &str) -> bool {
        let covers = |rules: &[Rule]| rules.iter().any(|rule| rule.covers(role, tool));
        self.allow.as_deref().is_none_or(covers) && !covers(&self.deny)
    }
}

impl Access {
    /// Whether a role may read what is no tool: who may call some of the tools, unless it is denied
    /// all of them.
    pub fn sees(&self, role: &RoleId) -> bool {
        let is_of = |rule: &&Rule| pattern::matches(&rule.roles, role.as_str());
        let is_allowed = self.allow.as_deref().is_none_or(|all| all.iter().any(|it| is_of(&it)));
        is_allowed && !self.deny.iter().filter(is_of).any(|rule| rule.tools == "*")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(all: &[(&str, &str)]) -> Vec<Rule> {
        let rule = |(roles, tools): &(&str, &str)| Rule {
            roles: (*roles).to_owned(),
            tools: (*tools).to_owned(),
        };
        all.iter().map(rule).collect()
    }

    #[test]
    fn a_tool_is_for_whom_it_is_allowed_and_not_denied() {
        let allows =
            |access: &Access, role: &str, tool: &str| access.allows(&role.parse().unwrap(), tool);
        let everybody = Access::default();
        assert!(allows(&everybody, "A", "write"));
        let some = Access {
            allow: Some(rules(&[("A", "*"), ("worker*", "read_*")])),
            deny: rules(&[("*", "drop_table"), ("worker2", "*")]),
        };
        for (role, tool, is_allowed) in [
            ("A", "write", true),
            ("A", "drop_table", false),
            ("worker1", "read_file", true),
            ("worker1", "write", false),
            ("worker2", "read_file", false),
            ("B", "read_file", false),
        ] {
            assert_eq!(allows(&some, role, tool), is_allowed, "{role} {tool}");
        }
        let seen = ["A", "worker1", "worker2", "B"].map(|it| some.sees(&it.parse().unwrap()));
        assert_eq!(seen, [true, true, false, false]);
        let none = Access { allow: Some(Vec::new()), deny: Vec::new() };
        assert!(!allows(&none, "A", "read"));
    }

    #[test]
    fn a_program_is_given_what_was_named_and_no_secret_besides() {
        let own = |name: &str| match name {
            "PATH" | "API_KEY" | "TASUKI_TOKEN" => Some(OsString::from(format!("own {name}"))),
            _ => None,
        };
        let env = [("API_KEY".to_owned(), None), ("MODE".to_owned(), Some("x".to_owned()))];
        let given = ServerTransport::environment(&env, own);
        let given: Vec<_> = given.iter().map(|(k, v)| (k.as_str(), v.to_str().unwrap())).collect();
        assert_eq!(given, [("API_KEY", "own API_KEY"), ("MODE", "x"), ("PATH", "own PATH")]);
    }
}
