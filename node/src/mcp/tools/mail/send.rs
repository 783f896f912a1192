//! `filebox_send_message`.

use std::collections::{BTreeMap, BTreeSet};

use rmcp::model::CallToolResult;
use serde::Serialize;
use serde_json::json;
use tasuki_proto::{
    echo::echo,
    id::RoleId,
    limits::{CLIENT_REF_BYTES_MAX, MAIL_EXPIRES_MS_MAX, RECEIVERS_MAX, SUBJECT_BYTES_MAX},
    mail::MessageType,
    reason::Reason,
    wire,
};

use super::{
    super::{
        Call,
        arguments::{Arguments, invalid, missing},
        result::said,
        sanitizer::Sanitizer,
    },
    caller::{Caller, message_name, one_of, refused_as},
    facts::{Receipt, place},
    files,
};
use crate::{
    clock,
    mail_terms::{self, NoReceivers},
    mcp::intent,
    role::{Refusal, mail::Sent},
};

const DONE: &str = "Message sent successfully";

#[derive(Debug, Serialize)]
struct Stored {
    message: &'static str,
    message_id: String,
    file_name: String,
    entry: u32,
    #[serde(rename = "box")]
    place: &'static str,
    receipts: Vec<Receipt>,
    /// It had been sent before.
    repeated: bool,
}

pub(super) async fn send_message(
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let (caller, _playing) = Caller::player(call, arguments)?;
    let to = receivers(&call.host.groups, &caller, arguments).await?;
    let kind: MessageType = one_of(arguments, "msg_type", str::to_uppercase)?
        .ok_or_else(|| missing("msg_type", "one of BR, ACK, ER, INFO, URGENT, DIS"))?;
    let text = arguments.words("content", "give the body of the message")?;
    let answered = arguments.name("original_message_id")?;
    let unknown = |name: &str| format!("Original message {name} not found");
    if let Some(name) = &answered
        && let Err(why) = message_name(name)
    {
        let name: String = name.chars().take(NAME_CHARS_MAX).collect();
        return Ok(refused_as(&unknown(&name), &why));
    }
    // An answer keeps its thread's.
    let subject = if answered.is_some() { String::new() } else { subject(arguments)? };
    let key = intent::of(&call.context.meta);
    let client_ref = client_ref(arguments)?;
    let request = wire::SendRequest {
        to: to.iter().map(ToString::to_string).collect(),
        r#type: kind.to_string(),
        subject,
        text,
        in_reply_to: answered.clone().unwrap_or_default(),
        // A model says the same again when its client gave it no answer in time.
        fold: key.is_none() && client_ref.is_empty(),
        client_ref,
        expires_in_ms: expires_in_ms(arguments)?,
        utc_offset_s: clock::utc_offset_s(),
        ..Default::default()
    };
    let attachments = files::attached(call, &caller, arguments).await?;
    let request = wire::SendRequest { attachments, ..request };
    caller.settled().await;
    match caller.mail().send(request, key).await {
        Ok(Sent::Stored(stored)) => {
            let stored = Stored {
                message: DONE,
                place: place(stored.r#box()),
                message_id: stored.message_id,
                file_name: Sanitizer::default().line(&stored.file_name),
                entry: stored.entry,
                receipts: stored.receipts.iter().map(Receipt::new).collect(),
                repeated: stored.repeated,
            };
            Ok(said(DONE, json!(stored)))
        }
        Ok(Sent::Queued { message, number }) => Ok(queued(&to, &message, number)),
        Err(refusal) => match answered {
            Some(name) if refusal.reason == Reason::UnknownMessage => {
                Ok(refused_as(&unknown(&name), &refusal))
            }
            Some(_) | None => Err(refusal),
        },
    }
}

/// A name shown back, in characters.
const NAME_CHARS_MAX: usize = 80;

fn queued(to: &[RoleId], message: &str, number: u64) -> CallToolResult {
    let told = format!(
        "Message queued as number {number}: the broker is unreachable. It is sent when the broker \
         is back. Do not send it again."
    );
    let receipt = |role: &RoleId| Receipt { role: role.to_string(), receipt: "queued", at_ms: 0 };
    let receipts: Vec<Receipt> = to.iter().map(receipt).collect();
    let facts = json!({
        "message": told, "queued": number, "message_id": message, "receipts": receipts,
    });
    said(told, facts)
}

/// The roles of the workspace; none where the broker was never there, or does not show them.
async fn roles(caller: &Caller) -> Result<BTreeSet<String>, Refusal> {
    match caller.mail().mailboxes().await {
        Ok(all) => Ok(all.what.mailboxes.into_iter().map(|it| it.role).collect()),
        Err(why) if [Reason::Unavailable, Reason::RightForbidden].contains(&why.reason) => {
            Ok(BTreeSet::new())
        }
        Err(why) => Err(why),
    }
}

async fn receivers(
    groups: &BTreeMap<String, Vec<RoleId>>,
    caller: &Caller,
    arguments: Arguments<'_>,
) -> Result<Vec<RoleId>, Refusal> {
    const FIELD: &str = "receiver_id";
    let names = arguments.names(FIELD)?;
    if names.is_empty() {
        return Err(missing(FIELD, "give an agent, a list of agents, or a group"));
    }
    let known = match mail_terms::names_a_group(&names, groups) {
        true => roles(caller).await?,
        false => BTreeSet::new(),
    };
    mail_terms::receivers(&names, groups, &known, caller.role()).map_err(|why| match why {
        NoReceivers::Name { name, why } => {
            invalid(FIELD, &format_args!("is not a name: {} {why}", echo(&name)))
        }
        NoReceivers::Nobody => invalid(FIELD, &"is a group with no members other than you"),
        NoReceivers::Ambiguous(name) => {
            let why = "is the name of a group and of an agent; list the agents instead";
            invalid(FIELD, &format_args!("names {name}, which {why}"))
        }
        NoReceivers::TooMany(count) => Refusal {
            reason: Reason::TooLarge,
            message: format!(
                "`{FIELD}` lists {count} agents; the limit is {RECEIVERS_MAX}. Nothing was sent."
            ),
        },
    })
}

/// One line, as the head of a thread has room for.
fn subject(arguments: Arguments<'_>) -> Result<String, Refusal> {
    const FIELD: &str = "title";
    // As one line it may be short enough.
    let title = arguments.at_most(usize::MAX).words(FIELD, "give the subject")?;
    let subject = title.split(['\r', '\n']).map(str::trim).filter(|it| !it.is_empty());
    let subject = subject.collect::<Vec<_>>().join(" ");
    if SUBJECT_BYTES_MAX < subject.len() {
        return Err(Refusal {
            reason: Reason::TooLarge,
            message: format!(
                "`{FIELD}` is {} bytes long; the limit is {SUBJECT_BYTES_MAX}. Nothing was sent. \
                 Move the rest to `content`.",
                subject.len()
            ),
        });
    }
    Ok(subject)
}

fn client_ref(arguments: Arguments<'_>) -> Result<String, Refusal> {
    const FIELD: &str = "client_ref";
    let name = arguments.name(FIELD)?.unwrap_or_default();
    if CLIENT_REF_BYTES_MAX < name.len() {
        return Err(Refusal {
            reason: Reason::TooLarge,
            message: format!(
                "`{FIELD}` is {} bytes long; the limit is {CLIENT_REF_BYTES_MAX}. Nothing was sent.",
                name.len()
            ),
        });
    }
    Ok(name)
}

/// 0: never.
fn expires_in_ms(arguments: Arguments<'_>) -> Result<u64, Refusal> {
    const FIELD: &str = "expires_sec";
    let Some(after) = arguments.seconds(FIELD)? else { return Ok(0) };
    let ms = super::facts::millis(after);
    if MAIL_EXPIRES_MS_MAX < ms {
        let days = MAIL_EXPIRES_MS_MAX / (24 * 3600 * 1000);
        return Err(invalid(FIELD, &format_args!("is more than {days} days")));
    }
    // What is over at once would be sent to nobody.
    if ms == 0 { Err(invalid(FIELD, &"must be more than 0")) } else { Ok(ms) }
}
