//! What broker and node agree on about boards: how channels are called, and what updates do to them.

use std::{fmt, str::FromStr, sync::Arc};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::{
    disk::as_text, json::as_displayed, limits::CHANNEL_NAME_BYTES_MAX, nearest::did_you_mean,
    visible::is_line,
};

/// Why a text is not the name of a channel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidChannel {
    #[error("is empty")]
    Empty,
    #[error("is {0} bytes long; the limit is {CHANNEL_NAME_BYTES_MAX}")]
    TooLong(usize),
    #[error("has characters that are never shown")]
    Unprintable,
}

/// A key of a board's state: one printable line of at most [`CHANNEL_NAME_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelName(Arc<str>);

impl FromStr for ChannelName {
    type Err = InvalidChannel;

    fn from_str(text: &str) -> Result<Self, InvalidChannel> {
        if text.is_empty() {
            return Err(InvalidChannel::Empty);
        }
        if CHANNEL_NAME_BYTES_MAX < text.len() {
            return Err(InvalidChannel::TooLong(text.len()));
        }
        if is_line(text) { Ok(Self(text.into())) } else { Err(InvalidChannel::Unprintable) }
    }
}

impl ChannelName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

as_text!(ChannelName);
as_displayed!(ChannelName);

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
