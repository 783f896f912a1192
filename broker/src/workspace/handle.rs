//! How the rest of the broker talks to a workspace. Cheap to clone.
//!
//! ractor's mailboxes have no bound, so the handle has: a permit travels with every message and
//! is given back when its answer left, not when its caller tired of waiting.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ractor::ActorRef;
use tasuki_proto::reason::Reason;
use tokio::sync::{
    OwnedSemaphorePermit, Semaphore, TryAcquireError,
    broadcast::{self, error::RecvError},
    oneshot,
};

use super::{
    actor::Msg,
    state::State,
    waits::{Question, WaitId},
};
use crate::{
    journal::JournalError,
    rules::{Record, Rejection},
};

/// Commands and reads of one workspace admitted and not yet answered.
pub const IN_FLIGHT_MAX: usize = 4096;

/// Commands admitted and not yet durable, of all workspaces together, in KiB: 4,096 handovers of
/// the largest size would be 2 GiB.
pub const IN_FLIGHT_KIB_MAX: usize = 256 * 1024;

/// How long a caller waits for an answer. Past it the outcome is unknown, not negative.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, thiserror::Error)]
pub enum ExecuteError {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    #[error("{IN_FLIGHT_MAX} requests of this workspace are under way already; try again shortly")]
    Overloaded,
    #[error("{IN_FLIGHT_KIB_MAX} KiB of commands are being written already; try again shortly")]
    TooManyBytes,
    #[error("as many workspaces are awake as fit into memory; try again shortly")]
    TooManyAwake,
    #[error("{0}; try again shortly")]
    Unavailable(String),
    #[error("{0}")]
    Damaged(String),
    #[error(
        "no answer from the workspace; the command may or may not have taken effect: send it \
         again under the same idempotency key"
    )]
    OutcomeUnknown,
    #[error(
        "{0}, so the broker ends; whether this was recorded is unknown: send it again under the \
         same idempotency key once the broker is back"
    )]
    DiskFailed(JournalError),
}

impl ExecuteError {
    pub fn reason(&self) -> Reason {
        match self {
            Self::Rejected(rejection) => rejection.reason(),
            Self::Overloaded | Self::TooManyBytes | Self::TooManyAwake => Reason::Overloaded,
            Self::Unavailable(_) => Reason::Unavailable,
            Self::Damaged(_) => Reason::Damaged,
            Self::OutcomeUnknown | Self::DiskFailed(_) => Reason::OutcomeUnknown,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Handle {
    pub(super) actor: ActorRef<Msg>,
    pub(super) admission: Arc<Semaphore>,
    /// Closed with the actor.
    pub(super) feed: broadcast::WeakSender<Arc<Record>>,
    pub(super) idle_followers: Arc<AtomicUsize>,
}

/// Records as they become durable, for one who goes to sleep with the workspace: it is kept awake
/// only while the follower says that there is something left to do.
#[derive(Debug)]
pub(crate) struct Follower {
    records: broadcast::Receiver<Arc<Record>>,
    idle_followers: Arc<AtomicUsize>,
    is_idle: bool,
}

impl Follower {
    pub(crate) async fn recv(&mut self) -> Result<Arc<Record>, RecvError> {
        self.records.recv().await
    }

    /// Whether the workspace may fall asleep.
    pub(crate) fn set_idle(&mut self, is_idle: bool) {
        match (self.is_idle, is_idle) {
            (false, true) => _ = self.idle_followers.fetch_add(1, Ordering::AcqRel),
            (true, false) => _ = self.idle_followers.fetch_sub(1, Ordering::AcqRel),
            (false, false) | (true, true) => {}
        }
        self.is_idle = is_idle;
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // Its receiver goes after this: in between it is one too many, which is harmless.
        self.set_idle(false);
    }
}

impl Handle {
    /// `None`: the actor is going to sleep; ask for the workspace again.
    pub(super) fn admit(&self) -> Option<Result<OwnedSemaphorePermit, ExecuteError>> {
        match self.admission.clone().try_acquire_owned() {
            Ok(permit) => Some(Ok(permit)),
            Err(TryAcquireError::NoPermits) => Some(Err(ExecuteError::Overloaded)),
            Err(TryAcquireError::Closed) => None,
        }
    }

    pub(super) fn subscribe(&self) -> Result<broadcast::Receiver<Arc<Record>>, ExecuteError> {
        let gone = || ExecuteError::Unavailable("the workspace is not running".to_owned());
        Ok(self.feed.upgrade().ok_or_else(gone)?.subscribe())
    }

    /// As one who does not keep it awake, once that is said of it.
    pub(super) fn follow(&self) -> Result<Follower, ExecuteError> {
        let idle_followers = self.idle_followers.clone();
        Ok(Follower { records: self.subscribe()?, idle_followers, is_idle: false })
    }

    /// Has the actor run `task`, and returns what that made once it is durable; `None` if no answer
    /// came in time. `permit` is given back when the answer leaves.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        permit: impl Send + 'static,
        task: impl FnOnce(&mut State) -> T + Send + 'static,
    ) -> Result<Option<T>, ExecuteError> {
        let (reply, answer) = oneshot::channel();
        self.send(move |state| {
            let made = task(state);
            state.release(Box::new(move || {
                drop(permit);
                // The caller may have stopped waiting; what it asked for stands all the same.
                let _ = reply.send(made);
            }));
        })?;
        Ok(tokio::time::timeout(ANSWER_WITHIN, answer).await.ok().and_then(Result::ok))
    }

    pub(super) fn send(
        &self,
        task: impl FnOnce(&mut State) + Send + 'static,
    ) -> Result<(), ExecuteError> {
        let gone = |_| ExecuteError::Unavailable("the workspace is not running".to_owned());
        self.actor.send_message(Msg::Run(Box::new(task))).map_err(gone)
    }
}

/// A parked wait. It is removed when its caller drops this before it ended.
#[derive(Debug)]
pub(crate) struct ParkedWait(Option<(Handle, Question, WaitId)>);

impl ParkedWait {
    pub(super) fn new(handle: Handle, question: Question, id: WaitId) -> Self {
        Self(Some((handle, question, id)))
    }

    /// Nothing is left to be removed.
    pub(crate) fn has_ended(mut self) {
        self.0 = None;
    }
}

impl Drop for ParkedWait {
    fn drop(&mut self) {
        if let Some((handle, question, id)) = self.0.take() {
            // An actor that is gone has no waits.
            let _ = handle.send(move |state| state.waits.cancel(&question, id));
        }
    }
}
