//! The agent CLIs: where each is, how it is pointed at the scripted model, how it is started.
//!
//! What an agent needs to reach Tasuki is not here: `tasuki connect` writes that.

use std::{fs, path::Path};

use clap::ValueEnum;
use serde_json::{Value, json};
use tokio::process::Command;

use super::home::Home;
use crate::Result;

/// A key for the scripted model, which takes any.
const KEY: &str = "sk-scripted-model-takes-any-key";

/// As Claude Code remembers a key that a person approved: by its end, in characters.
const KEY_END_CHARS: usize = 20;

/// Agent CLIs that can be run anywhere npm can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Client {
    ClaudeCode,
    Codex,
    Gemini,
    Opencode,
    Cline,
    Pi,
}

/// How the client reaches the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Transport {
    Http,
    Stdio,
}

impl Transport {
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stdio => "stdio",
        }
    }
}

impl Client {
    /// As `tasuki connect` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Cline => "cline",
            Self::Pi => "pi",
        }
    }

    /// Whether it is an MCP client, which plays a part beside others.
    pub fn speaks_mcp(self) -> bool {
        match self {
            Self::ClaudeCode | Self::Codex | Self::Gemini | Self::Opencode | Self::Cline => true,
            Self::Pi => false,
        }
    }

    /// The runner that starts it for runs, if there is one.
    pub fn runner(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode | Self::Codex | Self::Gemini | Self::Opencode | Self::Pi => {
                Some(self.program())
            }
            Self::Cline => None,
        }
    }

    /// Whether something can begin a new turn of its while it is idle.
    pub fn is_wakeable(self) -> bool {
        match self {
            Self::ClaudeCode | Self::Codex | Self::Opencode => true,
            Self::Gemini | Self::Cline | Self::Pi => false,
        }
    }

    /// As it calls the scripted model, where it has to be told with each call.
    pub fn model(self) -> Option<&'static str> {
        match self {
            Self::Gemini => Some("scripted"),
            Self::Pi => Some("scripted/scripted"),
            Self::ClaudeCode | Self::Codex | Self::Opencode | Self::Cline => None,
        }
    }

    /// As people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Opencode => "opencode",
            Self::Cline => "Cline CLI",
            Self::Pi => "pi",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::ClaudeCode => "@anthropic-ai/claude-code",
            Self::Codex => "@openai/codex",
            Self::Gemini => "@google/gemini-cli",
            Self::Opencode => "opencode-ai",
            Self::Cline => "cline",
            Self::Pi => "@mariozechner/pi-coding-agent",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude",
            Self::Codex | Self::Gemini | Self::Opencode | Self::Cline | Self::Pi => self.name(),
        }
    }

    /// The version that is installed in `place`.
    ///
    /// # Errors
    /// When none is.
    pub fn version(self, place: &Path) -> Result<String> {
        let package = place.join("node_modules").join(self.package()).join("package.json");
        let text = fs::read_to_string(&package).map_err(|why| {
            format!("{}: {why}; install it: ./scripts/clients-setup.sh", package.display())
        })?;
        let facts: Value = serde_json::from_str(&text)?;
        Ok(facts["version"].as_str().ok_or("a package without a version")?.to_owned())
    }

    /// How long the client waits for a tool by itself, in seconds, where nothing is configured
    /// and nothing but the answer comes.
    pub fn own_limit_secs(self, transport: Transport) -> u64 {
        match (self, transport) {
            (Self::ClaudeCode, Transport::Http) | (Self::Codex, _) => 300,
            (Self::ClaudeCode, Transport::Stdio) => 1800,
            (Self::Gemini, _) => 600,
            (Self::Opencode | Self::Cline, _) => 60,
            // It calls no tools of servers.
            (Self::Pi, _) => 0,
        }
    }

    /// Whether signs of progress begin that time anew.
    pub fn is_kept_by_progress(self) -> bool {
        match self {
            Self::ClaudeCode | Self::Opencode => true,
            Self::Codex | Self::Gemini | Self::Cline | Self::Pi => false,
        }
    }

    /// Makes it ask the scripted model and nobody else, and no questions of its own.
    ///
    /// # Errors
    /// When its files cannot be written.
    pub fn settle(self, home: &Home, model: &str) -> Result<()> {
        match self {
            Self::ClaudeCode => {
                let end = &KEY[KEY.len() - KEY_END_CHARS..];
                let project = home.project.to_string_lossy();
                let seen = json!({
                    "hasCompletedOnboarding": true,
                    "theme": "dark",
                    "customApiKeyResponses": { "approved": [end], "rejected": [] },
                    "projects": { &*project: {
                        "hasTrustDialogAccepted": true,
                        "hasCompletedProjectOnboarding": true,
                    }},
                });
                home.write(".claude.json", &format!("{seen:#}"))
            }
            Self::Codex => home.write(
                ".codex/config.toml",
                &format!(
                    "model = \"scripted\"\n\
                     model_provider = \"scripted\"\n\
                     approval_policy = \"never\"\n\
                     check_for_update_on_startup = false\n\n\
                     [model_providers.scripted]\n\
                     name = \"scripted\"\n\
                     base_url = \"{model}/v1\"\n\
                     wire_api = \"responses\"\n\
                     env_key = \"SCRIPTED_KEY\"\n"
                ),
            ),
            Self::Gemini => {
                let settings = json!({
                    "security": { "auth": { "selectedType": "gemini-api-key" } },
                    "privacy": { "usageStatisticsEnabled": false },
                    "general": { "enableAutoUpdate": false },
                });
                home.write(".gemini/settings.json", &format!("{settings:#}"))
            }
            Self::Opencode => {
                let settings = json!({
                    "$schema": "https://opencode.ai/config.json",
                    "autoupdate": false,
                    "share": "disabled",
                    "model": "scripted/scripted",
                    "small_model": "scripted/scripted",
                    "provider": { "scripted": {
                        "npm": "@ai-sdk/openai-compatible",
                        "name": "scripted",
                        "options": { "baseURL": format!("{model}/v1"), "apiKey": KEY },
                        "models": { "scripted": { "name": "scripted" } },
                    }},
                });
                home.write(".config/opencode/opencode.json", &format!("{settings:#}"))
            }
            Self::Pi => {
                let models = json!({ "providers": { "scripted": {
                    "baseUrl": format!("{model}/v1"),
                    "api": "openai-completions",
                    "apiKey": KEY,
                    "compat": { "supportsDeveloperRole": false, "supportsReasoningEffort": false },
                    "models": [{ "id": "scripted", "cost": {
                        "input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0,
                    }}],
                }}});
                home.write(".pi/agent/models.json", &format!("{models:#}"))
            }
            // It keeps its provider in files of its own, which `settling` has it write.
            Self::Cline => Ok(()),
        }
    }

    /// A command of its own that is run before it is used.
    pub fn settling(self, home: &Home, model: &str) -> Option<Command> {
        match self {
            Self::ClaudeCode | Self::Codex | Self::Gemini | Self::Opencode | Self::Pi => None,
            Self::Cline => {
                let mut command = home.command(self.program());
                command.args(["auth", "-p", "openai", "-k", KEY, "-m", "scripted", "-b"]);
                command.arg(format!("{model}/v1"));
                Some(command)
            }
        }
    }

    /// One piece of work from the command line, without a person: it ends when the model does.
    pub fn work(self, home: &Home, model: &str, prompt: &str) -> Command {
        let mut command = home.command(self.program());
        self.surround(&mut command, model);
        match self {
            Self::ClaudeCode => command.args(["-p", prompt]),
            Self::Codex => command.args(["exec", "--skip-git-repo-check", prompt]),
            Self::Gemini => command.args(["-m", "scripted", "-p", prompt]),
            Self::Opencode => command.args(["run", "--title", "turns", prompt]),
            Self::Cline => command.args(["-P", "openai-compatible", "-m", "scripted", prompt]),
            Self::Pi => command.args(["-p", "--model", "scripted/scripted", prompt]),
        };
        command
    }

    /// Its program, for a terminal.
    pub fn program_in(self, home: &Home) -> std::path::PathBuf {
        home.bin.join(self.program())
    }

    /// What it takes from the environment.
    pub fn surround(self, command: &mut Command, model: &str) {
        match self {
            Self::ClaudeCode => command
                .env("ANTHROPIC_BASE_URL", model)
                .env("ANTHROPIC_API_KEY", KEY)
                .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
                .env("DISABLE_AUTOUPDATER", "1")
                .env("DISABLE_TELEMETRY", "1")
                // The script reads the names of tools; it does not search for them.
                .env("ENABLE_TOOL_SEARCH", "false"),
            Self::Codex => command.env("SCRIPTED_KEY", KEY),
            Self::Gemini => command
                .env("GEMINI_API_KEY", KEY)
                .env("GOOGLE_GEMINI_BASE_URL", model)
                .env("GEMINI_CLI_TRUST_WORKSPACE", "true"),
            Self::Opencode => command
                .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
                .env("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            Self::Cline => command.env("CLINE_NO_AUTO_UPDATE", "1"),
            Self::Pi => command.env("PI_OFFLINE", "1").env("PI_TELEMETRY", "0"),
        };
    }
}
