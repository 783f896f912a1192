//! Wakes workspaces on demand and notices when one ends.
//!
//! A workspace whose actor panics is lost to nobody: its callers are told that the outcome is
//! unknown, and the next call wakes it again from the journal.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::RwLock;
use ractor::{Actor, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use tasuki_proto::{
    id::{FencingToken, IdempotencyKey, NodeId, RoleId, WorkspaceId},
    run::{RunId, StepId},
};
use tokio::{
    sync::{Semaphore, broadcast, oneshot, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::{
    actor::{Arguments, Executed, Settings, Shell, View},
    handle::{ExecuteError, Follower, Handle, IN_FLIGHT_KIB_MAX, IN_FLIGHT_MAX, ParkedWait},
    last_seen::LastSeen,
    pulse::Pulse,
    snapshots::Snapshots,
    state::{State, run::Reported},
    waits::{Question, WaitId, WaitReply},
};
use crate::{
    clock::Clock,
    hash::Hash,
    journal::{Journal, JournalError},
    metrics::WorkspaceMetrics,
    rules::{Caller, Command, Record, Rejection, Request, presence::RoleReport, run::Report},
};

/// Workspaces in memory at once. Any name can be asked about, so there must be a bound.
pub const WORKSPACES_AWAKE_MAX: usize = 10_000;

/// Records a feed may fall behind before it has to read them back.
const FEED_RECORDS: usize = 256;

/// How often a call asks for a workspace that just fell asleep, or seems to be full.
const WAKES_MAX: usize = 4;

/// All workspaces of a broker. Cheap to clone.
#[derive(Clone)]
pub struct Workspaces {
    shared: Arc<Shared>,
    supervisor: ActorRef<Msg>,
}

pub(super) struct Shared {
    pub(super) awake: RwLock<BTreeMap<WorkspaceId, Handle>>,
    /// Made by whoever runs the broker, though nothing may have happened in them.
    made: RwLock<BTreeSet<WorkspaceId>>,
    journal: Arc<dyn Journal>,
    clock: Clock,
    pulse: Arc<Pulse>,
    settings: Settings,
    fatal: Arc<dyn Fn(&str) + Send + Sync>,
    snapshots: Snapshots,
    pub(super) metrics: Arc<WorkspaceMetrics>,
    last_seen: LastSeen,
    next_wait: AtomicU64,
    /// How much may still be on its way to the disk, in KiB.
    pub(super) in_flight_kib: Arc<Semaphore>,
    on_wake: OnceLock<OnWake>,
}

/// Called with each workspace that wakes.
type OnWake = Box<dyn Fn(&WorkspaceId) + Send + Sync>;

impl fmt::Debug for Workspaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspaces").finish_non_exhaustive()
    }
}

enum Msg {
    Wake(WorkspaceId, oneshot::Sender<Result<Handle, ExecuteError>>),
    Woken(WorkspaceId, Result<Handle, ExecuteError>),
}

struct Supervisor;

#[derive(Default)]
struct Waking(BTreeMap<WorkspaceId, Vec<oneshot::Sender<Result<Handle, ExecuteError>>>>);

impl Workspaces {
    /// `fatal` is called when the disk failed and the process must end.
    ///
    /// # Panics
    /// When called outside an async runtime.
    pub async fn start(
        journal: Arc<dyn Journal>,
        clock: Clock,
        settings: Settings,
        fatal: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        let shared = Arc::new(Shared {
            awake: RwLock::default(),
            made: RwLock::default(),
            journal,
            pulse: Pulse::start(clock.clone()),
            clock,
            settings,
            fatal,
            snapshots: Snapshots::start().expect("the system has a thread to spare at start"),
            last_seen: LastSeen::default(),
            metrics: Arc::default(),
            next_wait: AtomicU64::new(1),
            in_flight_kib: Arc::new(Semaphore::new(IN_FLIGHT_KIB_MAX)),
            on_wake: OnceLock::new(),
        });
        let (supervisor, _) = Actor::spawn(None, Supervisor, shared.clone())
            .await
            .expect("starting the supervisor does nothing that can fail");
        Self { shared, supervisor }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.shared.journal
    }

    /// Keeps in this directory who was last heard of, until `stopping`; what is there is known from
    /// here on.
    pub fn keep_last_seen(&self, data: &Path, stopping: CancellationToken) -> JoinHandle<()> {
        self.shared.last_seen.keep(data, stopping)
    }

    /// Makes a workspace, for as long as this broker runs; what happens in it makes it for good.
    pub fn make(&self, workspace: WorkspaceId) {
        self.shared.made.write().insert(workspace);
    }

    /// Whether there is such a workspace: something happened in it, or it was made.
    pub fn exists(&self, workspace: &WorkspaceId) -> bool {
        self.shared.journal.has(workspace) || self.shared.made.read().contains(workspace)
    }

    /// Those that exist, but for the broker's own.
    pub fn names(&self) -> BTreeSet<WorkspaceId> {
        let mut names = self.shared.made.read().clone();
        names.extend(self.shared.journal.workspaces());
        names.remove(&WorkspaceId::system());
        names
    }

    /// Executes a command, and returns what `render` makes of the state right after it, once that
    /// is durable. `bytes`: how large the command is.
    ///
    /// # Errors
    /// A refusal, or why there is no answer.
    pub async fn execute<T: Send + 'static>(
        &self,
        workspace: &WorkspaceId,
        request: Request,
        bytes: usize,
        render: impl FnOnce(&View<'_>, Executed) -> T + Send + 'static,
    ) -> Result<T, ExecuteError> {
        let execute = move |state: &mut State| {
            let executed = state.execute(&request)?;
            Ok(render(&state.view(), executed))
        };
        self.run_command(workspace, bytes, execute).await
    }

    /// The same of the command of a role that `prepare` makes of the state, or says why it makes
    /// none. It is called in the command's own turn, and only where no answer is kept under the
    /// key; what else it makes is for `render`.
    ///
    /// # Errors
    /// A refusal, or why there is no answer.
    pub(crate) async fn execute_prepared<
        P: Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    >(
        &self,
        workspace: &WorkspaceId,
        (caller, key, role): (Caller, Option<(IdempotencyKey, Hash)>, RoleId),
        bytes: usize,
        prepare: impl FnOnce(&View<'_>) -> Result<(Command, P), E> + Send + 'static,
        render: impl FnOnce(&View<'_>, Executed, Option<P>) -> T + Send + 'static,
    ) -> Result<Result<T, E>, ExecuteError> {
        let execute = move |state: &mut State| {
            let executed = state.execute_prepared(caller, key, &role, prepare)?;
            Ok(executed.map(|(executed, prepared)| render(&state.view(), executed, prepared)))
        };
        self.run_command(workspace, bytes, execute).await
    }

    async fn run_command<T: Send + 'static>(
        &self,
        workspace: &WorkspaceId,
        bytes: usize,
        execute: impl FnOnce(&mut State) -> Result<T, Rejection> + Send + 'static,
    ) -> Result<T, ExecuteError> {
        let (handle, place) = self.admitted(workspace).await?;
        let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX);
        let bytes = self.shared.in_flight_kib.clone().try_acquire_many_owned(kib);
        let bytes = bytes.map_err(|_| ExecuteError::TooManyBytes)?;
        let Some(answer) = handle.run((place, bytes), execute).await? else {
            let failure = self.shared.journal.failure();
            return Err(failure.map_or(ExecuteError::OutcomeUnknown, ExecuteError::DiskFailed));
        };
        answer.map_err(ExecuteError::Rejected)
    }

    /// Runs `query` on a workspace's state; what it saw is durable when this returns.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn query<T: Send + 'static>(
        &self,
        workspace: &WorkspaceId,
        query: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, ExecuteError> {
        let (handle, permit) = self.admitted(workspace).await?;
        let seen = handle.run(permit, |state| query(&state.query())).await?;
        seen.ok_or_else(|| ExecuteError::Unavailable("the workspace did not answer".to_owned()))
    }

    /// Parks a wait; `reply` gets its one outcome, or is dropped when the workspace ends first.
    ///
    /// # Errors
    /// Why it could not be parked; then `reply` is never called.
    pub(crate) async fn park(
        &self,
        workspace: &WorkspaceId,
        question: Question,
        caller: Caller,
        hold_ms: u64,
        reply: impl FnOnce() -> WaitReply,
    ) -> Result<ParkedWait, ExecuteError> {
        let (handle, permit) = self.admitted(workspace).await?;
        let id = WaitId(self.shared.next_wait.fetch_add(1, Ordering::Relaxed));
        let (asked, reply) = (question.clone(), reply());
        handle.send(move |state| {
            state.park(asked, caller, id, hold_ms, reply);
            drop(permit);
        })?;
        Ok(ParkedWait::new(handle, question, id))
    }

    /// Nobody acts on what a role was offered. A workspace that sleeps offers nothing, and where it
    /// has more to do than it takes on, the offer is left to its time.
    pub(crate) fn decline(&self, workspace: &WorkspaceId, role: RoleId, caller: Caller) {
        if let Some(handle) = self.shared.awake(workspace)
            && let Some(Ok(permit)) = handle.admit()
        {
            // An actor that just ended forgets its offers anyway.
            let _ = handle.send(move |state| {
                state.decline(&role, &caller);
                drop(permit);
            });
        }
    }

    /// Signs of life: who, how many milliseconds ago, through which client.
    ///
    /// # Errors
    /// Why they could not be told.
    pub async fn seen(
        &self,
        workspace: &WorkspaceId,
        node: NodeId,
        roles: Vec<(RoleId, RoleReport)>,
    ) -> Result<(), ExecuteError> {
        let (handle, permit) = self.admitted(workspace).await?;
        // An actor that just ended forgets presence anyway.
        let _ = handle.send(move |state| {
            state.seen(&node, &roles);
            drop(permit);
        });
        Ok(())
    }

    /// Takes a node's report of a step that it runs.
    ///
    /// # Errors
    /// A refusal, or why there is no answer.
    pub(crate) async fn report(
        &self,
        workspace: &WorkspaceId,
        caller: Caller,
        (step, token): (StepId, FencingToken),
        report: Report,
    ) -> Result<Reported, ExecuteError> {
        let (handle, permit) = self.admitted(workspace).await?;
        let take = move |state: &mut State| state.report(&caller, step, token, report);
        let Some(answer) = handle.run(permit, take).await? else {
            return Err(ExecuteError::OutcomeUnknown);
        };
        answer.map_err(ExecuteError::Rejected)
    }

    /// Says when a run changed, or somebody reported of it, from here on.
    ///
    /// # Errors
    /// Why the workspace cannot be woken.
    pub(crate) async fn watch(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
    ) -> Result<watch::Receiver<()>, ExecuteError> {
        let (handle, permit) = self.admitted(workspace).await?;
        let watching = handle.run(permit, move |state| state.watch(run)).await?;
        let gone = || ExecuteError::Unavailable("the workspace did not answer".to_owned());
        watching.ok_or_else(gone)
    }

    /// Says when what nodes have to do for pipelines may have changed, from here on.
    ///
    /// # Errors
    /// Why the workspace cannot be woken.
    pub(crate) async fn watch_phases(
        &self,
        workspace: &WorkspaceId,
    ) -> Result<watch::Receiver<()>, ExecuteError> {
        let (handle, permit) = self.admitted(workspace).await?;
        let watching = handle.run(permit, |state| state.watch_phases()).await?;
        let gone = || ExecuteError::Unavailable("the workspace did not answer".to_owned());
        watching.ok_or_else(gone)
    }

    /// Records as they become durable, from here on.
    ///
    /// # Errors
    /// Why the workspace cannot be woken.
    pub async fn subscribe(
        &self,
        workspace: &WorkspaceId,
    ) -> Result<broadcast::Receiver<Arc<Record>>, ExecuteError> {
        let (handle, _permit) = self.admitted(workspace).await?;
        handle.subscribe()
    }

    /// The same for one who goes to sleep with the workspace.
    ///
    /// # Errors
    /// Why the workspace cannot be woken.
    pub(crate) async fn follow(&self, workspace: &WorkspaceId) -> Result<Follower, ExecuteError> {
        let (handle, _permit) = self.admitted(workspace).await?;
        handle.follow()
    }

    /// Has a workspace look at the time.
    #[cfg(test)]
    pub(crate) fn tick(&self, workspace: &WorkspaceId) {
        if let Some(handle) = self.shared.awake(workspace) {
            let _ = handle.actor.send_message(super::actor::Msg::Tick);
        }
    }

    /// Has every workspace that keeps old commits from being dropped take a snapshot.
    pub async fn snapshot_laggards(&self) {
        for workspace in self.shared.journal.compaction_blockers() {
            match self.admitted(&workspace).await {
                Ok((handle, permit)) => {
                    let _ = handle.send(|state| {
                        state.take_snapshot();
                        drop(permit);
                    });
                }
                Err(error) => warn!(%workspace, %error, "cannot take a snapshot"),
            }
        }
    }

    /// Answers every parked wait with what holds: the broker is stopping.
    pub fn end_waits(&self) {
        let awake = self.shared.awake.read();
        for handle in awake.values() {
            let _ = handle.send(State::end_waits);
        }
    }

    /// Has `told` called with each workspace that wakes from now on; it must be brief. There is one
    /// that is told, the first.
    pub fn on_wake(&self, told: impl Fn(&WorkspaceId) + Send + Sync + 'static) {
        // The first stays.
        let _ = self.shared.on_wake.set(Box::new(told));
    }

    /// Whether a workspace is in memory.
    pub fn is_awake(&self, workspace: &WorkspaceId) -> bool {
        self.shared.awake(workspace).is_some()
    }

    /// How many workspaces are in memory.
    pub fn awake(&self) -> usize {
        self.shared.awake.read().len()
    }

    pub(super) async fn admitted(
        &self,
        workspace: &WorkspaceId,
    ) -> Result<(Handle, tokio::sync::OwnedSemaphorePermit), ExecuteError> {
        for tries_left in (0..WAKES_MAX).rev() {
            let handle = self.wake(workspace).await?;
            match handle.admit() {
                // One that falls asleep has all places itself, and closes them next.
                Some(Err(ExecuteError::Overloaded)) if 0 < tries_left => {
                    tokio::task::yield_now().await;
                }
                Some(permit) => return Ok((handle, permit?)),
                None => self.shared.forget(workspace, Some(&handle)),
            }
        }
        Err(ExecuteError::Unavailable("the workspace keeps falling asleep".to_owned()))
    }

    async fn wake(&self, workspace: &WorkspaceId) -> Result<Handle, ExecuteError> {
        if let Some(handle) = self.shared.awake(workspace) {
            return Ok(handle);
        }
        let (reply, answer) = oneshot::channel();
        let down = || ExecuteError::Unavailable("the broker is stopping".to_owned());
        self.supervisor.send_message(Msg::Wake(workspace.clone(), reply)).map_err(|_| down())?;
        answer.await.map_err(|_| down())?
    }
}

impl Shared {
    pub(super) fn awake(&self, workspace: &WorkspaceId) -> Option<Handle> {
        let awake = self.awake.read();
        awake.get(workspace).filter(|handle| !handle.admission.is_closed()).cloned()
    }

    /// Forgets a workspace that left memory; `only` this actor of it, if given.
    fn forget(&self, workspace: &WorkspaceId, only: Option<&Handle>) {
        let mut awake = self.awake.write();
        let is_it = awake.get(workspace).is_some_and(|handle| {
            only.is_none_or(|only| only.actor.get_id() == handle.actor.get_id())
        });
        if is_it {
            awake.remove(workspace);
        }
    }

    async fn spawn(
        &self,
        workspace: WorkspaceId,
        supervisor: ActorRef<Msg>,
    ) -> Result<Handle, ExecuteError> {
        let admission = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        let (feed, _) = broadcast::channel(FEED_RECORDS);
        let (weak, idle_followers) = (feed.downgrade(), Arc::new(AtomicUsize::new(0)));
        let arguments = Arguments {
            id: workspace.clone(),
            journal: self.journal.clone(),
            clock: self.clock.clone(),
            pulse: self.pulse.clone(),
            settings: self.settings.clone(),
            admission: admission.clone(),
            snapshots: self.snapshots.clone(),
            metrics: self.metrics.clone(),
            last_seen: self.last_seen.clone(),
            feed,
            idle_followers: idle_followers.clone(),
            fatal: self.fatal.clone(),
        };
        let spawned = Actor::spawn_linked(None, Shell, arguments, supervisor.get_cell()).await;
        let (actor, _) = spawned.map_err(|error| {
            error!(%workspace, %error, "a workspace cannot be woken");
            let text = format!("workspace {workspace} cannot be read: {error}");
            if is_passing(&error) {
                ExecuteError::Unavailable(text)
            } else {
                ExecuteError::Damaged(text)
            }
        })?;
        Ok(Handle { actor, admission, feed: weak, idle_followers })
    }
}

/// Whether a workspace was not woken because the storage is closed or failed: that says nothing
/// about what is on disk.
fn is_passing(error: &SpawnErr) -> bool {
    let SpawnErr::StartupFailed(source) = error else { return false };
    match source.downcast_ref() {
        Some(JournalError::Closed | JournalError::Storage(_) | JournalError::InUse(_)) => true,
        Some(
            JournalError::Damaged { .. }
            | JournalError::Newer { .. }
            | JournalError::Older { .. }
            | JournalError::Compacted { .. },
        )
        | None => false,
    }
}

impl Actor for Supervisor {
    type Msg = Msg;
    type State = (Arc<Shared>, Waking);
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        _myself: ActorRef<Msg>,
        shared: Arc<Shared>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok((shared, Waking::default()))
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        message: Msg,
        (shared, waking): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Wake(workspace, reply) => {
                if let Some(handle) = shared.awake(&workspace) {
                    let _ = reply.send(Ok(handle));
                    return Ok(());
                }
                let awake = shared.awake.read().len();
                let is_waking = waking.0.contains_key(&workspace);
                if !is_waking && WORKSPACES_AWAKE_MAX <= awake + waking.0.len() {
                    let _ = reply.send(Err(ExecuteError::TooManyAwake));
                    return Ok(());
                }
                let others = waking.0.entry(workspace.clone()).or_default();
                others.push(reply);
                if others.len() == 1 {
                    // Reading a journal takes a while; other workspaces need not wait for it.
                    let shared = shared.clone();
                    tokio::spawn(async move {
                        let woken = shared.spawn(workspace.clone(), myself.clone()).await;
                        let _ = myself.send_message(Msg::Woken(workspace, woken));
                    });
                }
            }
            Msg::Woken(workspace, woken) => {
                if let Ok(handle) = &woken {
                    let mut awake = shared.awake.write();
                    awake.insert(workspace.clone(), handle.clone());
                    drop(awake);
                    if let Some(told) = shared.on_wake.get() {
                        told(&workspace);
                    }
                }
                for reply in waking.0.remove(&workspace).unwrap_or_default() {
                    let _ = reply.send(woken.clone());
                }
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<Msg>,
        event: SupervisionEvent,
        (shared, _): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let ended = match event {
            SupervisionEvent::ActorTerminated(actor, ..) => actor,
            SupervisionEvent::ActorFailed(actor, error) => {
                error!(%error, "a workspace failed; the next call wakes it from the journal");
                actor
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {
                return Ok(());
            }
        };
        let mut awake = shared.awake.write();
        awake.retain(|_, handle| handle.actor.get_id() != ended.get_id());
        Ok(())
    }
}
