//! What lies between a laptop and the broker: it passes on so much, and then nothing more.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Notify,
};

/// Read at once, in bytes.
const CHUNK_BYTES: usize = 16 * 1024;

/// Copies what goes either way, piece by piece, and counts the pieces of all connections.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    to: Arc<Mutex<Option<SocketAddr>>>,
    plug: Arc<Plug>,
}

#[derive(Debug)]
struct Plug {
    /// Pieces left to pass on.
    left: AtomicUsize,
    /// A piece was not.
    cut: Notify,
}

impl Relay {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let to: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
        let plug = Arc::new(Plug { left: AtomicUsize::new(usize::MAX), cut: Notify::new() });
        let (target, shared) = (to.clone(), plug.clone());
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let target = target.lock().unwrap().unwrap();
                let Ok(far) = TcpStream::connect(target).await else { continue };
                let (near_read, near_write) = near.into_split();
                let (far_read, far_write) = far.into_split();
                tokio::spawn(copy(near_read, far_write, shared.clone()));
                tokio::spawn(copy(far_read, near_write, shared.clone()));
            }
        });
        Self { address, to, plug }
    }

    pub(crate) fn lead_to(&self, broker: SocketAddr) {
        *self.to.lock().unwrap() = Some(broker);
    }

    /// Passes on so many more pieces.
    pub(crate) fn cut_after(&self, pieces: usize) {
        self.plug.left.store(pieces, Ordering::SeqCst);
    }

    /// Resolves when a piece was not passed on.
    pub(crate) async fn is_cut(&self) {
        self.plug.cut.notified().await;
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, plug: Arc<Plug>) {
    let mut piece = vec![0; CHUNK_BYTES];
    while let Ok(bytes @ 1..) = from.read(&mut piece).await {
        let take = |left: usize| left.checked_sub(1);
        if plug.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_err() {
            plug.cut.notify_one();
            // Both ends stay open: nobody is told that the network is gone.
            return std::future::pending().await;
        }
        if to.write_all(&piece[..bytes]).await.is_err() {
            return;
        }
    }
}
