//! Who calls a tool: a role, by one of its agents.

use std::{marker::PhantomData, sync::Arc};

use tasuki_proto::id::RoleId;

use super::{
    Call,
    tool::{Caller, RoleArgument, ToolDef},
};
use crate::{
    mcp::{in_flight_acks::InFlightAcks, instances::Playing},
    role::{Actions, Refusal},
};

/// How a toolset finds the role that a call is for.
pub(super) trait FindRole {
    /// The arguments that name the role, but where a tool has its own.
    const ARGUMENTS: &'static [RoleArgument];

    fn find_role(call: &Call<'_>, tool: &ToolDef) -> Result<Arc<dyn Actions>, Refusal>;
}

/// The role that calls a tool of the set `S`.
pub(super) struct RoleCaller<'a, S> {
    pub call: &'a Call<'a>,
    pub actions: Arc<dyn Actions>,
    set: PhantomData<fn() -> S>,
}

/// The caller of a tool that acts or waits: only the agent that plays the role may.
pub(super) struct Player<'a, S> {
    pub caller: RoleCaller<'a, S>,
    pub playing: Playing,
}

/// The caller of a tool that looks.
pub(super) struct Reader<'a, S> {
    pub caller: RoleCaller<'a, S>,
    /// Whether what it is shown counts as seen by the role.
    pub counts: bool,
}

impl<'a, S: FindRole> Caller<'a> for RoleCaller<'a, S> {
    const ROLE: &'static [RoleArgument] = S::ARGUMENTS;

    fn resolve(call: &'a Call<'a>, tool: &ToolDef) -> Result<Self, Refusal> {
        let actions = S::find_role(call, tool)?;
        call.admit(actions.role())?;
        Ok(Self { call, actions, set: PhantomData })
    }
}

impl<'a, S: FindRole> Caller<'a> for Player<'a, S> {
    const ROLE: &'static [RoleArgument] = S::ARGUMENTS;

    fn resolve(call: &'a Call<'a>, tool: &ToolDef) -> Result<Self, Refusal> {
        let caller: RoleCaller<'a, S> = RoleCaller::resolve(call, tool)?;
        let playing = caller.enter()?;
        Ok(Self { caller, playing })
    }
}

impl<'a, S: FindRole> Caller<'a> for Reader<'a, S> {
    const ROLE: &'static [RoleArgument] = S::ARGUMENTS;

    fn resolve(call: &'a Call<'a>, tool: &ToolDef) -> Result<Self, Refusal> {
        let caller: RoleCaller<'a, S> = RoleCaller::resolve(call, tool)?;
        let counts = caller.looked();
        Ok(Self { caller, counts })
    }
}

impl<S> RoleCaller<'_, S> {
    pub(super) fn role(&self) -> &RoleId {
        self.actions.role()
    }

    /// The agent acts or waits: it has to play the role.
    pub(super) fn enter(&self) -> Result<Playing, Refusal> {
        self.call.host.enter(&*self.actions, &self.call.who, self.call.client.as_ref())
    }

    /// The agent looks. Whether that is a sign of life of the role.
    pub(super) fn looked(&self) -> bool {
        self.call.host.looked(&*self.actions, &self.call.who, self.call.client.as_ref())
    }

    /// The answers on their way to the agent of the role.
    pub(super) fn in_flight_acks(&self) -> InFlightAcks {
        self.call.host.in_flight_acks.get(self.role()).cloned().unwrap_or_default()
    }
}
