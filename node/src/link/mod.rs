//! The one connection of a node to the broker.
//!
//! Commands are sent until they are answered, under one key; waits of all roles share a stream
//! and outlive it; heartbeats say which roles are there. The link keeps no truth: after a
//! reconnect it asks again.
//!
//! - [`retry`]: when to try again, and what may be said in the end. Pure.
//! - [`keys`]: idempotency keys that cannot expire while in use.
//! - `channel`: the HTTP/2 connection. `connection`: the TCP connection below.
//!   `client_auth`: what is shown on them, and to whom.
//! - `network_monitor`: what makes the link look whether the connection still stands.
//! - `session`: registration and heartbeats.
//! - `call`: commands and reads. `any`: those of any type. They are of `turns`, of `mail` and of
//!   `swarm`. `waits`: parked questions. `receipts`: how far a turn got.
//! - `cache`: what loops looked like, for when nobody can be asked.
//! - [`feed_resume`]: whether a feed goes on where it was.
//! - `feed`: what changed, for whoever follows. `follow`: the same for hooks, with the words.
//! - `mirror`: what mailboxes on disk are kept with. `records`: what both follow.

pub mod feed_resume;
pub mod keys;
pub mod retry;

mod any;
mod cache;
mod call;
mod channel;
mod client_auth;
mod connection;
mod feed;
mod follow;
mod mail;
mod mirror;
mod network_monitor;
mod receipts;
mod records;
mod session;
mod state;
mod swarm;
mod turns;
mod waits;

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use tasuki_proto::{
    id::{Epoch, NodeId, RoleId, Toolset, WorkspaceId},
    limits::HEARTBEAT_MS,
    reason::Reason,
    wire,
};
use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    any::{AnyRequest, AnyResponse},
    channel::BadAddress,
    client_auth::ClientAuthError,
    mail::settle,
    receipts::Mark,
    state::{LinkState, Phase},
};
use self::{
    cache::Memory,
    channel::Channel,
    client_auth::ClientAuth,
    connection::Lines,
    keys::Keys,
    mail::{Carriers, MailKeys, MailReceipts, Sending, TRANSFERS_MAX},
    receipts::Receipts,
    waits::Waits,
};
use crate::{
    clock::{self, Moment},
    identity::Identity,
    limiter::Limiter,
    outbox::Outbox,
    private::Sealer,
    role::{Refusal, news::News, presence::Presence},
};

/// Calls under way and not yet answered. Far below the window in which keys are remembered.
pub const CALLS_MAX: usize = 64;

/// A role that this node hosts.
#[derive(Debug, Clone)]
pub struct HostedRole {
    pub role: RoleId,
    pub toolsets: Vec<Toolset>,
    pub presence: Presence,
}

impl HostedRole {
    fn spec(&self) -> wire::RoleSpec {
        let toolsets = self.toolsets.iter().map(Toolset::to_string).collect();
        wire::RoleSpec { role: self.role.to_string(), toolsets }
    }
}

/// Whom to connect to, and as whom.
#[derive(Debug, Clone)]
pub struct Settings {
    pub broker: String,
    pub workspace: WorkspaceId,
    pub node: NodeId,
    pub roles: Vec<HostedRole>,
    pub take_over: bool,
}

/// Why a link does not even begin to connect.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Address(#[from] BadAddress),
    #[error(transparent)]
    ClientAuth(#[from] ClientAuthError),
    #[error("the letters that wait in {path} cannot be read")]
    Outbox { path: PathBuf, source: io::Error },
}

/// The connection. Cheap to clone; it lives until [`Link::shutdown`].
#[derive(Debug, Clone)]
pub struct Link {
    shared: Arc<Shared>,
    waits: Waits,
    receipts: Receipts,
    mail_receipts: MailReceipts,
    mail_keys: MailKeys,
    sending: Sending,
    outbox: Outbox,
    carriers: Carriers,
    found: mail::Found,
    calls: Limiter,
    transfers: Limiter,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    /// Tells this process from one that runs on a copy of its data directory.
    instance: String,
    channel: Channel,
    lines: Lines,
    papers: ClientAuth,
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
    /// Something was granted that lasts hardly longer: the broker may want to hear more often by now.
    heartbeat_early: Notify,
    /// How often the connection came under doubt other than by a call that failed.
    looks: watch::Sender<u64>,
    news: News,
    memory: Memory,
    mail: mail::Memory,
    sealer: Sealer,
    /// No further work is taken on; what was begun is ended.
    closing: CancellationToken,
    /// Nothing is sent any more.
    ended: CancellationToken,
    tasks: TaskTracker,
    session: TaskTracker,
}

impl Link {
    /// Begins to connect, in the background and for as long as it takes.
    pub fn start(settings: Settings, identity: Arc<Identity>) -> Result<Self, StartError> {
        let endpoint = channel::endpoint(&settings.broker)?;
        let papers = ClientAuth::find(identity.data(), &settings.broker)?;
        let sealer = Sealer::new(identity.data(), &settings.workspace);
        let outbox = Outbox::open(identity.data())
            .map_err(|source| StartError::Outbox { path: identity.data().to_owned(), source })?;
        let lines = Lines::default();
        let channel = channel::open(&endpoint, papers.clone(), lines.clone());
        let shared = Arc::new(Shared {
            settings,
            instance: uuid::Uuid::new_v4().simple().to_string(),
            channel,
            lines,
            papers,
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
            memory: Memory::default(),
            mail: mail::Memory::default(),
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
        let mail_receipts = MailReceipts::start(&shared);
        let calls = Limiter::new("calls of this node", CALLS_MAX);
        let transfers = Limiter::new("transfers of files", TRANSFERS_MAX);
        let link = Self {
            shared,
            waits,
            receipts,
            mail_receipts,
            mail_keys: MailKeys::default(),
            sending: Sending::new(),
            outbox,
            carriers: Carriers::default(),
            found: mail::Found::default(),
            calls,
            transfers,
        };
        link.carry_what_waits();
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
    fn stranger(&self) -> wire::Caller {
        let workspace = self.settings.workspace.to_string();
        wire::Caller { workspace, ..wire::Caller::default() }
    }

    /// The roles that gave a sign of life since this node started.
    fn presences(&self, now: Moment) -> Vec<wire::RolePresence> {
        let roles = self.settings.roles.iter();
        roles
            .filter_map(|hosted| {
                let (quiet, client) = hosted.presence.quiet(now)?;
                let quiet_ms = u64::try_from(quiet.as_millis()).unwrap_or(u64::MAX);
                Some(wire::RolePresence { role: hosted.role.to_string(), quiet_ms, client })
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
        self.doubt();
    }

    /// A role holds something for so long, and longer as long as this node says that it is there.
    fn is_granted(&self, lease: Duration) {
        let heartbeat = Duration::from_millis(self.heartbeat_ms.load(Ordering::Relaxed));
        // The next sign may come too late for it, and with its answer how often to give one.
        if lease < 2 * heartbeat {
            self.heartbeat_early.notify_one();
        }
    }

    /// The connection is silent: looks at once whether it still stands.
    fn doubt(&self) {
        self.looks.send_modify(|looks| *looks += 1);
    }

    /// The node is registered, or there is a refusal that says why a call cannot be sent.
    async fn ready(&self) -> Result<(), Refusal> {
        self.settled(self.patience(), LinkState::is_connected, LinkState::refusal).await
    }

    /// The same for a call that only asks.
    async fn ready_to_ask(&self) -> Result<(), Refusal> {
        self.settled(self.patience(), LinkState::is_connected, LinkState::unasked).await
    }

    /// How long a call is to wait for the broker; it is looked for all the same.
    fn patience(&self) -> Duration {
        let patience = self.state.borrow().patience(clock::now());
        if patience.is_zero() {
            self.wanted.notify_one();
        }
        patience
    }

    async fn settled(
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
        self.settled(within, is_renewed, LinkState::refusal).await
    }

    /// Resolves when the broker is back; never, if as far as known it was not away.
    async fn back(&self) {
        let mut state = self.state.subscribe();
        if state.borrow_and_update().is_connected()
            || state.wait_for(LinkState::is_connected).await.is_err()
        {
            std::future::pending().await
        }
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
