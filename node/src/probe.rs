//! What answers at an address on this machine where a broker or a node was expected: their ports are
//! one apart, and easily taken for each other.

use std::time::Duration;

use http::Uri;
use tasuki_proto::net::dial::is_loopback;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// For the beginning of an answer: whoever is on this machine answers at once.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// What is read of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 1024;

/// What begins a connection of HTTP/2: its preface and an empty frame of settings.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// The same that an HTTP/2 server begins with, after the length of its settings: a frame of settings,
/// of the connection as a whole.
const SETTINGS: &[u8] = &[4, 0, 0, 0, 0, 0];

/// What is said where a node was expected and [`is_grpc`].
pub(crate) const GRPC: &str = "what is there speaks gRPC, as a broker does; a node's MCP port is 7421 \
                        unless it was given another";

/// What an alert of TLS begins with: how a server that encrypts answers what is not encrypted.
const TLS_ALERT: &[u8] = &[0x15, 3];

/// What is where a broker was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistaken {
    /// A node's MCP port.
    Node,
    /// The address of a broker's metrics.
    Dashboard,
    /// Something that encrypts, which was not asked for.
    Tls,
}

/// `None`: a broker, or nothing that is known here.
pub(crate) async fn mistaken_for_broker(url: &str) -> Option<Mistaken> {
    let authority = open_authority(url)?;
    let asked = format!("GET /healthz HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    let answer = ask(&authority, asked.as_bytes()).await;
    let is_healthy = answer.starts_with(b"HTTP/1.1 200");
    if is_healthy && answer.ends_with(b"\r\n\r\nok") {
        Some(Mistaken::Node)
    } else if is_healthy && answer.ends_with(b"\r\n\r\nok\n") {
        Some(Mistaken::Dashboard)
    } else {
        answer.starts_with(TLS_ALERT).then_some(Mistaken::Tls)
    }
}

/// Whether what is there speaks HTTP/2 from its first byte, as a broker's port does.
pub(crate) async fn is_grpc(url: &str) -> bool {
    let Some(authority) = open_authority(url) else { return false };
    let answer = ask(&authority, HTTP2).await;
    answer.get(3..).is_some_and(|rest| rest.starts_with(SETTINGS))
}

/// Where a URL leads, if it is this machine and nothing is encrypted.
fn open_authority(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let is_open = uri.scheme_str() == Some("http") && uri.host().is_some_and(is_loopback);
    let port = uri.port_u16().unwrap_or(80);
    is_open.then(|| format!("{}:{port}", uri.host().unwrap_or_default()))
}

/// The beginning of an answer; nothing where none comes.
async fn ask(authority: &str, question: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    let asked = async {
        let mut stream = TcpStream::connect(authority).await.ok()?;
        stream.write_all(question).await.ok()?;
        while answer.len() < ANSWER_BYTES_MAX && stream.read_buf(&mut answer).await.ok()? != 0 {}
        Some(())
    };
    // A server that goes on waiting has said enough.
    timeout(ANSWER_WITHIN, asked).await.ok();
    answer
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Somebody who says this to whoever connects, and is silent then.
    async fn says(what: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut asked = [0; 64];
                assert_ne!(stream.read(&mut asked).await.unwrap(), 0);
                stream.write_all(what).await.unwrap();
            }
        });
        url
    }

    #[tokio::test]
    async fn what_is_where_a_broker_or_a_node_was_expected_is_told_apart() {
        let node = says(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        let broker = says(b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\0\x40\0").await;
        let dashboard = says(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n").await;
        let tls = says(&[0x15, 3, 3, 0, 2, 2, 50]).await;
        let other = says(b"HTTP/1.1 404 Not Found\r\n\r\n").await;
        for (url, mistaken, is_broker) in [
            (node.as_str(), Some(Mistaken::Node), false),
            (&dashboard, Some(Mistaken::Dashboard), false),
            (&tls, Some(Mistaken::Tls), false),
            (&broker, None, true),
            (&other, None, false),
            (&node.replace("http:", "https:"), None, false),
            ("http://192.0.2.1:7421", None, false),
            ("nonsense", None, false),
        ] {
            let found = (mistaken_for_broker(url).await, is_grpc(url).await);
            assert_eq!(found, (mistaken, is_broker), "{url}");
        }
    }
}
