//! `tasuki-broker`: serves a data directory, verifies it, mends its mark.

#![allow(missing_debug_implementations, reason = "a program has no users of its types")]

use std::{
    io::{IsTerminal as _, Write as _},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::json;
use tasuki_broker::{
    config,
    journal::{
        JournalError,
        sled::{Durability, Options, Report, repair_mark, verify},
    },
    server::{Broker, Settings, StartError},
};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// A fifth of a loaded broker's time goes into small allocations; this halves it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Everything is as it should be.
const EXIT_OK: u8 = 0;
/// The command line or the configuration makes no sense.
const EXIT_USAGE: u8 = 2;
/// The data is damaged, or of a newer release.
const EXIT_DAMAGED: u8 = 65;
/// The data directory or the address is in use or cannot be used.
const EXIT_UNAVAILABLE: u8 = 69;
/// A durable write failed while running; start again once the disk is well.
const EXIT_DISK: u8 = 74;

/// Where gRPC is unless anyone says so.
const PORT: u16 = 7420;

/// Bounds of a lease, in milliseconds: below, an agent's own thinking costs it the turn; beyond,
/// a person had better reclaim.
const LEASE_MS_MIN: u64 = 1000;
const LEASE_MS_MAX: u64 = 30 * 24 * 3600 * 1000;

/// Keeps the work of coding agents in order: turns, receipts, history.
///
/// Exit codes: 0 fine; 2 wrong usage; 65 the data is damaged; 69 the data directory or the
/// address cannot be used; 74 a durable write failed.
#[derive(Parser)]
#[command(name = "tasuki-broker", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// How log lines on stderr look. What is logged: RUST_LOG.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Subcommand)]
enum Command {
    /// Serve gRPC from a data directory until SIGTERM or Ctrl-C.
    Serve(Serve),
    /// Check every commit, record, snapshot and body in a data directory.
    Verify(Data),
    /// Set a lost or spoilt mark to the newest commit, once everything else is found whole.
    ///
    /// The mark is what notices that the newest commits are missing. Without a good one that
    /// loss cannot be seen, so use this only when you know why the mark is gone.
    RepairMark(Data),
}

#[derive(Args)]
struct Serve {
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

#[derive(Args)]
struct Data {
    /// The data directory, as `tasuki up` takes it; the broker's part is `broker` in it
    /// [default: the platform's data directory]
    #[arg(long, env = "TASUKI_DATA", value_name = "DIR")]
    data: Option<PathBuf>,

    /// Configuration file [default: tasuki.toml here, in the data or the configuration directory]
    #[arg(long, env = "TASUKI_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        // When standard error takes nothing any more, these would be written there too, by a
        // macro that panics.
        .log_internal_errors(false);
    match cli.log_format {
        LogFormat::Text => logs.init(),
        LogFormat::Json => logs.json().init(),
    }
    ExitCode::from(match cli.command {
        Command::Serve(it) => serve(it),
        Command::Verify(it) => check(&it, verify),
        Command::RepairMark(it) => check(&it, repair_mark),
    })
}

fn serve(it: Serve) -> u8 {
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
        Ok(runtime) => runtime.block_on(run(settings)),
        Err(error) => {
            tracing::error!(%error, "cannot start");
            EXIT_UNAVAILABLE
        }
    }
}

async fn run(settings: Settings) -> u8 {
    let broker = match Broker::start(settings).await {
        Ok(broker) => broker,
        Err(error) => {
            tracing::error!("{error}");
            return match error {
                StartError::Journal(JournalError::Storage(_)) => EXIT_UNAVAILABLE,
                StartError::Journal(error) => exit_code(&error),
                StartError::Listen { .. }
                | StartError::NotLoopback(_)
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

fn check(data: &Data, how: impl FnOnce(&std::path::Path) -> Result<Report, JournalError>) -> u8 {
    let Some(file) = file(data) else { return EXIT_USAGE };
    match how(&directory(data, &file)) {
        Ok(report) => {
            say(&if data.json { in_json(&report).to_string() } else { in_words(&report) });
            EXIT_OK
        }
        Err(error) => {
            if data.json {
                say(&json!({ "error": error.to_string() }).to_string());
            }
            tracing::error!("{error}");
            exit_code(&error)
        }
    }
}

fn in_json(report: &Report) -> serde_json::Value {
    let workspaces = report.workspaces.iter().map(|(id, it)| {
        let facts = json!({
            "records": it.records, "last": it.last, "snapshot": it.snapshot,
            "bodies": it.bodies, "bytes": it.bytes, "digest": hex(&it.digest),
        });
        (id.to_string(), facts)
    });
    json!({
        "incarnation": hex(&report.incarnation),
        "first_commit": report.first_commit,
        "last_commit": report.last_commit,
        "workspaces": workspaces.collect::<serde_json::Map<_, _>>(),
    })
}

fn in_words(report: &Report) -> String {
    let mut text = format!(
        "whole: commits {} to {}, {} records and {} bodies in {} workspaces",
        report.first_commit,
        report.last_commit,
        report.records(),
        report.bodies(),
        report.workspaces.len()
    );
    for (id, it) in &report.workspaces {
        text += &format!(
            "\n  {id}: {} records up to {}, snapshot at {}, {} bodies, digest {}",
            it.records,
            it.last,
            it.snapshot,
            it.bodies,
            &hex(&it.digest)[..16]
        );
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn exit_code(error: &JournalError) -> u8 {
    match error {
        JournalError::Damaged { .. } | JournalError::Newer { .. } => EXIT_DAMAGED,
        JournalError::InUse(_) => EXIT_UNAVAILABLE,
        JournalError::Storage(_) | JournalError::Compacted { .. } | JournalError::Closed => {
            EXIT_DISK
        }
    }
}

/// The configuration file; `None` when it cannot be used, which was said.
fn file(data: &Data) -> Option<config::File> {
    let read = config::read(data.config.as_deref(), data.data.as_deref());
    read.inspect_err(|error| tracing::error!("{error}")).ok()
}

fn directory(data: &Data, file: &config::File) -> PathBuf {
    let chosen = data.data.clone().or_else(|| file.data.clone());
    chosen.unwrap_or_else(config::data_directory).join(config::FOLDER)
}

/// The only place that writes to stdout. A reader that went away is no reason to stop.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
