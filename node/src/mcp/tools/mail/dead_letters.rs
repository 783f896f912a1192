//! `filebox_list_dead_letters` and `filebox_hand_again`: mail that was shown again and again.

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tasuki_proto::{reason::Reason, wire};

use super::{
    super::{
        field_types::Name,
        result::{json_result, text_result},
        sanitizer::{FRAME, Sanitizer},
        tool::{Tool, ToolInfo},
        view::is_nothing,
    },
    FULL,
    caller::{Player, Reader, message_name, refused_as},
    views::ListedThread,
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
    message: ListedThread,
    reason: String,
}

/// Lists dead letters: messages returned 10 times and never seen. Waits skip them.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListDeadLetters {}

impl Tool for ListDeadLetters {
    const INFO: ToolInfo = ToolInfo::read("filebox_list_dead_letters", FULL);

    type Caller<'a> = Reader<'a>;

    async fn call(self, reader: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let found = reader.caller.actions.query(wire::ListDeadLettersRequest::default()).await?;
        let mut others = Sanitizer::default();
        let letter = |it| Letter {
            message: ListedThread::new(it, &mut others),
            reason: format!("returned {} times and never seen", it.handed),
        };
        let messages: Vec<Letter> = found.threads.iter().map(letter).collect();
        // Of more than one page, how many there are is said, and the oldest are shown.
        let total = found.total.max(messages.len() as u64);
        let note = (!messages.is_empty()).then_some(FRAME);
        Ok(json_result(&Letters { note, total, messages, stripped: others.stripped }).into())
    }
}

/// Makes waits return a dead letter again.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct HandAgain {
    /// Message ID, ID prefix or file name.
    message_id: Name,
}

impl Tool for HandAgain {
    const INFO: ToolInfo = ToolInfo::write("filebox_hand_again", FULL);

    type Caller<'a> = Player<'a>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        const DONE: &str = "Waits return the message again";
        let Name(name) = self.message_id;
        let handed = match message_name(&name) {
            Ok(()) => {
                let request = wire::HandAgainRequest { message: name, ..Default::default() };
                player.caller.actions.command(request, None).await
            }
            Err(why) => Err(why),
        };
        match handed {
            Ok(done) => {
                let facts = json!({ "message": DONE, "message_id": done.message_id });
                Ok(text_result(DONE, facts).into())
            }
            Err(why) if why.reason == Reason::UnknownMessage => {
                Ok(refused_as("Message not found", &why).into())
            }
            Err(why) => Err(why),
        }
    }
}
