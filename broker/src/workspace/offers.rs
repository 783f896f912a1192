//! To which worker each open task was offered, and to which node each step that is ready.
//!
//! What comes free wakes one of those that wait and not all: the one that waits the longest is
//! offered it for a while, then the next; at once if it declines. An offer keeps nobody from
//! claiming. Soft state: after a restart nobody was offered anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use tasuki_proto::id::Timestamp;

/// How long one worker is offered a task, in milliseconds: a model that was just woken needs some
/// seconds to claim.
pub(super) const TASK_OFFER_MS: u64 = 30_000;

/// The same of a step, in milliseconds: a node claims at once.
pub(super) const STEP_OFFER_MS: u64 = 5_000;

#[derive(Debug)]
pub(super) struct Offers<K, W> {
    lasts_ms: u64,
    by_key: BTreeMap<K, (W, Timestamp)>,
    due: BTreeSet<(Timestamp, K)>,
}

impl<K: Ord + Copy, W: Ord + Clone> Offers<K, W> {
    pub(super) fn new(lasts_ms: u64) -> Self {
        Self { lasts_ms, by_key: BTreeMap::new(), due: BTreeSet::new() }
    }

    /// Offers something, unless it is offered to the same one already.
    pub(super) fn offer(&mut self, now: Timestamp, key: K, to: &W) {
        if self.by_key.get(&key).is_some_and(|(other, _)| other == to) {
            return;
        }
        self.remove(key);
        let until = now.plus_millis(self.lasts_ms);
        self.by_key.insert(key, (to.clone(), until));
        self.due.insert((until, key));
    }

    /// It was claimed.
    pub(super) fn remove(&mut self, key: K) {
        if let Some((_, until)) = self.by_key.remove(&key) {
            self.due.remove(&(until, key));
        }
    }

    /// Ends what was offered long enough. Returns what that was.
    pub(super) fn take_due(&mut self, now: Timestamp) -> BTreeSet<K> {
        let mut ended = BTreeSet::new();
        while let Some((until, key)) = self.due.first().copied()
            && until <= now
        {
            self.remove(key);
            ended.insert(key);
        }
        ended
    }

    /// Ends what this one was offered. Returns what that was.
    pub(super) fn decline(&mut self, by: &W) -> BTreeSet<K> {
        let own = self.by_key.iter().filter(|(_, (other, _))| other == by);
        let own: BTreeSet<K> = own.map(|(key, _)| *key).collect();
        own.iter().for_each(|key| self.remove(*key));
        own
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.due.first().map(|(until, _)| *until)
    }

    /// Whether something is offered to nobody but this one.
    pub(super) fn is_free(&self, key: K, to: Option<&W>) -> bool {
        self.by_key.get(&key).is_none_or(|(other, _)| Some(other) == to)
    }

    /// What of these this one is offered already.
    pub(super) fn of<'a>(&'a self, keys: RangeInclusive<K>, to: &'a W) -> impl Iterator<Item = K> {
        let own = self.by_key.range(keys);
        own.filter(move |(_, (other, _))| other == to).map(|(key, _)| *key)
    }
}

#[cfg(test)]
mod tests {
    use tasuki_proto::{
        id::RoleId,
        swarm::{IssueId, TaskNumber},
    };

    use super::*;

    #[test]
    fn a_task_is_offered_to_one_at_a_time() {
        let at = Timestamp::from_millis;
        let (a, b): (RoleId, RoleId) = ("A".parse().unwrap(), "B".parse().unwrap());
        let task = (IssueId::default(), TaskNumber(1));
        let mut offers = Offers::new(30);
        assert!(offers.is_free(task, None));
        offers.offer(at(0), task, &a);
        offers.offer(at(10), task, &a);
        assert_eq!(offers.next_deadline(), Some(at(30)), "asking again is no new offer");
        assert!(offers.is_free(task, Some(&a)) && !offers.is_free(task, Some(&b)));
        assert_eq!(offers.of(task..=task, &a).collect::<Vec<_>>(), [task]);
        assert!(offers.take_due(at(29)).is_empty());
        assert_eq!(offers.take_due(at(30)), [task].into());
        assert!(offers.is_free(task, Some(&b)) && offers.next_deadline().is_none());
        offers.offer(at(30), task, &b);
        offers.remove(task);
        assert!(offers.next_deadline().is_none(), "claimed");
        offers.offer(at(30), task, &b);
        assert!(offers.decline(&a).is_empty() && !offers.is_free(task, Some(&a)));
        assert_eq!(offers.decline(&b), [task].into());
        assert!(offers.is_free(task, Some(&a)) && offers.next_deadline().is_none());
    }
}
