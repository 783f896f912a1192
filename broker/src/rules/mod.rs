//! The broker's rules, and nothing else.
//!
//! [`Workspace`] is a deterministic state machine with two verbs:
//!
//! - [`Workspace::decide`] reads: what would this command do, or why not?
//! - [`Workspace::apply`] writes: this happened. It cannot refuse.
//!
//! Whoever calls them puts the record on disk in between, or right behind, and lets nothing out
//! before it is durable. One folder per noun: [`turn`] (loops), [`directory`] (nodes and roles),
//! [`mailbox`] (threads and boxes), [`swarm`] (issues, tasks, locks, deliveries), [`privacy`] (rosters and keys of private mail), [`access`]
//! (invitations and tokens);
//! [`clients`] remembers answers, [`presence`] who gave a sign of life.
//!
//! # Invariants
//!
//! - **W1** Applying the records from the start gives the state that wrote them.
//! - **W2** Sequences of applied records increase by one.
//! - **W3** A command takes effect at most once per token and idempotency key (see [`clients`]).
//! - **W4** A refused command changes nothing: `decide` borrows.
//! - T1…T4 of [`turn`], D1…D3 of [`directory`], R1…R3 of [`access`], X1…X6 of
//!   [`mailbox`], Y3…Y5 of [`privacy`], I1…I8 of [`swarm`].
//!
//! A1: no clock, no randomness, no IO and no `async` in this folder.
//! `tests/broker/tidy.rs` holds it to that.

pub mod access;
pub mod clients;
mod command;
pub mod directory;
mod event;
pub mod mailbox;
pub mod presence;
pub mod privacy;
mod rejection;
pub mod swarm;
pub mod turn;

use std::collections::BTreeMap;

use tasuki_proto::id::{LoopId, Sequence, Timestamp, Turn};

pub(crate) use self::rejection::listed;
use self::{
    access::Access,
    clients::{Answer, Clients},
    directory::Directory,
    mailbox::Mailboxes,
    presence::Presence,
    privacy::Privacy,
    swarm::Swarm,
    turn::Loops,
};
pub use self::{
    command::{Caller, Command, Mark, Request},
    event::{Event, Principal, Record, Reply, TurnMoment},
    rejection::Rejection,
};

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    Entry(turn::EntryBody),
    Mail(mailbox::EntryBody),
    File(mailbox::StoreAttachment),
    Swarm(swarm::Words),
}

impl Decision {
    /// Whether there is something to keep: what happened, or the answer to a new key.
    pub fn is_recorded(&self, request: &Request) -> bool {
        let is_new_answer = self.is_repeat && self.answered_by.is_none() && request.key.is_some();
        !self.events.is_empty() || is_new_answer
    }

    fn new(events: Vec<Event>, reply: Reply) -> Self {
        Self { events, bodies: Vec::new(), reply, is_repeat: false, answered_by: None }
    }

    fn repeat(reply: Reply) -> Self {
        Self { is_repeat: true, ..Self::new(Vec::new(), reply) }
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
        let check = || self.directory.check(&request.caller, request.command.role());
        if let Some((key, hash)) = &request.key {
            match self.clients.answer(&request.caller.token, key, *hash, now) {
                Ok(None) => {}
                Ok(Some(answer)) => {
                    return Ok(Decision {
                        answered_by: Some(answer.sequence),
                        is_repeat: answer.is_repeat,
                        ..Decision::new(Vec::new(), answer.reply.clone())
                    });
                }
                // Who fenced a node may have used up its keys, too: on a copy of its data.
                Err(why) => {
                    let is_fenced = |it: &Rejection| matches!(it, Rejection::StaleEpoch { .. });
                    return Err(check().err().filter(is_fenced).unwrap_or(why));
                }
            }
        }
        check()?;
        match &request.command {
            Command::Register(it) => {
                let mut decision = self.directory.decide(now, context, &request.caller, it)?;
                decision.events.extend(self.loops.decide_seats(&self.directory, it));
                Ok(decision)
            }
            Command::CreateLoop(it) => self.loops.decide_create(it),
            Command::StartRound(it) => self.loops.decide_start(now, context, it),
            Command::HandOver(it) => self.loops.decide_hand_over(now, context, it),
            Command::Reclaim(it) => self.loops.decide_reclaim(now, context, it),
            Command::Mark(it) => self.loops.decide_mark(now, context, it),
            Command::Access(it) => self.access.decide(now, it),
            Command::Privacy(it) => self.privacy.decide(&self.directory, &request.caller, it),
            Command::Mail(it) => self.decide_mail(now, &request.caller, it),
            Command::Swarm(it) => Ok(self.swarm.decide(now, &request.caller, it)?),
            Command::Tick => {
                let mut decision = self.loops.decide_tick(now, context);
                decision.events.extend(self.mail.decide_lapses(now));
                let (events, words) = self.swarm.decide_lapses(now, &context.presence);
                decision.events.extend(events.into_iter().map(Into::into));
                decision.bodies.extend(words.into_iter().map(Body::Swarm));
                Ok(decision)
            }
        }
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
            match event {
                Event::NodeRegistered(it) => self.directory.apply(record.time, it),
                Event::Access(it) => self.access.apply(record.time, it),
                Event::Mail(it) => self.mail.apply(record.time, it),
                Event::Swarm(it) => self.swarm.apply(record.time, &record.principal, it),
                Event::Privacy(it) => self.privacy.apply(record.time, it),
                Event::LoopOpened(_)
                | Event::ParticipantsSet(_)
                | Event::HandedOver(_)
                | Event::TurnReclaimed(_)
                | Event::RoundStarted(_)
                | Event::TurnHanded(_)
                | Event::TurnSeen(_)
                | Event::TurnLapsed(_)
                | Event::LeaseRenewed(_) => {
                    self.loops.apply(record.time, &record.principal, event);
                }
            }
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
        self.loops.next_deadline(now, lease_ms).into_iter().chain(of_mail).chain(of_swarm).min()
    }

    /// Whether something runs on a grace: [`Command::Tick`] has something to do once its holder
    /// was heard of, which no deadline tells.
    pub fn has_graced(&self) -> bool {
        self.loops.has_graced() || self.swarm.has_graced()
    }

    /// Whether a deadline must not pass while this is not in memory. Mail that lapses meanwhile
    /// lapses when somebody next looks, and nobody can tell.
    pub fn must_stay_awake(&self, now: Timestamp, lease_ms: u64) -> bool {
        self.loops.next_deadline(now, lease_ms).is_some() || self.swarm.is_held()
    }

    fn decide_mail(
        &self,
        now: Timestamp,
        caller: &Caller,
        command: &mailbox::Command,
    ) -> Result<Decision, Rejection> {
        use mailbox::Command;
        let around = mailbox::Surroundings { directory: &self.directory, loops: &self.loops };
        match command {
            Command::Send(it) => {
                self.privacy.check_words(!it.sealed.is_empty())?;
                if !it.attachments.is_empty() {
                    self.privacy.check_files()?;
                }
                self.mail.decide_send(now, caller, around, it)
            }
            Command::Move(it) => Ok(self.mail.decide_move(it)),
            Command::Mark(it) => self.mail.decide_mark_mail(it),
            Command::Open(role) => self.mail.decide_open(role),
            Command::Close(role) => self.mail.decide_close(around, role),
            Command::HandAgain { role, thread } => self.mail.decide_hand_again(role, *thread),
            Command::Import(it) => {
                self.privacy.check_words(false)?;
                self.mail.decide_import(now, caller, it)
            }
            Command::StoreAttachment(it) => {
                self.privacy.check_files()?;
                self.mail.decide_keep(it)
            }
        }
    }
}

#[cfg(test)]
mod tests;
