//! What the broker tells of changes, while anybody here follows them.
//!
//! After a broken connection the feed goes on after the last record it told, if the journal is the
//! one it was [known](crate::client::feed).
//!
//! **L4** Whoever follows is told of what changed, or that something was missed; a broken
//! connection, a broker that restarted and one that forgot are no exceptions.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use tokio::{sync::watch, time};

use super::{LinkState, Shared};
use crate::client::{
    feed::{self, Ended, Items, Last},
    retry::{Backoff, chance},
};

/// How long the feed is kept when nobody follows any more, in milliseconds: clients that connect
/// anew take it up where it is.
const UNUSED_MS: u64 = 60_000;

/// Runs until the node stops.
pub(super) async fn run(shared: Arc<Shared>) {
    let closing = shared.closing.clone();
    let followers = shared.news.followers();
    let state = shared.state.subscribe();
    let mut feed = Feed { shared, followers, state, known: None };
    closing.run_until_cancelled(feed.live()).await;
}

/// The node's end of the feed.
struct Feed {
    shared: Arc<Shared>,
    followers: watch::Receiver<usize>,
    state: watch::Receiver<LinkState>,
    /// The record told last.
    known: Option<Last>,
}

/// Why the feed ended.
enum End {
    /// Nobody follows.
    Unused,
    Ended(Ended),
}

impl From<Ended> for End {
    fn from(ended: Ended) -> Self {
        Self::Ended(ended)
    }
}

impl Feed {
    async fn live(&mut self) {
        let mut backoff = Backoff::default();
        loop {
            let used = self.followers.wait_for(|count| 0 < *count).await.is_ok();
            let connected = self.state.wait_for(LinkState::is_connected).await.is_ok();
            if !(used && connected) {
                return;
            }
            let before = self.known;
            let end = self.listen().await;
            self.shared.news.end();
            if self.known != before {
                backoff.reset();
            }
            match end {
                End::Unused => {
                    self.known = None;
                    backoff.reset();
                    continue;
                }
                End::Ended(Ended::Broken(why)) => {
                    tracing::debug!(why, "the feed is to be opened again");
                }
                End::Ended(ended @ (Ended::Compacted { .. } | Ended::Lost(_))) => {
                    tracing::debug!(?ended, "the feed begins anew");
                    self.known = None;
                }
            }
            self.shared.suspect.notify_one();
            time::sleep(backoff.pause(chance())).await;
        }
    }

    async fn listen(&mut self) -> End {
        let mut items = match self.open().await {
            Ok(items) => items,
            Err(ended) => return ended.into(),
        };
        loop {
            let item = tokio::select! {
                item = items.next() => item,
                () = unused(self.followers.clone()) => return End::Unused,
            };
            match item {
                Some(Ok(item)) => {
                    self.known = Some(Last::of(&item));
                    self.shared.news.take(&item);
                }
                Some(Err(ended)) => return ended.into(),
                None => return Ended::silently().into(),
            }
        }
    }

    /// Opens the feed and says to followers that it is, and whether they missed anything.
    async fn open(&mut self) -> Result<Items, Ended> {
        let from = self.known.map_or(0, |last| last.sequence);
        let (channel, caller) = (self.shared.client.channel(), self.shared.anonymous_caller());
        let mut items = feed::subscribe(channel, caller, from).await?;
        if let Some(last) = self.known {
            items = feed::resume(items, last).await?;
        }
        self.shared.news.begin(self.known.is_some());
        Ok(items)
    }
}

/// Resolves when nobody has followed for a while.
async fn unused(mut followers: watch::Receiver<usize>) {
    loop {
        if followers.wait_for(|count| *count == 0).await.is_err() {
            return;
        }
        let again = followers.wait_for(|count| 0 < *count);
        if time::timeout(Duration::from_millis(UNUSED_MS), again).await.is_err() {
            return;
        }
    }
}
