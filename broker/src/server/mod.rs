//! A running broker: storage, workspaces, the port they are reached at, the dashboard.

mod advertise;
mod dashboard;
mod scrape;
mod settings;

use std::{fmt, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tasuki_proto::{
    host::{
        admin::{self, Serving},
        location,
        port_owner::why_taken,
    },
    invitation::Fingerprint,
    net::{
        site::{IsNamed, Site},
        tls::{ALPN_H2, ALPN_HTTP1, ServerIdentity, TlsError},
    },
    token::Token,
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle, time::MissedTickBehavior};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tower::{Layer as _, ServiceExt as _};
use tracing::{error, info, warn};

pub use self::settings::{Settings, StartError};
use self::{
    advertise::Advertised,
    scrape::{Scrape, Sources},
};
pub use crate::backup::TLS_FOLDER;
use crate::{
    access::Tokens,
    clock::Clock,
    connection::{self, Protocol, limits},
    grpc::{self, Carrier, Probe},
    journal::{
        Journal, JournalError,
        sled::{Options, SledJournal},
    },
    metrics::CommitMetrics,
    search::Search,
    workspace::{Settings as WorkspaceSettings, Workspaces},
};

/// Between two looks at whether old commits are kept for the sake of few workspaces.
const UNPIN_EVERY: Duration = Duration::from_secs(10);

/// How long open calls may take to end when the broker stops.
const DRAIN_WITHIN: Duration = Duration::from_secs(3);

/// How long they may take when the storage failed: their answers are on their way already.
const TELL_WITHIN: Duration = Duration::from_secs(1);

/// How long indexes may take to note what came in last.
const INDEXES_WITHIN: Duration = Duration::from_secs(1);

/// How long the names of whoever was last heard of may take to be written.
const LAST_SEEN_WITHIN: Duration = Duration::from_secs(1);

/// A broker that runs until [`Broker::stop`], or until its storage fails.
pub struct Broker {
    address: SocketAddr,
    local_url: String,
    advertised: Advertised,
    fingerprint: Option<Fingerprint>,
    dashboard: Option<String>,
    carrier: Carrier,
    workspaces: Workspaces,
    search: Search,
    journal: Arc<dyn Journal>,
    stopping: CancellationToken,
    server: Mutex<Option<JoinHandle<()>>>,
    /// Writes who was last heard of.
    last_seen: Mutex<Option<JoinHandle<()>>>,
    fatal: watch::Receiver<Option<String>>,
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Broker {
    /// Opens and verifies the data, then listens.
    ///
    /// # Errors
    /// What is wrong with the data, the directory or the address.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let (data, storage) = (settings.data.clone(), settings.storage);
        let is_moved = settings.is_moved;
        let opened = tokio::task::spawn_blocking(move || open(&data, is_moved, storage)).await;
        let journal = opened.unwrap_or_else(|panic| {
            let what = format!("opening the journal panicked: {panic}");
            Err(JournalError::Storage(what).into())
        })?;
        let (fail, fatal) = watch::channel(None);
        let failed = journal.failed();
        let on_failure = fail.clone();
        tokio::spawn(async move {
            let error = failed.await;
            error!(%error, "the storage failed; the broker ends");
            on_failure.send_replace(Some(error.to_string()));
        });
        let commits = journal.metrics();
        Self::start_on(journal, commits, settings, fail, fatal).await
    }

    async fn start_on(
        storage: SledJournal,
        commits: Arc<CommitMetrics>,
        settings: Settings,
        fail: watch::Sender<Option<String>>,
        fatal: watch::Receiver<Option<String>>,
    ) -> Result<Self, StartError> {
        let journal: Arc<dyn Journal> = Arc::new(storage.clone());
        let shared = WorkspaceSettings { lease_ms: settings.lease_ms, idle_ms: settings.idle_ms };
        let on_fatal = Arc::new(move |why: &str| {
            fail.send_if_modified(|it| it.is_none() && it.replace(why.to_owned()).is_none());
        });
        let clock = Clock::system();
        let started = clock.now();
        let workspaces = Workspaces::start(journal.clone(), clock.clone(), shared, on_fatal).await;
        for workspace in &settings.workspaces {
            workspaces.make(workspace.clone());
        }
        let stopping = CancellationToken::new();
        let last_seen = workspaces.keep_last_seen(&settings.data, stopping.clone());
        let is_guarded = settings.is_guarded();
        let tokens = Tokens::start(&workspaces, clock, is_guarded, stopping.clone()).await?;
        let listen = |why: std::io::Error| StartError::Listen {
            address: settings.listen,
            why: why_taken(settings.listen, &why),
        };
        let listener = TcpListener::bind(settings.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let advertised = Advertised::new(settings.advertise.as_deref(), address)?;
        let dashboard = dashboard::bind(settings.dashboard).await?;
        let dashboard_at = dashboard.as_ref().and_then(|it| it.local_addr().ok());
        let is_dashboard_guarded = dashboard_at.is_some_and(|address| settings.guards(address));
        let names = advertised.names(address);
        let identity = (is_guarded || is_dashboard_guarded).then(|| identity(&settings, &names));
        let identity = identity.transpose()?;
        let shown = identity.as_ref().filter(|_| is_guarded);
        let tls = acceptor(&settings, shown, ALPN_H2)?;
        assert_eq!(tls.is_some(), tokens.is_guarded(), "TLS and tokens come together");
        let fingerprint = shown.map(ServerIdentity::fingerprint);
        let search = Search::start(&settings.data, &workspaces, stopping.clone());
        let probe = Probe::new(&workspaces, stopping.clone());
        let routes = grpc::routes(&workspaces, &tokens, &search, &probe, &stopping, &storage)?;
        let calls = grpc::call_metrics();
        let carrier = in_process(routes.clone(), grpc::Guard::new(tokens.clone(), calls.clone()));
        let sources = Sources {
            workspaces: workspaces.clone(),
            commits,
            calls,
            grpc: Arc::default(),
            dashboard: Arc::default(),
            data: settings.data.clone(),
            started,
        };
        let (calls, opened) = (Arc::clone(&sources.calls), Arc::clone(&sources.grpc));
        let connections =
            connection::connections(listener, Protocol::Http2, tls, opened, stopping.clone());
        let server = tonic::transport::Server::builder()
            .max_concurrent_streams(limits::STREAMS_MAX)
            .http2_keepalive_interval(Some(limits::KEEP_ALIVE_EVERY))
            .http2_keepalive_timeout(Some(limits::KEEP_ALIVE_WITHIN))
            .http2_max_header_list_size(Some(limits::HEADER_BYTES_MAX))
            .http2_max_pending_accept_reset_streams(Some(limits::RESETS_UNSEEN_MAX))
            .http2_max_local_error_reset_streams(Some(limits::RESETS_OWED_MAX))
            .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
            .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
            .layer(grpc::Guard::new(tokens.clone(), calls))
            .add_routes(routes)
            .serve_with_incoming_shutdown(connections, stopping.clone().cancelled_owned());
        let serving = Serving {
            address,
            advertise: advertised.to_string(),
            fingerprint,
            is_vouched_for: shown.is_some_and(ServerIdentity::is_vouched_for),
            has_node: settings.has_node,
        };
        let may = |token: &Token| tokens.administrates(token);
        let issue = async |secret| tokens.issue_administrator(secret, admin::LABEL).await;
        let local_url = admin::prepare(&settings.data, serving, may, issue).await?.url;
        let server = tokio::spawn(async move {
            if let Err(error) = server.await {
                error!(%error, "the gRPC server ended");
            }
        });
        tokio::spawn(keep_unpinned(workspaces.clone(), stopping.clone()));
        let guarding = identity.filter(|_| is_dashboard_guarded);
        let tls = acceptor(&settings, guarding.as_ref(), ALPN_HTTP1)?;
        let dashboard_url = dashboard_at.map(|address| url(tls.is_some(), address));
        if let (Some(listener), Some(address)) = (dashboard, dashboard_at) {
            let is_named = |identity: ServerIdentity| -> IsNamed {
                Arc::new(move |host: &str| identity.is_for(host))
            };
            let parts = dashboard::Parts {
                site: Site::new(address, guarding.map(is_named)),
                tls,
                tokens: tokens.clone(),
                carrier: carrier.clone(),
                metrics: Arc::clone(&sources.dashboard),
                scrape: Scrape::new(sources),
                probe,
            };
            dashboard::serve(listener, parts, stopping.clone());
        }
        let data = settings.data.display();
        info!(%address, dashboard = dashboard_url, %data, "broker started");
        search.catch_up();
        let (server, last_seen) = (Mutex::new(Some(server)), Mutex::new(Some(last_seen)));
        Ok(Self {
            address,
            local_url,
            advertised,
            fingerprint,
            dashboard: dashboard_url,
            carrier,
            workspaces,
            search,
            journal,
            stopping,
            server,
            last_seen,
            fatal,
        })
    }

    /// Where it listens, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL under which it is reached from this machine.
    pub fn local_url(&self) -> &str {
        &self.local_url
    }

    /// Reaches it without a socket, through the same guard as everybody. Nothing is answered once it
    /// has stopped.
    pub fn carrier(&self) -> Carrier {
        self.carrier.clone()
    }

    /// The same as a URL.
    pub fn url(&self) -> String {
        url(self.fingerprint.is_some(), self.address)
    }

    /// The URL of its dashboard; `None`: it has none.
    pub fn dashboard(&self) -> Option<&str> {
        self.dashboard.as_deref()
    }

    /// `HOST:PORT` under which others reach it.
    pub fn advertised(&self) -> String {
        self.advertised.to_string()
    }

    /// Of the certificate it shows; `None`: it is open, and shows none.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.fingerprint
    }

    /// Resolves when the storage failed: the process must end then, with this to say. Nothing is
    /// written any more, and whoever waited for an answer was told.
    pub async fn failed(&self) -> String {
        let mut fatal = self.fatal.clone();
        let failed = fatal.wait_for(Option::is_some).await.ok().and_then(|it| it.clone());
        let Some(why) = failed else { return std::future::pending().await };
        self.end_calls(TELL_WITHIN).await;
        why
    }

    /// Takes on nothing new, and gives open calls so long to be answered.
    async fn end_calls(&self, within: Duration) {
        self.stopping.cancel();
        self.workspaces.end_waits();
        let server = self.server.lock().take();
        if let Some(mut server) = server
            && tokio::time::timeout(within, &mut server).await.is_err()
        {
            warn!("some calls did not end in time");
            server.abort();
        }
    }

    /// Stops accepting, answers the waits with what holds, and closes the storage.
    ///
    /// # Errors
    /// When the storage could not be closed; what was acknowledged is durable all the same.
    pub async fn stop(&self) -> Result<(), JournalError> {
        self.end_calls(DRAIN_WITHIN).await;
        // What does not come into the indexes in time is read again at the next start.
        let _ = tokio::time::timeout(INDEXES_WITHIN, self.search.gone()).await;
        let last_seen = self.last_seen.lock().take();
        if let Some(writing) = last_seen {
            // People alone miss what is not written in time.
            let _ = tokio::time::timeout(LAST_SEEN_WITHIN, writing).await;
        }
        self.journal.close().await
    }
}

/// The services as pages and a node of this process reach them: through the guard, without a socket.
fn in_process(routes: Routes, guard: grpc::Guard) -> Carrier {
    let guarded = guard.layer(routes);
    Carrier::new(guarded.map_err(Into::into))
}

fn url(is_guarded: bool, address: SocketAddr) -> String {
    let scheme = if is_guarded { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// What a guarded broker shows.
fn identity(settings: &Settings, names: &[String]) -> Result<ServerIdentity, TlsError> {
    match &settings.tls {
        Some((cert, key)) => ServerIdentity::given(cert, key),
        None => ServerIdentity::own(&settings.data.join(TLS_FOLDER), names),
    }
}

fn acceptor(
    settings: &Settings,
    identity: Option<&ServerIdentity>,
    alpn: &[u8],
) -> Result<Option<TlsAcceptor>, TlsError> {
    let client_ca = settings.client_ca.as_deref();
    identity.map(|it| it.acceptor(client_ca, &[alpn])).transpose()
}

/// Opens the original's journal, not a copy's.
fn open(data: &Path, is_moved: bool, storage: Options) -> Result<SledJournal, StartError> {
    if !is_moved {
        location::check(data)?;
    }
    let journal = SledJournal::open(data, storage)?;
    // Not before the directory is this broker's. A disk that takes nothing is said by what follows.
    if let Err(why) = location::note(data) {
        warn!(%why, "a copy of this data could be served unnoticed");
    }
    Ok(journal)
}

/// Lets old commits be dropped that a quiet workspace holds on to.
async fn keep_unpinned(workspaces: Workspaces, stopping: CancellationToken) {
    let mut every = tokio::time::interval(UNPIN_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = every.tick() => workspaces.snapshot_laggards().await,
            () = stopping.cancelled() => return,
        }
    }
}
