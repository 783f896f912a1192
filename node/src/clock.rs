//! The only place of the node that asks what time it is.
//!
//! A [`Moment`] goes on while the machine sleeps, unlike `Instant`: a laptop that was closed for
//! an hour has been quiet for an hour.

use std::{
    env, fmt, fs,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use jiff::{Timestamp, tz::TimeZone};
use parking_lot::Mutex;

/// Where the system keeps its zone.
const ZONE: &str = "/etc/localtime";

/// How long a zone that was read is taken for this machine's.
const ZONE_FOR: Duration = Duration::from_secs(10);

/// The zone of this machine, or that of `TZ`; as it was some seconds ago.
pub fn zone() -> TimeZone {
    static LAST: Mutex<Option<(Moment, TimeZone)>> = Mutex::new(None);
    let mut last = LAST.lock();
    let at = now();
    match &*last {
        Some((read, zone)) if at.since(*read) < ZONE_FOR => zone.clone(),
        Some(_) | None => last.insert((at, read_zone())).1.clone(),
    }
}

fn read_zone() -> TimeZone {
    // To learn the zone's name, too, the library would walk through all that there are.
    let of_system = || TimeZone::tzif("", &fs::read(ZONE).ok()?).ok();
    let zone = if env::var_os("TZ").is_none() { of_system() } else { None };
    zone.unwrap_or_else(TimeZone::system)
}

/// A point in time of this machine, since it booted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    pub const fn from_millis(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }

    /// The moment so much later.
    #[must_use]
    pub const fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }

    /// How long after `earlier` this is; nothing when it is not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Whom to ask what time it is. Tests make their own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Moment + Send + Sync>);

impl Clock {
    pub fn new(now: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> Moment {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
pub fn now() -> Moment {
    #[cfg(target_os = "linux")]
    let id = rustix::time::ClockId::Boottime;
    // It counts sleep there.
    #[cfg(target_os = "macos")]
    let id = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Moment(Duration::new(seconds, nanos))
}

/// Elsewhere the monotonic clock of the standard library has to do.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
#[allow(clippy::disallowed_methods, reason = "this is a clock module")]
pub fn now() -> Moment {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    Moment(START.get_or_init(std::time::Instant::now).elapsed())
}

/// Milliseconds since the Unix epoch, for people; nothing is decided by it: see [`steady_ms`].
#[allow(clippy::disallowed_methods, reason = "this is a clock module")]
pub fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The same as this process's start had it, and what passed since: what is decided by it is not
/// moved by a clock that somebody sets meanwhile.
pub fn steady_ms() -> u64 {
    static START: std::sync::OnceLock<(u64, Moment)> = std::sync::OnceLock::new();
    let (wall, start) = *START.get_or_init(|| (wall_ms(), now()));
    let passed = u64::try_from(now().since(start).as_millis()).unwrap_or(u64::MAX);
    wall.saturating_add(passed)
}

/// How far this machine's time is east of UTC, in seconds.
pub fn utc_offset_s() -> i32 {
    zone().to_offset(Timestamp::now()).seconds()
}
