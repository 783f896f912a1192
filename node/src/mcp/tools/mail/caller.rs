//! Whose mailbox a call is about, and what every answer about it may add.

use std::sync::Arc;

use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use tasuki_proto::{
    echo::bounded,
    id::RoleId,
    limits::ID_BYTES_MAX,
    mail::{MessageName, NoMessageName},
    reason::Reason,
    visible::is_visible,
};

use super::{
    super::{
        Call,
        result::{add_text, refused},
        tool::{Caller, Listed, RoleArgument, ToolDef},
    },
    SET,
};
use crate::{
    mcp::{host::Scope, in_flight_acks::InFlightAcks, instances::Playing},
    role::{Actions, Refusal, mail::Mail},
};

/// The argument that says who calls.
const RUN_AS: &[RoleArgument] = &[RoleArgument {
    name: "runAs",
    listed: Listed::Optional,
    description: "Your agent ID. Required if this server hosts several agents.",
}];

/// The mailbox of the role that calls.
pub(super) struct Mailbox<'a> {
    pub call: &'a Call<'a>,
    pub actions: Arc<dyn Actions>,
    pub acks: InFlightAcks,
}

/// A call that acts or waits: only the agent that plays the role may.
pub(super) struct Player<'a> {
    pub mailbox: Mailbox<'a>,
    pub playing: Playing,
}

impl<'a> Caller<'a> for Player<'a> {
    const ROLE: &'static [RoleArgument] = RUN_AS;

    fn resolve(call: &'a Call<'a>, tool: &ToolDef) -> Result<Self, Refusal> {
        let mailbox = Mailbox::find(call, tool)?;
        let playing = call.host.enter(&*mailbox.actions, &call.who, call.client.as_ref())?;
        Ok(Self { mailbox, playing })
    }
}

/// A call that looks.
pub(super) struct Reader<'a> {
    pub mailbox: Mailbox<'a>,
    /// Whether what it is shown counts as seen by the role.
    pub counts: bool,
}

impl<'a> Caller<'a> for Reader<'a> {
    const ROLE: &'static [RoleArgument] = RUN_AS;

    fn resolve(call: &'a Call<'a>, tool: &ToolDef) -> Result<Self, Refusal> {
        let mailbox = Mailbox::find(call, tool)?;
        let counts = call.host.looked(&*mailbox.actions, &call.who, call.client.as_ref());
        Ok(Self { mailbox, counts })
    }
}

impl<'a> Mailbox<'a> {
    /// The mailbox that a call is about, whoever calls.
    pub(super) fn find(call: &'a Call<'a>, tool: &ToolDef) -> Result<Self, Refusal> {
        let role = resolve(call, call.named_role(tool)?.as_deref())?;
        let host = call.host;
        let mailbox = host.roles.get(role).zip(host.in_flight_acks.get(role));
        let (actions, acks) = mailbox.ok_or_else(|| no_mail(role))?;
        call.admit(role)?;
        Ok(Self { call, actions: Arc::clone(actions), acks: acks.clone() })
    }

    pub(super) fn mail(&self) -> &dyn Mail {
        self.actions.mail()
    }

    /// Resolves once the broker knows what was shown to the role so far, or will not soon.
    pub(super) async fn settled(&self) {
        self.acks.settled().await;
        self.mail().marks_settled().await;
    }

    pub(super) fn role(&self) -> &RoleId {
        self.actions.role()
    }
}

/// The roles of this node that a call may be for.
fn available<'a>(call: &'a Call<'_>) -> Vec<&'a RoleId> {
    let host = call.host;
    let with_mail = host.roles.keys().filter(|role| host.has_set(role, SET));
    with_mail.filter(|role| call.only.is_none_or(|only| only == *role)).collect()
}

/// An address speaks for its own role, and where its token is for the whole node, for the others
/// of it too if they are named.
fn resolve<'a>(call: &'a Call<'_>, named: Option<&str>) -> Result<&'a RoleId, Refusal> {
    let available = available(call);
    let names = || available.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(", ");
    let Some(named) = named else {
        if let Scope::One(actions) = call.scope {
            return Ok(actions.role());
        }
        return match available[..] {
            [only] => Ok(only),
            _ => Err(Refusal {
                reason: Reason::RoleRequired,
                message: format!(
                    "`runAs` is missing, and this node hosts several roles with mail: {}. Set \
                     it to your role.",
                    names()
                ),
            }),
        };
    };
    if let Some(role) = available.iter().find(|it| it.as_str() == named) {
        return Ok(role);
    }
    let hosted = call.host.roles.keys().find(|it| it.as_str() == named);
    match (hosted, call.only) {
        (Some(role), Some(only)) if role != only => Err(Refusal {
            reason: Reason::RoleForbidden,
            message: format!(
                "`runAs` is {role}, but your token is only valid for {only}. Omit it."
            ),
        }),
        (Some(role), _) => Err(no_mail(role)),
        (None, _) => {
            let shown = named.chars().filter(|c| is_visible(*c)).take(ID_BYTES_MAX);
            let shown: String = shown.collect();
            Err(Refusal {
                reason: Reason::UnknownRole,
                message: format!("Invalid runAs agent '{shown}'. Available agents: {}", names()),
            })
        }
    }
}

fn no_mail(role: &RoleId) -> Refusal {
    Refusal {
        reason: Reason::RoleForbidden,
        message: format!(
            "{role} does not have the toolset `{SET}` on this node. No change was made. Ask your \
             user to add it: --role {role}={SET}."
        ),
    }
}

/// A message, as a caller may name it. `Err` says how.
pub(super) fn message_name(name: &str) -> Result<(), Refusal> {
    name.parse::<MessageName>().map(|_| ()).map_err(|why: NoMessageName| Refusal {
        reason: Reason::UnknownMessage,
        message: format!("The name of the message {why}."),
    })
}

/// A refusal in the words that prompts know, with what happened beside them.
pub(super) fn refused_as(words: &str, refusal: &Refusal) -> CallToolResult {
    let mut result = refused(&Refusal { message: words.to_owned(), ..refusal.clone() });
    if let Some(Value::Object(facts)) = &mut result.structured_content
        && let Some(error) = facts.get_mut("error")
    {
        error["message"] = json!(bounded(&format!("{words}. {}", refusal.message)));
    }
    add_text(&mut result, bounded(&refusal.message));
    result
}
