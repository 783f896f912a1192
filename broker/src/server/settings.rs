//! What a broker is started with, and why it does not start.

use std::{io, net::SocketAddr, path::PathBuf};

use tasuki_proto::{
    host::{admin::AdminError, dashboard::Dashboard, location::LocationError},
    id::WorkspaceId,
    limits::LEASE_MS,
    net::tls::TlsError,
};

use crate::{
    journal::{JournalError, sled::Options},
    workspace::{ExecuteError, IDLE_MS},
};

/// What a broker is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The data directory; made when it is not there.
    pub data: PathBuf,
    /// The data was moved here, or restored from a backup: no other copy is served.
    pub is_moved: bool,
    /// Where to listen for gRPC.
    pub listen: SocketAddr,
    /// Workspaces that there are from the start on; nodes and invitations make others.
    pub workspaces: Vec<WorkspaceId>,
    /// Guarded on a loopback address too.
    pub secure: bool,
    /// A certificate, with what lies between it and its authority, and its key, both in PEM;
    /// `None`: one of the broker's own making.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Authorities in PEM, one of which must have signed a certificate of every client.
    pub client_ca: Option<PathBuf>,
    /// `HOST` or `HOST:PORT` under which others reach it; `None`: what this machine calls itself.
    pub advertise: Option<String>,
    /// It runs beside a node in one process, of which another node's may take its place.
    pub has_node: bool,
    /// Of a held turn, in milliseconds.
    pub lease_ms: u64,
    pub dashboard: Dashboard,
    /// Quiet time after which a workspace leaves memory, in milliseconds.
    pub idle_ms: u64,
    pub storage: Options,
}

impl Settings {
    pub fn new(data: PathBuf, listen: SocketAddr) -> Self {
        Self {
            data,
            is_moved: false,
            listen,
            workspaces: Vec::new(),
            secure: false,
            tls: None,
            client_ca: None,
            advertise: None,
            has_node: false,
            lease_ms: LEASE_MS,
            dashboard: Dashboard::Off,
            idle_ms: IDLE_MS,
            storage: Options::default(),
        }
    }

    /// TLS and tokens are asked for.
    pub fn is_guarded(&self) -> bool {
        self.guards(self.listen)
    }

    /// The same of what listens at this address. Whoever can be reached from elsewhere has no
    /// choice.
    pub fn guards(&self, address: SocketAddr) -> bool {
        let is_loopback = address.ip().is_loopback();
        !is_loopback || self.secure || self.tls.is_some() || self.client_ca.is_some()
    }
}

/// Why a broker does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("{0}{hint}", hint = moved_hint(.0))]
    Location(#[from] LocationError),
    #[error("cannot listen on {address}: {why}")]
    Listen { address: SocketAddr, why: String },
    #[error(
        "cannot serve the dashboard on {address}: {source}; name another address with --dashboard, \
         or leave it out with --dashboard off"
    )]
    Dashboard { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{0:?} cannot be advertised; it takes HOST or HOST:PORT, such as broker.example:7420")]
    Advertise(String),
    #[error(transparent)]
    Administration(#[from] AdminError<ExecuteError>),
    #[error("the tokens cannot be read: {0}")]
    Tokens(#[from] ExecuteError),
    #[error("the service descriptions are not readable: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

impl StartError {
    /// Whether the data directory could not be written to, of which its disk may know more.
    pub const fn is_write_failure(&self) -> bool {
        match self {
            Self::Journal(JournalError::Storage(_)) | Self::Administration(_) => true,
            Self::Journal(_)
            | Self::Location(_)
            | Self::Listen { .. }
            | Self::Dashboard { .. }
            | Self::Tls(_)
            | Self::Advertise(_)
            | Self::Tokens(_)
            | Self::Reflection(_) => false,
        }
    }
}

/// What to do about data that is not where it was.
const fn moved_hint(why: &LocationError) -> &'static str {
    match why {
        LocationError::Elsewhere { .. } | LocationError::Damaged { .. } => {
            ". Brokers that serve copies of the same data contradict each other. If no other copy \
             is served, start this one with --moved, once. If it is from a backup, tokens that \
             were revoked since are good again: see `tasuki-broker token list`"
        }
        LocationError::Io { .. } => "",
    }
}
