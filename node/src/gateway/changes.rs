//! What a server says has changed, and which of its resources somebody subscribed to.
//!
//! A server of before 2026-07-28 says it by itself, and takes a subscription for each resource; a
//! later one says it on a stream that names all of it, opened anew before the one before is left.

#![expect(deprecated, reason = "servers of earlier versions take subscriptions so")]

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fmt,
    sync::Arc,
    time::Duration,
};

use futures::FutureExt as _;
use parking_lot::Mutex;
use rmcp::{
    Peer, RoleClient,
    model::{
        ServerNotification, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
    },
    service::Subscription,
};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

use super::listing::LIST_MAX;
use crate::link::news::{News, ServerPart};

/// Resources of one server that are subscribed to.
pub(super) const SUBSCRIPTIONS_MAX: usize = 256;

/// Before a stream is opened again that ended.
const REOPENED_AFTER: Duration = Duration::from_secs(60);

/// One server's changes.
pub(super) struct Changes {
    server: String,
    /// Where those hear of them that show them.
    news: News,
    lists: Mutex<BTreeSet<ServerPart>>,
    wake: Notify,
    /// How many subscribers each resource has.
    subscriptions: watch::Sender<BTreeMap<String, usize>>,
    /// The resources that the server was asked to report.
    active: watch::Sender<BTreeSet<String>>,
}

impl Changes {
    pub(super) fn new(server: String, news: News) -> Self {
        Self {
            server,
            news,
            lists: Mutex::default(),
            wake: Notify::new(),
            subscriptions: watch::Sender::default(),
            active: watch::Sender::default(),
        }
    }

    /// Takes note of what the server says has changed.
    pub(super) fn record(&self, part: ServerPart) {
        match part {
            ServerPart::Tools | ServerPart::Prompts | ServerPart::Resources => {
                self.lists.lock().insert(part);
                self.wake.notify_one();
            }
            ServerPart::Resource(uri) => {
                if self.subscriptions.borrow().contains_key(&uri) {
                    self.news.server_changed(&self.server, ServerPart::Resource(uri));
                }
            }
        }
    }

    fn record_all(&self) {
        for part in [ServerPart::Tools, ServerPart::Prompts, ServerPart::Resources] {
            self.record(part);
        }
    }

    /// Resolves when a list has changed that was not taken yet.
    pub(super) async fn changed(&self) {
        self.wake.notified().await;
    }

    /// Which lists changed, for [`Changes::publish`] once they were read anew.
    pub(super) fn take(&self) -> BTreeSet<ServerPart> {
        std::mem::take(&mut self.lists.lock())
    }

    /// Tells whoever shows them.
    pub(super) fn publish(&self, parts: BTreeSet<ServerPart>) {
        for part in parts {
            self.news.server_changed(&self.server, part);
        }
    }

    /// Subscribes to a resource until the result is dropped. `None`: there are too many.
    pub(super) fn subscribe_resource(self: &Arc<Self>, uri: &str) -> Option<ResourceSubscription> {
        let mut has_room = true;
        self.subscriptions.send_if_modified(|all| {
            if let Some(count) = all.get_mut(uri) {
                *count += 1;
                return false;
            }
            has_room = all.len() < SUBSCRIPTIONS_MAX;
            if has_room {
                all.insert(uri.to_owned(), 1);
            }
            has_room
        });
        has_room.then(|| ResourceSubscription { changes: Arc::clone(self), uri: uri.to_owned() })
    }

    /// Asks the server to report changes, for as long as the connection lives.
    pub(super) async fn listen(&self, peer: &Peer<RoleClient>) -> Infallible {
        // Nobody knows what happened before.
        self.active.send_replace(BTreeSet::new());
        match peer.peer_info().is_some_and(|it| !it.protocol_version.has_initialize()) {
            true => self.listen_on_stream(peer).await,
            false => self.subscribe_each(peer).await,
        }
    }

    /// Resources that the server is asked for from now on may have changed before.
    fn set_active(&self, uris: BTreeSet<String>) {
        let before = self.active.send_replace(uris.clone());
        for uri in &uris - &before {
            self.news.server_changed(&self.server, ServerPart::Resource(uri));
        }
    }

    async fn subscribe_each(&self, peer: &Peer<RoleClient>) -> Infallible {
        let mut wishes = self.subscriptions.subscribe();
        let mut subscribed: BTreeSet<String> = BTreeSet::new();
        loop {
            let wanted: BTreeSet<String> = wishes.borrow_and_update().keys().cloned().collect();
            for uri in &subscribed - &wanted {
                let request = UnsubscribeRequestParams::new(uri);
                timeout(LIST_MAX, peer.unsubscribe(request)).await.ok();
            }
            for uri in &wanted - &subscribed {
                timeout(LIST_MAX, peer.subscribe(SubscribeRequestParams::new(uri))).await.ok();
            }
            subscribed.clone_from(&wanted);
            self.set_active(wanted);
            if wishes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn listen_on_stream(&self, peer: &Peer<RoleClient>) -> Infallible {
        let mut wishes = self.subscriptions.subscribe();
        loop {
            let mut open = self.open_stream(peer, &mut wishes).await;
            while let Some(stream) = &mut open {
                tokio::select! {
                    heard = stream.next() => match heard {
                        Ok(Some(heard)) => self.heard(heard),
                        Ok(None) | Err(_) => open = None,
                    },
                    Ok(()) = wishes.changed() => {
                        let next = self.open_stream(peer, &mut wishes).await;
                        // What it heard meanwhile.
                        while let Some(Ok(Some(heard))) = stream.next().now_or_never() {
                            self.heard(heard);
                        }
                        open = next;
                    }
                }
            }
            sleep(REOPENED_AFTER).await;
            self.active.send_replace(BTreeSet::new());
            self.record_all();
        }
    }

    async fn open_stream(
        &self,
        peer: &Peer<RoleClient>,
        wishes: &mut watch::Receiver<BTreeMap<String, usize>>,
    ) -> Option<Subscription> {
        let uris: BTreeSet<String> = wishes.borrow_and_update().keys().cloned().collect();
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = Some(true);
        filter.prompts_list_changed = Some(true);
        filter.resources_list_changed = Some(true);
        filter.resource_subscriptions = (!uris.is_empty()).then(|| uris.iter().cloned().collect());
        let stream = timeout(LIST_MAX, peer.listen(filter)).await.ok()?.ok()?;
        self.set_active(uris);
        Some(stream)
    }

    fn heard(&self, heard: ServerNotification) {
        match heard {
            ServerNotification::ToolListChangedNotification(_) => self.record(ServerPart::Tools),
            ServerNotification::PromptListChangedNotification(_) => {
                self.record(ServerPart::Prompts)
            }
            ServerNotification::ResourceListChangedNotification(_) => {
                self.record(ServerPart::Resources);
            }
            ServerNotification::ResourceUpdatedNotification(it) => {
                self.record(ServerPart::Resource(it.params.uri));
            }
            _ => {}
        }
    }
}

/// A subscription to a resource, which ends when this is dropped.
pub struct ResourceSubscription {
    changes: Arc<Changes>,
    uri: String,
}

impl fmt::Debug for ResourceSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResourceSubscription").field(&self.uri).finish()
    }
}

impl ResourceSubscription {
    /// Resolves once the server was asked to report changes. A server that is away is asked when it
    /// is back, so this ends after [`LIST_MAX`].
    pub async fn activated(&self) {
        let mut active = self.changes.active.subscribe();
        timeout(LIST_MAX, active.wait_for(|all| all.contains(&self.uri))).await.ok();
    }
}

impl Drop for ResourceSubscription {
    fn drop(&mut self) {
        self.changes.subscriptions.send_if_modified(|all| match all.get_mut(&self.uri) {
            Some(count) if 1 < *count => {
                *count -= 1;
                false
            }
            Some(_) | None => all.remove(&self.uri).is_some(),
        });
    }
}
