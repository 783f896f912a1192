//! The TCP connections below HTTP/2, each of which this node can end at once.
//!
//! A connection whose peer or network is gone says nothing; whoever knows better cuts it, and the
//! next call makes a new one. One connection is open at a time, or none.
//!
//! **L5** A call that was dropped while no connection stood since it began never left this node.

use std::{
    io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::net::tls;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::Notify,
    time,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::codegen::http::Uri;
use tower::{BoxError, Service};

use super::auth::ClientAuth;

/// Reaching one address, in milliseconds: a machine that is there answers well within, also when
/// the first packet is lost.
const REACH_MS_MAX: u64 = 2_000;

/// Making a connection with all that belongs to it, in milliseconds: names are looked up before
/// and keys agreed on after the address was reached.
const CONNECT_MS_MAX: u64 = 4_000;

/// What was sent may go unacknowledged for so long, in milliseconds, before the system ends the
/// connection: beside the pings of HTTP/2, which are answered by the broker itself.
const UNACKNOWLEDGED_MS_MAX: u64 = 15_000;

/// The connections of one link. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Connections(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    now: Mutex<Now>,
    /// A connection ended, whoever ended it.
    lost: Notify,
}

#[derive(Debug, Default)]
struct Now {
    /// Ends what is open or being made.
    cut: CancellationToken,
    /// Connections made so far.
    made: u64,
    open: usize,
    /// This machine's end of the latest one.
    local: Option<IpAddr>,
}

/// What stood when a call began.
#[derive(Debug, Clone, Copy)]
pub struct Witness {
    made: u64,
    had: bool,
}

impl Connections {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.now.lock()
    }

    /// Ends the connection that stands and the attempt to make one.
    pub fn cut(&self) {
        let cut = std::mem::take(&mut self.now().cut);
        cut.cancel();
    }

    /// Ends the connection if it is from an address that this machine no longer has.
    pub fn cut_from(&self, address: IpAddr) -> bool {
        let now = self.now();
        let is_from = 0 < now.open && now.local == Some(address);
        drop(now);
        if is_from {
            self.cut();
        }
        is_from
    }

    /// Resolves when a connection has ended since it last did.
    pub async fn lost(&self) {
        self.0.lost.notified().await;
    }

    pub fn is_open(&self) -> bool {
        0 < self.now().open
    }

    pub fn witness(&self) -> Witness {
        let now = self.now();
        Witness { made: now.made, had: 0 < now.open }
    }

    /// Whether a call that began at `witness` may have left this node.
    pub fn may_have_carried(&self, witness: Witness) -> bool {
        witness.had || self.now().made != witness.made
    }

    /// As if a connection were open that nothing ends: none is needed.
    pub(super) fn stand(&self) {
        self.opened(None);
    }

    fn opened(&self, local: Option<IpAddr>) {
        let mut now = self.now();
        now.made += 1;
        now.open += 1;
        now.local = local;
    }

    fn closed(&self) {
        self.now().open -= 1;
        self.0.lost.notify_one();
    }
}

/// Makes connections that [`Connections`] can end.
#[derive(Debug, Clone)]
pub struct Connector {
    connections: Connections,
    auth: ClientAuth,
    tcp: HttpConnector,
}

/// What HTTP/2 is spoken over.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Io = TokioIo<Box<dyn Stream>>;

impl Connector {
    pub fn new(connections: Connections, auth: ClientAuth) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(Duration::from_millis(REACH_MS_MAX)));
        #[cfg(any(target_os = "android", target_os = "linux"))]
        tcp.set_tcp_user_timeout(Some(Duration::from_millis(UNACKNOWLEDGED_MS_MAX)));
        Self { connections, auth, tcp }
    }

    async fn connect(mut self, uri: Uri) -> Result<Io, BoxError> {
        let (tls, cut) = (self.auth.tls(), self.connections.now().cut.clone());
        let host = uri.host().unwrap_or_default().to_owned();
        let stream = cut.run_until_cancelled(self.tcp.call(uri)).await.ok_or_else(gone)??;
        let stream = stream.into_inner();
        if tls.is_none() && !stream.peer_addr()?.ip().to_canonical().is_loopback() {
            return Err("its name leads off this machine, and http:// is for this one alone".into());
        }
        let mut connection = Connection::new(stream, self.connections, cut);
        let stream: Box<dyn Stream> = match tls {
            Some(tls) => {
                let mut stream = tls::connect(&tls, connection, &host).await?;
                stream.get_mut().0.open();
                Box::new(stream)
            }
            None => {
                connection.open();
                Box::new(connection)
            }
        };
        Ok(TokioIo::new(stream))
    }
}

impl Service<Uri> for Connector {
    type Response = Io;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Io, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.clone().connect(uri);
        Box::pin(async move {
            let connected = time::timeout(Duration::from_millis(CONNECT_MS_MAX), connecting).await;
            connected
                .unwrap_or_else(|_| Err(format!("no connection in {CONNECT_MS_MAX} ms").into()))
        })
    }
}

/// One connection, until it is cut.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    connections: Connections,
    /// Calls may leave over it.
    is_open: bool,
    cut: CancellationToken,
    /// Wakes whoever reads.
    cutting: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connection {
    fn new(stream: TcpStream, connections: Connections, cut: CancellationToken) -> Self {
        Self {
            stream,
            connections,
            is_open: false,
            cutting: Box::pin(cut.clone().cancelled_owned()),
            cut,
        }
    }

    fn open(&mut self) {
        self.is_open = true;
        self.connections.opened(self.stream.local_addr().ok().map(|local| local.ip()));
    }

    fn alive(&self) -> io::Result<()> {
        if self.cut.is_cancelled() { Err(gone()) } else { Ok(()) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_open {
            self.connections.closed();
        }
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the connection was given up")
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.cutting.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(gone()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.alive()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.alive()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.alive()?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.alive()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
