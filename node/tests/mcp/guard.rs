//! A guarded server, and a way in for clients that know no TLS.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use tasuki_node::{
    agent_tokens::{AgentTokens, Bearing, watched},
    mcp::{Guard, Settings, dial::NodeAt},
};
use tasuki_proto::{
    invitation::{Fingerprint, Trust},
    net::tls::{ALPN_HTTP1, ServerIdentity, Trusting, connect},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

use crate::{
    http::{Client, Http},
    world::{Loop, World},
};

/// Addresses that connections come from: each gets one of its own, as if of another machine.
static FROM: AtomicU32 = AtomicU32::new(u32::from_be_bytes([127, 1, 0, 1]));

/// A server for A and B that wants TLS and tokens, and a door beside it that speaks TLS for
/// whoever comes in.
pub(crate) struct Guarded {
    pub(crate) world: World,
    pub(crate) fingerprint: Fingerprint,
    /// Plain; every connection through it comes from an address of its own.
    pub(crate) door: SocketAddr,
    pub(crate) data: tempfile::TempDir,
    stop: CancellationToken,
    open: JoinHandle<()>,
}

impl Guarded {
    pub(crate) async fn new() -> Self {
        Self::start("127.0.0.1:0", Loop::new(), Settings::default()).await
    }

    pub(crate) async fn start(addr: &str, shared: Arc<Loop>, settings: Settings) -> Self {
        Self::again(addr, shared, settings, tempfile::tempdir().unwrap()).await
    }

    pub(crate) async fn again(
        addr: &str,
        shared: Arc<Loop>,
        settings: Settings,
        data: tempfile::TempDir,
    ) -> Self {
        let identity = ServerIdentity::own(&data.path().join("tls"), &[]).unwrap();
        let bearings = ["A", "B"].map(|role| Bearing::Role(role.parse().unwrap()));
        let tokens = AgentTokens::with(data.path(), bearings.into_iter().chain([Bearing::Node]));
        let stop = CancellationToken::new();
        let guard = Guard {
            tls: identity.acceptor(None, &[ALPN_HTTP1]).unwrap(),
            is_named: Arc::new(|host| host == "box.example"),
            tokens: watched(data.path(), tokens.unwrap(), stop.clone()),
        };
        let settings = Settings { guard: Some(guard), ..settings };
        let world = World::with(addr, shared, settings).await;
        let fingerprint = identity.fingerprint();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = listener.local_addr().unwrap();
        let open = tokio::spawn(carry(listener, world.addr, fingerprint));
        Self { world, fingerprint, door, data, stop, open }
    }

    pub(crate) fn path(&self) -> &Path {
        self.data.path()
    }

    /// What is shown as a role, or for all of the node where it is empty.
    pub(crate) fn token(&self, role: &str) -> String {
        let token = AgentTokens::read(self.path()).unwrap().get(&bearing(role)).unwrap().expose();
        format!("Bearer {token}")
    }

    /// What was shown until now, which is good for nothing from here on.
    pub(crate) fn rotate(&self, role: &str) -> String {
        let before = self.token(role);
        AgentTokens::rotate(self.path(), bearing(role)).unwrap();
        before
    }

    pub(crate) fn headers(&self, role: &str) -> Vec<(String, String)> {
        vec![("Authorization".to_owned(), self.token(role))]
    }

    /// A session at `path` of whoever bears the token of `role`.
    pub(crate) async fn client(&self, path: &str, role: &str) -> Client {
        Client::with(self.door, path, "test", self.headers(role)).await
    }

    /// What `request` is answered with, and its challenge.
    pub(crate) async fn ask(&self, request: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let mut http = Http::connect(self.door).await;
        http.send(request, headers, b"").await;
        (http.status, http.headers.get("www-authenticate").cloned().unwrap_or_default())
    }

    pub(crate) fn at(&self, role: &str) -> impl Fn() -> NodeAt + Send + Sync + 'static {
        let (url, data) = (format!("https://{}", self.world.addr), self.path().to_owned());
        let (fingerprint, bearing) = (Some(self.fingerprint), bearing(role));
        move || NodeAt {
            url: url.clone(),
            fingerprint,
            token: AgentTokens::read(&data).unwrap().get(&bearing).cloned(),
        }
    }

    /// Stops the server; its data stay.
    pub(crate) async fn stopped(self) -> tempfile::TempDir {
        self.stop.cancel();
        self.open.abort();
        self.world.stopped().await;
        self.data
    }
}

fn bearing(role: &str) -> Bearing {
    if role.is_empty() { Bearing::Node } else { Bearing::Role(role.parse().unwrap()) }
}

fn trusting(fingerprint: Fingerprint) -> TlsConnector {
    Trusting::new(Trust::Pinned(fingerprint)).connector(&[ALPN_HTTP1]).unwrap()
}

/// A connection that comes from `from`.
pub(crate) async fn come_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    let stream = socket.connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

pub(crate) async fn shake(stream: TcpStream, fingerprint: Fingerprint) -> TlsStream<TcpStream> {
    connect(&trusting(fingerprint), stream, "localhost").await.unwrap()
}

async fn carry(listener: TcpListener, to: SocketAddr, fingerprint: Fingerprint) {
    loop {
        let (mut near, _) = listener.accept().await.unwrap();
        near.set_nodelay(true).unwrap();
        tokio::spawn(async move {
            let from = Ipv4Addr::from(FROM.fetch_add(1, Ordering::Relaxed));
            let far = come_from(from, to).await;
            let mut far = shake(far, fingerprint).await;
            // Whoever ends a connection ends it on both sides.
            tokio::io::copy_bidirectional(&mut near, &mut far).await.ok();
        });
    }
}
