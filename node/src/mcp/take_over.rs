//! `POST /take-over/{role}?as=ID`: a person gives a role to another agent. `GET /take-over/{role}`:
//! the agents that called as it or are connected.
//!
//! For `tasuki take-over`; agents have no tool for it, and their tokens are not good for it.
//! `?no-id` in place of `as` means the instance that has none. Without either nobody is given the
//! role: the answer lists the agents, as `GET` does.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Request, State},
    response::{IntoResponse as _, Response},
};
use http::{StatusCode, Uri};
use serde_json::{Value, json};
use tasuki_proto::id::{InstanceId, RoleId};

use super::{
    address::Address,
    host::Host,
    instances::Shared,
    transport::{bearer::only_its_user, server::refuse},
};
use crate::role::{
    Actions,
    player::{Candidate, Instance},
};

/// In the query, means the agent without an id.
const NO_ID: &str = "no-id";

pub(super) async fn candidates(
    State(host): State<Arc<Host>>,
    Path(role): Path<String>,
    request: Request,
) -> Response {
    let role = match its_role(&host, &role, &request) {
        Ok(actions) => actions.role(),
        Err(refusal) => return *refusal,
    };
    match agents(&host, role) {
        Ok(agents) => Json(json!({ "role": role.as_str(), "agents": agents })).into_response(),
        Err(Shared) => nothing_to_take(role),
    }
}

fn agents(host: &Host, role: &RoleId) -> Result<Vec<Value>, Shared> {
    let agent = |it: &Candidate| {
        json!({
            "instance": it.id.as_ref().map(InstanceId::as_str),
            "client": it.client,
            "plays": it.is_playing,
            "quiet_ms": it.quiet.map(|quiet| quiet.as_millis()),
        })
    };
    Ok(host.instances.candidates(role)?.iter().map(agent).collect())
}

pub(super) async fn take_over(
    State(host): State<Arc<Host>>,
    Path(role): Path<String>,
    request: Request,
) -> Response {
    let actions = match its_role(&host, &role, &request) {
        Ok(actions) => actions,
        Err(refusal) => return *refusal,
    };
    let role = actions.role();
    let (parts, _) = request.into_parts();
    let named = Address::of(&parts).instance;
    if named.is_none() && !says_no_id(&parts.uri) {
        return unnamed(&host, role);
    }
    let who = Instance::from(named);
    match host.instances.take_over(role, &who) {
        Ok(loses) => {
            if loses.is_some() {
                actions.given_to(&who);
            }
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
        Err(Shared) => nothing_to_take(role),
    }
}

/// The role that a request of the node's user is about.
fn its_role<'a>(
    host: &'a Host,
    role: &str,
    request: &Request,
) -> Result<&'a Arc<dyn Actions>, Box<Response>> {
    only_its_user(request.extensions().get())?;
    let actions = role.parse::<RoleId>().ok().and_then(|role| host.roles.get(&role));
    actions.ok_or_else(|| {
        let message =
            format!("this node does not host the role; it hosts: {}", host.names_for(role));
        Box::new(refuse(StatusCode::NOT_FOUND, "unknown_role", message))
    })
}

fn says_no_id(uri: &Uri) -> bool {
    uri.query().unwrap_or_default().split('&').any(|it| it == NO_ID)
}

/// Nobody was named: a role that goes to whoever has no id by that is one that nobody meant to give.
fn unnamed(host: &Host, role: &RoleId) -> Response {
    let agents = match agents(host, role) {
        Ok(agents) => agents,
        Err(Shared) => return nothing_to_take(role),
    };
    let message = format!(
        "the agent that gets {role} is not specified; no change was made. Call again with ?as=ID, \
         or with ?{NO_ID} for the agent without an id; `agents` lists the known ones"
    );
    let body = json!({ "error": "invalid_argument", "message": message, "agents": agents });
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}

fn nothing_to_take(role: &RoleId) -> Response {
    refuse(
        StatusCode::CONFLICT,
        "invalid_argument",
        format!("several agents may play {role} at once, so there is nothing to take over"),
    )
}
