//! What broker and node agree on about boards: how channels and results are called, and what
//! updates do.

use std::{fmt, str::FromStr, sync::Arc};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::{
    disk::as_text,
    json::as_displayed,
    limits::{CHANNEL_NAME_BYTES_MAX, RESULT_NAME_BYTES_MAX},
    nearest::did_you_mean,
    visible::is_line,
};

/// Why a text is not the name of a channel, or of a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    #[error("is empty")]
    Empty,
    #[error("is {bytes} bytes long; the limit is {limit}")]
    TooLong { bytes: usize, limit: usize },
    #[error("has characters that are never shown")]
    Unprintable,
}

/// A key of a board's state: one printable line of at most [`CHANNEL_NAME_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelName(Arc<str>);

/// What a result is called at its checkpoint: one printable line of at most
/// [`RESULT_NAME_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResultName(Arc<str>);

/// One printable line.
macro_rules! name {
    ($name:ident, $limit:expr) => {
        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                let (bytes, limit) = (text.len(), $limit);
                if text.is_empty() {
                    return Err(InvalidName::Empty);
                }
                if limit < bytes {
                    return Err(InvalidName::TooLong { bytes, limit });
                }
                if is_line(text) { Ok(Self(text.into())) } else { Err(InvalidName::Unprintable) }
            }
        }

        impl $name {
            /// The name as text.
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

name!(ChannelName, CHANNEL_NAME_BYTES_MAX);
name!(ResultName, RESULT_NAME_BYTES_MAX);

/// What an update does to the value of a channel.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Encode,
    Decode,
    Serialize,
    Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Reducer {
    /// Replaces it.
    #[default]
    #[n(0)]
    LastValue,
    /// Adds the items of a list to the end of a list.
    #[n(1)]
    Append,
    /// Merges a list of messages by id, as LangGraph's `add_messages` does.
    #[n(2)]
    AddMessages,
    /// Sets the keys of an object; a key that is set to null is removed.
    #[n(3)]
    Merge,
}

impl Reducer {
    pub const ALL: [Self; 4] = [Self::LastValue, Self::Append, Self::AddMessages, Self::Merge];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LastValue => "last_value",
            Self::Append => "append",
            Self::AddMessages => "add_messages",
            Self::Merge => "merge",
        }
    }
}

impl FromStr for Reducer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|it| it.as_str() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str);
            let near = did_you_mean(text, names.into_iter());
            format!("names no reducer; there are {}{near}", names.join(", "))
        })
    }
}

impl fmt::Display for Reducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
