//! What running sub-agents reach: MCP at [`STEP_PATH`], and below [`CALLS`] what they say without it.
//!
//! Whoever shows the key of a step that runs here is let in, on a guarded server and on an open one
//! alike. A key is chance of 256 bits, so nobody is slowed down who guesses.
//!
//! - Nothing of a request but its Host and Origin is looked at before its key.
//! - **SA1** What a key opened ends with its step: requests, streams, sessions.
//! - **SA2** A key that is wrong and one of a step that ended get one and the same answer.
//! - **SA3** A key opens nothing else, and nothing of another step.
//!
//! Which steps run and what they are served says a [`StepService`].

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use tasuki_proto::{id::RoleId, run::StepId};
use tokio_util::sync::CancellationToken;

use super::{
    bearer::{self, shown, unauthenticated, until_gone},
    body::read_body,
    server::{Life, refuse},
    service::McpService,
    streamable::Streamable,
};
use crate::{mcp::address::Address, step_key::StepKey};

/// Where a sub-agent speaks MCP, on the address of its node.
pub const STEP_PATH: &str = "/mcp/step";

/// How the addresses of its other calls begin.
pub(in crate::mcp) const CALLS: &str = "/step/";

/// What running sub-agents are served.
#[async_trait]
pub(in crate::mcp) trait StepService: Send + Sync + 'static {
    type Mcp: McpService;

    /// Whether this is the key of a step that runs here. Takes the same time whatever is wrong.
    fn is_live(&self, key: &StepKey) -> bool;

    /// Resolves once the step does not run here, at once if it never did.
    async fn ended(&self, step: StepId);

    /// Who answers its MCP while it runs.
    fn mcp(&self, key: &StepKey) -> Self::Mcp;

    /// Answers what it posts to the address of this name.
    async fn call(&self, key: &StepKey, name: &str, body: Bytes) -> Response;
}

/// Lets sub-agents in.
pub(super) struct StepAccess<T: StepService> {
    service: T,
    life: Life,
    /// A role has the address, too: whoever shows no key is not refused there.
    is_role: bool,
    opened: Mutex<BTreeMap<StepId, Arc<Opened<T::Mcp>>>>,
}

/// What a step has opened.
struct Opened<S: McpService> {
    streamable: Streamable<S>,
    /// Ends its requests and streams.
    gone: CancellationToken,
}

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Denied {
    NoKey,
    /// It shows something else, such as the token of an agent.
    NotAKey,
    /// Nobody's, or of a step that ended.
    NotLive,
}

impl Denied {
    fn response(self) -> Response {
        match self {
            Self::NoKey => unauthenticated(
                "Bearer",
                "this address is for running sub-agents: send the header `Authorization: Bearer \
                 KEY` with the key that is in TASUKI_STEP_TOKEN",
            ),
            Self::NotAKey | Self::NotLive => unauthenticated(
                "Bearer error=\"invalid_token\"",
                "invalid key, or its step has ended; a key ends with its step",
            ),
        }
    }
}

impl<T: StepService> StepAccess<T> {
    /// Beside the addresses of `roles`.
    pub(super) fn new<'a>(
        service: T,
        life: Life,
        mut roles: impl Iterator<Item = &'a RoleId>,
    ) -> Self {
        let is_role = roles.any(|role| STEP_PATH == format!("/mcp/{role}"));
        Self { service, life, is_role, opened: Mutex::default() }
    }

    fn authenticate(&self, headers: &HeaderMap) -> Result<StepKey, Denied> {
        let key = match shown(headers) {
            Ok(shown) => shown.parse::<StepKey>().map_err(|_| Denied::NotAKey)?,
            Err(bearer::Denied::NoToken) => return Err(Denied::NoKey),
            Err(_) => return Err(Denied::NotAKey),
        };
        if self.service.is_live(&key) { Ok(key) } else { Err(Denied::NotLive) }
    }

    /// What the step of a key that was good a moment ago has opened.
    fn opened(self: &Arc<Self>, key: &StepKey) -> Arc<Opened<T::Mcp>> {
        let step = key.step();
        let mut all = self.opened.lock();
        let open = || {
            let gone = self.life.ending.child_token();
            let life = Life { ending: gone.clone(), ..self.life.clone() };
            let streamable = Streamable::new(Arc::new(self.service.mcp(key)), &life, None);
            let streamable = streamable.expect("without a directory nothing is opened");
            self.life.tasks.spawn(Arc::clone(self).end_with(step));
            Arc::new(Opened { streamable, gone })
        };
        Arc::clone(all.entry(step).or_insert_with(open))
    }

    /// Ends what a step opened once it has ended, or the node.
    async fn end_with(self: Arc<Self>, step: StepId) {
        let ended = self.service.ended(step);
        self.life.ending.run_until_cancelled(ended).await;
        let opened = self.opened.lock().remove(&step);
        if let Some(opened) = opened {
            opened.gone.cancel();
            opened.streamable.end_all_sessions().await;
        }
    }

    async fn answer(self: &Arc<Self>, key: StepKey, request: Request) -> Response {
        let opened = self.opened(&key);
        let call = request.uri().path().strip_prefix(CALLS).map(str::to_owned);
        let answering = async {
            match call {
                Some(name) => self.call(&key, &name, request).await,
                None => speak(&opened.streamable, request).await,
            }
        };
        let response = tokio::select! {
            response = answering => response,
            () = opened.gone.cancelled() => return Denied::NotLive.response(),
        };
        until_gone(response, opened.gone.clone())
    }

    async fn call(&self, key: &StepKey, name: &str, request: Request) -> Response {
        if request.method() != Method::POST {
            let message = "the request must be a POST";
            return refuse(StatusCode::METHOD_NOT_ALLOWED, "bad_request", message);
        }
        let (parts, body) = request.into_parts();
        let body = match read_body(&parts.headers, body).await {
            Ok(body) => body,
            Err(refusal) => return *refusal,
        };
        tokio::select! {
            response = self.service.call(key, name, body) => response,
            () = self.life.stopping.cancelled() => {
                refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the node is stopping")
            }
        }
    }
}

async fn speak<S: McpService>(streamable: &Streamable<S>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    match Address::read(&parts) {
        Ok(_) => streamable.handle(Request::from_parts(parts, body)).await,
        Err(why) => refuse(StatusCode::BAD_REQUEST, "bad_request", why),
    }
}

/// Answers sub-agents at their addresses, and lets all other requests pass.
pub(super) async fn of_steps<T: StepService>(
    State(access): State<Arc<StepAccess<T>>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let is_mcp = path == STEP_PATH;
    if !is_mcp && !path.starts_with(CALLS) {
        return next.run(request).await;
    }
    match access.authenticate(request.headers()) {
        Ok(key) => access.answer(key, request).await,
        Err(Denied::NoKey | Denied::NotAKey) if is_mcp && access.is_role => next.run(request).await,
        Err(denied) => {
            tracing::debug!(?denied, "a request without the key of a running step was refused");
            denied.response()
        }
    }
}

#[cfg(test)]
mod tests;
