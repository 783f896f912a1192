//! `/gateway`: what a person asks of the MCP servers whose tools this node offers.
//!
//! For `tasuki gateway`; agents have tools of their own for what they may, and their tokens are not
//! good for this.

#![expect(deprecated, reason = "servers and clients of earlier versions ask and log so")]

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, Request, State},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use http::StatusCode;
use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResponse, JsonObject, LoggingMessageNotificationParam,
        ProgressNotificationParam,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tasuki_proto::{echo::echo, nearest::did_you_mean};

use super::{
    host::Host,
    tools::held,
    transport::{bearer::only_its_user, server::refuse},
};
use crate::gateway::{Asked, Caller, Gateway, ServerReport, Told};

pub(super) fn routes() -> Router<Arc<Host>> {
    Router::new()
        .route("/gateway", get(status))
        .route("/gateway/tools", get(tools))
        .route("/gateway/call", post(call))
        .route("/gateway/approve/{server}", post(approve))
        .layer(middleware::from_fn(only_people))
}

async fn only_people(request: Request, next: Next) -> Response {
    match only_its_user(request.extensions().get()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => *refusal,
    }
}

fn gateway(host: &Host) -> Result<&Arc<Gateway>, Box<Response>> {
    host.gateway.as_ref().ok_or_else(|| {
        let message = "no MCP servers are configured for this node; add [[gateway.server]] to \
                       tasuki.toml and start it again";
        Box::new(refuse(StatusCode::NOT_FOUND, "not_found", message))
    })
}

async fn status(State(host): State<Arc<Host>>) -> Response {
    let servers: Vec<ServerReport> = match &host.gateway {
        Some(gateway) => {
            gateway.settled().await;
            gateway.reports()
        }
        None => Vec::new(),
    };
    Json(json!({ "servers": servers })).into_response()
}

async fn tools(State(host): State<Arc<Host>>) -> Response {
    let gateway = match gateway(&host) {
        Ok(gateway) => gateway,
        Err(refusal) => return *refusal,
    };
    let catalogue = gateway.settled().await;
    let tools: Vec<_> = catalogue.tools.iter().map(|it| &it.listing).collect();
    Json(json!({ "tools": tools })).into_response()
}

/// A call that a person makes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PersonCall {
    pub(super) tool: String,
    pub(super) arguments: JsonObject,
}

async fn call(State(host): State<Arc<Host>>, Json(asked): Json<PersonCall>) -> Response {
    let gateway = match gateway(&host) {
        Ok(gateway) => gateway,
        Err(refusal) => return *refusal,
    };
    let catalogue = gateway.settled().await;
    let Some(tool) = catalogue.tool(&asked.tool) else {
        if gateway.is_held(&asked.tool, &[]) {
            return refuse(StatusCode::NOT_FOUND, "not_found", held(&asked.tool));
        }
        let near = did_you_mean(&asked.tool, catalogue.tools.iter().map(|it| it.name()));
        let message = format!("there is no tool {}{near}", echo(&asked.tool));
        return refuse(StatusCode::NOT_FOUND, "not_found", message);
    };
    let request = CallToolRequestParams::new(tool.own.clone()).with_arguments(asked.arguments);
    // A person calls as a role of this node that may.
    let Some(role) = host.roles.keys().find(|it| tool.provider.allows(it, &tool.own)) else {
        let message = format!("no role of this node may call {}", echo(&asked.tool));
        return refuse(StatusCode::FORBIDDEN, "role_forbidden", message);
    };
    let told = match tool.provider.call(role, request, &Nobody).await {
        Ok(CallToolResponse::Complete(result)) => json!({ "result": result }),
        Ok(CallToolResponse::Task(_) | CallToolResponse::InputRequired(_)) => {
            let why =
                "the tool asks its user before it answers, which only an agent's client can do";
            json!({ "error": ErrorData::invalid_request(why, None) })
        }
        Ok(_) => {
            json!({ "error": ErrorData::internal_error("an answer of an unknown kind", None) })
        }
        Err(error) => json!({ "error": error }),
    };
    Json(told).into_response()
}

/// Which changes are approved: tools, each with the digest of what was looked at.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Approval {
    pub(super) tools: BTreeMap<String, String>,
}

async fn approve(
    State(host): State<Arc<Host>>,
    Path(name): Path<String>,
    Json(asked): Json<Approval>,
) -> Response {
    let gateway = match gateway(&host) {
        Ok(gateway) => gateway,
        Err(refusal) => return *refusal,
    };
    let Some(approved) = gateway.approve(&name, &asked.tools).await else {
        let near = did_you_mean(&name, gateway.servers().iter().map(|it| it.name()));
        let message = format!("there is no server {}{near}", echo(&name));
        return refuse(StatusCode::NOT_FOUND, "not_found", message);
    };
    match approved {
        Ok(approved) => Json(json!({ "server": name, "approved": approved })).into_response(),
        Err(why) => refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", why),
    }
}

/// A person on a command line, who is asked nothing meanwhile.
struct Nobody;

#[async_trait::async_trait]
impl Caller for Nobody {
    async fn progress(&self, _progress: ProgressNotificationParam) {}

    async fn log(&self, _message: LoggingMessageNotificationParam) {}

    async fn ask(&self, _what: Asked) -> Result<Told, ErrorData> {
        Err(ErrorData::invalid_request("a call from the command line cannot ask its user", None))
    }
}
