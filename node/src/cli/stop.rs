//! When it is time to stop.

/// Resolves when this process is asked to stop: SIGTERM, Ctrl-C, or the end of its terminal. It
/// listens from the call on, whether or not it is polled.
///
/// That end counts once: the shell in the terminal tells of it (SIGHUP), and the system does, too.
#[cfg(unix)]
pub fn stopped() -> impl Future<Output = ()> {
    use tokio::signal::unix::{Signal, SignalKind, signal};
    async fn heard(signal: Option<Signal>) {
        match signal {
            Some(mut signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
    let interrupt = signal(SignalKind::interrupt()).ok();
    let terminate = signal(SignalKind::terminate()).ok();
    let hangup = hangup::listen();
    async move {
        tokio::select! {
            () = heard(interrupt) => {}
            () = heard(terminate) => {}
            () = heard(hangup) => hangup::told(),
        }
    }
}

/// Resolves when this process is asked to stop with Ctrl-C.
#[cfg(not(unix))]
pub async fn stopped() {
    drop(tokio::signal::ctrl_c().await);
}

#[cfg(unix)]
mod hangup {
    use std::{
        fs,
        sync::atomic::{AtomicBool, Ordering},
    };

    use tokio::signal::unix::{Signal, SignalKind, signal};

    static WAS_HEARD: AtomicBool = AtomicBool::new(false);

    /// Listens for the end of the terminal, unless that was heard before.
    pub(super) fn listen() -> Option<Signal> {
        // Whoever listens for a signal does not ignore it any more.
        let is_over = WAS_HEARD.load(Ordering::Relaxed) || is_ignored();
        if is_over { None } else { signal(SignalKind::hangup()).ok() }
    }

    /// The terminal has ended.
    pub(super) fn told() {
        tracing::warn!(
            "the terminal was closed, so this stops; `tasuki up --detach` runs without a terminal"
        );
        WAS_HEARD.store(true, Ordering::Relaxed);
    }

    /// Whether this process was started to ignore it, as by `nohup`. Where nothing tells, the signal
    /// is left as it is.
    fn is_ignored() -> bool {
        fs::read_to_string("/proc/self/status").ok().is_none_or(|status| is_among_ignored(&status))
    }

    /// The same from `/proc/PID/status`.
    fn is_among_ignored(status: &str) -> bool {
        /// SIGHUP is the first signal.
        const BIT: u64 = 1;
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
        ignored.is_none_or(|ignored| ignored & BIT != 0)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn what_nohup_starts_ignores_the_end_of_its_terminal() {
            let status =
                |ignored| format!("Name:\ttasuki\nSigBlk:\t01\nSigIgn:\t{ignored}\nSigCgt:\t01\n");
            for (ignored, expected) in [
                ("0000000000000000", false),
                ("0000000000001000", false),
                ("0000000000000001", true),
                ("0000000000001003", true),
                ("what?", true),
            ] {
                assert_eq!(is_among_ignored(&status(ignored)), expected, "{ignored}");
            }
            assert!(is_among_ignored(""));
        }
    }
}
