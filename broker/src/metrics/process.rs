//! What the system says of this process, where it says so in `/proc`.

use std::{fmt, fs};

use rustix::process::{Resource, getrlimit};

use super::Text;
use crate::clock;

/// Writes what there is. The names are those that every client library of Prometheus uses.
pub(crate) fn encode(text: &mut Text<'_>) -> fmt::Result {
    let seconds = clock::processor_time().as_secs_f64();
    text.counter("process_cpu_seconds", "Processor time of this process", seconds)?;
    if let Some(bytes) = resident_bytes() {
        text.gauge("process_resident_memory_bytes", "Memory of this process", bytes)?;
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // Listing them opens one.
        let open = open.count().saturating_sub(1);
        text.gauge("process_open_fds", "Open file descriptors", open)?;
    }
    match getrlimit(Resource::Nofile).current {
        Some(most) => text.gauge("process_max_fds", "File descriptors that may be open", most),
        None => Ok(()),
    }
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn a_process_has_memory() {
        assert!(super::resident_bytes().is_some_and(|bytes| 1024 * 1024 < bytes));
    }
}
