//! One call of a tool, with what the transport knows about it.

use std::{sync::OnceLock, time::Duration};

use rmcp::{
    RoleServer,
    model::{Implementation, InputResponses, JsonObject},
    service::RequestContext,
};
use tasuki_proto::{id::RoleId, visible::is_visible};
use tokio_util::sync::CancellationToken;

use super::{
    arguments::read_field,
    field_types::Name,
    tool::{RoleArgument, ToolDef},
};
use crate::{
    mcp::{
        hold::{self, Transport},
        host::{Host, Places, Scope},
        intent,
        transport::write_ack::WriteAck,
    },
    role::{Refusal, player::Instance},
};

/// One call, with what the transport knows about it.
pub(in crate::mcp) struct Call<'a> {
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
    /// What its user said to what an earlier call of this kind was answered with.
    pub inputs: InputResponses,
    /// What came with what that call was answered with.
    pub request_state: Option<String>,
    pub context: &'a RequestContext<RoleServer>,
    /// Once its role is known, its place among the role's calls.
    pub admitted: OnceLock<Places>,
}

impl Call<'_> {
    /// Takes room for the call as `role`, until it is over.
    pub(super) fn admit(&self, role: &RoleId) -> Result<(), Refusal> {
        if self.admitted.get().is_none() {
            // Nobody else admits this call.
            drop(self.admitted.set(Vec::from_iter(self.host.admit(role)?)));
        }
        Ok(())
    }

    /// How long ago it was said first, to a node that is gone.
    pub(super) fn age(&self) -> Duration {
        intent::age(&self.context.meta)
    }

    /// The call is held from here on; unless it is answered, its client gave it up.
    pub(super) fn hold_for(&self, hold: Duration) -> Held<'_> {
        // A sub-agent is ended by others, and who was held before by another node is held for a
        // part: that says nothing of how long a client waits.
        let is_whole = !self.scope.is_step() && self.age().is_zero();
        let client = self.client.as_ref().filter(|_| is_whole);
        let held = self.host.learning.begin(client, hold, self.hold.is_some());
        if let Some(probe) = &self.probe {
            probe.when_cut(held.clone());
        }
        Held { held, gone: self.gone }
    }

    /// The role that the arguments name.
    pub(super) fn named_role(&self, tool: &ToolDef) -> Result<Option<String>, Refusal> {
        let mut named = None;
        for RoleArgument { name, .. } in tool.role {
            let role = read_field(&self.arguments, name)?.map(|Name(role)| role);
            named = named.or(role);
        }
        Ok(named)
    }
}

/// A held call. Dropped without an answer, it was cancelled or its stream broke.
pub(super) struct Held<'a> {
    held: hold::Held,
    gone: Option<&'a CancellationToken>,
}

impl Held<'_> {
    pub(super) fn answered(self) {
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

pub(in crate::mcp) fn label(client: Option<&Implementation>) -> String {
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

/// A client's label with the instance it says it is.
pub(in crate::mcp) fn label_as(client: &str, who: &Instance) -> String {
    match who.id() {
        Some(id) if !client.is_empty() => format!("{client} as {id}"),
        Some(_) | None => client.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_name_cannot_pass_for_other_text() {
        let client = Implementation::new("a\u{202e}b\u{2028}\u{1b}[1mc", "1\n2");
        assert_eq!(label(Some(&client)), "ab[1mc 12");
    }
}
