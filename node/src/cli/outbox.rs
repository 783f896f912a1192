//! `tasuki outbox`: letters that wait for the broker, and those it refused late.
//!
//! What there is, is read from the files, whether or not a node runs. A running node decides what
//! goes out, so it is asked to; where none runs, the files are seen to as it would.

use std::{fmt::Write as _, path::Path};

use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use tasuki_proto::{mail::BoxKind, reason::Reason};

use super::{
    Failure, Output, hosting, node_address,
    text::{fitted, line, time},
};
use crate::{
    agent_tokens::Bearing,
    config::Config,
    identity::{Identity, IdentityError},
    link,
    mcp::ask::{Error, post},
    outbox::Settling,
    outbox::{self, Contents, Counts, Outbox, Summarised, Summary, Unreadable},
    paths::NodeFile,
    refusal::Refusal,
};

/// Shown of a subject, or of a reason in a list, in characters.
const SHOWN_CHARS: usize = 72;

/// List, retry and drop messages in this node's outbox
///
/// While the broker is unreachable, the node keeps what its agents send, and sends it in order once
/// the broker is back. What the broker then refuses stays here with the reason: correct the
/// cause and `retry` it, or `drop` it.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
enum Command {
    /// List what waits and what failed, with the reason [default]
    List,
    /// Send a failed message again
    Retry {
        /// Its number in the list
        #[arg(value_name = "ID")]
        number: u64,
    },
    /// Drop a message; it is not sent, unless it was sent a moment ago
    Drop {
        /// Its number in the list
        #[arg(value_name = "ID")]
        number: u64,
    },
}

pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let data = &config.data.value;
    let (number, how) = match args.command.unwrap_or(Command::List) {
        Command::List => {
            let contents = read(data)?;
            return output.answer(|| value(&contents), || lines(&contents));
        }
        Command::Retry { number } => (number, Settling::Retry),
        Command::Drop { number } => (number, Settling::Drop),
    };
    settle(data, number, how).await?;
    let (name, done) = match how {
        Settling::Retry => ("retry", "goes out again"),
        Settling::Drop => ("drop", "was taken out"),
    };
    output.answer(
        || json!({ "number": number, "done": name }),
        || format!("Letter {number} {done}.\n"),
    )
}

fn read(data: &Path) -> Result<Contents, Failure> {
    outbox::read(data).map_err(|why| {
        let place = data.display();
        Failure::local(format!("The outbox in {place} cannot be read: {why}."))
    })
}

/// By the node that runs; else here, in its place.
async fn settle(data: &Path, number: u64, how: Settling) -> Result<(), Failure> {
    let verb = match how {
        Settling::Retry => "retry",
        Settling::Drop => "drop",
    };
    if let Some(file) = NodeFile::read(data) {
        let node = node_address::local(file, data, &Bearing::Node);
        match post(&node, &format!("/outbox/{number}/{verb}")).await {
            Ok(_) => return Ok(()),
            Err(Error::Refused { reason: Some(reason), message }) => {
                return Err(Failure::reason(reason, message));
            }
            // It has ended without a word, and heard nothing of this.
            Err(Error::NoNode { .. }) => {}
            Err(why @ Error::Unanswered { .. }) => {
                let done = match how {
                    Settling::Retry => "sent again",
                    Settling::Drop => "taken out",
                };
                let text = format!(
                    "{} Letter {number} may or may not have been {done}: look with `tasuki outbox`.",
                    hosting::sentence(&why)
                );
                return Err(Failure::reason(Reason::OutcomeUnknown, text));
            }
            Err(why) => return Err(Failure::local(hosting::sentence(&why))),
        }
    }
    // Nobody else may be at it meanwhile.
    let identity = Identity::open(data).map_err(|why| match why {
        IdentityError::InUse(_) => {
            let text = "A node runs here and does not answer yet. Try again in a moment.";
            Failure::reason(Reason::Unavailable, text.to_owned())
        }
        IdentityError::Damaged { .. } | IdentityError::Io { .. } | IdentityError::Random(_) => {
            Failure::local(hosting::sentence(&why))
        }
    })?;
    let outbox = Outbox::open(data).map_err(|why| Failure::local(hosting::sentence(&why)))?;
    let settled = link::settle(&outbox, number, how).await;
    drop(identity);
    match settled {
        Ok(true) => Ok(()),
        Ok(false) => Err(unknown(number, how)),
        Err(Refusal { reason, message }) => Err(Failure::reason(reason, message)),
    }
}

fn unknown(number: u64, how: Settling) -> Failure {
    let what = match how {
        Settling::Retry => "no message that failed",
        Settling::Drop => "nothing",
    };
    let text = format!("There is {what} under number {number} in the outbox.");
    Failure::reason(Reason::UnknownMessage, text)
}

/// How much there is, for who sees to everything at once.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    counts: Counts,
    unreadable: usize,
}

impl Waiting {
    /// An outbox that cannot be read is not the question here; `tasuki outbox` says so.
    pub(super) fn count(data: &Path) -> Self {
        let contents = outbox::read(data).unwrap_or_default();
        Self { counts: contents.counts(), unreadable: contents.unreadable.len() }
    }

    pub(super) fn value(&self) -> Value {
        let Counts { queued, failed } = self.counts;
        json!({ "queued": queued, "failed": failed, "unreadable": self.unreadable })
    }

    /// Nothing when there is nothing.
    pub(super) fn lines(&self) -> String {
        let Counts { queued, failed } = self.counts;
        let mut parts = Vec::new();
        if 0 < queued {
            parts.push(format!("{queued} waiting for the broker"));
        }
        if 0 < failed {
            parts.push(format!("{failed} failed").red().to_string());
        }
        if 0 < self.unreadable {
            parts.push(format!("{} unreadable", self.unreadable).red().to_string());
        }
        if parts.is_empty() {
            return String::new();
        }
        format!("\n{}\n  {}; see `tasuki outbox`\n", "outbox".bold(), parts.join(", "))
    }
}

fn value(contents: &Contents) -> Value {
    let entry = |it: Summary| {
        let what = match &it.what {
            Summarised::Send { to, kind, subject, message } => json!({
                "kind": "send", "to": to, "type": kind, "subject": subject, "message": message,
            }),
            Summarised::Move { messages, to } => json!({
                "kind": "move", "messages": messages,
                "box": BoxKind::of_wire(*to).map(BoxKind::as_str),
            }),
        };
        let failed = it.failed.map(|failed| {
            json!({
                "at_ms": failed.at_ms, "reason": failed.reason, "message": failed.message,
                "is_told": failed.is_told,
            })
        });
        json!({
            "number": it.number,
            "workspace": it.workspace.as_str(),
            "role": it.role.as_str(),
            "queued_ms": it.queued_ms,
            "what": what,
            "state": if failed.is_some() { "failed" } else { "queued" },
            "failed": failed,
        })
    };
    let entries = contents.entries.iter().map(|(it, _)| entry(it.summary()));
    let unreadable = contents.unreadable.iter();
    let unreadable = unreadable.map(|it| json!({ "path": it.path, "why": it.why }));
    json!({
        "entries": entries.collect::<Vec<_>>(),
        "unreadable": unreadable.collect::<Vec<_>>(),
    })
}

fn lines(contents: &Contents) -> String {
    let mut out = String::new();
    let mut write = |text: std::fmt::Arguments<'_>| {
        out.write_fmt(text).expect("a String takes everything");
    };
    for (entry, _) in &contents.entries {
        let it = entry.summary();
        let what = match &it.what {
            Summarised::Send { to, kind, subject, message } => {
                let (to, kind) = (line(&to.join(", ")), line(kind));
                let about = if subject.is_empty() { message } else { subject };
                format!("{kind} to {to}: {}", fitted(about, SHOWN_CHARS))
            }
            Summarised::Move { messages, to } => {
                let to = BoxKind::of_wire(*to).map_or("nowhere", BoxKind::as_str);
                format!("to {to}: {}", fitted(&messages.join(", "), SHOWN_CHARS))
            }
        };
        let (number, since) = (it.number.bold().to_string(), time(it.queued_ms));
        write(format_args!("{number}  {}  since {since}  {what}\n", it.role));
        if let Some(failed) = &it.failed {
            let told =
                if failed.is_told { "the agent was told" } else { "the agent was not told yet" };
            let head = format!("failed ({}), {told}:", line(&failed.reason));
            let why = fitted(&failed.message, 4 * SHOWN_CHARS);
            write(format_args!("   {} {why}\n", head.red()));
        }
    }
    for Unreadable { path, why } in &contents.unreadable {
        let head = "unreadable:".red().to_string();
        write(format_args!("{head} {}: {}\n", line(&path.display().to_string()), line(why)));
    }
    if out.is_empty() {
        return "Nothing waits.\n".to_owned();
    }
    if 0 < contents.counts().failed {
        out += "\n`tasuki outbox retry ID` sends what failed again, `tasuki outbox drop ID` \
                takes it out.\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use tasuki_proto::{id::IdempotencyKey, wire};

    use super::*;
    use crate::outbox::{Entry, Failed, What};

    #[test]
    fn what_waits_and_what_failed_is_shown_without_letting_texts_play_tricks() {
        let request = wire::SendRequest {
            to: vec!["B".to_owned(), "C".to_owned()],
            r#type: "BR".to_owned(),
            subject: "a\u{1b}[31m\nb".to_owned(),
            ..wire::SendRequest::default()
        };
        let letter = Entry {
            number: 7,
            workspace: "default".parse().expect("an id"),
            role: "A".parse().expect("an id"),
            key: IdempotencyKey { client: "mail-0".parse().expect("an id"), counter: 1 },
            may_have_reached: false,
            queued_ms: 0,
            tried_ms: None,
            what: What::Send(Box::new(request)),
            failed: None,
        };
        let moving = wire::MoveRequest {
            messages: vec!["ded6".to_owned()],
            to: wire::Box::Done.into(),
            ..wire::MoveRequest::default()
        };
        let failed = Failed {
            at_ms: 1,
            reason: "unknown_message".to_owned(),
            message: "no thread\u{202e}".to_owned(),
            is_told: false,
        };
        let moving =
            Entry { number: 8, what: What::Move(moving), failed: Some(failed), ..letter.clone() };
        let path = "/data/outbox/x.entry".into();
        let why = "its checksum does not match".to_owned();
        let contents = Contents {
            entries: vec![(letter, 1), (moving, 1)],
            unreadable: vec![Unreadable { path, why }],
        };
        let told = anstream::adapter::strip_str(&lines(&contents)).to_string();
        let since = time(0);
        assert_eq!(
            told,
            format!(
                "7  A  since {since}  BR to B, C: a b\n\
                 8  A  since {since}  to done: ded6\n   \
                 failed (unknown_message), the agent was not told yet: no thread\n\
                 unreadable: /data/outbox/x.entry: its checksum does not match\n\n\
                 `tasuki outbox retry ID` sends what failed again, `tasuki outbox drop ID` takes \
                 it out.\n"
            )
        );
        let value = value(&contents);
        assert_eq!(value["entries"][0]["state"], "queued");
        assert_eq!(value["entries"][1]["failed"]["reason"], "unknown_message");
        assert_eq!(lines(&Contents::default()), "Nothing waits.\n");
    }
}
