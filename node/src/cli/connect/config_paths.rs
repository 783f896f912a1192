//! Where each client keeps its configuration.
//!
//! The rules of every platform are here, whichever this is: what decides is an argument.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::client::{Client, Scope};

/// The kinds of platform that clients tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    Linux,
    Mac,
    Windows,
}

impl System {
    pub(super) const fn here() -> Self {
        if cfg!(windows) {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::Mac
        } else {
            Self::Linux
        }
    }
}

/// What decides where files are. Tests make their own.
#[derive(Debug, Clone)]
pub(super) struct ConfigPaths {
    pub system: System,
    pub home: PathBuf,
    pub env: BTreeMap<String, String>,
    /// The project is here.
    pub directory: PathBuf,
}

/// The variables that move a client's configuration.
const VARIABLES: &[&str] = &[
    "APPDATA",
    "CLAUDE_CONFIG_DIR",
    "CLINE_DATA_DIR",
    "CLINE_DIR",
    "CLINE_MCP_SETTINGS_PATH",
    "CODEX_HOME",
    "FLATPAK_XDG_CONFIG_HOME",
    "GEMINI_CLI_HOME",
    "OPENCODE_CONFIG",
    "OPENCODE_CONFIG_DIR",
    "VSCODE_APPDATA",
    "VSCODE_PORTABLE",
    "XDG_CONFIG_HOME",
];

/// The files opencode reads in one directory, the one that wins first; the last of them only
/// among its user's.
const OPENCODE: [&str; 3] = ["opencode.jsonc", "opencode.json", "config.json"];

impl ConfigPaths {
    /// That of this process; `None`: it has no home.
    pub(super) fn of_process(directory: PathBuf) -> Option<Self> {
        let home = directories::BaseDirs::new()?.home_dir().to_owned();
        let get = |name: &&str| Some(((*name).to_owned(), std::env::var(name).ok()?));
        let env = VARIABLES.iter().filter_map(get).collect();
        Some(Self { system: System::here(), home, env, directory })
    }

    /// A variable that says something.
    fn var(&self, name: &str) -> Option<PathBuf> {
        let text = self.env.get(name).map(|text| text.trim()).filter(|text| !text.is_empty())?;
        Some(self.directory.join(text))
    }

    /// Where programs of this platform keep settings.
    fn settings(&self) -> PathBuf {
        match self.system {
            System::Linux => self.xdg(),
            System::Mac => self.home.join("Library/Application Support"),
            System::Windows => {
                self.var("APPDATA").unwrap_or_else(|| self.home.join("AppData/Roaming"))
            }
        }
    }

    /// Where programs keep settings that follow the XDG rules everywhere.
    fn xdg(&self) -> PathBuf {
        self.var("XDG_CONFIG_HOME").unwrap_or_else(|| self.home.join(".config"))
    }

    /// The file that names a client's servers; `None`: it has none that others may write.
    pub(super) fn servers(&self, client: Client, scope: Scope) -> Option<PathBuf> {
        let project = &self.directory;
        Some(match (client, scope) {
            (Client::ClaudeCode, Scope::User) => self
                .var("CLAUDE_CONFIG_DIR")
                .unwrap_or_else(|| self.home.clone())
                .join(".claude.json"),
            (Client::ClaudeCode, Scope::Project) => project.join(".mcp.json"),
            (Client::Codex, Scope::User) => {
                let home = self.var("CODEX_HOME").unwrap_or_else(|| self.home.join(".codex"));
                home.join("config.toml")
            }
            (Client::Codex, Scope::Project) => project.join(".codex/config.toml"),
            (Client::Gemini, Scope::User) => {
                let home = self.var("GEMINI_CLI_HOME").unwrap_or_else(|| self.home.clone());
                home.join(".gemini/settings.json")
            }
            (Client::Gemini, Scope::Project) => project.join(".gemini/settings.json"),
            (Client::Cursor, Scope::User) => self.home.join(".cursor/mcp.json"),
            (Client::Cursor, Scope::Project) => project.join(".cursor/mcp.json"),
            (Client::Vscode, Scope::User) => self.vscode().join("User/mcp.json"),
            (Client::Vscode, Scope::Project) => project.join(".vscode/mcp.json"),
            (Client::Cline, Scope::User) => self.cline(),
            (Client::Cline | Client::Jetbrains, Scope::Project) => return None,
            (Client::Opencode, Scope::User) => self.opencode(),
            (Client::Opencode, Scope::Project) => {
                first_there(project, &OPENCODE[..2], "opencode.json")
            }
            (Client::Zed, Scope::User) => self.zed().join("settings.json"),
            (Client::Zed, Scope::Project) => project.join(".zed/settings.json"),
            (Client::Junie, Scope::User) => self.home.join(".junie/mcp/mcp.json"),
            (Client::Junie, Scope::Project) => project.join(".junie/mcp/mcp.json"),
            (Client::Jetbrains, Scope::User) => return None,
        })
    }

    /// Other files that the client reads as well and that are there: an entry of ours may be in
    /// them, from before the one it is put into was made.
    pub(super) fn other_servers(&self, client: Client, scope: Scope) -> Vec<PathBuf> {
        let Some(first) = self.servers(client, scope).filter(|_| client == Client::Opencode) else {
            return Vec::new();
        };
        let names = OPENCODE.iter().map(|name| first.with_file_name(name));
        names.filter(|path| *path != first && path.exists()).collect()
    }

    /// The file with the client's permissions, where that is another one.
    pub(super) fn permissions(&self, client: Client, scope: Scope) -> Option<PathBuf> {
        match (client, scope) {
            (Client::ClaudeCode, Scope::User) => {
                let home = self.var("CLAUDE_CONFIG_DIR");
                Some(home.unwrap_or_else(|| self.home.join(".claude")).join("settings.json"))
            }
            // Not `settings.json`, which is everybody's: what runs unasked is each person's choice.
            (Client::ClaudeCode, Scope::Project) => {
                Some(self.directory.join(".claude/settings.local.json"))
            }
            (Client::Cursor, Scope::User) => Some(self.home.join(".cursor/permissions.json")),
            (Client::Cursor, Scope::Project) => {
                Some(self.directory.join(".cursor/permissions.json"))
            }
            // A project's settings say nothing about the agent.
            (Client::Zed, Scope::Project) => Some(self.zed().join("settings.json")),
            (Client::Zed, Scope::User)
            | (
                Client::Codex
                | Client::Gemini
                | Client::Vscode
                | Client::Cline
                | Client::Opencode
                | Client::Junie
                | Client::Jetbrains,
                Scope::User | Scope::Project,
            ) => None,
        }
    }

    fn vscode(&self) -> PathBuf {
        if let Some(portable) = self.var("VSCODE_PORTABLE") {
            return portable.join("user-data");
        }
        self.var("VSCODE_APPDATA").unwrap_or_else(|| self.settings()).join("Code")
    }

    fn cline(&self) -> PathBuf {
        if let Some(file) = self.var("CLINE_MCP_SETTINGS_PATH") {
            return file;
        }
        let home = || self.var("CLINE_DIR").unwrap_or_else(|| self.home.join(".cline"));
        let data = self.var("CLINE_DATA_DIR").unwrap_or_else(|| home().join("data"));
        data.join("settings/cline_mcp_settings.json")
    }

    /// opencode reads several and lets the later ones win; the last one that is there is taken.
    fn opencode(&self) -> PathBuf {
        if let Some(file) = self.var("OPENCODE_CONFIG") {
            return file;
        }
        if let Some(directory) = self.var("OPENCODE_CONFIG_DIR") {
            return first_there(&directory, &OPENCODE[..2], "opencode.json");
        }
        first_there(&self.xdg().join("opencode"), &OPENCODE, "opencode.json")
    }

    fn zed(&self) -> PathBuf {
        match self.system {
            System::Linux => {
                self.var("FLATPAK_XDG_CONFIG_HOME").unwrap_or_else(|| self.xdg()).join("zed")
            }
            System::Mac => self.home.join(".config/zed"),
            System::Windows => self.settings().join("Zed"),
        }
    }
}

fn first_there(directory: &Path, names: &[&str], otherwise: &str) -> PathBuf {
    let paths = names.iter().map(|name| directory.join(name));
    paths.clone().find(|path| path.exists()).unwrap_or_else(|| directory.join(otherwise))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(system: System, env: &[(&str, &str)]) -> ConfigPaths {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ConfigPaths {
            system,
            home: "/home/u".into(),
            env: env.collect(),
            directory: "/there".into(),
        }
    }

    fn check(client: Client, system: System, env: &[(&str, &str)], expected: &str) {
        let path = around(system, env).servers(client, Scope::User).unwrap();
        assert_eq!(path, Path::new(expected), "{client:?} {system:?} {env:?}");
    }

    #[test]
    fn each_client_is_found_on_each_platform() {
        use System::{Linux, Mac, Windows};
        let roaming: &[_] = &[("APPDATA", "/u/Roaming")];
        for (client, linux, mac, windows) in [
            (
                Client::Vscode,
                "/home/u/.config/Code/User/mcp.json",
                "/home/u/Library/Application Support/Code/User/mcp.json",
                "/u/Roaming/Code/User/mcp.json",
            ),
            (
                Client::Zed,
                "/home/u/.config/zed/settings.json",
                "/home/u/.config/zed/settings.json",
                "/u/Roaming/Zed/settings.json",
            ),
        ] {
            check(client, Linux, &[], linux);
            check(client, Mac, &[], mac);
            check(client, Windows, roaming, windows);
        }
        for (client, path) in [
            (Client::ClaudeCode, "/home/u/.claude.json"),
            (Client::Codex, "/home/u/.codex/config.toml"),
            (Client::Gemini, "/home/u/.gemini/settings.json"),
            (Client::Cursor, "/home/u/.cursor/mcp.json"),
            (Client::Cline, "/home/u/.cline/data/settings/cline_mcp_settings.json"),
            (Client::Opencode, "/home/u/.config/opencode/opencode.json"),
            (Client::Junie, "/home/u/.junie/mcp/mcp.json"),
        ] {
            for system in [Linux, Mac, Windows] {
                check(client, system, roaming, path);
            }
        }
        check(Client::Zed, Windows, &[], "/home/u/AppData/Roaming/Zed/settings.json");
    }

    #[test]
    fn variables_move_them() {
        for (client, name, value, expected) in [
            (Client::ClaudeCode, "CLAUDE_CONFIG_DIR", "/x", "/x/.claude.json"),
            (Client::ClaudeCode, "CLAUDE_CONFIG_DIR", " ", "/home/u/.claude.json"),
            (Client::Codex, "CODEX_HOME", "/x", "/x/config.toml"),
            (Client::Codex, "CODEX_HOME", "x", "/there/x/config.toml"),
            (Client::Gemini, "GEMINI_CLI_HOME", "/x", "/x/.gemini/settings.json"),
            (Client::Cline, "CLINE_DIR", "/x", "/x/data/settings/cline_mcp_settings.json"),
            (Client::Cline, "CLINE_DATA_DIR", "/x", "/x/settings/cline_mcp_settings.json"),
            (Client::Cline, "CLINE_MCP_SETTINGS_PATH", "/x/y.json", "/x/y.json"),
            (Client::Opencode, "OPENCODE_CONFIG", "/x/y.json", "/x/y.json"),
            (Client::Opencode, "OPENCODE_CONFIG_DIR", "/x", "/x/opencode.json"),
            (Client::Opencode, "XDG_CONFIG_HOME", "/x", "/x/opencode/opencode.json"),
            (Client::Zed, "XDG_CONFIG_HOME", "/x", "/x/zed/settings.json"),
            (Client::Zed, "FLATPAK_XDG_CONFIG_HOME", "/x", "/x/zed/settings.json"),
            (Client::Vscode, "XDG_CONFIG_HOME", "/x", "/x/Code/User/mcp.json"),
            (Client::Vscode, "VSCODE_APPDATA", "/x", "/x/Code/User/mcp.json"),
            (Client::Vscode, "VSCODE_PORTABLE", "/x", "/x/user-data/User/mcp.json"),
            (Client::Cursor, "XDG_CONFIG_HOME", "/x", "/home/u/.cursor/mcp.json"),
        ] {
            assert!(VARIABLES.contains(&name), "{name} is not looked at");
            check(client, System::Linux, &[(name, value)], expected);
        }
    }

    #[test]
    fn the_one_of_several_files_that_is_there_is_taken() {
        let home = tempfile::tempdir().unwrap();
        let at = ConfigPaths { home: home.path().into(), ..around(System::Linux, &[]) };
        let directory = home.path().join(".config/opencode");
        std::fs::create_dir_all(&directory).unwrap();
        for name in ["config.json", "opencode.json", "opencode.jsonc"] {
            std::fs::write(directory.join(name), "{}").unwrap();
            assert_eq!(at.servers(Client::Opencode, Scope::User), Some(directory.join(name)));
        }
    }
}
