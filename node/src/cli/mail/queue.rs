//! Mail that is sent while the broker is away: by way of the node that runs here, which keeps it.
//!
//! **Invariant:** a letter goes to the node only if the broker cannot have got it.

use prost::Message as _;
use tasuki_proto::{reason::Reason, wire};

use super::{Failure, who::Mail};
use crate::{
    agent_tokens::Bearing,
    cli::{hosting, reach},
    config::Config,
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
    let is_ours =
        |it: &NodeFile| it.workspace == broker.workspace().as_str() && it.broker == broker.url;
    let Some(file) = NodeFile::read(data).filter(is_ours) else {
        return Err(unsent(format!(
            "{} Nothing was sent. A running node keeps mail until the broker is back: `tasuki node \
             --broker {} --role {role}`.",
            why.message, broker.url
        )));
    };
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
