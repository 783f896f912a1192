//! Connects a client to the running node.

use serde_json::{Value, json};

use super::{
    client::{Client, Transport},
    home::Home,
    script::ROLE,
};
use crate::{Result, process::program};

/// What one call may wait, in seconds, and what the client is told to put up with.
const HOLD_SECS: u64 = 1500;
const LIMIT_SECS: u64 = 3600;

/// Writes the client's configuration.
///
/// # Errors
/// When it cannot be written.
pub fn connect(client: Client, transport: Transport, home: &Home, node: &str) -> Result<()> {
    let url = format!("{node}/mcp/{ROLE}?as={}&hold={HOLD_SECS}", client.name());
    let command = program("tasuki")?.to_string_lossy().into_owned();
    let data = home.data.to_string_lossy();
    let hold = HOLD_SECS.to_string();
    let args = ["mcp", "--role", ROLE, "--hold", &hold, "--data", &data];
    let is_http = transport == Transport::Http;
    let limit_ms = LIMIT_SECS * 1000;
    match client {
        Client::ClaudeCode => {
            let server = if is_http {
                json!({ "type": "http", "url": url, "timeout": limit_ms })
            } else {
                json!({ "type": "stdio", "command": command, "args": args, "timeout": limit_ms })
            };
            add(home, ".claude.json", "mcpServers", &server)?;
            let allow = json!({ "permissions": { "allow": ["mcp__tasuki"] } });
            home.write(".claude/settings.json", &format!("{allow:#}"))
        }
        Client::Codex => {
            let path = home.home.join(".codex/config.toml");
            let mut text = std::fs::read_to_string(&path)?;
            text += "\n[mcp_servers.tasuki]\n";
            text += &if is_http {
                format!("url = {url:?}\n")
            } else {
                format!("command = {command:?}\nargs = {args:?}\n")
            };
            text += &format!("tool_timeout_sec = {LIMIT_SECS}\n");
            text += "default_tools_approval_mode = \"approve\"\n";
            Ok(std::fs::write(path, text)?)
        }
        Client::Gemini => {
            let mut server = json!({ "timeout": limit_ms, "trust": true });
            if is_http {
                server["httpUrl"] = url.into();
            } else {
                server["command"] = command.into();
                server["args"] = json!(args);
            }
            add(home, ".gemini/settings.json", "mcpServers", &server)
        }
        Client::Opencode => {
            let server = if is_http {
                json!({ "type": "remote", "url": url, "enabled": true, "timeout": limit_ms })
            } else {
                let whole: Vec<&str> = std::iter::once(command.as_str()).chain(args).collect();
                json!({ "type": "local", "command": whole, "enabled": true, "timeout": limit_ms })
            };
            add(home, ".config/opencode/opencode.json", "mcp", &server)
        }
        Client::Cline => {
            let server = if is_http {
                json!({
                    "transport": { "type": "streamableHttp", "url": url },
                    "timeout": LIMIT_SECS,
                })
            } else {
                json!({
                    "transport": { "type": "stdio", "command": command, "args": args },
                    "timeout": LIMIT_SECS,
                })
            };
            add(home, ".cline/data/settings/cline_mcp_settings.json", "mcpServers", &server)
        }
    }
}

fn add(home: &Home, path: &str, section: &str, server: &Value) -> Result<()> {
    let text = std::fs::read_to_string(home.home.join(path)).unwrap_or_else(|_| "{}".to_owned());
    let mut settings: Value = serde_json::from_str(&text)?;
    settings[section]["tasuki"] = server.clone();
    home.write(path, &format!("{settings:#}"))
}
