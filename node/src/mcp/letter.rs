//! `POST /mail/{role}`: a person's letter, by way of this node, which keeps it while the broker is
//! away.
//!
//! For `tasuki mail send`; agents have a tool for it, and their tokens are not good for this. The body
//! is a `SendRequest` as the broker's own calls have it; the answer says which thread it begins, and
//! has either its number in the outbox or the broker's answer in base64.

use std::sync::Arc;

use axum::{
    Json,
    body::to_bytes,
    extract::{Path, Request, State},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::StatusCode;
use prost::Message as _;
use serde::{Deserialize, Serialize};
use tasuki_proto::{id::RoleId, wire};

use super::{
    host::Host,
    transport::{bearer::only_its_user, server::refuse},
};
use crate::{link::Sent, outbox::ENTRY_BYTES_MAX};

/// What became of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Stored(String),
    Queued { message: String, number: u64 },
}

pub(super) async fn send(
    State(host): State<Arc<Host>>,
    Path(role): Path<String>,
    request: Request,
) -> Response {
    if let Err(refusal) = only_its_user(request.extensions().get()) {
        return *refusal;
    }
    let found = role.parse::<RoleId>().ok().and_then(|role| host.roles.get(&role));
    let Some(actions) = found else {
        let message = format!("this node does not host {role}; it hosts {}", host.names());
        return refuse(StatusCode::NOT_FOUND, "unknown_role", message);
    };
    let body = to_bytes(request.into_body(), ENTRY_BYTES_MAX).await.ok();
    let Some(letter) = body.and_then(|body| wire::SendRequest::decode(body).ok()) else {
        let message = "the body is no letter, or a larger one than the outbox takes".to_owned();
        return refuse(StatusCode::BAD_REQUEST, "invalid_argument", message);
    };
    match actions.send(letter, None).await {
        Ok(Sent::Stored(response)) => {
            let bytes = BASE64_STANDARD.encode(response.encode_to_vec());
            Json(Answer::Stored(bytes)).into_response()
        }
        Ok(Sent::Queued { message, number }) => {
            Json(Answer::Queued { message, number }).into_response()
        }
        Err(refusal) => refuse(StatusCode::CONFLICT, refusal.reason.as_str(), refusal.message),
    }
}

/// What a node said to a letter; `None`: nothing that can be read.
pub(crate) fn read(answer: serde_json::Value) -> Option<Sent> {
    Some(match serde_json::from_value(answer).ok()? {
        Answer::Stored(bytes) => {
            let bytes = BASE64_STANDARD.decode(bytes).ok()?;
            Sent::Stored(wire::SendResponse::decode(&*bytes).ok()?)
        }
        Answer::Queued { message, number } => Sent::Queued { message, number },
    })
}
