//! The one connection of a node to the broker.
//!
//! Commands are sent until they are answered, under one key; waits of all roles share a stream
//! and outlive it; heartbeats say which roles are there. The link keeps no truth: after a
//! reconnect it asks again.
//!
//! - [`keys`]: idempotency keys that cannot expire while in use.
//! - `network_monitor`: what makes the link look whether the connection still stands.
//! - `session`: registration and heartbeats. `receipts`: how far turns and mail got.
//! - `call`: commands and reads. `mail`: what else there is of mail. `waits`: parked questions.
//! - `cache`: what loops and mail looked like, for when nobody can be asked.
//! - `feed`: what changed, for whoever follows. [`news`]: the same, as it is shown.
//!
//! How the broker is reached is the [client](crate::client)'s.

pub mod keys;
pub mod news;

mod cache;
mod call;
mod detach_on_drop;
mod feed;
mod mail;
mod network_monitor;
mod pages;
mod receipts;
mod relay;
pub(crate) mod reopen;
mod session;
mod state;
mod waits;

use std::{
    io,
    ops::Deref,
    panic::AssertUnwindSafe,
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use tasuki_broker::grpc::Carrier;
use tasuki_proto::{
    id::{Epoch, NodeId, RoleId, Toolset, WorkspaceId},
    limits::{HEARTBEAT_MS, WAITS_PER_STREAM_MAX},
    reason::Reason,
    wire,
};
use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    cache::Cache,
    detach_on_drop::DetachOnDrop,
    keys::Keys,
    mail::{Drains, InFlight, MailKeys, TRANSFERS_MAX},
    news::News,
    receipts::Receipts,
    waits::Waits,
};
pub use self::{
    mail::{Moving, Sent, settle},
    receipts::Mark,
    state::{LinkState, Phase},
};
pub use crate::client::{
    any::{AnyRequest, AnyResponse},
    retry,
};
use crate::{
    client::{
        Client, OpenError,
        feed::{self as records, Ended, Items},
        retry::outcome_unknown,
    },
    clock::{self, Moment},
    identity::Identity,
    limiter::{Limiter, Permit, RoleLimiter},
    outbox::Outbox,
    presence::{self, Presence},
    private::Sealer,
    refusal::Refusal,
    wait::{Answer, Question},
};

/// Calls under way and not yet answered. Far below the window in which keys are remembered.
pub const CALLS_MAX: usize = 64;

/// Commands and reads of one role under way. An agent does one thing at a time, and a model that
/// calls its tools side by side does a handful.
const CALLS_PER_ROLE_MAX: usize = 16;

/// Waits under way. A look is a call as well, and has a place on the same stream.
const WAITS_MAX: usize = WAITS_PER_STREAM_MAX - CALLS_MAX;

/// Waits of one role under way: one per question, and those that are just being superseded.
const WAITS_PER_ROLE_MAX: usize = 256;

/// A role that this node hosts.
#[derive(Debug, Clone)]
pub struct HostedRole {
    pub role: RoleId,
    pub toolsets: Vec<Toolset>,
    /// Takes part in the loop `main` only where fewer than two other roles do.
    pub is_standby: bool,
    pub presence: Presence,
}

impl HostedRole {
    fn spec(&self) -> wire::RoleSpec {
        let toolsets = self.toolsets.iter().map(Toolset::to_string).collect();
        wire::RoleSpec { role: self.role.to_string(), toolsets, is_standby: self.is_standby }
    }
}

/// Whom to connect to, and as whom.
#[derive(Debug, Clone)]
pub struct Settings {
    pub broker: String,
    /// Reaches it, where it is in this process.
    pub carrier: Option<Carrier>,
    pub workspace: WorkspaceId,
    pub node: NodeId,
    pub roles: Vec<HostedRole>,
    pub take_over: bool,
}

/// Why a link does not even begin to connect.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the messages that wait in {path} cannot be read")]
    Outbox { path: PathBuf, source: io::Error },
}

/// The connection. Cheap to clone; it lives until [`Link::shutdown`].
#[derive(Debug, Clone)]
pub struct Link(Arc<Inner>);

/// A link that does not keep the node's data directory taken.
#[derive(Debug, Clone)]
pub struct WeakLink(Weak<Inner>);

impl WeakLink {
    /// `None`: the node has stopped.
    pub fn upgrade(&self) -> Option<Link> {
        self.0.upgrade().map(Link)
    }
}

/// What all clones of a [`Link`] share.
#[derive(Debug)]
pub struct Inner {
    shared: Arc<Shared>,
    waits: Waits,
    receipts: Receipts,
    mail_keys: MailKeys,
    sending: InFlight,
    outbox: Outbox,
    drains: Drains,
    indexes: mail::SearchIndexes,
    calls: RoleLimiter,
    held: RoleLimiter,
    transfers: Limiter,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    /// Tells this process from one that runs on a copy of its data directory.
    instance: String,
    client: Client,
    keys: Keys,
    state: watch::Sender<LinkState>,
    /// The latest epoch that the broker called stale.
    stale: watch::Sender<u64>,
    /// A call failed as calls do when the connection is dead.
    suspect: Notify,
    /// A call was refused for want of a connection.
    wanted: Notify,
    /// Between two signs of life, in milliseconds, as the broker last said.
    heartbeat_ms: AtomicU64,
    /// Something was granted that lasts hardly longer, so that the broker may want to hear more often
    /// by now; or another agent plays a role.
    heartbeat_early: Notify,
    /// How often the connection came under doubt other than by a call that failed.
    looks: watch::Sender<u64>,
    news: News,
    cache: Cache,
    sealer: Sealer,
    /// No further work is taken on; what was begun is ended.
    closing: CancellationToken,
    /// Nothing is sent any more.
    ended: CancellationToken,
    tasks: TaskTracker,
    session: TaskTracker,
}

impl Deref for Link {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Link {
    /// Begins to connect, in the background and for as long as it takes.
    pub fn start(settings: Settings, identity: Arc<Identity>) -> Result<Self, StartError> {
        let (broker, data) = (&settings.broker, identity.data());
        let client = match settings.carrier.clone() {
            Some(carrier) => Client::here(carrier, broker, data)?,
            None => Client::new(broker, data)?,
        };
        let sealer = Sealer::new(identity.data(), &settings.workspace);
        let outbox = Outbox::open(identity.data())
            .map_err(|source| StartError::Outbox { path: identity.data().to_owned(), source })?;
        let shared = Arc::new(Shared {
            settings,
            instance: uuid::Uuid::new_v4().simple().to_string(),
            client,
            sealer,
            keys: Keys::new(identity),
            state: watch::Sender::new(LinkState::begin(clock::wall_ms(), clock::now())),
            stale: watch::Sender::new(Epoch::NONE.get()),
            suspect: Notify::new(),
            wanted: Notify::new(),
            heartbeat_ms: AtomicU64::new(HEARTBEAT_MS),
            heartbeat_early: Notify::new(),
            looks: watch::Sender::new(0),
            news: News::default(),
            cache: Cache::default(),
            closing: CancellationToken::new(),
            ended: CancellationToken::new(),
            tasks: TaskTracker::new(),
            session: TaskTracker::new(),
        });
        let waits = Waits::start(&shared);
        let receipts = Receipts::start(&shared);
        shared.spawn(feed::run(shared.clone()));
        shared.session.spawn(
            shared.ended.clone().run_until_cancelled_owned(network_monitor::run(shared.clone())),
        );
        shared.session.spawn(session::run(shared.clone()));
        let calls = RoleLimiter::new(
            ("calls of this node", CALLS_MAX),
            ("calls of this role", CALLS_PER_ROLE_MAX),
        );
        let held = RoleLimiter::new(
            ("waits of this node", WAITS_MAX),
            ("waits of this role", WAITS_PER_ROLE_MAX),
        );
        let transfers = Limiter::new("transfers of files", TRANSFERS_MAX);
        let link = Self(Arc::new(Inner {
            shared,
            waits,
            receipts,
            mail_keys: MailKeys::default(),
            sending: InFlight::new(),
            outbox,
            drains: Drains::default(),
            indexes: mail::SearchIndexes::default(),
            calls,
            held,
            transfers,
        }));
        link.drain_outbox();
        link.spawn(
            link.shared
                .closing
                .clone()
                .run_until_cancelled_owned(cache::run(link.clone()))
                .map(drop),
        );
        Ok(link)
    }

    /// The connection as it stands, and as it changes.
    pub fn state(&self) -> watch::Receiver<LinkState> {
        self.shared.state.subscribe()
    }

    /// The network or the machine is not what it was: looks at once whether the connection still
    /// stands, and makes a new one if it does not.
    pub fn look(&self) {
        self.shared.look();
    }

    pub fn downgrade(&self) -> WeakLink {
        WeakLink(Arc::downgrade(&self.0))
    }

    /// The broker's address.
    pub fn broker(&self) -> &str {
        &self.shared.settings.broker
    }

    /// What changed, for whoever shows it.
    pub fn news(&self) -> &News {
        &self.shared.news
    }

    /// The roles of this node.
    pub(crate) fn hosted_roles(&self) -> &[HostedRole] {
        &self.shared.settings.roles
    }

    /// Resolves while the broker can be asked.
    pub(crate) async fn connected(&self) {
        let mut state = self.shared.state.subscribe();
        if state.wait_for(LinkState::is_connected).await.is_err() {
            std::future::pending().await
        }
    }

    /// Resolves the next time that this node is connected anew.
    pub(crate) async fn reconnected(&self) {
        self.shared.reconnected().await;
    }

    /// The broker's records from `from` on; 0: those yet to come. They are asked for without a
    /// registration, so nothing of it speaks for an agent.
    pub(crate) async fn subscribe(&self, from: u64) -> Result<Items, Ended> {
        records::subscribe(self.shared.client.channel(), self.shared.anonymous_caller(), from).await
    }

    /// Room for a wait of `role`. A look is over at once, and does not find its place taken by
    /// waits.
    pub async fn admit_wait(&self, role: &RoleId, hold: Duration) -> Result<Permit, Refusal> {
        let limiter = if hold.is_zero() { &self.calls } else { &self.held };
        limiter.acquire(role).await
    }

    /// Waits of `role` under way, each until nothing of it is left here.
    pub fn open_waits(&self, role: &RoleId) -> usize {
        self.held.in_use(role)
    }

    /// Waits for what `role` asks, over reconnects, until `hold` is over.
    pub async fn wait(
        &self,
        role: &RoleId,
        question: Question,
        hold: Duration,
        permit: Permit,
    ) -> Result<Answer, Refusal> {
        let mut answer = self.waits.ask(Some(role.clone()), question, hold, permit).await?;
        if let Answer::Mail(mail) = &mut answer {
            self.open_entries(mail.thread.as_mut(), &mut mail.entries).await;
        }
        Ok(answer)
    }

    /// Waits for what this node itself asks, or a sub-agent of it, over reconnects, until `hold` is
    /// over.
    pub(crate) async fn wait_without_role(
        &self,
        question: Question,
        hold: Duration,
    ) -> Result<Answer, Refusal> {
        let limiter = if hold.is_zero() { &self.calls } else { &self.held };
        let permit = limiter.acquire_without_role().await?;
        self.waits.ask(None, question, hold, permit).await
    }

    /// The broker hears at once who plays the roles, not with the next heartbeat.
    pub fn tell_presence(&self) {
        self.shared.heartbeat_early.notify_one();
    }

    /// Nobody acts on what the role was offered: it goes to the next at once.
    pub fn decline(&self, role: &RoleId) {
        self.waits.decline(role.clone());
    }

    /// Reports in the background how far a turn got.
    pub fn mark(&self, mark: Mark) {
        self.receipts.push(mark);
    }

    /// Does something for as long as somebody wants to hear of it; [`Link::shutdown`] gives it time
    /// to end.
    pub async fn do_while_heard<T>(
        &self,
        work: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let work = self.shared.ended.run_until_cancelled(work);
        self.shared.tasks.track_future(work).await.unwrap_or_else(|| Err(stopping()))
    }

    /// Carries a command through, even when whoever asked goes away.
    pub async fn carry_out<T: Send + 'static, F>(
        &self,
        command: impl FnOnce(Self) -> F,
    ) -> Result<T, Refusal>
    where
        F: Future<Output = Result<T, Refusal>> + Send + 'static,
    {
        if self.shared.closing.is_cancelled() {
            return Err(stopping());
        }
        let ended = self.shared.ended.clone();
        let command = ended.run_until_cancelled_owned(command(self.clone()));
        let command = AssertUnwindSafe(command).catch_unwind().boxed();
        let answer = DetachOnDrop::new(&self.shared.tasks, command).await.ok().flatten();
        let lost = "the node stopped or failed before it came";
        answer.unwrap_or_else(|| Err(outcome_unknown(lost)))
    }

    /// Runs work that [`Link::shutdown`] gives time to end, and ends when its time is over.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shared.spawn(work);
    }

    /// Ends everything at once, as a crash would.
    pub fn abandon(&self) {
        self.shared.closing.cancel();
        self.shared.ended.cancel();
    }

    /// Answers waits with `still_waiting`, takes on nothing new, and gives what was begun until
    /// `within` to end.
    pub async fn shutdown(&self, within: Duration) {
        self.shared.closing.cancel();
        self.shared.tasks.close();
        if tokio::time::timeout(within, self.shared.tasks.wait()).await.is_err() {
            let left = self.shared.tasks.len();
            tracing::warn!(left, "stopping although calls are under way");
        }
        self.shared.ended.cancel();
        self.shared.tasks.wait().await;
        self.shared.session.close();
        self.shared.session.wait().await;
    }
}

impl Shared {
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended.clone();
        self.tasks.spawn(async move { ended.run_until_cancelled_owned(work).await });
    }

    fn epoch(&self) -> Epoch {
        self.state.borrow().epoch
    }

    fn caller(&self) -> wire::Caller {
        wire::Caller {
            workspace: self.settings.workspace.to_string(),
            node: self.settings.node.to_string(),
            epoch: self.epoch().get(),
        }
    }

    /// The caller of what is asked without a registration that holds.
    fn anonymous_caller(&self) -> wire::Caller {
        let workspace = self.settings.workspace.to_string();
        wire::Caller { workspace, ..wire::Caller::default() }
    }

    /// The roles that gave a sign of life since this node started, and who plays them.
    fn presences(&self, now: Moment) -> Vec<wire::RolePresence> {
        let roles = self.settings.roles.iter();
        roles
            .filter_map(|hosted| {
                let presence::Report { quiet, client, instance, playing, has_left } =
                    hosted.presence.report(now)?;
                let ms = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
                Some(wire::RolePresence {
                    role: hosted.role.to_string(),
                    quiet_ms: ms(quiet),
                    client,
                    instance: instance.map(|id| id.to_string()).unwrap_or_default(),
                    playing_ms: playing.map(ms),
                    has_left,
                })
            })
            .collect()
    }

    fn enter(&self, phase: Phase, epoch: Epoch) {
        let mut is_news = false;
        self.state.send_if_modified(|state| {
            let before = state.clone();
            is_news = state.enter(phase.clone(), epoch, clock::wall_ms(), clock::now());
            *state != before
        });
        if !is_news {
            return;
        }
        let broker = &self.settings.broker;
        match phase {
            Phase::Connecting => tracing::info!(%broker, "registering again"),
            Phase::Connected => tracing::info!(%broker, %epoch, "connected to the broker"),
            Phase::Down(error) => tracing::warn!(%broker, %error, "the broker is out of reach"),
            Phase::Refused(refusal) => {
                tracing::error!(%broker, reason = %refusal.reason, "{}", refusal.message);
            }
        }
    }

    fn look(&self) {
        self.state.send_if_modified(|state| {
            state.reset_backoff(clock::now());
            false
        });
        self.suspect_connection();
    }

    /// A role holds something for so long, and longer as long as this node says that it is there.
    fn note_lease(&self, lease: Duration) {
        let heartbeat = Duration::from_millis(self.heartbeat_ms.load(Ordering::Relaxed));
        // The next sign may come too late for it, and with its answer how often to give one.
        if lease < 2 * heartbeat {
            self.heartbeat_early.notify_one();
        }
    }

    /// The connection is silent: looks at once whether it still stands.
    fn suspect_connection(&self) {
        self.looks.send_modify(|looks| *looks += 1);
    }

    /// The node is registered, or there is a refusal that says why a call cannot be sent.
    async fn ready(&self) -> Result<(), Refusal> {
        self.wait_for_state(self.patience(), LinkState::is_connected, LinkState::refusal).await
    }

    /// The same for a call that only asks.
    async fn ready_to_ask(&self) -> Result<(), Refusal> {
        self.wait_for_state(self.patience(), LinkState::is_connected, LinkState::unasked).await
    }

    /// How long a call is to wait for the broker; it is looked for all the same.
    fn patience(&self) -> Duration {
        let patience = self.state.borrow().patience(clock::now());
        if patience.is_zero() {
            self.wanted.notify_one();
        }
        patience
    }

    async fn wait_for_state(
        &self,
        within: Duration,
        is_ready: impl Fn(&LinkState) -> bool,
        refusal: fn(&LinkState, &str) -> Refusal,
    ) -> Result<(), Refusal> {
        if self.closing.is_cancelled() {
            return Err(stopping());
        }
        let mut state = self.state.subscribe();
        let settled =
            state.wait_for(|state| matches!(state.phase, Phase::Refused(_)) || is_ready(state));
        match tokio::time::timeout(within, settled).await {
            Ok(Ok(state)) if is_ready(&state) => Ok(()),
            Ok(Ok(state)) => Err(refusal(&state, &self.settings.broker)),
            Ok(Err(_)) => Err(stopping()),
            Err(_) => Err(refusal(&self.state.borrow(), &self.settings.broker)),
        }
    }

    /// Has the node register again if `epoch` is its latest; returns once it has.
    async fn renew(&self, epoch: Epoch, within: Duration) -> Result<(), Refusal> {
        self.report_stale(epoch);
        let is_renewed = |state: &LinkState| state.is_connected() && state.epoch != epoch;
        self.wait_for_state(within, is_renewed, LinkState::refusal).await
    }

    /// Resolves the next time that this node is connected anew.
    async fn reconnected(&self) {
        let mut state = self.state.subscribe();
        while state.changed().await.is_ok() {
            if state.borrow_and_update().is_connected() {
                return;
            }
        }
        std::future::pending().await
    }

    fn report_stale(&self, epoch: Epoch) {
        self.stale.send_if_modified(|stale| {
            let is_news = *stale != epoch.get();
            *stale = epoch.get();
            is_news
        });
    }
}

fn stopping() -> Refusal {
    Refusal {
        reason: Reason::Unavailable,
        message: "This node is stopping; nothing was sent. Call again once it is back.".to_owned(),
    }
}
