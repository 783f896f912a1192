//! Connections, before HTTP/2 knows them: how many, and how long they may say nothing.
//!
//! tonic has no bound on either: silent connections would stay for ever, each with its buffers.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::Stream;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::Sleep,
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;
use tracing::warn;

use super::Peer;

/// Connections at once. Each costs some 24 KiB and a file descriptor, of which a process often
/// has 20,000.
pub const CONNECTIONS_MAX: usize = 10_000;

/// How long a new connection may take to say that it speaks HTTP/2, in milliseconds.
pub const SILENT_MS_MAX: u64 = 8_000;

/// What every HTTP/2 client says first (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long to wait when the system has no descriptor for another connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Accepted connections, bounded in number.
pub(super) fn connections(
    listener: TcpListener,
    stopping: CancellationToken,
) -> impl Stream<Item = io::Result<Connection>> {
    raise_descriptor_limit();
    let (accepted, connections) = mpsc::channel(16);
    tokio::spawn(async move {
        tokio::select! {
            () = accept(listener, accepted) => {}
            () = stopping.cancelled() => {}
        }
    });
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

async fn accept(listener: TcpListener, accepted: mpsc::Sender<io::Result<Connection>>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        // A socket that is gone already fails at its first read.
        let _ = stream.set_nodelay(true);
        if accepted.send(Ok(Connection::new(stream, address, place))).await.is_err() {
            return;
        }
    }
}

/// A connection that must begin with HTTP/2's preface, and soon.
pub(super) struct Connection {
    stream: TcpStream,
    /// Bytes of the preface still to come and the time for them; `None` once they were seen.
    preface: Option<(usize, Pin<Box<Sleep>>)>,
    peer: Arc<Peer>,
    /// Resolves once the connection is to end.
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn new(stream: TcpStream, address: SocketAddr, place: OwnedSemaphorePermit) -> Self {
        let patience = tokio::time::sleep(Duration::from_millis(SILENT_MS_MAX));
        let peer = Arc::new(Peer::new(address));
        let cut = Box::pin(peer.is_cut().clone().cancelled_owned());
        Self { stream, preface: Some((0, Box::pin(patience))), peer, cut, _place: place }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        let Some((seen, patience)) = &mut this.preface else { return read };
        if read.is_pending() {
            ready!(patience.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        ready!(read)?;
        let new = &buf.filled()[before..];
        let expected = &PREFACE[*seen..];
        let compared = new.len().min(expected.len());
        if new[..compared] != expected[..compared] {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        *seen += compared;
        if *seen == PREFACE.len() {
            this.preface = None;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl Connected for Connection {
    type ConnectInfo = Arc<Peer>;

    fn connect_info(&self) -> Arc<Peer> {
        Arc::clone(&self.peer)
    }
}
