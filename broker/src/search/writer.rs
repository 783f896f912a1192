//! A thread that writes to one index.
//!
//! It yields to the rest of the broker: indexing is work for idle time. The engine's own threads
//! begin below it and are as modest. While a writer thread lives, pieces of the index are put together in
//! the background; one that ends waits for that or gives it up, to be begun again by the next.

use std::{
    io,
    sync::mpsc::{SyncSender, sync_channel},
    thread,
};

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tracing::debug;

use super::index::{Index, IndexError, Writer};

/// How much less than others it asks for of a busy processor.
const NICENESS: i32 = 10;

enum Order {
    Write(Box<dyn FnOnce(&mut Writer) + Send>),
    Settle,
}

#[derive(Debug)]
pub(super) struct WriterThread {
    orders: SyncSender<Order>,
    ended: oneshot::Receiver<()>,
}

/// The thread ended with what it was given to do undone.
fn gone() -> IndexError {
    IndexError::Files(io::Error::other("the index's writer stumbled"))
}

impl WriterThread {
    /// `place` is held as long as the thread lives.
    pub(super) async fn start(
        index: &Index,
        is_rebuild: bool,
        place: OwnedSemaphorePermit,
    ) -> Result<Self, IndexError> {
        let (order, orders) = sync_channel(1);
        let (started, is_started) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let index = index.clone();
        let run = move || {
            if let Err(error) = rustix::process::nice(NICENESS) {
                debug!(%error, "indexing is as important as the rest");
            }
            let mut writer = match index.writer(is_rebuild) {
                Ok(writer) => writer,
                Err(error) => {
                    drop(started.send(Err(error)));
                    return;
                }
            };
            drop(started.send(Ok(())));
            loop {
                match orders.recv() {
                    Ok(Order::Write(work)) => work(&mut writer),
                    Ok(Order::Settle) => {
                        if let Err(error) = writer.settle() {
                            debug!(%error, "pieces of an index were not put together");
                        }
                        break;
                    }
                    Err(_) => {
                        drop(writer);
                        break;
                    }
                }
            }
            drop((place, end));
        };
        thread::Builder::new().name("search".to_owned()).spawn(run)?;
        is_started.await.map_err(|_| gone())??;
        Ok(Self { orders: order, ended })
    }

    /// Has something written.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<T, IndexError> {
        let (reply, answer) = oneshot::channel();
        let work = Order::Write(Box::new(move |writer| {
            // Whoever asked may be gone.
            drop(reply.send(work(writer)));
        }));
        // One order at a time, so there is always room.
        self.orders.try_send(work).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Ends it, when all pieces are put together that are being put together. Another may write
    /// then.
    pub(super) async fn settle(self) {
        // One that stumbled has ended.
        let _ = self.orders.try_send(Order::Settle);
        self.end().await;
    }

    /// Ends it at once.
    pub(super) async fn end(self) {
        drop(self.orders);
        // It says nothing, it goes.
        let _ = self.ended.await;
    }
}
