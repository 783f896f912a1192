//! Whose mailbox a call is about, and what every answer about it may add.

use std::sync::Arc;

use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use tasuki_proto::{
    echo::bounded,
    id::RoleId,
    limits::ID_BYTES_MAX,
    mail::{MessageName, NoMessageName},
    nearest::did_you_mean,
    reason::Reason,
    visible::is_visible,
    wire,
};

use super::{
    super::{
        Call,
        caller::{self, FindRole, RoleCaller},
        no_set,
        result::{add_text, refused},
        tool::{Listed, RoleArgument, ToolDef},
    },
    Mail,
};
use crate::{
    mcp::host::Scope,
    role::{Actions, Refusal, Seen},
    toolset::MAIL,
};

/// The argument that says who calls.
const RUN_AS: &[RoleArgument] = &[RoleArgument {
    name: "runAs",
    listed: Listed::Optional,
    description: "Your agent ID. Required if this server hosts several agents.",
}];

/// The role that calls, with its mailbox.
pub(super) type Mailbox<'a> = RoleCaller<'a, Mail>;
pub(super) type Player<'a> = caller::Player<'a, Mail>;
pub(super) type Reader<'a> = caller::Reader<'a, Mail>;

impl FindRole for Mail {
    const ARGUMENTS: &'static [RoleArgument] = RUN_AS;

    fn find_role(call: &Call<'_>, tool: &ToolDef) -> Result<Arc<dyn Actions>, Refusal> {
        let role = resolve(call, call.named_role(tool)?.as_deref())?;
        call.host.roles.get(role).map(Arc::clone).ok_or_else(|| no_set(role, MAIL))
    }
}

impl Mailbox<'_> {
    /// Resolves once the broker knows what was shown to the role so far, or will not soon.
    pub(super) async fn settled(&self) {
        self.in_flight_acks().settled().await;
        self.actions.marks_settled().await;
    }

    /// Reads a thread. What the agent is shown of it is marked once it is written.
    pub(super) async fn read_thread(
        &self,
        request: wire::ReadThreadRequest,
    ) -> Result<Seen<wire::ReadThreadResponse>, Refusal> {
        let mark = wire::MailMark::None.into();
        self.actions.look_up(wire::ReadThreadRequest { mark, ..request }).await
    }

    /// The mailboxes of the workspace.
    pub(super) async fn mailboxes(&self) -> Result<Seen<wire::ListMailboxesResponse>, Refusal> {
        self.actions.look_up(wire::ListMailboxesRequest::default()).await
    }
}

/// The roles of this node that a call may be for.
fn available<'a>(call: &'a Call<'_>) -> Vec<&'a RoleId> {
    let host = call.host;
    let with_mail = host.roles.keys().filter(|role| host.has_set(role, MAIL));
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
        (Some(role), _) => Err(no_set(role, MAIL)),
        (None, _) => {
            let shown = named.chars().filter(|c| is_visible(*c)).take(ID_BYTES_MAX);
            let shown: String = shown.collect();
            let near = did_you_mean(&shown, available.iter().map(|it| it.as_str()));
            Err(Refusal {
                reason: Reason::UnknownRole,
                message: format!(
                    "Invalid runAs agent '{shown}'. Available agents: {}{near}",
                    names()
                ),
            })
        }
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
