//! What is said in runs: kept beside the records that name it, and not in memory.

use bytes::Bytes;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::run::{RunId, StepId};

use crate::{
    hash::Hash,
    rules::{Rejection, privacy::Privacy},
};

/// Words, in the clear or so that only nodes with the right key can read them.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum Text {
    #[n(0)]
    Plain(#[n(0)] String),
    #[n(1)]
    Sealed {
        #[cbor(n(0), with = "crate::cbor::octets")]
        #[serde(with = "tasuki_proto::json::octets")]
        envelope: Bytes,
        /// The sender's mark of what is sealed, the same for the same words.
        #[n(1)]
        same: Option<Hash>,
    },
}

impl Default for Text {
    fn default() -> Self {
        Self::Plain(String::new())
    }
}

impl Text {
    /// What is said, to recognise it when it is said again: the same words are sealed to other
    /// bytes each time.
    pub fn content(&self) -> Hash {
        match self {
            Self::Plain(text) => Hash::of_fields(["plain".as_bytes(), text.as_bytes()]),
            Self::Sealed { same: Some(Hash(same)), .. } => {
                Hash::of_fields(["same".as_bytes(), same])
            }
            Self::Sealed { envelope, same: None } => {
                Hash::of_fields(["sealed".as_bytes(), envelope])
            }
        }
    }

    /// Whether the words may come in as they do (Y5). Those that say nothing tell nobody anything.
    ///
    /// # Errors
    /// When they may not.
    pub fn check(&self, privacy: &Privacy) -> Result<(), Rejection> {
        match self {
            Self::Plain(text) if text.is_empty() => Ok(()),
            Self::Plain(_) => privacy.check_words(false),
            Self::Sealed { .. } => privacy.check_words(true),
        }
    }
}

/// Words, and what they belong to. Each is written once.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum Words {
    #[n(0)]
    Step {
        #[n(0)]
        step: StepId,
        #[n(1)]
        words: StepWords,
    },
    #[n(1)]
    Output {
        #[n(0)]
        step: StepId,
        #[n(1)]
        words: OutputWords,
    },
    #[n(2)]
    Message {
        #[n(0)]
        run: RunId,
        #[n(1)]
        number: u32,
        #[n(2)]
        text: Text,
        /// That came with it.
        #[n(3)]
        file: Option<FileFacts>,
    },
    #[n(3)]
    Reply {
        #[n(0)]
        run: RunId,
        #[n(1)]
        number: u32,
        #[n(2)]
        text: Text,
    },
    /// Apart from its message, so that who lists messages reads no files.
    #[n(4)]
    File {
        #[n(0)]
        run: RunId,
        /// Of the message.
        #[n(1)]
        number: u32,
        #[cbor(n(2), with = "crate::cbor::octets")]
        #[serde(with = "tasuki_proto::json::octets")]
        content: Bytes,
    },
}

/// A file that a sub-agent hands over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub facts: FileFacts,
    pub content: Bytes,
}

/// What is known of a file without its content.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct FileFacts {
    /// Without a path.
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub media_type: String,
    /// In bytes.
    #[n(2)]
    pub size: u64,
}

impl File {
    /// What is handed over with a text, to recognise it when it is handed over again.
    pub(super) fn content(&self, text: Hash) -> Hash {
        let FileFacts { name, media_type, .. } = &self.facts;
        let fields = [&text.0[..], name.as_bytes(), media_type.as_bytes(), &self.content];
        Hash::of_fields(fields)
    }
}

/// What a step is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct StepWords {
    #[n(0)]
    pub task: Text,
    #[n(1)]
    pub system: Text,
    /// What else its node needs to know, as nodes agreed on.
    #[n(2)]
    pub spec: Text,
}

/// What a step says at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct OutputWords {
    /// In order.
    #[n(0)]
    pub parts: Vec<Text>,
    #[n(1)]
    pub error: Text,
}

impl StepWords {
    pub(super) fn texts(&self) -> [&Text; 3] {
        [&self.task, &self.system, &self.spec]
    }
}

impl OutputWords {
    pub(super) fn texts(&self) -> impl Iterator<Item = &Text> {
        self.parts.iter().chain([&self.error])
    }
}
