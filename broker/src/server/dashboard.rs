//! The dashboard's address: pages for people, metrics, and whether the broker serves.
//!
//! On loopback whoever reaches it is let in, as to gRPC and MCP. Anywhere else, or where the broker
//! is told to be secure, it is TLS and tokens: people log in, and see what theirs may see; metrics
//! are of all workspaces, and take one that reads all of them.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::get,
};
use futures::StreamExt as _;
use http::{
    HeaderMap, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE},
};
use hyper::{body::Incoming, server::conn::http1, service::Service as _};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tasuki_proto::{
    host::{dashboard::Dashboard, port_owner::why_taken},
    limits::WORKSPACE_DEFAULT,
    net::site::{Site, follow_link},
    token::Right,
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected as _;
use tracing::{debug, warn};

use super::{StartError, scrape::Scrape};
use crate::{
    access::{Denied, Tokens},
    connection::{self, Connection, Peer, Protocol},
    dashboard,
    grpc::{self, Carrier, Probe},
    metrics::ConnectionMetrics,
};

/// Until a request's head is complete, and between two requests of a connection: longer than the
/// usual pause between two scrapes.
const HEAD_WITHIN: Duration = Duration::from_secs(90);

/// A request's head, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// What Prometheus calls the format.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Takes its address. Nobody need know of one that nobody asked for, so that may be another.
pub(super) async fn bind(dashboard: Dashboard) -> Result<Option<TcpListener>, StartError> {
    let (address, bound) = match dashboard {
        Dashboard::Off => return Ok(None),
        Dashboard::At(address) => (address, TcpListener::bind(address).await),
        Dashboard::Usual => (Dashboard::usual(), bind_near(Dashboard::usual()).await),
    };
    bound.map(Some).map_err(|why| {
        let source = io::Error::new(why.kind(), why_taken(address, &why));
        StartError::Dashboard { address, source }
    })
}

/// Takes an address, or a free port beside one that somebody has.
async fn bind_near(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(taken) if taken.kind() == io::ErrorKind::AddrInUse => {
            TcpListener::bind((address.ip(), 0)).await
        }
        bound => bound,
    }
}

/// What it shows, and to whom.
pub(super) struct Parts {
    pub(super) site: Site,
    /// `None`: it is open.
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) tokens: Tokens,
    /// How pages make calls.
    pub(super) carrier: Carrier,
    pub(super) scrape: Scrape,
    pub(super) probe: Probe,
    pub(super) metrics: Arc<ConnectionMetrics>,
}

/// Serves it until `stopping`.
pub(super) fn serve(listener: TcpListener, parts: Parts, stopping: CancellationToken) {
    let Parts { site, tls, tokens, carrier, scrape, probe, metrics } = parts;
    let is_guarded = tls.is_some();
    let shown = Arc::new(Shown { scrape, probe });
    let reader = is_guarded.then(|| Arc::new(tokens));
    let pages = dashboard::router(dashboard::Settings {
        carrier,
        asks_for_token: is_guarded,
        secure_port: listener.local_addr().ok().map(|it| it.port()).filter(|_| is_guarded),
        words: None,
        servers: None,
        home: WORKSPACE_DEFAULT.parse().expect("the default is an id"),
        stopping: stopping.clone(),
    });
    let app = Router::new()
        .route("/metrics", get(metrics_text))
        .route("/healthz", get(health))
        .with_state(shown)
        .route_layer(middleware::from_fn_with_state(reader, check_reader))
        .merge(pages)
        .layer(middleware::from_fn_with_state(Arc::new((site, is_guarded)), check_site));
    let connections =
        connection::connections(listener, Protocol::Http1, tls, metrics, stopping.clone());
    tokio::spawn(async move {
        let mut connections = std::pin::pin!(connections);
        while let Some(Ok(connection)) = connections.next().await {
            tokio::spawn(converse(connection, app.clone(), stopping.clone()));
        }
    });
}

/// This end of a connection.
#[derive(Debug, Clone, Copy)]
struct Here(SocketAddr);

async fn converse(connection: Connection, app: Router, stopping: CancellationToken) {
    let (peer, here) = (connection.connect_info(), connection.local_addr().ok().map(Here));
    let app = TowerToHyperService::new(app);
    let service = hyper::service::service_fn(|mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&peer));
        if let Some(here) = here {
            request.extensions_mut().insert(here);
        }
        app.call(request)
    });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(connection), service)
    );
    let done = tokio::select! {
        done = connection.as_mut() => done,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = done {
        debug!(%error, "a connection to the dashboard ended");
    }
}

/// Whether a request is one of this server's own pages, or of a program on this machine.
async fn check_site(
    State(access): State<Arc<(Site, bool)>>,
    mut request: Request,
    next: Next,
) -> Response {
    let (site, is_guarded) = &*access;
    follow_link(&mut request);
    let here = request.extensions().get().map(|here: &Here| here.0);
    if let Err(why) = site.check(request.uri(), request.headers(), here) {
        warn!(%why, "a request to the dashboard from elsewhere was refused");
        return plain(StatusCode::FORBIDDEN, &format!("{why}\n"));
    }
    // Where tokens are asked for, it is a good one that makes a visitor known.
    if let Some(peer) = request.extensions().get::<Arc<Peer>>().filter(|_| !is_guarded) {
        peer.become_known();
    }
    next.run(request).await
}

/// Whether a program may see what is of all workspaces.
async fn check_reader(
    State(tokens): State<Option<Arc<Tokens>>>,
    request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>();
    match tokens {
        Some(tokens) => match admit(&tokens, request.headers(), peer).await {
            Ok(()) => next.run(request).await,
            Err(refused) => refused,
        },
        None => next.run(request).await,
    }
}

/// Whether a request shows a token that reads all workspaces.
async fn admit(
    tokens: &Tokens,
    headers: &HeaderMap,
    peer: Option<&Arc<Peer>>,
) -> Result<(), Response> {
    let shown = grpc::shown_token(headers);
    let shown = shown.and_then(|shown| shown.ok_or(Denied::Missing));
    let grant = match shown.and_then(|shown| tokens.authenticate(Some(shown))) {
        Ok(grant) => grant,
        Err(denied) => {
            if let Some(peer) = peer {
                grpc::penalise(tokens, peer).await;
            }
            let refused = plain(StatusCode::UNAUTHORIZED, &format!("{denied}\n"));
            return Err(([(WWW_AUTHENTICATE, "Bearer")], refused).into_response());
        }
    };
    if let Some(peer) = peer {
        grant.shown_on(peer);
    }
    if grant.has_all_workspaces() && grant.has_right(Right::Read) {
        return Ok(());
    }
    let why = "the dashboard shows all workspaces: it takes a token for all of them with the \
               `read` right; see `tasuki-broker token --help`\n";
    Err(plain(StatusCode::FORBIDDEN, why))
}

struct Shown {
    scrape: Scrape,
    probe: Probe,
}

async fn metrics_text(State(shown): State<Arc<Shown>>) -> Response {
    let text = shown.scrape.text().await;
    ([(CONTENT_TYPE, METRICS_TYPE), (CACHE_CONTROL, "no-store")], text).into_response()
}

async fn health(State(shown): State<Arc<Shown>>) -> Response {
    match shown.probe.is_serving().await {
        true => plain(StatusCode::OK, "ok\n"),
        false => plain(StatusCode::SERVICE_UNAVAILABLE, "the broker does not write to its disk\n"),
    }
}

fn plain(status: StatusCode, text: &str) -> Response {
    let headers = [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CACHE_CONTROL, "no-store")];
    (status, headers, text.to_owned()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_nobody_asked_for_moves_on() {
        let first = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let taken = bind_near(first).await.unwrap();
        let second = bind_near(taken.local_addr().unwrap()).await.unwrap();
        let (taken, second) = (taken.local_addr().unwrap(), second.local_addr().unwrap());
        assert_eq!(taken.ip(), second.ip());
        assert_ne!(taken.port(), second.port());
    }
}
