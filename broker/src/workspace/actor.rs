//! The only writer of a workspace (S1).

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tasuki_proto::id::{NodeId, RoleId, Sequence, Timestamp, WorkspaceId};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, broadcast, oneshot},
    task::AbortHandle,
};
use tracing::{error, info, warn};

use super::{
    handle::IN_FLIGHT_MAX,
    waits::{Parked, Question, Sink, Told, WAITS_MAX, WaitId, Waits},
};
use crate::{
    clock::Clock,
    journal::{Append, Journal, JournalError, Opened, Outcome, Writer, codec},
    rules::{
        Command, Context, Principal, Record, Rejection, Reply, Request, Workspace,
        presence::Presence, turn::Standing,
    },
};

/// Records after which a snapshot is taken, at least: they bound what a restart replays and are
/// what a feed can go back to.
const SNAPSHOT_RECORDS: u64 = 4096;

/// Bytes of snapshot that one record pays for: a large state is written out less often.
const SNAPSHOT_BYTES_PER_RECORD: u64 = 512;

/// Quiet time after which a workspace leaves memory, in milliseconds, unless configured.
pub const IDLE_MS: u64 = 60_000;

/// Records read at once when a workspace wakes.
const REPLAY_RECORDS: usize = 1024;

/// What every workspace of a broker shares.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Of a held turn, in milliseconds.
    pub lease_ms: u64,
    /// Quiet time after which a workspace leaves memory, in milliseconds.
    pub idle_ms: u64,
}

/// Lets out what waited for the disk.
pub(super) type Release = Box<dyn FnOnce() + Send>;

type Look = Box<dyn FnOnce(&View<'_>) -> Release + Send>;

/// A permit in a message keeps its workspace awake until the message was handled.
pub(super) enum Msg {
    Execute {
        request: Box<Request>,
        reply: oneshot::Sender<Result<Executed, Rejection>>,
        permit: OwnedSemaphorePermit,
    },
    Look(Look),
    Park {
        question: Question,
        id: WaitId,
        hold_ms: u64,
        sink: Sink,
        permit: OwnedSemaphorePermit,
    },
    Cancel {
        question: Question,
        id: WaitId,
    },
    Seen {
        node: NodeId,
        /// Role, how long ago, client.
        roles: Vec<(RoleId, u64, String)>,
        permit: OwnedSemaphorePermit,
    },
    Journal(Outcome),
    Tick,
    /// Take a snapshot, so that old commits can be dropped.
    Snapshot {
        permit: OwnedSemaphorePermit,
    },
    /// End every wait with what holds: the broker is stopping.
    EndWaits,
}

/// ractor wants messages to be `Debug`-free; this names them for logs.
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
    /// When the broker began to listen.
    pub since: Timestamp,
    pub settings: Settings,
    pub admission: Arc<Semaphore>,
    pub feed: broadcast::Sender<Arc<Record>>,
    /// Called when the disk failed: the process must end.
    pub fatal: Arc<dyn Fn(&str) + Send + Sync>,
}

pub(super) struct State {
    arguments: Arguments,
    writer: Box<dyn Writer>,
    incarnation: [u8; 16],
    workspace: Workspace,
    context: Context,
    /// Added to the clock so that time never goes back behind the latest record.
    behind_ms: u64,
    durable: Sequence,
    pending: VecDeque<(Sequence, Release)>,
    unpublished: VecDeque<Arc<Record>>,
    waits: Waits,
    snapshot: SnapshotState,
    last_active: Timestamp,
    alarm: Option<(Timestamp, AbortHandle)>,
}

/// However this actor ends, by a panic too: whoever holds a handle must ask for another.
impl Drop for State {
    fn drop(&mut self) {
        self.arguments.admission.close();
    }
}

struct SnapshotState {
    at: Sequence,
    /// The snapshot before: feeds can go back to it.
    before: Sequence,
    bytes: u64,
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
        let mut state = State::replayed(arguments, opened)?;
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
        match message {
            Msg::Execute { request, reply, permit } => state.execute(&request, reply, permit),
            Msg::Look(look) => state.look(look),
            Msg::Park { question, id, hold_ms, sink, permit } => {
                state.park(question, id, hold_ms, sink);
                drop(permit);
            }
            Msg::Cancel { question, id } => state.waits.cancel(&question, id),
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
            Msg::EndWaits => state.end_waits(),
        }
        state.set_alarm(&myself);
        Ok(())
    }
}

impl State {
    /// The state that the journal's records make.
    fn replayed(arguments: Arguments, opened: Opened) -> Result<Self, JournalError> {
        let id = &arguments.id;
        let damaged = |sequence: Sequence, what: String| JournalError::Damaged {
            place: format!("workspace {id}, sequence {sequence}"),
            what,
        };
        let mut snapshot = SnapshotState { at: Sequence::NONE, before: Sequence::NONE, bytes: 0 };
        let mut workspace = match opened.snapshot {
            None => Workspace::default(),
            Some((sequence, bytes)) => {
                snapshot =
                    SnapshotState { at: sequence, before: sequence, bytes: bytes.len() as u64 };
                let decoded = codec::decode_snapshot(bytes);
                decoded.map_err(|e| damaged(sequence, format!("snapshot: {e}")))?
            }
        };
        if workspace.sequence != snapshot.at {
            let what = format!("the snapshot is of sequence {}", workspace.sequence);
            return Err(damaged(snapshot.at, what));
        }
        while workspace.sequence < opened.last {
            let from = workspace.sequence.next();
            let records = arguments.journal.read(id, from, REPLAY_RECORDS)?;
            if records.is_empty() {
                return Err(damaged(from, format!("missing; the newest is {}", opened.last)));
            }
            for stored in records {
                let record = codec::decode_record(stored.record);
                let record = record.map_err(|e| damaged(stored.sequence, e.to_string()))?;
                if record.sequence != workspace.sequence.next() {
                    let what = format!("the record says {}", record.sequence);
                    return Err(damaged(stored.sequence, what));
                }
                workspace.apply(&record);
            }
        }
        let behind_ms = workspace.time.millis_since(arguments.clock.now());
        let presence = Presence::new(arguments.since.max(workspace.time));
        let lease_ms = arguments.settings.lease_ms;
        let now = arguments.clock.now().plus_millis(behind_ms);
        Ok(Self {
            writer: opened.writer,
            incarnation: arguments.journal.incarnation(),
            context: Context { presence, lease_ms },
            behind_ms,
            durable: workspace.sequence,
            workspace,
            pending: VecDeque::new(),
            unpublished: VecDeque::new(),
            waits: Waits::default(),
            snapshot,
            last_active: now,
            alarm: None,
            arguments,
        })
    }

    fn now(&self) -> Timestamp {
        self.arguments.clock.now().plus_millis(self.behind_ms).max(self.workspace.time)
    }

    fn execute(
        &mut self,
        request: &Request,
        reply: oneshot::Sender<Result<Executed, Rejection>>,
        permit: OwnedSemaphorePermit,
    ) {
        let now = self.now();
        self.last_active = now;
        let answer = self.carry_out(now, request);
        if answer.is_ok() {
            if let Some((node, _)) = &request.caller.node {
                self.context.presence.node_seen(node, now);
            }
            if let Command::Register(it) = &request.command {
                self.context.presence.node_seen(&it.node, now);
            }
            if let Some(role) = request.command.role() {
                self.context.presence.role_seen(role, now, None);
            }
        }
        self.release(Box::new(move || {
            drop(permit);
            // The caller may have stopped waiting; what it asked for stands all the same.
            let _ = reply.send(answer);
        }));
    }

    /// Decides, applies, queues the record, wakes who waited for it.
    fn carry_out(&mut self, now: Timestamp, request: &Request) -> Result<Executed, Rejection> {
        let decision = self.workspace.decide(now, &self.context, request)?;
        if decision.events.is_empty() {
            let sequence = decision.answered_by.unwrap_or(self.workspace.sequence);
            let is_repeat = decision.is_repeat;
            return Ok(Executed { reply: decision.reply, is_repeat, sequence });
        }
        let record = Arc::new(Record {
            sequence: self.workspace.sequence.next(),
            time: now,
            principal: Principal {
                node: request.caller.node.as_ref().map(|(node, _)| node.clone()),
                role: request.command.role().cloned(),
                person: request.command.person().cloned(),
                token_id: String::new(),
            },
            key: request.key.clone(),
            events: decision.events,
            reply: decision.reply,
        });
        self.workspace.apply(&record);
        self.writer.append(Append {
            sequence: record.sequence,
            record: codec::encode_record(&record, &self.incarnation),
            bodies: decision.bodies.iter().map(codec::encode_body).collect(),
        });
        for event in &record.events {
            if let Some(loop_id) = event.loop_id() {
                self.wake(&loop_id.clone());
            }
        }
        let executed =
            Executed { reply: record.reply.clone(), is_repeat: false, sequence: record.sequence };
        self.unpublished.push_back(record);
        if self.is_snapshot_due() {
            self.take_snapshot();
        }
        Ok(executed)
    }

    fn look(&mut self, look: Look) {
        let now = self.now();
        self.last_active = now;
        let view =
            View { workspace: &self.workspace, context: &self.context, waits: &self.waits, now };
        let release = look(&view);
        self.release(release);
    }

    fn park(&mut self, question: Question, id: WaitId, hold_ms: u64, sink: Sink) {
        let now = self.now();
        self.last_active = now;
        let mut told = self.tell(&question);
        if let Ok(it) = &told {
            self.context.presence.role_seen(&question.role, now, None);
            let is_holder = it.answer.standing == Standing::CanStart;
            if is_holder && self.workspace.loops.is_lapsed(&question.loop_id) {
                self.tick();
                told = self.tell(&question);
            }
        }
        let is_over = match &told {
            Err(_) => true,
            Ok(told) => told.answer.standing != Standing::NotYet || hold_ms == 0,
        };
        if is_over {
            return self.release(Box::new(move || sink(told)));
        }
        if WAITS_MAX <= self.waits.len() {
            return self.release(Box::new(move || sink(Err(Rejection::TooManyWaits))));
        }
        let deadline = now.plus_millis(hold_ms);
        let Some(older) = self.waits.park(question, id, deadline, sink) else { return };
        let told = told.map(|told| Told { is_superseded: true, ..told });
        self.release(Box::new(move || (older.sink)(told)));
    }

    fn tell(&self, question: &Question) -> Result<Told, Rejection> {
        let answer = self.workspace.loops.answer(&question.loop_id, &question.role)?;
        Ok(Told { answer, is_superseded: false, sequence: self.workspace.sequence })
    }

    /// Ends the waits of a loop that its state now answers.
    fn wake(&mut self, loop_id: &tasuki_proto::id::LoopId) {
        let Some(state) = self.workspace.loops.by_id.get(loop_id) else { return };
        let roles: Vec<RoleId> = match &state.holder {
            Some(holder) => vec![holder.clone()],
            None => self.waits.roles(loop_id).cloned().collect(),
        };
        for role in roles {
            let question = Question { loop_id: loop_id.clone(), role };
            if let Some(parked) = self.waits.take(&question) {
                self.end_wait(&question, parked);
            }
        }
    }

    fn end_wait(&mut self, question: &Question, parked: Parked) {
        let now = self.now();
        self.context.presence.role_seen(&question.role, now, None);
        let told = self.tell(question);
        self.release(Box::new(move || (parked.sink)(told)));
    }

    fn end_waits(&mut self) {
        let questions: Vec<Question> = self.waits.questions().cloned().collect();
        for question in questions {
            if let Some(parked) = self.waits.take(&question) {
                self.end_wait(&question, parked);
            }
        }
    }

    /// Takes a node's word for the roles it hosts: what else it names is not kept.
    fn seen(&mut self, node: &NodeId, roles: &[(RoleId, u64, String)]) {
        let now = self.now();
        self.last_active = now;
        let Some(registered) = self.workspace.directory.nodes.get(node) else { return };
        self.context.presence.node_seen(node, now);
        for (role, quiet_ms, client) in roles {
            if !registered.roles.iter().any(|spec| spec.role == *role) {
                continue;
            }
            let at = now.minus_millis(*quiet_ms);
            self.context.presence.role_seen(role, at, Some(client));
        }
        if self.workspace.loops.has_lapsed() {
            self.tick();
        }
    }

    /// What the passing of time brings: holds that are over, renewals, lapses.
    fn tick(&mut self) {
        let now = self.now();
        for role in self.waits.waiting() {
            self.context.presence.role_seen(role, now, None);
        }
        for (question, parked) in self.waits.take_due(now) {
            self.end_wait(&question, parked);
        }
        let request =
            Request { caller: crate::rules::Caller::default(), key: None, command: Command::Tick };
        if let Err(rejection) = self.carry_out(now, &request) {
            unreachable!("a tick is never refused: {rejection}");
        }
    }

    /// Lets something out once the state it rests on is durable (S2).
    fn release(&mut self, release: Release) {
        if self.workspace.sequence <= self.durable {
            release();
        } else {
            self.pending.push_back((self.workspace.sequence, release));
        }
    }

    fn journal(&mut self, outcome: Outcome, myself: &ActorRef<Msg>) {
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

    fn is_snapshot_due(&self) -> bool {
        let records = self.workspace.sequence.get() - self.snapshot.at.get();
        SNAPSHOT_RECORDS.max(self.snapshot.bytes / SNAPSHOT_BYTES_PER_RECORD) <= records
    }

    fn take_snapshot(&mut self) {
        if self.workspace.sequence == self.snapshot.at {
            return;
        }
        let state: Bytes = codec::encode_snapshot(&self.workspace);
        let before = self.snapshot.at;
        self.snapshot =
            SnapshotState { at: self.workspace.sequence, before, bytes: state.len() as u64 };
        self.writer.snapshot(self.workspace.sequence, state, self.snapshot.before.next());
    }

    fn is_idle(&self) -> bool {
        let quiet_ms = self.now().millis_since(self.last_active);
        self.arguments.settings.idle_ms <= quiet_ms
            && self.waits.is_empty()
            && self.pending.is_empty()
            && self.workspace.next_deadline(self.now(), self.context.lease_ms).is_none()
            && self.arguments.feed.receiver_count() == 0
    }

    /// Leaves memory. Whoever holds a handle is told to ask again by its closed admission.
    fn fall_asleep(&mut self, myself: &ActorRef<Msg>) {
        let all = u32::try_from(IN_FLIGHT_MAX).expect("a small number");
        let Ok(_everything) = self.arguments.admission.clone().try_acquire_many_owned(all) else {
            return self.set_alarm(myself);
        };
        // The next writer opens the journal behind this.
        self.take_snapshot();
        self.arguments.admission.close();
        info!(workspace = %self.arguments.id, sequence = %self.workspace.sequence, "asleep");
        myself.stop(Some("idle".to_owned()));
    }

    /// Sends this actor a tick at the next moment that needs one.
    fn set_alarm(&mut self, myself: &ActorRef<Msg>) {
        let now = self.now();
        let idle = self.last_active.plus_millis(self.arguments.settings.idle_ms);
        let deadlines = [
            self.waits.next_deadline(),
            self.workspace.next_deadline(now, self.context.lease_ms),
            Some(idle.max(now.plus_millis(IDLE_CHECK_MS_MIN))),
        ];
        let Some(next) = deadlines.into_iter().flatten().min() else { return };
        if let Some((set, alarm)) = &self.alarm {
            if *set <= next {
                return;
            }
            alarm.abort();
        }
        let wait = Duration::from_millis(next.millis_since(now));
        let timer = myself.send_after(wait, || Msg::Tick);
        self.alarm = Some((next, timer.abort_handle()));
    }
}

/// Between two looks at whether a workspace has become idle, in milliseconds.
const IDLE_CHECK_MS_MIN: u64 = 1000;
