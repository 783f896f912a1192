//! Whose call it is: a role's, by the agent that plays it, or a sub-agent's.
//!
//! Where an address speaks for several roles, a call is for the only one of them that starts
//! sub-agents, or for the one that it names.

use std::sync::Arc;

use tasuki_proto::{
    echo::echo,
    id::RoleId,
    reason::Reason,
    run::{RunId, StepId},
    wire,
};

use super::{
    super::{
        Call,
        tool::{Caller, RoleArgument, ToolDef},
    },
    args,
};
use crate::{
    mcp::{host::Scope, instances::Playing},
    role::{Actions, Refusal},
    runs::{
        client::{RunClient, Speaker},
        host::RunsHost,
    },
    toolset::RUN_STEP,
};

/// Runs that are looked through for the caller's newest.
const NEWEST_AMONG: u32 = 200;

/// Who speaks of runs.
pub(super) struct Asker<'a> {
    pub call: &'a Call<'a>,
    pub runs: &'a RunsHost,
    /// Speaks as the caller.
    pub client: RunClient,
    /// `None`: a sub-agent calls.
    pub actions: Option<Arc<dyn Actions>>,
}

impl<'a> Caller<'a> for Asker<'a> {
    const ROLE: &'static [RoleArgument] = args::ROLE;

    fn resolve(call: &'a Call<'a>, tool: &ToolDef) -> Result<Self, Refusal> {
        let runs = call.host.runs.as_deref().ok_or_else(no_runs)?;
        if let Scope::Step(step) = call.scope {
            return Ok(Self { call, runs, client: step.client.clone(), actions: None });
        }
        if tool.is_in(RUN_STEP) {
            return Err(no_step(tool));
        }
        let actions = find_role(call, tool)?;
        call.admit(actions.role())?;
        let client = runs.client(Speaker::Role(actions.role().clone()));
        Ok(Self { call, runs, client, actions: Some(actions) })
    }
}

impl Asker<'_> {
    /// Something is done or waited for: of a role's agents only the one that plays it may.
    pub(super) fn enter(&self) -> Result<Option<Playing>, Refusal> {
        let host = self.call.host;
        let enter = |actions| host.enter(actions, &self.call.who, self.call.client.as_ref());
        self.actions.as_deref().map(enter).transpose()
    }

    /// Something is looked at.
    pub(super) fn look(&self) {
        if let Some(actions) = self.actions.as_deref() {
            self.call.host.looked(actions, &self.call.who, self.call.client.as_ref());
        }
    }

    /// A run that may be looked at. A sub-agent sees what it started and no other's.
    pub(super) async fn get(&self, run: RunId) -> Result<wire::Run, Refusal> {
        let found = self.client.get(run).await?.run.unwrap_or_default();
        match self.client.speaker() {
            Speaker::Step(_) if !self.is_own(&found) => Err(Refusal {
                reason: Reason::NotAsker,
                message: format!("Run {run} was started by somebody else. Name one of yours."),
            }),
            Speaker::Step(_) | Speaker::Role(_) => Ok(found),
        }
    }

    /// The caller's runs, the newest first, of those that the broker tells at once.
    pub(super) async fn own_runs(&self) -> Result<Vec<wire::Run>, Refusal> {
        let request = wire::ListRunsRequest { limit: NEWEST_AMONG, ..Default::default() };
        let mut runs = self.client.list(request).await?.runs;
        runs.retain(|run| self.is_own(run));
        Ok(runs)
    }

    /// The run that is named, else the caller's newest.
    pub(super) async fn named_or_newest(&self, named: Option<RunId>) -> Result<RunId, Refusal> {
        if let Some(named) = named {
            return Ok(named);
        }
        newest(&self.own_runs().await?)
    }

    fn is_own(&self, run: &wire::Run) -> bool {
        match self.client.speaker() {
            Speaker::Role(role) => run.parent.is_none() && run.role == role.as_str(),
            Speaker::Step(key) => {
                run.parent.as_ref().is_some_and(|parent| is_step(parent, key.step()))
            }
        }
    }
}

/// The first of the caller's runs.
pub(super) fn newest(own: &[wire::Run]) -> Result<RunId, Refusal> {
    let newest = own.first().and_then(|run| run.run_id.parse().ok());
    newest.ok_or_else(|| Refusal {
        reason: Reason::UnknownRun,
        message: "You have started no run, or only long ago. Start one with subagent, or name one."
            .to_owned(),
    })
}

fn is_step(it: &wire::StepRef, step: StepId) -> bool {
    it.step == step.number && it.run_id == step.run.to_string()
}

/// The role that calls, of those of the address that have the tool.
fn find_role(call: &Call<'_>, tool: &ToolDef) -> Result<Arc<dyn Actions>, Refusal> {
    let host = call.host;
    let has_tool = |role: &RoleId| tool.sets.iter().any(|it| host.has_set(role, it.set));
    let mut able = call.scope.roles(host);
    able.retain(|role| has_tool(role) && call.only.is_none_or(|only| only == *role));
    let names = || able.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(", ");
    let role = match (call.named_role(tool)?, &able[..]) {
        (_, []) => return Err(no_set(tool)),
        (None, [only]) => only,
        (None, [first, ..]) => {
            return Err(Refusal {
                reason: Reason::RoleRequired,
                message: format!(
                    "several roles of this address may call this tool: {}. Set `role` to yours, or \
                     connect to /mcp/{first}.",
                    names()
                ),
            });
        }
        (Some(named), able) => {
            let own = able.iter().find(|it| it.as_str() == named);
            own.ok_or_else(|| Refusal {
                reason: Reason::UnknownRole,
                message: format!(
                    "`role` is {}, but you are {} here. Omit it or use that. No change was made.",
                    echo(&named),
                    names()
                ),
            })?
        }
    };
    host.roles.get(*role).map(Arc::clone).ok_or_else(|| no_set(tool))
}

fn no_set(tool: &ToolDef) -> Refusal {
    let set = tool.sets.first().map_or("", |it| it.set);
    Refusal {
        reason: Reason::RoleForbidden,
        message: format!(
            "no role of this address has a toolset with {name}. No change was made. Ask your user \
             to add it: --role NAME={set}.",
            name = tool.name
        ),
    }
}

fn no_step(tool: &ToolDef) -> Refusal {
    Refusal {
        reason: Reason::RoleForbidden,
        message: format!(
            "{} is for sub-agents: nobody started you as one. Ask your user, or send mail.",
            tool.name
        ),
    }
}

fn no_runs() -> Refusal {
    Refusal {
        reason: Reason::Unavailable,
        message: "This node has no runs of sub-agents. Ask your user to start it with `tasuki up` \
                  or `tasuki node`."
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_known_by_its_run_and_number() {
        let step = StepId { run: "run_1700000000000_00af".parse().unwrap(), number: 2 };
        let named = |run_id: &str, step| wire::StepRef { run_id: run_id.to_owned(), step };
        assert!(is_step(&named("run_1700000000000_00af", 2), step));
        assert!(!is_step(&named("run_1700000000000_00af", 1), step));
        assert!(!is_step(&named("run_1700000000000_00b0", 2), step));
    }
}
