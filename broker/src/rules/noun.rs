//! The nouns of a workspace, each registered once.
//!
//! A noun is a folder with the same five things: `Command`, `Event`, `Reply` (unless it answers
//! nothing but that it was done), a state, and on that state `decide` and `apply`.

use tasuki_proto::id::{PersonId, RoleId, Timestamp};

use super::{
    Caller, Context, Decision, Principal, Rejection, Workspace, access, directory, mailbox,
    privacy, swarm, turn,
};

/// Around a command: who asks when, and everything else that is known.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub now: Timestamp,
    pub context: &'a Context,
    pub caller: &'a Caller,
    pub workspace: &'a Workspace,
}

/// Who acts by a command.
pub trait Acting {
    /// The role that acts, where one does.
    fn role(&self) -> Option<&RoleId> {
        None
    }

    /// The person who acts, where one does.
    fn person(&self) -> Option<&PersonId> {
        None
    }
}

macro_rules! nouns {
    ($($noun:ident: $module:ident, state $field:ident $(, replies with $reply:ident)?;)*) => {
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Command {
            $($noun($module::Command),)*
            /// What the passing of time alone brings.
            Tick,
        }

        /// What happened. Past tense: it cannot be refused, only added to.
        ///
        /// Events carry results, not intentions: a handover holds the turn and the deadline that
        /// were chosen, so replay never chooses again.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Event {
            $($noun($module::Event),)*
        }

        /// What a command answers. Kept with its record, so that the same key gets the same answer.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Reply {
            $($($noun($module::$reply),)?)*
            Done,
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
                    Self::Tick => None,
                }
            }

            /// The person who acts, where one does.
            pub fn person(&self) -> Option<&PersonId> {
                match self {
                    $(Self::$noun(command) => command.person(),)*
                    Self::Tick => None,
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
                }
            }

            pub(super) fn apply_event(&mut self, now: Timestamp, by: &Principal, event: &Event) {
                match event {
                    $(Event::$noun(event) => self.$field.apply(now, by, event),)*
                }
            }
        }
    };
}

nouns! {
    Directory: directory, state directory, replies with Reply;
    Turn: turn, state loops, replies with Reply;
    Mail: mailbox, state mail, replies with Reply;
    Privacy: privacy, state privacy;
    Swarm: swarm, state swarm, replies with Reply;
    Access: access, state access, replies with Reply;
}
