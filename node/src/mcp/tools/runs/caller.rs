//! Whose call it is: a role's, by the agent that plays it, or a sub-agent's.
//!
//! Where an address speaks for several roles, a call is for the only one of them that starts
//! sub-agents, or for the one that it names.

use std::sync::Arc;

use tasuki_proto::{reason::Reason, run::RunId, wire};

use super::super::{
    Call,
    caller::find_able,
    tool::{Caller, Listed, RoleArgument, ToolDef},
};
use crate::{
    mcp::{host::Scope, instances::Playing},
    role::{Actions, Refusal},
    runs::{
        client::{RunCaller, RunClient},
        host::RunsHost,
    },
};

/// Where an address speaks for several roles that start sub-agents, which of them calls.
const ROLE: RoleArgument = RoleArgument { name: "role", listed: Listed::Never, description: "" };

/// Runs that are looked through for the caller's own.
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
    const ROLE: &'static [RoleArgument] = &[ROLE];

    fn resolve(call: &'a Call<'a>, tool: &ToolDef) -> Result<Self, Refusal> {
        let runs = call.host.runs.as_deref().ok_or_else(no_runs)?;
        if let Scope::Step(client) = call.scope {
            return Ok(Self { call, runs, client: RunClient::clone(client), actions: None });
        }
        let actions = find_able(call, tool, ROLE.name, Reason::UnknownRole)?;
        call.admit(actions.role())?;
        let client = runs.client(RunCaller::Role(actions.role().clone()));
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
        match self.client.caller() {
            RunCaller::Step(_) if !self.is_own(&found) => Err(Refusal {
                reason: Reason::NotAsker,
                message: format!("Run {run} was started by somebody else. Name one of yours."),
            }),
            RunCaller::Step(_) | RunCaller::Role(_) => Ok(found),
        }
    }

    /// The caller's runs, the newest first, of those that the broker tells at once.
    pub(super) async fn own_runs(&self) -> Result<Vec<wire::Run>, Refusal> {
        let (role, below) = match self.client.caller() {
            RunCaller::Role(role) => (role.to_string(), String::new()),
            RunCaller::Step(key) => (String::new(), key.step().run.to_string()),
        };
        let limit = NEWEST_AMONG;
        let request = wire::ListRunsRequest { role, below, limit, ..Default::default() };
        let mut runs = self.client.list(request).await?.runs;
        runs.retain(|run| self.is_own(run));
        Ok(runs)
    }

    fn is_own(&self, run: &wire::Run) -> bool {
        match self.client.caller() {
            RunCaller::Role(role) => run.parent.is_none() && run.role == role.as_str(),
            RunCaller::Step(key) => {
                let (run_id, step) = (key.step().run.to_string(), key.step().number);
                run.parent == Some(wire::StepRef { run_id, step })
            }
        }
    }
}

/// The first of the caller's runs.
pub(super) fn newest(own: &[wire::Run]) -> Result<RunId, Refusal> {
    let newest = own.first().and_then(|run| run.run_id.parse().ok());
    newest.ok_or_else(|| Refusal {
        reason: Reason::UnknownRun,
        message: "You have started no run. Start one with subagent, or name one.".to_owned(),
    })
}

fn no_runs() -> Refusal {
    Refusal {
        reason: Reason::Unavailable,
        message: "This node has no runs of sub-agents. Ask your user to start it with `tasuki up` \
                  or `tasuki node`."
            .to_owned(),
    }
}
