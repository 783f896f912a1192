//! `filebox_wait_for_message`: the oldest mail that its role has not seen.

use rmcp::model::{CallToolResponse, CallToolResult};
use serde::Serialize;
use tasuki_proto::{
    id::RoleId,
    mail::MessageId,
    wire::{self, MailAnswer, MailMark, mail_answer::Standing},
};

use super::{
    super::{
        Call,
        arguments::Arguments,
        result::shown,
        sanitizer::{FRAME, Sanitizer},
        waiting::wait,
    },
    caller::{Caller, message_name, one_of},
    facts::{Entry, Thread, is_false, is_nothing},
};
use crate::{
    mcp::question::{About, Asking},
    role::{Refusal, mail::MailFilter},
};

pub(super) async fn wait_for_message(
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResponse, Refusal> {
    let (caller, playing) = Caller::player(call, arguments)?;
    let filter = MailFilter {
        kind: one_of(arguments, "msg_type", str::to_uppercase)?,
        sender: arguments.id("sender")?,
    };
    let asked = arguments.seconds("timeout_sec")?;
    if let Some(name) = arguments.name("after")? {
        done_with(&caller, &name).await?;
    }
    caller.settled().await;
    let Caller { actions, shown } = caller;
    wait(call, playing, Asking { actions, about: About::Mail { filter, shown } }, asked).await
}

/// What was handed of a thread is seen: its role says so.
async fn done_with(caller: &Caller, name: &str) -> Result<(), Refusal> {
    message_name(name)?;
    let request = wire::ReadThreadRequest {
        message: name.to_owned(),
        last: 1,
        mark: MailMark::None.into(),
        ..Default::default()
    };
    caller.settled().await;
    let thread = caller.mail().read_thread(request).await?.what.thread.unwrap_or_default();
    if let Ok(message) = thread.message_id.parse::<MessageId>()
        && thread.seen_through < thread.handed_through
    {
        caller.mail().mark_mail(message, thread.handed_through, MailMark::Seen);
    }
    Ok(())
}

#[derive(Debug, Serialize)]
struct Arrived {
    has_mail: bool,
    #[serde(skip_serializing_if = "is_false")]
    still_waiting: bool,
    #[serde(skip_serializing_if = "is_false")]
    superseded: bool,
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
pub(in crate::mcp) fn arrived(role: &RoleId, answer: &MailAnswer) -> CallToolResult {
    let standing = answer.standing();
    let has_mail = standing == Standing::Mail;
    let mut others = Sanitizer::default();
    let thread = answer.thread.as_ref().filter(|_| has_mail);
    let thread = thread.map(|it| Thread::new(it, &mut others));
    let entries = answer.entries.iter().filter(|_| has_mail);
    let entries = entries.map(|it| Entry::new(role, it, &mut others)).collect();
    shown(&Arrived {
        has_mail,
        still_waiting: standing == Standing::StillWaiting,
        superseded: standing == Standing::Superseded,
        note: has_mail.then_some(FRAME),
        thread,
        entries,
        stripped: others.stripped,
        hint: hint(role, standing, answer),
    })
}

fn hint(role: &RoleId, standing: Standing, answer: &MailAnswer) -> String {
    match standing {
        Standing::Unspecified | Standing::StillWaiting => {
            "No mail yet. Call filebox_wait_for_message again immediately.".to_owned()
        }
        Standing::Superseded => {
            format!("Superseded: another call or agent is waiting as {role}. Do not call again.")
        }
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
