//! A network that is far away: what passes takes its time, in order, and nothing is lost.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;

use crate::machine::Machine;

/// Pieces under way in one direction.
const UNDER_WAY_MAX: usize = 1024;

/// Bytes of a piece.
const PIECE_BYTES: usize = 16 * 1024;

/// Carries connections from `port` of a machine to `to`, each way late by `by`, until dropped.
pub(crate) async fn carry(
    machine: &Machine,
    port: u16,
    to: SocketAddr,
    by: Duration,
) -> AbortOnDropHandle<()> {
    let listener = machine.on(async move { TcpListener::bind(("0.0.0.0", port)).await.unwrap() });
    let listener = listener.await;
    machine.spawn(async move {
        loop {
            let (near, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let Ok(far) = TcpStream::connect(to).await else { return };
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                let ((from_near, to_near), (from_far, to_far)) =
                    (near.into_split(), far.into_split());
                tokio::join!(late(from_near, to_far, by), late(from_far, to_near, by));
            });
        }
    })
}

/// Copies until either end is over.
async fn late(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, by: Duration) {
    let (send, mut sent) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY_MAX);
    let read = async move {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(bytes @ 1..) = from.read(&mut piece).await {
            if send.send((Instant::now() + by, piece[..bytes].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, piece)) = sent.recv().await {
            sleep_until(due).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        // The other end has gone already, or goes with this.
        to.shutdown().await.ok();
    };
    tokio::join!(read, write);
}
