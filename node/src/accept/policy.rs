//! What a command that is run again may touch. Pure.
//!
//! The operator's settings are turned into one list for one run; the process that takes rights away
//! from itself goes by that list alone.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use super::allowed::Pattern;

/// How long one command may run unless configured, and the longest.
pub const LIMIT: Duration = Duration::from_secs(600);
pub const LIMIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Memory that one process may have written to unless configured, in MiB: enough for a linker, less
/// than a machine has.
pub const MEMORY_MB: u64 = 8 * 1024;
pub const MEMORY_MB_MAX: u64 = 1024 * 1024;

/// One file that a command writes, in bytes: it cannot fill a disk by one mistake.
pub const FILE_BYTES_MAX: u64 = 16 << 30;

/// Processes and threads of the user while a command runs: others of the user's count, too.
pub const PROCESSES_MAX: u64 = 16 * 1024;

/// Files that one process may have open.
pub const OPEN_FILES_MAX: u64 = 64 * 1024;

/// What programs read on any machine. Of `/etc` only what has no secrets.
pub const SYSTEM: [&str; 46] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
    "/dev/random",
    "/dev/urandom",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/java",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/lsb-release",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/protocols",
    "/etc/python3",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
];

/// What programs write to on any machine: nothing of it stays.
pub const SINKS: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// Whether commands are kept in, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Landlock,
    /// The operator wants none.
    None,
}

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

/// What one command may touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub kind: Kind,
    /// To read and to run; what is not there is passed over.
    pub read: Vec<PathBuf>,
    /// Files and directories, to do anything with.
    pub write: Vec<PathBuf>,
    pub is_network_open: bool,
    pub has_unix_sockets: bool,
    pub memory_bytes: Option<u64>,
}

impl Policy {
    /// That of one run, whose checkout and own temporary directory are `own`.
    pub fn of(settings: &Settings, own: &[PathBuf]) -> Self {
        let read = SYSTEM.iter().map(PathBuf::from).chain(settings.read.iter().cloned());
        let write = SINKS.iter().map(PathBuf::from).chain(settings.write.iter().cloned());
        Self {
            kind: settings.kind,
            read: read.collect(),
            write: write.chain(own.iter().cloned()).collect(),
            is_network_open: settings.is_network_open,
            has_unix_sockets: settings.has_unix_sockets,
            memory_bytes: settings.memory_mb.map(|it| it << 20),
        }
    }

    /// How evidence calls it.
    pub fn name(&self) -> String {
        let open = match (self.is_network_open, self.has_unix_sockets) {
            (false, false) => "",
            (true, false) => "; network",
            (false, true) => "; unix sockets",
            (true, true) => "; network, unix sockets",
        };
        match self.kind {
            Kind::Landlock => format!("landlock+seccomp{open}"),
            Kind::None => "none: the operator's configuration says so".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_open_but_the_system_the_checkout_and_what_the_operator_named() {
        let settings = Settings { read: vec!["/home/u/.cargo".into()], ..Settings::default() };
        let policy = Policy::of(&settings, &["/tmp/own".into()]);
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
