//! Whose call it is.
//!
//! A call is for the role of its connection. Where an address speaks for several roles, it is for
//! the only one of them that has the tool, or for the worker that the call names.

use std::{fmt::Display, sync::Arc};

use rmcp::model::CallToolResponse;
use tasuki_proto::{echo::echo, id::RoleId, reason::Reason, rpc::Rpc};

use super::{
    super::{
        Call,
        arguments::invalid,
        caller::{FindRole, RoleCaller},
        field_types::Seconds,
        is_shown,
        tool::{RoleArgument, ToolDef},
        waiting::wait,
    },
    Swarm,
    args::{self, Timeout},
    wait_results::unanswered,
};
use crate::{
    mcp::{
        intent,
        question::{About, Asking, is_silence},
    },
    role::{Actions, Refusal},
    toolset::ToolsetChoice,
    wait::Awaited,
};

/// The role that calls, by one of its agents.
pub(super) type Caller<'a> = RoleCaller<'a, Swarm>;

impl FindRole for Swarm {
    const ARGUMENTS: &'static [RoleArgument] = args::UNLISTED;

    fn find_role(call: &Call<'_>, tool: &ToolDef) -> Result<Arc<dyn Actions>, Refusal> {
        let host = call.host;
        let has_tool = |role: &RoleId| tool.sets.iter().any(|it| host.has_set(role, it.set));
        let mut able = call.scope.roles(host);
        able.retain(|role| has_tool(role) && call.only.is_none_or(|only| only == *role));
        let role = match (call.named_role(tool)?, &able[..]) {
            (Some(named), able) => {
                let own = able.iter().find(|it| it.as_str() == named);
                own.copied().ok_or_else(|| another(&named, able))?
            }
            (None, [only]) => only,
            (None, []) => return Err(no_set(tool)),
            (None, _) => return Err(several(&able)),
        };
        host.roles.get(role).map(Arc::clone).ok_or_else(|| no_set(tool))
    }
}

impl Caller<'_> {
    /// Whether the role has this toolset.
    pub(super) fn has_set(&self, set: &str) -> bool {
        self.call.host.has_set(self.role(), set)
    }

    pub(super) fn toolsets(&self) -> Vec<ToolsetChoice> {
        self.call.host.toolsets(self.role())
    }

    /// Whether its agent is shown this tool.
    pub(super) fn has(&self, tool: &str) -> bool {
        is_shown(tool, &self.toolsets())
    }

    /// Does something as the role.
    pub(super) async fn execute<R: Rpc>(&self, request: R) -> Result<R::Response, Refusal> {
        let _playing = self.enter()?;
        self.actions.command(request, intent::of(&self.call.context.meta)).await
    }

    /// Waits for something, for `timeout` at most.
    pub(super) async fn wait(
        &self,
        awaited: Awaited,
        timeout: Option<Timeout>,
    ) -> Result<CallToolResponse, Refusal> {
        let asked = timeout.map(|Timeout(Seconds(asked))| asked);
        let about = About::Swarm { awaited, acks: self.in_flight_acks() };
        let asking = Asking { actions: Arc::clone(&self.actions), about };
        wait(self.call, self.enter()?, asking, asked).await
    }

    /// Waits for what comes of something that the broker has under the name `stored`: that it is
    /// there is told also where nothing else can be.
    pub(super) async fn wait_for_stored(
        &self,
        stored: &impl Display,
        awaited: Awaited,
        timeout: Option<Timeout>,
    ) -> Result<CallToolResponse, Refusal> {
        match self.wait(awaited.clone(), timeout).await {
            Err(refusal) if is_silence(refusal.reason) => {
                Ok(unanswered(self.role(), &awaited, &refusal).into())
            }
            Err(refusal) => {
                let message = format!("It is stored as {stored}. {}", refusal.message);
                Err(Refusal { message, ..refusal })
            }
            waited => waited,
        }
    }

    /// Resolves once the broker knows what the agent was shown so far, or will not soon.
    pub(super) async fn settled(&self) {
        self.in_flight_acks().settled().await;
    }

    /// The agent was given a token with what it holds.
    pub(super) fn granted(&self, what: String, token: u64) {
        self.call.host.claims.granted(self.role(), &self.call.who, what, token);
    }

    /// The token that the agent was given itself; 0: whichever the role has.
    pub(super) fn token(&self, what: &str) -> u64 {
        self.call.host.claims.of(self.role(), &self.call.who, what)
    }

    /// The agent gave back what it held.
    pub(super) fn ended(&self, what: &str) {
        self.call.host.claims.ended(self.role(), &self.call.who, what);
    }

    /// Asks how something stands.
    pub(super) async fn query<R: Rpc>(&self, request: R) -> Result<R::Response, Refusal> {
        self.looked();
        self.actions.query(request).await
    }
}

fn no_set(tool: &ToolDef) -> Refusal {
    let set = tool.sets.first().map_or("", |it| it.set);
    Refusal {
        reason: Reason::RoleForbidden,
        message: format!(
            "no role of this node has a toolset with {name}. No change was made. Ask your user to \
             add one: --role NAME={set}.",
            name = tool.name
        ),
    }
}

fn several(able: &[&RoleId]) -> Refusal {
    let names = names(able);
    let first = able.first().map_or("", |it| it.as_str());
    Refusal {
        reason: Reason::RoleRequired,
        message: format!(
            "several roles of this address may call this tool: {names}. Set `worker_id` to your \
             role if the tool has it, or connect to /mcp/{first}."
        ),
    }
}

fn another(named: &str, able: &[&RoleId]) -> Refusal {
    let names = names(able);
    match able {
        [] => invalid("worker_id", &"is not a role that may call this tool here"),
        _ => Refusal {
            reason: Reason::UnknownWorker,
            message: format!(
                "unknown worker_id {}: you are {names} here. Omit it or use that. No change was \
                 made.",
                echo(named)
            ),
        },
    }
}

fn names(able: &[&RoleId]) -> String {
    able.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(", ")
}
