//! The actor of a workspace, the only writer of its state and journal (S1): messages in, calls of
//! [`State`].

use std::{
    fmt,
    sync::{Arc, atomic::AtomicUsize},
};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tasuki_proto::id::{Sequence, Timestamp, WorkspaceId};
use tokio::sync::{Semaphore, broadcast};

use super::{
    last_seen::LastSeen,
    pulse::Pulse,
    snapshots::{Failure, Snapshots},
    state::State,
    waits::Waits,
};
use crate::{
    clock::Clock,
    journal::{Journal, Outcome},
    metrics::WorkspaceMetrics,
    rules::{Context, Record, Reply, Workspace},
};

/// Quiet time after which a workspace leaves memory, in milliseconds, unless configured.
pub const IDLE_MS: u64 = 60_000;

/// What every workspace of a broker shares.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Of a held turn, in milliseconds.
    pub lease_ms: u64,
    /// Quiet time after which a workspace leaves memory, in milliseconds.
    pub idle_ms: u64,
}

/// Lets out what waited for the disk.
pub(crate) type OnDurable = Box<dyn FnOnce() + Send>;

/// What a [`Handle`](super::Handle) has this actor do. A permit in it keeps the workspace awake
/// until it was done.
pub(super) type Task = Box<dyn FnOnce(&mut State) + Send>;

pub(super) enum Msg {
    Run(Task),
    Journal(Outcome),
    Tick,
    /// The snapshot that was to be made: how many bytes it has.
    Snapshotted(Result<u64, Failure>),
}

/// Messages carry closures, which have no `Debug` of their own.
impl fmt::Debug for Msg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("workspace message")
    }
}

/// The answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    pub reply: Reply,
    pub is_repeat: bool,
    /// The record it rests on.
    pub sequence: Sequence,
    /// The time of the record that it made; `None`: an earlier one answers it, or none was needed.
    pub recorded: Option<Timestamp>,
}

/// What queries and answers are made from.
#[derive(Debug)]
pub struct View<'a> {
    pub workspace: &'a Workspace,
    pub context: &'a Context,
    pub waits: &'a Waits,
    pub now: Timestamp,
}

#[derive(Debug)]
pub(super) struct Shell;

pub(super) struct Arguments {
    pub id: WorkspaceId,
    pub journal: Arc<dyn Journal>,
    pub clock: Clock,
    pub pulse: Arc<Pulse>,
    pub settings: Settings,
    pub admission: Arc<Semaphore>,
    pub snapshots: Snapshots,
    pub metrics: Arc<WorkspaceMetrics>,
    pub last_seen: LastSeen,
    pub feed: broadcast::Sender<Arc<Record>>,
    /// Of those who follow the feed, how many need not be waited for.
    pub idle_followers: Arc<AtomicUsize>,
    /// Called when the disk failed: the process must end.
    pub fatal: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Actor for Shell {
    type Msg = Msg;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Msg>,
        arguments: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let to_self = myself.clone();
        let listener = Arc::new(move |outcome| {
            // An actor that is gone has nobody waiting for the outcome.
            let _ = to_self.send_message(Msg::Journal(outcome));
        });
        let opened = arguments.journal.open(&arguments.id, listener).await?;
        let mut state = State::replayed(arguments, opened, myself.clone())?;
        state.tick();
        state.set_alarm(&myself);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        message: Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.listen();
        match message {
            Msg::Run(task) => task(state),
            Msg::Journal(outcome) => state.journal(outcome, &myself),
            Msg::Tick => {
                // One alarm at a time: this tick may be of an older one than the one set.
                if let Some((_, alarm)) = state.alarm.take() {
                    alarm.abort();
                }
                state.tick();
                if state.is_idle() {
                    state.fall_asleep(&myself);
                    return Ok(());
                }
            }
            Msg::Snapshotted(made) => {
                state.snapshotted(made);
                if state.is_idle() {
                    state.fall_asleep(&myself);
                    return Ok(());
                }
            }
        }
        state.set_alarm(&myself);
        Ok(())
    }
}
