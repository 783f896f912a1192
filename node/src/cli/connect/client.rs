//! The clients: how long each waits for a tool, and what its configuration calls things.
//!
//! A row has what was measured or documented. A limit that nobody measured is the common one of 60
//! seconds.

use clap::ValueEnum;

use crate::cli::client_files::document::{Format, Value};

/// The clients that can be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Client {
    ClaudeCode,
    Codex,
    Gemini,
    Cursor,
    Vscode,
    Cline,
    Opencode,
    Zed,
    Junie,
    Jetbrains,
}

/// Where a configuration applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scope {
    /// For this user, wherever the client works
    User,
    /// For whoever works in this directory
    Project,
}

/// How the client reaches the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Transport {
    /// The client connects to the running node
    Http,
    /// The client starts `tasuki mcp`, which connects to the running node
    Stdio,
}

/// A value as one types it.
pub(super) fn typed(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|it| it.get_name().to_owned()).unwrap_or_default()
}

/// What a client's configuration can say about its own time limit for a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// A key in the server's entry, and how many of its units a second has.
    Raised { key: &'static str, per_second: u64, secs: u64 },
    /// It cannot be set, in seconds.
    Fixed { secs: u64 },
}

/// One hour: more than any wait is held, and the most Cline takes, in seconds.
const RAISED_SECS: u64 = 3600;

/// The most Zed takes, in seconds.
const ZED_SECS: u64 = 600;

/// The assumed limit of a client that nobody measured, in seconds: it gives a hold of 45.
const UNKNOWN_SECS: u64 = 60;

/// How long VS Code's HTTP side was seen to keep a stream, in seconds.
const VSCODE_SECS: u64 = 300;

/// The limit of the GitHub Copilot plugin in JetBrains' editors, in seconds; AI Assistant reads the
/// same lines and was not measured.
const JETBRAINS_SECS: u64 = 30;

/// The longest hold that is requested, in seconds: beyond it a wait costs the model next to
/// nothing, and calls stay within what the node holds (`HOLD_MS_MAX`).
pub(super) const HOLD_SECS_MAX: u64 = 1500;

impl Limit {
    const fn ms(key: &'static str) -> Self {
        Self::Raised { key, per_second: 1000, secs: RAISED_SECS }
    }

    const fn secs_in(key: &'static str, secs: u64) -> Self {
        Self::Raised { key, per_second: 1, secs }
    }

    pub(super) const fn secs(self) -> u64 {
        match self {
            Self::Raised { secs, .. } | Self::Fixed { secs } => secs,
        }
    }

    /// How long a call may be held: 0.8 of the client's limit; where that was never measured 45
    /// seconds, as in the node's own table.
    pub(super) const fn hold_secs(self) -> u64 {
        let secs = match self {
            Self::Fixed { secs: UNKNOWN_SECS } => 45,
            Self::Raised { secs, .. } | Self::Fixed { secs } => secs * 4 / 5,
        };
        if HOLD_SECS_MAX < secs { HOLD_SECS_MAX } else { secs }
    }
}

/// How long Codex may take to start a server, in seconds: a node that is being restarted is not
/// an error.
const CODEX_STARTUP_SECS: u64 = 30;

/// How a client's configuration can refer to a variable that holds a token, by its documentation. A
/// token itself is not written into any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenFrom {
    /// It cannot.
    Nowhere,
    /// A key that names the variable.
    Key(&'static str),
    /// A header in which `NAME` becomes the variable's value.
    Header(&'static str),
}

/// What is particular about one client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// As its makers write it.
    pub title: &'static str,
    /// The table that names the servers.
    pub table: &'static str,
    pub format: Format,
    pub limit: Limit,
    pub token_from: TokenFrom,
    /// Its configuration allows each tool by its name.
    pub names_tools: bool,
    pub has_http: bool,
    /// The `type` of an entry over HTTP and of one over stdio.
    types: [Option<&'static str>; 2],
}

/// What most have in common.
const MOST: Row = Row {
    title: "",
    table: "mcpServers",
    format: Format::Json,
    limit: Limit::Fixed { secs: UNKNOWN_SECS },
    token_from: TokenFrom::Nowhere,
    names_tools: false,
    has_http: true,
    types: [None, None],
};

impl Client {
    /// Where each limit is from: measured with Claude Code 2.1.330, Codex 0.169, Gemini CLI 0.61,
    /// opencode 1.18 and Cline 3.0; Zed, VS Code and JetBrains from their issue trackers; Cursor and
    /// Junie document none.
    pub(super) const fn row(self) -> Row {
        match self {
            Self::ClaudeCode => Row {
                title: "Claude Code",
                limit: Limit::ms("timeout"),
                token_from: TokenFrom::Header("${NAME}"),
                types: [Some("http"), Some("stdio")],
                ..MOST
            },
            Self::Codex => Row {
                title: "Codex",
                table: "mcp_servers",
                format: Format::Toml,
                limit: Limit::secs_in("tool_timeout_sec", RAISED_SECS),
                token_from: TokenFrom::Key(CODEX_TOKEN_KEY),
                ..MOST
            },
            Self::Gemini => Row {
                title: "Gemini CLI",
                limit: Limit::ms("timeout"),
                token_from: TokenFrom::Header("${NAME}"),
                types: [Some("http"), None],
                ..MOST
            },
            Self::Cursor => Row {
                title: "Cursor",
                token_from: TokenFrom::Header("${env:NAME}"),
                types: [None, Some("stdio")],
                ..MOST
            },
            Self::Vscode => Row {
                title: "VS Code",
                table: "servers",
                limit: Limit::Fixed { secs: VSCODE_SECS },
                types: [Some("http"), Some("stdio")],
                ..MOST
            },
            Self::Cline => Row {
                title: "Cline",
                limit: Limit::secs_in("timeout", RAISED_SECS),
                names_tools: true,
                types: [Some("streamableHttp"), Some("stdio")],
                ..MOST
            },
            Self::Opencode => Row {
                title: "opencode",
                table: "mcp",
                limit: Limit::ms("timeout"),
                token_from: TokenFrom::Header("{env:NAME}"),
                types: [Some("remote"), Some("local")],
                ..MOST
            },
            Self::Zed => Row {
                title: "Zed",
                table: "context_servers",
                limit: Limit::secs_in("timeout", ZED_SECS),
                names_tools: true,
                ..MOST
            },
            // Its documentation has stdio alone.
            Self::Junie => Row { title: "Junie", has_http: false, ..MOST },
            Self::Jetbrains => Row {
                title: "JetBrains AI Assistant",
                limit: Limit::Fixed { secs: JETBRAINS_SECS },
                ..MOST
            },
        }
    }

    pub(super) const fn title(self) -> &'static str {
        self.row().title
    }

    pub(super) const fn limit(self) -> Limit {
        self.row().limit
    }

    /// HTTP where the client has it: one process less, and the node sees the client itself.
    pub(super) const fn usual_transport(self) -> Transport {
        if self.row().has_http { Transport::Http } else { Transport::Stdio }
    }

    pub(super) const fn has(self, transport: Transport) -> bool {
        match transport {
            Transport::Http => self.row().has_http,
            Transport::Stdio => true,
        }
    }
}

/// The address of the node as a client's entry has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Endpoint {
    Http {
        url: String,
        /// The variable that holds the token to present; `None`: the node takes none.
        token_in: Option<String>,
    },
    Stdio {
        program: String,
        arguments: Vec<String>,
    },
}

/// Keys of an entry's endpoint. Those of another endpoint are removed.
pub(super) const ENDPOINT_KEYS: &[&str] =
    &["type", "transport", "url", "httpUrl", "command", "args", CODEX_TOKEN_KEY];

/// The table of headers in a client's entry.
pub(super) const HEADERS: &str = "headers";

/// The header of a token.
pub(super) const AUTHORIZATION: &str = "Authorization";

/// Codex's key for the variable that holds a token.
const CODEX_TOKEN_KEY: &str = "bearer_token_env_var";

/// A server's entry: what must be in it, in this order.
pub(super) fn entry(client: Client, endpoint: &Endpoint) -> Vec<(String, Value)> {
    let mut pairs = endpoint_pairs(client, endpoint);
    if client == Client::Codex {
        pairs.push(("startup_timeout_sec", Value::Number(CODEX_STARTUP_SECS)));
    }
    if let Limit::Raised { key, per_second, secs } = client.limit() {
        pairs.push((key, Value::Number(secs * per_second)));
    }
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn endpoint_pairs(client: Client, endpoint: &Endpoint) -> Vec<(&'static str, Value)> {
    let row = client.row();
    let [http, stdio] = row.types;
    let named = |name: Option<&str>| name.map(|name| ("type", Value::text(name)));
    let mut pairs: Vec<_> = match endpoint {
        Endpoint::Http { url, .. } => {
            named(http).into_iter().chain([("url", Value::text(url))]).collect()
        }
        Endpoint::Stdio { program, arguments } if client == Client::Opencode => {
            let words = [std::slice::from_ref(program), arguments].concat();
            named(stdio).into_iter().chain([("command", Value::texts(&words))]).collect()
        }
        Endpoint::Stdio { program, arguments } => {
            let command = [("command", Value::text(program)), ("args", Value::texts(arguments))];
            named(stdio).into_iter().chain(command).collect()
        }
    };
    if client == Client::Cline {
        pairs = vec![("transport", Value::table(pairs))];
    } else if client == Client::Opencode {
        pairs.push(("enabled", Value::Yes));
    }
    if let Endpoint::Http { token_in: Some(variable), .. } = endpoint {
        pairs.extend(match row.token_from {
            TokenFrom::Nowhere => None,
            TokenFrom::Key(key) => Some((key, Value::text(variable))),
            TokenFrom::Header(reference) => {
                let bearer = format!("Bearer {}", reference.replace("NAME", variable));
                Some((HEADERS, Value::table([(AUTHORIZATION, Value::text(bearer))])))
            }
        });
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hold_is_within_what_its_client_allows() {
        let table = Client::value_variants().iter().map(|client| {
            let limit = client.limit();
            assert!(limit.hold_secs() * 5 <= limit.secs() * 4, "{client:?}");
            format!("{} {} {}\n", typed(*client), limit.secs(), limit.hold_secs())
        });
        assert_eq!(
            table.collect::<String>(),
            "claude-code 3600 1500\n\
             codex 3600 1500\n\
             gemini 3600 1500\n\
             cursor 60 45\n\
             vscode 300 240\n\
             cline 3600 1500\n\
             opencode 3600 1500\n\
             zed 600 480\n\
             junie 60 45\n\
             jetbrains 30 24\n"
        );
    }
}
