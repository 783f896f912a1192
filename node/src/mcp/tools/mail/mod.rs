//! Mail between roles: `filebox_send_message` and its sisters.
//!
//! Names, parameters and the words of the answers are those of the tools people already have
//! prompts for; what was added are further parameters and fields.
//!
//! - [`list`]: what clients are told of the tools. [`caller`]: whose mailbox a call is about.
//! - [`send`], [`moves`], [`boxes`], [`read`], [`search`], [`wait`], [`letters`], [`files`],
//!   [`agents`]: the tools, by what they are about.
//! - [`late`]: what is added to any of their answers.
//! - [`facts`]: what they answer, field by field.

mod agents;
mod boxes;
mod caller;
mod facts;
mod files;
mod letters;
mod list;
mod moves;
mod outbox_failures;
mod read;
mod search;
mod send;
mod wait;

use rmcp::model::{CallToolResponse, CallToolResult};

pub(super) use self::list::{ROWS, tools};
pub(in crate::mcp) use self::{list::SET, wait::arrived};
use super::{Call, arguments::Arguments};
use crate::role::Refusal;

/// `None`: it is no tool of this set.
pub(super) async fn call(
    name: &str,
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Option<Result<CallToolResponse, Refusal>> {
    let done = match name {
        list::WAIT => wait::wait_for_message(call, arguments).await,
        _ => at_once(name, call, arguments).await?.map(CallToolResponse::Complete),
    };
    let mut result = match done {
        Ok(CallToolResponse::Complete(result)) => result,
        // Whoever is refused hears of the rest as well.
        Err(refusal) => super::refused(&refusal),
        other => return Some(other),
    };
    outbox_failures::tell(call, arguments, &mut result).await;
    Some(Ok(CallToolResponse::Complete(result)))
}

async fn at_once(
    name: &str,
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Option<Result<CallToolResult, Refusal>> {
    Some(match name {
        list::SEND => send::send_message(call, arguments).await,
        list::LIST => boxes::list_messages(call, arguments).await,
        list::READ => read::read_message(call, arguments).await,
        list::THREAD => read::thread(call, arguments).await,
        list::RESOLVE => moves::resolve_message(call, arguments).await,
        list::REJECT => moves::reject_message(call, arguments).await,
        list::SEARCH => search::search_messages(call, arguments).await,
        list::DEAD_LETTERS => letters::list_dead_letters(call, arguments).await,
        list::HAND_AGAIN => letters::hand_again(call, arguments).await,
        list::SAVE => files::save_attachment(call, arguments).await,
        list::REGISTER => agents::register_agent(call, arguments).await,
        list::AGENTS => agents::list_agents(call, arguments).await,
        list::UNREGISTER => agents::unregister_agent(call, arguments).await,
        list::CLEAN_UP => agents::cleanup_agents(call, arguments).await,
        _ => return None,
    })
}
