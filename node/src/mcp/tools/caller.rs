//! Who calls a tool: a role, by one of its agents.

use std::{marker::PhantomData, sync::Arc};

use tasuki_proto::{echo::echo, id::RoleId, reason::Reason};

use super::{
    Call,
    arguments::invalid,
    label,
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
        let client = self.call.client.as_ref();
        let playing = self.call.host.enter(&*self.actions, &self.call.who, client)?;
        self.call.host.waker.called(self.role(), &label(client));
        Ok(playing)
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

/// The role that calls, of those of the address that have the tool: the only one, or the one that
/// `argument` names. `unknown`: why one is refused that is not among them.
pub(super) fn find_able(
    call: &Call<'_>,
    tool: &ToolDef,
    argument: &str,
    unknown: Reason,
) -> Result<Arc<dyn Actions>, Refusal> {
    let host = call.host;
    let has_tool = |role: &RoleId| tool.sets.iter().any(|it| host.has_set(role, it.set));
    let mut able = call.scope.roles(host);
    able.retain(|role| has_tool(role) && call.only.is_none_or(|only| only == *role));
    let names = || able.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(", ");
    let role = match (call.named_role(tool)?, &able[..]) {
        (None, [only]) => *only,
        (None, []) => return Err(no_set(tool)),
        (None, [first, ..]) => {
            return Err(Refusal {
                reason: Reason::RoleRequired,
                message: format!(
                    "several roles of this address may call this tool: {}. Set `{argument}` to \
                     your role if the tool has it, or connect to /mcp/{first}.",
                    names()
                ),
            });
        }
        (Some(_), []) => {
            return Err(invalid(argument, &"is not a role that may call this tool here"));
        }
        (Some(named), able) => {
            let own = able.iter().copied().find(|it| it.as_str() == named);
            own.ok_or_else(|| Refusal {
                reason: unknown,
                message: format!(
                    "unknown {argument} {}: you are {} here. Omit it or use that. No change was \
                     made.",
                    echo(&named),
                    names()
                ),
            })?
        }
    };
    host.roles.get(role).map(Arc::clone).ok_or_else(|| no_set(tool))
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
