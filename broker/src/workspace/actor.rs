//! The actor of a workspace, the only writer of its state and journal (S1): messages in, calls of
//! [`State`].

use std::{
    fmt,
    sync::{Arc, atomic::AtomicUsize},
};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tasuki_proto::id::{NodeId, RoleId, Sequence, Timestamp, WorkspaceId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, oneshot};

use super::{
    handle::Admitted,
    pulse::Pulse,
    snapshots::{Failure, Snapshots},
    state::State,
    waits::{Question, WaitId, WaitReply, Waits},
};
use crate::{
    clock::Clock,
    journal::{Journal, Outcome},
    rules::{Caller, Context, Record, Rejection, Reply, Request, Workspace},
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
pub(super) type OnDurable = Box<dyn FnOnce() + Send>;

pub(super) type Look = Box<dyn FnOnce(&View<'_>) -> OnDurable + Send>;

/// A permit in a message keeps its workspace awake until the message was handled.
pub(super) enum Msg {
    Execute {
        request: Box<Request>,
        reply: oneshot::Sender<Result<Executed, Rejection>>,
        permit: Admitted,
    },
    Look(Look),
    Park {
        question: Question,
        caller: Caller,
        id: WaitId,
        hold_ms: u64,
        sink: WaitReply,
        permit: OwnedSemaphorePermit,
    },
    Cancel {
        question: Question,
        id: WaitId,
    },
    Decline {
        role: RoleId,
        caller: Caller,
        permit: OwnedSemaphorePermit,
    },
    Seen {
        node: NodeId,
        /// Role, how long ago, client.
        roles: Vec<(RoleId, u64, String)>,
        permit: OwnedSemaphorePermit,
    },
    Journal(Outcome),
    Tick,
    /// The snapshot that was to be made: how many bytes it has.
    Snapshotted(Result<u64, Failure>),
    /// Take a snapshot, so that old commits can be dropped.
    Snapshot {
        permit: OwnedSemaphorePermit,
    },
    /// End every wait with what holds: the broker is stopping.
    EndWaits,
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

/// What a read sees.
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
            Msg::Execute { request, reply, permit } => state.execute(&request, reply, permit),
            Msg::Look(look) => state.look(look),
            Msg::Park { question, caller, id, hold_ms, sink, permit } => {
                state.park(question, caller, id, hold_ms, sink);
                drop(permit);
            }
            Msg::Cancel { question, id } => state.waits.cancel(&question, id),
            Msg::Decline { role, caller, permit } => {
                state.decline(&role, &caller);
                drop(permit);
            }
            Msg::Seen { node, roles, permit } => {
                state.seen(&node, &roles);
                drop(permit);
            }
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
            Msg::Snapshot { permit } => {
                state.take_snapshot();
                drop(permit);
            }
            Msg::Snapshotted(made) => {
                state.snapshotted(made);
                if state.is_idle() {
                    state.fall_asleep(&myself);
                    return Ok(());
                }
            }
            Msg::EndWaits => state.end_waits(),
        }
        state.set_alarm(&myself);
        Ok(())
    }
}
