//! `filebox_read_message` and `filebox_thread`: what a thread says, as a file and as entries.
//!
//! What is shown is seen by its role once it is written, unless another agent plays the role, or
//! unseen entries before it were left out.

use std::{cmp::Ordering, sync::Arc, time::Duration};

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tasuki_proto::{
    counted::counted,
    id::Timestamp,
    mail::{BoxKind, MessageId},
    reason::Reason,
    wire::{self, MailMark, MailThread},
};

use super::{
    super::{
        arguments::invalid,
        field_types::{Name, Word},
        result::{add_text, json_result, text_result},
        sanitizer::{FRAME, Sanitizer},
        tool::{Tool, ToolInfo},
        view::is_nothing,
    },
    CORE,
    caller::{Mailbox, Reader, message_name, refused_as},
    outbox_failures,
    views::{Entry, Thread, caution, millis},
};
use crate::{
    filebox::{self, Document},
    mcp::transport::write_ack::Mark,
    outbox::Summary,
    role::Refusal,
};

const UNKNOWN: &str = "Message not found";

/// Which entries are wanted.
#[derive(Debug, Clone, Copy)]
enum Want {
    /// All; where they are too many, from the first unseen one on, or the newest.
    All,
    Last(u32),
    From(u32),
}

/// Entries of a thread without gaps, and how old that is.
struct Part {
    thread: MailThread,
    entries: Vec<wire::MailEntry>,
    ago: Option<Duration>,
}

impl Part {
    fn first(&self) -> u32 {
        self.entries.first().map_or(1, |it| it.number)
    }

    /// 0: none.
    fn last(&self) -> u32 {
        self.entries.last().map_or(0, |it| it.number)
    }

    /// What of the thread is not among them; empty when all is.
    fn left_out(&self) -> String {
        let (first, last, all) = (self.first(), self.last(), self.thread.entries);
        let ask = |from| {
            let id = &self.thread.message_id;
            format!("call filebox_thread with message_id {id} and from {from}")
        };
        match (first.cmp(&1), last.cmp(&all)) {
            (Ordering::Greater, Ordering::Less) => format!(
                " Shown: entries {first} to {last} of {all}. For earlier ones, {}; for later ones, \
                 from {}.",
                ask(1),
                last + 1
            ),
            (Ordering::Greater, _) => {
                format!(" Shown: entries {first} to {last} of {all}. For earlier ones, {}.", ask(1))
            }
            (_, Ordering::Less) => {
                let after = ask(last + 1);
                format!(" Shown: entries {first} to {last} of {all}. For later ones, {after}.")
            }
            _ => String::new(),
        }
    }

    /// What its role has seen once this is written; `None`: no more than before.
    fn mark(&self, mailbox: &Mailbox<'_>, counts: bool) -> Option<Mark> {
        let is_whole = self.thread.unseen == 0 || self.first() <= self.thread.first_unseen;
        if !counts || !is_whole || self.ago.is_some() || self.entries.is_empty() {
            return None;
        }
        let message: MessageId = self.thread.message_id.parse().ok()?;
        let (actions, mark) = (Arc::clone(&mailbox.actions), MailMark::Seen);
        let on_its_way = mailbox.in_flight_acks().begin();
        Some(Mark::Mail { actions, message, through: self.last(), mark, on_its_way })
    }
}

/// Returns a message with its whole thread, newest entry first.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ReadMessage {
    #[schemars(required)]
    box_type: Option<Word<BoxKind>>,
    /// File name, message ID or ID prefix.
    filename: Name,
}

impl Tool for ReadMessage {
    const INFO: ToolInfo = ToolInfo::read("filebox_read_message", CORE);

    type Caller<'a> = Reader<'a>;

    async fn call(self, reader: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let Reader { caller: mailbox, counts } = reader;
        let Name(name) = self.filename;
        let part = match message_name(&name) {
            Ok(()) => load(&mailbox, &name, Want::All).await,
            Err(why) => Err(why),
        };
        let part = match part {
            Ok(part) => part,
            Err(why) if why.reason == Reason::UnknownMessage => {
                return Ok(refused_as(UNKNOWN, &kept_instead(&mailbox, &name, why).await).into());
            }
            Err(why) => return Err(why),
        };
        let is_in = BoxKind::of_wire(part.thread.r#box());
        if let (Some(Word(place)), Some(is_in)) = (self.box_type, is_in)
            && place != is_in
        {
            let why = Refusal {
                reason: Reason::UnknownMessage,
                message: format!("It is in {is_in}, not in {place}."),
            };
            return Ok(refused_as(UNKNOWN, &why).into());
        }
        let mut others = Sanitizer::default();
        let text = markdown(&part, &mut others);
        let kept = kept(&mailbox, &part).await;
        let facts = ThreadView::new(&mailbox, &part, &kept, &mut Sanitizer::default());
        let mut result = text_result(text, json!(facts));
        let mut beside = FRAME.to_owned() + &part.left_out() + &others.report();
        beside += &facts.entries.iter().map(Entry::unheard).collect::<String>();
        beside += &outbox_failures::beside(&kept);
        for entry in &facts.entries {
            for file in &entry.attachments {
                beside += &format!(
                    " Entry {} has a file attached: {} ({}, BLAKE3 {}).",
                    entry.number,
                    file.name,
                    counted(file.size, "byte"),
                    file.hash
                );
            }
        }
        if let Some(caution) = &facts.caution {
            beside = format!("{beside} {caution}");
        }
        add_text(&mut result, beside);
        mark_when_written(&mailbox, &part, counts);
        Ok(result.into())
    }
}

/// Returns the entries of a thread, oldest first.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ReadThread {
    /// Message ID, ID prefix or file name.
    message_id: Name,
    /// Return only this many of the newest entries.
    #[schemars(range(min = 1))]
    last: Option<u64>,
    /// Number of the first entry to return.
    #[schemars(range(min = 1))]
    from: Option<u64>,
}

impl Tool for ReadThread {
    const INFO: ToolInfo = ToolInfo::read("filebox_thread", CORE);

    type Caller<'a> = Reader<'a>;

    async fn call(self, reader: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let Reader { caller: mailbox, counts } = reader;
        let Name(name) = self.message_id;
        let want = match (number(self.last), number(self.from)) {
            (None, None) => Want::All,
            (Some(last), None) => Want::Last(last),
            (None, Some(from)) => Want::From(from),
            (Some(_), Some(_)) => {
                return Err(invalid("from", &"cannot be combined with `last`; use one of them"));
            }
        };
        message_name(&name)?;
        let part = match load(&mailbox, &name, want).await {
            Ok(part) => part,
            Err(why) if why.reason == Reason::UnknownMessage => {
                return Err(kept_instead(&mailbox, &name, why).await);
            }
            Err(why) => return Err(why),
        };
        let kept = kept(&mailbox, &part).await;
        let facts = ThreadView::new(&mailbox, &part, &kept, &mut Sanitizer::default());
        let result = json_result(&facts);
        mark_when_written(&mailbox, &part, counts);
        Ok(result.into())
    }
}

/// What of the role's own about the thread is not at the broker. Read at once, so that an outbox
/// that cannot be asked keeps nobody from reading.
async fn kept(mailbox: &Mailbox<'_>, part: &Part) -> Vec<Summary> {
    let names = [part.thread.message_id.clone(), part.thread.file_name.clone()];
    mailbox.actions.kept(&names).await.unwrap_or_default()
}

/// A thread that the broker does not know may be one that never got there.
async fn kept_instead(mailbox: &Mailbox<'_>, name: &str, why: Refusal) -> Refusal {
    let kept = mailbox.actions.kept(&[name.to_owned()]).await.unwrap_or_default();
    Refusal { message: format!("{}{}", why.message, outbox_failures::beside(&kept)), ..why }
}

fn mark_when_written(mailbox: &Mailbox<'_>, part: &Part, counts: bool) {
    if let Some(probe) = &mailbox.call.probe
        && let Some(mark) = part.mark(mailbox, counts)
    {
        probe.when_written(mark);
    }
}

/// A number of entries, or of one; 0 stands for absent.
fn number(asked: Option<u64>) -> Option<u32> {
    let asked = asked.filter(|it| *it != 0);
    asked.map(|it| u32::try_from(it).unwrap_or(u32::MAX))
}

/// As many of the entries wanted as the broker gives at once.
async fn load(mailbox: &Mailbox<'_>, name: &str, want: Want) -> Result<Part, Refusal> {
    let ask = async |from: u32, last: u32| {
        let request =
            wire::ReadThreadRequest { message: name.to_owned(), from, last, ..Default::default() };
        let seen = mailbox.read_thread(request).await?;
        let wire::ReadThreadResponse { thread, entries, next, sequence: _ } = seen.what;
        let part = Part { thread: thread.unwrap_or_default(), entries, ago: seen.ago };
        Ok::<_, Refusal>((part, next))
    };
    let newest = async |mut count: u32| loop {
        let (part, next) = ask(0, count).await?;
        if next == 0 || count <= 1 {
            return Ok(part);
        }
        count /= 2;
    };
    match want {
        Want::From(from) => Ok(ask(from, 0).await?.0),
        Want::Last(count) => newest(count.max(1)).await,
        Want::All => {
            let (part, next) = ask(0, 0).await?;
            let unseen = part.thread.first_unseen.max(1);
            match next {
                0 => Ok(part),
                next if part.thread.unseen == 0 => newest(next.saturating_sub(1).max(1)).await,
                next if unseen < next => Ok(part),
                _ => Ok(ask(unseen, 0).await?.0),
            }
        }
    }
}

/// The thread in the form that people's mailboxes have, the newest entry first.
fn markdown(part: &Part, others: &mut Sanitizer) -> String {
    let thread = &part.thread;
    let entries = part.entries.iter().rev().map(|it| {
        let at_ms = if it.is_imported { it.written_ms } else { it.at_ms };
        filebox::Entry::new(
            Timestamp::from_millis(at_ms),
            &others.line(&it.sender),
            &others.lines(&it.receivers),
            &others.line(&it.r#type),
            &others.text(&it.text),
        )
    });
    let entries: Vec<_> = entries.collect();
    if entries.is_empty() {
        return String::new();
    }
    let (kind, title) = (others.line(&thread.r#type), others.line(&thread.subject));
    let mut file = Document::new(thread.message_id.parse().ok(), &kind, &title, entries);
    file.original_sender = others.line(&thread.original_sender);
    file.to_markdown()
}

/// A thread and its entries, or some of them.
#[derive(Debug, Serialize)]
struct ThreadView {
    note: &'static str,
    #[serde(flatten)]
    thread: Thread,
    #[serde(skip_serializing_if = "String::is_empty")]
    left_out: String,
    entries: Vec<Entry>,
    /// Of the role's own, and not at the broker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<serde_json::Value>,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen_ms_ago: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caution: Option<String>,
}

impl ThreadView {
    fn new(mailbox: &Mailbox<'_>, part: &Part, kept: &[Summary], others: &mut Sanitizer) -> Self {
        let thread = Thread::new(&part.thread, others);
        let entries = part.entries.iter();
        let entries = entries.map(|it| Entry::new(mailbox.role(), it, others)).collect();
        Self {
            note: FRAME,
            thread,
            left_out: part.left_out().trim_start().to_owned(),
            entries,
            kept: kept.iter().map(outbox_failures::facts).collect(),
            stripped: others.stripped,
            seen_ms_ago: part.ago.map(millis),
            caution: caution(part.ago),
        }
    }
}
