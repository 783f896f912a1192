//! What an agent can do, as MCP tools: a registry of toolsets, and what all of them share.
//!
//! A [`Toolset`] is plugged in by its line in [`TOOLSETS`]: lists, schemas, prompts, and the sets
//! that a role can be given follow from it. A [`Tool`](tool::Tool) is a struct of arguments
//! ([`field_types`]) and what calling it does.
//!
//! Tools declare no output schema: clients that validate structured content against it do so
//! for refusals too, which would hide them from the model.

mod arguments;
mod board;
mod call;
mod caller;
mod commands;
mod elicit;
mod field_types;
mod files;
mod gateway;
mod ignored;
mod mail;
mod pipeline;
mod result;
mod runs;
pub(super) mod sanitizer;
mod suspended;
mod swarm;
mod tool;
mod turn_loop;
mod view;
pub(super) mod waiting;

use std::collections::BTreeSet;

use async_trait::async_trait;
use rmcp::{
    ErrorData,
    model::{CallToolResponse, Tool as ToolListing},
};
use tasuki_proto::{id::RoleId, reason::Reason};

use self::{arguments::UnknownFields, tool::ToolDef};
use super::host::{Host, Scope};
use crate::{
    role::Refusal,
    toolset::{MAIL, RUN_STEP, RUNS, ToolVisibility, ToolsetChoice},
};

#[cfg(test)]
pub(super) use self::swarm::tools_named_in;
pub(super) use self::{
    board::wait_result as board_result,
    call::{Call, label, label_as},
    gateway::{held, tell_changes},
    mail::wait_result as mail_result,
    result::{refused, time},
    runs::{end_run, ended_or_asked, read_steps, run_resource_facts, run_result},
    suspended::SuspendedCalls,
    swarm::{FencingTokens, LockGrants, wait_result as swarm_result},
    turn_loop::{HANDOVER_WORK, LoopView, turn_result},
};

/// Tools that a role is given together.
#[async_trait]
trait Toolset: Sync {
    fn tools(&self) -> &'static [ToolDef];

    /// How a role with these sets is played, if it is with these tools. `order`: of the roles that
    /// take turns.
    fn part(&self, role: &RoleId, sets: &[&str], order: &[RoleId]) -> Option<&'static dyn Part>;

    /// What the prompt of a role says of these tools whose part is another's, or one of several of
    /// theirs.
    fn prompt_note(&self, sets: &[&str]) -> Option<&'static str>;

    /// Answers a call. `unknown` gets the arguments that the tool does not have.
    async fn call(
        &self,
        tool: &'static ToolDef,
        call: &Call<'_>,
        unknown: &UnknownFields,
    ) -> CallToolResponse {
        let called = tool.call(call, unknown).await;
        called.unwrap_or_else(|refusal| refused(&refusal).into())
    }
}

/// How a role is played with a toolset.
pub(super) trait Part: Sync {
    /// For a person who chooses among prompts.
    fn description(&self) -> &'static str;

    /// Whether its user has to say what the work is for.
    fn needs_goal(&self) -> bool {
        false
    }

    /// For a first message or a file of rules.
    fn prompt(&self, role: &RoleId, goal: &str) -> String;

    /// For the server's instructions, with a sentence about `mail`. `None`: it is played by turns
    /// or by mail.
    fn instructions(&self, _role: &RoleId, _mail: &str) -> Option<String> {
        None
    }

    /// What one does first who takes turns.
    fn first_step(&self) -> &'static str {
        ""
    }
}

/// How a role with these toolsets is played: by the last of the registry that says so.
pub(super) fn part(
    role: &RoleId,
    toolsets: &[ToolsetChoice],
    order: &[RoleId],
) -> Option<&'static dyn Part> {
    let sets = playable(toolsets);
    TOOLSETS.iter().rev().find_map(|it| it.part(role, &sets, order))
}

/// What the prompt of a role with these toolsets says beside its part, a sentence for each kind of
/// tools.
pub(super) fn prompt_notes(
    role: &RoleId,
    toolsets: &[ToolsetChoice],
    order: &[RoleId],
) -> Vec<String> {
    let sets = playable(toolsets);
    let main = TOOLSETS.iter().rposition(|it| it.part(role, &sets, order).is_some());
    let notes = TOOLSETS.iter().enumerate().filter_map(|(at, toolset)| {
        let own = toolset.tools().iter().flat_map(|tool| tool.sets).map(|it| it.set);
        let own: BTreeSet<&str> = own.filter(|set| sets.contains(set)).collect();
        // One set of the main ones is its part.
        let is_more = if Some(at) == main { 1 < own.len() } else { !own.is_empty() };
        toolset.prompt_note(&sets).filter(|_| is_more)
    });
    notes.map(str::to_owned).collect()
}

/// The sets of which a role is shown what playing a part with them takes.
fn playable(toolsets: &[ToolsetChoice]) -> Vec<&'static str> {
    let is_enough = |it: &&ToolsetChoice| {
        // These are made to be used beside others.
        it.shown != ToolVisibility::Quiet || [MAIL, RUNS].contains(&it.set)
    };
    toolsets.iter().filter(is_enough).map(|it| it.set).collect()
}

/// Every toolset.
static TOOLSETS: [&dyn Toolset; 9] = [
    &turn_loop::TurnLoop,
    &mail::Mail,
    &swarm::Swarm,
    &runs::Runs,
    &board::Boards,
    &pipeline::Pipelines,
    &gateway::Gateway,
    &files::FileTools,
    &commands::CommandTools,
];

fn tools() -> impl Iterator<Item = &'static ToolDef> {
    TOOLSETS.iter().flat_map(|it| it.tools())
}

/// The tools that a role with these toolsets is shown, in the order of the alphabet.
fn shown<'a>(
    tools: impl Iterator<Item = &'a ToolDef>,
    choices: &[ToolsetChoice],
) -> Vec<&'a ToolDef> {
    let mut shown: Vec<_> = tools.filter(|it| it.is_shown(choices)).collect();
    shown.sort_unstable_by_key(|it| it.name);
    shown
}

/// Their names.
pub(super) fn names(choices: &[ToolsetChoice]) -> Vec<&'static str> {
    shown(tools(), choices).into_iter().map(|it| it.name).collect()
}

/// Whether there is a tool of this name.
pub(super) fn is_tool(name: &str) -> bool {
    tools().any(|it| it.name == name)
}

/// Whether a role with these toolsets is shown this tool.
fn is_shown(tool: &str, choices: &[ToolsetChoice]) -> bool {
    tools().any(|it| it.name == tool && it.is_shown(choices))
}

/// The tools of an address, by name. Where the address names the role, the parameter that
/// repeats it is optional.
pub(super) async fn list(host: &Host, scope: &Scope) -> Vec<ToolListing> {
    let shown = shown(tools(), &scope.toolsets(host));
    let own = shown.into_iter().map(|it| it.listing(matches!(scope, Scope::All)));
    let mut all: Vec<ToolListing> = own.chain(gateway::listed(host, scope).await).collect();
    // One server's are in its own order.
    if scope.server().is_none() {
        all.sort_by(|a, b| a.name.cmp(&b.name));
    }
    all
}

/// The tools that a role with these toolsets is shown, as the JSON that a model reads; empty where
/// it is shown none.
fn shown_json(choices: &[ToolsetChoice]) -> String {
    let shown: Vec<_> = shown(tools(), choices).into_iter().map(|it| it.listing(false)).collect();
    match shown.as_slice() {
        [] => String::new(),
        tools => serde_json::to_string(tools).expect("tools are JSON"),
    }
}

/// How large the tools of a role with these toolsets are for a model, in bytes. Some four bytes are
/// a token.
pub fn tools_bytes(choices: &[ToolsetChoice]) -> usize {
    shown_json(choices).len()
}

/// Whether a call goes on to another server: said twice, it is done twice.
pub(super) fn is_passed_on(tool: &str) -> bool {
    !is_tool(tool) || tools().any(|it| it.name == tool && it.passes_on())
}

/// Whether a tool certainly changes nothing.
pub(super) fn is_read_only(tool: &str) -> bool {
    tools().any(|it| it.name == tool && it.is_read_only())
}

/// The refusal of a call as a role that does not have the tool's set. A role may call every tool of
/// its sets, listed or not.
fn no_set(role: &RoleId, set: &str) -> Refusal {
    let message = format!(
        "{role} does not have the toolset `{set}` on this node. No change was made. Ask your user \
         to add it: --role {role}={set}."
    );
    Refusal { reason: Reason::RoleForbidden, message }
}

/// `None`: there is no tool of this name.
pub(super) async fn call(
    name: &str,
    mut call: Call<'_>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    // A server may call its tools as this node calls its own.
    if call.scope.server().is_some() {
        return gateway::call_named(name, &mut call).await;
    }
    let found =
        |set: &&'static dyn Toolset| Some((*set, set.tools().iter().find(|it| it.name == name)?));
    let Some((toolset, tool)) = TOOLSETS.iter().find_map(found) else {
        return gateway::call_named(name, &mut call).await;
    };
    let has_set = || call.scope.toolsets(call.host).iter().any(|choice| tool.is_in(choice.set));
    // Where an address speaks for several roles, the tool says which of them may call it; what is for
    // sub-agents none may.
    let is_of_roles = matches!(call.scope, Scope::All) && !tool.is_in(RUN_STEP);
    if !is_of_roles && !has_set() {
        return None;
    }
    let unknown = UnknownFields::default();
    let mut response = toolset.call(tool, &call, &unknown).await;
    ignored::report(tool, unknown.into_inner(), &mut response);
    Some(Ok(response))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No tool is in two toolsets, each is in a set, and each set that a role can be given has one.
    #[test]
    fn each_tool_is_of_one_toolset() {
        let mut names = BTreeSet::new();
        let twice: Vec<&str> =
            tools().map(|it| it.name).filter(|name| !names.insert(*name)).collect();
        assert!(twice.is_empty(), "in two toolsets: {twice:?}");
        let sets: BTreeSet<&str> = tools().flat_map(|it| it.sets).map(|it| it.set).collect();
        let mut known = BTreeSet::from(crate::toolset::NAMES);
        // No role is given this one.
        known.insert(RUN_STEP);
        let differing: Vec<_> = sets.symmetric_difference(&known).collect();
        assert!(differing.is_empty(), "without tools, or with tools and unknown: {differing:?}");
        for tool in tools() {
            assert!(!tool.sets.is_empty(), "{}", tool.name);
        }
    }

    /// As many as it can keep apart, with those for mail that come with its name.
    #[test]
    fn who_works_on_issues_is_shown_few_tools() {
        for name in ["lead", "worker1", "acceptor"] {
            let role: RoleId = name.parse().expect("an id");
            let choices = crate::toolset::usual_toolsets(&role);
            let (shown, bytes) = (names(&choices), tools_bytes(&choices));
            assert!(shown.len() <= 16, "{name}: {}", shown.len());
            assert!(bytes <= 12 * 1024, "{name}: {bytes} bytes");
            let has = |tool| shown.contains(&tool);
            assert!(has("filebox_send_message") && !has(HANDOVER_WORK), "{name}");
        }
    }

    fn tokens(choices: &[ToolsetChoice]) -> usize {
        tiktoken_rs::cl100k_base_singleton().encode_ordinary(&shown_json(choices)).len()
    }

    /// A model reads the tools before anything else, each time.
    #[test]
    fn the_turn_loop_costs_a_model_little() {
        const TOKENS_MAX: usize = 1_500;
        let of = |choice: &str| tokens(&[choice.parse().expect("a toolset")]);
        let told = of("loop:full");
        assert!((100..=TOKENS_MAX).contains(&told), "{told}");
        assert_eq!(tokens(&[]), 0);
    }

    #[test]
    fn runs_cost_a_model_little() {
        const TOKENS_MAX: usize = 1_200;
        let of = |choice: &str| tokens(&[choice.parse().expect("a toolset")]);
        let told = of("runs:full");
        assert!((300..=TOKENS_MAX).contains(&told), "{told}");
        assert!(of("runs:quiet") < told, "{told}");
    }

    #[test]
    fn mail_costs_a_model_little() {
        const TOKENS_MAX: usize = 2_000;
        let of = |choice: &str| tokens(&[choice.parse().expect("a toolset")]);
        let (core, full) = (of("mail"), of("mail:full"));
        assert!((500..=TOKENS_MAX).contains(&core), "{core}");
        assert!((core + 100..=TOKENS_MAX + 1_000).contains(&full), "{full}");
    }
}
