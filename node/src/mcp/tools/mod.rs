//! What an agent can do, as MCP tools: one file per toolset. A tool parses, asks its role, and
//! words the answer.
//!
//! Tools declare no output schema: clients that validate structured content against it do so
//! for refusals too, which would hide them from the model.

mod arguments;
mod result;
mod turn_loop;

use std::{sync::Arc, time::Duration};

use rmcp::{
    RoleServer,
    model::{CallToolResponse, CallToolResult, Implementation, JsonObject, Tool},
    service::RequestContext,
};
use tokio_util::sync::CancellationToken;

use self::arguments::Arguments;
use super::{
    handed::Probe,
    hold::{self, Transport},
    host::{Host, Scope},
    instances::Playing,
};
use crate::role::{Actions, Refusal, player::Instance};

pub(super) use self::{
    result::refused,
    turn_loop::{HANDOVER_WORK, Looked, awaited, look},
};

/// One call, with what the transport knows about it.
pub(super) struct Call<'a> {
    pub host: &'a Host,
    pub scope: &'a Scope,
    pub arguments: JsonObject,
    pub client: Option<Implementation>,
    /// Which agent calls, of those that may play the role.
    pub who: Instance,
    /// From the address or a header.
    pub hold: Option<Duration>,
    /// The client takes a task for an answer, and is woken when it ends.
    pub takes_tasks: bool,
    pub transport: Transport,
    /// Cancelled when the connection ends, where there is one.
    pub gone: Option<&'a CancellationToken>,
    pub probe: Option<Probe>,
    pub context: &'a RequestContext<RoleServer>,
}

impl Call<'_> {
    /// Name and version, and which instance, for people.
    fn client_label(&self) -> String {
        label_as(self.client.as_ref(), &self.who)
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

    /// The role that the parameter `field` names, for a call that only looks.
    fn spectator(
        &self,
        arguments: Arguments<'_>,
        field: &'static str,
    ) -> Result<Arc<dyn Actions>, Refusal> {
        let named = arguments.name(field)?;
        let actions = self.scope.resolve(self.host, field, named.as_deref())?;
        if self.host.instances.looked(actions.role(), &self.who) {
            actions.called(&self.client_label());
        }
        Ok(actions)
    }

    /// The same for a call that acts or waits: only the agent that plays the role may.
    fn player(
        &self,
        arguments: Arguments<'_>,
        field: &'static str,
    ) -> Result<(Arc<dyn Actions>, Playing), Refusal> {
        let named = arguments.name(field)?;
        let actions = self.scope.resolve(self.host, field, named.as_deref())?;
        let client = label(self.client.as_ref());
        let playing = self.host.instances.enter(actions.role(), &self.who, &client)?;
        actions.called(&self.client_label());
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
            label.chars().filter(|c| !c.is_control()).take(LABEL_CHARS_MAX).collect()
        },
    )
}

/// The same with the instance it says it is.
pub(super) fn label_as(client: Option<&Implementation>, who: &Instance) -> String {
    match who.id() {
        Some(id) => format!("{} as {id}", label(client)),
        None => label(client),
    }
}

/// The tools of an address, by name. Where the address names the role, the parameter that
/// repeats it is optional.
pub(super) fn list(scope: &Scope) -> Vec<Tool> {
    let mut tools = turn_loop::tools(matches!(scope, Scope::All));
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools
}

/// `None`: there is no tool of this name.
pub(super) async fn call(name: &str, call: Call<'_>) -> Option<CallToolResponse> {
    let arguments = Arguments::new(&call.arguments);
    let done: Result<CallToolResult, Refusal> = match name {
        turn_loop::AWAIT_MY_TURN => match turn_loop::await_my_turn(&call, arguments).await {
            Ok(CallToolResponse::Complete(result)) => Ok(result),
            Ok(task) => return Some(task),
            Err(refusal) => Err(refusal),
        },
        HANDOVER_WORK => turn_loop::handover_work(&call, arguments).await,
        turn_loop::LOOP_STATUS => turn_loop::loop_status(&call, arguments).await,
        _ => return None,
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
