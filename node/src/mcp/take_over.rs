//! `POST /take-over/{role}?as=ID`: a person gives a role to another agent.
//!
//! For `tasuki take-over`; agents have no tool for it, and their tokens are not good for it.
//! Without `as` the role goes to the instance that has no id.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Request, State},
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use serde_json::json;
use tasuki_proto::id::RoleId;

use super::{
    address::Address,
    host::Host,
    instances::Shared,
    transport::{bearer::only_its_user, server::refuse},
};
use crate::role::player::Instance;

pub(super) async fn take_over(
    State(host): State<Arc<Host>>,
    Path(role): Path<String>,
    request: Request,
) -> Response {
    if let Err(refusal) = only_its_user(request.extensions().get()) {
        return *refusal;
    }
    let role = role.parse::<RoleId>().ok().filter(|role| host.roles.contains_key(role));
    let Some(role) = role else {
        let message = format!("the role is not one of this node's, which are: {}", host.names());
        return refuse(StatusCode::NOT_FOUND, "unknown_role", message);
    };
    let (parts, _) = request.into_parts();
    let who = Instance::from(Address::of(&parts).instance);
    match host.instances.take_over(&role, &who) {
        Ok(loses) => {
            let from = loses.map(|it| {
                json!({
                    "instance": it.by.id().map(|id| id.as_str()),
                    "client": it.client,
                })
            });
            let instance = who.id().map(|id| id.as_str());
            Json(json!({ "role": role.as_str(), "instance": instance, "from": from }))
                .into_response()
        }
        Err(Shared) => refuse(
            StatusCode::CONFLICT,
            "invalid_argument",
            format!("several agents may play {role} at once, so there is nothing to take over"),
        ),
    }
}
