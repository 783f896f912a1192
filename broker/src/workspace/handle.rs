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
    actor::{Executed, Msg, OnDurable, View},
    waits::{Question, WaitId, WaitReply},
};
use crate::{
    journal::JournalError,
    rules::{Caller, Record, Rejection, Request},
};

/// Commands and reads of one workspace admitted and not yet answered.
pub const IN_FLIGHT_MAX: usize = 4096;

/// Words of commands admitted and not yet durable, of all workspaces together, in KiB: 4,096
/// handovers of the largest size would be 2 GiB.
pub const IN_FLIGHT_KIB_MAX: usize = 256 * 1024;

/// How long a caller waits for an answer. Past it the outcome is unknown, not negative.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, thiserror::Error)]
pub enum ExecuteError {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    #[error("{IN_FLIGHT_MAX} requests of this workspace are under way already; try again shortly")]
    Overloaded,
    #[error("{IN_FLIGHT_KIB_MAX} KiB of words are on their way to the disk; try again shortly")]
    TooManyWords,
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

/// A command's place among those under way, and that of its words.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) _place: OwnedSemaphorePermit,
    pub(super) _words: OwnedSemaphorePermit,
}

impl ExecuteError {
    pub fn reason(&self) -> Reason {
        match self {
            Self::Rejected(rejection) => rejection.reason(),
            Self::Overloaded | Self::TooManyWords | Self::TooManyAwake => Reason::Overloaded,
            Self::Unavailable(_) => Reason::Unavailable,
            Self::Damaged(_) => Reason::Damaged,
            Self::OutcomeUnknown | Self::DiskFailed(_) => Reason::OutcomeUnknown,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Handle {
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

    pub(super) async fn execute(
        &self,
        request: Request,
        permit: Admitted,
    ) -> Result<Executed, ExecuteError> {
        let (reply, answer) = oneshot::channel();
        self.send(Msg::Execute { request: Box::new(request), reply, permit })?;
        match tokio::time::timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(answer)) => Ok(answer?),
            Ok(Err(_)) | Err(_) => Err(ExecuteError::OutcomeUnknown),
        }
    }

    /// Runs `look` on the state and returns what it made of it, once that state is durable.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
        permit: OwnedSemaphorePermit,
    ) -> Result<T, ExecuteError> {
        let (reply, answer) = oneshot::channel();
        let look = Box::new(move |view: &View<'_>| -> OnDurable {
            let seen = look(view);
            Box::new(move || {
                drop(permit);
                // The caller may have stopped waiting.
                let _ = reply.send(seen);
            })
        });
        self.send(Msg::Look(look))?;
        match tokio::time::timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(seen)) => Ok(seen),
            Ok(Err(_)) | Err(_) => {
                Err(ExecuteError::Unavailable("the workspace did not answer".to_owned()))
            }
        }
    }

    pub(super) fn park(
        &self,
        question: Question,
        caller: Caller,
        id: WaitId,
        hold_ms: u64,
        sink: WaitReply,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), ExecuteError> {
        self.send(Msg::Park { question, caller, id, hold_ms, sink, permit })
    }

    /// Removes a wait whose caller is gone.
    pub fn cancel(&self, question: Question, id: WaitId) {
        // An actor that is gone has no waits.
        let _ = self.actor.send_message(Msg::Cancel { question, id });
    }

    fn send(&self, message: Msg) -> Result<(), ExecuteError> {
        let gone = |_| ExecuteError::Unavailable("the workspace is not running".to_owned());
        self.actor.send_message(message).map_err(gone)
    }
}
