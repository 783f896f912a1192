//! Why nothing can listen on a port: who does already.

use std::{fmt, io, net::SocketAddr, path::PathBuf};

/// Why an address is not to be had, in words that follow it.
pub fn why_taken(address: SocketAddr, why: &io::Error) -> String {
    match PortOwner::find(address, why) {
        Some(owner) => format!("in use by {owner}"),
        None => why.to_string(),
    }
}

/// The process that listens on a port of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortOwner {
    pub pid: u32,
    /// Its program's name.
    pub program: String,
    /// The data directory of a broker or node.
    pub data: Option<PathBuf>,
}

impl fmt::Display for PortOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, program, data } = self;
        write!(f, "process {pid} ({program}")?;
        if let Some(data) = data {
            write!(f, ", with data in {}", data.display())?;
        }
        write!(f, ")")
    }
}

impl PortOwner {
    /// `None`: the address is not taken, or by nobody that this user may look at.
    pub fn find(address: SocketAddr, why: &io::Error) -> Option<Self> {
        (why.kind() == io::ErrorKind::AddrInUse).then(|| system::owner(address)).flatten()
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::{
        fs,
        net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
        path::{Path, PathBuf},
    };

    use super::PortOwner;
    use crate::visible;

    /// What listens, in `/proc/net/tcp`.
    const LISTENS: &str = "0A";

    pub(super) fn owner(address: SocketAddr) -> Option<PortOwner> {
        let sockets = ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|table| {
            let table = fs::read_to_string(table).ok()?;
            table.lines().find_map(|line| socket_of(line, address)).map(str::to_owned)
        });
        let socket = format!("socket:[{}]", sockets?);
        let mut processes = fs::read_dir("/proc").ok()?.flatten();
        processes.find_map(|process| {
            let pid = process.file_name().to_str()?.parse().ok()?;
            let open = open_files(&process.path());
            open.iter().any(|it| *it == Path::new(&socket)).then(|| {
                let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                let program = visible::shown(name.trim()).0.into_owned();
                PortOwner { pid, program, data: data_directory(&open) }
            })
        })
    }

    fn open_files(process: &Path) -> Vec<PathBuf> {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).collect()
    }

    /// A node locks a file in its data directory, a broker one in its part of it.
    fn data_directory(open: &[PathBuf]) -> Option<PathBuf> {
        let of = |end: &str| open.iter().find(|it| it.ends_with(end));
        let node = of("node.lock").and_then(|it| it.parent());
        let broker = || of("broker/lock").and_then(|it| it.parent()?.parent());
        node.or_else(broker).map(Path::to_owned)
    }

    /// The inode of the socket in a line, if it listens on the address.
    pub(super) fn socket_of(line: &str, address: SocketAddr) -> Option<&str> {
        /// Fields between the state and the inode.
        const BETWEEN: usize = 5;
        let mut fields = line.split_whitespace().skip(1);
        let (ip, port) = fields.next()?.split_once(':')?;
        let (ip, port) = (ip_of(ip)?, u16::from_str_radix(port, 16).ok()?);
        let is_there = ip == address.ip() || ip.is_unspecified() || address.ip().is_unspecified();
        let is_it = port == address.port() && is_there && fields.nth(1)? == LISTENS;
        is_it.then(|| fields.nth(BETWEEN)).flatten()
    }

    /// As the kernel writes it: words of 32 bits, each in the machine's own order.
    fn ip_of(digits: &str) -> Option<IpAddr> {
        let mut bytes = Vec::new();
        for at in (0..digits.len()).step_by(8) {
            let word = u32::from_str_radix(digits.get(at..at + 8)?, 16).ok()?;
            bytes.extend(word.to_ne_bytes());
        }
        if let Ok(four) = <[u8; 4]>::try_from(bytes.as_slice()) {
            return Some(Ipv4Addr::from(four).into());
        }
        <[u8; 16]>::try_from(bytes).ok().map(|it| Ipv6Addr::from(it).to_canonical())
    }
}

/// Nothing tells there.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::net::SocketAddr;

    use super::PortOwner;

    pub(super) fn owner(_address: SocketAddr) -> Option<PortOwner> {
        None
    }
}

#[cfg(all(test, target_os = "linux", target_endian = "little"))]
mod tests {
    use std::net::TcpListener;

    use super::{system::socket_of, *};

    #[test]
    fn the_socket_that_listens_is_found_in_the_kernels_table() {
        let line = |at: &str, state: &str| {
            format!(
                "   7: {at} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000  \
                 0 4711 1 0000000000000000 100 0 0 10 0"
            )
        };
        for (at, state, address, is_it) in [
            ("0100007F:1CFD", "0A", "127.0.0.1:7421", true),
            ("00000000:1CFD", "0A", "127.0.0.1:7421", true),
            ("00000000000000000000000000000000:1CFD", "0A", "127.0.0.1:7421", true),
            ("0000000000000000FFFF00000100007F:1CFD", "0A", "127.0.0.1:7421", true),
            ("00000000000000000000000001000000:1CFD", "0A", "[::1]:7421", true),
            ("0100007F:1CFD", "0A", "0.0.0.0:7421", true),
            ("0100007F:1CFD", "01", "127.0.0.1:7421", false),
            ("0100007F:1CFC", "0A", "127.0.0.1:7421", false),
            ("0200007F:1CFD", "0A", "127.0.0.1:7421", false),
            ("local_address", "st", "127.0.0.1:7421", false),
        ] {
            let (line, address) = (line(at, state), address.parse().unwrap());
            assert_eq!(socket_of(&line, address), is_it.then_some("4711"), "{line} {address}");
        }
    }

    #[test]
    fn who_has_a_port_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let why = TcpListener::bind(address).unwrap_err();
        let owner = PortOwner::find(address, &why).unwrap();
        assert_eq!(owner.pid, std::process::id());
        let told = why_taken(address, &why);
        assert!(told.starts_with(&format!("in use by process {} (", owner.pid)), "{told}");
        let other = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(why_taken(address, &other), other.to_string());
    }
}
