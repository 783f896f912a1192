//! Values of channels, kept beside the records, and how updates add up to one.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tasuki_proto::{board::Reducer, id::CheckpointNumber};

use super::{BoardId, ChannelIndex, Message, MessageList};

/// What a checkpoint has of a channel, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Value {
    #[n(0)]
    pub place: ValuePlace,
    #[n(1)]
    pub json: String,
}

/// Where a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ValuePlace {
    #[n(0)]
    pub board: BoardId,
    #[n(1)]
    pub checkpoint: CheckpointNumber,
    #[n(2)]
    pub channel: ChannelIndex,
    /// All that the channel is there, and not what the checkpoint adds.
    #[n(3)]
    pub is_whole: bool,
}

/// An object, by key.
pub type Fields = BTreeMap<String, Box<RawValue>>;

/// A value that updates are added to.
#[derive(Debug)]
pub enum Folding {
    Last(Option<String>),
    List(Option<String>),
    Messages(MessageList),
    Fields(Fields),
}

impl Folding {
    /// Begins with a whole value; `None`: with none.
    ///
    /// # Errors
    /// When it is not what the reducer makes.
    pub fn new(reducer: Reducer, whole: Option<String>) -> Result<Self, serde_json::Error> {
        Ok(match reducer {
            Reducer::LastValue => Self::Last(whole),
            Reducer::Append => Self::List(whole),
            Reducer::AddMessages => {
                let messages = whole.as_deref().map_or(Ok(Vec::new()), serde_json::from_str)?;
                Self::Messages(MessageList::new(messages))
            }
            Reducer::Merge => {
                Self::Fields(whole.as_deref().map_or(Ok(Fields::new()), serde_json::from_str)?)
            }
        })
    }

    /// Adds an update.
    ///
    /// # Errors
    /// When it is not what the reducer takes: that was checked before it was written.
    pub fn add(&mut self, update: String) -> Result<(), serde_json::Error> {
        match self {
            Self::Last(value) => *value = Some(update),
            Self::List(value) => {
                *value = Some(match value.take() {
                    None => update,
                    Some(before) => append(before, &update),
                });
            }
            Self::Messages(list) => list.merge(serde_json::from_str(&update)?),
            Self::Fields(fields) => {
                for (name, it) in serde_json::from_str::<Fields>(&update)? {
                    match it.get() {
                        "null" => _ = fields.remove(&name),
                        _ => _ = fields.insert(name, it),
                    }
                }
            }
        }
        Ok(())
    }

    /// The value as JSON.
    ///
    /// # Errors
    /// Never, of what was read before.
    pub fn finish(self) -> Result<String, serde_json::Error> {
        match self {
            Self::Last(value) | Self::List(value) => Ok(value.unwrap_or_else(|| "null".to_owned())),
            Self::Messages(list) => {
                serde_json::to_string(&list.iter().map(Message::json).collect::<Vec<_>>())
            }
            Self::Fields(fields) => serde_json::to_string(&fields),
        }
    }
}

/// Two lists as one. Both are as [`list`] writes them.
fn append(mut value: String, update: &str) -> String {
    const EMPTY: &str = "[]";
    match (value.as_str(), update) {
        (EMPTY, _) => update.to_owned(),
        (_, EMPTY) => value,
        _ => {
            value.pop();
            value.push(',');
            value.push_str(&update[1..]);
            value
        }
    }
}

/// A list as it is kept.
///
/// # Errors
/// When this is none.
pub fn parse_list(json: &str) -> Result<String, serde_json::Error> {
    serde_json::to_string(&serde_json::from_str::<Vec<Box<RawValue>>>(json)?)
}

/// An object as it is kept.
///
/// # Errors
/// When this is none.
pub fn parse_object(json: &str) -> Result<String, serde_json::Error> {
    serde_json::to_string(&serde_json::from_str::<Fields>(json)?)
}
