//! What others call a broker.
//!
//! A guess where nobody says it: the address from which this machine reaches others, else its
//! name. Both are right in one network, and wrong behind a router that translates addresses.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use rustls::pki_types::ServerName;

use super::StartError;

/// Addresses for documentation (RFC 5737, RFC 3849): nobody has them, and the way there is the
/// way to everybody.
const ELSEWHERE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// A host and a port as they stand in a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Advertised {
    /// Without brackets.
    pub(super) host: String,
    port: u16,
}

impl fmt::Display for Advertised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Advertised {
    /// Of a broker that listens at `address`; `told` is `HOST` or `HOST:PORT`.
    pub(super) fn new(told: Option<&str>, address: SocketAddr) -> Result<Self, StartError> {
        match told {
            Some(text) => {
                parse(text, address.port()).ok_or_else(|| StartError::Advertise(text.to_owned()))
            }
            None => {
                let host = names_of(address).into_iter().next();
                let host = host.unwrap_or_else(|| Ipv4Addr::LOCALHOST.to_string());
                Ok(Self { host, port: address.port() })
            }
        }
    }

    /// All that a certificate should have.
    pub(super) fn names(&self, address: SocketAddr) -> Vec<String> {
        std::iter::once(self.host.clone()).chain(names_of(address)).collect()
    }
}

fn parse(text: &str, port: u16) -> Option<Advertised> {
    let (host, port) = match text.parse::<IpAddr>() {
        Ok(_) => (text, port),
        Err(_) => match text.rsplit_once(':') {
            Some((host, port)) if !text.ends_with(']') => {
                (host, port.parse().ok().filter(|it| *it != 0)?)
            }
            Some(_) | None => (text, port),
        },
    };
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_right = match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().is_ok(),
        None => ServerName::try_from(host).is_ok(),
    };
    is_right.then(|| Advertised { host: bare.unwrap_or(host).to_owned(), port })
}

/// What this machine is called where it listens, likeliest first.
fn names_of(address: SocketAddr) -> Vec<String> {
    if !address.ip().is_unspecified() {
        return vec![address.ip().to_canonical().to_string()];
    }
    let is_both = address.is_ipv6();
    let ways = ELSEWHERE.into_iter().filter(|it| is_both || it.is_ipv4());
    let mut names: Vec<String> = ways.filter_map(from_here).map(|it| it.to_string()).collect();
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if ServerName::try_from(own.as_str()).is_ok() {
        names.push(own);
    }
    names
}

/// The address that a packet to `elsewhere` would come from. None is sent.
fn from_here(elsewhere: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match elsewhere {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((elsewhere, 9)).ok()?;
    let found = socket.local_addr().ok()?.ip();
    (!found.is_unspecified() && !found.is_loopback()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advertised(told: Option<&str>, address: &str) -> Result<String, StartError> {
        Advertised::new(told, address.parse().unwrap()).map(|it| it.to_string())
    }

    #[test]
    fn what_is_told_is_advertised_with_the_port_it_lacks() {
        for (told, expected) in [
            ("broker.example", "broker.example:7420"),
            ("broker.example:443", "broker.example:443"),
            ("192.0.2.7", "192.0.2.7:7420"),
            ("192.0.2.7:1", "192.0.2.7:1"),
            ("2001:db8::7", "[2001:db8::7]:7420"),
            ("[2001:db8::7]", "[2001:db8::7]:7420"),
            ("[2001:db8::7]:1", "[2001:db8::7]:1"),
        ] {
            assert_eq!(advertised(Some(told), "0.0.0.0:7420").unwrap(), expected);
        }
        for wrong in ["", "a b", "a:b", "a:0", "a:65536", ":1", "https://a", "[a]:1", "[1.2.3.4]"] {
            let error = advertised(Some(wrong), "0.0.0.0:7420").unwrap_err();
            assert!(matches!(error, StartError::Advertise(_)), "{wrong}: {error}");
        }
    }

    #[test]
    fn without_being_told_it_is_where_others_find_it() {
        assert_eq!(advertised(None, "127.0.0.1:7420").unwrap(), "127.0.0.1:7420");
        assert_eq!(advertised(None, "[::1]:7420").unwrap(), "[::1]:7420");
        assert_eq!(advertised(None, "[::ffff:10.0.0.7]:1").unwrap(), "10.0.0.7:1");
        for any in ["0.0.0.0:7420", "[::]:7420"] {
            let found = advertised(None, any).unwrap();
            assert!(found.ends_with(":7420") && !found.contains("0.0.0.0"), "{found}");
            assert_ne!(found, "[::]:7420");
        }
    }

    #[test]
    fn a_certificate_has_every_name() {
        let address = "10.0.0.7:7420".parse().unwrap();
        let names = Advertised::new(Some("broker.example"), address).unwrap().names(address);
        assert_eq!(names, ["broker.example", "10.0.0.7"]);
    }
}
