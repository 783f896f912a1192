//! The nouns of a workspace, each registered once.
//!
//! A noun is a folder with the same five things: `Command`, `Event`, `Reply` (unless it answers
//! nothing but that it was done), a state, and on that state `decide` and `apply`. What of the state
//! a snapshot holds are its `Item`s ([`Kept`]).

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{PersonId, RoleId, Timestamp},
    token::Right,
};

use super::{
    Caller, Compact, Context, Decision, Principal, Rejection, Workspace, access, board, call,
    clients, directory, guard, mailbox, pipeline,
    privacy::{self, Privacy},
    run, swarm, turn,
};

/// Around a command: who asks when, and everything else that is known.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub now: Timestamp,
    pub context: &'a Context,
    pub caller: &'a Caller,
    pub workspace: &'a Workspace,
}

/// What is asked of every command before its noun decides it. Without defaults: each noun says it.
pub trait Acting {
    /// The role that acts, where one does.
    fn role(&self) -> Option<&RoleId>;

    /// The person who acts, where one does.
    fn person(&self) -> Option<&PersonId>;

    /// What else its caller must be allowed (E7).
    fn needs(&self) -> Needs<'_>;

    /// Whether the words and files that it brings into mail may come in as they do (Y5).
    ///
    /// # Errors
    /// When they may not.
    fn check_words(&self, privacy: &Privacy) -> Result<(), Rejection>;

    /// Whether a role that is paused may do it: it ends, answers or gives back what the role has,
    /// or tells of it, and begins nothing.
    fn is_for_paused(&self) -> bool;
}

/// What a token must allow for a command, besides the call that it comes by, the role that acts and,
/// for a person, steering.
#[derive(Debug, Default)]
pub struct Needs<'a> {
    /// It speaks for these, too.
    pub roles: Vec<&'a RoleId>,
    pub right: Option<Right>,
}

impl<'a> Needs<'a> {
    pub(super) fn roles(roles: impl IntoIterator<Item = &'a RoleId>) -> Self {
        Self { roles: roles.into_iter().collect(), right: None }
    }
}

/// A part of the state, as a snapshot holds it: item by item.
pub trait Kept {
    /// Of one or another kind; borrowed from the state, or read.
    type Item<'a>
    where
        Self: 'a;

    /// All there is, each after what it names.
    fn items(&self) -> impl Iterator<Item = Self::Item<'_>>;

    /// Puts one back, in the same order.
    ///
    /// # Errors
    /// Says what does not fit together.
    fn restore(&mut self, item: Self::Item<'_>) -> Result<(), &'static str>;

    /// Derives what is derived, once all are back.
    ///
    /// # Errors
    /// Says what does not fit together.
    fn settle(&mut self) -> Result<(), &'static str> {
        Ok(())
    }
}

macro_rules! nouns {
    ($($n:tt $noun:ident: $module:ident, state $field:ident $(, replies with $reply:ident)?;)*) => {
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Command {
            $($noun($module::Command),)*
            /// What the passing of time alone brings.
            Tick,
            /// What is over is no longer kept.
            Compact(Compact),
        }

        /// What happened. Past tense: it cannot be refused, only added to.
        ///
        /// Events carry results, not intentions: a handover holds the turn and the deadline that
        /// were chosen, so replay never chooses again.
        #[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
        #[cbor(flat)]
        pub enum Event {
            $(#[n($n)] $noun(#[n(0)] $module::Event),)*
        }

        /// What a command answers. Kept with its record, so that the same key gets the same answer.
        #[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
        #[cbor(flat)]
        pub enum Reply {
            #[n(0)]
            Done,
            $($(#[n($n)] $noun(#[n(0)] $module::$reply),)?)*
        }

        /// Some of the state, as a snapshot holds it.
        #[derive(Debug, Encode, Decode, Serialize, Deserialize)]
        #[cbor(flat)]
        #[serde(rename_all = "snake_case")]
        pub enum SnapshotItem<'a> {
            #[n(0)]
            Clients(#[n(0)] clients::SnapshotItem<'a>),
            $(#[n($n)] $noun(#[n(0)] $module::SnapshotItem<'a>),)*
        }

        $(
            impl From<$module::Command> for Command {
                fn from(command: $module::Command) -> Self {
                    Self::$noun(command)
                }
            }

            impl From<$module::Event> for Event {
                fn from(event: $module::Event) -> Self {
                    Self::$noun(event)
                }
            }

            $(
                impl From<$module::$reply> for Reply {
                    fn from(reply: $module::$reply) -> Self {
                        Self::$noun(reply)
                    }
                }
            )?
        )*

        impl Command {
            /// The role that acts, where one does.
            pub fn role(&self) -> Option<&RoleId> {
                match self {
                    $(Self::$noun(command) => command.role(),)*
                    Self::Tick | Self::Compact(_) => None,
                }
            }

            /// The person who acts, where one does.
            pub fn person(&self) -> Option<&PersonId> {
                match self {
                    $(Self::$noun(command) => command.person(),)*
                    Self::Tick | Self::Compact(_) => None,
                }
            }

            /// What else its caller must be allowed (E7).
            pub fn needs(&self) -> Needs<'_> {
                match self {
                    $(Self::$noun(command) => command.needs(),)*
                    Self::Tick | Self::Compact(_) => Needs::default(),
                }
            }

            pub(super) fn check_words(&self, privacy: &Privacy) -> Result<(), Rejection> {
                match self {
                    $(Self::$noun(command) => command.check_words(privacy),)*
                    Self::Tick | Self::Compact(_) => Ok(()),
                }
            }

            pub(super) fn is_for_paused(&self) -> bool {
                match self {
                    $(Self::$noun(command) => command.is_for_paused(),)*
                    Self::Tick | Self::Compact(_) => true,
                }
            }
        }

        impl Workspace {
            pub(super) fn decide_command(
                &self,
                asked: Asked<'_>,
                command: &Command,
            ) -> Result<Decision, Rejection> {
                match command {
                    $(Command::$noun(command) => self.$field.decide(asked, command),)*
                    Command::Tick => Ok(self.decide_tick(asked.now, asked.context)),
                    Command::Compact(it) => Ok(self.decide_compact(it)),
                }
            }

            pub(super) fn apply_event(&mut self, now: Timestamp, by: &Principal, event: &Event) {
                match event {
                    $(Event::$noun(event) => self.$field.apply(now, by, event),)*
                }
            }

            /// All of the state but its sequence and time, for a snapshot.
            pub fn items(&self) -> impl Iterator<Item = SnapshotItem<'_>> {
                let items = self.clients.items().map(SnapshotItem::Clients);
                $(let items = items.chain(self.$field.items().map(SnapshotItem::$noun));)*
                items
            }

            /// Puts back one item of a snapshot, in the same order.
            ///
            /// # Errors
            /// Says what does not fit together.
            pub fn restore(&mut self, item: SnapshotItem<'_>) -> Result<(), &'static str> {
                match item {
                    SnapshotItem::Clients(item) => self.clients.restore(item),
                    $(SnapshotItem::$noun(item) => self.$field.restore(item),)*
                }
            }

            /// Derives what is derived, once all items are back.
            ///
            /// # Errors
            /// Says what does not fit together.
            pub fn settle(&mut self) -> Result<(), &'static str> {
                $(self.$field.settle()?;)*
                Ok(())
            }
        }
    };
}

// The numbers are those on disk.
nouns! {
    1 Directory: directory, state directory, replies with Reply;
    2 Turn: turn, state loops, replies with Reply;
    3 Mail: mailbox, state mail, replies with Reply;
    4 Privacy: privacy, state privacy;
    5 Swarm: swarm, state swarm, replies with Reply;
    6 Access: access, state access, replies with Reply;
    7 Run: run, state runs, replies with Reply;
    8 Guard: guard, state guard;
    9 Call: call, state calls, replies with Reply;
    10 Board: board, state boards, replies with Reply;
    11 Pipeline: pipeline, state pipelines, replies with Reply;
}
