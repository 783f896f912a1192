//! What the broker tells of changes, while anybody here follows them.
//!
//! After a broken connection the feed goes on after the last record it told, if the journal is the
//! one it was [known](super::feed_resume).
//!
//! **L4** Whoever follows is told of what changed, or that something was missed; a broken
//! connection, a broker that restarted and one that forgot are no exceptions.

use std::{sync::Arc, time::Duration};

use tasuki_proto::{
    reason::Reason,
    wire::{self, feed_client::FeedClient},
};
use tokio::{sync::watch, time};
use tonic::{Status, Streaming};

use super::{
    LinkState, Shared,
    channel::{self, ATTEMPT_MS_MAX, Channel},
    feed_resume::{Again, Last, told_again},
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
    let client = channel::feed(shared.channel.clone());
    let mut feed = Feed { shared, followers, state, client, known: None };
    closing.run_until_cancelled(feed.live()).await;
}

/// The node's end of the feed.
struct Feed {
    shared: Arc<Shared>,
    followers: watch::Receiver<usize>,
    state: watch::Receiver<LinkState>,
    client: FeedClient<Channel>,
    /// The record told last.
    known: Option<Last>,
}

/// Why the feed ended.
enum End {
    /// Nobody follows.
    Unused,
    /// It goes on after what is known.
    Broken(String),
    /// What comes after what is known cannot be had.
    Lost(String),
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
                End::Broken(why) => tracing::debug!(why, "the feed is to be opened again"),
                End::Lost(why) => {
                    tracing::debug!(why, "the feed begins anew");
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
            Err(end) => return end,
        };
        loop {
            let item = tokio::select! {
                item = items.message() => item,
                () = unused(self.followers.clone()) => return End::Unused,
            };
            match item {
                Ok(Some(item)) => {
                    self.known = Some(Last::of(&item));
                    self.shared.news.take(&item);
                }
                Ok(None) => return End::Broken("the broker ended it".to_owned()),
                Err(status) => return ended(&status),
            }
        }
    }

    /// Opens the feed and says to followers that it is, and whether they missed anything.
    async fn open(&mut self) -> Result<Streaming<wire::FeedItem>, End> {
        let request = wire::SubscribeRequest {
            caller: Some(self.shared.stranger()),
            from_sequence: self.known.map_or(0, |last| last.sequence),
        };
        let opening = self.client.subscribe(request);
        let opened = time::timeout(Duration::from_millis(ATTEMPT_MS_MAX), opening).await;
        let mut items = match opened {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return Err(ended(&status)),
            Err(_) => return Err(End::Broken(format!("no answer within {ATTEMPT_MS_MAX} ms"))),
        };
        if let Some(last) = self.known {
            match told_again(&mut items, last).await {
                Again::Known(_) => {}
                Again::Other | Again::Silence => {
                    return Err(End::Lost("the journal is another one".to_owned()));
                }
                Again::Ended(Some(status)) => return Err(ended(&status)),
                Again::Ended(None) => return Err(End::Broken("the broker ended it".to_owned())),
            }
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

fn ended(status: &Status) -> End {
    let why = status.message().to_owned();
    match Reason::of(status) {
        Some(Reason::Compacted) => End::Lost(why),
        Some(_) | None => End::Broken(why),
    }
}
