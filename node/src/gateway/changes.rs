//! What a server says has changed, and which of its resources somebody subscribed to.
//!
//! A server of before 2026-07-28 says it by itself, and takes a subscription for each resource; a
//! later one says it on a stream that names all of it, opened anew before the one before is left.

#![expect(deprecated, reason = "servers of earlier versions take subscriptions so")]

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fmt,
    num::NonZeroUsize,
    sync::Arc,
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

use super::{call::Live, listing::LIST_MAX};
use crate::{
    client::retry::{Backoff, chance},
    link::news::{News, ServerPart},
};

/// Resources of one server that are subscribed to.
pub(super) const SUBSCRIPTIONS_MAX: usize = 1_024;

/// Before a stream is opened again that ended, and before a subscription is tried again that was not
/// answered, in milliseconds: the first pause, and the longest.
const PAUSE_MS: u64 = 1_000;
const PAUSE_MS_MAX: u64 = 60_000;

/// Notifications of a server that were not taken yet.
const UNREAD_MAX: NonZeroUsize = NonZeroUsize::new(1_024).expect("more than none");

/// Why a resource of a server of 2026-07-28 is not subscribed to.
const NOT_REPORTED: &str = "the server does not report changes of this resource";

/// One server's changes.
pub(super) struct ServerChanges {
    server: String,
    /// Where those hear of them that show them.
    news: News,
    lists: Mutex<BTreeSet<ServerPart>>,
    wake: Notify,
    /// How many subscribers each resource has.
    subscriptions: watch::Sender<BTreeMap<String, usize>>,
    /// What the server answered to being asked to report them: why not, or nothing.
    answered: watch::Sender<Answers>,
}

/// What a server answered to a subscription, by the resource.
type Answers = BTreeMap<String, Result<(), String>>;

impl ServerChanges {
    pub(super) fn new(server: String, news: News) -> Self {
        Self {
            server,
            news,
            lists: Mutex::default(),
            wake: Notify::new(),
            subscriptions: watch::Sender::default(),
            answered: watch::Sender::default(),
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
                // It may be a part of the one that was subscribed to.
                let subscribed = self.subscriptions.borrow();
                let whole = subscribed.keys().filter(|it| is_part_of(&uri, it)).cloned();
                let whole: Vec<String> = whole.collect();
                drop(subscribed);
                for uri in whole {
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

    /// Which lists changed, for [`ServerChanges::publish`] once they were read anew.
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
    pub(super) async fn listen(&self, live: &Live) -> Infallible {
        // Nobody knows what happened before.
        self.answered.send_replace(Answers::new());
        match live.takes_meta() {
            true => self.listen_on_stream(&live.peer).await,
            false => self.subscribe_each(&live.peer).await,
        }
    }

    /// What the server answered. Resources that it reports from now on may have changed before.
    fn set_answered(&self, answers: Answers) {
        let reported = |answers: &Answers| -> BTreeSet<String> {
            answers.iter().filter(|it| it.1.is_ok()).map(|it| it.0.clone()).collect()
        };
        let now = reported(&answers);
        let before = self.answered.send_replace(answers);
        for uri in &now - &reported(&before) {
            self.news.server_changed(&self.server, ServerPart::Resource(uri));
        }
    }

    async fn subscribe_each(&self, peer: &Peer<RoleClient>) -> Infallible {
        let mut wishes = self.subscriptions.subscribe();
        let mut answers = Answers::new();
        let mut backoff = Backoff::between(PAUSE_MS, PAUSE_MS_MAX);
        loop {
            let wanted: BTreeSet<String> = wishes.borrow_and_update().keys().cloned().collect();
            let gone: Vec<String> =
                answers.keys().filter(|it| !wanted.contains(*it)).cloned().collect();
            for uri in gone {
                if let Some(Ok(())) = answers.remove(&uri) {
                    let request = UnsubscribeRequestParams::new(uri);
                    timeout(LIST_MAX, peer.unsubscribe(request)).await.ok();
                }
            }
            let mut is_whole = true;
            for uri in wanted {
                if answers.contains_key(&uri) {
                    continue;
                }
                let asked = peer.subscribe(SubscribeRequestParams::new(uri.clone()));
                match timeout(LIST_MAX, asked).await {
                    Ok(Ok(())) => drop(answers.insert(uri, Ok(()))),
                    Ok(Err(why)) => drop(answers.insert(uri, Err(why.to_string()))),
                    Err(_) => is_whole = false,
                }
            }
            self.set_answered(answers.clone());
            if is_whole {
                backoff.reset();
                if wishes.changed().await.is_err() {
                    return std::future::pending().await;
                }
            } else {
                let pause = sleep(backoff.pause(chance()));
                tokio::select! {
                    Ok(()) = wishes.changed() => {}
                    () = pause => {}
                }
            }
        }
    }

    async fn listen_on_stream(&self, peer: &Peer<RoleClient>) -> Infallible {
        let mut wishes = self.subscriptions.subscribe();
        let mut backoff = Backoff::between(PAUSE_MS, PAUSE_MS_MAX);
        loop {
            let mut open = self.open_stream(peer, &mut wishes).await;
            while let Some(stream) = &mut open {
                tokio::select! {
                    heard = stream.next() => match heard {
                        Ok(Some(heard)) => {
                            backoff.reset();
                            self.heard(heard);
                        }
                        Ok(None) | Err(_) => open = None,
                    },
                    Ok(()) = wishes.changed() => {
                        // Where the server takes no other, this one goes on.
                        if let Some(next) = self.open_stream(peer, &mut wishes).await {
                            // What it heard meanwhile.
                            while let Some(Ok(Some(heard))) = stream.next().now_or_never() {
                                self.heard(heard);
                            }
                            open = Some(next);
                        }
                    }
                }
            }
            sleep(backoff.pause(chance())).await;
            self.answered.send_replace(Answers::new());
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
        let listening = peer.listen_with_capacity(filter, UNREAD_MAX);
        let stream = timeout(LIST_MAX, listening).await.ok().and_then(Result::ok);
        let taken = stream.as_ref().and_then(|it| it.acknowledged().resource_subscriptions.clone());
        let taken: BTreeSet<String> = taken.unwrap_or_default().into_iter().collect();
        let before = self.answered.borrow().clone();
        let answer = |uri: String| {
            let is_reported = taken.contains(&uri)
                || (stream.is_none() && before.get(&uri).is_some_and(Result::is_ok));
            let answer = if is_reported { Ok(()) } else { Err(NOT_REPORTED.to_owned()) };
            (uri, answer)
        };
        self.set_answered(uris.into_iter().map(answer).collect());
        stream
    }

    fn heard(&self, heard: ServerNotification) {
        if let ServerNotification::ToolListChangedNotification(_) = heard {
            self.record(ServerPart::Tools);
        } else if let ServerNotification::PromptListChangedNotification(_) = heard {
            self.record(ServerPart::Prompts);
        } else if let ServerNotification::ResourceListChangedNotification(_) = heard {
            self.record(ServerPart::Resources);
        } else if let ServerNotification::ResourceUpdatedNotification(it) = heard {
            self.record(ServerPart::Resource(it.params.uri));
        }
    }
}

/// A subscription to a resource, which ends when this is dropped.
pub struct ResourceSubscription {
    changes: Arc<ServerChanges>,
    uri: String,
}

impl fmt::Debug for ResourceSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResourceSubscription").field(&self.uri).finish()
    }
}

impl ResourceSubscription {
    /// What the server answered to being asked to report changes; why not, if it refused. A server
    /// that is away or busy is asked later, so this ends after [`LIST_MAX`].
    pub async fn answered(&self) -> Result<(), String> {
        let mut answered = self.changes.answered.subscribe();
        let known = answered.wait_for(|all| all.contains_key(&self.uri));
        match timeout(LIST_MAX, known).await {
            Ok(Ok(all)) => all.get(&self.uri).cloned().unwrap_or(Ok(())),
            Ok(Err(_)) | Err(_) => Ok(()),
        }
    }
}

/// Whether a resource is another one, or lies below it.
fn is_part_of(uri: &str, whole: &str) -> bool {
    uri.strip_prefix(whole)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || whole.ends_with('/'))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_resource_lies_below_it() {
        for (uri, whole, is_part) in [
            ("file:///a", "file:///a", true),
            ("file:///a/b", "file:///a", true),
            ("file:///a/b", "file:///a/", true),
            ("file:///ab", "file:///a", false),
            ("file:///a", "file:///a/b", false),
        ] {
            assert_eq!(is_part_of(uri, whole), is_part, "{uri} {whole}");
        }
    }
}
