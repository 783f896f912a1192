//! Mail that is sent while the broker is away, or while some waits: by way of the node that runs
//! here, which keeps it.
//!
//! **Invariant:** a letter goes to the node only if the broker cannot have got it.

use prost::Message as _;
use tasuki_proto::{reason::Reason, wire};

use super::{Failure, mail_client::MailClient};
use crate::{
    agent_tokens::Bearing,
    cli::{broker::Broker, hosting, node_address},
    config::{Config, Source},
    link::Sent,
    mcp::{
        ask::{Error, post_body},
        letter,
    },
    outbox::{self, Entry},
    paths::NodeFile,
};

/// Whether the broker was not reached, and so took nothing.
pub(super) fn is_away(failure: &Failure) -> bool {
    failure.as_reason() == Some(Reason::Unavailable)
}

/// The refusal with what holds besides, where the broker was not reached.
pub(super) fn with_rest(why: Failure, rest: &str) -> Failure {
    why.if_unreached(rest)
}

/// Hands a letter to the node. `why`: what is said where there is none.
pub(super) async fn by_node(
    mail: &MailClient,
    config: &Config,
    letter: &wire::SendRequest,
    why: Failure,
) -> Result<Sent, Failure> {
    let (broker, role) = (&mail.broker, &mail.role);
    let unsent = |text: String| Failure::reason(Reason::Unavailable, text);
    let data = &config.data.value;
    let Some(file) = NodeFile::read(data) else {
        let workspace = broker.workspace();
        let is_usual =
            config.workspace.source == Source::Default && *workspace == config.workspace.value;
        let workspace = if is_usual { String::new() } else { format!(" --workspace {workspace}") };
        return Err(unsent(format!(
            "{} Nothing was sent. A running node keeps mail until the broker is back: `tasuki node \
             --broker {}{workspace} --role {role}{}`.",
            why.message,
            broker.url,
            hosting::data_flag(config)
        )));
    };
    if let Some(not_ours) = not_ours(&file, broker) {
        return Err(unsent(format!("{} Nothing was sent. {not_ours}", why.message)));
    }
    let node = node_address::local(file, data, &Bearing::Node);
    match post_body(&node, &format!("/mail/{role}"), letter.encode_to_vec().into()).await {
        Ok(answer) => letter::read(answer).ok_or_else(unknown),
        Err(Error::Refused { reason: Some(Reason::UnknownRole), .. }) => Err(unsent(format!(
            "{} The node here does not host {role}, so it keeps nothing for it either. Nothing was \
             sent.",
            why.message
        ))),
        Err(Error::Refused { reason: Some(reason), message }) => {
            Err(Failure::reason(reason, message))
        }
        Err(Error::Unanswered { .. } | Error::Unreadable { .. }) => Err(unknown()),
        Err(other) => {
            let other = hosting::sentence(&other);
            Err(unsent(format!("{} {other} Nothing was sent.", why.message)))
        }
    }
}

/// What is said once the node may have got the letter.
fn unknown() -> Failure {
    let text = "The node here did not say what became of the letter: it may or may not wait there, \
                or be sent. Look with `tasuki outbox` and `tasuki mail list outbox` before sending \
                it again.";
    Failure::reason(Reason::OutcomeUnknown, text)
}

/// Why a letter has to go by way of the node though the broker may be back: letters of its role
/// wait there, and it would go past them.
pub(super) fn behind(mail: &MailClient, config: &Config) -> Option<Failure> {
    let (data, role) = (&config.data.value, &mail.role);
    let node = NodeFile::read(data).filter(|node| not_ours(node, &mail.broker).is_none())?;
    node.roles.iter().find(|it| *it == role.as_str())?;
    let waits = |(it, _): &(Entry, u64)| {
        it.failed.is_none() && it.workspace == *mail.broker.workspace() && it.role == *role
    };
    outbox::read(data).ok()?.entries.iter().find(|it| waits(it))?;
    let text =
        format!("Mail of {role} waits in the outbox of the node here, and this goes after it.");
    Some(Failure::reason(Reason::Unavailable, text))
}

/// What is said of a node that keeps mail for another workspace or broker.
fn not_ours(node: &NodeFile, broker: &Broker) -> Option<String> {
    let workspace = broker.workspace().as_str();
    let mut flags = Vec::new();
    if node.workspace != workspace {
        flags.push(format!("--workspace {}", node.workspace));
    }
    if !node.is_at(&broker.url) {
        flags.push(format!("--broker {}", node.broker));
    }
    (!flags.is_empty()).then(|| {
        format!(
            "The node here keeps mail for workspace {} of {} alone; whether that broker or another \
             has a workspace {workspace}, it cannot say. If you meant the node's, send with `{}`.",
            node.workspace,
            node.broker,
            flags.join(" ")
        )
    })
}
