//! Pauses of whoever keeps a stream to the broker open for as long as this node runs.

use tokio::time::sleep;

use super::Link;
use crate::client::retry::{Backoff, chance};

/// How long to wait before a stream is opened again.
pub(crate) struct Reopening {
    /// After a stream that ended.
    ended: Backoff,
    /// After the broker did not open one.
    refused: Backoff,
}

impl Reopening {
    pub(crate) fn new() -> Self {
        Self { ended: Backoff::default(), refused: Backoff::turned_away() }
    }

    /// A stream was opened.
    pub(crate) const fn opened(&mut self) {
        self.refused.reset();
    }

    /// Something came on the stream.
    pub(crate) const fn received(&mut self) {
        self.ended.reset();
    }

    /// Waits after a stream that ended, unless the connection is back earlier.
    pub(crate) async fn after_end(&mut self, link: &Link) {
        pause(&mut self.ended, link).await;
    }

    /// Waits after a refusal, unless the connection is back earlier.
    pub(crate) async fn after_refusal(&mut self, link: &Link) {
        pause(&mut self.refused, link).await;
    }
}

async fn pause(backoff: &mut Backoff, link: &Link) {
    tokio::select! {
        () = sleep(backoff.pause(chance())) => {}
        () = link.reconnected() => {}
    }
}
