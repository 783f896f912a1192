//! What an agent can do, as MCP tools: one file per toolset. A tool parses, asks its role, and
//! words the answer.
//!
//! Tools declare no output schema: clients that validate structured content against it do so
//! for refusals too, which would hide them from the model.

mod arguments;
mod ignored;
mod mail;
mod result;
pub(super) mod sanitizer;
mod swarm;
mod turn_loop;
mod waiting;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use rmcp::{
    RoleServer,
    model::{CallToolResponse, CallToolResult, Implementation, JsonObject, Tool},
    service::RequestContext,
};
use tasuki_proto::{id::RoleId, reason::Reason, visible::is_visible};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use self::{arguments::Arguments, ignored::Ignored};
use super::{
    hold::{self, Transport},
    host::{Host, Scope},
    instances::Playing,
    transport::write_ack::WriteAck,
};
use crate::{
    config::{Shown, ToolsetChoice},
    role::{Actions, Refusal, player::Instance},
};

#[cfg(test)]
pub(super) use self::swarm::named;
pub(super) use self::{
    mail::{SET as MAIL, arrived},
    result::{refused, time},
    swarm::{ACCEPTOR, Claims, Grants, LEAD, WORKER, told},
    turn_loop::{AWAIT_MY_TURN, HANDOVER_WORK, LOOP_STATUS, SET as LOOP, Status, awaited},
};

/// What is known of a tool besides what clients are told.
struct ToolDef {
    name: &'static str,
    /// The sets it belongs to: at least one.
    sets: &'static [In],
}

/// A tool's place in one toolset.
#[derive(Clone, Copy)]
struct In {
    set: &'static str,
    /// Listed where at least so much of the set is asked for.
    from: Shown,
}

impl ToolDef {
    fn is_in(&self, set: &str) -> bool {
        self.sets.iter().any(|it| it.set == set)
    }

    /// Whether it belongs to what is to be shown of a chosen set.
    fn is_shown(&self, choices: &[ToolsetChoice]) -> bool {
        let by = |choice: &ToolsetChoice, it: &In| choice.set == it.set && it.from <= choice.shown;
        self.sets.iter().any(|it| choices.iter().any(|choice| by(choice, it)))
    }
}

const IN_THE_LOOP: [In; 1] = [In { set: turn_loop::SET, from: Shown::Core }];

/// The tools of the loop, by name.
const OF_THE_LOOP: [ToolDef; 3] = [
    ToolDef { name: AWAIT_MY_TURN, sets: &IN_THE_LOOP },
    ToolDef { name: HANDOVER_WORK, sets: &IN_THE_LOOP },
    ToolDef { name: LOOP_STATUS, sets: &IN_THE_LOOP },
];

/// Every tool. A toolset that is not here has none yet.
fn rows() -> impl Iterator<Item = &'static ToolDef> {
    OF_THE_LOOP.iter().chain(&mail::ROWS).chain(swarm::ROWS)
}

/// Whether there is anything in a toolset.
pub(crate) fn has_tools(set: &str) -> bool {
    rows().any(|row| row.is_in(set))
}

/// The same as clients are told of them.
fn tools(role_is_required: bool) -> Vec<Tool> {
    let mut tools = turn_loop::tools(role_is_required);
    tools.extend(mail::tools());
    tools.extend(swarm::tools());
    tools
}

/// One call, with what the transport knows about it.
pub(super) struct Call<'a> {
    pub host: &'a Host,
    pub scope: &'a Scope,
    pub arguments: JsonObject,
    pub client: Option<Implementation>,
    /// Which agent calls, of those that may play the role.
    pub who: Instance,
    /// The only role that its token is for.
    pub only: Option<&'a RoleId>,
    /// From the address or a header.
    pub hold: Option<Duration>,
    /// The client takes a task for an answer, and is woken when it ends.
    pub takes_tasks: bool,
    pub transport: Transport,
    /// Cancelled when the connection ends, where there is one.
    pub gone: Option<&'a CancellationToken>,
    pub probe: Option<WriteAck>,
    pub context: &'a RequestContext<RoleServer>,
    /// Once its role is known, its place among the role's calls.
    pub admitted: OnceLock<Option<OwnedSemaphorePermit>>,
}

impl Call<'_> {
    /// Takes room for the call as `role`, until it is over.
    fn admit(&self, role: &RoleId) -> Result<(), Refusal> {
        if self.admitted.get().is_none() {
            // Nobody else admits this call.
            drop(self.admitted.set(self.host.admit(role)?));
        }
        Ok(())
    }

    /// The call is held from here on; unless it is answered, its client gave it up.
    fn hold_for(&self, hold: Duration) -> Held<'_> {
        let client = self.client.as_ref();
        let held = self.host.learning.begin(client, hold, self.hold.is_some());
        if let Some(probe) = &self.probe {
            probe.when_cut(held.clone());
        }
        Held { held, gone: self.gone }
    }

    /// The role that the parameter `field` names, if it has the toolset `set`.
    fn role(
        &self,
        arguments: Arguments<'_>,
        field: &'static str,
        set: &str,
    ) -> Result<Arc<dyn Actions>, Refusal> {
        let named = arguments.name(field)?;
        let actions = self.scope.resolve(self.host, field, named.as_deref())?;
        self.admit(actions.role())?;
        may_use(self.host, actions.role(), set)?;
        Ok(actions)
    }

    /// The same for a call that only looks.
    fn spectator(
        &self,
        arguments: Arguments<'_>,
        field: &'static str,
        set: &str,
    ) -> Result<Arc<dyn Actions>, Refusal> {
        let actions = self.role(arguments, field, set)?;
        self.host.looked(&*actions, &self.who, self.client.as_ref());
        Ok(actions)
    }

    /// The same for a call that acts or waits: only the agent that plays the role may.
    fn player(
        &self,
        arguments: Arguments<'_>,
        field: &'static str,
        set: &str,
    ) -> Result<(Arc<dyn Actions>, Playing), Refusal> {
        let actions = self.role(arguments, field, set)?;
        let playing = self.host.enter(&*actions, &self.who, self.client.as_ref())?;
        Ok((actions, playing))
    }
}

/// A held call. Dropped without an answer, it was cancelled or its stream broke.
struct Held<'a> {
    held: hold::Held,
    gone: Option<&'a CancellationToken>,
}

impl Held<'_> {
    fn answered(self) {
        self.held.ended();
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // The end of an agent's process says nothing of how long it would have waited.
        match self.gone {
            Some(gone) if gone.is_cancelled() => self.held.ended(),
            Some(_) | None => self.held.cut(),
        }
    }
}

pub(super) fn label(client: Option<&Implementation>) -> String {
    /// A client's name and version, in characters: they are shown in status lines.
    const LABEL_CHARS_MAX: usize = 80;
    client.map_or_else(
        || "unknown".to_owned(),
        |client| {
            let label = format!("{} {}", client.name, client.version);
            label.chars().filter(|c| is_visible(*c)).take(LABEL_CHARS_MAX).collect()
        },
    )
}

/// The names of the tools that a role with these toolsets is shown, in the order of the alphabet.
pub(super) fn names(choices: &[ToolsetChoice]) -> Vec<&'static str> {
    let mut names: Vec<&str> =
        rows().filter(|row| row.is_shown(choices)).map(|row| row.name).collect();
    names.sort_unstable();
    names
}

/// Whether a role with these toolsets is shown this tool.
fn is_shown(tool: &str, choices: &[ToolsetChoice]) -> bool {
    rows().any(|row| row.name == tool && row.is_shown(choices))
}

/// The same with the instance it says it is.
pub(super) fn label_as(client: &str, who: &Instance) -> String {
    match who.id() {
        Some(id) if !client.is_empty() => format!("{client} as {id}"),
        Some(_) | None => client.to_owned(),
    }
}

/// The tools of an address, by name. Where the address names the role, the parameter that
/// repeats it is optional.
pub(super) fn list(host: &Host, scope: &Scope) -> Vec<Tool> {
    listed(rows(), &scope.toolsets(host), tools(matches!(scope, Scope::All)))
}

/// Of `tools` those that a role with these toolsets is shown.
fn listed<'a>(
    rows: impl Iterator<Item = &'a ToolDef>,
    choices: &[ToolsetChoice],
    mut tools: Vec<Tool>,
) -> Vec<Tool> {
    let names: Vec<&str> = rows.filter(|row| row.is_shown(choices)).map(|row| row.name).collect();
    tools.retain(|tool| names.contains(&tool.name.as_ref()));
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools
}

/// The tools that a role with these toolsets is shown, as the JSON that a model reads; empty where
/// it is shown none.
fn shown_json(choices: &[ToolsetChoice]) -> String {
    let tools = listed(rows(), choices, tools(false));
    match tools.as_slice() {
        [] => String::new(),
        tools => serde_json::to_string(tools).expect("tools are JSON"),
    }
}

/// How large the tools of a role with these toolsets are for a model, in bytes. Some four bytes are
/// a token.
pub fn tools_bytes(choices: &[ToolsetChoice]) -> usize {
    shown_json(choices).len()
}

/// A role may call every tool of its sets, listed or not.
fn may_use(host: &Host, role: &RoleId, set: &str) -> Result<(), Refusal> {
    if host.has_set(role, set) {
        return Ok(());
    }
    let message = format!(
        "{role} does not have the toolset `{set}` on this node. No change was made. Ask your user \
         to add it: --role {role}={set}."
    );
    Err(Refusal { reason: Reason::RoleForbidden, message })
}

/// `None`: there is no tool of this name.
pub(super) async fn call(name: &str, call: Call<'_>) -> Option<CallToolResponse> {
    let row = rows().find(|row| row.name == name)?;
    if let Scope::One(actions) = call.scope
        && !row.sets.iter().any(|it| call.host.has_set(actions.role(), it.set))
    {
        return None;
    }
    let mut response = carry_out(row, &call).await?;
    Ignored::of(row.name, &call.arguments).tell(&mut response);
    Some(response)
}

async fn carry_out(row: &ToolDef, call: &Call<'_>) -> Option<CallToolResponse> {
    let arguments = Arguments::new(&call.arguments);
    let done: Result<CallToolResult, Refusal> = match row.name {
        AWAIT_MY_TURN => match turn_loop::await_my_turn(call, arguments).await {
            Ok(CallToolResponse::Complete(result)) => Ok(result),
            Ok(task) => return Some(task),
            Err(refusal) => Err(refusal),
        },
        HANDOVER_WORK => turn_loop::handover_work(call, arguments).await,
        LOOP_STATUS => turn_loop::loop_status(call, arguments).await,
        _ => {
            let done = match row.is_in(MAIL) {
                true => mail::call(row.name, call, arguments).await?,
                false => swarm::call(row, call, arguments).await?,
            };
            let refused = |refusal| CallToolResponse::Complete(refused(&refusal));
            return Some(done.unwrap_or_else(refused));
        }
    };
    let result = done.unwrap_or_else(|refusal| refused(&refusal));
    Some(CallToolResponse::Complete(result))
}

fn schema(properties: serde_json::Value, required: &[&str]) -> Arc<JsonObject> {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    schema.insert("required".to_owned(), required.into());
    Arc::new(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_name_cannot_pass_for_other_text() {
        let client = Implementation::new("a\u{202e}b\u{2028}\u{1b}[1mc", "1\n2");
        assert_eq!(label(Some(&client)), "ab[1mc 12");
    }

    #[test]
    fn a_set_in_full_shows_what_its_core_does_not() {
        let rows = [
            ToolDef { name: "read", sets: &[In { set: "mail", from: Shown::Core }] },
            ToolDef { name: "send", sets: &[In { set: "mail", from: Shown::Quiet }] },
            ToolDef { name: "purge", sets: &[In { set: "mail", from: Shown::Full }] },
            ToolDef { name: "wait", sets: &[In { set: "loop", from: Shown::Core }] },
            ToolDef {
                name: "look",
                sets: &[
                    In { set: "swarm-lead", from: Shown::Core },
                    In { set: "swarm-worker", from: Shown::Full },
                ],
            },
        ];
        let names = |choices: &[&str]| {
            let choices: Vec<ToolsetChoice> =
                choices.iter().map(|choice| choice.parse().expect("a toolset")).collect();
            let tools =
                rows.iter().map(|row| Tool::new(row.name, "", schema(serde_json::json!({}), &[])));
            let listed = listed(rows.iter(), &choices, tools.collect());
            listed.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&[]), "");
        assert_eq!(names(&["swarm-acceptor"]), "");
        assert_eq!(names(&["mail:quiet", "loop:quiet"]), "send");
        assert_eq!(names(&["mail"]), "read send");
        assert_eq!(names(&["mail:full"]), "purge read send");
        assert_eq!(names(&["swarm-worker"]), "");
        assert_eq!(names(&["swarm-worker:full"]), "look");
        assert_eq!(names(&["swarm-worker", "swarm-lead"]), "look");
        assert_eq!(names(&["loop", "mail"]), "read send wait");
        assert_eq!(names(&["loop:full", "mail", "mail:full"]), "purge read send wait");
    }

    #[test]
    fn every_tool_has_its_row_and_every_row_its_tool() {
        let mut rows: Vec<&str> = rows().map(|row| row.name).collect();
        rows.sort_unstable();
        let tools = tools(true);
        let mut told: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        told.sort_unstable();
        assert_eq!(rows, told);
    }

    /// As many as it can keep apart, with those for mail that come with its name.
    #[test]
    fn who_works_on_issues_is_shown_few_tools() {
        for name in ["lead", "worker1", "acceptor"] {
            let role: RoleId = name.parse().expect("an id");
            let shown = listed(rows(), &crate::config::usual_toolsets(&role), tools(false));
            let bytes = serde_json::to_string(&shown).expect("tools are JSON").len();
            assert!(shown.len() <= 16, "{name}: {}", shown.len());
            assert!(bytes <= 12 * 1024, "{name}: {bytes} bytes");
            let has = |tool| shown.iter().any(|it| it.name == tool);
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
    fn mail_costs_a_model_little() {
        const TOKENS_MAX: usize = 2_000;
        let of = |choice: &str| tokens(&[choice.parse().expect("a toolset")]);
        let (core, full) = (of("mail"), of("mail:full"));
        assert!((500..=TOKENS_MAX).contains(&core), "{core}");
        assert!((core + 100..=TOKENS_MAX + 1_000).contains(&full), "{full}");
    }
}
