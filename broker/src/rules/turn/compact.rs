//! Old entries of histories that are no longer kept.
//!
//! When an entry was written is not in memory, so whoever asks says which are old enough.

use std::ops::RangeInclusive;

use tasuki_proto::id::LoopId;

use super::{Event, HISTORY_KEPT, HistoryCompacted, Loop, Loops};

impl Loops {
    /// The entries of each loop that may be removed if they are old enough.
    pub fn removable(&self) -> impl Iterator<Item = (&LoopId, RangeInclusive<u64>)> {
        let all = self.by_id.iter().map(|(id, it)| (id, it.removable()));
        all.filter(|(_, entries)| !entries.is_empty())
    }

    /// The removal of each history's entries up to the one that is named.
    pub(in crate::rules) fn decide_compact(
        &self,
        histories: &[(LoopId, u64)],
    ) -> impl Iterator<Item = Event> {
        let may_go = |(id, through): &&(LoopId, u64)| {
            self.by_id.get(id).is_some_and(|it| it.removable().contains(through))
        };
        histories.iter().filter(may_go).map(|(loop_id, through)| {
            let (loop_id, through) = (loop_id.clone(), *through);
            Event::HistoryCompacted(HistoryCompacted { loop_id, through })
        })
    }
}

impl Loop {
    /// The oldest entry that is kept.
    pub fn oldest_entry(&self) -> u64 {
        self.compacted.unwrap_or_default() + 1
    }

    fn removable(&self) -> RangeInclusive<u64> {
        self.oldest_entry()..=self.entries.saturating_sub(HISTORY_KEPT)
    }
}
