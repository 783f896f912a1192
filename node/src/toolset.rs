//! Which toolsets there are, and how much of each a role is shown.
//!
//! Not here: the tools themselves (`mcp/tools`), which register under these names.

use std::{fmt, str::FromStr};

use tasuki_proto::{echo::echo, id::RoleId};

/// Taking turns.
pub const LOOP: &str = "loop";
pub const MAIL: &str = "mail";
pub const SWARM_LEAD: &str = "swarm-lead";
pub const SWARM_WORKER: &str = "swarm-worker";
pub const SWARM_ACCEPTOR: &str = "swarm-acceptor";
/// How the names of those begin that work on issues.
pub const SWARM_PREFIX: &str = "swarm-";
/// Starting sub-agents.
pub const RUNS: &str = "runs";
/// Shared state with checkpoints.
pub const BOARD: &str = "board";
/// Phases that roles do one after another.
pub const PIPELINE: &str = "pipeline";
/// The tools of the project's other MCP servers.
pub const GATEWAY: &str = "gateway";
/// Work on files below a root.
pub const FILES: &str = "files";
/// Running commands there.
pub const COMMANDS: &str = "commands";
/// What a sub-agent says to whoever started it. It comes with its key; no role can be given it.
pub const RUN_STEP: &str = "run-step";

/// Every toolset that a role can be given.
pub const NAMES: [&str; 11] = [
    LOOP,
    MAIL,
    SWARM_LEAD,
    SWARM_WORKER,
    SWARM_ACCEPTOR,
    RUNS,
    BOARD,
    PIPELINE,
    GATEWAY,
    FILES,
    COMMANDS,
];

/// A toolset a role gets, and how much of it `tools/list` shows. All of it can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsetChoice {
    pub set: &'static str,
    pub shown: ToolVisibility,
}

/// How much of a toolset is shown: every tool costs a model something, each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolVisibility {
    /// What a role cannot do without that has other things to do.
    Quiet,
    /// The lean core.
    Core,
    Full,
}

impl FromStr for ToolsetChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, shown) = match text.split_once(':') {
            None => (text, ToolVisibility::Core),
            Some((name, "full")) => (name, ToolVisibility::Full),
            Some((name, "quiet")) => (name, ToolVisibility::Quiet),
            Some((_, other)) => {
                return Err(format!(
                    "has {} after ':'; only `full` or `quiet` may be",
                    echo(other)
                ));
            }
        };
        let found = NAMES.into_iter().find(|set| *set == name);
        let unknown =
            || format!("names the toolset {}; there are {}", echo(name), usable_toolsets());
        found.map(|set| Self { set, shown }).ok_or_else(unknown)
    }
}

impl fmt::Display for ToolsetChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.set)?;
        f.write_str(match self.shown {
            ToolVisibility::Quiet => ":quiet",
            ToolVisibility::Core => "",
            ToolVisibility::Full => ":full",
        })
    }
}

/// What a role of this name gets that was given no toolsets. Who works on issues has its tools to
/// read, and little beside them.
pub fn usual_toolsets(role: &RoleId) -> Vec<ToolsetChoice> {
    let own = match role.as_str() {
        "lead" => Some(SWARM_LEAD),
        "acceptor" => Some(SWARM_ACCEPTOR),
        name if name.starts_with("worker") => Some(SWARM_WORKER),
        _ => None,
    };
    let beside = if own.is_some() { ToolVisibility::Quiet } else { ToolVisibility::Core };
    let sets = [LOOP, MAIL].map(|set| ToolsetChoice { set, shown: beside });
    let own = own.map(|set| ToolsetChoice { set, shown: ToolVisibility::Core });
    sets.into_iter().chain(own).collect()
}

/// The names of the toolsets that a role can have, in a sentence.
pub fn usable_toolsets() -> String {
    NAMES.join(", ")
}
