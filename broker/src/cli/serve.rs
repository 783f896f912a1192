//! `tasuki-broker serve`: gRPC from a data directory, until it is told to stop.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use clap::Args;
use tasuki_broker::{
    config,
    journal::{
        JournalError,
        sled::{Durability, Options},
    },
    server::{Broker, Settings, StartError},
};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    Data, EXIT_DISK, EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE, directory, exit_code, file, say,
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

    /// Where to listen for gRPC; port 0 takes a free one [default: 127.0.0.1:7420]
    #[arg(long, env = "TASUKI_BROKER_LISTEN", value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// How long a turn may be held without a sign of life [default: 15m]
    #[arg(long, env = "TASUKI_LEASE", value_name = "DURATION", value_parser = config::duration)]
    lease: Option<Duration>,

    /// Leave out the sync that makes a commit survive a power cut. Loses acknowledged work.
    #[arg(long, hide = true)]
    unsynced: bool,
}

pub(super) fn run(it: Serve) -> u8 {
    let Some(file) = file(&it.data) else { return EXIT_USAGE };
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let listen = it.listen.or(file.broker_listen).unwrap_or(default);
    let mut settings = Settings::new(directory(&it.data, &file), listen);
    if let Some(lease) = it.lease.or(file.lease) {
        let ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        settings.lease_ms = ms.clamp(LEASE_MS_MIN, LEASE_MS_MAX);
    }
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
    let broker = match Broker::start(settings).await {
        Ok(broker) => broker,
        Err(error) => {
            tracing::error!("{error}");
            return match error {
                StartError::Journal(JournalError::Storage(_)) => EXIT_UNAVAILABLE,
                StartError::Journal(error) => exit_code(&error),
                StartError::Listen { .. }
                | StartError::NotLoopback(_)
                | StartError::Administration(_)
                | StartError::Tokens(_)
                | StartError::Reflection(_) => EXIT_UNAVAILABLE,
            };
        }
    };
    say(&format!("listening on http://{} (broker gRPC)", broker.address()));
    tokio::select! {
        why = broker.failed() => {
            tracing::error!("{why}; acknowledged work is on disk, start again once it is well");
            return EXIT_DISK;
        }
        () = told_to_stop() => {}
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

async fn told_to_stop() {
    let (Ok(mut term), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
}
