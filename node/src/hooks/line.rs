//! One hook at work: its calls one after the other, in the order of what happened.
//!
//! - **Q7** Calls of one hook are made in order, one at a time: one that fails holds those after it
//!   up until it is a dead letter. Hooks do not hold each other up.

use std::{io, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{Notify, Semaphore},
    time,
};
use tokio_util::sync::CancellationToken;

use super::{
    attempt::{Attempts, Failure},
    command::Program,
    report::{LastFailure, Tally},
    spec::{Action, Hook},
    store::{Call, Failed, Store},
    webhook::Address,
};
use crate::{beside::on_disk, client::retry::chance, clock};

/// Programs that run at once, of all hooks: what a laptop does not notice.
const PROGRAMS_MAX: usize = 4;

/// Between two looks for dead letters that a person has called again, in milliseconds.
const LOOK_EVERY_MS: u64 = 2_000;

/// For a call under way to end when the node stops, in milliseconds; one that does not is made
/// again.
const LAST_WORDS_MS: u64 = 1_500;

/// Until a disk that failed is tried again, in milliseconds.
const DISK_PAUSE_MS: u64 = 5_000;

/// What hooks share.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub(super) store: Store,
    pub(super) stop: CancellationToken,
    programs: Arc<Semaphore>,
    /// A call left the folder it waited in.
    pub(super) room: Arc<Notify>,
    /// Why nothing is heard of events, if nothing is.
    deaf: Arc<Mutex<Option<String>>>,
}

impl Common {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            stop: CancellationToken::new(),
            programs: Arc::new(Semaphore::new(PROGRAMS_MAX)),
            room: Arc::new(Notify::new()),
            deaf: Arc::default(),
        }
    }

    pub(super) fn deaf(&self) -> MutexGuard<'_, Option<String>> {
        self.deaf.lock()
    }

    /// Work on the disk, off the threads that everything else runs on.
    pub(super) async fn disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let store = self.store.clone();
        on_disk(move || work(&store)).await
    }
}

/// How a hook's action is carried out.
#[derive(Debug)]
pub(super) enum Means {
    Program(Program),
    Address(Address),
}

impl Means {
    /// Says in half a sentence why the action cannot be carried out.
    pub(super) fn find(action: &Action) -> Result<Self, String> {
        match action {
            Action::Command(command) => Program::find(command).map(Self::Program),
            Action::Webhook(webhook) => Address::find(webhook).map(Self::Address),
        }
    }
}

/// A hook that can be called.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) hook: Hook,
    means: Means,
    /// A call was put where it waits.
    pub(super) wake: Notify,
    tally: Mutex<Tally>,
}

/// What became of a call.
enum End {
    Made,
    Failed(Failed),
    /// A person took it out.
    Dropped,
}

/// How a pause between attempts ended.
enum Paused {
    Over,
    Dropped,
    Stopped,
}

impl Line {
    pub(super) fn new(hook: Hook, means: Means) -> Self {
        Self { hook, means, wake: Notify::new(), tally: Mutex::default() }
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock()
    }

    /// Makes calls until the node stops.
    pub(super) async fn run(self: Arc<Self>, common: Common) {
        while !common.stop.is_cancelled() {
            let worked = match self.next(&common).await {
                Ok(Some(call)) => {
                    let Some(end) = self.make(&common, &call).await else { return };
                    self.settle(&common, call, end).await
                }
                Ok(None) => {
                    self.rest(&common).await;
                    continue;
                }
                Err(why) => Err(why),
            };
            if let Err(error) = worked {
                let hook = &self.hook.name;
                tracing::error!(%hook, %error, "what hooks wait for cannot be kept on disk");
                let pause = time::sleep(Duration::from_millis(DISK_PAUSE_MS));
                common.stop.run_until_cancelled(pause).await;
            }
        }
    }

    async fn next(&self, common: &Common) -> io::Result<Option<Call>> {
        let name = self.hook.name.clone();
        common.disk(move |store| store.next(&name)).await
    }

    async fn rest(&self, common: &Common) {
        tokio::select! {
            () = self.wake.notified() => {}
            () = time::sleep(Duration::from_millis(LOOK_EVERY_MS)) => {}
            () = common.stop.cancelled() => {}
        }
    }

    /// `None`: the node stops.
    async fn make(&self, common: &Common, call: &Call) -> Option<End> {
        let mut attempts = Attempts::new(self.hook.retries);
        loop {
            let made = tokio::select! {
                made = self.attempt(common, call) => made,
                () = last_words(&common.stop) => return None,
            };
            let Err(failure) = made else { return Some(End::Made) };
            let pause = attempts.next(&failure, chance());
            let (hook, id, event) = (&self.hook.name, &call.id, &call.event);
            let (why, attempt) = (&failure.how, attempts.made);
            tracing::warn!(%hook, id, event, attempt, why, "a hook's call failed");
            let why = failure.why.clone();
            let last = LastFailure { at_ms: clock::wall_ms(), id: id.clone(), why };
            self.tally().last_failure = Some(last);
            let Some(pause) = pause else {
                let (at_ms, attempts) = (clock::wall_ms(), attempts.made);
                return Some(End::Failed(Failed { at_ms, attempts, why: failure.why }));
            };
            match self.pause(common, call, pause).await {
                Paused::Over => {}
                Paused::Dropped => return Some(End::Dropped),
                Paused::Stopped => return None,
            }
        }
    }

    async fn attempt(&self, common: &Common, call: &Call) -> Result<(), Failure> {
        let limit = self.hook.limit;
        match &self.means {
            Means::Address(address) => address.post(call, clock::wall_ms(), limit).await,
            Means::Program(program) => {
                // It is never closed.
                let _place = common.programs.acquire().await;
                let (name, body) = (self.hook.name.clone(), call.body.clone());
                let input = common.disk(move |store| store.input(&name, &body)).await;
                let input = input.map_err(|why| Failure::passing(format!("no disk: {why}")))?;
                program.run(input, limit).await
            }
        }
    }

    /// Before the next attempt.
    async fn pause(&self, common: &Common, call: &Call, whole: Duration) -> Paused {
        let until = time::Instant::now() + whole;
        loop {
            let left = until.saturating_duration_since(time::Instant::now());
            if left.is_zero() {
                return Paused::Over;
            }
            tokio::select! {
                () = time::sleep(left.min(Duration::from_millis(LOOK_EVERY_MS))) => {}
                () = common.stop.cancelled() => return Paused::Stopped,
            }
            let (name, sought) = (self.hook.name.clone(), call.clone());
            let found = common.disk(move |store| Ok(store.is_waiting(&name, &sought))).await;
            if matches!(found, Ok(false)) {
                return Paused::Dropped;
            }
        }
    }

    /// Puts on disk what became of a call.
    async fn settle(&self, common: &Common, call: Call, end: End) -> io::Result<()> {
        let name = self.hook.name.clone();
        match end {
            End::Made => {
                common.disk(move |store| store.done(&name, &call)).await?;
                self.tally().made += 1;
            }
            End::Failed(failed) => {
                let hook = name.clone();
                let dropped = common.disk(move |store| store.bury(&name, &call, failed)).await?;
                self.tally().failed += 1;
                for dropped in dropped {
                    tracing::warn!(%hook, dropped, "the oldest dead letter made room");
                }
            }
            End::Dropped => {}
        }
        common.room.notify_one();
        Ok(())
    }
}

/// Resolves a while after the node was told to stop.
async fn last_words(stop: &CancellationToken) {
    stop.cancelled().await;
    time::sleep(Duration::from_millis(LAST_WORDS_MS)).await;
}
