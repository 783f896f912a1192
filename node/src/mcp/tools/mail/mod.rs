//! Mail between roles: `filebox_send_message` and its sisters.
//!
//! Names, parameters and the words of the answers are those of the tools people already have
//! prompts for; what was added are further parameters and fields.
//!
//! - [`caller`]: whose mailbox a call is about.
//! - [`send`], [`move_messages`], [`boxes`], [`read`], [`search`], [`wait`], [`dead_letters`],
//!   [`files`], [`agents`]: the tools, by what they are about.
//! - [`outbox_failures`]: what is added to any of their answers.
//! - [`views`]: what they answer, field by field.

mod agents;
mod boxes;
mod caller;
mod dead_letters;
mod files;
mod move_messages;
mod outbox_failures;
mod prompt;
mod read;
mod search;
mod send;
mod views;
mod wait;

use async_trait::async_trait;
use rmcp::model::CallToolResponse;
use tasuki_proto::id::RoleId;

pub(in crate::mcp) use self::wait::wait_result;
use super::{
    Call, Part, Toolset,
    arguments::UnknownFields,
    refused,
    tool::{Membership, ToolDef},
};
use crate::toolset::{LOOP, MAIL, ToolVisibility};

const CORE: &[Membership] = &[Membership { set: MAIL, from: ToolVisibility::Core }];
/// What a role needs that writes a letter now and then.
const QUIET: &[Membership] = &[Membership { set: MAIL, from: ToolVisibility::Quiet }];
const FULL: &[Membership] = &[Membership { set: MAIL, from: ToolVisibility::Full }];

static TOOLS: [ToolDef; 15] = [
    ToolDef::new::<send::SendMessage>(),
    ToolDef::new::<boxes::ListMessages>(),
    ToolDef::new::<read::ReadMessage>(),
    ToolDef::new::<read::ReadThread>(),
    ToolDef::new::<move_messages::ResolveMessage>(),
    ToolDef::new::<move_messages::RejectMessage>(),
    ToolDef::new::<wait::WaitForMessage>(),
    ToolDef::new::<search::SearchMessages>(),
    ToolDef::new::<dead_letters::ListDeadLetters>(),
    ToolDef::new::<dead_letters::HandAgain>(),
    ToolDef::new::<files::SaveAttachment>(),
    ToolDef::new::<agents::RegisterAgent>(),
    ToolDef::new::<agents::ListAgents>(),
    ToolDef::new::<agents::UnregisterAgent>(),
    ToolDef::new::<agents::CleanUpAgents>(),
];

pub(super) struct Mail;

#[async_trait]
impl Toolset for Mail {
    fn tools(&self) -> &'static [ToolDef] {
        &TOOLS
    }

    /// Whoever takes turns or works on issues uses mail beside that.
    fn part(&self, _: &RoleId, sets: &[&str], _: &[RoleId]) -> Option<&'static dyn Part> {
        let is_main = sets.contains(&MAIL) && !sets.contains(&LOOP);
        is_main.then_some(&prompt::Correspondent as &dyn Part)
    }

    fn prompt_note(&self, _: &[&str]) -> Option<&'static str> {
        Some("Mail: filebox_wait_for_message returns it, filebox_send_message sends it.")
    }

    async fn call(
        &self,
        tool: &'static ToolDef,
        call: &Call<'_>,
        unknown: &UnknownFields,
    ) -> CallToolResponse {
        let mut result = match tool.call(call, unknown).await {
            Ok(CallToolResponse::Complete(result)) => result,
            // Whoever is refused hears of the rest as well.
            Err(refusal) => refused(&refusal),
            Ok(other) => return other,
        };
        outbox_failures::report(tool, call, &mut result).await;
        result.into()
    }
}
