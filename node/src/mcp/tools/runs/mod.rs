//! Runs of sub-agents: `subagent` and its sisters.
//!
//! Parameters and the words of the answers of `subagent` are those of pi's sub-agent extension;
//! what was added are further parameters and fields. Who calls is a role, or a sub-agent that
//! shows its key: both start runs, wait for them and answer what is asked below them. A sub-agent
//! has two tools more, to speak to whoever started it.
//!
//! - [`caller`]: whose call it is. [`args`]: types of the arguments.
//! - [`subagent`] starts runs, [`consent`] asks a user about a project's agents first,
//!   [`foreground`] ends a run whose caller took the call back.
//! - [`waits`]: `run_wait`, and what is told meanwhile. [`manage`]: the tools that look at a run or
//!   change one; [`files`]: what sub-agents hand over. [`parent`]: those of a sub-agent.
//! - [`prompt`]: how a role is played that does nothing else.
//! - [`views`]: what they answer; [`messages`]: what they tell of what sub-agents said.
//!
//! Not here: what a run asks the broker for (`runs::plan`), how agents run (`runs::worker`).

mod args;
mod caller;
mod consent;
mod files;
mod foreground;
mod manage;
mod messages;
mod parent;
mod prompt;
mod subagent;
mod views;
mod waits;

use tasuki_proto::id::RoleId;

use super::{
    Part, Toolset,
    tool::{Membership, ToolDef},
};
use crate::toolset::{RUN_STEP, RUNS, ToolVisibility};

pub(super) use self::waits::progress_of;
pub(in crate::mcp) use self::{
    foreground::end_run,
    views::{read_steps, run_resource_facts, run_result},
    waits::ended_or_asked,
};

const CORE: &[Membership] = &[Membership { set: RUNS, from: ToolVisibility::Core }];
/// What a role needs that hands over a task now and then.
const QUIET: &[Membership] = &[Membership { set: RUNS, from: ToolVisibility::Quiet }];
const OF_STEP: &[Membership] = &[Membership { set: RUN_STEP, from: ToolVisibility::Quiet }];

static TOOLS: [ToolDef; 10] = [
    ToolDef::new::<subagent::Subagent>(),
    ToolDef::new::<manage::RunAgents>(),
    ToolDef::new::<manage::RunStatusOf>(),
    ToolDef::new::<waits::RunWait>(),
    ToolDef::new::<manage::RunCancel>(),
    ToolDef::new::<manage::RunOutput>(),
    ToolDef::new::<files::RunSaveFile>(),
    ToolDef::new::<manage::RunReply>(),
    ToolDef::new::<parent::AskParent>(),
    ToolDef::new::<parent::ReportToParent>(),
];

pub(super) struct Runs;

impl Toolset for Runs {
    fn tools(&self) -> &'static [ToolDef] {
        &TOOLS
    }

    /// Whoever has another part starts sub-agents beside it.
    fn part(&self, _: &RoleId, sets: &[&str], _: &[RoleId]) -> Option<&'static dyn Part> {
        (sets == [RUNS]).then_some(&prompt::Starter as &dyn Part)
    }

    fn prompt_note(&self, _: &[&str]) -> Option<&'static str> {
        Some(
            "subagent starts a sub-agent, run_wait returns its result or question, run_reply answers \
             it.",
        )
    }
}
