//! `filebox_send_message`.

use std::collections::BTreeSet;

use rmcp::model::{CallToolResponse, CallToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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
        arguments::{invalid, missing},
        field_types::{Name, Names, Seconds, Text, Word},
        result::{Time, text_result},
        sanitizer::Sanitizer,
        tool::{Tool, ToolInfo},
    },
    QUIET,
    caller::{Mailbox, Player, message_name, refused_as},
    files,
    views::{Receipt, millis, place},
};
use crate::{
    clock,
    link::Sent,
    mail_terms::{self, NoReceivers},
    mcp::intent,
    role::Refusal,
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

/// Sends a message to other agents, or replies to one. An identical call right after is sent once;
/// with `client_ref`, a repeat at any time is.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct SendMessage {
    /// An agent, a list of up to 32 agents, or a group. A reply goes to the latest sender by default.
    receiver_id: Option<Names>,
    /// BR bug report, ACK receipt, ER request, INFO (default), URGENT, DIS discussion.
    msg_type: Option<Word<MessageType>>,
    /// Subject. A reply keeps the subject of its thread.
    #[schemars(required)]
    title: Option<Text<{ usize::MAX }>>,
    /// Body in Markdown.
    content: Text,
    /// Message to reply to: message ID, ID prefix or file name.
    original_message_id: Option<Name>,
    /// Paths of files in your project, up to 16.
    #[schemars(with = "Option<Vec<String>>")]
    attachments: Option<Names>,
    /// Expires if unread after this many seconds. Up to 365 days.
    #[schemars(with = "Option<u64>", range(min = 1))]
    expires_sec: Option<Seconds>,
    /// Idempotency key: a repeat is not sent twice.
    client_ref: Option<Name>,
}

impl Tool for SendMessage {
    const INFO: ToolInfo = ToolInfo::write("filebox_send_message", QUIET);

    type Caller<'a> = Player<'a>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let mailbox = &player.caller;
        let answered = self.original_message_id.map(|it| it.0);
        let unknown = |name: &str| format!("Original message {name} not found");
        if let Some(name) = &answered
            && let Err(why) = message_name(name)
        {
            let name: String = name.chars().take(NAME_CHARS_MAX).collect();
            return Ok(refused_as(&unknown(&name), &why).into());
        }
        let named = self.receiver_id.unwrap_or_default().0;
        let to = match &answered {
            Some(name) if named.is_empty() => match sender_of(mailbox, name).await {
                Err(why) if why.reason == Reason::UnknownMessage => {
                    return Ok(refused_as(&unknown(name), &why).into());
                }
                to => to?,
            },
            Some(_) | None => receivers(mailbox, &named).await?,
        };
        // An answer keeps its thread's.
        let subject = if answered.is_some() { String::new() } else { subject(self.title)? };
        let key = intent::of(&mailbox.call.context.meta);
        let client_ref = client_ref(self.client_ref)?;
        let request = wire::SendRequest {
            to: to.iter().map(ToString::to_string).collect(),
            r#type: self.msg_type.map_or(MessageType::Info, |it| it.0).to_string(),
            subject,
            text: self.content.0,
            in_reply_to: answered.clone().unwrap_or_default(),
            // A model says the same again when its client gave it no answer in time.
            fold: key.is_none() && client_ref.is_empty(),
            client_ref,
            expires_in_ms: expires_in_ms(self.expires_sec)?,
            utc_offset_s: clock::utc_offset_s(),
            ..Default::default()
        };
        let attachments = files::attach(mailbox, self.attachments.unwrap_or_default().0).await?;
        let request = wire::SendRequest { attachments, ..request };
        mailbox.settled().await;
        match mailbox.actions.send(request, key).await {
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
                Ok(text_result(DONE, json!(stored)).into())
            }
            Ok(Sent::Queued { message, number }) => Ok(queued(&to, &message, number).into()),
            Err(refusal) => match answered {
                Some(name) if refusal.reason == Reason::UnknownMessage => {
                    Ok(refused_as(&unknown(&name), &refusal).into())
                }
                Some(_) | None => Err(refusal),
            },
        }
    }
}

/// A name shown back, in characters.
const NAME_CHARS_MAX: usize = 80;

fn queued(to: &[RoleId], message: &str, number: u64) -> CallToolResult {
    let text = format!(
        "Message queued as number {number}: the broker is unreachable. It is sent when the broker \
         is back. Do not send it again."
    );
    let receipt =
        |role: &RoleId| Receipt { role: role.to_string(), receipt: "queued", at: Time(0) };
    let receipts: Vec<Receipt> = to.iter().map(receipt).collect();
    let facts = json!({
        "message": text, "queued": number, "message_id": message, "receipts": receipts,
    });
    text_result(text, facts)
}

/// The roles of the workspace; none where the broker was never there, or does not show them.
async fn roles(mailbox: &Mailbox<'_>) -> Result<BTreeSet<String>, Refusal> {
    match mailbox.mailboxes().await {
        Ok(all) => Ok(all.what.mailboxes.into_iter().map(|it| it.role).collect()),
        Err(why) if [Reason::Unavailable, Reason::RightForbidden].contains(&why.reason) => {
            Ok(BTreeSet::new())
        }
        Err(why) => Err(why),
    }
}

/// Whom an answer goes to that names nobody.
async fn sender_of(mailbox: &Mailbox<'_>, message: &str) -> Result<Vec<RoleId>, Refusal> {
    let request = wire::ReadThreadRequest {
        message: message.to_owned(),
        last: mail_terms::ANSWERED_ENTRIES,
        ..Default::default()
    };
    let read = mailbox.read_thread(request).await?.what;
    let thread = read.thread.unwrap_or_default();
    let to = mail_terms::answered(&thread, &read.entries, mailbox.role(), false);
    match to.is_empty() {
        true => Err(missing("receiver_id", "nobody else takes part in this thread")),
        false => Ok(to),
    }
}

async fn receivers(mailbox: &Mailbox<'_>, names: &[String]) -> Result<Vec<RoleId>, Refusal> {
    const FIELD: &str = "receiver_id";
    let groups = &mailbox.call.host.groups;
    if names.is_empty() {
        return Err(missing(FIELD, "give an agent, a list of agents, or a group"));
    }
    let known = match mail_terms::names_a_group(names, groups) {
        true => roles(mailbox).await?,
        false => BTreeSet::new(),
    };
    mail_terms::receivers(names, groups, &known, mailbox.role()).map_err(|why| match why {
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
fn subject(title: Option<Text<{ usize::MAX }>>) -> Result<String, Refusal> {
    const FIELD: &str = "title";
    let Text(title) = title.ok_or_else(|| invalid(FIELD, &"is empty: give the subject"))?;
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

fn client_ref(name: Option<Name>) -> Result<String, Refusal> {
    const FIELD: &str = "client_ref";
    let Name(name) = name.unwrap_or_default();
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
fn expires_in_ms(after: Option<Seconds>) -> Result<u64, Refusal> {
    const FIELD: &str = "expires_sec";
    let Some(Seconds(after)) = after else { return Ok(0) };
    let ms = millis(after);
    if MAIL_EXPIRES_MS_MAX < ms {
        let days = MAIL_EXPIRES_MS_MAX / (24 * 3600 * 1000);
        return Err(invalid(FIELD, &format_args!("is more than {days} days")));
    }
    // What is over at once would be sent to nobody.
    if ms == 0 { Err(invalid(FIELD, &"must be more than 0")) } else { Ok(ms) }
}
