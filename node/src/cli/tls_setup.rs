//! TLS of a guarded node: its certificate, and the agents' tokens.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use tasuki_proto::{
    id::RoleId,
    invitation::Fingerprint,
    net::tls::{ALPN_HTTP1, ServerIdentity},
};
use tokio_util::sync::CancellationToken;

use super::{Failure, hosting::sentence};
use crate::{
    agent_tokens::{self, AgentTokens, Bearing},
    config::Config,
    mcp::Guard,
};

/// Where the own certificate is kept, in the data directory.
const TLS: &str = "tls";

/// A guard, and how others recognise the node.
pub(super) struct TlsSetup {
    pub guard: Guard,
    pub fingerprint: Fingerprint,
    /// A name that an authority vouches for; `None`: the certificate is of the node's own making.
    pub vouched: Option<String>,
}

/// What guards a node that listens on `address`. The data directory must be this process's own.
/// Blocks on the disk.
pub(super) fn tls_setup<'a>(
    config: &Config,
    address: SocketAddr,
    roles: impl Iterator<Item = &'a RoleId>,
    stop: CancellationToken,
) -> Result<TlsSetup, Failure> {
    let data = &config.data.value;
    let advertised = config.advertise.value.clone();
    let own_ip = Some(address.ip()).filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string());
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let identity = match (&config.tls_cert.value, &config.tls_key.value) {
        (Some(cert), Some(key)) => ServerIdentity::given(cert, key),
        _ => {
            let names = [advertised.clone(), own_ip.clone(), Some(machine.clone())];
            // A machine may have a name that no certificate can.
            let names: Vec<String> = names.into_iter().flatten().filter(|it| is_name(it)).collect();
            ServerIdentity::own(&data.join(TLS), &names)
        }
    };
    let identity = identity.map_err(|why| Failure::local(sentence(&why)))?;
    let tls = identity.acceptor(None, &[ALPN_HTTP1]);
    let tls = tls.map_err(|why| Failure::local(sentence(&why)))?;
    let bearings = roles.cloned().map(Bearing::Role).chain([Bearing::Node]);
    let kept = AgentTokens::with(data, bearings);
    let kept = kept.map_err(|why| Failure::local(sentence(&why)))?;
    // One that was given may be of somebody's own making all the same.
    let is_vouched = identity.is_vouched_for();
    let vouched = [advertised.clone(), own_ip, Some(machine), Some("localhost".to_owned())];
    let vouched = vouched.into_iter().flatten().find(|it| is_vouched && identity.is_for(it));
    let fingerprint = identity.fingerprint();
    let is_named = move |host: &str| {
        identity.is_for(host) || advertised.as_ref().is_some_and(|it| it.eq_ignore_ascii_case(host))
    };
    let tokens = agent_tokens::watched(data, kept, stop);
    let guard = Guard { tls, is_named: Arc::new(is_named), tokens };
    Ok(TlsSetup { guard, fingerprint, vouched })
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && (text.parse::<IpAddr>().is_ok()
            || text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte)))
}

/// Where programs on this machine reach what listens on `address`.
pub(super) fn from_here(address: SocketAddr) -> SocketAddr {
    let mut here = address;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => here.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => here.set_ip(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    here
}

/// `HOST:PORT`, an IPv6 address in brackets.
pub(super) fn authority(host: &str, port: u16) -> String {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => format!("[{host}]:{port}"),
        Ok(IpAddr::V4(_)) | Err(_) => format!("{host}:{port}"),
    }
}
