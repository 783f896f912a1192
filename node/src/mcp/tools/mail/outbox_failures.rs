//! Letters that wait for the broker, and those that it refused when they had waited: their sender
//! is told with the answer to its next call about mail, and once that is written, no more. Who
//! reads the thread is told as well, each time.

use std::sync::Arc;

use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use tasuki_proto::{mail::BoxKind, reason::Reason};

use super::{
    super::{
        Call,
        result::add_text,
        tool::{Caller as _, ToolDef},
    },
    caller::Mailbox,
};
use crate::{
    mcp::transport::write_ack::Mark,
    outbox::{Failed, Summarised, Summary},
};

/// Told at once: an answer is read whole. The others are told with the next one.
const TOLD_MAX: usize = 20;

/// Of a subject, in characters: enough to know it again.
const ABOUT_CHARS: usize = 80;

pub(super) async fn report(tool: &ToolDef, call: &Call<'_>, result: &mut CallToolResult) {
    let Ok(mailbox) = Mailbox::resolve(call, tool) else { return };
    // Whoever only looks is not whom it is for.
    if !mailbox.looked() {
        return;
    }
    let Ok(untold) = mailbox.actions.untold(TOLD_MAX).await else { return };
    if untold.entries.is_empty() {
        return;
    }
    let failed = untold.entries.iter().filter_map(|it| Some(line(it, it.failed.as_ref()?)));
    let lines: Vec<_> = failed.collect();
    add_text(
        result,
        format!(
            "The broker refused these queued requests:\n{}\nYour user sees it with `tasuki \
             outbox`.",
            lines.join("\n")
        ),
    );
    if let Some(Value::Object(facts)) = &mut result.structured_content {
        let failed: Vec<_> = untold.entries.iter().map(self::facts).collect();
        facts.insert("failed".to_owned(), failed.into());
    }
    if let Some(probe) = &call.probe {
        probe.when_written(Mark::Told { actions: Arc::clone(&mailbox.actions), told: untold });
    }
}

/// What waits or failed of a thread, said beside it; empty when there is nothing.
pub(super) fn beside(kept: &[Summary]) -> String {
    let said = kept.iter().map(|it| match &it.failed {
        Some(failed) => format!(" Your queued request failed: {}", line(it, failed)),
        None => {
            format!(" Your queued request {} ({}) is waiting for the broker.", it.number, what(it))
        }
    });
    said.collect()
}

fn line(it: &Summary, failed: &Failed) -> String {
    let why = failed.message.trim_end_matches('.');
    format!("number {} ({}): {}: {why}. {}", it.number, what(it), failed.reason, then(failed))
}

fn what(it: &Summary) -> String {
    match &it.what {
        Summarised::Send { to, kind, subject, message } => {
            let to = to.join(", ");
            let about: String = subject.chars().take(ABOUT_CHARS).collect();
            let about = if about.is_empty() { about } else { format!("{about:?}, ") };
            format!("{kind} to {to}, {about}message {message}")
        }
        Summarised::Move { messages, to } => {
            let to = BoxKind::of_wire(*to).map_or("nowhere", BoxKind::as_str);
            format!("{} to {to}", messages.join(", "))
        }
    }
}

/// What holds, and what an agent can do.
fn then(failed: &Failed) -> &'static str {
    let is_one = |of: &[Reason]| failed.reason().is_some_and(|reason| of.contains(&reason));
    if is_one(&[Reason::OutcomeUnknown]) {
        "It may have taken effect. Check before you repeat it."
    } else if is_one(&[Reason::UnknownRole, Reason::MailboxClosed]) {
        "It had no effect. Send it again to an agent that has a mailbox."
    } else if is_one(&[Reason::TooLarge]) {
        "It had no effect. Shorten it and send it again."
    } else if is_one(&[Reason::UnknownMessage, Reason::AmbiguousMessage]) {
        "It had no effect. Repeat it with the full message ID."
    } else if is_one(&[Reason::UnseenEntries]) {
        "It had no effect. Read the message, then repeat it."
    } else {
        "It had no effect. Repeat it if it still matters."
    }
}

/// As programs are told.
pub(super) fn facts(it: &Summary) -> Value {
    let mut facts = match &it.what {
        Summarised::Send { to, kind, subject, message } => json!({
            "queued": it.number, "message_id": message, "to": to, "msg_type": kind,
            "subject": subject,
        }),
        Summarised::Move { messages, to } => json!({
            "queued": it.number, "messages": messages,
            "box": BoxKind::of_wire(*to).map(BoxKind::as_str),
        }),
    };
    facts["receipt"] = if it.failed.is_some() { "failed" } else { "queued" }.into();
    if let Some(failed) = &it.failed {
        facts["reason"] = failed.reason.clone().into();
        facts["message"] = failed.message.clone().into();
    }
    facts
}
