//! Reaching a running node: plainly on this machine, over TLS and with a token anywhere.
//!
//! **Invariant:** a token goes only to this machine, or to whoever has the expected certificate.

use std::{io, net::IpAddr};

use http::{Uri, uri::Authority};
use tasuki_proto::{
    invitation::{Fingerprint, Trust},
    net::tls::{ALPN_HTTP1, ConnectError, Trusting, connect},
    token::Token,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

use super::transport::alive::ends_with_its_peer;

/// Where a node is, how it is known, and what is shown to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAt {
    /// Without a path.
    pub url: String,
    /// Of its certificate; `None`: an authority that this machine trusts vouches for it.
    pub fingerprint: Option<Fingerprint>,
    /// `None`: it is open.
    pub token: Option<Token>,
}

/// An open one.
impl From<String> for NodeAt {
    fn from(url: String) -> Self {
        Self { url, fingerprint: None, token: None }
    }
}

/// What carries bytes to a node.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// Why a node was not reached. Nothing was sent to it.
#[derive(Debug)]
pub(super) enum Undialled {
    /// The URL is none of a node.
    Address,
    /// Nobody answers.
    Silent(io::Error),
    /// Whoever is there must not be spoken to; the text follows the URL.
    Unsafe(String),
}

/// Who is spoken to, and how.
#[derive(Debug)]
struct Place {
    authority: Authority,
    is_tls: bool,
}

impl NodeAt {
    /// For the header `Host`.
    pub(super) fn authority(&self) -> Option<String> {
        Some(self.place()?.authority.to_string())
    }

    /// For the header `Authorization`.
    pub(super) fn credentials(&self) -> Option<String> {
        self.token.as_ref().map(|token| format!("Bearer {}", token.expose()))
    }

    fn place(&self) -> Option<Place> {
        let uri: Uri = self.url.parse().ok()?;
        let is_tls = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        Some(Place { authority: uri.authority()?.clone(), is_tls })
    }

    /// Opens a connection. Waits as long as the other side does: bound it.
    pub(super) async fn dial(&self) -> Result<Box<dyn Wire>, Undialled> {
        let Place { authority, is_tls } = self.place().ok_or(Undialled::Address)?;
        let host = authority.host();
        if !is_tls && !is_loopback(host) {
            return Err(Undialled::Unsafe(
                "it is on another machine, and http would show everything to the network; use \
                 https, and the fingerprint that the node prints"
                    .to_owned(),
            ));
        }
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let bare = host.trim_matches(['[', ']']);
        let stream = TcpStream::connect((bare, port)).await.map_err(Undialled::Silent)?;
        stream.set_nodelay(true).map_err(Undialled::Silent)?;
        if !is_tls {
            return Ok(Box::new(stream));
        }
        ends_with_its_peer(&stream);
        let trust = self.fingerprint.map_or(Trust::Authorities, Trust::Pinned);
        let connector = Trusting::new(trust).connector(&[ALPN_HTTP1]);
        let connector = connector.map_err(|why| Undialled::Unsafe(why.to_string()))?;
        match connect(&connector, stream, host).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(ConnectError::OtherCertificate { shown, pinned, .. }) => {
                Err(Undialled::Unsafe(format!(
                    "it shows another certificate ({shown}) than the expected one ({pinned}): \
                     either it was set up anew, or somebody in between pretends to be it. If it \
                     was set up anew, use the fingerprint that it prints when it starts"
                )))
            }
            Err(why) if why.is_final() => Err(Undialled::Unsafe(why.to_string())),
            Err(why) => Err(Undialled::Silent(io::Error::other(why))),
        }
    }
}

/// Whether a host of a URL is this machine and nothing else.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_matches(['[', ']']);
    bare.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_goes_to_another_machine_without_tls() {
        for url in ["http://10.0.0.1:7421", "http://127.0.0.1.example:1", "http://[fd00::1]:1"] {
            let refused = NodeAt::from(url.to_owned()).dial().await.err();
            assert!(matches!(refused, Some(Undialled::Unsafe(_))), "{url}: {refused:?}");
        }
        for url in ["", "127.0.0.1:7421", "ftp://127.0.0.1:1", "/mcp"] {
            let refused = NodeAt::from(url.to_owned()).dial().await.err();
            assert!(matches!(refused, Some(Undialled::Address)), "{url}: {refused:?}");
        }
    }
}
