//! All metrics of a broker at one moment.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text::encode},
    registry::Registry,
};
use tasuki_proto::id::Timestamp;
use tokio::{sync::Mutex, time::Instant};

use crate::{
    disk::{MIB, Space},
    metrics::{CallMetrics, CommitMetrics, ConnectionMetrics, Text, encode_process},
    workspace::{InFlight, Observed, Workspaces},
};

/// How long what was found is told to others: whoever asks more often learns no more, and makes no
/// work.
const FRESH: Duration = Duration::from_millis(500);

/// Where all that is counted stands.
#[derive(Debug, Clone)]
pub(super) struct Sources {
    pub(super) workspaces: Workspaces,
    pub(super) commits: Arc<CommitMetrics>,
    pub(super) calls: Arc<CallMetrics>,
    /// Of nodes and commands.
    pub(super) grpc: Arc<ConnectionMetrics>,
    pub(super) dashboard: Arc<ConnectionMetrics>,
    pub(super) data: PathBuf,
    pub(super) started: Timestamp,
}

#[derive(Debug)]
pub(super) struct Scrape {
    sources: Sources,
    latest: Mutex<Option<(Instant, Bytes)>>,
}

impl Scrape {
    pub(super) fn new(sources: Sources) -> Self {
        Self { sources, latest: Mutex::default() }
    }

    /// The text for Prometheus. All who ask meanwhile wait for one.
    pub(super) async fn text(&self) -> Bytes {
        let mut latest = self.latest.lock().await;
        if let Some((at, text)) = &*latest
            && at.elapsed() < FRESH
        {
            return text.clone();
        }
        let sources = self.sources.clone();
        let (in_flight, observed) =
            (sources.workspaces.in_flight(), sources.workspaces.observe().await);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Moment { sources, in_flight, observed }));
        let mut text = String::new();
        // A text takes whatever is written to it.
        let _ = encode(&mut text, &registry);
        let text = Bytes::from(text);
        *latest = Some((Instant::now(), text.clone()));
        text
    }
}

/// What there is at one moment, beside what is counted.
#[derive(Debug)]
struct Moment {
    sources: Sources,
    in_flight: InFlight,
    observed: Observed,
}

impl Collector for Moment {
    fn encode(&self, to: DescriptorEncoder<'_>) -> fmt::Result {
        let text = &mut Text::new(to);
        text.info("tasuki_build", "What runs", "version", env!("CARGO_PKG_VERSION"))?;
        self.sources.calls.encode(text)?;
        self.connections(text)?;
        self.commits(text)?;
        self.workspaces(text)?;
        self.receipts(text)?;
        if let Some(space) = Space::of(&self.sources.data) {
            let help = "Free space on the disk of the data directory";
            text.gauge("tasuki_disk_free_bytes", help, space.free)?;
        }
        let started = self.sources.started.as_millis() as f64 / 1e3;
        text.gauge("process_start_time_seconds", "When the broker started", started)?;
        encode_process(text)
    }
}

impl Moment {
    fn connections(&self, text: &mut Text<'_>) -> fmt::Result {
        let Sources { grpc, dashboard, .. } = &self.sources;
        let listeners = [("grpc", grpc), ("dashboard", dashboard)];
        let open = listeners.iter().map(|(name, it)| (*name, it.open.get()));
        text.gauges("tasuki_connections", "Open connections", "listener", open)?;
        let refused = listeners.iter().map(|(name, it)| ([("listener", *name)], it.refused.get()));
        let help = "Connections that were closed at once because there were too many";
        text.counters("tasuki_connections_refused", help, refused)
    }

    fn commits(&self, text: &mut Text<'_>) -> fmt::Result {
        let CommitMetrics { queue, bytes, records, seconds, sync_seconds } = &*self.sources.commits;
        let help = "Records of one commit; the count is that of commits, the sum that of records";
        text.histogram("tasuki_commit_records", help, records)?;
        let help = "Time of a commit, from taking its records to its mark on disk";
        text.histogram("tasuki_commit_seconds", help, seconds)?;
        let help = "Time of fdatasync in a commit";
        text.histogram("tasuki_sync_seconds", help, sync_seconds)?;
        let help = "Bytes of records, bodies and snapshots given to the disk";
        text.counter("tasuki_commit_bytes", help, bytes.get())?;
        let help = "Appends and pieces of snapshots that wait for the committer";
        text.gauge("tasuki_commit_queue", help, queue.get())
    }

    fn workspaces(&self, text: &mut Text<'_>) -> fmt::Result {
        let (workspaces, observed) = (&self.sources.workspaces, &self.observed);
        let help = "Workspaces in memory";
        text.gauge("tasuki_workspaces_awake", help, workspaces.awake() as u64)?;
        let InFlight { requests, kib } = self.in_flight;
        let help = "Requests that workspaces admitted and have not answered";
        text.gauge("tasuki_requests_in_flight", help, requests as u64)?;
        let help = "Memory set aside for commands on their way to the disk";
        text.gauge("tasuki_commands_in_flight_bytes", help, kib as u64 * (MIB / 1024))?;
        let waits = observed.waits.iter().map(|(kind, count)| (*kind, *count));
        text.gauges("tasuki_waits", "Waits that are parked, by what for", "kind", waits)?;
        let leases = observed.leases.iter().map(|(kind, count)| (*kind, *count));
        text.gauges("tasuki_leases", "Leases that run, by what is held", "kind", leases)?;
        let help = "Nodes that gave a sign of life lately";
        text.gauge("tasuki_nodes_connected", help, observed.nodes)?;
        let metrics = workspaces.metrics();
        let made = [("written", &metrics.snapshots), ("failed", &metrics.snapshots_failed)];
        let made = made.map(|(outcome, count)| ([("outcome", outcome)], count.get()));
        text.counters("tasuki_snapshots", "Snapshots of workspaces", made)?;
        let help = "Bytes of snapshots";
        text.counter("tasuki_snapshot_bytes", help, metrics.snapshot_bytes.get())
    }

    fn receipts(&self, text: &mut Text<'_>) -> fmt::Result {
        let metrics = self.sources.workspaces.metrics();
        let lags = [("turn", &metrics.turn_receipts), ("mail", &metrics.mail_receipts)];
        let help = "Time from storing a turn or a letter until it was handed to its agent";
        text.histograms("tasuki_receipt_seconds", help, "noun", lags)?;
        let Observed { oldest_turn_ms, oldest_letter_ms, .. } = self.observed;
        let oldest = [("turn", oldest_turn_ms), ("mail", oldest_letter_ms)];
        let oldest = oldest.map(|(noun, ms)| (noun, ms as f64 / 1e3));
        let help = "Age of the oldest turn or letter that was not handed; 0 if there is none. \
                    Letters count from when their workspace was woken";
        text.gauges("tasuki_oldest_unhanded_seconds", help, "noun", oldest)
    }
}
