//! One gRPC connection to a broker, for whoever asks a few questions and goes.
//!
//! **Invariant:** a token leaves this machine over TLS alone: `http://` is for loopback.
//!
//! Not here: reconnecting, which is a node's link's.

use std::{error::Error, io, net::IpAddr, sync::Mutex, time::Duration};

use http::{Uri, uri::Scheme};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Endpoint,
};

use crate::{
    net::tls::{self, ALPN_H2, ConnectError, TlsError, Trusting},
    token::Token,
};

/// To reach one address of a host. One that is there answers within a second, the first packet
/// lost included.
const REACH_WITHIN: Duration = Duration::from_secs(3);

/// For a name to be looked up, and for TLS: a busy machine at the far end of a bad link.
const AGREE_WITHIN: Duration = Duration::from_secs(5);

/// For one answer. A durable write on a slow disk takes a second; a person waits ten.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// Between two pings on a connection, and for the answer to one: how soon a broker is missed
/// that vanished without a word. Asked for when nothing is sent, too, since a stream that is only
/// listened to is nothing sent.
const PING_EVERY: Duration = Duration::from_secs(5);
const PONG_WITHIN: Duration = Duration::from_secs(5);

/// What calls go through; it shows the token with each of them.
pub type Channel = InterceptedService<tonic::transport::Channel, Bearer>;

/// Shows a token with every call. `Debug` does not show it.
#[derive(Debug, Clone)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    pub fn new(token: Option<&Token>) -> Self {
        Self(token.map(|token| {
            let text = format!("Bearer {}", token.expose());
            let mut value: MetadataValue<Ascii> = text.parse().expect("a token is plain text");
            value.set_sensitive(true);
            value
        }))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// Why there is no connection. Nothing was asked for.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("{0:?} is no broker's URL; one looks like https://HOST:7420")]
    Url(String),
    #[error(
        "{0} is neither on this machine nor encrypted: a token would be there for everybody on \
         the way to read. A broker that listens for others is at https://"
    )]
    Plain(String),
    #[error(transparent)]
    Files(#[from] TlsError),
    #[error("{host} is not to be found: {source}")]
    Name { host: String, source: io::Error },
    #[error("nothing answers at {at}: {source}")]
    Unreachable { at: String, source: io::Error },
    #[error(transparent)]
    Tls(#[from] ConnectError),
    #[error("what is at {at} does not speak gRPC: {source}")]
    Http { at: String, source: tonic::transport::Error },
}

impl DialError {
    /// Trying again changes nothing until a person does something.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Url(_) | Self::Plain(_) | Self::Files(_) => true,
            Self::Tls(why) => why.is_final(),
            Self::Name { .. } | Self::Unreachable { .. } | Self::Http { .. } => false,
        }
    }
}

/// Connects to the broker at `url` and shows `token` with every call.
///
/// # Errors
/// Says who is there instead, or what is in the way.
pub async fn dial(
    url: &str,
    trusting: &Trusting,
    token: Option<&Token>,
) -> Result<Channel, DialError> {
    let wrong = || DialError::Url(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let (Some(scheme), Some(host)) = (uri.scheme(), uri.host()) else { return Err(wrong()) };
    let is_tls = *scheme == Scheme::HTTPS;
    if !is_tls && *scheme != Scheme::HTTP {
        return Err(wrong());
    }
    if !is_tls && !is_loopback(host) {
        return Err(DialError::Plain(url.to_owned()));
    }
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let connector = if is_tls { Some(trusting.connector(&[ALPN_H2])?) } else { None };
    let stream = reach(host, port).await?;
    let at = format!("{host}:{port}");
    let channel = match connector {
        None => speak(url, stream).await,
        Some(connector) => {
            let opening = tls::connect(&connector, stream, host);
            let late = |_| ConnectError::Broken { host: host.to_owned(), source: too_late() };
            let stream = timeout(AGREE_WITHIN, opening).await.map_err(late)??;
            speak(url, stream).await
        }
    };
    let channel = channel.map_err(|source| DialError::Http { at, source })?;
    Ok(InterceptedService::new(channel, Bearer::new(token)))
}

/// What a call that failed on a connection says about it: a broker that wants a certificate says
/// so only then.
pub fn refused_later(host: &str, status: &Status) -> Option<ConnectError> {
    let behind = std::iter::successors(status.source(), |why| (*why).source());
    for why in behind {
        let Some(io) = why.downcast_ref::<io::Error>() else { continue };
        let tls = io.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>());
        if let Some(tls) = tls {
            return Some(ConnectError::of(host, io::Error::other(tls.clone())));
        }
    }
    None
}

/// Whether a host in a URL is this machine, whatever a name server says.
pub fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

async fn reach(host: &str, port: u16) -> Result<TcpStream, DialError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let name = |source| DialError::Name { host: host.to_owned(), source };
    let looked_up = timeout(AGREE_WITHIN, lookup_host((bare, port))).await;
    let found = looked_up.unwrap_or_else(|_| Err(too_late())).map_err(name)?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in found.take(ADDRESSES_MAX) {
        let reached = timeout(REACH_WITHIN, TcpStream::connect(address)).await;
        match reached.unwrap_or_else(|_| Err(too_late())) {
            Ok(stream) => {
                // Small messages both ways; without it each waits for the other's.
                drop(stream.set_nodelay(true));
                return Ok(stream);
            }
            Err(why) => last = why,
        }
    }
    Err(DialError::Unreachable { at: format!("{host}:{port}"), source: last })
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer came in time")
}

/// gRPC over a stream that is open; it is not opened again when it breaks.
async fn speak<S>(
    url: &str,
    stream: S,
) -> Result<tonic::transport::Channel, tonic::transport::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = Mutex::new(Some(TokioIo::new(stream)));
    let take = move |_: Uri| {
        let stream = stream.lock().ok().and_then(|mut it| it.take());
        std::future::ready(stream.ok_or_else(|| io::Error::other("the connection broke")))
    };
    // Encrypted already where it has to be: to what runs over it, it is a plain stream.
    let plain = url.replacen("https://", "http://", 1);
    let origin = Endpoint::from_shared(url.to_owned())?.uri().clone();
    Endpoint::from_shared(plain)?
        .origin(origin)
        .timeout(ANSWER_WITHIN)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN)
        .keep_alive_while_idle(true)
        .connect_with_connector(tower::service_fn(take))
        .await
}

#[cfg(test)]
mod tests {
    use crate::invitation::Trust;

    use super::*;

    async fn refused(url: &str) -> DialError {
        dial(url, &Trusting::new(Trust::Authorities), None).await.unwrap_err()
    }

    #[tokio::test]
    async fn nothing_leaves_this_machine_in_the_clear() {
        for url in ["http://192.0.2.1:7420", "http://example.org", "http://127.0.0.1.example.org"] {
            let why = refused(url).await;
            assert!(matches!(why, DialError::Plain(_)) && why.is_final(), "{url}: {why}");
        }
        for url in ["", "host:7420", "ftp://host", "/x"] {
            assert!(matches!(refused(url).await, DialError::Url(_)), "{url}");
        }
    }

    #[tokio::test]
    async fn where_nobody_is_it_says_so() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let why = refused(&url).await;
        assert!(matches!(why, DialError::Unreachable { .. }) && !why.is_final(), "{why}");
    }

    #[test]
    fn a_token_is_not_shown_to_programmers() {
        let secret = crate::token::Secret::new([0; 32]);
        let token = Token { id: "0011".parse().unwrap(), secret };
        assert!(!format!("{:?}", Bearer::new(Some(&token))).contains("AAAA"));
    }
}
