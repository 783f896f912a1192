//! The clients: how long each waits for a tool, and how its configuration says what ours must.
//!
//! A row says what was measured or read, not what would be nice. A number nobody measured is the
//! common limit of 60 seconds.

use super::document::{Format, Value};

/// The clients that can be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
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

/// For whom a configuration holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Scope {
    /// For this user, wherever the client works
    User,
    /// For whoever works in this directory
    Project,
}

/// How the client reaches the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Transport {
    /// The client connects to the running node
    Http,
    /// The client starts `tasuki mcp`, which connects to the running node
    Stdio,
}

impl Transport {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stdio => "stdio",
        }
    }
}

impl Scope {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// What a client's configuration can say about its own time limit for a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// A key in the server's entry, and how many of its units a second has.
    Raised { key: &'static str, per_second: u64, secs: u64 },
    /// Nothing: it is what it is, in seconds.
    Fixed { secs: u64 },
}

/// One hour: more than any wait is held, and the most Cline takes, in seconds.
const RAISED_SECS: u64 = 3600;

/// The most Zed takes, in seconds.
const ZED_SECS: u64 = 600;

/// What a client nobody measured is taken to put up with, in seconds: it gives a hold of 45.
const UNKNOWN_SECS: u64 = 60;

/// How long VS Code's HTTP side was seen to keep a stream, in seconds.
const VSCODE_SECS: u64 = 300;

/// What the GitHub Copilot plugin in JetBrains' editors puts up with, in seconds; AI Assistant
/// reads the same lines and was not measured.
const JETBRAINS_SECS: u64 = 30;

/// The longest hold that is asked for, in seconds: beyond it a wait costs the model next to
/// nothing, and calls stay within what the node holds (`HOLD_MS_MAX`).
pub(super) const HOLD_SECS_MAX: u64 = 1500;

impl Limit {
    pub(super) const fn secs(self) -> u64 {
        match self {
            Self::Raised { secs, .. } | Self::Fixed { secs } => secs,
        }
    }

    /// How long a call may be held: 0.8 of what the client puts up with; where that was never
    /// measured 45 seconds, as the node's own table has it.
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

impl Client {
    /// As one types it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Cline => "cline",
            Self::Opencode => "opencode",
            Self::Zed => "zed",
            Self::Junie => "junie",
            Self::Jetbrains => "jetbrains",
        }
    }

    /// As its makers write it.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::Cline => "Cline",
            Self::Opencode => "opencode",
            Self::Zed => "Zed",
            Self::Junie => "Junie",
            Self::Jetbrains => "JetBrains AI Assistant",
        }
    }

    /// HTTP where the client has it: one process less, and the node sees the client itself.
    pub(super) const fn usual_transport(self) -> Transport {
        match self {
            Self::ClaudeCode
            | Self::Codex
            | Self::Gemini
            | Self::Cursor
            | Self::Vscode
            | Self::Cline
            | Self::Opencode
            | Self::Zed
            | Self::Jetbrains => Transport::Http,
            // Its documentation knows no other.
            Self::Junie => Transport::Stdio,
        }
    }

    /// Whether its configuration allows each tool by its name.
    pub(super) const fn names_tools(self) -> bool {
        match self {
            Self::Cline | Self::Zed => true,
            Self::ClaudeCode
            | Self::Codex
            | Self::Gemini
            | Self::Cursor
            | Self::Vscode
            | Self::Opencode
            | Self::Junie
            | Self::Jetbrains => false,
        }
    }

    /// Whether its configuration can name a variable that holds a token, by its documentation. A
    /// token itself is not written into any.
    pub(super) const fn knows_variables(self) -> bool {
        match self {
            Self::ClaudeCode | Self::Codex | Self::Gemini | Self::Cursor | Self::Opencode => true,
            Self::Vscode | Self::Cline | Self::Zed | Self::Junie | Self::Jetbrains => false,
        }
    }

    pub(super) const fn has(self, transport: Transport) -> bool {
        !matches!((self, transport), (Self::Junie, Transport::Http))
    }

    /// Where each number is from: measured with Claude Code 2.1.330, Codex 0.169, Gemini CLI
    /// 0.61, opencode 1.18 and Cline 3.0; Zed, VS Code and JetBrains from their issue trackers;
    /// Cursor and Junie say nothing.
    pub(super) const fn limit(self) -> Limit {
        match self {
            Self::ClaudeCode | Self::Gemini | Self::Opencode => {
                Limit::Raised { key: "timeout", per_second: 1000, secs: RAISED_SECS }
            }
            Self::Codex => {
                Limit::Raised { key: "tool_timeout_sec", per_second: 1, secs: RAISED_SECS }
            }
            Self::Cline => Limit::Raised { key: "timeout", per_second: 1, secs: RAISED_SECS },
            Self::Zed => Limit::Raised { key: "timeout", per_second: 1, secs: ZED_SECS },
            Self::Vscode => Limit::Fixed { secs: VSCODE_SECS },
            Self::Jetbrains => Limit::Fixed { secs: JETBRAINS_SECS },
            Self::Cursor | Self::Junie => Limit::Fixed { secs: UNKNOWN_SECS },
        }
    }

    pub(super) const fn format(self) -> Format {
        match self {
            Self::Codex => Format::Toml,
            Self::ClaudeCode
            | Self::Gemini
            | Self::Cursor
            | Self::Vscode
            | Self::Cline
            | Self::Opencode
            | Self::Zed
            | Self::Junie
            | Self::Jetbrains => Format::Json,
        }
    }

    /// The table that names the servers.
    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::ClaudeCode
            | Self::Gemini
            | Self::Cursor
            | Self::Cline
            | Self::Junie
            | Self::Jetbrains => "mcpServers",
            Self::Codex => "mcp_servers",
            Self::Vscode => "servers",
            Self::Opencode => "mcp",
            Self::Zed => "context_servers",
        }
    }
}

/// How the node is reached, in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    Http {
        url: String,
        /// The variable that holds the token to show; `None`: the node asks for none.
        token_in: Option<String>,
    },
    Stdio {
        program: String,
        arguments: Vec<String>,
    },
}

/// Keys that say how a server is reached. What is left of them from another way is taken out.
pub(super) const WAY_KEYS: &[&str] =
    &["type", "transport", "url", "httpUrl", "command", "args", CODEX_TOKEN_KEY];

/// Where a client's entry says what else goes with each request.
pub(super) const HEADERS: &str = "headers";

/// The header that a token goes into.
pub(super) const AUTHORIZATION: &str = "Authorization";

/// How Codex is told the variable that holds a token.
const CODEX_TOKEN_KEY: &str = "bearer_token_env_var";

/// A server's entry: what must be in it, in this order.
pub(super) fn entry(client: Client, way: &Way) -> Vec<(String, Value)> {
    let mut pairs = reached(client, way);
    match client.limit() {
        Limit::Raised { key, per_second, secs } => {
            if client == Client::Codex {
                pairs.push(("startup_timeout_sec", Value::Number(CODEX_STARTUP_SECS)));
            }
            pairs.push((key, Value::Number(secs * per_second)));
        }
        Limit::Fixed { .. } => {}
    }
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn reached(client: Client, way: &Way) -> Vec<(&'static str, Value)> {
    match way {
        Way::Http { url, token_in } => {
            let url = ("url", Value::text(url));
            let mut pairs = match client {
                Client::ClaudeCode | Client::Gemini | Client::Vscode => {
                    vec![("type", Value::text("http")), url]
                }
                Client::Cline => {
                    let kind = ("type".to_owned(), Value::text("streamableHttp"));
                    vec![("transport", Value::Table(vec![kind, ("url".to_owned(), url.1)]))]
                }
                Client::Opencode => {
                    vec![("type", Value::text("remote")), url, ("enabled", Value::Yes)]
                }
                Client::Codex
                | Client::Cursor
                | Client::Zed
                | Client::Junie
                | Client::Jetbrains => vec![url],
            };
            pairs.extend(token_in.as_deref().and_then(|variable| shown(client, variable)));
            pairs
        }
        Way::Stdio { program, arguments } => {
            let command = ("command", Value::text(program));
            let args = ("args", Value::Texts(arguments.clone()));
            match client {
                Client::ClaudeCode | Client::Cursor | Client::Vscode => {
                    vec![("type", Value::text("stdio")), command, args]
                }
                Client::Cline => {
                    let pairs = [("type", Value::text("stdio")), command, args];
                    let pairs = pairs.map(|(key, value)| (key.to_owned(), value));
                    vec![("transport", Value::Table(pairs.into()))]
                }
                Client::Opencode => {
                    let words = [std::slice::from_ref(program), arguments].concat();
                    let command = ("command", Value::Texts(words));
                    vec![("type", Value::text("local")), command, ("enabled", Value::Yes)]
                }
                Client::Codex
                | Client::Gemini
                | Client::Zed
                | Client::Junie
                | Client::Jetbrains => vec![command, args],
            }
        }
    }
}

/// How a client is told to show what a variable holds.
fn shown(client: Client, variable: &str) -> Option<(&'static str, Value)> {
    let reference = match client {
        Client::Codex => return Some((CODEX_TOKEN_KEY, Value::text(variable))),
        Client::ClaudeCode | Client::Gemini => format!("${{{variable}}}"),
        Client::Cursor => format!("${{env:{variable}}}"),
        Client::Opencode => format!("{{env:{variable}}}"),
        Client::Vscode | Client::Cline | Client::Zed | Client::Junie | Client::Jetbrains => {
            return None;
        }
    };
    let header = (AUTHORIZATION.to_owned(), Value::text(format!("Bearer {reference}")));
    Some((HEADERS, Value::Table(vec![header])))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn each_hold_is_within_what_its_client_puts_up_with() {
        let table = Client::value_variants().iter().map(|client| {
            let limit = client.limit();
            assert!(limit.hold_secs() * 5 <= limit.secs() * 4, "{client:?}");
            format!("{} {} {}\n", client.name(), limit.secs(), limit.hold_secs())
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

    #[test]
    fn clients_are_typed_as_they_are_named() {
        for client in Client::value_variants() {
            let typed = client.to_possible_value().unwrap();
            assert_eq!(typed.get_name(), client.name());
        }
    }
}
