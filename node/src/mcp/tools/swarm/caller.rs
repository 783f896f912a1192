//! Whose call it is.
//!
//! A call is for the role of its connection. Where an address speaks for several roles, it is for
//! the only one of them that has the tool, or for the worker that the call names.

use std::{fmt::Display, sync::Arc};

use rmcp::model::CallToolResponse;
use tasuki_proto::{reason::Reason, rpc::Rpc};

use super::{
    super::{
        Call,
        caller::{FindRole, RoleCaller, find_able},
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
        find_able(call, tool, "worker_id", Reason::UnknownWorker)
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
