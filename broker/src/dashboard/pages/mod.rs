//! The pages, one folder or file a noun.

mod boards;
mod entry;
mod gateway;
mod machines;
mod mail;
mod now;
mod pipelines;
mod runs;
mod search;
mod tasks;
mod timeline;

use std::{fmt::Write as _, sync::Arc};

use axum::{
    Router,
    response::{IntoResponse as _, Redirect, Response},
};
use tasuki_proto::wire;

use super::{
    App,
    visit::{Trouble, Visit},
};
use crate::overview::Calls as _;

/// One page of the navigation.
#[derive(Debug)]
pub(super) struct PageDef {
    /// Where it lies below the workspace.
    pub(super) folder: &'static str,
    pub(super) title: &'static str,
    /// Behind `g`, the key that leads to it.
    pub(super) key: char,
    pub(super) routes: fn(Router<Arc<App>>) -> Router<Arc<App>>,
}

/// Where the words of something that happened are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Words {
    /// An entry of a loop, by its number.
    Entry(String, u64),
    /// A letter of a thread.
    Letter(String, u32),
}

/// In the order of the navigation.
pub(super) const ALL: &[PageDef] = &[
    PageDef { folder: "now", title: "Now", key: 'n', routes: now::routes },
    PageDef { folder: "timeline", title: "Timeline", key: 'l', routes: timeline::routes },
    PageDef { folder: "mail", title: "Mail", key: 'm', routes: mail::routes },
    PageDef { folder: "tasks", title: "Tasks", key: 't', routes: tasks::routes },
    PageDef { folder: "runs", title: "Runs", key: 'r', routes: runs::routes },
    PageDef { folder: "boards", title: "Boards", key: 'b', routes: boards::routes },
    PageDef { folder: "pipelines", title: "Pipelines", key: 'p', routes: pipelines::routes },
    PageDef { folder: "gateway", title: "Gateway", key: 'g', routes: gateway::routes },
    PageDef { folder: "machines", title: "Machines", key: 'c', routes: machines::routes },
];

/// What other pages lead to and has no tab: the search, and one entry of a loop.
pub(super) fn without_tab(router: Router<Arc<App>>) -> Router<Arc<App>> {
    entry::routes(search::routes(router))
}

/// To the first workspace that the visitor may see.
pub(super) async fn home(visit: Visit) -> Result<Response, Trouble> {
    let workspaces = visit.call(&wire::ListWorkspacesRequest::default()).await?.workspaces;
    let own = workspaces.iter().find(|it| **it == *visit.workspace.as_str());
    let first =
        own.or_else(|| workspaces.first()).cloned().unwrap_or_else(|| visit.workspace.to_string());
    Ok(visit.named(Redirect::to(&format!("/w/{first}/now")).into_response()))
}

/// After something was done: to a page of the workspace.
fn done(visit: &Visit, path: &str) -> Response {
    visit.named(Redirect::to(&visit.link(path)).into_response())
}

/// The name of an enum's value as people read it: `TASK_STAGE_IN_REVIEW` is `in review`.
fn bare(name: &str) -> String {
    const PREFIXES: [&str; 13] = [
        "ATTEMPT_STATUS_",
        "CALL_OUTCOME_",
        "TASK_STAGE_",
        "TASK_STATUS_",
        "ISSUE_STATUS_",
        "DELIVERY_STATUS_",
        "PIPELINE_CHANGE_",
        "PIPELINE_STATUS_",
        "SUBMISSION_STATUS_",
        "STEP_STATUS_",
        "STEP_FAILURE_",
        "RUN_STATUS_",
        "RUN_MODE_",
    ];
    let bare = PREFIXES.iter().find_map(|it| name.strip_prefix(it)).unwrap_or(name);
    bare.to_lowercase().replace('_', " ")
}

/// A value within the query of an address.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_values_are_words() {
        assert_eq!(bare("TASK_STAGE_WAITING_FOR_ANSWER"), "waiting for answer");
        assert_eq!(bare("RUN_STATUS_OUT_OF_BUDGET"), "out of budget");
        assert_eq!(escaped("a b&c=é"), "a%20b%26c%3D%C3%A9");
    }

    /// A page that no key leads to is not found without a mouse.
    #[test]
    fn each_page_has_a_key_of_its_own() {
        let mut keys: Vec<char> = ALL.iter().map(|it| it.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), ALL.len());
    }
}
