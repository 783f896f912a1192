//! The broker's rules, and nothing else.
//!
//! [`Workspace`] is a deterministic state machine with two verbs:
//!
//! - [`Workspace::decide`] reads: what would this command do, or why not?
//! - [`Workspace::apply`] writes: this happened. It cannot refuse.
//!
//! Whoever calls them puts the record on disk in between, or right behind, and lets nothing out
//! before it is durable. One folder per noun: [`turn`] (loops), [`directory`] (nodes and roles),
//! [`mailbox`] (threads and boxes), [`swarm`] (issues, tasks, locks, deliveries), [`privacy`]
//! (rosters and keys of private mail), [`run`] (runs of sub-agents), [`access`] (invitations and
//! tokens), [`call`] (calls of exported tools), [`board`] (shared state with checkpoints),
//! [`pipeline`] (phases that roles do one after another); `noun`
//! registers them.
//! [`guard`] pauses what goes on for too long without a person, [`clients`] remembers answers,
//! [`presence`] who gave a sign of life, `compact` removes what is over, `restored` voids what was
//! granted before a restore.
//!
//! # Invariants
//!
//! - **W1** Applying the records from the start gives the state that wrote them.
//! - **W2** Sequences of applied records increase by one.
//! - **W3** A command takes effect at most once per token and idempotency key (see [`clients`]).
//! - **W4** A refused command changes nothing: `decide` borrows.
//! - T1…T6 of [`turn`], D1…D3 of [`directory`], R1…R3 of [`access`], X1…X6 of
//!   [`mailbox`], Y3…Y5 of [`privacy`], I1…I8 of [`swarm`], RU1…RU6 of [`run`], GD1…GD2 of
//!   [`guard`], CL1 of [`call`], BD1…BD6 of [`board`], PL1…PL5 of [`pipeline`].
//!
//! A1: no clock, no randomness, no IO and no `async` in this folder.
//! `tests/broker/tidy.rs` holds it to that.

pub mod access;
pub mod board;
pub mod call;
pub mod clients;
mod compact;
pub mod directory;
pub mod guard;
pub mod lease;
pub mod mailbox;
mod noun;
pub mod pipeline;
pub mod presence;
pub mod privacy;
mod record;
mod rejection;
mod restored;
pub mod run;
pub mod swarm;
pub mod turn;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tasuki_proto::id::{IdempotencyKey, LoopId, RoleId, Sequence, Timestamp, Turn};

pub(crate) use self::rejection::listed;
use self::rejection::listed_for;
use self::{
    access::Access,
    board::Boards,
    call::Calls,
    clients::{Answer, Clients},
    directory::Directory,
    guard::{Guard, Usage},
    mailbox::Mailboxes,
    pipeline::Pipelines,
    presence::Presence,
    privacy::Privacy,
    run::{Reports, Runs},
    swarm::Swarm,
    turn::Loops,
};
pub use self::{
    compact::{Compact, CompactKind, TextOwner},
    noun::{Acting, Asked, Command, Event, Kept, Needs, Reply, SnapshotItem},
    record::{Caller, Principal, ReceiptKind, Record, Request},
    rejection::Rejection,
    restored::Fence,
};
use crate::hash::Hash;

/// Everything the broker knows of one workspace, derived from the records applied so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workspace {
    pub sequence: Sequence,
    /// Of the latest record.
    pub time: Timestamp,
    pub clients: Clients,
    pub directory: Directory,
    pub loops: Loops,
    pub mail: Mailboxes,
    pub privacy: Privacy,
    pub swarm: Swarm,
    pub runs: Runs,
    pub guard: Guard,
    pub calls: Calls,
    pub boards: Boards,
    pub pipelines: Pipelines,
    /// Of the system workspace; empty in any other.
    pub access: Access,
}

/// What is true around a workspace and not in its journal.
#[derive(Debug, Clone)]
pub struct Context {
    pub presence: Presence,
    /// Of a held turn, in milliseconds.
    pub lease_ms: u64,
    /// The newest turn of each loop that its holder was told of. Soft state like [`presence`]:
    /// after a restart the receipts say who was.
    pub told: BTreeMap<LoopId, Turn>,
    /// What nodes said last of the steps that they run. Soft state.
    pub reports: Reports,
}

impl Context {
    /// Nothing was reported yet.
    pub fn new(presence: Presence, lease_ms: u64) -> Self {
        Self { presence, lease_ms, told: BTreeMap::new(), reports: Reports::new() }
    }
}

/// What to put on disk, and what to say once it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Decision {
    /// Empty when the command asks for what is already so.
    pub events: Vec<Event>,
    /// What is too large for the record, kept beside it.
    pub bodies: Vec<Body>,
    pub reply: Reply,
    /// The intent had been carried out before.
    pub is_repeat: bool,
    /// The record that first answered this key.
    pub answered_by: Option<Sequence>,
}

/// A body that a record names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    Entry(turn::EntryBody),
    Mail(mailbox::EntryBody),
    File(mailbox::FileBody),
    Swarm(swarm::Words),
    Run(run::Words),
    Board(board::Value),
    BoardResult(board::ResultValue),
}

impl Decision {
    /// Whether there is something to keep: what happened, or the answer to a new key.
    pub fn is_recorded(&self, request: &Request) -> bool {
        let is_new_answer = self.is_repeat && self.answered_by.is_none() && request.key.is_some();
        !self.events.is_empty() || is_new_answer
    }

    /// The record of it, with the bodies that it names.
    pub fn into_record(
        self,
        sequence: Sequence,
        time: Timestamp,
        principal: Principal,
        key: Option<(IdempotencyKey, Hash)>,
    ) -> (Record, Vec<Body>) {
        let Self { events, bodies, reply, is_repeat, answered_by: _ } = self;
        (Record { sequence, time, principal, key, events, reply, is_repeat }, bodies)
    }

    fn new<E: Into<Event>>(events: impl IntoIterator<Item = E>, reply: impl Into<Reply>) -> Self {
        let events = events.into_iter().map(Into::into).collect();
        let reply = reply.into();
        Self { events, bodies: Vec::new(), reply, is_repeat: false, answered_by: None }
    }

    fn repeat(reply: impl Into<Reply>) -> Self {
        Self { is_repeat: true, ..Self::new::<Event>([], reply) }
    }
}

impl Workspace {
    /// Says what `request` would do at `now`. Changes nothing (W4).
    ///
    /// # Errors
    /// A [`Rejection`] says why it would do nothing.
    pub fn decide(
        &self,
        now: Timestamp,
        context: &Context,
        request: &Request,
    ) -> Result<Decision, Rejection> {
        let (caller, role) = (&request.caller, request.command.role());
        if let Some(answered) = self.answered(now, caller, role, request.key.as_ref())? {
            return Ok(answered);
        }
        self.directory.check(caller, role)?;
        request.command.check_words(&self.privacy)?;
        self.check_running(&request.command)?;
        let asked = Asked { now, context, caller: &request.caller, workspace: self };
        let decision = self.decide_command(asked, &request.command)?;
        Ok(self.with_pauses(now, request, decision))
    }

    /// The answer that was given before under `key`; `None` where there is none. What the call
    /// names is not looked at: it may be another thing by now, or gone.
    ///
    /// # Errors
    /// A [`Rejection`] says why nothing is carried out under this key.
    pub fn answered(
        &self,
        now: Timestamp,
        caller: &Caller,
        role: Option<&RoleId>,
        key: Option<&(IdempotencyKey, Hash)>,
    ) -> Result<Option<Decision>, Rejection> {
        let Some((key, hash)) = key else { return Ok(None) };
        let answer = self.clients.answer(&caller.token, key, *hash, now).map_err(|why| {
            // Who fenced a node may have used up its keys, too: on a copy of its data.
            let is_fenced = |it: &Rejection| matches!(it, Rejection::StaleEpoch { .. });
            self.directory.check(caller, role).err().filter(is_fenced).unwrap_or(why)
        })?;
        Ok(answer.map(|answer| Decision {
            answered_by: Some(answer.sequence),
            is_repeat: answer.is_repeat,
            ..Decision::new::<Event>([], answer.reply.clone())
        }))
    }

    /// Whether there is such a role.
    ///
    /// # Errors
    /// [`Rejection::NoSuchRole`] names those there are.
    fn check_role_known(&self, role: &RoleId) -> Result<(), Rejection> {
        let known = self.known_roles();
        if known.contains(role) {
            return Ok(());
        }
        let known = listed_for(role.as_str(), known.iter().map(|it| it.as_str()));
        Err(Rejection::NoSuchRole { role: role.clone(), known })
    }

    /// The roles that a node hosts, that a loop names, that have a mailbox, or that are workers.
    fn known_roles(&self) -> BTreeSet<&RoleId> {
        let hosted = self.directory.nodes.values().flat_map(|it| &it.roles).map(|it| &it.role);
        let seated = self.loops.by_id.values().flat_map(|it| &it.participants);
        let mailboxes = self.mail.mailboxes().iter().map(|it| &it.role);
        hosted.chain(seated).chain(mailboxes).chain(self.swarm.workers.keys()).collect()
    }

    /// What the passing of time alone brings.
    fn decide_tick(&self, now: Timestamp, context: &Context) -> Decision {
        let (of_swarm, words) = self.swarm.decide_lapses(now, &context.presence);
        let mut decision = Decision::new(self.loops.decide_tick(now, context), Reply::Done);
        decision.events.extend(self.mail.decide_lapses(now).map(Event::from));
        decision.events.extend(of_swarm.into_iter().map(Event::from));
        decision.bodies.extend(words.into_iter().map(Body::Swarm));
        decision.events.extend(self.runs.decide_lapses(now, context).into_iter().map(Event::from));
        let (events, bodies) = self.pipelines.decide_lapses(now, context, self);
        decision.events.extend(events);
        decision.bodies.extend(bodies);
        decision
    }

    /// Records that this happened.
    pub fn apply(&mut self, record: &Record) {
        assert!(
            record.sequence == self.sequence.next(),
            "W2: record {} after {}",
            record.sequence,
            self.sequence
        );
        self.sequence = record.sequence;
        self.time = self.time.max(record.time);
        for event in &record.events {
            if let Event::Run(_) = event
                && let Some((role, usage)) = self.used_by(event)
            {
                let role = role.clone();
                self.guard.count(&role, usage, record.time);
            }
            self.apply_event(record.time, &record.principal, event);
            if let Event::Mail(mailbox::Event::Sent(it)) = event {
                self.guard.wrote(&it.sender);
            }
        }
        if let Some(role) = record.principal.role.as_ref().filter(|_| !record.events.is_empty()) {
            self.guard.count(role, Usage::ONE_CALL, record.time);
        }
        if let Some((key, hash)) = &record.key {
            let answer = Answer {
                request: *hash,
                sequence: record.sequence,
                reply: record.reply.clone(),
                is_repeat: record.is_repeat,
            };
            self.clients.remember(&record.principal.token, key, answer, record.time);
        }
    }

    /// The next moment at which [`Command::Tick`] may have something to do.
    pub fn next_deadline(&self, now: Timestamp, lease_ms: u64) -> Option<Timestamp> {
        let of_mail = self.mail.next_deadline();
        let of_swarm = self.swarm.next_deadline();
        let of_loops = self.loops.next_deadline(now, lease_ms).into_iter();
        let of_runs = self.runs.next_deadline().into_iter().chain(self.pipelines.next_deadline());
        of_loops.chain(of_mail).chain(of_swarm).chain(of_runs).min()
    }

    /// Whether something runs on a grace: [`Command::Tick`] has something to do once its holder
    /// was heard of, which no deadline tells.
    pub fn has_graced(&self) -> bool {
        self.loops.has_graced()
            || self.swarm.has_graced()
            || self.runs.has_graced()
            || self.pipelines.has_graced()
    }

    /// Whether a deadline must not pass while this is not in memory. Mail that lapses meanwhile
    /// lapses when somebody next looks, and nobody can tell.
    pub fn must_stay_awake(&self, now: Timestamp, lease_ms: u64) -> bool {
        self.loops.next_deadline(now, lease_ms).is_some()
            || self.swarm.is_held()
            || self.runs.is_held()
            || self.pipelines.is_held()
    }
}

#[cfg(test)]
mod tests;
