//! Whether the broker was there to hear signs of life.
//!
//! A process that was stopped, or whose machine slept, heard nobody meanwhile, so what ran out then
//! gets the grace that it gets after a restart. Broker time goes on all the while, so a beat that
//! comes late shows it. Whoever is first to look afterwards notices: the beat need not come first.
//!
//! Not here: what a grace is, and for what (`rules`).

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tasuki_proto::id::Timestamp;
use tokio::time::{self, MissedTickBehavior};
use tracing::info;

use crate::clock::Clock;

/// Between two beats, in milliseconds.
const BEAT_MS: u64 = 500;

/// From a beat to the next, in milliseconds, after which the broker is taken to have stood still: a
/// busy machine may keep a task waiting for a second, and a shorter break costs nobody a lease of
/// some seconds, which lasts for three signs of life.
const STOOD_STILL_MS_MIN: u64 = 3_000;

#[derive(Debug)]
pub(super) struct Pulse {
    clock: Clock,
    beat_ms: AtomicU64,
    since_ms: AtomicU64,
}

impl Pulse {
    /// Beats as long as it is held.
    ///
    /// # Panics
    /// When called outside an async runtime.
    pub(super) fn start(clock: Clock) -> Arc<Self> {
        let now = clock.now().as_millis();
        let (beat_ms, since_ms) = (AtomicU64::new(now), AtomicU64::new(now));
        let pulse = Arc::new(Self { clock, beat_ms, since_ms });
        tokio::spawn(beats(Arc::downgrade(&pulse)));
        pulse
    }

    /// The broker runs.
    pub(super) fn beat(&self) {
        // First: whoever sees this beat must see what it ended.
        self.since();
        self.beat_ms.fetch_max(self.clock.now().as_millis(), Ordering::SeqCst);
    }

    /// Since when the broker listens without a break, by the clock.
    pub(super) fn since(&self) -> Timestamp {
        let beat_ms = self.beat_ms.load(Ordering::SeqCst);
        let now = self.clock.now().as_millis();
        let still_ms = now.saturating_sub(beat_ms);
        if STOOD_STILL_MS_MIN <= still_ms {
            let before_ms = self.since_ms.fetch_max(now, Ordering::SeqCst);
            if before_ms <= beat_ms {
                info!(still_ms, "the broker stood still: leases that ran out meanwhile go on");
            }
        }
        Timestamp::from_millis(self.since_ms.load(Ordering::SeqCst))
    }
}

async fn beats(pulse: Weak<Pulse>) {
    let mut every = time::interval(Duration::from_millis(BEAT_MS));
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        let Some(pulse) = pulse.upgrade() else { return };
        pulse.beat();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_late_beat_is_a_broker_that_stood_still() {
        let ms = Arc::new(AtomicU64::new(1_000));
        let it = Pulse::start(Clock::Manual(Arc::clone(&ms)));
        let at = |now| {
            ms.store(now, Ordering::SeqCst);
            it.since().as_millis()
        };
        assert_eq!(at(3_999), 1_000, "a busy machine");
        it.beat();
        assert_eq!(at(6_998), 1_000);
        assert_eq!(at(9_000), 9_000, "it stopped, and this looks before it beats");
        it.beat();
        assert_eq!(at(9_500), 9_000, "and stays so");
        assert_eq!(at(3_600_000), 3_600_000, "again");
    }
}
