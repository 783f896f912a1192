//! What a workspace's actor knows and does: decide, apply, queue, and let out what is durable.
//!
//! - [`replay`]: the state that a journal's records make.
//! - [`waiting`]: parked waits and what ends them.
//! - [`swarm`]: the same for issues, tasks, locks and deliveries. [`run`]: for runs.
//! - [`observe`]: what is counted for metrics.
//! - [`compact`]: bodies that nothing names any more.
//! - [`time`]: signs of life, leases, holds, and falling asleep.

pub(super) mod compact;
pub(super) mod observe;
pub(super) mod replay;
pub(super) mod run;
mod swarm;
mod time;
mod waiting;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use ractor::ActorRef;
use tasuki_proto::{
    id::{IdempotencyKey, NodeId, RoleId, Sequence, Timestamp},
    run::{RunId, StepId},
    swarm::{IssueId, TaskNumber},
};
use tokio::{
    sync::{oneshot, watch},
    task::AbortHandle,
};
use tracing::{debug, error, warn};

use self::observe::UnhandedLetters;
use super::{
    actor::{Arguments, Executed, Msg, OnDurable, View},
    offers::Offers,
    snapshots::{Failure, Job, Source},
    waits::Waits,
};
use crate::{
    hash::Hash,
    journal::{Append, Outcome, Writer, codec},
    rules::{
        Caller, Command, Context, Decision, Event, Principal, Record, Rejection, Request,
        Workspace, directory,
    },
};

/// Records after which a snapshot is taken, at least: they bound what a restart replays and are
/// what a feed can go back to.
const SNAPSHOT_RECORDS: u64 = 4096;

/// Bytes of snapshot that one record pays for: a large state is written out less often.
const SNAPSHOT_BYTES_PER_RECORD: u64 = 512;

/// A state of so many bytes, written out, is copied for its snapshot: some hundred microseconds. A
/// larger one is made again from the journal.
const COPIED_BYTES_MAX: u64 = 256 * 1024;

/// How the log says that one was not made.
const NO_SNAPSHOT: &str = "there is no new snapshot";

/// What a workspace's actor knows.
pub(super) struct State {
    arguments: Arguments,
    writer: Box<dyn Writer>,
    myself: ActorRef<Msg>,
    incarnation: [u8; 16],
    workspace: Workspace,
    context: Context,
    /// Added to the clock so that time never goes back behind the latest record.
    behind_ms: u64,
    durable: Sequence,
    pending: VecDeque<(Sequence, OnDurable)>,
    unpublished: VecDeque<Arc<Record>>,
    pub(super) waits: Waits,
    offers: Offers<(IssueId, TaskNumber), RoleId>,
    step_offers: Offers<StepId, NodeId>,
    /// Runs that somebody watches.
    watched: BTreeMap<RunId, watch::Sender<()>>,
    /// For nodes that do phases of pipelines.
    phases_changed: watch::Sender<()>,
    /// Tasks that came back to workers of whom nobody waited; told to whoever waits next.
    returned_tasks: BTreeMap<RoleId, (IssueId, TaskNumber)>,
    snapshot: SnapshotState,
    /// Closed once no snapshot is being made.
    snapshot_waits: Vec<oneshot::Sender<()>>,
    unhanded: UnhandedLetters,
    last_active: Timestamp,
    /// When time was looked at last.
    ticked: Timestamp,
    pub(super) alarm: Option<(Timestamp, AbortHandle)>,
}

/// However this actor ends, by a panic too: whoever holds a handle must ask for another.
impl Drop for State {
    fn drop(&mut self) {
        self.arguments.admission.close();
    }
}

/// The newest snapshot, and the next.
struct SnapshotState {
    at: Sequence,
    bytes: u64,
    /// Bytes of the records since.
    grown: u64,
    /// Being made: of which record, and `grown` when it was begun.
    under_way: Option<(Sequence, u64)>,
    /// Of which record none could be made.
    failed: Option<Sequence>,
}

impl State {
    pub(super) fn now(&self) -> Timestamp {
        self.arguments.clock.now().plus_millis(self.behind_ms).max(self.workspace.time)
    }

    /// Executes what a caller asks for, which is a sign of life.
    pub(super) fn execute(&mut self, request: &Request) -> Result<Executed, Rejection> {
        let now = self.now();
        self.last_active = now;
        let executed = self.commit_command(now, request)?;
        let role = request.command.role();
        if self.caller_seen(now, &request.caller, role)
            && let Command::Directory(directory::Command::Register(it)) = &request.command
        {
            self.context.presence.node_seen(&it.node, now);
        }
        Ok(executed)
    }

    /// Executes the command that `prepare` makes of the state, or returns why it makes none. With an
    /// answer under the key that is given again, and `prepare` is not called: what the caller named
    /// may be another thing by now.
    pub(super) fn execute_prepared<T, E>(
        &mut self,
        caller: Caller,
        key: Option<(IdempotencyKey, Hash)>,
        role: &RoleId,
        prepare: impl FnOnce(&View<'_>) -> Result<(Command, T), E>,
    ) -> Result<Result<(Executed, Option<T>), E>, Rejection> {
        let now = self.now();
        self.last_active = now;
        if let Some(answered) = self.workspace.answered(now, &caller, Some(role), key.as_ref())? {
            self.caller_seen(now, &caller, Some(role));
            return Ok(Ok((self.unrecorded(answered), None)));
        }
        self.workspace.directory.check(&caller, Some(role))?;
        let (command, prepared) = match prepare(&self.view()) {
            Ok(prepared) => prepared,
            Err(why) => return Ok(Err(why)),
        };
        let executed = self.execute(&Request { caller, key, command })?;
        Ok(Ok((executed, Some(prepared))))
    }

    /// Takes a call for a sign of life, and says whether its caller may give one: an answer that is
    /// given again rests on no check of who asks.
    fn caller_seen(&mut self, now: Timestamp, caller: &Caller, role: Option<&RoleId>) -> bool {
        if self.workspace.directory.check(caller, role).is_err() {
            return false;
        }
        if let Some((node, _)) = &caller.node {
            self.context.presence.node_seen(node, now);
        }
        if let Some(role) = role {
            self.context.presence.role_seen(role, now);
        }
        true
    }

    /// Decides, applies, queues the record, wakes who waited for it.
    pub(super) fn commit_command(
        &mut self,
        now: Timestamp,
        request: &Request,
    ) -> Result<Executed, Rejection> {
        let decision = self.workspace.decide(now, &self.context, request)?;
        if !decision.is_recorded(request) {
            return Ok(self.unrecorded(decision));
        }
        let principal = Principal {
            node: request.caller.node.as_ref().map(|(node, _)| node.clone()),
            role: request.command.role().cloned(),
            person: request.command.person().cloned(),
            token: request.caller.token.clone(),
        };
        let (sequence, key) = (self.workspace.sequence.next(), request.key.clone());
        let (record, bodies) = decision.into_record(sequence, now, principal, key);
        let record = Arc::new(record);
        self.workspace.apply(&record);
        let metrics = &self.arguments.metrics;
        self.unhanded.note(now, &record.events, &self.workspace, metrics);
        let bytes = codec::encode_record(&record, &self.incarnation);
        self.snapshot.grown += bytes.len() as u64;
        self.writer.append(Append {
            sequence: record.sequence,
            record: bytes,
            bodies: bodies.iter().flat_map(codec::encode_body).collect(),
            // Each names an entry of a history, which is written once.
            are_bodies_new: true,
        });
        self.wake_for(&record.events);
        if record.events.iter().any(|event| matches!(event, Event::Directory(_))) {
            self.end_fenced_waits();
        }
        let executed = Executed {
            reply: record.reply.clone(),
            is_repeat: record.is_repeat,
            sequence: record.sequence,
            recorded: Some(record.time),
        };
        self.unpublished.push_back(record);
        if self.is_snapshot_due() {
            self.take_snapshot();
        }
        Ok(executed)
    }

    /// The answer to a command that makes no record.
    fn unrecorded(&self, decision: Decision) -> Executed {
        let sequence = decision.answered_by.unwrap_or(self.workspace.sequence);
        let is_repeat = decision.is_repeat;
        Executed { reply: decision.reply, is_repeat, sequence, recorded: None }
    }

    /// What a query sees; one that asks keeps this awake.
    pub(super) fn query(&mut self) -> View<'_> {
        self.last_active = self.now();
        self.view()
    }

    pub(super) fn view(&self) -> View<'_> {
        let now = self.now();
        View { workspace: &self.workspace, context: &self.context, waits: &self.waits, now }
    }

    /// Lets something out once the state it rests on is durable (S2).
    pub(super) fn release(&mut self, release: OnDurable) {
        if self.workspace.sequence <= self.durable {
            release();
        } else {
            self.pending.push_back((self.workspace.sequence, release));
        }
    }

    pub(super) fn journal(&mut self, outcome: Outcome, myself: &ActorRef<Msg>) {
        match outcome {
            Outcome::Durable { through } => {
                self.durable = self.durable.max(through);
                while let Some(record) = self.unpublished.front()
                    && record.sequence <= self.durable
                {
                    let record = self.unpublished.pop_front().expect("just seen");
                    // Nobody may be listening.
                    let _ = self.arguments.feed.send(record);
                }
                while let Some((sequence, _)) = self.pending.front()
                    && *sequence <= self.durable
                {
                    let (_, release) = self.pending.pop_front().expect("just seen");
                    release();
                }
            }
            Outcome::Fenced | Outcome::Ambiguous => {
                warn!(workspace = %self.arguments.id, ?outcome, "the journal has another writer");
                self.arguments.admission.close();
                myself.stop(Some("fenced".to_owned()));
            }
            Outcome::Failed => {
                error!(workspace = %self.arguments.id, "the journal failed");
                (self.arguments.fatal)("a durable write failed");
                myself.stop(Some("journal failed".to_owned()));
            }
        }
    }

    pub(super) fn is_snapshot_due(&self) -> bool {
        let since = self.snapshot.failed.unwrap_or_default().max(self.snapshot.at);
        let records = self.workspace.sequence.get() - since.get();
        SNAPSHOT_RECORDS.max(self.snapshot.bytes / SNAPSHOT_BYTES_PER_RECORD) <= records
    }

    /// Has a snapshot made beside this actor, unless one is being made or there is nothing new.
    pub(super) fn take_snapshot(&mut self) {
        // Feeds can go back to the snapshot before.
        self.begin_snapshot(self.snapshot.at.next());
    }

    /// The same; records before `keep_from` may be dropped then.
    fn begin_snapshot(&mut self, keep_from: Sequence) {
        let bytes = self.snapshot.bytes + self.snapshot.grown;
        let is_small = bytes <= COPIED_BYTES_MAX;
        // The journal gives what is durable.
        let through = if is_small { self.workspace.sequence } else { self.durable };
        if self.snapshot.under_way.is_some() || through <= self.snapshot.at {
            return;
        }
        let source = match is_small {
            true => Source::Copy(Box::new(self.workspace.clone())),
            false => Source::Journal(through),
        };
        self.snapshot.under_way = Some((through, self.snapshot.grown));
        let myself = self.myself.clone();
        self.arguments.snapshots.make(Job {
            workspace: self.arguments.id.clone(),
            journal: self.arguments.journal.clone(),
            source,
            bytes,
            writer: self.writer.snapshot(through, keep_from),
            done: Box::new(move |made| {
                // An actor that is gone has no use for it.
                let _ = myself.send_message(Msg::Snapshotted(made));
            }),
        });
    }

    pub(super) fn snapshotted(&mut self, made: Result<u64, Failure>) {
        let Some((through, grown)) = self.snapshot.under_way.take() else { return };
        self.snapshot_waits.clear();
        match made {
            Ok(bytes) => {
                self.arguments.metrics.snapshots.add(1);
                self.arguments.metrics.snapshot_bytes.add(bytes);
                let grown = self.snapshot.grown - grown;
                self.snapshot =
                    SnapshotState { at: through, bytes, grown, under_way: None, failed: None };
            }
            Err(error) => {
                self.arguments.metrics.snapshots_failed.add(1);
                // Tried again and again, and said once.
                match self.snapshot.failed {
                    None => warn!(workspace = %self.arguments.id, %error, "{NO_SNAPSHOT}"),
                    Some(_) => debug!(workspace = %self.arguments.id, %error, "{NO_SNAPSHOT}"),
                }
                self.snapshot.failed = Some(through);
            }
        }
    }
}
