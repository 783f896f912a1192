//! A guarded broker as a child, and what reaches it: with a token, or as a stranger.

use std::{net::SocketAddr, path::Path};

use tasuki_proto::{
    host::{admin::AdminFile, config::FOLDER},
    invitation::{Fingerprint, Trust},
    net::{
        dial::{self, dial},
        tls::{self, ALPN_H2, Trusting},
    },
    token::Token,
    wire::{self, turn_loop_client::TurnLoopClient},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    net::{TcpSocket, TcpStream},
};
use tokio_rustls::client::TlsStream;

use crate::support::{Process, arguments, soon};

/// Where strangers come from; whoever has a token is at 127.0.0.1.
pub(crate) const ELSEWHERE: &str = "127.0.0.2";

pub(crate) struct Guarded {
    pub(crate) broker: Process,
    pub(crate) address: SocketAddr,
    pub(crate) pin: Fingerprint,
    pub(crate) admin: Token,
}

impl Guarded {
    /// `serve --secure` on a free port, and more flags.
    pub(crate) async fn serve(data: &Path, flags: &[&str]) -> Self {
        let words = [&["serve", "--listen", "127.0.0.1:0", "--secure"], flags].concat();
        let mut broker = Process::spawn(&arguments(&words, data), &[]);
        let Some(address) = broker.address().await else {
            panic!("the broker does not start: {}", broker.log())
        };
        broker.line().await.unwrap();
        let line = broker.line().await.unwrap();
        let pin = line.strip_prefix("certificate SHA-256 ").unwrap().parse().unwrap();
        let file = AdminFile::read(&data.join(FOLDER)).unwrap().unwrap();
        Self { broker, address, pin, admin: file.tokens().remove(0) }
    }

    pub(crate) async fn channel(&self) -> dial::Channel {
        let url = format!("https://{}", self.address);
        let trusting = Trusting::new(Trust::Pinned(self.pin));
        let dialling = Box::pin(dial(&url, &trusting, Some(&self.admin)));
        soon("a connection", dialling).await.unwrap()
    }

    /// Somebody with a token is answered.
    pub(crate) async fn good_call(&self) {
        ask(&mut TurnLoopClient::new(self.channel().await)).await;
    }

    /// Encrypted, and nothing said.
    pub(crate) async fn tls(&self, from: &str) -> TlsStream<TcpStream> {
        let stream = tcp(from, self.address).await;
        let connector = Trusting::new(Trust::Pinned(self.pin)).connector(&[ALPN_H2]).unwrap();
        let opening = tls::connect(&connector, stream, "127.0.0.1");
        soon("a handshake", opening).await.unwrap()
    }
}

pub(crate) async fn ask(turns: &mut TurnLoopClient<dial::Channel>) {
    soon("a good call", turns.get_loop(wire::GetLoopRequest::default())).await.unwrap();
}

/// A connection from an address of this machine.
pub(crate) async fn tcp(from: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
    soon("a connection", socket.connect(to)).await.unwrap()
}

/// All that still comes; returns when the broker closed.
pub(crate) async fn rest<S: AsyncRead + Unpin>(stream: &mut S) -> Vec<u8> {
    let mut all = Vec::new();
    // A connection that was reset is closed too.
    drop(stream.read_to_end(&mut all).await);
    all
}
