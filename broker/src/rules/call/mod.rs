//! Calls of tools that a role exports, by roles of other nodes: that one was made, and how it ended.
//!
//! What is said in a call is not stored, unless the tool's role asks for that.
//!
//! - **CL1** A call that began ends once. Calls of a broker that ended itself are lost: they end
//!   when the next one begins.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeMap};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::id::{PersonId, RoleId, Timestamp};

use super::{
    Acting, Asked, Decision, Kept, Needs, Principal, Rejection, Reply as AnyReply, privacy::Privacy,
};

/// Calls that one record says are lost; the next one says more.
const LOST_AT_ONCE: usize = 100;

/// Calls of a workspace, numbered from 1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls {
    pub last: u64,
    pub open: BTreeMap<u64, OpenCall>,
}

/// A call that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct OpenCall {
    #[n(0)]
    pub call: Call,
    #[n(1)]
    pub began: Timestamp,
}

/// Who called what.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Call {
    #[n(0)]
    pub role: RoleId,
    /// The role that exports the tool.
    #[n(1)]
    pub target: RoleId,
    #[n(2)]
    pub tool: String,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    #[n(0)]
    Succeeded,
    /// The tool, or its node, answered with an error.
    #[n(1)]
    Failed,
    /// Whoever called takes it back, or is gone.
    #[n(2)]
    Canceled,
    #[n(3)]
    TimedOut,
    /// Nobody knows: the tool's node, or the broker, went away meanwhile.
    #[n(4)]
    Unknown,
}

#[derive(Debug, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotItem<'a> {
    #[n(0)]
    Last(#[n(0)] u64),
    #[n(1)]
    Open(#[n(0)] u64, #[n(1)] Cow<'a, OpenCall>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Begin(Begin),
    End(End),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    pub call: Call,
    /// The broker's own start: calls from before it are lost.
    pub started: Timestamp,
    /// Its arguments, where they are recorded.
    pub arguments: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub number: u64,
    pub outcome: Outcome,
    /// What was answered, where that is recorded.
    pub result: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Event {
    #[n(0)]
    Begun(#[n(0)] u64, #[n(1)] Call, #[n(2)] Option<String>),
    #[n(1)]
    Ended(#[n(0)] u64, #[n(1)] Call, #[n(2)] Outcome, #[n(3)] Option<String>),
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Reply {
    #[n(0)]
    Begun(#[n(0)] u64),
}

impl Acting for Command {
    /// The broker itself says how a call ended.
    fn role(&self) -> Option<&RoleId> {
        match self {
            Self::Begin(it) => Some(&it.call.role),
            Self::End(_) => None,
        }
    }

    fn person(&self) -> Option<&PersonId> {
        None
    }

    fn needs(&self) -> Needs<'_> {
        Needs::default()
    }

    /// Arguments and results are not sealed.
    fn check_words(&self, privacy: &Privacy) -> Result<(), Rejection> {
        match self {
            Self::Begin(_) => privacy.check_words(false),
            Self::End(_) => Ok(()),
        }
    }

    fn is_for_paused(&self) -> bool {
        matches!(self, Self::End(_))
    }
}

impl Kept for Calls {
    type Item<'a> = SnapshotItem<'a>;

    fn items(&self) -> impl Iterator<Item = SnapshotItem<'_>> {
        let last = (self.last != 0).then_some(SnapshotItem::Last(self.last));
        let open = self.open.iter();
        let open = open.map(|(number, it)| SnapshotItem::Open(*number, Cow::Borrowed(it)));
        last.into_iter().chain(open)
    }

    fn restore(&mut self, item: SnapshotItem<'_>) -> Result<(), &'static str> {
        match item {
            SnapshotItem::Last(number) => self.last = number,
            SnapshotItem::Open(number, _) if self.last < number => {
                return Err("a call has a number that was not given yet");
            }
            SnapshotItem::Open(number, it) => _ = self.open.insert(number, it.into_owned()),
        }
        Ok(())
    }
}

impl Calls {
    pub(super) fn decide(&self, _: Asked<'_>, command: &Command) -> Result<Decision, Rejection> {
        match command {
            Command::Begin(Begin { call, started, arguments }) => {
                let lost = self.open.iter().filter(|(_, it)| it.began < *started);
                let lost = lost.take(LOST_AT_ONCE);
                let lost = lost.map(|(number, it)| {
                    Event::Ended(*number, it.call.clone(), Outcome::Unknown, None)
                });
                let number = self.last + 1;
                let begun = Event::Begun(number, call.clone(), arguments.clone());
                Ok(Decision::new(lost.chain([begun]), Reply::Begun(number)))
            }
            Command::End(End { number, outcome, result }) => {
                let Some(it) = self.open.get(number) else {
                    return Ok(Decision::repeat(AnyReply::Done));
                };
                let ended = Event::Ended(*number, it.call.clone(), *outcome, result.clone());
                Ok(Decision::new([ended], AnyReply::Done))
            }
        }
    }

    pub(super) fn apply(&mut self, now: Timestamp, _: &Principal, event: &Event) {
        match event {
            Event::Begun(number, call, _) => {
                self.last = *number;
                self.open.insert(*number, OpenCall { call: call.clone(), began: now });
            }
            Event::Ended(number, ..) => _ = self.open.remove(number),
        }
    }
}
