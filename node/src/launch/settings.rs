//! What is to be launched: `[launch]` of the configuration, words of a command line, or the
//! variables of the original launcher.

use std::{path::PathBuf, time::Duration};

use tasuki_proto::{echo::echo, id::RoleId};

use super::program::Program;

/// Agents of one launch.
pub const AGENTS_MAX: usize = 64;

/// How long agents are waited for, unless configured.
const WAIT: Duration = Duration::from_secs(60);

/// How often an agent is started again, unless configured.
const RESTARTS: u32 = 3;

/// The most.
pub const RESTARTS_MAX: u32 = 100;

/// Where agents in a terminal run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    /// tmux where it is installed, else a window, else the command to type.
    Auto,
    Tmux,
    Window,
    /// The command is printed, for a person to type.
    Print,
}

impl Terminal {
    pub const NAMES: [(&'static str, Self); 4] = [
        ("auto", Self::Auto),
        ("tmux", Self::Tmux),
        ("window", Self::Window),
        ("print", Self::Print),
    ];
}

/// What is done when a session ends while its role holds a turn or a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExit {
    /// It is started again a few times, then as with the next.
    Restart,
    /// The next agent of the role is started, else what it holds is given back.
    Next,
    GiveBack,
}

impl OnExit {
    pub const NAMES: [(&'static str, Self); 3] =
        [("restart", Self::Restart), ("next", Self::Next), ("give-back", Self::GiveBack)];
}

/// What is to be launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchSettings {
    pub terminal: Terminal,
    /// How long agents are waited for; none: not at all.
    pub wait: Duration,
    /// In order. Of several with the same role the first is started, and the others when its session
    /// ends.
    pub agents: Vec<AgentSettings>,
}

impl Default for LaunchSettings {
    fn default() -> Self {
        Self { terminal: Terminal::Auto, wait: WAIT, agents: Vec::new() }
    }
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    pub role: RoleId,
    pub program: &'static Program,
    /// Its directory; `None`: the current one.
    pub project: Option<PathBuf>,
    /// In place of the program's usual command; empty: that.
    pub command: Vec<String>,
    pub args: Vec<String>,
    /// The goal of its work.
    pub prompt: Option<String>,
    /// Whether the prompt goes into the project's AGENTS.md, too.
    pub agents_md: bool,
    /// Whether the client runs Tasuki's tools without asking.
    pub allow: bool,
    pub on_exit: OnExit,
    pub restarts: u32,
}

impl AgentSettings {
    pub fn new(role: RoleId, program: &'static Program) -> Self {
        Self {
            role,
            program,
            project: None,
            command: Vec::new(),
            args: Vec::new(),
            prompt: None,
            agents_md: false,
            allow: false,
            on_exit: OnExit::Restart,
            restarts: RESTARTS,
        }
    }

    /// `ROLE=CLIENT`, as one types it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (role, client) =
            text.split_once('=').ok_or("takes ROLE=CLIENT, such as A=claude-code")?;
        let role: RoleId = role.parse().map_err(|why| format!("has a role that {why}"))?;
        Ok(Self::new(role, client_named(client)?))
    }
}

/// The program that a configuration or a command line names.
///
/// # Errors
/// When there is none.
pub fn client_named(name: &str) -> Result<&'static Program, String> {
    Program::find(name).ok_or_else(|| {
        let all = Program::names().collect::<Vec<_>>().join(", ");
        format!("names {}, which cannot be launched; there are {all}", echo(name))
    })
}

/// The roles that the variables of the original launcher can name.
const ROLES: [&str; 2] = ["A", "B"];

/// What `IDEA_A_PATH`, `PROJECT_A_PATH` and those of B say: which IDE opens which project. Without
/// its `PROJECT_…_PATH` a role has nothing to open.
pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Vec<AgentSettings> {
    let get = |name: String| get(&name).filter(|text| !text.is_empty());
    let agent = |role: &&str| {
        let project = get(format!("PROJECT_{role}_PATH"))?;
        let command = get(format!("IDEA_{role}_PATH")).into_iter().collect();
        let role = role.parse().ok()?;
        let agent = AgentSettings::new(role, Program::find("idea")?);
        Some(AgentSettings { project: Some(project.into()), command, ..agent })
    };
    ROLES.iter().filter_map(agent).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_variables_of_the_original_launcher_open_an_ide_for_each_role() {
        let told = |pairs: &[(&str, &str)]| {
            let env: BTreeMap<String, String> =
                pairs.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
            let agents = from_variables(|name| env.get(name).cloned());
            let agent = |it: &AgentSettings| {
                let project = it.project.as_ref().unwrap().display();
                format!("{} {} {project} {}", it.role, it.program.name, it.command.join(" "))
            };
            agents.iter().map(agent).collect::<Vec<_>>()
        };
        let both = [("PROJECT_A_PATH", "/a"), ("PROJECT_B_PATH", "/b"), ("IDEA_B_PATH", "/o/idea")];
        assert_eq!(told(&both), ["A idea /a ", "B idea /b /o/idea"]);
        assert_eq!(told(&[("IDEA_A_PATH", "/o/idea"), ("PROJECT_B_PATH", "")]), [""; 0]);
    }

    #[test]
    fn an_agent_is_named_by_its_role_and_its_client() {
        let told = |text: &str| {
            AgentSettings::parse(text).map(|it| format!("{} {}", it.role, it.program.command))
        };
        assert_eq!(told("qa=claude-code").as_deref(), Ok("qa claude"));
        assert_eq!(told("A"), Err("takes ROLE=CLIENT, such as A=claude-code".to_owned()));
        assert!(told("A=emacs").unwrap_err().starts_with("names \"emacs\", which cannot"));
        assert!(told("a b=zed").unwrap_err().starts_with("has a role that"));
    }
}
