//! The one place that asks the system what time it is.
//!
//! Broker time is the wall clock as it was at the start plus what CLOCK_BOOTTIME says has passed
//! since: it goes on while the machine sleeps and does not jump when somebody sets the clock. A
//! workspace adds what is missing to its own latest record, so its time never goes back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use rustix::time::{ClockId, clock_gettime};
use tasuki_proto::id::Timestamp;

#[derive(Debug, Clone)]
pub enum Clock {
    System {
        wall_ms: u64,
        boot_ms: u64,
    },
    /// Moves only when told to.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The system's clock, from here on.
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    pub fn system() -> Self {
        let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
        let ms = since.expect("the clock is set after 1970").as_millis();
        let wall_ms = u64::try_from(ms).expect("before the year 584 million");
        Self::System { wall_ms, boot_ms: boot_ms() }
    }

    pub fn now(&self) -> Timestamp {
        let ms = match self {
            Self::System { wall_ms, boot_ms: start } => wall_ms + boot_ms().saturating_sub(*start),
            Self::Manual(ms) => ms.load(Ordering::SeqCst),
        };
        Timestamp::from_millis(ms)
    }
}

/// How long processors have worked for this process.
pub(crate) fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

fn boot_ms() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let id = ClockId::Boottime;
    // macOS counts sleep in its monotonic clock.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let id = ClockId::Monotonic;
    let time = clock_gettime(id);
    let ms = time.tv_sec.saturating_mul(1000).saturating_add(time.tv_nsec / 1_000_000);
    u64::try_from(ms).unwrap_or(0)
}
