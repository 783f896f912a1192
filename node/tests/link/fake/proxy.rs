//! What lies between a node and its broker: it may swallow all that is sent, as a network does
//! that lost one of the two, and it may speak TLS to the node.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

/// Stops when it is dropped, and its connections with it.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// Connections with numbers up to this one are swallowed.
    silent: watch::Sender<u64>,
    made: watch::Receiver<u64>,
    _serving: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn new(broker: SocketAddr, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (silent, made) = (watch::Sender::new(0), watch::Sender::new(0));
        let (is_silent, counted) = (silent.subscribe(), made.subscribe());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                made.send_modify(|made| *made += 1);
                let number = *made.borrow();
                connections.spawn(carry(near, broker, tls.clone(), number, is_silent.clone()));
            }
        });
        Self { address, silent, made: counted, _serving: serving }
    }

    /// Connections made so far.
    pub(crate) fn made(&self) -> u64 {
        *self.made.borrow()
    }

    /// Swallows what is on its way and all that comes over the connections there are.
    pub(crate) fn swallow(&self) {
        self.silent.send_replace(self.made());
    }

    /// Swallows everything, new connections too.
    pub(crate) fn swallow_all(&self) {
        self.silent.send_replace(u64::MAX);
    }

    /// New connections are carried again; those of before are not.
    pub(crate) fn heal(&self) {
        self.swallow();
    }
}

async fn carry(
    near: TcpStream,
    broker: SocketAddr,
    tls: Option<TlsAcceptor>,
    number: u64,
    silent: watch::Receiver<u64>,
) {
    if number <= *silent.borrow() {
        // The node sees a connection on which nothing ever comes.
        let mut near = near;
        let _near = near.read_to_end(&mut Vec::new()).await;
        return;
    }
    let Ok(far) = TcpStream::connect(broker).await else { return };
    let (from_far, to_far) = far.into_split();
    match tls {
        None => {
            let (from_near, to_near) = near.into_split();
            both(from_near, to_far, from_far, to_near, number, silent).await;
        }
        Some(tls) => {
            let Ok(near) = tls.accept(near).await else { return };
            let (from_near, to_near) = tokio::io::split(near);
            both(from_near, to_far, from_far, to_near, number, silent).await;
        }
    }
}

async fn both(
    from_near: impl AsyncRead + Unpin,
    to_far: impl AsyncWrite + Unpin,
    from_far: impl AsyncRead + Unpin,
    to_near: impl AsyncWrite + Unpin,
    number: u64,
    silent: watch::Receiver<u64>,
) {
    let there = pass(from_near, to_far, number, silent.clone());
    let back = pass(from_far, to_near, number, silent.clone());
    tokio::join!(there, back);
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    number: u64,
    silent: watch::Receiver<u64>,
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let is_silent = number <= *silent.borrow();
        if !is_silent && to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
    if number <= *silent.borrow() {
        // Neither end hears that the other is gone.
        return std::future::pending().await;
    }
    // The other half of the connection may have ended before.
    drop(to.shutdown().await);
}
