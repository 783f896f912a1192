//! What a command may touch. Pure.
//!
//! The process that takes rights away from itself goes by this list alone.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
    /// Time on processors of one process.
    pub cpu_sec: Option<u64>,
    /// One file that is written, if less than usual.
    pub file_bytes: Option<u64>,
    /// Processes of the user, if less than usual.
    pub processes: Option<u64>,
}

impl Policy {
    /// Everything that whoever started the command may.
    pub const fn outside() -> Self {
        Self {
            kind: Kind::None,
            read: Vec::new(),
            write: Vec::new(),
            is_network_open: true,
            has_unix_sockets: true,
            memory_bytes: None,
            cpu_sec: None,
            file_bytes: None,
            processes: None,
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
