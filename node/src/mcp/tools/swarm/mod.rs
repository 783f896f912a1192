//! Issues, tasks, reviews, deliveries, documents and locks: `createIssue` and its sisters.
//!
//! Names, parameters and fields are those of the tools people already have prompts for. Who calls
//! is who the connection is for; a worker's id is its role's name. A refusal is worded as those
//! tools word theirs, with its code beside it. What was added to them is optional: `worker_id` of
//! `extendIssueTaskLease`, `blocked_by` of `createIssueTask`, `repository` of the tools for locks,
//! `commit` and `commands` where something can be run again; and one tool, `planIssueTasks`.
//! `session_id` is taken from whoever still sends it, and does nothing.
//!
//! - [`caller`]: whose call it is. [`fencing_tokens`]: which tokens its agent was given.
//! - [`profile`], [`issues`], [`plan`], [`work`], [`reviews`], [`deliveries`], [`bundle`], [`docs`],
//!   [`locks`]: the tools, by what they are about; [`unfinished`]: what a worker is told first.
//!   [`args`]: types of their arguments; [`graph`]: how tasks of a plan name each other;
//!   [`lock_grants`]: that no lock is kept for nobody.
//! - [`views`], [`delivery_views`]: what they answer, field by field. [`wait_results`], [`items`]:
//!   what waits end with. [`next`]: what an agent does about it, [`hints`]: and about a refusal.
//!   [`answer`]: what each answer says besides.

mod answer;
mod args;
mod bundle;
mod caller;
mod deliveries;
mod delivery_views;
mod docs;
mod fencing_tokens;
mod graph;
mod hints;
mod issues;
mod items;
mod lock_grants;
mod locks;
mod next;
mod plan;
mod profile;
mod prompt;
mod reviews;
#[cfg(test)]
mod tests;
mod unfinished;
mod views;
mod wait_results;
mod work;

use async_trait::async_trait;
use rmcp::model::{CallToolResponse, CallToolResult};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tasuki_proto::id::RoleId;

use self::caller::Caller;
pub(in crate::mcp) use self::{
    fencing_tokens::FencingTokens, lock_grants::LockGrants, wait_results::wait_result,
};
use super::{
    Call, Part, Toolset,
    arguments::UnknownFields,
    refused,
    tool::{Caller as _, Membership, Tool, ToolDef, ToolInfo},
};
use crate::{
    role::Refusal,
    toolset::{SWARM_ACCEPTOR, SWARM_LEAD, SWARM_WORKER, ToolVisibility},
};

const LEAD_FULL: Membership = Membership { set: SWARM_LEAD, from: ToolVisibility::Full };
const LEAD_CORE: Membership = Membership { set: SWARM_LEAD, from: ToolVisibility::Core };
const WORKER_FULL: Membership = Membership { set: SWARM_WORKER, from: ToolVisibility::Full };
const WORKER_CORE: Membership = Membership { set: SWARM_WORKER, from: ToolVisibility::Core };
const ACCEPTOR_FULL: Membership = Membership { set: SWARM_ACCEPTOR, from: ToolVisibility::Full };
const ACCEPTOR_CORE: Membership = Membership { set: SWARM_ACCEPTOR, from: ToolVisibility::Core };

static TOOLS: [ToolDef; 56] = [
    ToolDef::new::<profile::MyProfile>(),
    ToolDef::new::<profile::SwarmNow>(),
    ToolDef::new::<profile::ListWorkers>(),
    ToolDef::new::<profile::GetWorker>(),
    ToolDef::new::<issues::CreateIssue>(),
    ToolDef::new::<issues::GetIssue>(),
    ToolDef::new::<issues::UpdateDocPaths>(),
    ToolDef::new::<issues::CloseIssue>(),
    ToolDef::new::<issues::ReopenIssue>(),
    ToolDef::new::<issues::ExtendIssue>(),
    ToolDef::new::<issues::ListIssues>(),
    ToolDef::new::<issues::ListOpenIssues>(),
    ToolDef::new::<plan::CreateTask>(),
    ToolDef::new::<plan::PlanTasks>(),
    ToolDef::new::<plan::GetTask>(),
    ToolDef::new::<plan::ResetTask>(),
    ToolDef::new::<plan::ListTasks>(),
    ToolDef::new::<plan::ListOpenTasks>(),
    ToolDef::new::<work::RegisterWorker>(),
    ToolDef::new::<work::WaitIssues>(),
    ToolDef::new::<work::WaitTasks>(),
    ToolDef::new::<work::ClaimTask>(),
    ToolDef::new::<work::ExtendTask>(),
    ToolDef::new::<work::SubmitTask>(),
    ToolDef::new::<work::AskTask>(),
    ToolDef::new::<work::PostMessage>(),
    ToolDef::new::<reviews::WaitEvents>(),
    ToolDef::new::<reviews::SelectInbox>(),
    ToolDef::new::<reviews::NextSignal>(),
    ToolDef::new::<reviews::StepInbox>(),
    ToolDef::new::<reviews::GetNextStep>(),
    ToolDef::new::<reviews::ReviewTask>(),
    ToolDef::new::<reviews::ReplyMessage>(),
    ToolDef::new::<deliveries::SubmitDelivery>(),
    ToolDef::new::<deliveries::WaitDeliveries>(),
    ToolDef::new::<deliveries::ClaimDelivery>(),
    ToolDef::new::<deliveries::ExtendDelivery>(),
    ToolDef::new::<deliveries::ReviewDelivery>(),
    ToolDef::new::<deliveries::GetDelivery>(),
    ToolDef::new::<deliveries::ListDeliveries>(),
    ToolDef::new::<deliveries::ListOpenDeliveries>(),
    ToolDef::new::<bundle::GetBundle>(),
    ToolDef::new::<docs::WriteSharedDoc>(),
    ToolDef::new::<docs::ReadSharedDoc>(),
    ToolDef::new::<docs::ListSharedDocs>(),
    ToolDef::new::<docs::WriteIssueDoc>(),
    ToolDef::new::<docs::ReadIssueDoc>(),
    ToolDef::new::<docs::ListIssueDocs>(),
    ToolDef::new::<docs::WriteTaskDoc>(),
    ToolDef::new::<docs::ReadTaskDoc>(),
    ToolDef::new::<docs::ListTaskDocs>(),
    ToolDef::new::<locks::LockFiles>(),
    ToolDef::new::<locks::Heartbeat>(),
    ToolDef::new::<locks::Unlock>(),
    ToolDef::new::<locks::ListLocks>(),
    ToolDef::new::<locks::ForceUnlock>(),
];

/// A tool of these sets.
trait SwarmTool: DeserializeOwned + JsonSchema + Send + 'static {
    const INFO: ToolInfo;

    fn call(
        self,
        caller: &Caller<'_>,
    ) -> impl Future<Output = Result<CallToolResponse, Refusal>> + Send;
}

impl<T: SwarmTool> Tool for T {
    const INFO: ToolInfo = T::INFO;

    type Caller<'a> = Caller<'a>;

    async fn call(self, caller: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        SwarmTool::call(self, &caller).await
    }
}

pub(super) struct Swarm;

#[async_trait]
impl Toolset for Swarm {
    fn tools(&self) -> &'static [ToolDef] {
        &TOOLS
    }

    fn part(&self, _: &RoleId, sets: &[&str], _: &[RoleId]) -> Option<&'static dyn Part> {
        let found = PARTS.into_iter().find(|(set, _)| sets.contains(set));
        found.map(|(_, part)| part as &dyn Part)
    }

    /// The part is the first one's.
    fn prompt_note(&self, sets: &[&str]) -> Option<&'static str> {
        let has = |set| sets.contains(&set);
        match (has(SWARM_LEAD), has(SWARM_WORKER), has(SWARM_ACCEPTOR)) {
            (true, true, true) => Some(
                "You may also do tasks (claimIssueTask, submitIssueTask) and verify deliveries \
                 (claimDelivery, reviewDelivery), never your own.",
            ),
            (true, true, false) => Some(
                "You may also do tasks (claimIssueTask, submitIssueTask) and are then a worker.",
            ),
            (false, true, true) | (true, false, true) => Some(
                "You may also verify deliveries of others (waitDeliveries, claimDelivery, \
                 reviewDelivery).",
            ),
            (true | false, false, false) | (false, true, false) | (false, false, true) => None,
        }
    }

    async fn call(
        &self,
        tool: &'static ToolDef,
        call: &Call<'_>,
        unknown: &UnknownFields,
    ) -> CallToolResponse {
        let called = tool.call(call, unknown).await;
        called.unwrap_or_else(|refusal| {
            let refusal = match Caller::resolve(call, tool) {
                Ok(caller) => hints::with_hint(refusal, tool, &caller.toolsets()),
                Err(_) => refusal,
            };
            prefixed(&refusal).into()
        })
    }
}

/// Prompts look for the word in front.
fn prefixed(refusal: &Refusal) -> CallToolResult {
    let message = format!("ERROR: {}", refusal.message);
    refused(&Refusal { message, ..refusal.clone() })
}

/// Parts by their sets; who has several plays the first.
const PARTS: [(&str, &prompt::IssuePart); 3] = [
    (SWARM_LEAD, &prompt::LEAD),
    (SWARM_WORKER, &prompt::WORKER),
    (SWARM_ACCEPTOR, &prompt::ACCEPTOR),
];

/// The tools that a text names. `heartbeat` and `unlock` are words as well, so they do not count.
#[cfg(test)]
pub(in crate::mcp) fn tools_named_in(text: &str) -> Vec<&'static str> {
    let words: Vec<&str> = text.split(|it: char| !it.is_ascii_alphanumeric()).collect();
    let is_named =
        |name: &&str| name.contains(|it: char| it.is_ascii_uppercase()) && words.contains(name);
    TOOLS.iter().map(|it| it.name).filter(is_named).collect()
}
