//! A guarded listener: every connection is TLS, within bounds of time and number.
//!
//! What is no TLS is told so in one line. Who may speak is decided by `bearer`, not here.

use std::{fmt, io, net::IpAddr, sync::Arc, time::Duration};

use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    sync::{Semaphore, watch},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::agent_tokens::AgentTokens;

/// Until a connection's TLS is set up, in milliseconds.
const HANDSHAKE_MS_MAX: u64 = 5_000;

/// Handshakes under way: each costs a signature, and none a client that only connects.
const HANDSHAKES_MAX: usize = 64;

/// The first byte of everything that begins a TLS connection.
const HANDSHAKE_RECORD: u8 = 22;

/// What somebody is told who speaks HTTP without TLS.
const NOT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\
    Content-Length: 31\r\nConnection: close\r\n\r\nthis address takes https alone\n";

/// What makes a listener guarded.
#[derive(Clone)]
pub struct Guard {
    /// Speaks `http/1.1` alone.
    pub tls: TlsAcceptor,
    /// Whether a name of the Host header is one that the certificate is for.
    pub is_named: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// The agents' tokens, as they are by now.
    pub tokens: watch::Receiver<AgentTokens>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

/// Sets up TLS on connections that were just taken.
#[derive(Clone)]
pub(super) struct Handshakes {
    tls: TlsAcceptor,
    room: Arc<Semaphore>,
}

impl Handshakes {
    pub(super) fn new(tls: TlsAcceptor) -> Self {
        Self { tls, room: Arc::new(Semaphore::new(HANDSHAKES_MAX)) }
    }

    /// `None`: there is nobody, or nobody who speaks TLS in time.
    pub(super) async fn shake(
        &self,
        stream: TcpStream,
        from: IpAddr,
    ) -> Option<TlsStream<TcpStream>> {
        let shaking = timeout(Duration::from_millis(HANDSHAKE_MS_MAX), self.try_shake(stream));
        match shaking.await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, %from, "a connection did not become TLS");
                None
            }
            Err(_) => {
                tracing::debug!(%from, "a connection took too long to become TLS");
                None
            }
        }
    }

    async fn try_shake(&self, mut stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        // Whoever says nothing holds none of the places.
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if first != [HANDSHAKE_RECORD] {
            stream.write_all(NOT_TLS).await?;
            stream.shutdown().await?;
            drain(&mut stream).await;
            return Err(io::Error::other("it does not begin with a TLS handshake"));
        }
        let _place = self.room.acquire().await.map_err(io::Error::other)?;
        self.tls.accept(stream).await
    }
}

/// Reads some of what was sent: closing before that would take back what was just answered.
async fn drain(stream: &mut TcpStream) {
    const BYTES_MAX: usize = 64 * 1024;
    let mut left = BYTES_MAX;
    let mut some = [0; 4096];
    while let Ok(read @ 1..) = tokio::io::AsyncReadExt::read(stream, &mut some).await {
        left = left.saturating_sub(read);
        if left == 0 {
            return;
        }
    }
}
