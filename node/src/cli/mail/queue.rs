//! Mail that is sent while the broker is away: by way of the node that runs here, which keeps it.
//!
//! **Invariant:** a letter goes to the node only if the broker cannot have got it.

use prost::Message as _;
use tasuki_proto::{reason::Reason, wire};

use super::{Failure, who::Mail};
use crate::{
    agent_tokens::Bearing,
    cli::{broker::Broker, hosting, reach},
    config::{Config, Source},
    mcp::{
        ask::{Error, post_body},
        letter,
    },
    paths::NodeFile,
    role::mail::Sent,
};

/// Whether the broker was not reached, and so took nothing.
pub(super) fn is_away(failure: &Failure) -> bool {
    failure.as_reason() == Some(Reason::Unavailable)
}

/// The refusal with what holds besides, where the broker was not reached.
pub(super) fn with_rest(why: Failure, rest: &str) -> Failure {
    match is_away(&why) {
        true => Failure::reason(Reason::Unavailable, format!("{} {rest}", why.message)),
        false => why,
    }
}

/// Hands a letter to the node. `why`: what is said where there is none.
pub(super) async fn by_node(
    mail: &Mail,
    config: &Config,
    letter: &wire::SendRequest,
    why: Failure,
) -> Result<Sent, Failure> {
    let (broker, role) = (&mail.broker, &mail.role);
    let unsent = |text: String| Failure::reason(Reason::Unavailable, text);
    let data = &config.data.value;
    let Some(file) = NodeFile::read(data) else {
        let workspace = match &config.workspace.source {
            Source::Default => String::new(),
            Source::File { .. } | Source::Env(_) | Source::Filebox(_) | Source::Flag(_) => {
                format!(" --workspace {}", broker.workspace())
            }
        };
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
    let node = reach::running(file, data, &Bearing::Node);
    match post_body(&node, &format!("/mail/{role}"), letter.encode_to_vec().into()).await {
        Ok(answer) => letter::read(answer).ok_or_else(|| {
            let text = "The node's answer cannot be read: the letter may or may not wait there. Look \
                        with `tasuki outbox` before sending it again.";
            Failure::reason(Reason::OutcomeUnknown, text)
        }),
        Err(Error::Refused { reason: Some(Reason::UnknownRole), .. }) => Err(unsent(format!(
            "{} The node here does not host {role}, so it keeps nothing for it either. Nothing was \
             sent.",
            why.message
        ))),
        Err(Error::Refused { reason: Some(reason), message }) => {
            Err(Failure::reason(reason, message))
        }
        Err(Error::NoNode { why: silent, .. }) if silent.kind() == std::io::ErrorKind::TimedOut => {
            let text = "The node here does not answer: the letter may or may not wait there. Look \
                        with `tasuki outbox` before sending it again.";
            Err(Failure::reason(Reason::OutcomeUnknown, text))
        }
        Err(other) => {
            let other = hosting::sentence(&other);
            Err(unsent(format!("{} {other} Nothing was sent.", why.message)))
        }
    }
}

/// What is said of a node that keeps mail for another workspace or broker.
fn not_ours(node: &NodeFile, broker: &Broker) -> Option<String> {
    let workspace = broker.workspace().as_str();
    let mut flags = Vec::new();
    if node.workspace != workspace {
        flags.push(format!("--workspace {}", node.workspace));
    }
    if node.broker != broker.url {
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
