//! Streamable HTTP: one endpoint for all versions of MCP from 2024-11-05 to 2026-07-28.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::{Method, StatusCode, header::CONTENT_TYPE};
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::{StreamableHttpServerConfig, StreamableHttpService},
};

use super::{
    handed::{Probe, Watched},
    lines::complaint,
    notices::Doors,
    served::Served,
    server::{Life, read_body, refuse},
    sessions::{Files, Sessions},
};

/// Between two comments on a silent stream, in milliseconds: below the shortest silence after
/// which a client's HTTP library gives up.
const KEEP_ALIVE_MS: u64 = 15_000;

/// Streamable HTTP of one address.
pub(super) struct Streamable<S: Served> {
    service: StreamableHttpService<S::Handler, Sessions<S>>,
    life: Life,
    doors: Doors,
}

impl<S: Served> Streamable<S> {
    /// Sessions are remembered in `dir`, if there is one.
    pub(super) fn new(served: Arc<S>, life: &Life, dir: Option<PathBuf>) -> io::Result<Self> {
        let mut config = StreamableHttpServerConfig::default()
            .with_sse_keep_alive(Some(Duration::from_millis(KEEP_ALIVE_MS)))
            // An empty priming event is something that some clients cannot parse.
            .with_sse_retry(None)
            .with_cancellation_token(life.ending.clone())
            // Host and Origin were checked for every endpoint alike.
            .disable_allowed_hosts()
            .disable_allowed_origins();
        if let Some(dir) = &dir {
            config.session_store = Some(Arc::new(Files::open(dir.clone())?));
        }
        let doors = Doors::in_dir(dir.as_deref());
        let sessions = Arc::new(Sessions::new(Arc::clone(&served), doors.clone()));
        let service =
            StreamableHttpService::new(move || Ok(served.of_requests()), sessions, config);
        Ok(Self { service, life: life.clone(), doors })
    }

    pub(super) async fn handle(&self, mut request: Request) -> Response {
        request.extensions_mut().insert(self.doors.clone());
        if request.method() != Method::POST {
            let is_delete = request.method() == Method::DELETE;
            let mut response = self.service.handle(request).await.map(Body::new);
            if is_delete && response.status() == StatusCode::ACCEPTED {
                // The session is ended, not about to be; some clients complain otherwise.
                *response.status_mut() = StatusCode::NO_CONTENT;
            }
            return response;
        }
        if self.life.stopping.is_cancelled() {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the node is stopping");
        }
        let (mut parts, body) = request.into_parts();
        let body = match read_body(&parts.headers, body).await {
            Ok(body) => body,
            Err(refusal) => return *refusal,
        };
        let probe = Probe::new(&self.life.unwritten);
        parts.extensions.insert(probe.clone());
        let request = Request::from_parts(parts, Body::from(body.clone()));
        let response = self.service.handle(request).await.map(Body::new);
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE
            && let Err(error) = serde_json::from_slice::<ClientJsonRpcMessage>(&body)
        {
            let json = [(CONTENT_TYPE, "application/json")];
            return (StatusCode::BAD_REQUEST, json, complaint(&body, &error)).into_response();
        }
        let is_stream = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if is_stream { response.map(|body| Body::new(Watched::new(body, probe))) } else { response }
    }
}
