//! `POST /wake/{role}`: what a client's hook is told. `GET /wake`: how each role's agent can be woken.
//! `POST /wake`: reads again which clients are woken from outside.
//!
//! For `tasuki wake`; agents' tokens are not good for it. A hook that waits behind an idle session is
//! answered when something comes.

use std::sync::Arc;

use axum::{
    Extension, Json,
    body::Bytes,
    extract::{Path, State},
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use serde_json::json;
use tasuki_proto::id::RoleId;

use super::{
    host::Host,
    tools::is_tool,
    transport::{
        bearer::{Bearer, only_its_user},
        server::refuse,
    },
};
use crate::wake::service::{HookAnswer, HookCall};

pub(super) async fn hook(
    State(host): State<Arc<Host>>,
    Path(role): Path<String>,
    by: Option<Extension<Bearer>>,
    body: Bytes,
) -> Response {
    if let Err(refusal) = only_its_user(by.as_deref()) {
        return *refusal;
    }
    let own = role.parse::<RoleId>().ok().filter(|role| host.roles.contains_key(role));
    let Some(own) = own else {
        let message =
            format!("this node does not host the role; it hosts: {}", host.names_for(&role));
        return refuse(StatusCode::NOT_FOUND, "unknown_role", message);
    };
    match serde_json::from_slice::<HookCall>(&body) {
        Ok(call) => {
            // Clients put the server's name before a tool's: `mcp__tasuki__loop_status`.
            let is_ours = call.tool.rsplit_once("__").is_some_and(|(_, tool)| is_tool(tool));
            // What is left to do depends on whether the role is paused by then.
            let is_usage_told = host.waker.tell(&own, call.usage.as_ref()).await;
            let answer = host.waker.hook(&own, call, is_ours).await;
            Json(HookAnswer { is_usage_told, ..answer }).into_response()
        }
        Err(why) => refuse(StatusCode::BAD_REQUEST, "invalid_argument", why.to_string()),
    }
}

pub(super) async fn report(
    State(host): State<Arc<Host>>,
    by: Option<Extension<Bearer>>,
) -> Response {
    if let Err(refusal) = only_its_user(by.as_deref()) {
        return *refusal;
    }
    Json(json!({ "roles": host.waker.report() })).into_response()
}

pub(super) async fn reload(
    State(host): State<Arc<Host>>,
    by: Option<Extension<Bearer>>,
) -> Response {
    if let Err(refusal) = only_its_user(by.as_deref()) {
        return *refusal;
    }
    host.waker.reload();
    Json(json!({ "roles": host.waker.report() })).into_response()
}
