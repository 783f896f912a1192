//! `tasuki-broker serve`: gRPC from a data directory, until it is told to stop.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, builder::FalseyValueParser};
use tasuki_broker::{
    journal::{
        JournalError,
        sled::{Durability, Options},
    },
    server::{Broker, Settings, StartError},
};
use tasuki_proto::{
    host::{config, dashboard::Dashboard, unwritable::Unwritable},
    net::tls::TlsError,
};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    Data, EXIT_DAMAGED, EXIT_DISK, EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE, claim_directory,
    directory, exit_code, file, say,
};

/// Where gRPC is unless anyone says so.
const PORT: u16 = 7420;

/// Bounds of a lease, in milliseconds: below, an agent's own thinking costs it the turn; beyond,
/// a person had better reclaim.
const LEASE_MS_MIN: u64 = 1000;
const LEASE_MS_MAX: u64 = 30 * 24 * 3600 * 1000;

#[derive(Args)]
pub(super) struct Serve {
    #[command(flatten)]
    data: Data,

    /// Address on which to serve gRPC; port 0 takes a free one [default: 127.0.0.1:7420]
    ///
    /// Off loopback, TLS and tokens are always required; `tasuki-broker invite` lets machines in.
    #[arg(long, env = "TASUKI_BROKER_LISTEN", value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Address on which to serve the dashboard and /metrics, or off
    /// [default: 127.0.0.1:7422, or a free port where that one is taken]
    ///
    /// Off loopback, or with --secure, it takes TLS; people log in with a token, and /metrics takes
    /// one that may `read` all workspaces.
    #[arg(long, env = "TASUKI_DASHBOARD", value_name = "ADDRESS")]
    dashboard: Option<Dashboard>,

    /// Require TLS and tokens on a loopback address too, such as behind a tunnel
    #[arg(long, env = "TASUKI_SECURE", value_parser = FalseyValueParser::new())]
    secure: bool,

    /// Name or address under which other machines reach this one; part of invitations and of a new
    /// certificate [default: this machine's address]
    #[arg(long, env = "TASUKI_ADVERTISE", value_name = "HOST[:PORT]")]
    advertise: Option<String>,

    /// Certificate with its chain in PEM; turns TLS and tokens on
    /// [default: a self-signed one, known by its fingerprint]
    #[arg(long, env = "TASUKI_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// Private key of that certificate in PEM
    #[arg(long, env = "TASUKI_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// Require a client certificate from an authority in this file (PEM), in addition to a token;
    /// turns TLS and tokens on
    #[arg(long, env = "TASUKI_CLIENT_CA", value_name = "FILE")]
    client_ca: Option<PathBuf>,

    /// How long a turn stays with its holder after the last sign of life [default: 15m]
    #[arg(long, env = "TASUKI_LEASE", value_name = "DURATION", value_parser = config::duration)]
    lease: Option<Duration>,

    /// Serve data that was moved here or restored from a backup: a copy is refused otherwise
    ///
    /// Needed once: the new place is recorded. Make sure that no other copy is served. Changes
    /// since a backup are lost, and tokens that were revoked since are valid again: check
    /// `tasuki-broker token list`.
    #[arg(long)]
    moved: bool,

    /// Leave out the sync that makes a commit survive a power cut. Loses acknowledged work.
    #[arg(long, hide = true)]
    unsynced: bool,
}

pub(super) fn run(it: Serve) -> u8 {
    let Some(file) = file(&it.data) else { return EXIT_USAGE };
    let Some(directory) = directory(&it.data, &file) else { return EXIT_USAGE };
    claim_directory(&it.data, &file);
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let listen = it.listen.or(file.broker_listen).unwrap_or(default);
    let mut settings = Settings::new(directory, listen);
    if let Some(lease) = it.lease.or(file.lease) {
        let ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        settings.lease_ms = ms.clamp(LEASE_MS_MIN, LEASE_MS_MAX);
    }
    settings.dashboard = it.dashboard.or(file.dashboard).unwrap_or_default();
    settings.is_moved = it.moved;
    settings.secure = it.secure || file.secure.unwrap_or(false);
    settings.advertise = it.advertise.or(file.advertise);
    settings.client_ca = it.client_ca.or(file.client_ca);
    settings.tls = match (it.tls_cert.or(file.tls_cert), it.tls_key.or(file.tls_key)) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some((cert, key)),
        (Some(_), None) | (None, Some(_)) => {
            tracing::error!("a certificate and its key go together: tls_cert and tls_key");
            return EXIT_USAGE;
        }
    };
    if it.unsynced {
        settings.storage = Options { durability: Durability::Unsynced };
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(serve(settings)),
        Err(error) => {
            tracing::error!(%error, "cannot start");
            EXIT_UNAVAILABLE
        }
    }
}

async fn serve(settings: Settings) -> u8 {
    let data = settings.data.clone();
    let broker = match Broker::start(settings).await {
        Ok(broker) => broker,
        Err(error) => {
            tracing::error!("{error}{}", start_hint(&error, &data));
            return match error {
                StartError::Journal(JournalError::Storage(_)) => EXIT_UNAVAILABLE,
                StartError::Journal(error) => exit_code(&error),
                StartError::Tls(TlsError::Lost { .. }) => EXIT_DAMAGED,
                StartError::Tls(TlsError::Unwritable { .. }) => EXIT_UNAVAILABLE,
                StartError::Tls(_) | StartError::Advertise(_) => EXIT_USAGE,
                StartError::Location(_)
                | StartError::Listen { .. }
                | StartError::Dashboard { .. }
                | StartError::Administration(_)
                | StartError::Tokens(_)
                | StartError::Reflection(_) => EXIT_UNAVAILABLE,
            };
        }
    };
    // Whoever is told that it listens may stop it at once.
    let told = told_to_stop();
    say(&format!("listening on {} (broker gRPC)", broker.url()));
    if let Some(fingerprint) = broker.fingerprint() {
        say(&format!("advertised as https://{}", broker.advertised()));
        say(&format!("certificate SHA-256 {fingerprint}"));
    }
    if let Some(url) = broker.dashboard() {
        say(&format!("listening on {url} (dashboard)"));
    }
    tokio::select! {
        why = broker.failed() => {
            tracing::error!("{why}; acknowledged work is on disk, start again once it is well");
            return EXIT_DISK;
        }
        () = told => {}
    }
    tracing::info!("stopping");
    match broker.stop().await {
        Ok(()) => EXIT_OK,
        Err(error) => {
            tracing::error!("{error}");
            exit_code(&error)
        }
    }
}

/// What to do about it, to follow the reason.
fn start_hint(error: &StartError, data: &Path) -> String {
    if matches!(error, StartError::Listen { .. }) {
        return "; choose another address with --listen ADDRESS".to_owned();
    }
    let found = if error.is_write_failure() { Unwritable::find(data) } else { None };
    found.map(|why| format!(". {why}")).unwrap_or_default()
}

/// Listens from the call on, whether or not it is polled.
fn told_to_stop() -> impl Future<Output = ()> {
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        let (Ok(mut term), Ok(mut interrupt)) = signals else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}
