//! `POST /outbox/{number}/{retry|drop}`: a person decides about a letter of this node's outbox.
//!
//! For `tasuki outbox`; agents have no tool for it, and their tokens are not good for it.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Request, State},
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use serde_json::json;

use super::{
    host::Host,
    transport::{bearer::only_its_user, server::refuse},
};
use crate::role::Settling;

pub(super) async fn settle(
    State(host): State<Arc<Host>>,
    Path((number, how)): Path<(u64, String)>,
    request: Request,
) -> Response {
    if let Err(refusal) = only_its_user(request.extensions().get()) {
        return *refusal;
    }
    let how = match how.as_str() {
        "retry" => Settling::Retry,
        "drop" => Settling::Drop,
        _ => {
            let message = "it is retried or dropped".to_owned();
            return refuse(StatusCode::NOT_FOUND, "invalid_argument", message);
        }
    };
    let Some(overview) = &host.overview else {
        let message = "this node has no outbox".to_owned();
        return refuse(StatusCode::NOT_FOUND, "unavailable", message);
    };
    match overview.settle(number, how).await {
        Ok(true) => Json(json!({ "number": number })).into_response(),
        Ok(false) => {
            let what = match how {
                Settling::Retry => "no message that failed",
                Settling::Drop => "nothing",
            };
            let message = format!("there is {what} under number {number} in the outbox");
            refuse(StatusCode::NOT_FOUND, "unknown_message", message)
        }
        Err(refusal) => {
            refuse(StatusCode::SERVICE_UNAVAILABLE, refusal.reason.as_str(), refusal.message)
        }
    }
}
