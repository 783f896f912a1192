//! Tells clients what changed: the one registry behind both of the protocol's ways to be told.
//!
//! A client from before 2026-07-28 is told on its connection or its session's stream, of lists it
//! has asked for and resources it subscribed to; a later one on each stream it opened with
//! `subscriptions/listen`. Each has a task of its own that compares what was told with what
//! [changed](crate::link::news), so a client that does not read holds up nobody else, and what it
//! misses meanwhile is one notification when it reads again.
//!
//! - **C5** A client is told of every change after its subscription was acknowledged, perhaps
//!   once too often. Nothing is left of a client that went away.
//!
//! What changed is not in a notification: the client reads it, with all that belongs to reading.

mod subscriptions;
mod wanted;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use rmcp::{
    Peer, RoleServer,
    model::{ResourceUpdatedNotificationParam, SubscriptionFilter},
    service::{SubscriptionContext, SubscriptionSink},
};
use tasuki_proto::{id::RoleId, run::RunId};
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};
use tokio_util::sync::DropGuard;

use self::{
    subscriptions::Door,
    wanted::{Notice, TooMany, Wanted},
};
pub(super) use self::{
    subscriptions::{SUBSCRIBED, SubscriptionRegistry},
    wanted::SUBSCRIPTIONS_MAX,
};
use super::{
    gateway,
    host::{Host, Scope},
    resources::Subject,
    run_resource::{client, watch_run},
};
use crate::{
    gateway::ResourceSubscription,
    link::news::{Edition, Follower, News},
};

/// Between two rounds of notifications to one client, in milliseconds. What changes meanwhile is
/// told in the next one.
const PAUSE_MS: u64 = 300;

/// How long a subscription waits for the broker's feed, in milliseconds. It is acknowledged all
/// the same, and then told that something may have been missed.
const LIVE_MS_MAX: u64 = 1_000;

/// Where a client hears.
#[derive(Debug)]
enum Plane {
    Session(Peer<RoleServer>),
    Listen(SubscriptionSink),
}

impl Plane {
    /// False: nobody is there any more.
    async fn say(&self, notice: &Notice) -> bool {
        match (self, notice) {
            (Self::Session(peer), Notice::ToolsChanged) => {
                peer.notify_tool_list_changed().await.is_ok()
            }
            (Self::Session(peer), Notice::PromptsChanged) => {
                peer.notify_prompt_list_changed().await.is_ok()
            }
            (Self::Session(peer), Notice::ResourcesChanged) => {
                peer.notify_resource_list_changed().await.is_ok()
            }
            (Self::Session(peer), Notice::Updated(subject)) => {
                let updated = ResourceUpdatedNotificationParam::new(subject.uri());
                peer.notify_resource_updated(updated).await.is_ok()
            }
            (Self::Listen(sink), Notice::ToolsChanged) => {
                sink.notify_tool_list_changed().await.is_ok()
            }
            (Self::Listen(sink), Notice::PromptsChanged) => {
                sink.notify_prompt_list_changed().await.is_ok()
            }
            (Self::Listen(sink), Notice::ResourcesChanged) => {
                sink.notify_resource_list_changed().await.is_ok()
            }
            (Self::Listen(sink), Notice::Updated(subject)) => {
                sink.notify_resource_updated(subject.uri()).await.is_ok()
            }
        }
    }
}

/// What a client wants, while that may change.
#[derive(Debug, Default)]
struct Wishes {
    wanted: Mutex<Wanted>,
    /// The runs among them, of which the feed does not tell everything.
    watched: Mutex<BTreeMap<RunId, DropGuard>>,
    /// The resources of other servers among them.
    subscribed: Mutex<BTreeMap<Subject, Arc<ResourceSubscription>>>,
    changed: Notify,
}

impl Wishes {
    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock()
    }

    /// Subscribes to a resource of another server; `None`: it is none.
    fn subscribe_at_server(
        &self,
        host: &Host,
        subject: &Subject,
    ) -> Result<Option<Arc<ResourceSubscription>>, TooMany> {
        let Subject::Server(resource) = subject else { return Ok(None) };
        let mut subscribed = self.subscribed.lock();
        if let Some(subscription) = subscribed.get(subject) {
            return Ok(Some(Arc::clone(subscription)));
        }
        let server = host.gateway.as_ref().and_then(|it| it.server(&resource.server));
        let subscription = server.and_then(|it| it.subscribe_resource(&resource.own));
        let subscription = Arc::new(subscription.ok_or(TooMany)?);
        subscribed.insert(subject.clone(), Arc::clone(&subscription));
        Ok(Some(subscription))
    }

    /// Watches the runs that are wanted, and no others.
    fn watch_runs(&self, host: &Host, scope: &Scope, news: &News) {
        let mut watched = self.watched.lock();
        let wanted: Vec<RunId> = self.wanted().subjects().filter_map(Subject::run).collect();
        watched.retain(|run, _| wanted.contains(run));
        let Some(client) = client(host, scope) else { return };
        for run in wanted {
            let watch = || watch_run(client.clone(), run, news.clone(), &host.stopping);
            watched.entry(run).or_insert_with(watch);
        }
    }
}

/// Tells one client.
struct Teller {
    wishes: Arc<Wishes>,
    news: News,
    roles: Vec<RoleId>,
    /// The one server whose lists the client sees.
    server: Option<String>,
    plane: Plane,
    /// `None`: the client hears for as long as it is there.
    door: Option<watch::Receiver<Door>>,
    openings: u64,
}

impl Teller {
    fn new(host: &Host, scope: &Scope, news: &News, wishes: Arc<Wishes>, plane: Plane) -> Self {
        let roles = scope.shown_roles(host).into_iter().cloned().collect();
        let server = scope.server().map(|it| it.name().to_owned());
        Self { wishes, news: news.clone(), roles, server, plane, door: None, openings: 0 }
    }

    /// Tells for as long as somebody is there.
    async fn live(mut self) {
        loop {
            while self.wishes.wanted().is_empty() {
                self.wishes.changed.notified().await;
            }
            let follower = self.news.follow();
            if !self.follow(follower).await {
                return;
            }
        }
    }

    /// True: the client wants nothing any more.
    async fn follow(&mut self, mut follower: Follower) -> bool {
        loop {
            if !self.is_heard().await {
                return false;
            }
            let server = self.server.as_deref();
            let due = follower
                .look(|changes| self.wishes.wanted().due(changes, self.roles.iter(), server));
            for notice in &due {
                if !self.plane.say(notice).await {
                    return false;
                }
            }
            if self.wishes.wanted().is_empty() {
                return true;
            }
            if !due.is_empty() {
                sleep(Duration::from_millis(PAUSE_MS)).await;
                continue;
            }
            tokio::select! {
                () = follower.changed() => {}
                () = self.wishes.changed.notified() => {}
                () = opened_again(&mut self.door) => {}
            }
        }
    }

    /// Waits until the client hears; false when it never will.
    async fn is_heard(&mut self) -> bool {
        let Some(door) = &mut self.door else { return true };
        let Ok(door) = door.wait_for(|door| door.is_open()).await.map(|door| *door) else {
            return false;
        };
        if self.openings != 0 && self.openings != door.openings {
            // The stream before may have taken something with it.
            self.wishes.wanted().doubt();
        }
        self.openings = door.openings;
        true
    }
}

async fn opened_again(door: &mut Option<watch::Receiver<Door>>) {
    if let Some(door) = door
        && door.changed().await.is_ok()
    {
        return;
    }
    // The end of a session ends its teller too.
    std::future::pending().await
}

/// What one connection, session or request is told. Dropped with it.
#[derive(Debug, Default)]
pub(super) struct Notices {
    wishes: Arc<Wishes>,
    telling: Mutex<Option<DropGuard>>,
    early: Mutex<Early>,
}

/// Listeners that are being acknowledged: how many, and what was the newest when the first of
/// them was accepted.
#[derive(Debug, Default)]
struct Early {
    count: usize,
    edition: Edition,
}

/// Whom to tell, and how.
pub(super) struct Client<'a> {
    pub host: &'a Host,
    pub scope: &'a Scope,
    pub news: &'a News,
    pub peer: &'a Peer<RoleServer>,
    /// Of a session: all of them, and which it is.
    pub session: Option<(&'a SubscriptionRegistry, &'a str)>,
}

impl Notices {
    /// Tells the client of changes of `subject` from now on.
    pub(super) async fn subscribe(&self, subject: Subject, it: Client<'_>) -> Result<(), String> {
        let follower = it.news.follow();
        follower.live(Duration::from_millis(LIVE_MS_MAX)).await;
        let at_server = self.wishes.subscribe_at_server(it.host, &subject);
        let at_server = at_server.map_err(|TooMany| "the server has too many subscriptions")?;
        if let Some(subscription) = at_server
            && let Err(why) = subscription.answered().await
        {
            self.wishes.subscribed.lock().remove(&subject);
            return Err(why);
        }
        let subscribed = self.wishes.wanted().subscribe(subject.clone(), it.news.newest());
        if let Err(TooMany) = subscribed {
            self.wishes.subscribed.lock().remove(&subject);
            return Err(format!(
                "this connection has {SUBSCRIPTIONS_MAX} subscriptions; unsubscribe from some"
            ));
        }
        self.begin(&it);
        self.remember(&it).await;
        Ok(())
    }

    pub(super) async fn unsubscribe(&self, subject: &Subject, it: Client<'_>) {
        self.wishes.wanted().unsubscribe(subject);
        self.wishes.subscribed.lock().remove(subject);
        self.wishes.watch_runs(it.host, it.scope, it.news);
        self.wishes.changed.notify_one();
        self.remember(&it).await;
    }

    async fn remember(&self, it: &Client<'_>) {
        if let Some((doors, session)) = it.session {
            let wishes = Arc::clone(&self.wishes);
            doors.remember(session, move || wishes.wanted().subjects().cloned().collect()).await;
        }
    }

    /// A session goes on that began before this node did: whatever its client knows may be old.
    pub(super) async fn restored(&self, it: Client<'_>) {
        let Some((doors, session)) = it.session else { return };
        let before = Edition::default();
        let mut subjects = doors.recall(session).await.unwrap_or_default();
        // What the role may see of servers may be another by now.
        subjects.retain(|subject| match subject {
            Subject::Server(it_was) => {
                gateway::subject(it.host, it.scope, &it_was.shown).as_ref() == Some(it_was)
            }
            Subject::Loop(_) | Subject::Run(_) => true,
        });
        {
            let mut wanted = self.wishes.wanted();
            (wanted.tools, wanted.prompts) = (Some(before), Some(before));
            wanted.resources = Some(before);
            // There are no more than were subscribed to.
            for subject in &subjects {
                drop(wanted.subscribe(subject.clone(), before));
            }
        }
        self.begin(&it);
        for subject in &subjects {
            self.wishes.subscribe_at_server(it.host, subject).ok();
        }
    }

    /// The client is being given a list of resources, and is told when it becomes another.
    pub(super) async fn listed(&self, it: Client<'_>) {
        let follower = it.news.follow();
        follower.live(Duration::from_millis(LIVE_MS_MAX)).await;
        let newest = it.news.newest();
        self.wishes.wanted().resources.get_or_insert(newest);
        self.begin(&it);
    }

    /// The client is being given a list of other servers' tools, which may become another.
    pub(super) fn tools_listed(&self, it: &Client<'_>) {
        let newest = it.news.newest();
        self.wishes.wanted().tools.get_or_insert(newest);
        self.begin(it);
    }

    /// The same of prompts.
    pub(super) fn prompts_listed(&self, it: &Client<'_>) {
        let newest = it.news.newest();
        self.wishes.wanted().prompts.get_or_insert(newest);
        self.begin(it);
    }

    /// Begins to tell, once.
    fn begin(&self, it: &Client<'_>) {
        self.wishes.watch_runs(it.host, it.scope, it.news);
        self.wishes.changed.notify_one();
        let mut telling = self.telling.lock();
        if telling.is_some() {
            return;
        }
        let plane = Plane::Session(it.peer.clone());
        let mut teller = Teller::new(it.host, it.scope, it.news, self.wishes.clone(), plane);
        teller.door = it.session.and_then(|(doors, session)| doors.watch(session));
        let gone = it.host.stopping.child_token();
        *telling = Some(gone.clone().drop_guard());
        tokio::spawn(async move { gone.run_until_cancelled(teller.live()).await });
    }

    /// A filter is about to be acknowledged; [`Notices::listen`] follows.
    pub(super) fn accepted(&self, news: &News) {
        let mut early = self.early.lock();
        if early.count == 0 {
            early.edition = news.newest();
        }
        early.count += 1;
    }

    /// Tells for as long as the subscription is open, or the node goes on.
    pub(super) async fn listen(
        &self,
        host: &Host,
        scope: &Scope,
        news: &News,
        subscription: &SubscriptionContext,
        subject: impl Fn(&str) -> Option<Subject>,
    ) {
        let told = {
            let mut early = self.early.lock();
            early.count = early.count.saturating_sub(1);
            early.edition
        };
        let wishes = Arc::new(Wishes::default());
        *wishes.wanted() = wanted(subscription.accepted(), told, subject);
        wishes.watch_runs(host, scope, news);
        let subjects: Vec<Subject> = wishes.wanted().subjects().cloned().collect();
        for subject in &subjects {
            // What changed until now is told once it is subscribed.
            if let Err(TooMany) = wishes.subscribe_at_server(host, subject) {
                tracing::info!(
                    "a stream of notifications ends: a server has too many subscriptions"
                );
                return;
            }
        }
        let plane = Plane::Listen(subscription.sink().clone());
        let teller = Teller::new(host, scope, news, wishes, plane);
        tokio::select! {
            () = teller.live() => {}
            () = subscription.cancelled() => {}
            () = host.stopping.cancelled() => {}
        }
    }
}

/// What of a filter can be had at an address where a `subject` is what it shows at a URI.
pub(super) fn acceptable(
    asked: &SubscriptionFilter,
    subject: impl Fn(&str) -> Option<Subject>,
) -> SubscriptionFilter {
    let mut accepted = asked.clone();
    if let Some(uris) = &mut accepted.resource_subscriptions {
        uris.retain(|uri| subject(uri).is_some());
        uris.truncate(SUBSCRIPTIONS_MAX);
    }
    accepted
}

fn wanted(
    accepted: &SubscriptionFilter,
    told: Edition,
    subject: impl Fn(&str) -> Option<Subject>,
) -> Wanted {
    let list = |is_wanted: Option<bool>| (is_wanted == Some(true)).then_some(told);
    let mut wanted = Wanted {
        tools: list(accepted.tools_list_changed),
        prompts: list(accepted.prompts_list_changed),
        resources: list(accepted.resources_list_changed),
        ..Wanted::default()
    };
    let uris = accepted.resource_subscriptions.iter().flatten();
    for subject in uris.filter_map(|uri| subject(uri)) {
        // There are no more than were accepted.
        drop(wanted.subscribe(subject, told));
    }
    wanted
}
