//! Which letters are under way, by role: what the broker is told of the answers to earlier ones.
//!
//! An agent whose answer was lost says the same once more, and the broker knows a role's last
//! letter again. Where several agents write as one role, the last letter may be another's: so each
//! letter says whether others were under way.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{id::RoleId, wire::EarlierAnswers};

use crate::clock;

/// After a start, in milliseconds: who was cut off by the end of the node's earlier life has said it
/// again by then.
const SAID_AGAIN_WITHIN_MS: u64 = 600_000;

#[derive(Debug, Clone)]
pub(in crate::link) struct InFlight {
    under_way: Arc<Mutex<BTreeMap<RoleId, usize>>>,
    started_ms: u64,
}

/// One letter that is under way until this is dropped.
#[derive(Debug)]
pub(super) struct InFlightGuard {
    all: InFlight,
    role: RoleId,
}

impl InFlight {
    pub(in crate::link) fn new() -> Self {
        Self { under_way: Arc::default(), started_ms: clock::steady_ms() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RoleId, usize>> {
        self.under_way.lock()
    }

    /// One more letter of `role`, and what is known of those before it.
    pub(super) fn begin(&self, role: &RoleId) -> (InFlightGuard, EarlierAnswers) {
        self.begin_at(role, clock::steady_ms())
    }

    fn begin_at(&self, role: &RoleId, now_ms: u64) -> (InFlightGuard, EarlierAnswers) {
        let mut under_way = self.lock();
        let count = under_way.entry(role.clone()).or_default();
        let earlier = if 0 < *count {
            EarlierAnswers::UnderWay
        } else if now_ms < self.started_ms + SAID_AGAIN_WITHIN_MS {
            EarlierAnswers::Unspecified
        } else {
            EarlierAnswers::Arrived
        };
        *count += 1;
        drop(under_way);
        (InFlightGuard { all: self.clone(), role: role.clone() }, earlier)
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut under_way = self.all.lock();
        if let Some(count) = under_way.get_mut(&self.role) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.role);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_says_what_is_known_of_those_before_it() {
        let sending = InFlight::new();
        let begin = |role, after_ms| sending.begin_at(role, sending.started_ms + after_ms);
        let later = SAID_AGAIN_WITHIN_MS;
        let (a, b) = ("A".parse().expect("an id"), "B".parse().expect("an id"));
        let (first, earlier) = begin(&a, later - 1);
        assert_eq!(earlier, EarlierAnswers::Unspecified, "the node started just now");
        assert_eq!(begin(&a, later - 1).1, EarlierAnswers::UnderWay);
        assert_eq!(begin(&b, later - 1).1, EarlierAnswers::Unspecified, "roles are apart");
        assert_eq!(begin(&a, later).1, EarlierAnswers::UnderWay);
        drop(first);
        assert_eq!(begin(&a, later).1, EarlierAnswers::Arrived);
        assert!(sending.lock().is_empty());
    }
}
