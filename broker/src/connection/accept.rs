//! Connections, before HTTP knows them: how many, and how long they may say nothing.
//!
//! tonic has no bound on either: silent connections would stay for ever, each with its buffers.
//!
//! **Invariant:** accepting never waits for a peer, nor for a slot: who finds none is closed at
//! once, so that the next one in the queue is heard.

use std::{io, sync::Arc, time::Duration};

use futures::Stream;
use tasuki_proto::net::tls::ALPN_H2;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{
    Peer,
    limits::STALLED_MS_MAX,
    slots::{ConnectionSlots, Shares},
    stream::{Connection, PendingConnection, Protocol, Wire},
};
use crate::metrics::ConnectionMetrics;

/// How long to wait when the system has no descriptor for another connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Connections that HTTP/2 has not yet taken. It takes them at once.
const TAKEN_AT_ONCE: usize = 16;

type Accepted = mpsc::Sender<io::Result<Connection>>;

/// Accepted connections, bounded in number; with `tls` they are a guarded broker's.
pub(crate) fn connections(
    listener: TcpListener,
    protocol: Protocol,
    tls: Option<TlsAcceptor>,
    metrics: Arc<ConnectionMetrics>,
    stopping: CancellationToken,
) -> impl Stream<Item = io::Result<Connection>> {
    raise_descriptor_limit();
    let (accepted, connections) = mpsc::channel(TAKEN_AT_ONCE);
    let shares = match (protocol, tls.is_some()) {
        (Protocol::Http1, _) => Shares::DASHBOARD,
        (Protocol::Http2, true) => Shares::GUARDED,
        (Protocol::Http2, false) => Shares::OPEN,
    };
    let slots = ConnectionSlots::new(shares, Arc::clone(&metrics));
    let acceptor = Acceptor { slots, protocol, tls, accepted, metrics, stopping };
    tokio::spawn(acceptor.run(listener));
    ReceiverStream::new(connections)
}

/// Each connection takes a file descriptor, and many systems begin with 1,024 where thousands
/// are allowed.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        warn!(%error, ?current, ?maximum, "cannot raise the limit of open files");
    }
}

struct Acceptor {
    slots: ConnectionSlots,
    protocol: Protocol,
    tls: Option<TlsAcceptor>,
    accepted: Accepted,
    metrics: Arc<ConnectionMetrics>,
    stopping: CancellationToken,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) {
        let mut refused = 0_u64;
        loop {
            let next = tokio::select! {
                next = listener.accept() => next,
                () = self.stopping.cancelled() => return,
            };
            let (stream, address) = match next {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            };
            let peer = Peer::new(address);
            match self.slots.take(address.ip(), peer.is_cut().clone()) {
                Ok(slot) => {
                    let slot = Arc::new(slot);
                    let peer = Arc::new(peer.at(&slot));
                    let is_guarded = self.tls.is_some();
                    let newcomer = PendingConnection::new(peer, slot, self.protocol, is_guarded);
                    if !self.enter(stream, newcomer).await {
                        return;
                    }
                }
                Err(full) => {
                    self.metrics.refused.add(1);
                    refused += 1;
                    if refused.is_power_of_two() {
                        warn!(%address, refused, "closed a new connection: {full}");
                    }
                }
            }
        }
    }

    /// Whether anybody still takes connections.
    async fn enter(&self, stream: TcpStream, newcomer: PendingConnection) -> bool {
        tune(&stream);
        let Some(tls) = self.tls.clone() else {
            let connection = Connection::new(Wire::Plain(stream), newcomer);
            return self.accepted.send(Ok(connection)).await.is_ok();
        };
        let (accepted, stopping) = (self.accepted.clone(), self.stopping.clone());
        // As many at once as there may be strangers.
        tokio::spawn(async move {
            let address = newcomer.peer.address;
            tokio::select! {
                encrypted = encrypt(tls, stream, newcomer) => match encrypted {
                    // Nobody takes it: the broker stops.
                    Ok(connection) => drop(accepted.send(Ok(connection)).await),
                    Err(error) => debug!(%address, %error, "no TLS"),
                },
                () = stopping.cancelled() => {}
            }
        });
        true
    }
}

/// A socket that is gone already fails at its first read.
fn tune(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, STALLED_MS_MAX);
}

async fn encrypt(
    tls: TlsAcceptor,
    stream: TcpStream,
    mut newcomer: PendingConnection,
) -> io::Result<Connection> {
    let cut = newcomer.peer.is_cut().clone();
    let stream = tokio::select! {
        opened = tls.accept(stream) => opened?,
        () = newcomer.patience.as_mut() => return Err(io::ErrorKind::TimedOut.into()),
        () = cut.cancelled() => return Err(io::ErrorKind::ConnectionAborted.into()),
    };
    // Whoever speaks gRPC says so; another protocol's client may have been led here.
    let agreed = stream.get_ref().1.alpn_protocol();
    if newcomer.protocol == Protocol::Http2 && agreed != Some(ALPN_H2) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it did not ask for HTTP/2"));
    }
    Ok(Connection::new(Wire::Tls(Box::new(stream)), newcomer))
}
