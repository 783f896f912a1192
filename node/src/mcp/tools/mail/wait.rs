//! `filebox_wait_for_message`: the oldest mail that its role has not seen.

use rmcp::model::{CallToolResponse, CallToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::RoleId,
    mail::{MessageId, MessageType},
    wire::{self, MailAnswer, MailMark, mail_answer::Standing},
};

use super::{
    super::{
        field_types::{Id, Name, Seconds, Word},
        result::json_result,
        sanitizer::{FRAME, Sanitizer},
        tool::{Tool, ToolInfo},
        view::is_nothing,
        waiting::{PauseView, role_paused, superseded, unmet, wait},
    },
    QUIET,
    caller::{Mailbox, Player, message_name},
    views::{Entry, Thread},
};
use crate::{
    mcp::question::{About, Asking},
    role::Refusal,
    wait::MailFilter,
};

/// Waits for mail. Returns the oldest unseen message, urgent first, and returns it again until you
/// read, reply to, resolve or reject it, or pass it as `after`. If the result is still_waiting,
/// call it again immediately. If it is paused, tell your user why and end your turn.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct WaitForMessage {
    /// Filter by type.
    msg_type: Option<Word<MessageType>>,
    /// Filter by sender.
    sender: Option<Id<RoleId>>,
    /// Seconds. 0 returns immediately. Omit it to wait as long as your client allows.
    timeout_sec: Option<Seconds>,
    /// A message that you have dealt with.
    after: Option<Name>,
}

impl Tool for WaitForMessage {
    const INFO: ToolInfo = ToolInfo::read("filebox_wait_for_message", QUIET);

    type Caller<'a> = Player<'a>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let Player { caller: mailbox, playing } = player;
        let filter =
            MailFilter { kind: self.msg_type.map(|it| it.0), sender: self.sender.map(|it| it.0) };
        if let Some(Name(name)) = self.after {
            mark_seen(&mailbox, &name).await?;
        }
        mailbox.settled().await;
        let about = About::Mail { filter, acks: mailbox.in_flight_acks() };
        let asking = Asking { actions: mailbox.actions, about };
        wait(mailbox.call, playing, asking, self.timeout_sec.map(|it| it.0)).await
    }
}

/// What was handed of a thread is seen: its role says so.
async fn mark_seen(mailbox: &Mailbox<'_>, name: &str) -> Result<(), Refusal> {
    message_name(name)?;
    let request =
        wire::ReadThreadRequest { message: name.to_owned(), last: 1, ..Default::default() };
    mailbox.settled().await;
    let thread = mailbox.read_thread(request).await?.what.thread.unwrap_or_default();
    if let Ok(message) = thread.message_id.parse::<MessageId>()
        && thread.seen_through < thread.handed_through
    {
        mailbox.actions.mark_mail(message, thread.handed_through, MailMark::Seen);
    }
    Ok(())
}

#[derive(Debug, Serialize)]
struct Arrived {
    has_mail: bool,
    #[serde(rename = "status", skip_serializing_if = "Option::is_none")]
    unmet: Option<&'static str>,
    #[serde(skip_serializing_if = "is_nothing")]
    still_waiting: bool,
    #[serde(skip_serializing_if = "is_nothing")]
    superseded: bool,
    #[serde(flatten)]
    pause: PauseView,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    #[serde(flatten)]
    thread: Option<Thread>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    entries: Vec<Entry>,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
}

/// The answer to a wait, as a result.
pub(in crate::mcp) fn wait_result(role: &RoleId, answer: &MailAnswer) -> CallToolResult {
    let standing = answer.standing();
    let has_mail = standing == Standing::Mail;
    let (still_waiting, superseded) =
        (standing == Standing::StillWaiting, standing == Standing::Superseded);
    let mut others = Sanitizer::default();
    let thread = answer.thread.as_ref().filter(|_| has_mail);
    let thread = thread.map(|it| Thread::new(it, &mut others));
    let entries = answer.entries.iter().filter(|_| has_mail);
    let entries = entries.map(|it| Entry::new(role, it, &mut others)).collect();
    json_result(&Arrived {
        has_mail,
        unmet: unmet(still_waiting, superseded),
        still_waiting,
        superseded,
        pause: PauseView::of_role(role, answer.pause.as_ref(), &mut others),
        note: has_mail.then_some(FRAME),
        thread,
        entries,
        stripped: others.stripped,
        hint: hint(role, standing, answer),
    })
}

fn hint(role: &RoleId, standing: Standing, answer: &MailAnswer) -> String {
    match standing {
        Standing::Unspecified | Standing::StillWaiting => role_paused(role, answer.pause.as_ref())
            .unwrap_or_else(|| {
                "No mail yet. Call filebox_wait_for_message again immediately.".to_owned()
            }),
        Standing::Superseded => superseded(role),
        Standing::Mail if answer.next != 0 => {
            let id = answer.thread.as_ref().map_or("", |it| it.message_id.as_str());
            format!(
                "The thread is cut. For the rest, call filebox_thread with message_id {id} and \
                 from {}.",
                answer.next
            )
        }
        Standing::Mail => match answer.unseen_threads.saturating_sub(1) {
            0 => String::new(),
            1 => "One more thread has unseen mail.".to_owned(),
            more => format!("{more} more threads have unseen mail."),
        },
    }
}
