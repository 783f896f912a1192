//! Names and numbers of the domain, valid by construction.

use std::{
    borrow::Borrow,
    fmt,
    str::FromStr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::{disk::as_text, json::as_displayed, limits::ID_BYTES_MAX};

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    #[error("is empty")]
    Empty,
    #[error("is {0} bytes long; the limit is {ID_BYTES_MAX}")]
    TooLong(usize),
    #[error("begins with {0:?}; an id begins with a letter or a digit")]
    BadStart(char),
    #[error("contains {0:?}; an id is made of letters, digits, '_', '.' and '-'")]
    BadCharacter(char),
}

fn check(id: &str) -> Result<(), InvalidId> {
    if ID_BYTES_MAX < id.len() {
        return Err(InvalidId::TooLong(id.len()));
    }
    let Some(first) = id.chars().next() else { return Err(InvalidId::Empty) };
    if let Some(c) = id.chars().find(|c| !(c.is_ascii_alphanumeric() || "_.-".contains(*c))) {
        return Err(InvalidId::BadCharacter(c));
    }
    if !first.is_ascii_alphanumeric() {
        return Err(InvalidId::BadStart(first));
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(s: &str) -> Result<Self, InvalidId> {
                check(s)?;
                Ok(Self(s.into()))
            }
        }

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        as_text!($name);
        as_displayed!($name);
    };
}

name!(
    /// A unit of isolation and of order: one journal, one writer.
    WorkspaceId
);
name!(
    /// A named part that an agent plays.
    RoleId
);
name!(
    /// A process that hosts roles on a developer's machine.
    NodeId
);
name!(
    /// A line of work that roles take turns at.
    LoopId
);
name!(
    /// Whoever chose an idempotency key; durable at a node.
    ClientId
);
name!(
    /// A person who acts without a role, by name.
    PersonId
);
name!(
    /// A named group of tools.
    Toolset
);
name!(
    /// One agent of those that may play a role, by the name its address gives it.
    InstanceId
);

name!(
    /// A bearer's credential, without its secret.
    TokenId
);
name!(
    /// A way for one node to join.
    InvitationId
);
name!(
    /// A way to run agents: `pi`, `claude`, or what an operator configured.
    RunnerName
);
name!(
    /// What a node says of itself to those who look for one to run something.
    NodeLabel
);
name!(
    /// What an operator has run or called when something happens to mail.
    HookName
);

name!(
    /// Shared state of a piece of work.
    BoardName
);

name!(
    /// A part of a pipeline that one role does, by name.
    PhaseName
);

/// A name is ordered and hashed like its text.
impl Borrow<str> for BoardName {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

/// What belongs to no workspace is kept in this one. Nobody can ask for it by name: no id begins
/// like that.
const SYSTEM: &str = "_system";

impl WorkspaceId {
    /// The workspace of tokens and invitations.
    pub fn system() -> Self {
        Self(SYSTEM.into())
    }

    pub fn is_system(&self) -> bool {
        self.as_str() == SYSTEM
    }

    /// A name as the journal has it: a workspace's, or that of [`WorkspaceId::system`].
    ///
    /// # Errors
    /// When it is neither.
    pub fn of_journal(name: &str) -> Result<Self, InvalidId> {
        if name == SYSTEM { Ok(Self::system()) } else { name.parse() }
    }
}

/// One intent of one client, however often it is sent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct IdempotencyKey {
    #[n(0)]
    pub client: ClientId,
    /// From 1; each new intent takes the next.
    #[n(1)]
    pub counter: u64,
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.client, self.counter)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode,
            Serialize, Deserialize,
        )]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] u64);

        impl $name {
            /// Before the first.
            pub const NONE: Self = Self(0);

            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }

            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl From<u64> for $name {
            fn from(number: u64) -> Self {
                Self(number)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number!(
    /// One role's uninterrupted work in a loop. Fences: a write under an older turn is refused.
    Turn
);
number!(
    /// Position in a workspace's journal: from 1, no gaps.
    Sequence
);
number!(
    /// Era of a node's registration; a newer one fences the older connection.
    Epoch
);

number!(
    /// The latest grant of a claim, a lock or a reservation in a workspace, from 1. Fences: a write
    /// under an older grant is refused.
    FencingToken
);

number!(
    /// One version of a board, from 1.
    CheckpointNumber
);

/// Milliseconds since the Unix epoch, as the broker's clock had it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Timestamp(#[n(0)] u64);

impl Timestamp {
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    pub const fn as_millis(self) -> u64 {
        self.0
    }

    #[must_use]
    pub const fn plus_millis(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    #[must_use]
    pub const fn minus_millis(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// How long after `earlier` this is; 0 when it is not.
    #[must_use]
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// In JSON as RFC 3339 in UTC to the millisecond; after the year 9999 as the number.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Time(String),
    Millis(u64),
}

/// The first millisecond that RFC 3339 cannot write: the year 10000.
const RFC_3339_END_MS: u64 = 253_402_300_800_000;

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if RFC_3339_END_MS <= self.0 {
            return Written::Millis(self.0).serialize(to);
        }
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(self.0);
        Written::Time(humantime::format_rfc3339_millis(time).to_string()).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let time = match Written::deserialize(from)? {
            Written::Time(time) => humantime::parse_rfc3339(&time).map_err(D::Error::custom)?,
            Written::Millis(ms) => return Ok(Self(ms)),
        };
        let since = time.duration_since(SystemTime::UNIX_EPOCH).map_err(D::Error::custom)?;
        u64::try_from(since.as_millis()).map(Self).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_id_may_be() {
        for good in ["A", "b.1", "0x_Y-z", &"a".repeat(ID_BYTES_MAX)] {
            assert!(good.parse::<RoleId>().is_ok(), "{good}");
        }
        for (bad, why) in [
            ("", InvalidId::Empty),
            ("-a", InvalidId::BadStart('-')),
            ("_system", InvalidId::BadStart('_')),
            ("a b", InvalidId::BadCharacter(' ')),
            ("ä", InvalidId::BadCharacter('ä')),
            ("../x", InvalidId::BadCharacter('/')),
            (&"a".repeat(65), InvalidId::TooLong(65)),
        ] {
            assert_eq!(bad.parse::<RoleId>(), Err(why), "{bad}");
        }
    }
}
