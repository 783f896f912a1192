//! What the operator says of running commands again. Pure.

use std::{path::PathBuf, time::Duration};

use super::allowed::Pattern;
use crate::process::policy::{Kind, Policy, SINKS, SYSTEM};

/// How long one command may run unless configured, and the longest.
pub const LIMIT: Duration = Duration::from_secs(600);
pub const LIMIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Memory that one process may have written to unless configured, in MiB: enough for a linker, less
/// than a machine has.
pub const MEMORY_MB: u64 = 8 * 1024;
pub const MEMORY_MB_MAX: u64 = 1024 * 1024;

/// What the operator says of accepting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub allow: Vec<Pattern>,
    /// Read beside the system's own directories.
    pub read: Vec<PathBuf>,
    /// Written beside the checkout.
    pub write: Vec<PathBuf>,
    /// Variables that are passed on: as they are, or with a value.
    pub env: Vec<(String, Option<String>)>,
    pub is_network_open: bool,
    pub has_unix_sockets: bool,
    pub kind: Kind,
    /// Of one command.
    pub limit: Duration,
    /// `None`: no limit. What maps all memory at once, such as sanitizers, does not run with one.
    pub memory_mb: Option<u64>,
    /// Where checkouts are made; `None`: where temporary files are.
    pub directory: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            read: Vec::new(),
            write: Vec::new(),
            env: Vec::new(),
            is_network_open: false,
            has_unix_sockets: false,
            kind: Kind::default(),
            limit: LIMIT,
            memory_mb: Some(MEMORY_MB),
            directory: None,
        }
    }
}

impl Settings {
    /// What a command may touch whose checkout and own temporary directory are `own`.
    pub fn policy(&self, own: &[PathBuf]) -> Policy {
        let read = SYSTEM.iter().map(PathBuf::from).chain(self.read.iter().cloned());
        let write = SINKS.iter().map(PathBuf::from).chain(self.write.iter().cloned());
        Policy {
            kind: self.kind,
            read: read.collect(),
            write: write.chain(own.iter().cloned()).collect(),
            is_network_open: self.is_network_open,
            has_unix_sockets: self.has_unix_sockets,
            memory_bytes: self.memory_mb.map(|it| it << 20),
            ..Policy::outside()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_open_but_the_system_the_checkout_and_what_the_operator_named() {
        let settings = Settings { read: vec!["/home/u/.cargo".into()], ..Settings::default() };
        let policy = settings.policy(&["/tmp/own".into()]);
        assert_eq!(policy.read.last().unwrap(), &PathBuf::from("/home/u/.cargo"));
        assert_eq!(policy.read.len(), SYSTEM.len() + 1);
        assert_eq!(policy.write.last().unwrap(), &PathBuf::from("/tmp/own"));
        assert_eq!(policy.write.len(), SINKS.len() + 1);
        assert!(!policy.is_network_open && !policy.has_unix_sockets);
        assert_eq!(policy.name(), "landlock+seccomp");
        let places = SYSTEM.iter().chain(&SINKS);
        for secret in ["/home", "/root", "/etc", "/var", "/tmp", "/run", "/dev", "/dev/shm", "/"] {
            assert!(places.clone().all(|it| *it != secret), "{secret} is open");
        }
    }
}
