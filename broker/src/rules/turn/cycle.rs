//! Handovers that repeat themselves. Pure.
//!
//! Two handovers are the same when they are from the same role to the same role with the same
//! words, byte for byte: agents that say anything new each time are no cycle, and are ended by the
//! limit of turns.

use tasuki_proto::limits::CYCLE_TIMES;

use super::{Ended, Loop};
use crate::hash::Hash;

/// One handover, as far as it can repeat itself.
type Step<'a> = (bool, &'a str, Option<&'a str>, Hash);

impl Loop {
    /// How long the cycle is that the turns without a person end with, once `ended` ended, too.
    pub(super) fn cycle_with(&self, ended: &Ended) -> Option<usize> {
        let known = usize::try_from(self.turns_alone()).unwrap_or(usize::MAX);
        let known = self.recent.iter().rev().take(known);
        let mut steps: Vec<Step<'_>> = [ended].into_iter().chain(known).map(step).collect();
        steps.reverse();
        cycle_length(&steps)
    }
}

fn step(it: &Ended) -> Step<'_> {
    let to = it.next.as_ref().map(|(_, to)| to.as_str());
    (it.is_reclaim, it.from.as_str(), to, it.content)
}

/// The length of the shortest cycle that `steps` end with [`CYCLE_TIMES`] times in a row.
fn cycle_length<T: PartialEq>(steps: &[T]) -> Option<usize> {
    (1..=steps.len() / CYCLE_TIMES).find(|length| {
        let latest = &steps[steps.len() - length * CYCLE_TIMES..];
        latest[*length..].iter().zip(latest).all(|(later, earlier)| later == earlier)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_said_three_times_in_a_row_is_a_cycle() {
        for (steps, expected) in [
            ("", None),
            ("aa", None),
            ("aaa", Some(1)),
            ("baaa", Some(1)),
            ("aaab", None),
            ("ababa", None),
            ("ababab", Some(2)),
            ("xyababab", Some(2)),
            ("abababx", None),
            ("abcabcabc", Some(3)),
            ("abcabcabd", None),
            ("abcabcab", None),
            ("abababababab", Some(2)),
            ("aabaabaab", Some(3)),
        ] {
            assert_eq!(cycle_length(steps.as_bytes()), expected, "{steps}");
        }
    }

    proptest! {
        /// Holds T6: whatever goes before, no cycle that fits is overlooked, and what is found is one.
        #[test]
        fn every_cycle_is_found_and_nothing_else(
            before in proptest::collection::vec(0..3u8, 0..10),
            cycle in proptest::collection::vec(0..3u8, 1..=21),
        ) {
            let mut steps = before;
            for _ in 0..CYCLE_TIMES {
                steps.extend(&cycle);
            }
            let found = cycle_length(&steps).expect("there is one");
            prop_assert!(found <= cycle.len());
            let latest: Vec<u8> = steps.iter().rev().take(found * CYCLE_TIMES).copied().collect();
            for at in 0..latest.len() - found {
                prop_assert_eq!(latest[at], latest[at + found]);
            }
        }

        #[test]
        fn steps_that_are_all_different_are_no_cycle(count in 0..64usize) {
            let steps: Vec<usize> = (0..count).collect();
            prop_assert_eq!(cycle_length(&steps), None);
        }
    }
}
