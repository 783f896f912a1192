//! Issues, tasks, reviews, deliveries, documents and locks: `createIssue` and its sisters.
//!
//! Names, parameters and fields are those of the tools people already have prompts for. Who calls
//! is who the connection is for; a worker's id is its role's name. A refusal is worded as those
//! tools word theirs, with its code beside it.
//!
//! - [`list`]: which tools there are and who is shown them. [`schemas`]: what clients are told.
//! - [`caller`]: whose call it is. [`claims`]: which tokens its agent was given.
//! - [`profile`], [`issues`], [`plan`], [`work`], [`reviews`], [`deliveries`], [`bundle`], [`docs`],
//!   [`locks`]: the tools, by what they are about. [`args`]: what callers say; [`graph`]: and how
//!   tasks of a plan name each other; [`taking`]: and that no lock is kept for nobody.
//! - [`views`], [`delivery_views`]: what they answer, field by field. [`wait_results`], [`items`]: what waits
//!   end with. [`next`]: what an agent does about it, [`hints`]: and about a refusal. [`answer`]: what
//!   each answer says besides.

mod answer;
mod args;
mod bundle;
mod caller;
mod claims;
mod deliveries;
mod delivery_views;
mod docs;
mod graph;
mod hints;
mod issues;
mod items;
mod list;
mod locks;
mod next;
mod plan;
mod profile;
mod reviews;
mod schemas;
mod taking;
#[cfg(test)]
mod tests;
mod views;
mod wait_results;
mod work;

use rmcp::model::{CallToolResponse, CallToolResult};

use self::caller::{Caller, TIMEOUT};
#[cfg(test)]
pub(in crate::mcp) use self::list::named;
pub(super) use self::{caller::takes, list::ROWS, schemas::tools};
pub(in crate::mcp) use self::{
    claims::Claims,
    list::{ACCEPTOR, LEAD, WORKER},
    taking::Grants,
    wait_results::told,
};
use super::{Call, ToolDef, arguments::Arguments, refused};
use crate::role::Refusal;

/// `None`: it is no tool of these sets.
pub(super) async fn call(
    row: &ToolDef,
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Option<Result<CallToolResponse, Refusal>> {
    // Nothing is done by a call that then cannot wait for what comes of it.
    let is_fit = arguments.seconds(TIMEOUT);
    let caller = match is_fit.and_then(|_| Caller::of(row, call, arguments)) {
        Ok(caller) => caller,
        Err(refusal) => return Some(Ok(CallToolResponse::Complete(no(&refusal)))),
    };
    let done = match row.name {
        list::WAIT_ISSUES => work::wait_issues(&caller, arguments).await,
        list::WAIT_TASKS => work::wait_tasks(&caller, arguments).await,
        list::SUBMIT_TASK => work::submit(&caller, arguments).await,
        list::ASK_TASK => work::ask(&caller, arguments).await,
        list::WAIT_EVENTS | list::SELECT_INBOX | list::NEXT_SIGNAL | list::STEP_INBOX => {
            reviews::wait_events(&caller, arguments).await
        }
        list::SUBMIT_DELIVERY => deliveries::submit(&caller, arguments).await,
        list::WAIT_DELIVERIES => deliveries::wait(&caller, arguments).await,
        _ => at_once(row.name, &caller, arguments).await?.map(CallToolResponse::Complete),
    };
    Some(Ok(done.unwrap_or_else(|refusal| {
        let refusal = hints::with_hint(refusal, row, &caller.toolsets());
        CallToolResponse::Complete(no(&refusal))
    })))
}

async fn at_once(
    name: &str,
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Option<Result<CallToolResult, Refusal>> {
    Some(match name {
        list::CREATE_ISSUE => issues::create(caller, arguments).await,
        list::GET_ISSUE => issues::get(caller, arguments).await,
        list::UPDATE_DOC_PATHS => issues::update_doc_paths(caller, arguments).await,
        list::CLOSE_ISSUE => issues::close(caller, arguments).await,
        list::REOPEN_ISSUE => issues::reopen(caller, arguments).await,
        list::EXTEND_ISSUE => issues::extend(caller, arguments).await,
        list::LIST_ISSUES => issues::list(caller, arguments).await,
        list::LIST_OPEN_ISSUES => issues::list_open(caller).await,
        list::CREATE_TASK => plan::create_task(caller, arguments).await,
        list::PLAN => plan::plan(caller, arguments).await,
        list::GET_TASK => plan::get(caller, arguments).await,
        list::RESET_TASK => plan::reset(caller, arguments).await,
        list::LIST_TASKS => plan::list(caller, arguments).await,
        list::LIST_OPEN_TASKS => plan::list_open(caller, arguments).await,
        list::PROFILE => profile::profile(caller).await,
        list::NOW => profile::now(caller).await,
        list::LIST_WORKERS => profile::workers(caller).await,
        list::GET_WORKER => profile::worker(caller, arguments).await,
        list::LOCK_FILES => locks::lock(caller, arguments).await,
        list::HEARTBEAT => locks::heartbeat(caller, arguments).await,
        list::UNLOCK => locks::unlock(caller, arguments).await,
        list::LIST_LOCKS => locks::list(caller, arguments).await,
        list::FORCE_UNLOCK => locks::force(caller, arguments).await,
        list::WRITE_SHARED_DOC => docs::write(caller, arguments, docs::Of::All).await,
        list::READ_SHARED_DOC => docs::read(caller, arguments, docs::Of::All).await,
        list::LIST_SHARED_DOCS => docs::list(caller, arguments, docs::Of::All).await,
        list::WRITE_ISSUE_DOC => docs::write(caller, arguments, docs::Of::Issue).await,
        list::READ_ISSUE_DOC => docs::read(caller, arguments, docs::Of::Issue).await,
        list::LIST_ISSUE_DOCS => docs::list(caller, arguments, docs::Of::Issue).await,
        list::WRITE_TASK_DOC => docs::write(caller, arguments, docs::Of::Task).await,
        list::READ_TASK_DOC => docs::read(caller, arguments, docs::Of::Task).await,
        list::LIST_TASK_DOCS => docs::list(caller, arguments, docs::Of::Task).await,
        list::NEXT_STEP => reviews::next_step(caller, arguments).await,
        list::REVIEW_TASK => reviews::review(caller, arguments).await,
        list::REPLY_MESSAGE => reviews::reply(caller, arguments).await,
        list::CLAIM_DELIVERY => deliveries::claim(caller, arguments).await,
        list::EXTEND_DELIVERY => deliveries::extend(caller, arguments).await,
        list::REVIEW_DELIVERY => deliveries::review(caller, arguments).await,
        list::GET_DELIVERY => deliveries::get(caller, arguments).await,
        list::LIST_DELIVERIES => deliveries::list(caller, arguments).await,
        list::BUNDLE => bundle::get(caller, arguments).await,
        list::LIST_OPEN_DELIVERIES => deliveries::list_open(caller).await,
        list::REGISTER_WORKER => work::register(caller).await,
        list::CLAIM_TASK => work::claim(caller, arguments).await,
        list::EXTEND_TASK => work::extend(caller, arguments).await,
        list::POST_MESSAGE => work::post(caller, arguments).await,
        _ => return None,
    })
}

/// Prompts look for the word in front.
fn no(refusal: &Refusal) -> CallToolResult {
    let message = format!("ERROR: {}", refusal.message);
    refused(&Refusal { message, ..refusal.clone() })
}
