//! `POST /take-over/{role}?as=ID`: a person gives a role to another agent.
//!
//! For `tasuki take-over`; agents have no tool for it. Without `as` the role goes to the
//! instance that has no id.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Request, State},
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use serde_json::json;

use super::{
    address::Address,
    instances::Shared,
    server::{Server, refuse},
};
use crate::role::player::Instance;

pub(super) async fn take_over(
    State(server): State<Arc<Server>>,
    Path(role): Path<String>,
    request: Request,
) -> Response {
    let role = match server.scope(&role) {
        Ok(scope) => scope.roles(&server.host).next().cloned(),
        Err(refusal) => return *refusal,
    };
    let Some(role) = role else { return StatusCode::NOT_FOUND.into_response() };
    let (parts, _) = request.into_parts();
    let who = Instance::from(Address::of(&parts).instance);
    match server.host.instances.take_over(&role, &who) {
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
