//! `filebox_list_dead_letters` and `filebox_hand_again`: mail that was shown again and again.

use rmcp::model::CallToolResult;
use serde::Serialize;
use serde_json::json;
use tasuki_proto::reason::Reason;

use super::{
    super::{
        Call,
        arguments::Arguments,
        result::{said, shown},
        sanitizer::{FRAME, Sanitizer},
    },
    caller::{Caller, message_name, refused_as, required_message},
    facts::{Listed, is_nothing},
};
use crate::role::Refusal;

#[derive(Debug, Serialize)]
struct Letters {
    /// Left out where there is nothing of anybody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    total: u64,
    messages: Vec<Letter>,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
}

#[derive(Debug, Serialize)]
struct Letter {
    #[serde(flatten)]
    message: Listed,
    reason: String,
}

pub(super) async fn list_dead_letters(
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let (caller, _counts) = Caller::reader(call, arguments)?;
    let found = caller.mail().dead_letters().await?;
    let mut others = Sanitizer::default();
    let letter = |it| Letter {
        message: Listed::new(it, &mut others),
        reason: format!("returned {} times and never seen", it.handed),
    };
    let messages: Vec<Letter> = found.threads.iter().map(letter).collect();
    // Of more than one page, how many there are is said, and the oldest are shown.
    let total = found.total.max(messages.len() as u64);
    let note = (!messages.is_empty()).then_some(FRAME);
    Ok(shown(&Letters { note, total, messages, stripped: others.stripped }))
}

pub(super) async fn hand_again(
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    const DONE: &str = "Waits return the message again";
    let (caller, _playing) = Caller::player(call, arguments)?;
    let name = required_message(arguments, "message_id")?;
    let handed = match message_name(&name) {
        Ok(()) => caller.mail().hand_again(&name).await,
        Err(why) => Err(why),
    };
    match handed {
        Ok(done) => Ok(said(DONE, json!({ "message": DONE, "message_id": done.message_id }))),
        Err(why) if why.reason == Reason::UnknownMessage => {
            Ok(refused_as("Message not found", &why))
        }
        Err(why) => Err(why),
    }
}
