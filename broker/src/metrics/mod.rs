//! What the broker counts of itself, for whoever watches it from outside.
//!
//! Each part of the broker counts in a struct of its own, made of atomics in fixed places: counting
//! takes no lock and no memory.
//!
//! **Invariant:** no label is a name that a user chose. Labels are methods, reasons and kinds, so
//! there are only so many series, and whoever reads them learns no names.
//!
//! Not here: what is looked up when somebody asks, and how it is served (`server`).

mod calls;
mod histogram;
mod process;
mod text;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

pub(crate) use self::process::encode as encode_process;
pub use self::{
    calls::{CallMetrics, CallTimer},
    histogram::{Histogram, LAGS, SIZES, TIMES},
    text::Text,
};

/// As histograms of times take it.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many of something there are: what came and is not gone.
#[derive(Debug, Default)]
pub struct Level {
    came: Counter,
    gone: Counter,
}

impl Level {
    pub fn enter(&self) {
        self.came.add(1);
    }

    pub fn leave(&self, count: u64) {
        self.gone.add(count);
    }

    pub fn get(&self) -> u64 {
        // Whoever leaves in between was not seen to come.
        let gone = self.gone.get();
        self.came.get().saturating_sub(gone)
    }
}

/// Of the journal's writer, since it was opened.
#[derive(Debug)]
pub struct CommitMetrics {
    /// Appends and pieces of snapshots that wait for the committer.
    pub queue: Level,
    pub bytes: Counter,
    /// Records of one commit.
    pub records: Histogram,
    /// A commit from its batch to its mark.
    pub seconds: Histogram,
    /// What the disk took of that to make the batch durable.
    pub sync_seconds: Histogram,
}

impl Default for CommitMetrics {
    fn default() -> Self {
        Self {
            queue: Level::default(),
            bytes: Counter::default(),
            records: Histogram::new(&SIZES),
            seconds: Histogram::new(&TIMES),
            sync_seconds: Histogram::new(&TIMES),
        }
    }
}

/// Of all workspaces together.
#[derive(Debug)]
pub struct WorkspaceMetrics {
    pub snapshots: Counter,
    pub snapshots_failed: Counter,
    pub snapshot_bytes: Counter,
    /// From stored to handed.
    pub turn_receipts: Histogram,
    pub mail_receipts: Histogram,
}

impl Default for WorkspaceMetrics {
    fn default() -> Self {
        Self {
            snapshots: Counter::default(),
            snapshots_failed: Counter::default(),
            snapshot_bytes: Counter::default(),
            turn_receipts: Histogram::new(&LAGS),
            mail_receipts: Histogram::new(&LAGS),
        }
    }
}

/// Of one listener.
#[derive(Debug, Default)]
pub struct ConnectionMetrics {
    pub open: Level,
    pub refused: Counter,
}
