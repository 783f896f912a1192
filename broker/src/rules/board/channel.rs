//! What is known of a channel at a checkpoint, without its value.

use std::collections::BTreeSet;

use tasuki_proto::board::Reducer;

use super::{Change, MessageMark};
use crate::hash::Hash;

/// A channel at a checkpoint, without its value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelState {
    /// Its value is not larger, in bytes.
    pub bytes: u64,
    /// Updates to go through from the last whole value on.
    pub updates: u32,
    /// The ids of its messages.
    pub messages: BTreeSet<Hash>,
}

impl ChannelState {
    /// How many updates it takes until a whole value is kept, at least.
    const UPDATES_MAX: u32 = 64;

    pub(super) fn is_due(&self) -> bool {
        Self::UPDATES_MAX <= self.updates
    }

    /// Goes on by what a checkpoint did.
    pub(super) fn apply(&mut self, change: &Change, reducer: Reducer) {
        for mark in &change.messages {
            match mark {
                MessageMark::Put(id) => _ = self.messages.insert(*id),
                MessageMark::Removed(id) => _ = self.messages.remove(id),
                MessageMark::AllRemoved => self.messages.clear(),
            }
        }
        match (change.whole, change.update) {
            (Some(whole), _) => (self.bytes, self.updates) = (whole.into(), 0),
            (None, Some(update)) if reducer == Reducer::LastValue => {
                (self.bytes, self.updates) = (update.into(), 0);
            }
            (None, Some(update)) => {
                self.bytes += u64::from(update);
                self.updates += 1;
            }
            (None, None) => {}
        }
    }
}
