//! The pages, one folder or file a noun.

mod now;

use std::sync::Arc;

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

/// In the order of the navigation.
pub(super) const ALL: &[PageDef] =
    &[PageDef { folder: "now", title: "Now", key: 'n', routes: now::routes }];

/// To the first workspace that the visitor may see.
pub(super) async fn home(visit: Visit) -> Result<Response, Trouble> {
    let workspaces = visit.call(&wire::ListWorkspacesRequest::default()).await?.workspaces;
    let first = workspaces.first().cloned().unwrap_or_else(|| visit.workspace.to_string());
    Ok(visit.named(Redirect::to(&format!("/w/{first}/now")).into_response()))
}

pub(super) async fn not_found() -> Trouble {
    Trouble::NotFound
}

/// After something was done: back to where the form was, or to a page of the workspace.
pub(super) fn done(visit: &Visit, path: &str) -> Response {
    visit.named(Redirect::to(&visit.link(path)).into_response())
}
