//! Work that would hold up the threads everything else runs on.

use std::io;

use tokio::task;

/// Does work on the disk on a thread of its own.
pub(crate) async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
