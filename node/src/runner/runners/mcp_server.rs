//! The MCP server that a node has for a running sub-agent, as each agent CLI is told of it.
//!
//! **Invariant:** the token is in a file or in the environment, never on a command line, which other
//! users of the machine can read.
//!
//! Gemini CLI is told nothing: it takes a server from the user's settings, from the project's, and from
//! the system's, and a run must not replace any of them.

use std::fmt;

use serde_json::{Value, json};

use crate::step_key::STEP_TOKEN_VARIABLE;

/// What the CLIs call the server. Where the user has one of this name, it gives way for the run: a
/// sub-agent does not play its user's role.
const NAME: &str = "tasuki";

/// Its tools in a list of Claude Code's permissions.
pub(super) const CLAUDE_TOOLS: &str = "mcp__tasuki";

/// The same in a list of opencode's tools.
pub(super) const OPENCODE_TOOLS: &str = "tasuki_*";

/// Its name in Codex, which merges settings field by field: an address beside the command of a server
/// that the user has under this name would keep it from starting.
const CODEX_NAME: &str = "tasuki_run";

/// Where a running sub-agent reaches its node by MCP. `Debug` does not show the token.
#[derive(Clone, PartialEq, Eq)]
pub struct McpServer {
    pub url: String,
    pub token: String,
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("url", &self.url).finish_non_exhaustive()
    }
}

impl McpServer {
    /// A file for Claude Code.
    pub(super) fn claude_file(&self) -> String {
        let server = json!({ "type": "http", "url": self.url, "headers": self.headers() });
        json!({ "mcpServers": { NAME: server } }).to_string()
    }

    /// Settings for Codex, which reads the token from the step's variable. It asks nobody about the
    /// tools of this server, since nobody is there to answer.
    pub(super) fn codex_settings(&self) -> [String; 3] {
        let setting = |key: &str, value: &str| {
            let value = toml::Value::String(value.to_owned());
            format!("mcp_servers.{CODEX_NAME}.{key}={value}")
        };
        [
            setting("url", &self.url),
            setting("bearer_token_env_var", STEP_TOKEN_VARIABLE),
            setting("default_tools_approval_mode", "approve"),
        ]
    }

    /// A part of opencode's configuration.
    pub(super) fn opencode_servers(&self) -> Value {
        json!({ NAME: {
            "type": "remote",
            "url": self.url,
            "enabled": true,
            "headers": self.headers(),
            "oauth": false,
        } })
    }

    fn headers(&self) -> Value {
        json!({ "Authorization": format!("Bearer {}", self.token) })
    }
}
