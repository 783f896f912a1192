//! A running broker: storage, workspaces, the port they are reached at.

mod accept;
mod peer;

use std::{
    fmt, io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tasuki_proto::{limits::LEASE_MS, token::Token};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

pub use self::{
    accept::{CONNECTIONS_MAX, SILENT_MS_MAX},
    peer::Peer,
};
use crate::{
    access::Tokens,
    admin::{self, AdminError, Serving},
    clock::Clock,
    grpc,
    journal::{
        Journal, JournalError,
        sled::{Options, SledJournal},
    },
    workspace::{ExecuteError, IDLE_MS, Settings as WorkspaceSettings, Workspaces},
};

/// Between two looks at whether old commits are kept for the sake of few workspaces.
const UNPIN_EVERY: Duration = Duration::from_secs(10);

/// How long open calls may take to end when the broker stops.
const DRAIN_WITHIN: Duration = Duration::from_secs(3);

/// HTTP/2 streams open at once on one connection. One connection was seen to break down
/// somewhere between 2,000 and 4,000.
const STREAMS_MAX: u32 = 1000;

/// Keep-alive towards a peer that may be gone: a ping after this much quiet, and this long for
/// its answer. Both together stay under 15 s.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(8);
const KEEP_ALIVE_WITHIN: Duration = Duration::from_secs(6);

/// What a broker is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The data directory; made when it is not there.
    pub data: PathBuf,
    /// Where to listen for gRPC.
    pub listen: SocketAddr,
    /// Of a held turn, in milliseconds.
    pub lease_ms: u64,
    /// Quiet time after which a workspace leaves memory, in milliseconds.
    pub idle_ms: u64,
    pub storage: Options,
}

impl Settings {
    pub fn new(data: PathBuf, listen: SocketAddr) -> Self {
        Self { data, listen, lease_ms: LEASE_MS, idle_ms: IDLE_MS, storage: Options::default() }
    }
}

/// Why a broker does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(
        "{0} is not a loopback address; listening elsewhere needs TLS and tokens, which this \
         release does not have"
    )]
    NotLoopback(SocketAddr),
    #[error(transparent)]
    Administration(#[from] AdminError<ExecuteError>),
    #[error("the tokens cannot be read: {0}")]
    Tokens(#[from] ExecuteError),
    #[error("the service descriptions are not readable: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// A broker that runs until [`Broker::stop`], or until its storage fails.
pub struct Broker {
    address: SocketAddr,
    workspaces: Workspaces,
    journal: Arc<dyn Journal>,
    stopping: CancellationToken,
    server: Mutex<Option<JoinHandle<()>>>,
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
        if !settings.listen.ip().is_loopback() {
            return Err(StartError::NotLoopback(settings.listen));
        }
        let (data, storage) = (settings.data.clone(), settings.storage);
        let opened = tokio::task::spawn_blocking(move || SledJournal::open(&data, storage)).await;
        let journal = opened.unwrap_or_else(|panic| {
            Err(JournalError::Storage(format!("opening the journal panicked: {panic}")))
        })?;
        let (fail, fatal) = watch::channel(None);
        let failed = journal.failed();
        let on_failure = fail.clone();
        tokio::spawn(async move {
            let error = failed.await;
            error!(%error, "the storage failed; the broker ends");
            on_failure.send_replace(Some(error.to_string()));
        });
        Self::start_on(Arc::new(journal), settings, fail, fatal).await
    }

    async fn start_on(
        journal: Arc<dyn Journal>,
        settings: Settings,
        fail: watch::Sender<Option<String>>,
        fatal: watch::Receiver<Option<String>>,
    ) -> Result<Self, StartError> {
        let shared = WorkspaceSettings { lease_ms: settings.lease_ms, idle_ms: settings.idle_ms };
        let on_fatal = Arc::new(move |why: &str| {
            fail.send_if_modified(|it| it.is_none() && it.replace(why.to_owned()).is_none());
        });
        let clock = Clock::system();
        let workspaces = Workspaces::start(journal.clone(), clock.clone(), shared, on_fatal).await;
        let stopping = CancellationToken::new();
        let tokens = Tokens::start(&workspaces, clock, false, stopping.clone()).await?;
        let listen = |source| StartError::Listen { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let routes = grpc::routes(&workspaces, &tokens, &stopping)?;
        let connections = accept::connections(listener, stopping.clone());
        let server = tonic::transport::Server::builder()
            .max_concurrent_streams(STREAMS_MAX)
            .http2_keepalive_interval(Some(KEEP_ALIVE_EVERY))
            .http2_keepalive_timeout(Some(KEEP_ALIVE_WITHIN))
            .http2_max_header_list_size(Some(16 * 1024))
            .layer(grpc::Guard::new(tokens.clone()))
            .add_routes(routes)
            .serve_with_incoming_shutdown(connections, stopping.clone().cancelled_owned());
        let serving = Serving {
            address,
            advertise: address.to_string(),
            fingerprint: None,
            is_vouched_for: false,
        };
        let may = |token: &Token| tokens.administrates(token);
        let issue = async |secret| tokens.issue_administrator(secret, admin::LABEL).await;
        admin::prepare(&settings.data, serving, may, issue).await?;
        let server = tokio::spawn(async move {
            if let Err(error) = server.await {
                error!(%error, "the gRPC server ended");
            }
        });
        tokio::spawn(keep_unpinned(workspaces.clone(), stopping.clone()));
        info!(%address, data = %settings.data.display(), "broker started");
        let server = Mutex::new(Some(server));
        Ok(Self { address, workspaces, journal, stopping, server, fatal })
    }

    /// Where it listens, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resolves when the storage failed: the process must end then, with this to say.
    pub async fn failed(&self) -> String {
        let mut fatal = self.fatal.clone();
        let failed = fatal.wait_for(Option::is_some).await.ok().and_then(|it| it.clone());
        match failed {
            Some(why) => why,
            None => std::future::pending().await,
        }
    }

    /// Stops accepting, answers the waits with what holds, and closes the storage.
    ///
    /// # Errors
    /// When the storage could not be closed; what was acknowledged is durable all the same.
    pub async fn stop(&self) -> Result<(), JournalError> {
        self.stopping.cancel();
        self.workspaces.end_waits();
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut server) = server
            && tokio::time::timeout(DRAIN_WITHIN, &mut server).await.is_err()
        {
            warn!("some calls did not end in time");
            server.abort();
        }
        self.journal.close().await
    }
}

/// Lets old commits be dropped that a quiet workspace holds on to.
async fn keep_unpinned(workspaces: Workspaces, stopping: CancellationToken) {
    let mut every = tokio::time::interval(UNPIN_EVERY);
    loop {
        tokio::select! {
            _ = every.tick() => workspaces.unpin().await,
            () = stopping.cancelled() => return,
        }
    }
}
