//! The broker's records for others than agents: hooks and mailboxes on disk.
//!
//! They are asked for without a registration, so nothing of it speaks for an agent.

use std::time::Duration;

use futures::{StreamExt as _, stream::BoxStream};
use tasuki_proto::wire;
use tokio::time;
use tonic::Status;

use super::{
    Link, LinkState,
    channel::{self, ATTEMPT_MS_MAX},
};

impl Link {
    /// Resolves while the broker can be asked.
    pub(super) async fn connected(&self) {
        let mut state = self.shared.state.subscribe();
        if state.wait_for(LinkState::is_connected).await.is_err() {
            std::future::pending().await
        }
    }

    /// Records from `from` on; 0: those yet to come. `ended` says what a status means.
    pub(super) async fn subscribe<E: Send + 'static>(
        &self,
        from: u64,
        ended: fn(&Status) -> E,
    ) -> Result<BoxStream<'static, Result<wire::FeedItem, E>>, E> {
        let caller = Some(self.shared.stranger());
        let request = wire::SubscribeRequest { caller, from_sequence: from };
        let mut client = channel::feed(self.shared.channel.clone());
        let opening = client.subscribe(request);
        let opened = match time::timeout(Duration::from_millis(ATTEMPT_MS_MAX), opening).await {
            Ok(opened) => opened,
            Err(_) => {
                Err(Status::deadline_exceeded(format!("no answer within {ATTEMPT_MS_MAX} ms")))
            }
        };
        let items = opened.map_err(|status| ended(&status))?.into_inner();
        Ok(items.map(move |item| item.map_err(|status| ended(&status))).boxed())
    }
}
