//! `tasuki mail send`, and what an answer is sent with as well.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::{
    host::config::duration,
    id::RoleId,
    limits::{CLIENT_REF_BYTES_MAX, MAIL_EXPIRES_MS_MAX, RECEIVERS_MAX, SUBJECT_BYTES_MAX},
    mail::MessageType,
    reason::Reason,
    visible::is_line,
    wire,
};

use super::{
    Failure, Output, attach,
    body_args::{BodyArgs, HELP},
    kinds,
    mail_client::{MailClient, MailboxArgs},
    queue::{self, is_away},
    show,
};
use crate::{
    cli::{role_args, text::line},
    clock,
    config::Config,
    link::Sent,
    mail_terms::{self, NoReceivers},
};

/// Characters of the text that make a subject where none was given.
const SUBJECT_CHARS: usize = 80;

/// Begin a thread: send a message to one or more roles.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Recipients: roles, or groups of the configuration
    #[arg(long, value_name = "ROLE,ROLE…", value_delimiter = ',', required = true)]
    to: Vec<String>,
    /// Subject [default: the first line of the text]
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// Send as a role that the workspace does not know yet: it gets a mailbox
    #[arg(long)]
    new_role: bool,
    #[command(flatten)]
    words: BodyArgs,
    #[command(flatten)]
    pub(super) send: Sending,
}

/// What can be said of a message or an answer.
#[derive(Debug, clap::Args)]
pub(super) struct Sending {
    /// BR (bug report), ACK, ER (enhancement request), INFO, URGENT or DIS (discussion)
    #[arg(long = "type", value_name = "TYPE", default_value_t = MessageType::Info,
          value_parser = kinds(), ignore_case = true)]
    pub(super) kind: MessageType,
    /// File to attach, at most 16 MiB; repeatable, at most 16 times
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// Expire the message for recipients who have not seen it after this long
    #[arg(long, value_name = "DURATION", value_parser = expiry)]
    expires: Option<Duration>,
    /// Idempotency key: a repeat with the same key is not sent twice
    #[arg(long = "ref", value_name = "NAME")]
    client_ref: Option<String>,
    #[command(flatten)]
    pub(super) mailbox: MailboxArgs,
}

fn expiry(text: &str) -> Result<Duration, String> {
    let after = duration(text)?;
    // What is over at once would be sent to nobody.
    if after.as_millis() == 0 || u128::from(MAIL_EXPIRES_MS_MAX) < after.as_millis() {
        return Err(format!("is {text:?}; it takes 1ms to 365 days"));
    }
    Ok(after)
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let mail = args.send.mailbox.client(config)?;
    if !args.new_role {
        // The broker checks the role when it gets the letter.
        mail.check_known().await.or_else(|why| if is_away(&why) { Ok(()) } else { Err(why) })?;
    }
    let known = roles_beside_groups(&args.to, config, &mail).await?;
    let to = receivers(&args.to, &config.groups, &known, &mail.role)?;
    args.send.check()?;
    if let Some(subject) = &args.subject {
        fits(subject)?;
    }
    let about = args.subject.as_deref().unwrap_or("(the first line)");
    let notes = format!(
        "{} from {} to {}: {about}\nAn empty text sends nothing.",
        args.send.kind,
        mail.role,
        names(&to)
    );
    let text = args.words.read(&notes, config)?;
    let subject = args.subject.clone().unwrap_or_else(|| subject_of(&text.text));
    let request = wire::SendRequest { subject, text: text.text.clone(), ..Default::default() };
    let sent = args.send.carry_out(&mail, config, &to, request).await;
    let sent = text.settle(sent)?;
    tell(&sent, &to, output)
}

impl Sending {
    /// Refuses what the broker would, which may be away and refuse it late.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let name = self.client_ref.as_deref().unwrap_or_default();
        if CLIENT_REF_BYTES_MAX < name.len() || !is_line(name) {
            return Err(Failure::usage(format!(
                "--ref takes a printable text of at most {CLIENT_REF_BYTES_MAX} bytes; nothing was \
                 sent."
            )));
        }
        attach::check(&self.attach)
    }

    /// Sends what `request` says so far; while the broker is away, by way of the node here.
    pub(super) async fn carry_out(
        &self,
        mail: &MailClient,
        config: &Config,
        to: &[RoleId],
        request: wire::SendRequest,
    ) -> Result<Sent, Failure> {
        let attachments = match self.store_files(mail).await {
            Err(why) if is_away(&why) => {
                let text = format!(
                    "{} Nothing was sent: files do not wait in a node's outbox, a message without \
                     --attach does.",
                    why.message
                );
                return Err(Failure::reason(Reason::Unavailable, text));
            }
            stored => stored?,
        };
        let expires = self.expires.map_or(0, |it| it.as_millis());
        let request = wire::SendRequest {
            role: mail.role.to_string(),
            to: to.iter().map(ToString::to_string).collect(),
            r#type: self.kind.to_string(),
            client_ref: self.client_ref.clone().unwrap_or_default(),
            expires_in_ms: u64::try_from(expires).unwrap_or(MAIL_EXPIRES_MS_MAX),
            attachments,
            utc_offset_s: clock::utc_offset_s(),
            ..request
        };
        let sent = match queue::behind(mail, config) {
            Some(why) => queue::by_node(mail, config, &request, why).await,
            None => match send_directly(mail, &request).await {
                Err(why) if is_away(&why) => queue::by_node(mail, config, &request, why).await,
                sent => sent.map(Sent::Stored),
            },
        };
        sent.map_err(|mut failure| {
            if failure.as_reason() == Some(Reason::OutcomeUnknown) && self.client_ref.is_some() {
                failure.message += " Sent again with the same --ref, it is sent once.";
            }
            failure
        })
    }

    async fn store_files(&self, mail: &MailClient) -> Result<Vec<wire::Attachment>, Failure> {
        if !self.attach.is_empty() {
            mail.check_files().await?;
        }
        attach::put(mail, &self.attach).await
    }
}

async fn send_directly(
    mail: &MailClient,
    request: &wire::SendRequest,
) -> Result<wire::SendResponse, Failure> {
    let request = mail.sealed(request.clone()).await?;
    mail.broker.call(&request).await
}

/// The roles of the workspace, where a group is named; none while the broker is away.
async fn roles_beside_groups(
    names: &[String],
    config: &Config,
    mail: &MailClient,
) -> Result<BTreeSet<String>, Failure> {
    if !mail_terms::names_a_group(names, &config.groups) {
        return Ok(BTreeSet::new());
    }
    match role_args::known_roles(&mail.broker).await {
        Err(why) if is_away(&why) => Ok(BTreeSet::new()),
        known => Ok(known?.unwrap_or_default()),
    }
}

fn receivers(
    names: &[String],
    groups: &BTreeMap<String, Vec<RoleId>>,
    known: &BTreeSet<String>,
    sender: &RoleId,
) -> Result<Vec<RoleId>, Failure> {
    mail_terms::receivers(names, groups, known, sender).map_err(|why| match why {
        NoReceivers::Name { name, why } => {
            Failure::usage(format!("--to names {name:?}, which {why}; nothing was sent."))
        }
        NoReceivers::Nobody => Failure::usage(
            "--to names a group that has no other members than you; nothing was sent.",
        ),
        NoReceivers::Ambiguous(name) => Failure::usage(format!(
            "--to names {name}, which is both a group of the configuration and a role of the \
             workspace; nothing was sent. Name the roles that you mean, or rename the group."
        )),
        NoReceivers::TooMany(count) => {
            let text = format!(
                "--to names {count} roles; the limit is {RECEIVERS_MAX}. Nothing was sent."
            );
            Failure::reason(Reason::TooLarge, text)
        }
    })
}

fn fits(subject: &str) -> Result<(), Failure> {
    if subject.len() <= SUBJECT_BYTES_MAX {
        return Ok(());
    }
    let text = format!(
        "--subject is {} bytes long; the limit is {SUBJECT_BYTES_MAX}. Nothing was sent.",
        subject.len()
    );
    Err(Failure::reason(Reason::TooLarge, text))
}

/// The first line with words in it, without what makes it a head or a list.
fn subject_of(text: &str) -> String {
    let bare = |line: &str| {
        line.trim_matches(|c: char| c.is_whitespace() || "#*->=`|_".contains(c)).to_owned()
    };
    let mut lines = text.lines().map(bare);
    let found = lines.find(|it| !it.is_empty()).unwrap_or_else(|| text.trim().to_owned());
    crate::cli::text::short(&found, SUBJECT_CHARS)
}

pub(super) fn names(roles: &[RoleId]) -> String {
    roles.iter().map(RoleId::as_str).collect::<Vec<_>>().join(", ")
}

/// Says what was sent.
pub(super) fn tell(sent: &Sent, to: &[RoleId], output: &mut Output) -> Result<(), Failure> {
    let sent = match sent {
        Sent::Stored(sent) => sent,
        Sent::Queued { message, number } => return tell_queued(message, *number, to, output),
    };
    output.answer(
        || json!(sent),
        || {
            let again = if sent.repeated { " That had been sent before." } else { "" };
            let stays = if sent.r#box() == wire::Box::Inbox {
                " It stays in your inbox: something in it was not read yet."
            } else {
                ""
            };
            let id = line(&sent.message_id);
            let file = line(&sent.file_name);
            format!(
                "Sent {} as entry {}.{again}{stays}\n  {} {file}\n{}",
                id.bold(),
                sent.entry,
                format!("{:<13}", "file").dimmed(),
                show::receipts(&sent.receipts)
            )
        },
    )
}

fn tell_queued(
    message: &str,
    number: u64,
    to: &[RoleId],
    output: &mut Output,
) -> Result<(), Failure> {
    let receipt = |role: &RoleId| json!({ "role": role.as_str(), "receipt": "queued" });
    output.answer(
        || {
            json!({
                "message_id": message,
                "queued": number,
                "receipts": to.iter().map(receipt).collect::<Vec<_>>(),
            })
        },
        || {
            let id = line(message);
            format!(
                "Queued {} as number {number}: the node here sends it, after what waits before it, \
                 once it reaches the broker. `tasuki outbox` shows what waits.\n",
                id.bold()
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_the_first_line_with_words() {
        assert_eq!(subject_of("\n---\n# The **build** fails\nsince"), "The **build** fails");
        assert_eq!(subject_of("***"), "***");
        assert_eq!(subject_of(&"long ".repeat(50)).chars().count(), SUBJECT_CHARS);
        assert!(expiry("0s").is_err() && expiry("366d").is_err() && expiry("2h").is_ok());
    }
}
