//! One row per setting: its name in the file, its variable, its default, its meaning.

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Data,
    Workspace,
    Listen,
    BrokerListen,
    Dashboard,
    Broker,
    Roles,
    Shared,
    Lease,
    Hold,
    LogFormat,
    Secure,
    Advertise,
    TlsCert,
    TlsKey,
    Mirror,
    MirrorRoot,
    HookFail,
}

impl Key {
    pub const ALL: [Self; 18] = [
        Self::Data,
        Self::Workspace,
        Self::Listen,
        Self::BrokerListen,
        Self::Dashboard,
        Self::Broker,
        Self::Roles,
        Self::Shared,
        Self::Lease,
        Self::Hold,
        Self::LogFormat,
        Self::Secure,
        Self::Advertise,
        Self::TlsCert,
        Self::TlsKey,
        Self::Mirror,
        Self::MirrorRoot,
        Self::HookFail,
    ];

    /// In `tasuki.toml`.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// The one of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    pub const fn env(self) -> &'static str {
        self.row().1
    }

    /// As one would write it; empty where the default depends on the machine or is "none".
    pub const fn default_text(self) -> &'static str {
        self.row().2
    }

    /// For people.
    pub const fn meaning(self) -> &'static str {
        self.row().3
    }

    /// Whether it takes several texts.
    pub const fn is_list(self) -> bool {
        matches!(self, Self::Roles | Self::Shared)
    }

    /// Whether it takes yes or no; in the file true and false are the same.
    pub const fn is_switch(self) -> bool {
        matches!(self, Self::Secure | Self::Mirror)
    }

    /// The texts in one line, as a variable has them: a list is separated by spaces, because
    /// the toolsets of a role are separated by commas.
    pub fn split(self, text: &str) -> Vec<String> {
        if self.is_list() {
            text.split_whitespace().map(str::to_owned).collect()
        } else {
            vec![text.to_owned()]
        }
    }

    const fn row(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Data => ("data", "TASUKI_DATA", "", "directory for all stored data"),
            Self::Workspace => (
                "workspace",
                "TASUKI_WORKSPACE",
                "default",
                "namespace for roles, loops and mail; one per project",
            ),
            Self::Listen => {
                ("listen", "TASUKI_LISTEN", "127.0.0.1:7421", "address where the node serves MCP")
            }
            Self::BrokerListen => (
                "broker_listen",
                "TASUKI_BROKER_LISTEN",
                "127.0.0.1:7420",
                "address where the broker of `tasuki up` serves gRPC",
            ),
            Self::Dashboard => (
                "dashboard",
                "TASUKI_DASHBOARD",
                "127.0.0.1:7422",
                "address where the broker of `tasuki up` serves its dashboard and /metrics, or off; the default moves on to a free port",
            ),
            Self::Broker => (
                "broker",
                "TASUKI_BROKER",
                "",
                "URL of the broker; default: the running node's or broker's, else http://127.0.0.1:7420",
            ),
            Self::Roles => (
                "roles",
                "TASUKI_ROLES",
                "A B",
                "roles of the node in turn order, each NAME or NAME=SET,SET…; the first role begins; if unset, the agents of a `.filebox`",
            ),
            Self::Shared => (
                "shared",
                "TASUKI_SHARED",
                "",
                "roles that several agents may play at the same time; any other role has one agent at a time",
            ),
            Self::Lease => (
                "lease",
                "TASUKI_LEASE",
                "15m",
                "how long a turn is kept after the holder's last sign of life",
            ),
            Self::Hold => (
                "hold",
                "TASUKI_HOLD",
                "",
                "maximum time to hold one waiting call; default: depends on the client",
            ),
            Self::LogFormat => (
                "log_format",
                "TASUKI_LOG_FORMAT",
                "text",
                "log format on standard error: text or json",
            ),
            Self::Secure => (
                "mcp_secure",
                "TASUKI_MCP_SECURE",
                "no",
                "yes: require TLS and tokens on loopback addresses too",
            ),
            Self::Advertise => (
                "mcp_advertise",
                "TASUKI_MCP_ADVERTISE",
                "",
                "host name or address that other machines use to reach this one",
            ),
            Self::TlsCert => (
                "mcp_tls_cert",
                "TASUKI_MCP_TLS_CERT",
                "",
                "PEM file with a certificate issued by an authority; default: a self-signed certificate",
            ),
            Self::TlsKey => (
                "mcp_tls_key",
                "TASUKI_MCP_TLS_KEY",
                "",
                "PEM file with the private key of mcp_tls_cert",
            ),
            Self::Mirror => (
                "mirror",
                "TASUKI_MIRROR",
                "no",
                "yes: mirror the mailboxes of the node's roles to files in docs/mailbox of a project",
            ),
            Self::MirrorRoot => (
                "mirror_root",
                "TASUKI_MIRROR_ROOT",
                "",
                "project directory for mirror; default: those of the agents in `.filebox`, else the node's directory",
            ),
            Self::HookFail => (
                "hook_fail",
                "TASUKI_HOOK_FAIL",
                "open",
                "if locks cannot be checked: open allows commits and edits, closed refuses them",
            ),
        }
    }
}
