//! A connection as HTTP gets it: over TLS or not, impatient, and easily cut.
//!
//! **Invariant:** it ends by itself when it does not say soon enough what it is for, when it takes
//! nothing of what is written to it, and when somebody cuts it; reads and writes that are waiting
//! then are woken.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep},
};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::Connected;

use super::{
    Peer,
    limits::{SILENT_MS_MAX, STALLED_MS_MAX, STRANGER_MS_MAX},
    slots::ConnectionSlot,
};

/// What every HTTP/2 client says first (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes on the way.
pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// What is spoken on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Whoever serves it bounds how long a request's head may take.
    Http1,
    Http2,
}

/// What the peer still has to do.
enum Handshake {
    /// To say HTTP/2's preface: so many bytes of it came.
    Preface(usize),
    Token,
    Nothing,
}

/// Somebody who connected, and the time there is to say what for.
pub(super) struct PendingConnection {
    pub(super) peer: Arc<Peer>,
    pub(super) slot: Arc<ConnectionSlot>,
    pub(super) protocol: Protocol,
    is_guarded: bool,
    /// Until the preface, then until the token.
    pub(super) patience: Pin<Box<Sleep>>,
    since: Instant,
}

impl PendingConnection {
    pub(super) fn new(
        peer: Arc<Peer>,
        slot: Arc<ConnectionSlot>,
        protocol: Protocol,
        is_guarded: bool,
    ) -> Self {
        let patience = Box::pin(tokio::time::sleep(Duration::from_millis(SILENT_MS_MAX)));
        let since = patience.deadline() - Duration::from_millis(SILENT_MS_MAX);
        Self { peer, slot, protocol, is_guarded, patience, since }
    }
}

pub(crate) struct Connection {
    wire: Wire,
    handshake: Handshake,
    newcomer: PendingConnection,
    /// Since when nothing of what is written goes out.
    stalled: Option<Pin<Box<Sleep>>>,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connection {
    pub(super) fn new(wire: Wire, newcomer: PendingConnection) -> Self {
        let cut = Box::pin(newcomer.peer.is_cut().clone().cancelled_owned());
        let (handshake, protocol) = (Handshake::Preface(0), newcomer.protocol);
        let mut connection = Self { wire, handshake, newcomer, stalled: None, cut };
        if protocol == Protocol::Http1 {
            connection.greeted();
        }
        connection
    }

    /// This end of it.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.wire {
            Wire::Plain(stream) => stream.local_addr(),
            Wire::Tls(stream) => stream.get_ref().0.local_addr(),
        }
    }

    fn cut(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.cut.as_mut().poll(cx).is_ready() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }

    /// Whether patience ended; asked also while something comes, since nonsense comes too.
    fn late(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if let Handshake::Token = self.handshake
            && !self.newcomer.slot.is_stranger()
        {
            self.handshake = Handshake::Nothing;
        }
        let is_late = match self.handshake {
            Handshake::Nothing => false,
            Handshake::Preface(_) | Handshake::Token => {
                self.newcomer.patience.as_mut().poll(cx).is_ready()
            }
        };
        if is_late { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    /// Compares what came with the preface.
    fn heard(&mut self, new: &[u8]) -> io::Result<()> {
        let Handshake::Preface(seen) = &mut self.handshake else { return Ok(()) };
        let expected = &PREFACE[*seen..];
        let compared = new.len().min(expected.len());
        if new[..compared] != expected[..compared] {
            return Err(io::ErrorKind::InvalidData.into());
        }
        *seen += compared;
        if PREFACE.len() <= *seen {
            self.greeted();
        }
        Ok(())
    }

    /// The peer speaks the protocol; a token may be left to show.
    fn greeted(&mut self) {
        if self.newcomer.is_guarded {
            let until = self.newcomer.since + Duration::from_millis(STRANGER_MS_MAX);
            self.newcomer.patience.as_mut().reset(until);
            self.handshake = Handshake::Token;
        } else {
            self.handshake = Handshake::Nothing;
            if self.newcomer.protocol == Protocol::Http2 {
                self.newcomer.slot.become_known();
            }
        }
    }

    /// Writes, and bounds how long nothing goes out.
    fn write<T>(
        &mut self,
        cx: &mut Context<'_>,
        how: impl FnOnce(Pin<&mut Wire>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.cut(cx)?;
        let written = how(Pin::new(&mut self.wire), cx);
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        self.late(cx)?;
        let patience = Duration::from_millis(STALLED_MS_MAX.into());
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.cut(cx)?;
        self.late(cx)?;
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.wire).poll_read(cx, buf))?;
        Poll::Ready(self.heard(&buf.filled()[before..]))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |wire, cx| wire.poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(cx, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(cx, AsyncWrite::poll_shutdown)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |wire, cx| wire.poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }
}

impl Connected for Connection {
    type ConnectInfo = Arc<Peer>;

    fn connect_info(&self) -> Arc<Peer> {
        Arc::clone(&self.newcomer.peer)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
